//! Parses the language of `git update-ref --stdin` in both forms. See git-update-ref(1).

use super::records::Record;
use crate::{
    failure::{Failure, Result, fatal, message, say},
    revision::Resolve,
};
use bstr::{BString, ByteSlice};
use refdb_types::{HashKind, ObjectId, RefName, space::is_space};
use std::borrow::Cow;

/// The first word of a request. It is read before the rest, because git decides first whether the request may occur
/// now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Update,
    Create,
    Delete,
    Verify,
    SymrefUpdate,
    SymrefCreate,
    SymrefDelete,
    SymrefVerify,
    Option,
    Start,
    Prepare,
    Abort,
    Commit,
}

/// A parsed request, with valid names and resolved values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Sets a ref. A null `new` deletes the ref; a null `old` means that the ref must not exist.
    Update {
        /// The ref.
        name: RefName,
        /// The new value.
        new: ObjectId,
        /// The value that the ref must have; `None` for any.
        old: Option<ObjectId>,
    },
    /// Creates a ref.
    Create {
        /// The ref.
        name: RefName,
        /// The value.
        new: ObjectId,
    },
    /// Deletes a ref.
    Delete {
        /// The ref.
        name: RefName,
        /// The value that the ref must have; `None` for any.
        old: Option<ObjectId>,
    },
    /// Checks a ref. A null value means that the ref must not exist.
    Verify {
        /// The ref.
        name: RefName,
        /// The value that the ref must have.
        old: ObjectId,
    },
    /// Makes a ref symbolic.
    SymrefUpdate {
        /// The ref.
        name: RefName,
        /// The new target.
        target: RefName,
        /// The value that the ref must have; `None` for any.
        old: Option<OldValue>,
    },
    /// Creates a symbolic ref.
    SymrefCreate {
        /// The ref.
        name: RefName,
        /// The target.
        target: RefName,
    },
    /// Deletes a ref itself, even if it is symbolic.
    SymrefDelete {
        /// The ref.
        name: RefName,
        /// The target that the ref must have; `None` for any.
        old: Option<RefName>,
    },
    /// Checks a symbolic ref. Without a target, the ref must not exist.
    SymrefVerify {
        /// The ref.
        name: RefName,
        /// The target that the ref must have.
        old: Option<RefName>,
    },
    /// Makes the next request that names a ref change the ref itself, if it is symbolic, instead of its target.
    NoDeref,
    /// Starts a transaction.
    Start,
    /// Takes all locks and checks all conditions.
    Prepare,
    /// Aborts the transaction.
    Abort,
    /// Commits the transaction.
    Commit,
}

/// The value that `symref-update` may require.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OldValue {
    /// The ref is symbolic and has this target.
    Target(RefName),
    /// The ref holds this object or, if the id is null, does not exist.
    Id(ObjectId),
}

const VERBS: [(&[u8], Verb, usize); 13] = [
    (b"update", Verb::Update, 3),
    (b"create", Verb::Create, 2),
    (b"delete", Verb::Delete, 2),
    (b"verify", Verb::Verify, 2),
    (b"symref-update", Verb::SymrefUpdate, 4),
    (b"symref-create", Verb::SymrefCreate, 2),
    (b"symref-delete", Verb::SymrefDelete, 2),
    (b"symref-verify", Verb::SymrefVerify, 2),
    (b"option", Verb::Option, 1),
    (b"start", Verb::Start, 0),
    (b"prepare", Verb::Prepare, 0),
    (b"abort", Verb::Abort, 0),
    (b"commit", Verb::Commit, 0),
];

/// Returns the number of bytes before the arguments, the verb at the start of `bytes`, and the number of its arguments.
/// A verb with arguments is followed by a space.
fn find_verb(bytes: &[u8]) -> Option<(usize, Verb, usize)> {
    VERBS.iter().find_map(|&(word, verb, arguments)| {
        let rest = bytes.strip_prefix(word)?;
        let fits = if arguments == 0 { rest.is_empty() } else { rest.first() == Some(&b' ') };
        fits.then_some((word.len() + usize::from(arguments > 0), verb, arguments))
    })
}

