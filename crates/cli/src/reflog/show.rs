//! `refdb reflog show`: git's `log -g --abbrev-commit --pretty=oneline`, for the common questions of people and
//! scripts.
//!
//! Everything else is left to git before anything is written: a terminal, several refs, paths, conditions, patches,
//! fields of commits.

mod start;
mod words;

use crate::{
    Invocation,
    clock::Clock,
    failure::{Failure, Result, fatal},
    for_each_ref::date::{DateForm, Time},
    names::ShortNames,
    options::Command,
    output::Output,
    real_git,
    revision::strict_names,
    session::Session,
    shortlist,
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Snapshot, config::Config, objects::ObjectKind};
use refdb_types::{LogEntry, ObjectId};
use start::{Place, Start};
use std::{
    collections::HashMap,
    ffi::OsString,
    io::{IsTerminal, Write},
    ops::ControlFlow,
};
use words::{Digits, Piece, Shape, Wish};

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "reflog [show]",
    about: "Show the reflog of a reference (the default)",
    synopsis: &["[<log-options>] [<ref>]"],
    options: &[],
};

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    match show(invocation)? {
        Some(code) => Ok(code),
        None => Err(leave(invocation)),
    }
}

/// Replaces this process by git.
fn leave(invocation: &Invocation<'_>) -> Failure {
    let own = invocation.globals.of_git.iter().cloned().chain(["reflog".into(), "show".into()]);
    let words: Vec<OsString> = own.chain(invocation.words.iter().cloned()).collect();
    real_git::exec(&invocation.globals.environment(), "reflog show", &words, "this log")
}

/// Shows the log. Returns `None` if that is left to git, in which case standard output has got nothing.
fn show(invocation: &Invocation<'_>) -> Result<Option<u8>> {
    // At a terminal, git starts a pager and shows colors and decorations.
    if std::io::stdout().is_terminal() || std::env::var_os("GIT_PAGER_IN_USE").is_some() {
        return Ok(None);
    }
    let Some(wish) = Wish::of(invocation.words) else { return Ok(None) };
    let session = Session::open_silently(invocation.globals)?;
    let config = session.store.config();
    if !is_plain(config) || session.store.repository().is_partial_clone() {
        return Ok(None);
    }
    // An unknown form in `log.date` ends git's command even if `--date` names another form.
    let configured = match config.last("log.date").map(|value| value.raw.map(|form| DateForm::parse(form))) {
        None => DateForm::DEFAULT,
        Some(Some(Ok(form))) => form,
        Some(_) => return Ok(None),
    };
    let form = wish.date.clone().unwrap_or(configured);
    let clock = Clock::of(session.store.environment());
    let look = Look { session: &session, wish: &wish, clock: &clock, form };
    let shown = Output::of_log().list(&session.store, |snapshot, output| look.show(snapshot, output));
    if !matches!(shown, Ok(None)) {
        session.warn();
    }
    shown
}

/// What is shown, and how.
struct Look<'a> {
    session: &'a Session,
    wish: &'a Wish<'a>,
    clock: &'a Clock<'a>,
    form: DateForm,
}

impl Look<'_> {
    fn show(&self, snapshot: &dyn Snapshot, output: &mut Output) -> Result<Option<u8>> {
        let Look { session, wish, clock, form } = self;
        if wish.loads_notes && has_notes(session, snapshot) {
            return Ok(None);
        }
        let Some(start) = Start::find(session, snapshot, wish, clock)? else { return Ok(None) };
        let mut walk = Walk {
            is_dated: match start.place {
                Place::Top => wish.date.is_some(),
                Place::Number(_) => false,
                Place::Time(_) => true,
            },
            short: short_name(session, snapshot, &start)?,
            session,
            wish,
            form: form.clone(),
            clock,
            skip: wish.skip,
            left: wish.limit,
            digits: HashMap::new(),
            output,
            is_first: true,
        };
        walk.entries(snapshot, start)
    }
}

