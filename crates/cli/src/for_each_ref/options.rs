//! The command line of for-each-ref.

use super::{
    format::{Format, ParseError},
    history::History,
    quote::Quote,
    reach::Reach,
    sort::Order,
};
use crate::{
    Invocation,
    failure::{Failure, Result, WRONG_USE, fatal, message},
    numbers::{self, WithUnit},
    options::{Command, Opt, Parser, Setting, Value, Word},
    output,
    session::Session,
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::ObjectId;
use std::io::BufRead;

pub static COMMAND: Command = Command {
    program: "git",
    name: "for-each-ref",
    about: "Output information on each ref",
    synopsis: SYNOPSIS,
    options: OPTIONS,
};

/// The command line of `refs list`.
pub static REFS_LIST: Command = Command { name: "refs list", ..COMMAND };

const SYNOPSIS: &[&str] = &["[--count=<count>] [--shell|--perl|--python|--tcl]\n\
    \t[(--sort=<key>)...] [--format=<format>]\n\
    \t[--include-root-refs] [--points-at=<object>]\n\
    \t[--merged[=<object>]] [--no-merged[=<object>]]\n\
    \t[--contains[=<object>]] [--no-contains[=<object>]]\n\
    \t[(--exclude=<pattern>)...] [--start-after=<marker>]\n\
    \t[ --stdin | (<pattern>...)]"];

const OPTIONS: &[Opt] = &[
    Opt::flag("shell", "quote values as string literals of a shell").short(b's'),
    Opt::flag("perl", "quote values as string literals of Perl").short(b'p'),
    Opt::flag("python", "quote values as string literals of Python"),
    Opt::flag("tcl", "quote values as string literals of Tcl"),
    Opt::flag("omit-empty", "omit lines that would be empty"),
    Opt::flag("count", "show at most <n> references").takes(Value::Required("n")),
    Opt::flag("format", "format of each reference").takes(Value::Required("format")),
    Opt::flag("start-after", "start with the reference after this name").takes(Value::Required("marker")),
    Opt::flag("color", "emit the colors that the format asks for").takes(Value::Optional("when")),
    Opt::flag("exclude", "omit references that match the pattern").takes(Value::Required("pattern")),
    Opt::flag("sort", "field to sort by").takes(Value::Required("key")),
    Opt::flag("points-at", "show only references that point at the object").takes(Value::Required("object")),
    Opt::flag("merged", "show only references that are reachable from the commit")
        .takes(Value::UnlessLast("commit"))
        .fixed(),
    Opt::flag("no-merged", "show only references that are not reachable from the commit")
        .takes(Value::UnlessLast("commit"))
        .fixed(),
    Opt::flag("contains", "show only references that contain the commit").takes(Value::UnlessLast("commit")).fixed(),
    Opt::flag("no-contains", "show only references that do not contain the commit")
        .takes(Value::UnlessLast("commit"))
        .fixed(),
    Opt::flag("ignore-case", "ignore case when sorting and matching"),
    Opt::flag("stdin", "read patterns from stdin"),
    Opt::flag("include-root-refs", "also show HEAD and other root references"),
];

/// The parsed command line.
#[derive(Debug, Default)]
pub struct Options {
    /// `--count`; 0 for all.
    pub count: u64,
    /// `--shell` and its siblings.
    pub quote: Quote,
    pub omit_empty: bool,
    pub format: Option<BString>,
    pub start_after: Option<BString>,
    /// `--color`.
    pub color: Color,
    pub exclude: Vec<BString>,
    pub sort: Vec<BString>,
    pub points_at: Vec<ObjectId>,
    /// `--merged`, `--no-merged`, `--contains`, `--no-contains`.
    pub reach: Reach,
    pub ignore_case: bool,
    /// `--include-root-refs`.
    pub root_refs: bool,
    pub patterns: Vec<BString>,
    stdin: bool,
}

impl Options {
    /// Reads the command line. Objects that an option names are looked for at once, because git reports the first of
    /// several mistakes.
    pub fn parse(session: &Session, invocation: &Invocation<'_>, command: &'static Command) -> Result<Self> {
        let mut options = Options::default();
        let mut quotes = [false; 4];
        let mut count = 0;
        let mut parser = Parser::new(command, invocation.words);
        while let Some(word) = parser.next_word()? {
            let (opt, setting) = match word {
                Word::Argument(pattern) => {
                    options.patterns.push(pattern.to_owned());
                    continue;
                }
                Word::Option(opt, setting) => (opt, setting),
            };
            let on = setting.is_on();
            let reach = &mut options.reach;
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
                "points-at" => match setting.value() {
                    Some(name) => options.points_at.push(object(session, name)?),
                    None => options.points_at.clear(),
                },
                "merged" => reach.merged.push(end_of_history(session, opt.name, setting)?),
                "no-merged" => reach.no_merged.push(end_of_history(session, opt.name, setting)?),
                "contains" => reach.contains.push(commit(session, setting)?),
                "no-contains" => reach.no_contains.push(commit(session, setting)?),
                "ignore-case" => options.ignore_case = on,
                "stdin" => options.stdin = on,
                "include-root-refs" => options.root_refs = on,
                _ => opt.unread(),
            }
        }
        options.check(command, count, quotes)?;
        Ok(options)
    }

    fn check(&mut self, command: &Command, count: i64, quotes: [bool; 4]) -> Result<()> {
        let usage = |text: String| Err(command.wrong_use(Some(text.into())));
        match u64::try_from(count) {
            Ok(count) => self.count = count,
            Err(_) => return usage(format!("invalid --count argument: `{count}'")),
        }
        if quotes.iter().filter(|quote| **quote).count() > 1 {
            return usage("more than one quoting style?".to_owned());
        }
        let kinds = [Quote::Shell, Quote::Perl, Quote::Python, Quote::Tcl];
        self.quote = kinds.into_iter().zip(quotes).find(|(_, given)| *given).map_or(Quote::None, |(quote, _)| quote);
        Ok(())
    }

    /// Returns the compiled format.
    pub fn compile(&self, command: &Command, find: &mut dyn FnMut(&BStr) -> Result<()>) -> Result<Format> {
        let text = self.format.as_ref().map_or(super::format::DEFAULT.into(), |format| format.as_bstr());
        match Format::parse(text, self.quote, find) {
            Ok(format) => Ok(format),
            Err(ParseError::Unclosed(rest)) => Err(command.wrong_use(Some(message!["malformed format string ", rest]))),
            Err(ParseError::Failure(failure)) => Err(failure),
        }
    }

    /// Returns the order of the list.
    pub fn order(&self, find: &mut dyn FnMut(&BStr) -> Result<()>) -> Result<Order> {
        if self.start_after.is_some() && !self.sort.is_empty() {
            return fatal!["cannot use --start-after with custom sort options"];
        }
        Order::new(&self.sort, self.ignore_case, find)
    }

    /// Reads the patterns from standard input if the command line says so.
    pub fn read_patterns(&mut self) -> Result<()> {
        // Standard input is read once, even if the list is begun again.
        if std::mem::take(&mut self.stdin) {
            if !self.patterns.is_empty() {
                return fatal!["unknown arguments supplied with --stdin"];
            }
            let mut input = std::io::stdin().lock();
            loop {
                let mut line = Vec::new();
                match input.read_until(b'\n', &mut line) {
                    Ok(0) => break,
                    // As in git, a carriage return before the line feed belongs to the end of the line, and a NUL ends
                    // the pattern.
                    Ok(_) => {
                        let line =
                            line.strip_suffix(b"\n").map_or(&line[..], |text| text.strip_suffix(b"\r").unwrap_or(text));
                        self.patterns.push(line[..line.find_byte(0).unwrap_or(line.len())].into());
                    }
                    Err(error) => return fatal!["cannot read standard input: ", error.to_string()],
                }
            }
        }
        if self.start_after.is_some() && !self.patterns.is_empty() {
            return fatal!["cannot use --start-after with patterns"];
        }
        Ok(())
    }

    /// Returns whether colors are written.
    pub fn colors(&self, session: &Session) -> bool {
        self.color.shows(session)
    }
}