/// Returns the number of NUL-terminated fields of a request whose first field is `first` (`-z`).
pub fn field_count(first: &[u8]) -> usize {
    find_verb(first).map_or(1, |(_, _, arguments)| arguments.max(1))
}

/// Reads the verb of a record. The rest is passed to [`Arguments::request`].
pub fn read_verb<'a>(record: &Record<'a>) -> Result<(Verb, Arguments<'a>)> {
    // Like git's lines, text ends at a NUL.
    let cut = if record.nul { None } else { record.bytes.find_byte(0) };
    let line = &record.bytes[..cut.unwrap_or(record.bytes.len())];
    let complete = (record.terminated && cut.is_none()) || record.nul;
    let first = if record.nul { line.split(|byte| *byte == 0).next().unwrap_or_default() } else { line };
    match (find_verb(line), first.first()) {
        // With `-z`, a verb without arguments is the whole record, so that this arm handles it too.
        (Some((skip, verb, arguments)), _) if arguments > 0 || complete => {
            Ok((verb, Arguments { line, at: skip, complete, cut: cut.is_some(), nul: record.nul }))
        }
        (_, None) if complete => fatal!["empty command in input"],
        (_, first_byte) => {
            let lead =
                if first_byte.is_some_and(is_space) { "whitespace before command: " } else { "unknown command: " };
            let end = if complete && !record.nul { "\n" } else { "" };
            fatal![lead, first, end]
        }
    }
}

/// The part of a record after the verb.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    line: &'a [u8],
    at: usize,
    complete: bool,
    /// Whether a NUL ended the line.
    cut: bool,
    nul: bool,
}

/// An argument of a request that may be missing.
enum Next<'a> {
    Value(Cow<'a, [u8]>),
    /// The line ends before the argument, or goes on with something other than a separator.
    Missing,
    /// The input ends before the argument.
    Eof,
}

/// An argument that names an object.
enum Oid {
    Id(ObjectId),
    Missing,
}

impl<'a> Arguments<'a> {
    /// Parses a request. `deref` says whether symbolic refs are followed for it.
    pub fn request(mut self, verb: Verb, deref: bool, kind: HashKind, resolve: &mut dyn Resolve) -> Result<Request> {
        let word = VERBS.iter().find(|(_, other, _)| *other == verb).map_or(&b""[..], |(word, _, _)| word);
        match verb {
            Verb::Start => return Ok(Request::Start),
            Verb::Prepare => return Ok(Request::Prepare),
            Verb::Abort => return Ok(Request::Abort),
            Verb::Commit => return Ok(Request::Commit),
            Verb::Option => return self.option(),
            Verb::SymrefDelete | Verb::SymrefVerify if deref => {
                return fatal![word, ": cannot operate with deref mode"];
            }
            _ => {}
        }
        let Some(name) = self.name()? else {
            return fatal![word, ": missing <ref>"];
        };
        let context = Context { word, kind };
        let request = match verb {
            Verb::Update => {
                let new = context.new_id(&mut self, &name, resolve)?;
                let old = match context.id(&mut self, &name, "<old-oid>", Empty::Allowed, resolve)? {
                    Oid::Id(id) => Some(id),
                    Oid::Missing => None,
                };
                Request::Update { name, new, old }
            }
            Verb::Create => {
                let Oid::Id(new) = context.id(&mut self, &name, "<new-oid>", Empty::Allowed, resolve)? else {
                    return context.fail(&name, ": missing <new-oid>");
                };
                if new.is_null() {
                    return context.fail(&name, ": zero <new-oid>");
                }
                Request::Create { name, new }
            }
            Verb::Delete => match context.id(&mut self, &name, "<old-oid>", Empty::Allowed, resolve)? {
                Oid::Id(old) if old.is_null() => return context.fail(&name, ": zero <old-oid>"),
                Oid::Id(old) => Request::Delete { name, old: Some(old) },
                Oid::Missing => Request::Delete { name, old: None },
            },
            Verb::Verify => match context.id(&mut self, &name, "<old-oid>", Empty::Allowed, resolve)? {
                Oid::Id(old) => Request::Verify { name, old },
                Oid::Missing => Request::Verify { name, old: ObjectId::null(kind) },
            },
            _ => self.symref_request(verb, name, &context, resolve)?,
        };
        self.end(word, &request)?;
        Ok(request)
    }