/// Returns `true` only if none of `core.abbrev`, `color.diff`, `color.ui`, `i18n.*` and the settings `log.*` other than
/// `log.date` makes git stop, or show the log differently from refdb.
fn is_plain(config: &Config) -> bool {
    let is_always =
        |key: &str| config.all(key).any(|value| value.raw.is_some_and(|raw| raw.eq_ignore_ascii_case(b"always")));
    let concerns = |key: &BStr| (key.starts_with(b"log.") && key != "log.date") || key.starts_with(b"i18n.");
    shortlist::is_sound(config, &[])
        && shortlist::are_colors_sound(config, "color.diff")
        && !is_always("color.diff")
        && !is_always("color.ui")
        && !config.iter().any(|value| concerns(value.key))
}

/// Returns whether notes refs are configured, or `refs/notes/commits` exists or is broken. Git would load such notes,
/// and report notes refs that are missing or broken.
fn has_notes(session: &Session, snapshot: &dyn Snapshot) -> bool {
    let is_in_environment = |name: &&str| session.store.environment().get(name).is_some();
    let is_configured = |key: &&str| session.store.config().last(key).is_some();
    ["GIT_NOTES_REF", "GIT_NOTES_DISPLAY_REF"].iter().any(is_in_environment)
        || ["core.notesref", "notes.displayref"].iter().any(is_configured)
        || !matches!(snapshot.get(BStr::new("refs/notes/commits")), Ok(None))
}

/// Returns the name of the ref in `%gd`.
fn short_name(session: &Session, snapshot: &dyn Snapshot, start: &Start) -> Result<BString> {
    let shown = start.shown.as_bstr();
    if !shown.starts_with(b"refs/") {
        return Ok(shown.into());
    }
    Ok(ShortNames::new(snapshot, strict_names(&session.store)?).shorten(shown)?.into())
}

/// Maximum number of ids whose abbreviated lengths are remembered. When it is reached, all of them are forgotten.
const DIGITS_MAX: usize = 8192;

struct Walk<'a> {
    session: &'a Session,
    wish: &'a Wish<'a>,
    clock: &'a Clock<'a>,
    /// Whether a selector contains a time instead of a number.
    is_dated: bool,
    form: DateForm,
    short: BString,
    skip: usize,
    left: Option<usize>,
    /// By id, the number of digits to which it is abbreviated.
    digits: HashMap<ObjectId, usize>,
    output: &'a mut Output,
    is_first: bool,
}

