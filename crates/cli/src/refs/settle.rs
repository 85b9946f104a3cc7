//! `refdb refs settle`: recovers small batches whose processes are gone, by finishing or undoing them.

use crate::{
    Invocation,
    failure::{Result, fatal, say},
    options::Command,
    output::Output,
    session::Session,
};
use refdb::files::{FilesBackend, Outcome, TakenOver};
use std::path::Path;

pub(super) static COMMAND: Command = Command {
    program: "refdb",
    name: "refs settle",
    about: "Finish or undo small batches of updates whose processes are gone",
    synopsis: &[""],
    options: &[],
};

/// Runs the command. The exit code is 1 if there is an entry of a batch that was recovered only in part, if recovering
/// one failed, or if packed-refs could not be examined or an unused journal file could not be removed.
pub(super) fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let session = Session::begin(invocation, &COMMAND)?;
    let [] = COMMAND.arguments(invocation.words)?[..] else { return Err(COMMAND.wrong_use(None)) };
    // Only refs that are stored as files have such batches.
    let Some(files) = session.store.backend_as::<FilesBackend>() else { return Ok(0) };
    if session.store.repository().is_quarantined(session.store.environment()) {
        return fatal!["ref updates forbidden inside quarantine environment"];
    }
    let mut output = Output::default();
    let mut code = 0;
    for (record, taken_over) in files.recover()? {
        match taken_over {
            Ok(taken_over) => output.buffer().extend(told(&record, &taken_over).into_bytes()),
            Err(error) => {
                say("error: ", error.to_string().as_bytes());
                code = 1;
            }
        }
    }
    for left in files.journal_entries()?.left {
        let text = format!("{}: look at the refs it names, then remove the file\n", left.display());
        output.buffer().extend(text.into_bytes());
        code = 1;
    }
    output.flush()?;
    Ok(code)
}

fn told(record: &Path, taken_over: &TakenOver) -> String {
    let what = match taken_over {
        TakenOver::Recovered(outcome) => outcome_text(outcome),
        TakenOver::Nothing => "gone meanwhile".to_owned(),
        TakenOver::Busy => "left alone: its process is at work, or someone else holds a lock of it".to_owned(),
    };
    format!("{}: {what}\n", record.display())
}

/// Returns a description of the outcome of a batch.
pub(super) fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Complete => "finished".to_owned(),
        Outcome::Dropped => "undone: the recovery changed none of its refs".to_owned(),
        Outcome::Half(refs) => {
            let refs: Vec<String> = refs.iter().map(ToString::to_string).collect();
            format!("finished but for {}, which cannot be given their new values", refs.join(", "))
        }
    }
}
