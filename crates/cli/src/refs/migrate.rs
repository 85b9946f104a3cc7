//! `refdb refs migrate`: see git-refs(1).

use crate::{
    Invocation,
    failure::{FAILED, Failure, Result, WRONG_USE, is_of_packed_refs, message, say},
    options::{Command, Opt, Parser, Value, Word},
    output::Output,
    progress::Progress,
    session::{Session, before_locks},
};
use bstr::{BStr, ByteSlice};
use refdb::{MigrateError, MigrateOptions, Migrated, Recovered, RefFormat};
use std::os::unix::ffi::OsStrExt;

pub(super) static COMMAND: Command = Command {
    program: "git",
    name: "refs migrate",
    about: "Migrate all references to another storage format",
    synopsis: &["--ref-format=<format> [--no-reflog] [--dry-run]"],
    options: &[
        Opt::flag("ref-format", "storage format to migrate to: files or reftable")
            .takes(Value::Required("format"))
            .fixed(),
        Opt::flag("dry-run", "write the references to a new folder, without switching to them"),
        Opt::flag("no-reflog", "do not migrate reflogs"),
    ],
};

pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let options = parse(invocation)?;
    before_locks()?;
    let progress = Progress::start("Migrating refs");
    let migrated = session.store.migrate(&options, &mut |done| progress.count("Migrating refs", done));
    progress.finish();
    match migrated {
        Ok(migrated) => tell(&session, &migrated),
        Err(MigrateError::Store(error)) if is_of_packed_refs(&error) => Err(error.into()),
        Err(MigrateError::Store(error)) => match Failure::from(error) {
            Failure::Fatal(text) => Err(Failure::Error(text, FAILED)),
            other => Err(other),
        },
        Err(_) if refdb_vfs::interrupt::received().is_some() => Err(Failure::Interrupted),
        Err(error) => Err(Failure::Error(error.to_string().into(), FAILED)),
    }
}

fn parse(invocation: &Invocation<'_>) -> Result<MigrateOptions> {
    let (mut format, mut dry_run, mut reflogs) = (None, false, true);
    let mut arguments = 0;
    let mut parser = Parser::new(&COMMAND, invocation.words);
    while let Some(word) = parser.next_word()? {
        match word {
            Word::Argument(_) => arguments += 1,
            Word::Option(opt, setting) => match opt.name {
                "ref-format" => format = setting.value(),
                "dry-run" => dry_run = setting.is_on(),
                "no-reflog" => reflogs = !setting.is_on(),
                _ => opt.unread(),
            },
        }
    }
    let Some(format) = format.filter(|_| arguments == 0) else {
        say("usage: ", if arguments > 0 { b"too many arguments" } else { b"missing --ref-format=<format>" });
        return Err(Failure::Exit(WRONG_USE));
    };
    let known = |to: &RefFormat| format == to.name();
    match [RefFormat::Files, RefFormat::Reftable].into_iter().find(known) {
        Some(to) => Ok(MigrateOptions::new(to).reflogs(reflogs).dry_run(dry_run)),
        None => Err(Failure::Error(message!["unknown ref storage format '", format, "'"], FAILED)),
    }
}

fn tell(session: &Session, migrated: &Migrated) -> Result<u8> {
    match migrated.recovered {
        Some(Recovered::Finished) => warn("an earlier migration that had not ended was finished"),
        Some(Recovered::Undone) => warn("an earlier migration that had not ended was undone first"),
        None => {}
    }
    if migrated.lines_left_out > 0 {
        warn(&format!(
            "lines of reflogs that are no entries, or lack both values, were left out: {}",
            migrated.lines_left_out
        ));
    }
    if migrated.entries_cut > 0 {
        warn(&format!("reflog entries too long for a table were cut: {}", migrated.entries_cut));
    }
    for conflict in &migrated.conflicts {
        let kept = migrated.kept.as_ref().map(|kept| kept.display().to_string()).unwrap_or_default();
        let text = message!["a change of '", conflict.name, "' was not taken over; the old files are kept in '"];
        say("warning: ", &message![text, kept, "'"]);
    }
    if !migrated.lone_logs.is_empty() {
        warn(&format!("reflogs of changes that came too late and failed were left out: {}", migrated.lone_logs.len()));
    }
    for path in &migrated.strays {
        say(
            "warning: ",
            &message![
                "'",
                shown(session, path.as_bstr()),
                "' was written by a program that had opened the \
            repository before, or is a ref that git does not list; nobody reads it there"
            ],
        );
    }
    if let Some(name) = migrated.folder.as_ref().and_then(|folder| folder.file_name()) {
        let mut output = Output::default();
        let folder = shown(session, name.as_bytes().as_bstr());
        let text = message!["Finished dry-run migration of refs, the result can be found at '", folder, "'\n"];
        output.buffer().extend_from_slice(&text);
        output.flush()?;
    }
    Ok(0)
}

fn warn(text: &str) {
    say("warning: ", text.as_bytes());
}

/// Returns a path in the repository's folder as git shows it.
fn shown(session: &Session, path: &BStr) -> Vec<u8> {
    let folder = session.store.repository().shown_common_dir();
    folder.join(path.to_path_lossy()).as_os_str().as_bytes().to_vec()
}
