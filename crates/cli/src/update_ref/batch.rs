//! `update-ref --stdin`: transactions of requests from standard input.

use super::{
    Options, check_name,
    records::Records,
    request::{self, OldValue, Request, Verb},
};
use crate::{
    failure::{Failure, Result, fatal, message, say},
    output::Output,
    session::Session,
};
use refdb::{
    Change, Edit, LogOptions, Precondition, Prepared, Rejection, RejectionClass, Store, Target, Transaction,
    TransactionOptions, transaction::Mode,
};
use refdb_types::{ObjectId, RefName};
use std::io::{self, Read};

/// Standard input whose reads are interrupted by signals. It has no buffer, in which a request could stay unnoticed
/// while the next read waits for more.
struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        refdb_vfs::interrupt::wait_readable(io::stdin())?;
        Ok(rustix::io::read(io::stdin(), buffer)?)
    }
}

/// The state of a session.
enum State<'s> {
    /// Requests are collected; the end of the input commits them.
    Open(Transaction<'s>),
    /// Requests are collected after `start`; the end of the input aborts them.
    Started(Transaction<'s>),
    /// The refs of all requests are locked, except for requests that were rejected.
    Prepared(Prepared<'s>),
    /// Only `start` may follow.
    Closed,
}

/// A session of requests.
struct Batch<'s> {
    session: &'s Session,
    store: &'s Store,
    options: TransactionOptions,
    no_deref: bool,
    /// Whether `option no-deref` applies to the next request that names a ref.
    no_deref_once: bool,
    log: LogOptions,
    state: State<'s>,
    /// The values of the request of each edit, by position, for the report of those that fail. They are kept only if
    /// edits may fail one by one.
    asked: Option<Vec<Asked>>,
}

/// The values of a request as git reports them; `None` if the request has none.
struct Asked {
    name: RefName,
    new: Option<ObjectId>,
    old: Option<ObjectId>,
    reported: bool,
}

fn open(store: &Store, options: TransactionOptions) -> Transaction<'_> {
    let mut transaction = store.transaction();
    transaction.options(options);
    transaction
}

fn report_rejection(rejection: &Rejection, asked: &Asked) -> Result<()> {
    say("error: ", rejection.to_string().as_bytes());
    let mut output = Output::default();
    let out = output.buffer();
    out.extend_from_slice(b"rejected ");
    out.extend_from_slice(&rejection.resolved);
    for value in [asked.new, asked.old] {
        out.push(b' ');
        match value {
            Some(id) => id.write_hex(out),
            // This is what git prints.
            None => out.extend_from_slice(b"(null)"),
        }
    }
    out.push(b' ');
    out.extend_from_slice(rejection.class().as_str().as_bytes());
    out.push(b'\n');
    output.flush()
}

/// Carries out the requests on standard input.
pub(super) fn run(session: &Session, options: &Options) -> Result<u8> {
    let mode = if options.batch_updates { Mode::PerEdit } else { Mode::Atomic };
    let transaction_options = TransactionOptions::new().mode(mode);
    let kind = session.store.hash();
    let mut batch = Batch {
        session,
        store: &session.store,
        options: transaction_options,
        no_deref: options.no_deref,
        no_deref_once: false,
        log: options.log(),
        state: State::Open(open(&session.store, transaction_options)),
        asked: options.batch_updates.then(Vec::new),
    };
    let mut revisions = session.revisions();
    let mut records = Records::new(Stdin);
    loop {
        let record = if options.nul { records.fields(request::field_count)? } else { records.line()? };
        let Some(record) = record else { break };
        let (verb, arguments) = request::read_verb(&record)?;
        batch.check_state(verb)?;
        let request = arguments.request(verb, batch.follows(), kind, &mut revisions)?;
        batch.perform(request)?;
    }
    batch.end()?;
    Ok(0)
}

impl<'s> Batch<'s> {
    fn follows(&self) -> bool {
        !(self.no_deref || self.no_deref_once)
    }

