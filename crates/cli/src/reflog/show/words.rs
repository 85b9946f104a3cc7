//! Decides which command lines are supported, and parses them. All others are left to git.

use crate::for_each_ref::{color, date::DateForm};
use bstr::{BStr, ByteSlice};
use std::{ffi::OsString, os::unix::ffi::OsStrExt};

/// How an id is abbreviated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Digits {
    All,
    /// As `core.abbrev` says.
    Configured,
    AtLeast(usize),
}

/// The format of an entry.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// `ID NAME@{N}: MESSAGE`, with a time in place of `N` if the selector is dated.
    Oneline,
    Format {
        pieces: Vec<Piece>,
        /// Whether entries are separated, rather than terminated, by a newline (by a NUL with `-z`).
        separates: bool,
    },
}

/// A part of a format.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Piece {
    Text(Vec<u8>),
    Id,
    ShortId,
    Selector,
    ShortSelector,
    Message,
    Name,
    Email,
}

/// What the command line says.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Wish<'w> {
    /// The ref, optionally with one of its entries.
    pub(super) name: Option<&'w BStr>,
    /// Whether `--` says that the name is not a file.
    pub(super) is_no_path: bool,
    pub(super) skip: usize,
    pub(super) limit: Option<usize>,
    /// The format of times, if one was given.
    pub(super) date: Option<DateForm>,
    pub(super) digits: Digits,
    /// Whether ids are abbreviated in [`Shape::Oneline`].
    pub(super) abbreviates: bool,
    pub(super) shape: Shape,
    /// Whether git loads notes, although it shows none here. Git loads them unless a format was asked for.
    pub(super) loads_notes: bool,
    pub(super) ends_with_nul: bool,
}

impl<'w> Wish<'w> {
    /// Parses the words. Returns `None` if one is not supported.
    pub(super) fn of(words: &'w [OsString]) -> Option<Self> {
        let mut wish = Wish {
            name: None,
            is_no_path: false,
            skip: 0,
            limit: None,
            date: None,
            digits: Digits::Configured,
            abbreviates: true,
            shape: Shape::Oneline,
            loads_notes: true,
            ends_with_nul: false,
        };
        let mut rest = words.iter().map(|word| word.as_bytes());
        while let Some(word) = rest.next() {
            match word {
                b"--" => {
                    // Paths would follow.
                    wish.is_no_path = true;
                    return rest.next().is_none().then_some(wish);
                }
                b"-n" | b"--max-count" => wish.limit = Some(number(rest.next()?)?),
                b"--skip" => wish.skip = number(rest.next()?)?,
                b"--date" => wish.date = Some(DateForm::parse(rest.next()?).ok()?),
                [b'-', ..] => wish.option(word)?,
                [] => return None,
                _ if wish.name.is_some() => return None,
                _ => wish.name = Some(word.as_bstr()),
            }
        }
        Some(wish)
    }

    /// Parses an option that consists of one word.
    fn option(&mut self, word: &[u8]) -> Option<()> {
        match word {
            b"--oneline" => (self.shape, self.abbreviates, self.loads_notes) = (Shape::Oneline, true, false),
            b"--abbrev-commit" => self.abbreviates = true,
            b"--no-abbrev-commit" => self.abbreviates = false,
            b"--abbrev" => self.digits = Digits::Configured,
            b"--no-abbrev" => self.digits = Digits::All,
            b"--relative-date" => self.date = DateForm::parse(b"relative").ok(),
            b"-z" => self.ends_with_nul = true,
            // These options only state the default.
            b"-g" | b"--walk-reflogs" => {}
            b"--no-decorate" | b"--decorate=no" | b"--decorate=auto" => {}
            b"--no-color" | b"--color=never" | b"--color=auto" => {}
            _ => return self.option_with_value(word),
        }
        Some(())
    }

    fn option_with_value(&mut self, word: &[u8]) -> Option<()> {
        if let Some((name, value)) = word.split_once_str("=") {
            match name {
                b"--max-count" => self.limit = Some(number(value)?),
                b"--skip" => self.skip = number(value)?,
                b"--abbrev" => self.digits = Digits::AtLeast(number(value)?),
                b"--date" => self.date = Some(DateForm::parse(value).ok()?),
                b"--pretty" | b"--format" => (self.shape, self.loads_notes) = (shape(value)?, false),
                _ => return None,
            }
            return Some(());
        }
        let short = word.strip_prefix(b"-n").or_else(|| word.strip_prefix(b"-"));
        self.limit = Some(number(short?)?);
        Some(())
    }
}

/// Parses one to nine digits, which git reads as the same number in all options.
fn number(text: &[u8]) -> Option<usize> {
    let is_plain = (1..10).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    is_plain.then(|| text.to_str().ok()?.parse().ok())?
}

fn shape(value: &[u8]) -> Option<Shape> {
    if value == b"oneline" {
        return Some(Shape::Oneline);
    }
    let (format, separates) = match (value.strip_prefix(b"format:"), value.strip_prefix(b"tformat:")) {
        (Some(format), _) => (format, true),
        (None, Some(format)) => (format, false),
        // A word without a field is the name of a format.
        (None, None) if value.contains(&b'%') => (value, false),
        (None, None) => return None,
    };
    // An empty format is left to git, which then shows nothing at all.
    (!format.is_empty()).then_some(())?;
    Some(Shape::Format { pieces: pieces(format)?, separates })
}

