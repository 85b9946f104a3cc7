//! `refdb reflog expire`: see git-reflog(1).

mod complete;
mod cutoff;
mod reach;

use super::{
    judged::{self, DRY_RUN, REWRITE, Teller, UPDATE_REF, VERBOSE, all_logs},
    logged_ref, say_not_found,
};
use crate::{
    Invocation,
    clock::{Clock, system_seconds},
    failure::{FAILED, Result, fatal},
    for_each_ref::history::History,
    options::{Command, Opt, Parser, Setting, Value, Word},
    session::{Session, before_locks},
};
use bstr::{BStr, BString};
use complete::Complete;
use cutoff::{Cutoff, Settings};
use reach::Reach;
use refdb::{LogJudge, LoggedChange, ObjectId, PruneLogs, RefName, Resolved, expiry};

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "reflog expire",
    about: "Delete old entries of reflogs",
    synopsis: &[
        "[--expire=<time>] [--expire-unreachable=<time>]\n[--rewrite] [--updateref] [--stale-fix]\n[--dry-run | -n] [--verbose] [--all [--single-worktree] | <refs>...]",
    ],
    options: &[
        DRY_RUN,
        REWRITE,
        UPDATE_REF,
        VERBOSE,
        Opt::flag("expire", "delete entries older than this").takes(Value::Required("timestamp")).fixed(),
        Opt::flag("expire-unreachable", "delete entries older than this that are not reachable from the reference")
            .takes(Value::Required("timestamp"))
            .fixed(),
        Opt::flag("stale-fix", "delete entries whose commits lead to missing objects"),
        Opt::flag("all", "process the reflogs of all references"),
        Opt::flag("single-worktree", "with --all, skip the reflogs of other worktrees' own references"),
    ],
};

#[derive(Default)]
struct Options {
    how: PruneLogs,
    given: Cutoff<Option<u64>>,
    stale_fix: bool,
    all: bool,
    single: bool,
    names: Vec<BString>,
}

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let clock = Clock::of(session.store.environment());
    let settings = Settings::of(session.store.config(), &clock, system_seconds()).map_err(refdb::Error::from)?;
    let options = parse(invocation, &clock)?;
    before_locks()?;
    let history = History::of(&session);
    let mut judge = Expiry {
        session: &session,
        settings: &settings,
        given: options.given,
        reach: Reach::new(&session, &history),
        complete: None,
        name: RefName::new("HEAD").expect("HEAD is a refname"),
        cutoff: Cutoff::default(),
        is_head: false,
        tip: None,
        teller: Teller::new(options.how.dry_run),
    };
    if options.stale_fix {
        if options.how.report {
            judge.teller.say("Marking reachable objects...")?;
        }
        judge.complete = Some(Complete::new(&session, &history)?);
    }
    let mut is_whole = true;
    if options.all {
        judge.prune(&all_logs(&session, options.single)?, options.how)?;
    }
    // As in git, even a dry run says `prune`, not `would prune`, about refs that are named.
    judge.teller.gone = "prune";
    for name in &options.names {
        match logged_ref(&session, name.as_ref())? {
            Some(full) => judge.prune(&[full], options.how)?,
            None => {
                judge.teller.flush()?;
                say_not_found(name.as_ref());
                is_whole = false;
            }
        }
    }
    let code = judge.teller.end()?;
    Ok(if is_whole { code } else { FAILED })
}

fn parse(invocation: &Invocation<'_>, clock: &Clock<'_>) -> Result<Options> {
    let mut options = Options::default();
    let mut parser = Parser::new(&COMMAND, invocation.words);
    let time = |name: &str, setting: Setting<'_>| match setting.value() {
        Some(text) => match expiry(text, clock.now, &clock.zone) {
            Some(time) => Ok(Some(time)),
            None => fatal!["invalid timestamp '", text, "' given to '--", name, "'"],
        },
        None => Ok(None),
    };
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(name) => options.names.push(name.to_owned()),
            Word::Option(opt, setting) => match opt.name {
                "expire" => options.given.any = time(opt.name, setting)?,
                "expire-unreachable" => options.given.unreachable = time(opt.name, setting)?,
                "stale-fix" => options.stale_fix = setting.is_on(),
                "all" => options.all = setting.is_on(),
                "single-worktree" => options.single = setting.is_on(),
                name if judged::set(&mut options.how, name, setting.is_on()) => {}
                _ => opt.unread(),
            },
        }
    }
    Ok(options)
}

