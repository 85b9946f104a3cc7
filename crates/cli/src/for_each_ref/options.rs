//! The command line of for-each-ref.

use super::{
    atom::Atom,
    format::{Format, ParseError},
    quote::Quote,
};
use crate::{
    Invocation,
    failure::{Failure, Result, WRONG_USE, fatal, message},
    options::{Command, Opt, Parser, Setting, Value, Word},
};
use bstr::{BString, ByteSlice};
use std::io::{BufRead, IsTerminal};

/// The command line.
pub static COMMAND: Command = Command {
    name: "for-each-ref",
    about: "Output information on each ref",
    synopsis: &["[--count=<count>] [--shell|--perl|--python|--tcl]\n\
        \u{20}       [(--sort=<key>)...] [--format=<format>]\n\
        \u{20}       [--include-root-refs] [--points-at=<object>]\n\
        \u{20}       [--merged[=<object>]] [--no-merged[=<object>]]\n\
        \u{20}       [--contains[=<object>]] [--no-contains[=<object>]]\n\
        \u{20}       [(--exclude=<pattern>)...] [--start-after=<marker>]\n\
        \u{20}       [ --stdin | (<pattern>...)]"],
    options: &[
        Opt::flag("shell", "quote values as string literals of a shell").short(b's'),
        Opt::flag("perl", "quote values as string literals of Perl").short(b'p'),
        Opt::flag("python", "quote values as string literals of Python"),
        Opt::flag("tcl", "quote values as string literals of Tcl"),
        Opt::flag("omit-empty", "print no newline after references that show nothing"),
        Opt::flag("count", "show at most <n> references").takes(Value::Required("n")),
        Opt::flag("format", "how a reference is shown").takes(Value::Required("format")),
        Opt::flag("start-after", "begin behind this name").takes(Value::Required("marker")),
        Opt::flag("color", "obey the colors of the format").takes(Value::Optional("when")),
        Opt::flag("exclude", "leave out references that match the pattern").takes(Value::Required("pattern")),
        Opt::flag("sort", "the field to sort by").takes(Value::Required("key")),
        Opt::flag("points-at", "show only references that point at the object").takes(Value::Required("object")),
        Opt::flag("merged", "show only what can be reached from the commit").takes(Value::UnlessLast("commit")).fixed(),
        Opt::flag("no-merged", "show only what cannot be reached from the commit")
            .takes(Value::UnlessLast("commit"))
            .fixed(),
        Opt::flag("contains", "show only what contains the commit").takes(Value::UnlessLast("commit")).fixed(),
        Opt::flag("no-contains", "show only what does not contain the commit")
            .takes(Value::UnlessLast("commit"))
            .fixed(),
        Opt::flag("ignore-case", "sort and match without regard to case"),
        Opt::flag("stdin", "read patterns from stdin"),
        Opt::flag("include-root-refs", "also show HEAD and its kin"),
    ],
};

/// What the command line says.
#[derive(Debug, Default)]
pub struct Options {
    /// `--count`; 0 for all.
    pub count: u64,
    /// `--shell` and its siblings.
    pub quote: Quote,
    /// `--omit-empty`.
    pub omit_empty: bool,
    /// `--format`.
    pub format: Option<BString>,
    /// `--start-after`.
    pub start_after: Option<BString>,
    /// `--color`, if it was decided.
    pub color: Option<bool>,
    /// `--exclude`.
    pub exclude: Vec<BString>,
    /// `--sort`.
    pub sort: Vec<BString>,
    /// `--points-at`.
    pub points_at: Vec<BString>,
    /// `--merged`, `--no-merged`, `--contains`, `--no-contains`.
    pub merged: Vec<BString>,
    /// See above.
    pub no_merged: Vec<BString>,
    /// See above.
    pub contains: Vec<BString>,
    /// See above.
    pub no_contains: Vec<BString>,
    /// `--ignore-case`.
    pub ignore_case: bool,
    /// `--include-root-refs`.
    pub root_refs: bool,
    /// The patterns.
    pub patterns: Vec<BString>,
}

impl Options {
    /// Reads the command line, and the patterns from standard input if it says so.
    pub fn parse(invocation: &Invocation<'_>) -> Result<Self> {
        let mut options = Options::default();
        let mut quotes = [false; 4];
        let mut count = 0;
        let mut stdin = false;
        let mut parser = Parser::new(&COMMAND, invocation.words);
        while let Some(word) = parser.next_word()? {
            let (opt, setting) = match word {
                Word::Argument(pattern) => {
                    options.patterns.push(pattern.to_owned());
                    continue;
                }
                Word::Option(opt, setting) => (opt, setting),
            };
            let on = setting.is_on();
            match opt.name {
                "shell" => quotes[0] = on,
                "perl" => quotes[1] = on,
                "python" => quotes[2] = on,
                "tcl" => quotes[3] = on,
                "omit-empty" => options.omit_empty = on,
                "count" => count = integer("count", setting)?,
                "format" => options.format = setting.value().map(ToOwned::to_owned),
                "start-after" => options.start_after = setting.value().map(ToOwned::to_owned),
                "color" => options.color = color(setting)?,
                "exclude" => set_list(&mut options.exclude, setting),
                "sort" => set_list(&mut options.sort, setting),
                "points-at" => set_list(&mut options.points_at, setting),
                "merged" => push_commit(&mut options.merged, setting),
                "no-merged" => push_commit(&mut options.no_merged, setting),
                "contains" => push_commit(&mut options.contains, setting),
                "no-contains" => push_commit(&mut options.no_contains, setting),
                "ignore-case" => options.ignore_case = on,
                "stdin" => stdin = on,
                _ => options.root_refs = on,
            }
        }
        options.check(count, quotes, stdin)?;
        Ok(options)
    }