fn pieces(format: &[u8]) -> Option<Vec<Piece>> {
    const FIELDS: [(&str, Piece); 7] = [
        ("H", Piece::Id),
        ("h", Piece::ShortId),
        ("gD", Piece::Selector),
        ("gd", Piece::ShortSelector),
        ("gs", Piece::Message),
        ("gn", Piece::Name),
        ("ge", Piece::Email),
    ];
    let (mut pieces, mut text, mut rest) = (Vec::new(), Vec::new(), format);
    while let Some((before, after)) = rest.split_once_str("%") {
        text.extend_from_slice(before);
        if let Some((byte, after)) = byte(after) {
            text.push(byte);
            rest = after;
        } else if let Some(after) = color_end(after) {
            rest = after;
        } else {
            let field =
                FIELDS.into_iter().find_map(|(name, piece)| Some((after.strip_prefix(name.as_bytes())?, piece)));
            let (after, piece) = field?;
            pieces.extend((!text.is_empty()).then(|| Piece::Text(std::mem::take(&mut text))));
            pieces.push(piece);
            rest = after;
        }
    }
    text.extend_from_slice(rest);
    pieces.extend((!text.is_empty()).then_some(Piece::Text(text)));
    Some(pieces)
}

/// Returns the byte that a field stands for, and the rest.
fn byte(field: &[u8]) -> Option<(u8, &[u8])> {
    match field {
        [b'%', rest @ ..] => Some((b'%', rest)),
        [b'n', rest @ ..] => Some((b'\n', rest)),
        [b'x', high, low, rest @ ..] => {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let value = digit(*high)? * 16 + digit(*low)?;
            Some((u8::try_from(value).ok()?, rest))
        }
        _ => None,
    }
}

/// Returns what follows a color field, for which nothing is shown because colors are off.
fn color_end(field: &[u8]) -> Option<&[u8]> {
    let field = field.strip_prefix(b"C")?;
    if let Some((name, rest)) = field.strip_prefix(b"(").and_then(|inside| inside.split_once_str(")")) {
        let color = name.strip_prefix(b"auto,").unwrap_or(name);
        return (color == b"auto" || color::sequence(color.into()).is_some()).then_some(rest);
    }
    ["red", "green", "blue", "reset"].iter().find_map(|name| field.strip_prefix(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect()
    }

    #[test]
    fn options_are_understood_in_each_spelling() {
        for line in ["-n 3", "-n3", "-3", "--max-count=3", "--max-count 3", "-5 -n3"] {
            assert_eq!(Wish::of(&words(line)).and_then(|wish| wish.limit), Some(3), "{line}");
        }
        let line = words("--skip=2 --no-abbrev-commit --abbrev=9 -z main --");
        let wish = Wish::of(&line).unwrap();
        assert_eq!((wish.skip, wish.abbreviates, wish.digits), (2, false, Digits::AtLeast(9)));
        assert!(wish.ends_with_nul && wish.is_no_path);
        assert_eq!(wish.name, Some("main".into()));
        assert!(Wish::of(&words("--no-abbrev-commit --oneline")).unwrap().abbreviates);
    }

    #[test]
    fn what_git_alone_knows_is_left_to_it() {
        for line in [
            "-p",
            "--stat",
            "--all",
            "--grep=x",
            "--since=1.day",
            "a b",
            "-- a",
            "--end-of-options a",
            "-n",
            "-n -1",
            "-n1x",
            "--skip=",
            "--max-count=+1",
            "--decorate",
            "--color",
            "--date=no-such",
            "--format=medium",
            "--format=",
            "--format=%s",
            "--format=%gX",
            "--format=%",
            "--format=%C(always,red)",
            "--format=%xzz",
            "--pretty",
            "-q",
            "--abbrev=x",
            "--abbrev=0000000000004",
        ] {
            assert_eq!(Wish::of(&words(line)), None, "{line}");
        }
        assert_eq!(Wish::of(&["".into()]), None);
    }

    #[test]
    fn a_format_becomes_text_and_fields() {
        let text = |text: &str| Piece::Text(text.into());
        for (format, expected) in [
            ("%h%H", vec![Piece::ShortId, Piece::Id]),
            ("a%x09%%%nb", vec![text("a\t%\nb")]),
            (
                "%C(auto)%gd %C(auto,red)%Cred%gs%Creset!",
                vec![Piece::ShortSelector, text(" "), Piece::Message, text("!")],
            ),
        ] {
            assert_eq!(pieces(format.as_bytes()), Some(expected), "{format}");
        }
        for (value, separates) in [("format:%h", true), ("tformat:%h", false), ("%h", false)] {
            assert_eq!(shape(value.as_bytes()), Some(Shape::Format { pieces: vec![Piece::ShortId], separates }));
        }
        assert_eq!(shape(b"oneline"), Some(Shape::Oneline));
    }
}
