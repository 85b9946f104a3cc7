//! `--format`, compiled once into pieces.

use super::{
    atom::{Atom, Field, IdForm, NameForm},
    quote::Quote,
};
use crate::{
    failure::{Failure, Result, fatal},
    numbers,
};
use bstr::{BStr, BString, ByteSlice};

/// A compiled format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    /// The pieces, in order.
    pub pieces: Vec<Piece>,
    /// The pieces in a cheaper form, if all of them are common and nothing is misplaced.
    pub usual: Option<Vec<Usual>>,
    /// Whether the output may leave the terminal colored.
    pub colored: bool,
    /// Whether `%(*if)`, `%(*align)` or the like is in it, so that a broken tag is refused.
    pub wants_tags: bool,
    /// A mistake in the order of `%(if)`, `%(end)` and the like, which is reported only if a ref is shown.
    pub misplaced: Option<&'static str>,
}

/// A piece that lists of millions of refs commonly use. Each except the type costs little more than copying its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Usual {
    Byte(u8),
    /// These bytes.
    Text(BString),
    /// The full refname.
    Refname,
    /// All digits of the object id.
    Objectname,
    /// The object's type.
    Objecttype,
}

impl Usual {
    fn of(piece: &Piece) -> Option<Self> {
        match piece {
            Piece::Text(text) => match text[..] {
                [byte] => Some(Usual::Byte(byte)),
                _ => Some(Usual::Text(text.clone())),
            },
            Piece::Atom(Atom { peeled: false, field: Field::Refname(NameForm::Full) }) => Some(Usual::Refname),
            Piece::Atom(Atom { peeled: false, field: Field::Objectname(IdForm::Full) }) => Some(Usual::Objectname),
            Piece::Atom(Atom { peeled: false, field: Field::Objecttype }) => Some(Usual::Objecttype),
            _ => None,
        }
    }
}

/// A piece of a format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// These bytes.
    Text(BString),
    /// A field.
    Atom(Atom),
    /// `%(align:...)` to `%(end)`.
    Align(Align, Vec<Piece>),
    /// `%(if)` to `%(end)`.
    If(Box<If>),
}

/// How text is aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Align {
    /// The minimum width in columns of a terminal.
    pub width: usize,
    /// The position of the text.
    pub side: Side,
}

/// The position of aligned text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Padding follows the text.
    Left,
    /// Padding precedes the text.
    Right,
    /// Padding is on both sides.
    Middle,
}

/// A conditional piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct If {
    /// The pieces whose value is tested.
    pub condition: Vec<Piece>,
    /// The test of the value of `condition`.
    pub test: Test,
    /// Written if the test succeeds.
    pub then: Vec<Piece>,
    /// Written if the test fails.
    pub otherwise: Vec<Piece>,
}

/// The test of a conditional piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Test {
    /// The value contains anything but white space.
    NotBlank,
    /// The value is equal to this.
    Equals(BString),
    /// The value is not equal to this.
    NotEquals(BString),
}

/// The format that git uses by default.
pub const DEFAULT: &str = "%(objectname) %(objecttype)\t%(refname)";

/// A group that has not been closed yet.
enum Open {
    Align(Align, Vec<Piece>),
    If { test: Test, stage: Stage, condition: Vec<Piece>, then: Vec<Piece>, otherwise: Vec<Piece> },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Condition,
    Then,
    Else,
}

#[derive(Default)]
struct Builder {
    top: Vec<Piece>,
    open: Vec<Open>,
    colored: bool,
    wants_tags: bool,
    misplaced: Option<&'static str>,
}

impl Format {
    /// Compiles a format, whose fields [`Atom::parse`] parses.
    ///
    /// # Errors
    ///
    /// Returns [`ParseError::Unclosed`] for a bracket that is not closed, and [`ParseError::Failure`] for any other
    /// mistake, except for those that [`Format::misplaced`] has.
    pub fn parse(
        format: &BStr,
        quote: Quote,
        find: &mut dyn FnMut(&BStr) -> Result<()>,
    ) -> std::result::Result<Self, ParseError> {
        let mut builder = Builder::default();
        let mut text = BString::default();
        let mut rest: &[u8] = format;
        while let Some(percent) = rest.find_byte(b'%') {
            text.extend_from_slice(&rest[..percent]);
            rest = &rest[percent..];
            match rest {
                [b'%', b'%', tail @ ..] => {
                    text.push(b'%');
                    rest = tail;
                }
                [b'%', b'(', inner @ ..] => {
                    let Some(close) = inner.find_byte(b')') else {
                        return Err(ParseError::Unclosed(rest.into()));
                    };
                    builder.text(std::mem::take(&mut text));
                    builder.atom(&inner[..close], quote, find).map_err(ParseError::Failure)?;
                    rest = &inner[close + 1..];
                }
                [b'%', high, low, tail @ ..] if hex(*high).is_some() && hex(*low).is_some() => {
                    text.push(hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0));
                    rest = tail;
                }
                _ => {
                    text.push(b'%');
                    rest = &rest[1..];
                }
            }
        }
        text.extend_from_slice(rest);
        builder.text(text);
        if !builder.open.is_empty() {
            builder.misplace("%(end) atom missing");
        }
        let usual = builder.top.iter().map(Usual::of).collect();
        let usual = if builder.misplaced.is_some() { None } else { usual };
        let Builder { top: pieces, colored, wants_tags, misplaced, .. } = builder;
        Ok(Format { pieces, usual, colored, wants_tags, misplaced })
    }
}