    fn check(&mut self, count: i64, quotes: [bool; 4], stdin: bool) -> Result<()> {
        let usage = |text: String| Err(Failure::Usage(&COMMAND, Some(text.into())));
        match u64::try_from(count) {
            Ok(count) => self.count = count,
            Err(_) => return usage(format!("invalid --count argument: `{count}'")),
        }
        if quotes.iter().filter(|quote| **quote).count() > 1 {
            return usage("more than one quoting style?".to_owned());
        }
        let kinds = [Quote::Shell, Quote::Perl, Quote::Python, Quote::Tcl];
        self.quote = kinds.into_iter().zip(quotes).find(|(_, given)| *given).map_or(Quote::None, |(quote, _)| quote);
        if stdin {
            if !self.patterns.is_empty() {
                return fatal!["unknown arguments supplied with --stdin"];
            }
            for line in std::io::stdin().lock().split(b'\n') {
                match line {
                    Ok(line) => self.patterns.push(line.into()),
                    Err(error) => return fatal!["cannot read standard input: ", error.to_string()],
                }
            }
        }
        if self.start_after.is_some() && !self.sort.is_empty() {
            return fatal!["cannot use --start-after with custom sort options"];
        }
        if self.start_after.is_some() && !self.patterns.is_empty() {
            return fatal!["cannot use --start-after with patterns"];
        }
        Ok(())
    }

    /// The format, compiled.
    pub fn compile(&self) -> Result<Format> {
        let text = self.format.as_ref().map_or(super::format::DEFAULT.into(), |format| format.as_bstr());
        let format = match Format::parse(text) {
            Ok(format) => format,
            Err(ParseError::Unclosed(rest)) => {
                return Err(Failure::Usage(&COMMAND, Some(message!["malformed format string ", rest])));
            }
            Err(ParseError::Failure(failure)) => return Err(failure),
        };
        let is_raw = |atom: &&Atom| atom.field == super::atom::Field::Raw;
        if matches!(self.quote, Quote::Shell | Quote::Python | Quote::Tcl) && format.atoms().iter().any(is_raw) {
            return fatal!["--format=raw cannot be used with --python, --shell, --tcl"];
        }
        Ok(format)
    }

    /// Whether colors are written.
    pub fn colors(&self) -> bool {
        self.color.unwrap_or_else(|| std::io::stdout().is_terminal())
    }
}

fn set_list(list: &mut Vec<BString>, setting: Setting<'_>) {
    match setting.value() {
        Some(value) => list.push(value.to_owned()),
        None => list.clear(),
    }
}

fn push_commit(list: &mut Vec<BString>, setting: Setting<'_>) {
    list.push(setting.value().map_or_else(|| "HEAD".into(), ToOwned::to_owned));
}

fn wrong(parts: &[&[u8]]) -> Failure {
    Failure::Error(parts.concat().into(), WRONG_USE)
}

fn color(setting: Setting<'_>) -> Result<Option<bool>> {
    match setting {
        Setting::On => Ok(Some(true)),
        Setting::Off => Ok(Some(false)),
        Setting::Value(value) => match value.as_bytes() {
            b"always" => Ok(Some(true)),
            b"never" => Ok(Some(false)),
            b"auto" => Ok(None),
            _ => Err(wrong(&[b"option `color' expects \"always\", \"auto\", or \"never\""])),
        },
    }
}

/// A number with an optional unit of 1024, in the range of C's int.
fn integer(name: &str, setting: Setting<'_>) -> Result<i64> {
    let Some(value) = setting.value() else { return Ok(0) };
    let name = name.as_bytes();
    if value.is_empty() {
        return Err(wrong(&[b"option `", name, b"' expects a numerical value"]));
    }
    let (digits, unit) = match value.last() {
        Some(b'k' | b'K') => (&value[..value.len() - 1], 1i64 << 10),
        Some(b'm' | b'M') => (&value[..value.len() - 1], 1 << 20),
        Some(b'g' | b'G') => (&value[..value.len() - 1], 1 << 30),
        _ => (value, 1),
    };
    let Some(number) = digits.to_str().ok().and_then(|digits| digits.parse::<i64>().ok()) else {
        return Err(wrong(&[b"option `", name, b"' expects an integer value with an optional k/m/g suffix"]));
    };
    match number.checked_mul(unit).filter(|number| i32::try_from(*number).is_ok()) {
        Some(number) => Ok(number),
        None => Err(wrong(&[b"value ", value, b" for option `", name, b"' not in range [-2147483648,2147483647]"])),
    }
}
