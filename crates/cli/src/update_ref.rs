//! `refdb update-ref`: see git-update-ref(1).
//!
//! `single` changes one ref; requests on standard input change many. `records` splits the stream into records,
//! `request` parses each record, and `batch` turns the requests into transactions.

pub mod batch;
pub mod records;
pub mod request;
mod single;

pub(crate) use single::{apply, change_to};

use crate::{
    Invocation,
    failure::{Result, fatal},
    options::{Command, Opt, Parser, Value, Word},
    session::{Session, before_locks},
};
use bstr::{BString, ByteSlice};
use refdb::{Change, LogOptions, RefName, Target};
use refdb_types::is_safe;
use std::sync::Arc;

pub static COMMAND: Command = Command {
    program: "git",
    name: "update-ref",
    about: "Update the object name stored in a ref safely",
    synopsis: &[
        "[<options>] -d <refname> [<old-oid>]",
        "[<options>]    <refname> <new-oid> [<old-oid>]",
        "[<options>] --stdin [-z] [--batch-updates]",
    ],
    options: &[
        Opt::letter("m", "message to record in the reflog").takes(Value::Required("reason")),
        Opt::letter("d", "delete the reference"),
        Opt::flag("no-deref", "change a symbolic reference itself instead of its target"),
        Opt::letter("z", "fields on stdin are terminated by NUL"),
        Opt::flag("stdin", "read requests from stdin"),
        Opt::flag("create-reflog", "create a reflog even if the configuration does not ask for one"),
        Opt::flag("batch-updates", "apply the updates that can be applied and report the others").short(b'0'),
    ],
};

/// The options and arguments of `update-ref`, and of `refs create`, `delete` and `update`.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) reason: Option<BString>,
    delete: bool,
    pub(crate) no_deref: bool,
    nul: bool,
    stdin: bool,
    pub(crate) create_reflog: bool,
    batch_updates: bool,
    pub(crate) arguments: Vec<BString>,
}

impl Options {
    fn log(&self) -> LogOptions {
        let message = self.reason.clone().map(Arc::new);
        LogOptions::new().message(message).force_create(self.create_reflog)
    }
}

/// Validates the name of a ref. If the change sets an object id, the name has to be well formed. For any other change,
/// it need only be safe ([`is_safe`]), so that ill-formed refs can still be deleted.
fn check_name(name: &[u8], change: &Change) -> refdb::Result<RefName> {
    let checked = match change {
        Change::Set(Target::Direct(_)) => RefName::new(name).ok(),
        Change::Set(Target::Symbolic(_)) | Change::Delete | Change::Verify => {
            RefName::new_safe(name).filter(|name| is_safe(name))
        }
    };
    let bad = || refdb::Misuse::BadName(name.into()).into();
    checked.ok_or_else(bad)
}

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let options = parse(invocation)?;
    if options.reason.as_ref().is_some_and(|reason| reason.is_empty()) {
        return fatal!["Refusing to perform update with empty message."];
    }
    let count = options.arguments.len();
    if options.stdin {
        if options.delete || count > 0 {
            return Err(COMMAND.wrong_use(None));
        }
    } else if options.batch_updates {
        return fatal!["--batch-updates can only be used with --stdin"];
    } else if options.nul || !if options.delete { 1..=2 } else { 2..=3 }.contains(&count) {
        return Err(COMMAND.wrong_use(None));
    }
    before_locks()?;
    if options.stdin {
        batch::run(&session, &options)
    } else if options.delete {
        single::delete(&session, &options)
    } else {
        single::update(&session, &options)
    }
}

fn parse(invocation: &Invocation<'_>) -> Result<Options> {
    let mut options = Options::default();
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(argument) => options.arguments.push(argument.to_owned()),
            Word::Option(opt, setting) => match opt.name {
                "m" => options.reason = setting.value().map(|reason| reason.as_bstr().to_owned()),
                "d" => options.delete = true,
                "no-deref" => options.no_deref = setting.is_on(),
                "z" => options.nul = true,
                "stdin" => options.stdin = setting.is_on(),
                "create-reflog" => options.create_reflog = setting.is_on(),
                "batch-updates" => options.batch_updates = setting.is_on(),
                _ => opt.unread(),
            },
        }
    }
    Ok(options)
}