    /// Checks whether a request may occur now, before it is parsed.
    fn check_state(&self, verb: Verb) -> Result<()> {
        match (&self.state, verb) {
            (State::Prepared(_), Verb::Commit | Verb::Abort) | (State::Closed, Verb::Start) => Ok(()),
            (State::Prepared(_), _) => fatal!["prepared transactions can only be closed"],
            (State::Closed, _) => fatal!["transaction is closed"],
            (State::Started(_), Verb::Start) => fatal!["cannot restart ongoing transaction"],
            (State::Open(_) | State::Started(_), _) => Ok(()),
        }
    }

    fn perform(&mut self, request: Request) -> Result<()> {
        let is_create = matches!(request, Request::Create { .. });
        let edit = match request {
            Request::NoDeref => {
                self.no_deref_once = true;
                return Ok(());
            }
            Request::Start => return self.start(),
            Request::Prepare => return self.prepare(),
            Request::Abort => return self.abort(),
            Request::Commit => return self.commit(),
            request => self.edit(request)?,
        };
        self.no_deref_once = false;
        if let Some(asked) = &mut self.asked {
            asked.push(Asked::of(&edit, self.store));
        }
        let (State::Open(transaction) | State::Started(transaction)) = &mut self.state else {
            // `check_state` refuses all requests that would lead here.
            return fatal!["transaction is closed"];
        };
        transaction.add(edit)?;
        // An edit that is rejected immediately is reported immediately. At this point, git does not know the old value
        // of a `create` yet, and reports none.
        if let [.., (position, rejection)] = transaction.rejected()
            && position + 1 == transaction.len()
            && let Some(asked) = &mut self.asked
        {
            let Some(last) = asked.last_mut() else { return Ok(()) };
            last.old = last.old.filter(|_| !is_create);
            last.reported = true;
            report_rejection(rejection, last)?;
        }
        Ok(())
    }

    fn edit(&self, request: Request) -> Result<Edit> {
        let (name, change, expected) = translate(request);
        // The name is known to be well formed; only the rule for names outside of refs/ remains to be checked.
        if !name.starts_with(b"refs/") {
            check_name(&name, &change)?;
        }
        Ok(Edit { name, change, expected, deref: self.follows(), log: self.log.clone() })
    }

    fn start(&mut self) -> Result<()> {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(transaction) => State::Started(transaction),
            _ => {
                if let Some(asked) = &mut self.asked {
                    asked.clear();
                }
                State::Started(open(self.store, self.options))
            }
        };
        report("start: ok\n")
    }

    fn prepare(&mut self) -> Result<()> {
        let (State::Open(transaction) | State::Started(transaction)) =
            std::mem::replace(&mut self.state, State::Closed)
        else {
            return Ok(());
        };
        self.session.warn_of_hooks();
        self.state = State::Prepared(transaction.prepare().map_err(|error| failed("prepare: ", error))?);
        report("prepare: ok\n")
    }

    fn abort(&mut self) -> Result<()> {
        self.give_up("abort: ")?;
        report("abort: ok\n")
    }

    fn give_up(&mut self, lead: &str) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(transaction) | State::Started(transaction) => {
                self.session.warn_of_hooks();
                transaction.abort()
            }
            State::Prepared(prepared) => prepared.abort(),
            State::Closed => Ok(()),
        }
        .map_err(|error| failed(lead, error))
    }

    fn commit(&mut self) -> Result<()> {
        self.finish("commit: ")?;
        report("commit: ok\n")
    }

    fn finish(&mut self, lead: &str) -> Result<()> {
        let committed = match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(transaction) | State::Started(transaction) => {
                self.session.warn_of_hooks();
                transaction.commit()
            }
            State::Prepared(prepared) => prepared.commit(),
            State::Closed => return Ok(()),
        };
        let committed = committed.map_err(|error| failed(lead, error))?;
        self.report_rejected(&committed.rejected)
    }

    fn report_rejected(&self, rejected: &[(usize, Rejection)]) -> Result<()> {
        let Some(asked) = &self.asked else { return Ok(()) };
        let unreported = rejected.iter().filter_map(|(position, rejection)| Some((rejection, asked.get(*position)?)));
        let mut unreported: Vec<_> = unreported.filter(|(_, asked)| !asked.reported).collect();
        // Git checks names last, except for those whose refs it could not even lock. The target of a symbolic ref
        // comes after the ref that was asked for.
        unreported.sort_by_key(|(rejection, asked)| {
            let is_late = rejection.class() == RejectionClass::NameConflict && !rejection.reason.prevents_lock();
            (is_late, rejection.resolved != asked.name)
        });
        unreported.into_iter().try_for_each(|(rejection, asked)| report_rejection(rejection, asked))
    }

    /// Handles the end of the input.
    fn end(&mut self) -> Result<()> {
        match self.state {
            State::Open(_) => self.finish(""),
            State::Started(_) | State::Prepared(_) => self.give_up(""),
            State::Closed => Ok(()),
        }
    }
}