    fn symref_request(
        &mut self,
        verb: Verb,
        name: RefName,
        context: &Context<'_>,
        resolve: &mut dyn Resolve,
    ) -> Result<Request> {
        match verb {
            Verb::SymrefDelete => Ok(Request::SymrefDelete { name, old: self.target()? }),
            Verb::SymrefVerify => Ok(Request::SymrefVerify { name, old: self.target()? }),
            _ => {
                let Some(target) = self.target()? else {
                    return context.fail(&name, ": missing <new-target>");
                };
                if verb == Verb::SymrefCreate {
                    return Ok(Request::SymrefCreate { name, target });
                }
                let old = self.old_value(&name, context, resolve)?;
                Ok(Request::SymrefUpdate { name, target, old })
            }
        }
    }

    fn option(self) -> Result<Request> {
        let rest = &self.line[self.at..];
        if rest == b"no-deref" && self.complete {
            return Ok(Request::NoDeref);
        }
        fatal!["option unknown: ", rest, if self.nul || self.cut { "" } else { "\n" }]
    }

    /// Parses `ref OLD-TARGET` or `oid OLD-OID`, or nothing.
    fn old_value(
        &mut self,
        name: &RefName,
        context: &Context<'_>,
        resolve: &mut dyn Resolve,
    ) -> Result<Option<OldValue>> {
        let word = match self.next_after_space()? {
            Next::Value(word) if !word.is_empty() => word,
            Next::Value(_) | Next::Missing | Next::Eof => return Ok(None),
        };
        let value = match self.next_after_space()? {
            Next::Value(value) if !value.is_empty() => value,
            _ => return context.fail(name, ": expected old value"),
        };
        match &word[..] {
            b"ref" => match RefName::new(&value[..]) {
                Ok(target) => Ok(Some(OldValue::Target(target))),
                Err(_) => context.fail_with(name, ": invalid ref: ", &value),
            },
            b"oid" => match context.resolve(&value, resolve)? {
                Some(id) => Ok(Some(OldValue::Id(id))),
                None => context.fail_with(name, ": invalid oid: ", &value),
            },
            _ => fatal![context.word, " ", name, ": invalid arg '", word, "' for old value"],
        }
    }

    /// Returns the ref that the request names, or `None` if the name is empty.
    fn name(&mut self) -> Result<Option<RefName>> {
        // A name ends at the next separator unless it begins with a quote or contains other white space, which needs a
        // closer look.
        let rest = &self.line[self.at..];
        let len = rest.find_byte(if self.nul { 0 } else { b' ' }).unwrap_or(rest.len());
        if rest.first() != Some(&b'"')
            && let Ok(name) = RefName::new(&rest[..len])
        {
            self.at += len;
            return Ok(Some(name));
        }
        let text = self.text()?;
        if text.is_empty() { Ok(None) } else { checked(&text).map(Some) }
    }

