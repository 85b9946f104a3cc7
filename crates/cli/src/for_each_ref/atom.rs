//! What `%(...)` can name. See git-for-each-ref(1), "FIELD NAMES".

use super::{color, date::DateForm};
use crate::{
    failure::{Failure, Result, fatal, message},
    numbers,
};
use bstr::{BStr, BString, ByteSlice};

/// A field, with `*` or without.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Atom {
    /// `*`: the field of the object behind an annotated tag.
    pub peeled: bool,
    /// What it shows.
    pub field: Field,
}

/// What an atom shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    Refname(NameForm),
    Symref(NameForm),
    Head,
    /// `upstream` and `push`.
    Counterpart(Direction, CounterpartForm),
    Worktreepath,
    /// `ahead-behind`: how many commits it is ahead of a commit, by this name, and behind it.
    AheadBehind(BString),
    Objectname(IdForm),
    Objecttype,
    Objectsize,
    /// `color`: the bytes that switch it on.
    Color(BString),
    Tree(IdForm),
    /// `parent`: all parents, separated by spaces.
    Parent(IdForm),
    Numparent,
    /// `object`: what a tag points at.
    TagTarget,
    /// `type`: the type of what a tag points at.
    TagType,
    /// `tag`: the name in a tag.
    TagName,
    /// `author`, `committername`, `taggerdate:short` and so on.
    Person(Role, Part),
    Subject {
        /// In a form that suits a file name.
        sanitize: bool,
    },
    /// `body`: what follows the subject, a tag's signature included.
    Body,
    /// `contents` and its parts.
    Contents(Contents),
    Raw,
    RawSize,
    /// `flag`: whether the ref is symbolic, and whether it is packed. git has it for its tests.
    Flag,
    /// `rest`, which only other commands of git have.
    Rest,
    /// What git accepts and shows nothing of.
    Blank {
        /// Whether the object must be there all the same.
        of_object: bool,
    },
}

/// Which of a branch's other sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// What it is merged with.
    Upstream,
    /// Where it is pushed to.
    Push,
}

/// The shown field of a branch's other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterpartForm {
    /// The ref here that stands for it.
    Name(NameForm),
    /// `[ahead 1, behind 2]`, `[gone]`.
    Track {
        brackets: bool,
    },
    /// `<>`, `>`, `<` or `=`.
    TrackShort,
    RemoteName,
    /// The ref's name there.
    RemoteRef,
}

/// How a refname is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameForm {
    /// As it is.
    Full,
    /// As short as it is unambiguous.
    Short,
    /// Without this number of components at the front; negative: with that number left.
    Lstrip(i32),
    /// Without this number of components at the end; negative: with that number left.
    Rstrip(i32),
}

/// How an object id is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdForm {
    /// As it is.
    Full,
    /// Shortened to at least this number of digits, or git's default, as far as it is unambiguous.
    Short(Option<usize>),
}

/// Whose line of a commit or tag it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A commit's author.
    Author,
    /// A commit's committer.
    Committer,
    /// A tag's tagger.
    Tagger,
    /// The committer or the tagger.
    Creator,
}

/// What of a person's line is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    Name,
    /// The address with its brackets.
    Email,
    /// The address alone.
    EmailTrimmed,
    /// What stands before the `@`.
    EmailLocal,
    /// The time, or why its form is none, which git says when there is a time to show.
    Date(std::result::Result<DateForm, BString>),
}

/// What of a message is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// All of it.
    Whole,
    Size,
    /// The first paragraph as one line.
    Subject,
    /// What follows the first paragraph, without a signature.
    Body,
    /// The signature of a tag.
    Signature,
    /// The first lines.
    Lines(usize),
}

impl Atom {
    /// Reads what stands between the brackets. `find` is told the commits that are named there, and looks for them at once.
    pub fn parse(text: &BStr, find: &mut dyn FnMut(&BStr) -> Result<()>) -> Result<Self> {
        let bytes: &[u8] = text;
        let (peeled, rest) = match bytes.strip_prefix(b"*") {
            Some(rest) => (true, rest),
            None => (false, bytes),
        };
        if rest.is_empty() {
            return fatal!["malformed field name: ", text];
        }
        let (name, argument) = match rest.find_byte(b':') {
            Some(colon) => (&rest[..colon], Some(&rest[colon + 1..]).filter(|argument| !argument.is_empty())),
            None => (rest, None),
        };
        let field = Spelling { text, name, argument, peeled, has_colon: name.len() < rest.len() }.field()?;
        if let Field::AheadBehind(_) = &field {
            find(text)?;
        }
        Ok(Atom { peeled, field })
    }

