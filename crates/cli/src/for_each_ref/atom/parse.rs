//! Parses the text between the brackets of a field, with git's messages about mistakes.

use super::{
    Atom, Contents, CounterpartForm, Direction, EmailForm, Field, IdForm, NameForm, Part, Role, SignaturePart,
};
use crate::{
    failure::{Failure, Result, fatal, message},
    for_each_ref::{color, date::DateForm, describe, trailers::TrailerForm},
    numbers,
};
use bstr::{BStr, ByteSlice};

impl Atom {
    /// Parses a field. If the field names a commit, `find` is called once with the whole text of the field, and must
    /// look the commit up.
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
        if let Field::AheadBehind(_) | Field::IsBase(_) = &field {
            find(text)?;
        }
        Ok(Atom { peeled, field })
    }
}

/// A field as it is written.
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
            b"ahead-behind" => Field::AheadBehind(self.committish()?.into()),
            b"is-base" => Field::IsBase(self.committish()?.into()),
            b"objectname" => Field::Objectname(self.id_form()?),
            b"objecttype" => self.bare(Field::Objecttype)?,
            b"objectsize" => match self.argument {
                None => Field::Objectsize,
                Some(b"disk") => Field::Disksize,
                Some(_) => return self.unrecognized(),
            },
            b"deltabase" => self.bare(Field::Deltabase)?,
            b"describe" => Field::Describe(describe::options(self.argument.unwrap_or_default())?),
            b"signature" => Field::Signature(self.signature()?),
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
            b"trailers" => Field::Trailers(TrailerForm::parse(self.argument.unwrap_or_default())?),
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

    /// Rejects an argument. Where git parses several fields with one function, git's message repeats the field as
    /// written, with a leading `*` if there is one.
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

    /// Returns the argument as the name of a commit, which is required.
    fn committish(&self) -> Result<&[u8]> {
        match self.argument {
            Some(name) => Ok(name),
            None => fatal!["expected format: %(", self.name, ":<committish>)"],
        }
    }

    fn signature(&self) -> Result<SignaturePart> {
        Ok(match self.argument {
            None => SignaturePart::Bare,
            Some(b"grade") => SignaturePart::Grade,
            Some(b"signer") => SignaturePart::Signer,
            Some(b"key") => SignaturePart::Key,
            Some(b"fingerprint") => SignaturePart::Fingerprint,
            Some(b"primarykeyfingerprint") => SignaturePart::PrimaryKeyFingerprint,
            Some(b"trustlevel") => SignaturePart::TrustLevel,
            Some(_) => return self.unrecognized(),
        })
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

    /// Reads the argument of `upstream` or `push`. The last of several words wins; `nobracket` combines with `track`.
    /// `short`, `lstrip=N` and `rstrip=N` must be the only word.
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
            Some(b"trailers") => return Ok(Field::Trailers(TrailerForm::default())),
            Some(argument) => {
                if let Some(options) = argument.strip_prefix(b"trailers:") {
                    return Ok(Field::Trailers(TrailerForm::parse(options)?));
                }
                let Some(count) = argument.strip_prefix(b"lines=") else { return self.unrecognized() };
                match numbers::unsigned_int(count) {
                    Some(count) => Contents::Lines(count as usize),
                    None => return fatal!["positive value expected contents:", argument],
                }
            }
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
                None => Part::Name { mapped: false },
                Some(b"mailmap") => Part::Name { mapped: true },
                Some(argument) => return self.unrecognized_here(argument),
            },
            b"email" if role != Role::Creator => self.email()?,
            _ => return self.unknown(),
        };
        Ok(Field::Person(role, part))
    }

    /// Reads a comma-separated list. `localpart` takes precedence over `trim` in any order; `mailmap` combines with
    /// either.
    fn email(&self) -> Result<Part> {
        let (mut form, mut mapped) = (EmailForm::Whole, false);
        let mut rest = self.argument;
        while let Some(text) = rest {
            let tail = if let Some(tail) = text.strip_prefix(b"trim") {
                form = if form == EmailForm::Local { form } else { EmailForm::Trimmed };
                tail
            } else if let Some(tail) = text.strip_prefix(b"localpart") {
                form = EmailForm::Local;
                tail
            } else if let Some(tail) = text.strip_prefix(b"mailmap") {
                mapped = true;
                tail
            } else {
                return self.unrecognized_here(text);
            };
            rest = match tail {
                b"" => None,
                [b',', next @ ..] => Some(next),
                _ => return self.unrecognized_here(tail),
            };
        }
        Ok(Part::Email { form, mapped })
    }
}