    /// Returns the target of a symbolic ref, or `None` if it is missing or empty.
    fn target(&mut self) -> Result<Option<RefName>> {
        match self.next_after_space()? {
            Next::Value(text) if !text.is_empty() => checked(&text).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the next argument of a request about symbolic refs. In lines, git accepts only a space in front of it,
    /// and no other white space.
    fn next_after_space(&mut self) -> Result<Next<'a>> {
        let next = self.next_text()?;
        match (&next, &self.line[self.at..]) {
            (Next::Missing, rest @ [_, ..]) => {
                fatal!["expected SP but got: ", rest, if self.complete { "\n" } else { "" }]
            }
            _ => Ok(next),
        }
    }

    /// Returns the text that starts here: up to the NUL with `-z`, or else one word, which may be quoted.
    fn text(&mut self) -> Result<Cow<'a, [u8]>> {
        let rest = &self.line[self.at..];
        if self.nul {
            let len = rest.find_byte(0).unwrap_or(rest.len());
            self.at += len;
            return Ok(Cow::Borrowed(&rest[..len]));
        }
        if rest.first() == Some(&b'"') {
            let newline = if self.complete { "\n" } else { "" };
            let Some((text, used)) = unquote(rest) else {
                return fatal!["badly quoted argument: ", rest, newline];
            };
            if rest.get(used).is_some_and(|byte| !is_space(byte)) {
                return fatal!["unexpected character after quoted argument: ", rest, newline];
            }
            self.at += used;
            return Ok(Cow::Owned(text.into()));
        }
        let len = rest.iter().position(is_space).unwrap_or(rest.len());
        self.at += len;
        Ok(Cow::Borrowed(&rest[..len]))
    }

    /// Returns the text of the next argument, if there is one.
    fn next_text(&mut self) -> Result<Next<'a>> {
        match self.line.get(self.at) {
            None if (self.complete || self.cut) && !self.nul => return Ok(Next::Missing),
            None => return Ok(Next::Eof),
            Some(b' ') if !self.nul => {}
            Some(0) if self.nul => {}
            // The callers find the rest of the line and report that a space was expected.
            Some(_) => return Ok(Next::Missing),
        }
        self.at += 1;
        self.text().map(Next::Value)
    }

    /// Returns the next argument if it is an id of full length, which nearly all are, so that no further parsing is
    /// needed.
    fn full_id(&mut self, kind: HashKind) -> Option<ObjectId> {
        let separator = if self.nul { 0 } else { b' ' };
        let (start, end) = (self.at + 1, self.at + 1 + kind.len_hex());
        let ends = self.line.get(end).is_none_or(|byte| *byte == separator);
        if self.line.get(self.at) != Some(&separator) || !ends {
            return None;
        }
        let id = ObjectId::from_hex(kind, self.line.get(start..end)?).ok()?;
        self.at = end;
        Some(id)
    }

    /// Checks that nothing is left of the line and that a newline ends it. With `-z`, a record has no further fields.
    fn end(&self, word: &[u8], request: &Request) -> Result<()> {
        let rest = &self.line[self.at..];
        if self.nul || (rest.is_empty() && self.complete) {
            return Ok(());
        }
        let name = request.name().map_or(&b""[..], |name| name.as_ref());
        fatal![word, " ", name, ": extra input: ", rest, if self.complete { "\n" } else { "" }]
    }
}

/// How an empty text is interpreted in place of an id with `-z`: as a missing value, or as zero with a warning. In
/// lines, it is always zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    Allowed,
    ZeroWithWarning,
}

struct Context<'a> {
    word: &'a [u8],
    kind: HashKind,
}