fn translate(request: Request) -> (RefName, Change, Precondition) {
    let at = |old: Option<ObjectId>| match old {
        None => Precondition::Any,
        Some(id) if id.is_null() => Precondition::MustNotExist,
        Some(id) => Precondition::MustMatch(Target::Direct(id)),
    };
    let leads_to =
        |old: Option<RefName>, otherwise| old.map_or(otherwise, |old| Precondition::MustMatch(Target::Symbolic(old)));
    match request {
        Request::Update { name, new, old } if new.is_null() => (name, Change::Delete, at(old)),
        Request::Update { name, new, old } => (name, Change::Set(Target::Direct(new)), at(old)),
        Request::Create { name, new } => (name, Change::Set(Target::Direct(new)), Precondition::MustNotExist),
        Request::Delete { name, old } => (name, Change::Delete, at(old)),
        Request::Verify { name, old } => (name, Change::Verify, at(Some(old))),
        Request::SymrefUpdate { name, target, old } => {
            let expected = match old {
                None => Precondition::Any,
                Some(OldValue::Id(id)) => at(Some(id)),
                Some(OldValue::Target(target)) => Precondition::MustMatch(Target::Symbolic(target)),
            };
            (name, Change::Set(Target::Symbolic(target)), expected)
        }
        Request::SymrefCreate { name, target } => {
            (name, Change::Set(Target::Symbolic(target)), Precondition::MustNotExist)
        }
        Request::SymrefDelete { name, old } => (name, Change::Delete, leads_to(old, Precondition::Any)),
        Request::SymrefVerify { name, old } => (name, Change::Verify, leads_to(old, Precondition::MustNotExist)),
        Request::NoDeref | Request::Start | Request::Prepare | Request::Abort | Request::Commit => {
            unreachable!("requests that name no ref are performed at once")
        }
    }
}

impl Asked {
    /// Returns the values that are reported for an edit. Symbolic values are reported as zero, as git does, although
    /// its documentation promises the target.
    fn of(edit: &Edit, store: &Store) -> Self {
        let zero = ObjectId::null(store.hash());
        let new = match &edit.change {
            Change::Set(Target::Direct(id)) => Some(*id),
            Change::Set(Target::Symbolic(_)) | Change::Delete => Some(zero),
            Change::Verify => None,
        };
        let old = match &edit.expected {
            Precondition::Any | Precondition::MustExist => None,
            Precondition::MustMatch(target) | Precondition::ExistingMustMatch(target) => {
                Some(target.id().unwrap_or(zero))
            }
            Precondition::MustNotExist => Some(zero),
        };
        Asked { name: edit.name.clone(), new, old, reported: false }
    }
}

/// Returns the failure for an error. A fatal message begins with `lead`, unless it is about a hook or a lost file.
fn failed(lead: &str, error: refdb::Error) -> Failure {
    let is_hook = matches!(error, refdb::Error::Hook(_));
    match Failure::from(error) {
        Failure::Fatal(text) if !is_hook => Failure::Fatal(message![lead, text]),
        other => other,
    }
}

/// Writes a line and flushes it, because the program that drives the session waits for it.
fn report(line: &str) -> Result<()> {
    let mut output = Output::default();
    output.buffer().extend_from_slice(line.as_bytes());
    output.flush()
}
