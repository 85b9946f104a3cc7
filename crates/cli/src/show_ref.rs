//! `refdb show-ref`. See git-show-ref(1).

mod plain;

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, is_of_packed_refs, message, say},
    for_each_ref::world::ObjectKind,
    listing::{self, Broken, Ranges, Row, Visitor, Walk},
    numbers,
    options::{Command, Opt, Parser, Setting, Value, Word},
    output::Output,
    session::Session,
};
use bstr::{BStr, BString, ByteSlice};
use plain::PlainLister;
use refdb::{LooseError, RefFormat, Snapshot, Target, backend::Peeled};
use refdb_types::{FormatOptions, ObjectId, RefName, check_format, is_safe, space::is_space};
use std::{
    io::{BufRead, ErrorKind},
    ops::ControlFlow,
};

pub static COMMAND: Command = Command {
    program: "git",
    name: "show-ref",
    about: "List references in a local repository",
    synopsis: &[
        "[--head] [-d | --dereference]\n[-s | --hash[=<n>]] [--abbrev[=<n>]] [--branches] [--tags]\n[--] [<pattern>...]",
        "--verify [-q | --quiet] [-d | --dereference]\n[-s | --hash[=<n>]] [--abbrev[=<n>]]\n[--] [<ref>...]",
        "--exclude-existing[=<pattern>]",
        "--exists <ref>",
    ],
    options: &[
        Opt::flag("tags", "list tags (with --branches, tags and branches)"),
        Opt::flag("branches", "list branches (with --tags, branches and tags)"),
        Opt::flag("heads", "synonym of --branches").hidden(),
        Opt::flag("exists", "test whether a reference exists, without following it"),
        Opt::flag("verify", "show only references with exactly these full names"),
        Opt::letter("h", "synonym of --head").hidden(),
        Opt::flag("head", "show HEAD even if it would be filtered out"),
        Opt::flag("dereference", "also show the objects that tags lead to").short(b'd'),
        Opt::flag("hash", "show only object ids, abbreviated to <n> digits").short(b's').takes(Value::Optional("n")),
        Opt::flag("abbrev", "abbreviate object ids to <n> digits").takes(Value::Optional("n")),
        Opt::flag("quiet", "print nothing, for use with --verify").short(b'q'),
        Opt::flag("exclude-existing", "print lines of stdin whose reference does not exist")
            .takes(Value::Optional("pattern"))
            .fixed(),
    ],
};

#[derive(Default)]
struct Options {
    tags: bool,
    branches: bool,
    exists: bool,
    verify: bool,
    head: bool,
    quiet: bool,
    exclude_existing: Option<Option<BString>>,
    style: Style,
    names: Vec<BString>,
}

/// How a ref is shown.
#[derive(Clone, Copy, Default)]
struct Style {
    ids_only: bool,
    dereference: bool,
    /// The least number of digits: `None` for all of them, `Some(None)` for what `core.abbrev` sets or git's default.
    digits: Option<Option<usize>>,
}

impl Options {
    /// Returns whether each ref is shown as its full id and its name.
    fn is_plain(&self) -> bool {
        let Style { ids_only, dereference, digits } = self.style;
        !self.quiet && !ids_only && !dereference && digits.is_none()
    }
}

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let options = parse(invocation)?;
    let mut output = Output::default();
    let result = perform(&session, &options, &mut output);
    output.flush()?;
    result
}

fn parse(invocation: &Invocation<'_>) -> Result<Options> {
    let mut options = Options::default();
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        let (opt, setting) = match word {
            Word::Argument(name) => {
                options.names.push(name.to_owned());
                continue;
            }
            Word::Option(opt, setting) => (opt, setting),
        };
        let on = setting.is_on();
        match opt.name {
            "tags" => options.tags = on,
            "branches" | "heads" => options.branches = on,
            "exists" => options.exists = on,
            "verify" => options.verify = on,
            "h" | "head" => options.head = on,
            "quiet" => options.quiet = on,
            "dereference" => options.style.dereference = on,
            "hash" => {
                // As in git, even `--no-hash` selects ids only. The last option about the number of digits is used.
                options.style.ids_only = true;
                if setting.is_on() {
                    options.style.digits = digits("hash", setting, options.style.digits)?;
                }
            }
            "abbrev" => options.style.digits = digits("abbrev", setting, Some(None))?,
            "exclude-existing" => options.exclude_existing = Some(setting.value().map(ToOwned::to_owned)),
            _ => opt.unread(),
        }
    }
    Ok(options)
}