impl Walk<'_> {
    /// Shows the entries, newest first. Returns `None`, before anything is shown, if git has to show them.
    fn entries(&mut self, snapshot: &dyn Snapshot, mut start: Start) -> Result<Option<u8>> {
        let (mut index, mut result) = (0, Ok(()));
        let name = start.name.clone();
        let walked = snapshot.log(&name, &mut |entry| {
            let flow = self.entry(&mut start, index, entry);
            index += 1;
            flow.unwrap_or_else(|failure| {
                result = Err(failure);
                ControlFlow::Break(())
            })
        });
        let shown = walked.map(drop).map_err(Failure::from).and(result);
        if !start.is_reached() {
            debug_assert!(self.is_first && self.output.buffer().is_empty(), "nothing is shown before the start");
            return shown.map(|()| None);
        }
        // Entries before one that cannot be read or shown are shown, unless the walk may be repeated.
        if self.output.has_written() || !shown.as_ref().is_err_and(Failure::is_lost) {
            self.output.flush()?;
        }
        shown.map(|()| Some(0))
    }

    fn entry(&mut self, start: &mut Start, index: usize, entry: &LogEntry) -> Result<ControlFlow<()>> {
        let is_commit = self.session.store.objects().kind(&entry.new)? == Some(ObjectKind::Commit);
        if !start.is_reached() {
            match start.reach(index, entry, is_commit) {
                ControlFlow::Continue(false) => return Ok(ControlFlow::Continue(())),
                ControlFlow::Continue(true) => {}
                ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
            }
        }
        if self.left == Some(0) {
            return Ok(ControlFlow::Break(()));
        }
        if !is_commit {
            return Ok(ControlFlow::Continue(()));
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        self.line(start, index, entry)?;
        self.output.relieve()?;
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn line(&mut self, start: &Start, index: usize, entry: &LogEntry) -> Result<()> {
        // Like git's strings, the message ends at a NUL.
        let message = entry.message.find_byte(0).map_or(entry.message.as_bstr(), |end| entry.message[..end].as_bstr());
        let wish = self.wish;
        match &wish.shape {
            Shape::Oneline => {
                let digits = if wish.abbreviates { wish.digits } else { Digits::All };
                self.id(&entry.new, digits)?;
                self.output.buffer().push(b' ');
                self.selector(start.shown.as_bstr(), index, entry)?;
                self.output.buffer().extend_from_slice(b": ");
                self.output.buffer().extend_from_slice(message);
                // As in git, a message that was cut at a NUL has lost its newline.
                if message.len() == entry.message.len() {
                    self.output.buffer().push(b'\n');
                }
            }
            Shape::Format { pieces, separates } => {
                let end = if wish.ends_with_nul { 0 } else { b'\n' };
                if *separates && !self.is_first {
                    self.output.buffer().push(end);
                }
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => self.output.buffer().extend_from_slice(text),
                        Piece::Id => self.id(&entry.new, Digits::All)?,
                        Piece::ShortId => self.id(&entry.new, wish.digits)?,
                        Piece::Selector => self.selector(start.shown.as_bstr(), index, entry)?,
                        Piece::ShortSelector => {
                            let short = std::mem::take(&mut self.short);
                            self.selector(short.as_bstr(), index, entry)?;
                            self.short = short;
                        }
                        Piece::Message => self.output.buffer().extend_from_slice(message),
                        Piece::Name => self.output.buffer().extend_from_slice(&entry.committer.name),
                        Piece::Email => self.output.buffer().extend_from_slice(&entry.committer.email),
                    }
                }
                if !separates {
                    self.output.buffer().push(end);
                }
            }
        }
        self.is_first = false;
        Ok(())
    }

    fn id(&mut self, id: &ObjectId, digits: Digits) -> Result<()> {
        let len = match digits {
            Digits::All => id.kind().len_hex(),
            Digits::Configured => self.short_len(id, None)?,
            Digits::AtLeast(least) => self.short_len(id, Some(least))?,
        };
        let buffer = self.output.buffer();
        let end = buffer.len() + len;
        id.write_hex(buffer);
        debug_assert!(end <= buffer.len(), "an id has no more than all its digits");
        buffer.truncate(end);
        Ok(())
    }

    fn short_len(&mut self, id: &ObjectId, least: Option<usize>) -> Result<usize> {
        if let Some(len) = self.digits.get(id) {
            return Ok(*len);
        }
        let len = self.session.abbreviate(id, least)?;
        if self.digits.len() == DIGITS_MAX {
            self.digits.clear();
        }
        self.digits.insert(*id, len);
        Ok(len)
    }

    fn selector(&mut self, name: &BStr, index: usize, entry: &LogEntry) -> Result<()> {
        let buffer = self.output.buffer();
        buffer.extend_from_slice(name);
        buffer.extend_from_slice(b"@{");
        if self.is_dated {
            let seconds = entry.committer.time_seconds;
            if i64::try_from(seconds).is_err() {
                return fatal!["Timestamp too large for this system: ", seconds.to_string()];
            }
            let time = Time::logged(&entry.committer);
            buffer.extend_from_slice(time.show(&self.form, self.clock).as_bytes());
        } else {
            write!(buffer, "{index}").expect("memory takes all");
        }
        buffer.push(b'}');
        Ok(())
    }
}
