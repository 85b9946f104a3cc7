//! git's own grammar for options (gitcli(7)), driven by a declarative table for each command. docs/decisions/0010
//! explains why no library does this.

use crate::failure::{Failure, Result, message};
use bstr::{BStr, ByteSlice};
use std::{ffi::OsString, os::unix::ffi::OsStrExt};

mod usage;

pub use usage::Asked;

/// A command and everything that its command line can contain.
///
/// Long options may be abbreviated to a unique prefix, most can be negated with `--no-`, and short ones can be bundled.
/// A value follows `=`, follows a short option directly, or, unless it is optional, is the next word. Options may
/// follow arguments, up to `--` or `--end-of-options`.
#[derive(Debug)]
pub struct Command {
    /// The program that users call: git or refdb.
    pub program: &'static str,
    /// The words after `refdb`, such as `tag` or `refs list`.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// The synopses, without the names of the program and the command in front.
    pub synopsis: &'static [&'static str],
    /// All options of the command.
    pub options: &'static [Opt],
}

/// An option.
#[derive(Debug)]
pub struct Opt {
    /// The long name, or the letter if there is no long name.
    pub name: &'static str,
    /// The letter of the short form, if there is one.
    pub short: Option<u8>,
    /// Whether the option has a value.
    pub value: Value,
    /// Whether `--no-NAME` exists; for an option called `no-NAME`, whether `--NAME` does.
    pub negatable: bool,
    /// Whether only `--help-all` and `--git-completion-helper-all` show the option.
    pub hidden: bool,
    /// A description of one line.
    pub help: &'static str,
}

/// Whether an option takes a value. The text is the placeholder in usages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// The option takes no value.
    None,
    /// The option requires a value.
    Required(&'static str),
    /// The value is optional, and follows after `=` or directly after the letter.
    Optional(&'static str),
    /// The option requires a value, unless it is the last word of the command line.
    UnlessLast(&'static str),
}

impl Command {
    /// Parses the arguments of a command without options.
    pub fn arguments<'a>(&'static self, words: &'a [OsString]) -> Result<Vec<&'a BStr>> {
        debug_assert!(self.options.is_empty(), "{} has options to read", self.name);
        let mut parser = Parser::new(self, words);
        let mut arguments = Vec::new();
        while let Some(word) = parser.next_word()? {
            match word {
                Word::Argument(argument) => arguments.push(argument),
                Word::Option(opt, _) => opt.unread(),
            }
        }
        Ok(arguments)
    }
}

impl Opt {
    /// Makes the option `--NAME`, which `--no-NAME` negates.
    pub const fn flag(name: &'static str, help: &'static str) -> Self {
        Opt { name, short: None, value: Value::None, negatable: true, hidden: false, help }
    }

    /// Makes an option that is only a letter, and cannot be negated.
    pub const fn letter(name: &'static str, help: &'static str) -> Self {
        let opt = Opt::flag(name, help).short(name.as_bytes()[0]);
        Opt { negatable: false, ..opt }
    }

    /// Gives the option a letter too.
    pub const fn short(self, letter: u8) -> Self {
        Opt { short: Some(letter), ..self }
    }

    /// Gives the option a value.
    pub const fn takes(self, value: Value) -> Self {
        Opt { value, ..self }
    }

    /// Removes `--no-NAME`.
    pub const fn fixed(self) -> Self {
        Opt { negatable: false, ..self }
    }

    /// Hides the option from the usage, except from that of `--help-all`.
    pub const fn hidden(self) -> Self {
        Opt { hidden: true, ..self }
    }

    /// Ends the program because the command does not read this option of its table. This is unreachable, because a
    /// test gives each command each of its options.
    #[cold]
    pub fn unread(&self) -> ! {
        unreachable!("nothing reads the option '{}'", self.name)
    }

    /// Returns whether there is a long form.
    pub fn is_long(&self) -> bool {
        self.name.len() > 1
    }
}

/// How an option was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting<'a> {
    /// Without a value.
    On,
    /// Negated.
    Off,
    /// With this value.
    Value(&'a BStr),
}

impl<'a> Setting<'a> {
    /// Returns whether the option is switched on.
    pub fn is_on(self) -> bool {
        self != Setting::Off
    }

    /// Returns the value, if one was given.
    pub fn value(self) -> Option<&'a BStr> {
        match self {
            Setting::Value(value) => Some(value),
            Setting::On | Setting::Off => None,
        }
    }
}

/// A word of the command line after parsing.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    /// An option of the table.
    Option(&'static Opt, Setting<'a>),
    /// Any other word.
    Argument(&'a BStr),
}

/// Parses a command line from left to right, so that of several mistakes the first one is reported, as in git.
#[derive(Debug)]
pub struct Parser<'a> {
    command: &'static Command,
    words: &'a [OsString],
    at: usize,
    bundle: &'a [u8],
    arguments_only: bool,
}