    /// Whether the object itself must be read, not only its type and size.
    pub fn needs_object(&self) -> bool {
        !matches!(
            self.field,
            Field::Refname(_)
                | Field::Symref(_)
                | Field::Head
                | Field::Counterpart(..)
                | Field::Worktreepath
                | Field::AheadBehind(_)
                | Field::Objectname(_)
                | Field::Objecttype
                | Field::Objectsize
                | Field::Color(_)
                | Field::Flag
                | Field::Rest
                | Field::Blank { of_object: false }
        )
    }
}

/// An atom as it is written.
struct Spelling<'a> {
    text: &'a BStr,
    name: &'a [u8],
    /// What follows the colon, if it is not empty.
    argument: Option<&'a [u8]>,
    peeled: bool,
    has_colon: bool,
}

impl Spelling<'_> {
    fn field(&self) -> Result<Field> {
        let field = match self.name {
            b"refname" => Field::Refname(self.name_form()?),
            b"symref" => Field::Symref(self.name_form()?),
            b"HEAD" => self.bare(Field::Head)?,
            b"upstream" => Field::Counterpart(Direction::Upstream, self.counterpart_form()?),
            b"push" => Field::Counterpart(Direction::Push, self.counterpart_form()?),
            b"worktreepath" => Field::Worktreepath,
            b"ahead-behind" => match self.argument {
                Some(name) => Field::AheadBehind(name.into()),
                None => return fatal!["expected format: %(ahead-behind:<committish>)"],
            },
            b"objectname" => Field::Objectname(self.id_form()?),
            b"objecttype" => self.bare(Field::Objecttype)?,
            b"objectsize" => self.only(Field::Objectsize)?,
            b"color" => match self.argument {
                Some(name) => match color::sequence(name.as_bstr()) {
                    Some(sequence) => Field::Color(sequence),
                    None => {
                        crate::failure::say("error: ", &message!["invalid color value: ", name]);
                        return fatal!["unrecognized color: %(color:", name, ")"];
                    }
                },
                None => return fatal!["expected format: %(color:<color>)"],
            },
            b"tree" => Field::Tree(self.id_form()?),
            b"parent" => Field::Parent(self.id_form()?),
            b"numparent" => Field::Numparent,
            b"object" => Field::TagTarget,
            b"type" => Field::TagType,
            b"tag" => Field::TagName,
            b"subject" => match self.argument {
                None => Field::Subject { sanitize: false },
                Some(b"sanitize") => Field::Subject { sanitize: true },
                Some(_) => return self.unrecognized(),
            },
            b"body" if self.has_colon => self.bare(Field::Blank { of_object: true })?,
            b"body" => Field::Body,
            b"flag" => Field::Flag,
            b"rest" => self.bare(Field::Rest)?,
            b"contents" => self.contents()?,
            b"raw" => match self.argument {
                None => Field::Raw,
                Some(b"size") => Field::RawSize,
                Some(_) => return self.unrecognized(),
            },
            _ => return self.person(),
        };
        Ok(field)
    }

    fn unrecognized<T>(&self) -> Result<T> {
        fatal!["unrecognized %(", self.name, ") argument: ", self.argument.unwrap_or_default()]
    }

    /// Of fields that stand for several names, git tells the name as it was written.
    fn unrecognized_here<T>(&self, argument: &[u8]) -> Result<T> {
        let star = if self.peeled { "*" } else { "" };
        fatal!["unrecognized %(", star, self.name, ") argument: ", argument]
    }

    fn unknown<T>(&self) -> Result<T> {
        fatal!["unknown field name: ", self.text]
    }

    fn bare(&self, field: Field) -> Result<Field> {
        if self.argument.is_some() {
            return fatal!["%(", self.name, ") does not take arguments"];
        }
        Ok(field)
    }

    fn only(&self, field: Field) -> Result<Field> {
        if self.argument.is_some() { self.unrecognized() } else { Ok(field) }
    }

    fn name_form(&self) -> Result<NameForm> {
        let Some(argument) = self.argument else {
            return Ok(NameForm::Full);
        };
        if argument == b"short" {
            return Ok(NameForm::Short);
        }
        let number = |form: &str, text: &[u8]| {
            numbers::int(text).ok_or_else(|| Failure::Fatal(message!["Integer value expected refname:", form, text]))
        };
        if let Some(count) = argument.strip_prefix(b"lstrip=").or_else(|| argument.strip_prefix(b"strip=")) {
            Ok(NameForm::Lstrip(number("lstrip=", count)?))
        } else if let Some(count) = argument.strip_prefix(b"rstrip=") {
            Ok(NameForm::Rstrip(number("rstrip=", count)?))
        } else {
            self.unrecognized_here(argument)
        }
    }

    /// Of several words the last one counts; a form of the name must stand alone.
    fn counterpart_form(&self) -> Result<CounterpartForm> {
        let Some(argument) = self.argument else { return Ok(CounterpartForm::Name(NameForm::Full)) };
        let (mut form, mut brackets) = (CounterpartForm::Name(NameForm::Full), true);
        for word in argument.split(|byte| *byte == b',') {
            match word {
                b"track" => form = CounterpartForm::Track { brackets: true },
                b"trackshort" => form = CounterpartForm::TrackShort,
                b"remotename" => form = CounterpartForm::RemoteName,
                b"remoteref" => form = CounterpartForm::RemoteRef,
                b"nobracket" => brackets = false,
                _ => return Ok(CounterpartForm::Name(self.name_form()?)),
            }
        }
        Ok(match form {
            CounterpartForm::Track { .. } => CounterpartForm::Track { brackets },
            form => form,
        })
    }

    fn id_form(&self) -> Result<IdForm> {
        let Some(argument) = self.argument else {
            return Ok(IdForm::Full);
        };
        if argument == b"short" {
            return Ok(IdForm::Short(None));
        }
        let Some(digits) = argument.strip_prefix(b"short=") else {
            return self.unrecognized_here(argument);
        };
        match numbers::unsigned_int(digits).filter(|digits| *digits > 0) {
            Some(count) => Ok(IdForm::Short(Some(count as usize))),
            None => fatal!["positive value expected '", digits, "' in %(", self.text, ")"],
        }
    }

    fn contents(&self) -> Result<Field> {
        let contents = match self.argument {
            None => Contents::Whole,
            Some(b"size") => Contents::Size,
            Some(b"subject") => Contents::Subject,
            Some(b"body") => Contents::Body,
            Some(b"signature") => Contents::Signature,
            Some(argument) => match argument.strip_prefix(b"lines=") {
                None => return self.unrecognized(),
                Some(count) => match numbers::unsigned_int(count) {
                    Some(count) => Contents::Lines(count as usize),
                    None => return fatal!["positive value expected contents:", argument],
                },
            },
        };
        Ok(Field::Contents(contents))
    }

    fn person(&self) -> Result<Field> {
        const ROLES: [(&[u8], Role); 4] = [
            (b"author", Role::Author),
            (b"committer", Role::Committer),
            (b"tagger", Role::Tagger),
            (b"creator", Role::Creator),
        ];
        let Some((part, role)) = ROLES.iter().find_map(|(word, role)| Some((self.name.strip_prefix(*word)?, *role)))
        else {
            return self.unknown();
        };
        let part = match part {
            b"" if self.has_colon && role != Role::Creator => return Ok(Field::Blank { of_object: true }),
            b"" => Part::Whole,
            b"date" if self.has_colon => Part::Date(DateForm::parse(self.argument.unwrap_or_default())),
            b"date" => Part::Date(Ok(DateForm::DEFAULT)),
            b"name" if role != Role::Creator => match self.argument {
                None => Part::Name,
                // Mail maps are not read here; to say so beats a name that is not mapped.
                Some(argument) if argument == b"mailmap" => return self.unknown(),
                Some(argument) => return self.unrecognized_here(argument),
            },
            b"email" if role != Role::Creator => self.email()?,
            _ => return self.unknown(),
        };
        Ok(Field::Person(role, part))
    }

    /// Several words may follow one another; the shortest form wins.
    fn email(&self) -> Result<Part> {
        let Some(mut rest) = self.argument else {
            return Ok(Part::Email);
        };
        let mut part = Part::Email;
        loop {
            let (word, tail) = if let Some(tail) = rest.strip_prefix(b"trim") {
                (Part::EmailTrimmed, tail)
            } else if let Some(tail) = rest.strip_prefix(b"localpart") {
                (Part::EmailLocal, tail)
            } else if rest.starts_with(b"mailmap") {
                return self.unknown();
            } else {
                return self.unrecognized_here(rest);
            };
            if part != Part::EmailLocal {
                part = word;
            }
            match tail {
                b"" => return Ok(part),
                [b',', next @ ..] => rest = next,
                _ => return self.unrecognized_here(tail),
            }
        }
    }
}