/// Returns the number of digits that `--hash` or `--abbrev` asks for: `default` without a value, and all of them if the
/// option is negated.
fn digits(name: &str, setting: Setting<'_>, default: Option<Option<usize>>) -> Result<Option<Option<usize>>> {
    let value = match setting {
        Setting::On => return Ok(default),
        Setting::Off => return Ok(None),
        Setting::Value(value) => value,
    };
    match numbers::wrapped_int(value) {
        Some(0) => Ok(None),
        Some(count) => Ok(Some(Some(usize::try_from(count).unwrap_or(0).max(4)))),
        None => {
            let message = message!["option `", name, "' expects a numerical value"];
            Err(crate::failure::Failure::Error(message, crate::failure::WRONG_USE))
        }
    }
}

fn perform(session: &Session, options: &Options, output: &mut Output) -> Result<u8> {
    check_modes(options)?;
    if let Some(pattern) = &options.exclude_existing {
        exclude_existing(session, pattern.as_ref().map(|pattern| pattern.as_bstr()), output)
    } else if options.verify {
        verify(session, options, output)
    } else if options.exists {
        exists(session, options)
    } else {
        output.list(&session.store, |snapshot, output| list(session, snapshot, options, output))
    }
}

fn check_modes(options: &Options) -> Result<()> {
    let modes: Vec<&str> = [
        (options.exclude_existing.is_some(), "'--exclude-existing'"),
        (options.verify, "'--verify'"),
        (options.exists, "'--exists'"),
    ]
    .into_iter()
    .filter_map(|(given, name)| given.then_some(name))
    .collect();
    match modes[..] {
        [one, two] => fatal!["options ", one, " and ", two, " cannot be used together"],
        [one, two, three] => fatal!["options ", one, ", ", two, ", and ", three, " cannot be used together"],
        _ => Ok(()),
    }
}

fn list(session: &Session, snapshot: &dyn Snapshot, options: &Options, output: &mut Output) -> Result<u8> {
    let ranges = match (options.branches, options.tags) {
        (false, false) => Ranges::All,
        (true, false) => Ranges::Prefixes(vec!["refs/heads/".into()]),
        (false, true) => Ranges::Prefixes(vec!["refs/tags/".into()]),
        (true, true) => Ranges::Prefixes(vec!["refs/heads/".into(), "refs/tags/".into()]),
    };
    let mut found = false;
    if options.head
        && let Some((_, id)) = listing::follow_to_null(snapshot, "HEAD".into())?
    {
        let row = Row { name: "HEAD".into(), id: &id, symref: None, peeled: &Peeled::Unknown };
        Shower { session, options, output }.show(&row)?;
        found = true;
    }
    output.expect_much();
    let walk = Walk { ranges: &ranges, root_refs: false, after: None };
    if options.is_plain() {
        let mut lister = PlainLister::new(&options.names, &session.store, output);
        listing::walk(snapshot, &walk, &mut lister)?;
        found |= lister.found();
    } else {
        let mut lister = Lister { shower: Shower { session, options, output }, found };
        listing::walk(snapshot, &walk, &mut lister)?;
        found = lister.found;
    }
    session.warn_of_disorder();
    Ok(u8::from(!found))
}

/// Shows the refs of a walk that match the patterns.
struct Lister<'a> {
    shower: Shower<'a>,
    found: bool,
}

