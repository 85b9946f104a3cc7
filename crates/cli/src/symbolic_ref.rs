//! `refdb symbolic-ref`. See git-symbolic-ref(1).

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, refused},
    names::ShortNames,
    options::{Command, Opt, Parser, Value, Word},
    output::Output,
    session::{Session, before_locks},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Change, Edit, LogOptions, LooseError, Precondition, RefName, Snapshot, Target};
use refdb_types::SYMREF_DEPTH_MAX;
use std::sync::Arc;

pub static COMMAND: Command = Command {
    program: "git",
    name: "symbolic-ref",
    about: "Read, modify and delete symbolic refs",
    synopsis: &["[-m <reason>] <name> <ref>", "[-q] [--short] [--no-recurse] <name>", "--delete [-q] <name>"],
    options: &[
        Opt::flag("quiet", "do not report a reference that is not symbolic").short(b'q'),
        Opt::flag("delete", "delete the symbolic reference").short(b'd'),
        Opt::flag("short", "print the shortest name that is unambiguous"),
        Opt::flag("recurse", "follow symbolic references to the last one (the default)"),
        Opt::letter("m", "message to record in the reflog").takes(Value::Required("reason")),
    ],
};

struct Options {
    quiet: bool,
    delete: bool,
    short: bool,
    recurse: bool,
    reason: Option<BString>,
    arguments: Vec<BString>,
}

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let options = parse(invocation)?;
    if options.reason.as_ref().is_some_and(|reason| reason.is_empty()) {
        return fatal!["Refusing to perform update with empty message"];
    }
    match (&options.arguments[..], options.delete) {
        ([name], true) => delete(&session, name.as_bstr()),
        ([name], false) => read(&session, &options, name.as_bstr()),
        ([name, target], false) => write(&session, &options, name.as_bstr(), target.as_bstr()),
        _ => Err(COMMAND.wrong_use(None)),
    }
}

fn parse(invocation: &Invocation<'_>) -> Result<Options> {
    let mut options =
        Options { quiet: false, delete: false, short: false, recurse: true, reason: None, arguments: Vec::new() };
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(argument) => options.arguments.push(argument.to_owned()),
            Word::Option(opt, setting) => match opt.name {
                "quiet" => options.quiet = setting.is_on(),
                "delete" => options.delete = setting.is_on(),
                "short" => options.short = setting.is_on(),
                "recurse" => options.recurse = setting.is_on(),
                "m" => options.reason = setting.value().map(ToOwned::to_owned),
                _ => opt.unread(),
            },
        }
    }
    Ok(options)
}

/// Where a symbolic ref leads.
enum Leads {
    /// To this target, whose name is not validated if only one step is followed.
    To(BString),
    /// The ref is not symbolic, or does not exist.
    NotSymbolic,
    /// No ref can have the given name or that of a target to be followed, a ref that was read is broken, or the chain
    /// of symbolic refs is too long.
    NoSuchRef,
}

fn lookup(session: &Session, name: &BStr, recurse: bool) -> Result<Leads> {
    let Ok(first) = RefName::new(name.to_vec()) else { return Ok(Leads::NoSuchRef) };
    session.store.read(Failure::is_lost, |snapshot| lookup_in(snapshot, first.clone(), recurse))
}

fn lookup_in(snapshot: &dyn Snapshot, first: RefName, recurse: bool) -> Result<Leads> {
    let mut found = None;
    let mut at = first;
    for _ in 0..SYMREF_DEPTH_MAX {
        match (snapshot.get(at.as_bstr()), found) {
            (Ok(Some(Target::Symbolic(target))), _) if !recurse => return Ok(Leads::To(target.into())),
            (Ok(Some(Target::Symbolic(target))), _) if !target.is_valid() => return Ok(Leads::NoSuchRef),
            (Ok(Some(Target::Symbolic(target))), _) => {
                at = target.clone();
                found = Some(target);
            }
            (Ok(_), Some(target)) => return Ok(Leads::To(target.into())),
            (Ok(_), None) => return Ok(Leads::NotSymbolic),
            (Err(refdb::Error::BrokenRef(broken)), _) => {
                return Ok(match broken.why {
                    LooseError::Target(target) if !recurse => Leads::To(target),
                    _ => Leads::NoSuchRef,
                });
            }
            (Err(refdb::Error::BadTarget { target, .. }), _) if !recurse => return Ok(Leads::To(target)),
            (Err(refdb::Error::BadTarget { .. }), _) => return Ok(Leads::NoSuchRef),
            (Err(error), _) => return Err(error.into()),
        }
    }
    Ok(Leads::NoSuchRef)
}

fn read(session: &Session, options: &Options, name: &BStr) -> Result<u8> {
    let target = match lookup(session, name, options.recurse)? {
        Leads::To(target) => target,
        Leads::NotSymbolic if options.quiet => return Ok(1),
        Leads::NotSymbolic => return fatal!["ref ", name, " is not a symbolic ref"],
        Leads::NoSuchRef => return fatal!["No such ref: ", name],
    };
    let shown = match options.short {
        true => session.store.read(Failure::is_lost, |snapshot| {
            Ok::<_, Failure>(ShortNames::new(snapshot, false).shorten(target.as_bstr())?.to_owned())
        })?,
        false => target,
    };
    let mut output = Output::default();
    output.buffer().extend_from_slice(&shown);
    output.buffer().push(b'\n');
    output.flush()?;
    Ok(0)
}

fn delete(session: &Session, name: &BStr) -> Result<u8> {
    match lookup(session, name, false)? {
        Leads::NotSymbolic => return fatal!["Cannot delete ", name, ", not a symbolic ref"],
        Leads::NoSuchRef => return fatal!["No such ref: ", name],
        Leads::To(_) if name == "HEAD" => return fatal!["deleting '", name, "' is not allowed"],
        Leads::To(_) => {}
    }
    apply(session, name, Change::Delete, LogOptions::default())
}

fn write(session: &Session, options: &Options, name: &BStr, target: &BStr) -> Result<u8> {
    if name == "HEAD" && !target.starts_with(b"refs/") {
        return fatal!["Refusing to point HEAD outside of refs/"];
    }
    let log = LogOptions::new().message(options.reason.clone().map(Arc::new));
    match RefName::new(target.to_vec()) {
        Ok(target) => apply(session, name, Change::Set(Target::Symbolic(target)), log),
        Err(_) => fatal!["Refusing to set '", name, "' to invalid ref '", target, "'"],
    }
}

fn apply(session: &Session, name: &BStr, change: Change, log: LogOptions) -> Result<u8> {
    before_locks()?;
    let edit = || {
        let safe = RefName::new_safe(name.to_vec()).filter(|name| refdb_types::is_safe(name));
        let name = safe.ok_or_else(|| refdb::Misuse::BadName(name.to_owned()));
        Ok::<_, refdb::Error>(Edit { name: name?, change, expected: Precondition::Any, deref: false, log })
    };
    let commit = || {
        let mut transaction = session.store.transaction();
        transaction.add(edit()?)?;
        session.warn_of_hooks();
        transaction.commit()
    };
    commit().map_err(refused)?;
    Ok(0)
}
