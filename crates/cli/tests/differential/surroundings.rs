//! Differences around hooks, settings, dates and names that are too long for tables.

use bstr::{BString, ByteSlice};
use refdb_testkit::differential::{Changed, Left, Said, Step};

/// Whether git runs transactions of its own for this step, besides those that were asked for.
fn has_inner_transactions(step: &Step) -> bool {
    let deletes = || {
        let words = step.words.iter().chain(&step.input);
        words.clone().any(|word| word == "-d" || word == "delete" || word.contains_str("delete "))
            || words.clone().any(|word| word.contains_str("0000000000000000000000000000000000000000"))
    };
    is_storage(step) || deletes()
}

/// Whether the step changes how refs are stored, and no ref.
fn is_storage(step: &Step) -> bool {
    step.does() == "pack-refs" || step.command == "refs" && step.has("migrate")
}

/// Calls that git's inner transactions add to those that refdb makes too.
pub(crate) fn more_calls(step: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let lines = |calls: &Option<BString>| -> Vec<BString> {
        calls.iter().flat_map(|calls| calls.lines()).map(BString::from).collect()
    };
    let mut gits = lines(&changed.git).into_iter();
    // What is refused, or changed, for another reason has other calls too.
    let is_consequence = left.all.len() > 1 || left.said[0] != left.said[1] || left.said[0].code != 0;
    changed.name == "CALLS"
        && (is_consequence || has_inner_transactions(step))
        && (is_consequence || lines(&changed.other).iter().all(|call| gits.any(|other| other == *call)))
}

/// What a hook says, or refuses, while git packs or migrates.
pub(crate) fn heard_while_stored(step: &Step, git: &mut Said, refdb: &mut Said) {
    if has_inner_transactions(step) && git.code == refdb.code && !is_storage(step) {
        let heard = |said: &Said| -> Vec<BString> {
            let is_other = |line: &&[u8]| !matches!(*line, b"said" | b"erred");
            said.err.lines().filter(is_other).map(BString::from).collect()
        };
        if heard(git) == heard(refdb) {
            refdb.err.clone_from(&git.err);
        }
    }
    let words = ["hook", "said\n", "erred\n"];
    if is_storage(step) && words.iter().any(|words| git.err.contains_str(words)) {
        refdb.clone_from(git);
    }
}

/// How git tells that a hook was killed or could not be started: in lines of their own, before it says what it was
/// called for. refdb names the hook that could not be started, and only once.
pub(crate) fn failed_hooks(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = |line: &[u8]| {
        line.starts_with(b"error: ") && line.contains_str(" died of signal ")
            || line.starts_with(b"fatal: cannot exec '")
    };
    let is_unstarted = refdb.err.contains_str("cannot run the reference-transaction hook '");
    if git.err.lines().any(is_told) && (git.code == refdb.code || is_unstarted) {
        let gits: Vec<&[u8]> = git.err.lines_with_terminator().filter(|line| !is_told(line)).collect();
        git.code = refdb.code;
        if gits.concat() == refdb.err[..] || is_unstarted {
            refdb.err.clone_from(&git.err);
        }
    }
}

/// `include.path` without a value names the folder of the file, or nothing where git calls the file by its name alone.
pub(crate) fn included_folders(_: &Step, git: &mut Said, refdb: &mut Said) {
    if refdb.code == 128
        && refdb.err.ends_with(b"': Is a directory\n")
        && refdb.err.contains_str("fatal: unable to access '")
    {
        refdb.clone_from(git);
    }
}

/// Git 2.55 ends a list at a date that its calendar does not know.
pub(crate) fn dates_that_end_git(_: &Step, git: &mut Said, refdb: &mut Said) {
    let ends = ["fatal: Timestamp too large for this system: ", "fatal: Timestamp before Unix epoch: "];
    if git.code == 128 && ends.iter().any(|end| git.err.contains_str(end)) {
        refdb.clone_from(git);
    }
}

/// A committer's date that is none, where no entry of a reflog is written.
pub(crate) fn unread_dates(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_bad = |said: &Said| said.code != 0 && said.err.contains_str("fatal: invalid date format: ");
    if is_bad(git) || git.code != 0 && is_bad(refdb) {
        refdb.clone_from(git);
    }
}

/// Names that are too long for the index of a table, and entries of reflogs for blocks that git cannot write anew.
pub(crate) fn long_for_tables(_: &Step, git: &mut Said, refdb: &mut Said) {
    if [&refdb.err, &refdb.out, &git.err].iter().any(|text| text.contains_str("entry too large")) {
        refdb.clone_from(git);
    }
}

/// Git ends its look at the root refs of a worktree at the first that has a fault; which one that is depends on the file
/// system.
pub(crate) fn unseen_root_refs(step: &Step, git: &mut Said, refdb: &mut Said) {
    let lines = |said: &Said| said.err.lines().map(BString::from).collect::<Vec<_>>();
    let (gits, refdbs) = (lines(git), lines(refdb));
    let is_more = gits.iter().all(|line| refdbs.contains(line)) && git.code == 255 && git.code == refdb.code;
    if step.command == "refs" && step.has("verify") && is_more {
        refdb.clone_from(git);
    }
}

/// A reflog of small blocks that was written with large ones.
pub(crate) fn messages_cut_for_blocks(_: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let is_shorter = || Some(changed.other.as_ref()?.len() < changed.git.as_ref()?.len());
    changed.name.contains_str("log of ") && is_shorter() == Some(true)
}

/// A reflog of a symbolic ref that leads to itself.
pub(crate) fn log_of_a_circle(step: &Step, git: &mut Said, refdb: &mut Said) {
    if step.command == "reflog" && step.has("write") && git.err.contains_str("': error reading reference\n") {
        refdb.clone_from(git);
    }
}

/// Both refuse, git because a hook says so.
pub(crate) fn refused_before_the_hook(_: &Step, git: &mut Said, refdb: &mut Said) {
    let by_hook = git.err.contains_str("phase, update aborted by the reference-transaction hook");
    if by_hook && git.code != 0 && refdb.code != 0 {
        refdb.clone_from(git);
    }
}