impl<'a> Parser<'a> {
    /// Parses the words that follow the command's name.
    pub fn new(command: &'static Command, words: &'a [OsString]) -> Self {
        Parser { command, words, at: 0, bundle: b"", arguments_only: false }
    }

    /// Returns the next word, or `None` at the end.
    pub fn next_word(&mut self) -> Result<Option<Word<'a>>> {
        if !self.bundle.is_empty() {
            return self.letter().map(Some);
        }
        while let Some(word) = self.take() {
            let bytes: &[u8] = word;
            if self.arguments_only || bytes.len() < 2 || bytes[0] != b'-' {
                return Ok(Some(Word::Argument(word)));
            }
            match bytes {
                b"--" | b"--end-of-options" => self.arguments_only = true,
                b"-h" if self.words.len() == 1 => return Err(self.asked(None, Asked::Short)),
                b"--help" => return Err(self.asked(None, Asked::Short)),
                b"--help-all" => return Err(self.asked(None, Asked::Full)),
                [b'-', b'-', long @ ..] => return self.long(long).map(Some),
                [_, letters @ ..] => {
                    self.bundle = letters;
                    return self.first_letter(letters).map(Some);
                }
                [] => {}
            }
        }
        Ok(None)
    }

    /// Returns the failure for a wrong use of an option, which is printed without the usage.
    fn misuse(&self, parts: &[&[u8]]) -> Failure {
        Failure::Error(parts.concat().into(), crate::failure::WRONG_USE)
    }

    fn asked(&self, error: Option<bstr::BString>, asked: Asked) -> Failure {
        Failure::UsageAsked(error, self.command.usage(asked))
    }

    fn take(&mut self) -> Option<&'a BStr> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word.as_bytes().as_bstr())
    }

    /// Reads the first letter of a bundle. A bundle of three or more letters that looks like the beginning of a long
    /// option is reported as a mistake, unless its first letter is an option that takes the rest as its value.
    fn first_letter(&mut self, letters: &'a [u8]) -> Result<Word<'a>> {
        let first = self.letter();
        let unknown = matches!(first, Err(Failure::Usage(..)));
        let slip = letters.len() >= 3
            && (letters.starts_with(b"no-")
                || self.command.options.iter().any(|opt| opt.is_long() && opt.name.as_bytes().starts_with(letters)));
        if slip && (unknown || !self.bundle.is_empty()) {
            return Err(self.misuse(&[b"did you mean `--", letters, b"` (with two dashes)?"]));
        }
        first
    }

    fn letter(&mut self) -> Result<Word<'a>> {
        let (letter, rest) = (self.bundle[0], &self.bundle[1..]);
        self.bundle = rest;
        let Some(opt) = self.command.options.iter().find(|opt| opt.short == Some(letter)) else {
            if letter == b'h' {
                return Err(self.asked(None, Asked::Short));
            }
            return Err(self.command.wrong_use(Some(message!["unknown switch `", [letter], "'"])));
        };
        let setting = match opt.value {
            Value::None => Setting::On,
            _ if !rest.is_empty() => {
                self.bundle = b"";
                Setting::Value(rest.as_bstr())
            }
            Value::Optional(_) => Setting::On,
            Value::UnlessLast(_) | Value::Required(_) => match (self.take(), opt.value) {
                (Some(value), _) => Setting::Value(value),
                (None, Value::UnlessLast(_)) => Setting::On,
                (None, _) => return Err(self.misuse(&[b"switch `", &[letter], b"' requires a value"])),
            },
        };
        Ok(Word::Option(opt, setting))
    }

    fn long(&mut self, text: &'a [u8]) -> Result<Word<'a>> {
        let (name, value) = match text.find_byte(b'=') {
            Some(equals) => (&text[..equals], Some(text[equals + 1..].as_bstr())),
            None => (text, None),
        };
        // The last two options for which `name` may be an abbreviation.
        let mut last: Option<(&'static Opt, bool)> = None;
        let mut before = None;
        for opt in self.command.options.iter().filter(|opt| opt.is_long()) {
            for negated in [false, true] {
                match opt.matches(name, negated) {
                    Match::Exact => return self.set(opt, negated, value),
                    Match::Prefix => {
                        // In git, `--no-` alone abbreviates each negation in two ways: the empty text after `no-`
                        // begins each name, and `no-` itself begins each negated name.
                        before = if name == b"no-" { Some((opt, negated)) } else { last };
                        last = Some((opt, negated));
                        break;
                    }
                    Match::No => {}
                }
            }
        }
        match (last, before) {
            (Some((opt, negated)), None) => self.set(opt, negated, value),
            (Some(last), Some(before)) => {
                let spelt = |(opt, negated): (&Opt, bool)| [if negated { "no-" } else { "" }, opt.name].concat();
                let message =
                    message!["ambiguous option: ", text, " (could be --", spelt(before), " or --", spelt(last), ")"];
                Err(self.asked(Some(message), Asked::Short))
            }
            (None, _) => Err(self.command.wrong_use(Some(message!["unknown option `", text, "'"]))),
        }
    }

    fn set(&mut self, opt: &'static Opt, negated: bool, value: Option<&'a BStr>) -> Result<Word<'a>> {
        let setting = match (negated, opt.value, value) {
            (true, _, None) => Setting::Off,
            (false, Value::None, None) | (false, Value::Optional(_), None) => Setting::On,
            (true, _, Some(_)) | (false, Value::None, Some(_)) => {
                let no: &[u8] = if negated { b"no-" } else { b"" };
                return Err(self.misuse(&[b"option `", no, opt.name.as_bytes(), b"' takes no value"]));
            }
            (false, _, Some(value)) => Setting::Value(value),
            (false, Value::Required(_) | Value::UnlessLast(_), None) => match (self.take(), opt.value) {
                (Some(value), _) => Setting::Value(value),
                (None, Value::UnlessLast(_)) => Setting::On,
                (None, _) => return Err(self.misuse(&[b"option `", opt.name.as_bytes(), b"' requires a value"])),
            },
        };
        Ok(Word::Option(opt, setting))
    }
}

enum Match {
    Exact,
    Prefix,
    No,
}

impl Opt {
    /// Compares a long name from the command line with this option or its negation.
    fn matches(&self, name: &[u8], negated: bool) -> Match {
        let own = self.name.as_bytes();
        let (no, rest): (&[u8], &[u8]) = match (negated, own.strip_prefix(b"no-")) {
            (false, _) => (b"", own),
            (true, _) if !self.negatable => return Match::No,
            (true, Some(bare)) => (b"", bare),
            (true, None) => (b"no-", own),
        };
        let Some(tail) = name.strip_prefix(no) else {
            return if no.starts_with(name) { Match::Prefix } else { Match::No };
        };
        match rest.strip_prefix(tail) {
            Some(b"") => Match::Exact,
            Some(_) => Match::Prefix,
            None => Match::No,
        }
    }
}

#[cfg(test)]
mod tests;