/// Adds the option's value to a list, or empties the list if the option is negated.
pub fn set_list(list: &mut Vec<BString>, setting: Setting<'_>) {
    match setting.value() {
        Some(value) => list.push(value.to_owned()),
        None => list.clear(),
    }
}

/// Returns the object that `--points-at` names.
pub fn object(session: &Session, name: &BStr) -> Result<ObjectId> {
    match session.revisions().resolve(name)? {
        Some(id) => Ok(id),
        None => Err(wrong(&[b"malformed object name '", name, b"'"])),
    }
}

/// Returns the commit that `--contains` or `--no-contains` names, by default that of HEAD.
pub fn commit(session: &Session, setting: Setting<'_>) -> Result<ObjectId> {
    let name = setting.value().unwrap_or("HEAD".into());
    let Some(id) = session.revisions().resolve(name)? else {
        return Err(wrong(&[b"malformed object name ", name]));
    };
    match History::of(session).named_commit(id)? {
        Some(commit) => Ok(commit),
        None => Err(wrong(&[b"no such commit ", name])),
    }
}

/// Returns the commit that `--merged` or `--no-merged` names, by default that of HEAD.
pub fn end_of_history(session: &Session, option: &str, setting: Setting<'_>) -> Result<ObjectId> {
    let name = setting.value().unwrap_or("HEAD".into());
    let Some(id) = session.revisions().resolve(name)? else {
        return fatal!["malformed object name ", name];
    };
    match History::of(session).named_commit(id)? {
        Some(commit) => Ok(commit),
        None => Err(wrong(&[b"option `", option.as_bytes(), b"' must point to a commit"])),
    }
}

