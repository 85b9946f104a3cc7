//! What `branch --list` and `tag --list` have in common: which command lines list, the options of lists, and colors.

use crate::{
    Invocation,
    columns::Columns,
    failure::{Failure, Result, fatal, message, say},
    for_each_ref::{
        filter::Filter,
        format::{Format, ParseError},
        options::{Color, color, commit, end_of_history, object, set_list},
        patterns::Patterns,
        quote::Quote,
        reach::Reach,
    },
    options::{Command, Opt, Parser, Setting, Value, Word},
    output::Output,
    session::Session,
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{
    Snapshot,
    config::{Abbreviation, Config, Value as ConfigValue, parse_boolean},
};
use refdb_types::ObjectId;
use std::{ffi::OsString, os::unix::ffi::OsStrExt};

mod created;

pub const CONTAINS: Opt =
    Opt::flag("contains", "show only references that contain the commit").takes(Value::UnlessLast("commit")).fixed();
pub const NO_CONTAINS: Opt = Opt::flag("no-contains", "show only references that do not contain the commit")
    .takes(Value::UnlessLast("commit"))
    .fixed();
pub const MERGED: Opt = Opt::flag("merged", "show only references that are reachable from the commit")
    .takes(Value::UnlessLast("commit"))
    .fixed();
pub const NO_MERGED: Opt = Opt::flag("no-merged", "show only references that are not reachable from the commit")
    .takes(Value::UnlessLast("commit"))
    .fixed();
pub const SORT: Opt = Opt::flag("sort", "field to sort by").takes(Value::Required("key"));
pub const FORMAT: Opt = Opt::flag("format", "format of each line").takes(Value::Required("format"));
pub const COLOR: Opt = Opt::flag("color", "use colors").takes(Value::Optional("when"));
pub const COLUMN: Opt = Opt::flag("column", "show names in columns").takes(Value::Optional("style"));
pub const IGNORE_CASE: Opt = Opt::flag("ignore-case", "ignore case when sorting and matching").short(b'i');
pub const OMIT_EMPTY: Opt = Opt::flag("omit-empty", "omit lines that would be empty");

/// A command line that was parsed.
pub type Words<'a> = Vec<Word<'a>>;

/// Parses a command line that may ask for a list. Returns `None` if git could interpret it differently or finds a
/// mistake.
///
/// Options must be spelt in full, because only git knows what an abbreviation may stand for.
pub fn understood<'w>(command: &'static Command, words: &'w [OsString]) -> Option<Words<'w>> {
    let options = words.iter().map(|word| word.as_bytes()).take_while(|word| *word != b"--");
    for word in options.filter_map(|word| word.strip_prefix(b"--")) {
        let name = word.split_once_str("=").map_or(word, |(name, _)| name);
        let bare = name.strip_prefix(b"no-").unwrap_or(name);
        command.options.iter().find(|opt| [name, bare].contains(&opt.name.as_bytes()))?;
    }
    let mut parser = Parser::new(command, words);
    let mut understood = Vec::new();
    loop {
        match parser.next_word() {
            Ok(Some(word)) => understood.push(word),
            Ok(None) => return Some(understood),
            Err(_) => return None,
        }
    }
}

/// Returns whether the option is given and its last occurrence is positive.
pub fn is_on(words: &Words<'_>, name: &str) -> bool {
    let mut settings = words.iter().filter_map(|word| match word {
        Word::Option(opt, setting) if opt.name == name => Some(*setting),
        _ => None,
    });
    settings.next_back().is_some_and(Setting::is_on)
}

/// Returns the words that are not options.
pub fn arguments(words: &Words<'_>) -> Vec<BString> {
    let text = |word: &Word<'_>| match word {
        Word::Argument(text) => Some((*text).to_owned()),
        Word::Option(..) => None,
    };
    words.iter().filter_map(text).collect()
}

/// Returns whether a condition such as `--contains` is given, which asks for a list even without `--list`.
pub fn asks_for_list(words: &Words<'_>) -> bool {
    ["contains", "no-contains", "merged", "no-merged", "points-at"].iter().any(|name| is_on(words, name))
}

/// What the command line says about a list.
pub struct Wish {
    pub format: Option<BString>,
    pub sort: Vec<BString>,
    pub ignore_case: bool,
    pub omit_empty: bool,
    pub color: Option<Color>,
    pub columns: Columns,
    patterns: Vec<BString>,
    points_at: Vec<ObjectId>,
    reach: Reach,
}

impl Wish {
    /// Reads the options that `branch --list` and `tag --list` have in common. Returns `None` if git finds a mistake.
    /// Nothing is printed yet, because git would print the same again if the command line is then left to git.
    pub fn read(session: &Session, name: &str, words: &Words<'_>) -> Option<Self> {
        let config = session.store.config();
        let columns = Columns::configured(config, name)?;
        let key = format!("{name}.sort");
        let sort = config.all(&key).map(|value| value.raw.map(ToOwned::to_owned)).collect::<Option<Vec<_>>>()?;
        let mut wish = Wish {
            format: None,
            sort,
            ignore_case: false,
            omit_empty: false,
            color: None,
            columns,
            patterns: arguments(words),
            points_at: Vec::new(),
            reach: Reach::default(),
        };
        for word in words {
            let Word::Option(opt, setting) = word else { continue };
            match opt.name {
                "format" => wish.format = setting.value().map(ToOwned::to_owned),
                "sort" => set_list(&mut wish.sort, *setting),
                "ignore-case" => wish.ignore_case = setting.is_on(),
                "omit-empty" => wish.omit_empty = setting.is_on(),
                "color" => wish.color = Some(color(*setting).ok()?),
                "column" => wish.columns.set(*setting)?,
                _ => {}
            }
        }
        Some(wish)
    }

