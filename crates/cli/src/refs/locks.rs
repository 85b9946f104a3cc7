//! `refdb refs locks`: lists the lock files of a repository, each with the process that made it if it is signed, and
//! removes the signed locks of a boot that has ended.

mod line;

use crate::{
    Invocation,
    failure::{Result, fatal, message, say},
    options::{Command, Opt, Parser, Value, Word},
    output::Output,
    session::Session,
};
use bstr::{BStr, ByteSlice};
use refdb::{LockFile, LockRemoval, files::Outcome};
use refdb_vfs::{EndedBoot, EndedBootError};
use std::path::Path;

pub(super) static COMMAND: Command = Command {
    program: "refdb",
    name: "refs locks",
    about: "List lock files with who made them, or remove those of a machine that is gone",
    synopsis: &["[--boot=<id>] [--porcelain] [-z]", "--remove --boot=<id> [--machine-is-off] [--porcelain] [-z]"],
    options: &[
        Opt::flag("boot", "only locks that were made while a machine had this boot id").takes(Value::Required("id")),
        Opt::flag("remove", "recover that boot's batches and remove its locks, except those that are or may be held"),
        Opt::flag("machine-is-off", "remove also where the mount does not show whether another machine holds a lock"),
        Opt::flag("porcelain", "print fields with tabs between them, for programs"),
        Opt::letter("z", "like --porcelain, but with each line ended by a NUL and paths as they are"),
    ],
};

/// What the command line asks for.
#[derive(Default)]
struct Wish<'a> {
    boot: Option<&'a BStr>,
    remove: bool,
    machine_is_off: bool,
    form: line::Form,
}

/// Runs the command. The exit code is 1 if a file or folder could not be examined, if a batch could be recovered only
/// in part, or if a lock that was to be removed stays.
pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let wish = Wish::parse(invocation)?;
    if wish.remove { remove(&session, &wish) } else { list(&session, &wish) }
}

impl<'a> Wish<'a> {
    fn parse(invocation: &Invocation<'a>) -> Result<Self> {
        let mut wish = Wish::default();
        let mut parser = Parser::new(&COMMAND, invocation.words);
        while let Some(word) = parser.next_word()? {
            match word {
                Word::Argument(_) => return Err(COMMAND.wrong_use(None)),
                Word::Option(opt, setting) => match opt.name {
                    "boot" => wish.boot = setting.value(),
                    "remove" => wish.remove = setting.is_on(),
                    "machine-is-off" => wish.machine_is_off = setting.is_on(),
                    "porcelain" if setting.is_on() => wish.form = line::Form::Fields,
                    "porcelain" => wish.form = line::Form::Text,
                    "z" => wish.form = line::Form::Exact,
                    _ => opt.unread(),
                },
            }
        }
        match (wish.remove, wish.boot) {
            (true, None) => {
                Err(COMMAND.wrong_use(Some("--remove needs --boot: name the boot whose locks shall go".into())))
            }
            (false, _) if wish.machine_is_off => {
                Err(COMMAND.wrong_use(Some("--machine-is-off is only for --remove".into())))
            }
            _ => Ok(wish),
        }
    }
}

fn list(session: &Session, wish: &Wish<'_>) -> Result<u8> {
    let (mut files, mut code) = (Vec::new(), 0);
    session.store.lock_files(&mut |found| match found {
        Ok(file) if is_wanted(&file, wish) => files.push(file),
        Ok(_) => {}
        Err(error) => {
            tell_error(&error);
            code = 1;
        }
    })?;
    files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let mut output = Output::default();
    for file in &files {
        line::push_lock(output.buffer(), file, wish.form);
        output.relieve()?;
    }
    output.flush()?;
    Ok(code)
}

fn is_wanted(file: &LockFile, wish: &Wish<'_>) -> bool {
    wish.boot.is_none_or(|boot| file.look.signature.as_ref().is_some_and(|signature| signature.boot.as_bytes() == boot))
}

fn remove(session: &Session, wish: &Wish<'_>) -> Result<u8> {
    let id = wish.boot.unwrap_or_default().to_str_lossy();
    let boot = match EndedBoot::new(&id) {
        Ok(boot) if wish.machine_is_off => boot.machine_is_off(),
        Ok(boot) => boot,
        Err(error @ EndedBootError::NotAnId(_)) => {
            return fatal![error.to_string(), "; `refdb refs locks` names the boot id of each lock"];
        }
        Err(error) => return fatal![error.to_string()],
    };
    if session.store.repository().is_quarantined(session.store.environment()) {
        return fatal!["ref updates forbidden inside quarantine environment"];
    }
    let (mut output, mut code, mut told) = (Output::default(), 0, 0);
    let mut tell = |path: &Path, removal| {
        told += 1;
        match removal {
            Ok(removal) => {
                let is_done = match &removal {
                    LockRemoval::Removed => true,
                    LockRemoval::Recovered(outcome) => !matches!(outcome, Outcome::Half(_)),
                    LockRemoval::Held | LockRemoval::Doubtful => false,
                };
                code |= u8::from(!is_done);
                line::push_removal(output.buffer(), path, &removal, wish.form);
            }
            Err(error) => {
                tell_error(&error);
                code = 1;
            }
        }
    };
    session.store.remove_lock_files(&boot, &mut tell)?;
    output.flush()?;
    if told == 0 {
        say("", &message!["there is no lock of boot ", *id]);
    }
    Ok(code)
}

/// Prints an error about one file and, if access is denied, what to do about it.
fn tell_error(error: &refdb::Error) {
    let advice = match error {
        refdb::Error::Io(error) if error.is_forbidden() => "; run this as the user who owns the repository",
        _ => "",
    };
    say("error: ", &message![error.to_string(), advice]);
}