impl Visitor for Lister<'_> {
    fn wants(&mut self, name: &BStr) -> bool {
        matches_any(&self.shower.options.names, name)
    }

    fn row(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>> {
        self.found = true;
        self.shower.show(row)?;
        Ok(ControlFlow::Continue(()))
    }

    fn broken(&mut self, broken: Broken<'_>) -> Result<()> {
        let (Broken::Content(name) | Broken::Name(name)) = broken;
        bad_ref(name, &ObjectId::null(self.shower.session.store.objects().hash()))
    }
}

#[cold]
fn bad_ref<T>(name: &BStr, id: &ObjectId) -> Result<T> {
    fatal!["git show-ref: bad ref ", name, " (", id.to_string(), ")"]
}

/// Returns whether there are no patterns, or one of them matches.
#[inline(always)]
fn matches_any(patterns: &[BString], name: &BStr) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| ends_with_components(name, pattern.as_bstr()))
}

/// Returns whether `name` ends with `pattern`, where the match has to start at the start of a component.
fn ends_with_components(name: &BStr, pattern: &BStr) -> bool {
    !pattern.is_empty()
        && name.strip_suffix(pattern.as_bytes()).is_some_and(|before| before.is_empty() || before.ends_with(b"/"))
}

/// Shows single refs.
struct Shower<'a> {
    session: &'a Session,
    options: &'a Options,
    output: &'a mut Output,
}

impl Shower<'_> {
    fn show(&mut self, row: &Row<'_>) -> Result<()> {
        if !self.session.store.objects().exists(row.id)? {
            return bad_ref(row.name, row.id);
        }
        if self.options.quiet {
            return Ok(());
        }
        self.id(row.id)?;
        let out = self.output.buffer();
        if !self.options.style.ids_only {
            out.push(b' ');
            out.extend_from_slice(row.name);
        }
        out.push(b'\n');
        if self.options.style.dereference
            && let Some(peeled) = self.peel(row)?
        {
            self.id(&peeled)?;
            let out = self.output.buffer();
            out.push(b' ');
            out.extend_from_slice(row.name);
            out.extend_from_slice(b"^{}\n");
        }
        self.output.relieve()
    }

    fn id(&mut self, id: &ObjectId) -> Result<()> {
        let digits = match self.options.style.digits {
            Some(least) => self.session.abbreviate(id, least)?,
            None => id.kind().len_hex(),
        };
        let out = self.output.buffer();
        let end = out.len() + digits;
        id.write_hex(out);
        out.truncate(end);
        Ok(())
    }

    fn peel(&mut self, row: &Row<'_>) -> Result<Option<ObjectId>> {
        match row.peeled {
            Peeled::To(id) => Ok(Some(*id)),
            // As in git, the object itself is read, because tags may be stored unpeeled if they are broken or by other
            // writers.
            Peeled::NotTag | Peeled::Unknown => match self.session.store.objects().kind(row.id)? {
                Some(ObjectKind::Tag) => Ok(self.session.store.objects().peel(row.id)?),
                _ => Ok(None),
            },
        }
    }
}

fn verify(session: &Session, options: &Options, output: &mut Output) -> Result<u8> {
    if options.names.is_empty() {
        return fatal!["--verify requires a reference"];
    }
    output.list(&session.store, |snapshot, output| verify_in(snapshot, session, options, output))
}

fn verify_in(snapshot: &dyn Snapshot, session: &Session, options: &Options, output: &mut Output) -> Result<u8> {
    for name in &options.names {
        let found = if is_safe(name) { listing::follow_to_null(snapshot, name.as_bstr())? } else { None };
        match found {
            Some((_, id)) => {
                let row = Row { name: name.as_bstr(), id: &id, symref: None, peeled: &Peeled::Unknown };
                Shower { session, options, output }.show(&row)?;
            }
            None if options.quiet => return Ok(1),
            None => return fatal!["'", name, "' - not a valid ref"],
        }
    }
    Ok(0)
}

fn exists(session: &Session, options: &Options) -> Result<u8> {
    let name = match &options.names[..] {
        [] => return fatal!["--exists requires a reference"],
        [name] => name,
        _ => return fatal!["--exists requires exactly one reference"],
    };
    tell_existence(session, name.as_bstr())
}