impl Context<'_> {
    fn fail<T>(&self, name: &RefName, what: &str) -> Result<T> {
        fatal![self.word, " ", name, what]
    }

    fn fail_with<T>(&self, name: &RefName, what: &str, value: &[u8]) -> Result<T> {
        fatal![self.word, " ", name, what, value]
    }

    fn new_id(&self, arguments: &mut Arguments<'_>, name: &RefName, resolve: &mut dyn Resolve) -> Result<ObjectId> {
        match self.id(arguments, name, "<new-oid>", Empty::ZeroWithWarning, resolve)? {
            Oid::Id(id) => Ok(id),
            Oid::Missing => self.fail(name, ": missing <new-oid>"),
        }
    }

    /// Returns the next argument as an object id. In lines, an empty value is zero. With `-z` it is missing, except
    /// that an empty new value of `update` is zero, with a warning.
    fn id(
        &self,
        arguments: &mut Arguments<'_>,
        name: &RefName,
        what: &str,
        empty: Empty,
        resolve: &mut dyn Resolve,
    ) -> Result<Oid> {
        if let Some(id) = arguments.full_id(self.kind) {
            return Ok(Oid::Id(id));
        }
        let text = match arguments.next_text()? {
            Next::Value(text) => text,
            Next::Missing => match arguments.line.get(arguments.at) {
                None => return Ok(Oid::Missing),
                Some(_) => {
                    let rest = &arguments.line[arguments.at..];
                    return fatal![self.word, " ", name, ": expected SP but got: ", rest, "\n"];
                }
            },
            Next::Eof => return self.fail(name, &format!(": unexpected end of input when reading {what}")),
        };
        if text.is_empty() {
            return match (arguments.nul, empty) {
                (false, _) => Ok(Oid::Id(ObjectId::null(self.kind))),
                (true, Empty::Allowed) => Ok(Oid::Missing),
                (true, Empty::ZeroWithWarning) => {
                    say("warning: ", &message![self.word, " ", name, ": missing ", what, ", treating as zero"]);
                    Ok(Oid::Id(ObjectId::null(self.kind)))
                }
            };
        }
        match self.resolve(&text, resolve)? {
            Some(id) => Ok(Oid::Id(id)),
            None => fatal![self.word, " ", name, ": invalid ", what, ": ", text],
        }
    }

    fn resolve(&self, text: &[u8], resolve: &mut dyn Resolve) -> Result<Option<ObjectId>> {
        match ObjectId::from_hex(self.kind, text) {
            Ok(id) => Ok(Some(id)),
            Err(_) => resolve.resolve(text.as_bstr()),
        }
    }
}

fn checked(text: &[u8]) -> Result<RefName> {
    RefName::new(text).map_err(|_| Failure::Fatal(message!["invalid ref format: ", text]))
}

/// Removes C quoting. Returns the text and the number of bytes that were consumed, including the quotes, or `None` if
/// the quoting is invalid.
fn unquote(quoted: &[u8]) -> Option<(BString, usize)> {
    let mut text = BString::default();
    let mut at = 1;
    loop {
        let byte = *quoted.get(at)?;
        at += 1;
        match byte {
            b'"' => return Some((text, at)),
            b'\\' => {
                let escape = *quoted.get(at)?;
                at += 1;
                text.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    b'\\' | b'"' => escape,
                    b'0'..=b'3' => {
                        let digits = [escape, *quoted.get(at)?, *quoted.get(at + 1)?];
                        at += 2;
                        digits.iter().try_fold(0u8, |value, digit| match digit {
                            b'0'..=b'7' => Some(value << 3 | (digit - b'0')),
                            _ => None,
                        })?
                    }
                    _ => return None,
                });
            }
            _ => text.push(byte),
        }
    }
}

impl Request {
    /// Returns the ref that the request names, if it names one.
    pub fn name(&self) -> Option<&RefName> {
        match self {
            Request::Update { name, .. }
            | Request::Create { name, .. }
            | Request::Delete { name, .. }
            | Request::Verify { name, .. }
            | Request::SymrefUpdate { name, .. }
            | Request::SymrefCreate { name, .. }
            | Request::SymrefDelete { name, .. }
            | Request::SymrefVerify { name, .. } => Some(name),
            Request::NoDeref | Request::Start | Request::Prepare | Request::Abort | Request::Commit => None,
        }
    }
}

#[cfg(test)]
mod tests;