/// The reason why a format cannot be compiled.
#[derive(Debug)]
pub enum ParseError {
    /// A `%(` without `)`, with everything after it.
    Unclosed(BString),
    /// Any other mistake.
    Failure(Failure),
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

impl Builder {
    /// Returns the list to which the next piece is added.
    fn pieces(&mut self) -> &mut Vec<Piece> {
        match self.open.last_mut() {
            None => &mut self.top,
            Some(Open::Align(_, body)) => body,
            Some(Open::If { stage, condition, then, otherwise, .. }) => match stage {
                Stage::Condition => condition,
                Stage::Then => then,
                Stage::Else => otherwise,
            },
        }
    }

    fn text(&mut self, text: BString) {
        if !text.is_empty() {
            self.pieces().push(Piece::Text(text));
        }
    }

    /// Records the first mistake.
    fn misplace(&mut self, what: &'static str) {
        self.misplaced.get_or_insert(what);
    }

    fn atom(&mut self, inner: &[u8], quote: Quote, find: &mut dyn FnMut(&BStr) -> Result<()>) -> Result<()> {
        let structure = Structure::parse(inner)?;
        self.wants_tags |= structure.is_some() && inner.starts_with(b"*");
        match structure {
            Some(Structure::Align(align)) => self.open.push(Open::Align(align, Vec::new())),
            Some(Structure::If(test)) => {
                let (condition, then, otherwise) = Default::default();
                self.open.push(Open::If { test, stage: Stage::Condition, condition, then, otherwise });
            }
            Some(Structure::Then) => match self.open.last_mut() {
                Some(Open::If { stage: stage @ Stage::Condition, .. }) => *stage = Stage::Then,
                Some(Open::If { .. }) => self.misplace("%(then) atom used more than once"),
                _ => self.misplace("%(then) atom used without a %(if) atom"),
            },
            Some(Structure::Else) => match self.open.last_mut() {
                Some(Open::If { stage: stage @ Stage::Then, .. }) => *stage = Stage::Else,
                Some(Open::If { stage: Stage::Condition, .. }) => {
                    self.misplace("%(else) atom used without a %(then) atom");
                }
                Some(Open::If { stage: Stage::Else, .. }) => self.misplace("%(else) atom used more than once"),
                _ => self.misplace("%(else) atom used without a %(if) atom"),
            },
            Some(Structure::End) => self.end(),
            None => {
                let atom = Atom::parse(inner.as_bstr(), find)?;
                match &atom.field {
                    Field::Color(sequence) => self.colored = sequence != "\x1b[m",
                    Field::Rest => return fatal!["this command reject atom %(", inner, ")"],
                    Field::Raw if matches!(quote, Quote::Shell | Quote::Python | Quote::Tcl) => {
                        return fatal!["--format=", inner, " cannot be used with --python, --shell, --tcl"];
                    }
                    _ => {}
                }
                self.pieces().push(Piece::Atom(atom));
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        let piece = match self.open.pop() {
            None => return self.misplace("%(end) atom used without corresponding atom"),
            Some(Open::Align(align, body)) => Piece::Align(align, body),
            Some(Open::If { stage: Stage::Condition, .. }) => {
                return self.misplace("%(if) atom used without a %(then) atom");
            }
            Some(Open::If { test, condition, then, otherwise, .. }) => {
                Piece::If(Box::new(If { condition, test, then, otherwise }))
            }
        };
        self.pieces().push(piece);
    }
}

/// A field that shows nothing itself, but affects others.
pub(super) enum Structure {
    Align(Align),
    If(Test),
    Then,
    Else,
    End,
}

impl Structure {
    /// Parses the text between the brackets. Returns `None` for any other field.
    pub(super) fn parse(text: &[u8]) -> Result<Option<Self>> {
        let (name, argument) = match text.find_byte(b':') {
            Some(colon) => (&text[..colon], &text[colon + 1..]),
            None => (text, &b""[..]),
        };
        Ok(Some(match name.strip_prefix(b"*").unwrap_or(name) {
            b"align" => Structure::Align(parse_align(argument)?),
            b"if" => Structure::If(parse_test(argument)?),
            b"then" => Structure::Then,
            b"else" => Structure::Else,
            b"end" => Structure::End,
            _ => return Ok(None),
        }))
    }
}

fn parse_align(arguments: &[u8]) -> Result<Align> {
    if arguments.is_empty() {
        return fatal!["expected format: %(align:<width>,<position>)"];
    }
    let mut width = None;
    let mut side = Side::Left;
    for argument in arguments.split(|byte| *byte == b',') {
        let position = argument.strip_prefix(b"position=");
        let number = numbers::unsigned_int(argument.strip_prefix(b"width=").unwrap_or(argument));
        match (position.unwrap_or(argument), number) {
            (b"left", _) => side = Side::Left,
            (b"right", _) => side = Side::Right,
            (b"middle", _) => side = Side::Middle,
            (other, _) if position.is_some() => return fatal!["unrecognized position:", other],
            (_, Some(number)) => width = Some(number as usize),
            _ => match argument.strip_prefix(b"width=") {
                Some(value) => return fatal!["unrecognized width:", value],
                None => return fatal!["unrecognized %(align) argument: ", argument],
            },
        }
    }
    match width {
        // As in git, the width must be in the range of an int.
        Some(width) if width <= u32::MAX as usize / 2 => Ok(Align { width, side }),
        _ => fatal!["positive width expected with the %(align) atom"],
    }
}

fn parse_test(argument: &[u8]) -> Result<Test> {
    if argument.is_empty() {
        Ok(Test::NotBlank)
    } else if let Some(value) = argument.strip_prefix(b"equals=") {
        Ok(Test::Equals(value.into()))
    } else if let Some(value) = argument.strip_prefix(b"notequals=") {
        Ok(Test::NotEquals(value.into()))
    } else {
        fatal!["unrecognized %(if) argument: ", argument]
    }
}