/// Returns the exit code that says whether the ref exists: 0 if it does, 2 if not, and 1 if that cannot be determined.
/// Fails if packed-refs cannot be read.
pub fn tell_existence(session: &Session, name: &BStr) -> Result<u8> {
    let found = match RefName::new_safe(name.to_vec()) {
        Some(name) => session.store.get(name.as_bstr()),
        None => Ok(None),
    };
    match found {
        Ok(Some(_)) | Err(refdb::Error::BadTarget { .. }) => Ok(0),
        Ok(None) if is_too_long(session, name) => {
            say("error: ", b"failed to look up reference: File name too long");
            Ok(1)
        }
        Ok(None) => {
            say("error: ", b"reference does not exist");
            Ok(2)
        }
        Err(refdb::Error::BrokenRef(broken)) => {
            let why = match broken.why {
                LooseError::Unreadable(_) => broken.why.words(),
                // The ref is symbolic, whatever its target is.
                LooseError::Target(_) => return Ok(0),
                _ => "Invalid argument".into(),
            };
            say("error: ", &message!["failed to look up reference: ", why]);
            Ok(1)
        }
        Err(error) if is_of_packed_refs(&error) => Err(error.into()),
        Err(error) => {
            say("error: ", &message!["failed to look up reference: ", error.to_string()]);
            Ok(1)
        }
    }
}

/// Returns whether git's list of all refs contains this one. The list contains broken refs, except for those whose file
/// cannot be opened.
fn is_listed(snapshot: &dyn Snapshot, name: &BStr) -> Result<bool> {
    match snapshot.get(name) {
        Err(refdb::Error::BrokenRef(broken)) => Ok(match broken.why {
            LooseError::Unreadable(_) => false,
            // A symbolic ref with an invalid target is broken, but without any target it is dangling, and not listed.
            LooseError::Target(target) => !target.is_empty(),
            _ => true,
        }),
        Ok(Some(Target::Direct(_))) => Ok(true),
        _ => Ok(listing::follow(snapshot, name)?.is_some()),
    }
}

/// Prints the lines of standard input whose ref does not exist or is not below `refs/`, without a final `^{}`. Skips
/// refs that do not begin with `pattern`, and prints a warning in place of a line with a malformed name. If the server
/// of a network file system loses a file that is being read, the current line and those after it are compared with the
/// refs as they are then.
fn exclude_existing(session: &Session, pattern: Option<&BStr>, output: &mut Output) -> Result<u8> {
    let mut snapshot = session.store.snapshot()?;
    let mut is_listed = |name: &BStr| match is_listed(&*snapshot, name) {
        Err(failure) if failure.is_lost() => {
            snapshot = session.store.snapshot()?;
            session.store.read(Failure::is_lost, |now| is_listed(now, name))
        }
        is_listed => is_listed,
    };
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) => return Ok(0),
            Ok(_) => {}
            Err(error) => return fatal!["cannot read standard input: ", crate::failure::system_text(&error)],
        }
        // A line ends at a NUL, too, after which its rest is dropped.
        let text = line.split(|byte| matches!(byte, b'\n' | 0)).next().unwrap_or_default();
        let text = text.strip_suffix(b"^{}").unwrap_or(text);
        let start = text.iter().rposition(is_space).map_or(0, |space| space + 1);
        let name = text[start..].as_bstr();
        if pattern.is_some_and(|pattern| !name.starts_with(pattern)) {
            continue;
        }
        if check_format(name, FormatOptions::default()).is_err() {
            say("warning: ", &message!["ref '", name, "' ignored"]);
            continue;
        }
        if !name.starts_with(b"refs/") || !is_listed(name)? {
            output.buffer().extend_from_slice(text);
            output.buffer().push(b'\n');
            output.relieve()?;
        }
    }
}

/// Returns whether refs are stored as files and the name of this ref is too long for a file.
fn is_too_long(session: &Session, name: &BStr) -> bool {
    let path = session.paths.common_dir.join(name.to_path_lossy());
    let is_refused = || std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::InvalidFilename);
    session.store.repository().ref_format() == RefFormat::Files && is_refused()
}