    /// Resolves the objects in the order in which they are named, and warns of ambiguous names.
    pub fn find_objects(&mut self, session: &Session, words: &Words<'_>) -> Result<()> {
        for word in words {
            let Word::Option(opt, setting) = word else { continue };
            let (setting, reach) = (*setting, &mut self.reach);
            match opt.name {
                "contains" => reach.contains.push(commit(session, setting)?),
                "no-contains" => reach.no_contains.push(commit(session, setting)?),
                "merged" => reach.merged.push(end_of_history(session, opt.name, setting)?),
                "no-merged" => reach.no_merged.push(end_of_history(session, opt.name, setting)?),
                "points-at" if setting == Setting::Off => self.points_at.clear(),
                "points-at" => self.points_at.push(object(session, setting.value().unwrap_or("HEAD".into()))?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the conditions on refs.
    pub fn filter(&self) -> Filter {
        Filter {
            patterns: Patterns::short(self.patterns.clone(), self.ignore_case),
            exclude: Patterns::default(),
            points_at: self.points_at.clone(),
            reach: self.reach.clone(),
            commits_only: false,
        }
    }

    /// Returns whether colors are shown, or `None` if the configuration is invalid. `--color` takes precedence over
    /// `key`, and `key` over `color.ui`.
    pub fn colors(&self, session: &Session, key: &str) -> Option<bool> {
        let config = session.store.config();
        if !are_colors_sound(config, key) {
            return None;
        }
        if let Some(color) = self.color {
            return Some(color.shows(session));
        }
        let Some(value) = config.last(key).or_else(|| config.last("color.ui")) else {
            return Some(Color::Auto.shows(session));
        };
        match value.raw.and_then(|raw| Color::named(raw)) {
            Some(color) => Some(color.shows(session)),
            None => parse_boolean(value.raw).map(|on| on && Color::Auto.shows(session)),
        }
    }
}

/// Returns whether git would accept the values of `key`, which says when colors are shown, and of `color.ui`.
pub fn are_colors_sound(config: &Config, key: &str) -> bool {
    let is_known = |value: ConfigValue<'_>| {
        value.raw.and_then(|raw| Color::named(raw)).is_some() || parse_boolean(value.raw).is_some()
    };
    [key, "color.ui"].iter().all(|key| config.all(key).all(is_known))
}

/// Returns whether git would accept the values of `core.abbrev` and of these booleans. Returns `false` also for more
/// than 64 digits, which git accepts.
pub fn is_sound(config: &Config, booleans: &[&str]) -> bool {
    let is_abbrev = |value: ConfigValue<'_>| {
        value.abbreviation().is_ok_and(|set| !matches!(set, Abbreviation::AtLeast(digits) if digits > 64))
    };
    config.all("core.abbrev").all(is_abbrev)
        && booleans.iter().all(|key| config.all(key).all(|value| value.boolean().is_ok()))
}

/// Compiles a format, or reports why it is invalid, in the words that `git branch` and `git tag` use.
pub fn format(text: &BStr, find: &mut dyn FnMut(&BStr) -> Result<()>) -> Result<Format> {
    match Format::parse(text, Quote::None, find) {
        Ok(format) => Ok(format),
        Err(ParseError::Unclosed(rest)) => {
            say("error: ", &message!["malformed format string ", rest]);
            fatal!["unable to parse format string"]
        }
        Err(ParseError::Failure(failure)) => Err(failure),
    }
}

/// Prints the refs that `list` lists, as [`Output::list`] does. If `columns` is given, prints them in columns with the
/// given number of spaces between columns. Returns the exit code of the git that arranges the columns, or 0 if there
/// are none.
pub fn print(
    session: &Session,
    columns: Option<(Columns, usize)>,
    list: impl FnMut(&dyn Snapshot, &mut Output) -> Result<()>,
) -> Result<u8> {
    let mut output = Output::default();
    output.expect_much();
    if columns.is_some() {
        output.hold();
    }
    let result = output.list(&session.store, list);
    let code = match columns {
        // Refs that were listed before a failure are shown.
        None => output.flush().map(|()| 0)?,
        Some((columns, padding)) => columns.arrange(session.store.environment(), output.buffer(), padding)?,
    };
    result.map(|()| code)
}

/// Delegates a command line to git, unless git would create a ref whose name is too long for the repository's tables.
pub fn leave(invocation: &Invocation<'_>, command: &Command) -> Failure {
    match created::check(invocation, command) {
        Ok(()) => crate::real_git::leave(invocation, command.name, "this"),
        Err(failure) => failure,
    }
}