fn wrong(parts: &[&[u8]]) -> Failure {
    Failure::Error(parts.concat().into(), WRONG_USE)
}

/// When colors are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Color {
    Always,
    Never,
    /// If the output is a terminal that shows them.
    #[default]
    Auto,
}

impl Color {
    /// Reads a word of `--color` or of the configuration, in letters of either case.
    pub fn named(word: &[u8]) -> Option<Self> {
        let names = [(&b"always"[..], Color::Always), (b"never", Color::Never), (b"auto", Color::Auto)];
        names.into_iter().find_map(|(name, color)| name.eq_ignore_ascii_case(word).then_some(color))
    }

    /// Returns whether colors are written to the standard output.
    pub fn shows(self, session: &Session) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => output::shows_colors(&session.store),
        }
    }
}

/// Returns what `--color` says.
pub fn color(setting: Setting<'_>) -> Result<Color> {
    match setting {
        Setting::On => Ok(Color::Always),
        Setting::Off => Ok(Color::Never),
        Setting::Value(value) => {
            Color::named(value).ok_or_else(|| wrong(&[b"option `color' expects \"always\", \"auto\", or \"never\""]))
        }
    }
}

/// Reads a number with an optional unit (k, m or g), in the range of C's int. A negated option gives 0.
fn integer(name: &str, setting: Setting<'_>) -> Result<i64> {
    let Some(value) = setting.value() else { return Ok(0) };
    let name = name.as_bytes();
    if value.is_empty() {
        return Err(wrong(&[b"option `", name, b"' expects a numerical value"]));
    }
    match numbers::with_unit(value) {
        WithUnit::Int(number) => Ok(number.into()),
        WithUnit::NoNumber => {
            Err(wrong(&[b"option `", name, b"' expects an integer value with an optional k/m/g suffix"]))
        }
        WithUnit::TooLarge => {
            Err(wrong(&[b"value ", value, b" for option `", name, b"' not in range [-2147483648,2147483647]"]))
        }
    }
}