/// Decides which entries are deleted.
struct Expiry<'a> {
    session: &'a Session,
    settings: &'a Settings,
    given: Cutoff<Option<u64>>,
    reach: Reach<'a>,
    complete: Option<Complete<'a>>,
    /// The ref whose log is processed.
    name: RefName,
    cutoff: Cutoff<u64>,
    is_head: bool,
    /// The commit that the ref leads to, once it was looked up.
    tip: Option<Option<ObjectId>>,
    teller: Teller,
}

impl Expiry<'_> {
    fn prune(&mut self, names: &[RefName], how: PruneLogs) -> Result<()> {
        if let Err(error) = self.session.store.prune_logs(names, how, self) {
            self.teller.fail(error);
        }
        self.teller.flush()
    }

    /// Returns the commit that the ref leads to. As in git, a broken ref and a ref with an invalid name lead to none.
    fn tip(&mut self) -> refdb::Result<Option<ObjectId>> {
        if let Some(tip) = self.tip {
            return Ok(tip);
        }
        if !self.name.is_valid() {
            return Ok(None);
        }
        let tip = self.session.store.read(refdb::Error::is_stale, |snapshot| refdb::resolve(snapshot, &self.name));
        let id = match tip {
            Ok(Resolved::Object { id, .. }) => Some(id),
            Ok(Resolved::Missing(_)) => None,
            Err(error) if error.is_broken_ref() => None,
            Err(error) => return Err(error),
        };
        let tip = match id {
            Some(id) => self.reach.commit_of(id)?,
            None => None,
        };
        self.tip = Some(tip);
        Ok(tip)
    }

    /// Returns whether a commit cannot be reached from the ref or, if the ref is a HEAD, from any ref below `refs/`.
    /// Returns `false` for the null id and for an object for which [`Reach::commit_of`] finds no commit.
    fn is_unreachable(&mut self, id: ObjectId) -> refdb::Result<bool> {
        if id.is_null() {
            return Ok(false);
        }
        let Some(commit) = self.reach.commit_of(id)? else { return Ok(false) };
        if self.is_head {
            return Ok(!self.reach.is_below_refs(commit)?);
        }
        match self.tip()? {
            Some(tip) => Ok(!self.reach.leads_to(tip, commit)?),
            None => Ok(true),
        }
    }
}

impl LogJudge for Expiry<'_> {
    fn begin(&mut self, name: &BStr, _: &mut dyn ExactSizeIterator<Item = u64>) -> refdb::Result<()> {
        self.cutoff = self.settings.cutoff(name, self.given);
        self.is_head = cutoff::is_head(name);
        self.name = RefName::new_safe(name.to_vec()).expect("a log that is judged has a ref's name");
        self.tip = None;
        Ok(())
    }

    fn goes(&mut self, entry: &LoggedChange<'_>) -> refdb::Result<bool> {
        if entry.time_seconds < self.cutoff.any {
            return Ok(true);
        }
        if let Some(complete) = &mut self.complete
            && !(complete.is_whole(entry.old)? && complete.is_whole(entry.new)?)
        {
            return Ok(true);
        }
        if entry.time_seconds >= self.cutoff.unreachable {
            return Ok(false);
        }
        // Without a commit to start from, nothing can be reached.
        if !self.is_head && self.tip()?.is_none() {
            return Ok(true);
        }
        Ok(self.is_unreachable(entry.old)? || self.is_unreachable(entry.new)?)
    }

    fn told(&mut self, entry: &LoggedChange<'_>, goes: bool) {
        self.teller.tell(entry, goes);
    }

    fn failed(&mut self, _: &RefName, error: refdb::Error) {
        self.teller.fail(error);
    }
}
