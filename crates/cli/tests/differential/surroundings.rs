//! Accepted differences around hooks, settings, dates, and names that are too long for tables.

use crate::logs::is_log;
use bstr::{BString, ByteSlice};
use refdb_testkit::differential::{Changed, Left, Said, Step};

/// Whether git runs transactions of its own for this step, in addition to the requested one.
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

/// Accepts additional hook calls by git's inner transactions.
pub(crate) fn more_calls(step: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let lines = |calls: &Option<BString>| -> Vec<BString> {
        calls.iter().flat_map(|calls| calls.lines()).map(BString::from).collect()
    };
    let mut gits = lines(&changed.git).into_iter();
    // If something was refused or changed for another reason, the calls differ as well.
    let is_consequence = left.all.len() > 1 || left.said[0] != left.said[1] || left.said[0].code != 0;
    changed.name == "CALLS"
        && (is_consequence || has_inner_transactions(step))
        && (is_consequence || lines(&changed.other).iter().all(|call| gits.any(|other| other == *call)))
}

/// Accepts the output of a hook that git calls in transactions of its own, and that the hook refuses them while git
/// packs or migrates.
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
        if git.code == refdb.code || git.err.contains_str(words[0]) && refdb.code == 0 {
            refdb.clone_from(git);
        } else {
            // Refdb ends for another reason.
            let is_other = |line: &&[u8]| !matches!(line.trim_end(), b"said" | b"erred");
            git.err = git.err.lines_with_terminator().filter(is_other).collect::<Vec<_>>().concat().into();
        }
    }
}

/// Accepts that in a bare repository the hook is told another absolute path for the folder in which it runs.
pub(crate) fn called_in_a_bare_repository(_: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let is_bare = left.plan.bare || left.plan.to_string().contains("bare");
    let (Some(git), Some(refdb)) = (&changed.git, &changed.other) else { return false };
    let is_alike = |(git, refdb): (&[u8], &[u8])| git == refdb || git.starts_with(b"/") && refdb.starts_with(b"/");
    let are_as_many = git.lines().count() == refdb.lines().count();
    changed.name == "CALLS" && is_bare && are_as_many && git.lines().zip(refdb.lines()).all(is_alike)
}

/// Accepts that git reports a hook that was killed or could not be started on lines of their own, before it says what
/// it called the hook for; refdb names a hook that could not be started, and only once.
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

/// Accepts how git treats `include.path` without a value: it names the folder of the file, or nothing if git calls the
/// file by its name alone.
pub(crate) fn included_folders(_: &Step, git: &mut Said, refdb: &mut Said) {
    if refdb.code == 128
        && refdb.err.ends_with(b"': Is a directory\n")
        && refdb.err.contains_str("fatal: unable to access '")
    {
        refdb.clone_from(git);
    }
}

/// Accepts that git 2.55 ends a list at a date outside its calendar.
pub(crate) fn dates_that_end_git(_: &Step, git: &mut Said, refdb: &mut Said) {
    let ends = ["fatal: Timestamp too large for this system: ", "fatal: Timestamp before Unix epoch: "];
    if git.code == 128 && ends.iter().any(|end| git.err.contains_str(end)) {
        refdb.clone_from(git);
    }
}

/// Accepts that git and refdb report an invalid committer date at different points, because no reflog entry is written
/// or nothing is committed.
pub(crate) fn unread_dates(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_bad = |said: &Said| said.code != 0 && said.err.contains_str("fatal: invalid date format: ");
    let is_prepared =
        git.out.contains_str("prepare: ok") && refdb.err.contains_str("fatal: prepare: invalid date format: ");
    if is_bad(git) || git.code != 0 && is_bad(refdb) || is_prepared {
        refdb.clone_from(git);
    }
}

/// Accepts that one side refuses a name that is too long for the index of a table, or an entry too long for a block
/// that git can rewrite.
pub(crate) fn long_for_tables(_: &Step, git: &mut Said, refdb: &mut Said) {
    if [&refdb.err, &refdb.out, &git.err].iter().any(|text| text.contains_str("entry too large")) {
        refdb.clone_from(git);
    }
}

/// Accepts that git stops checking the root refs of a worktree at the first faulty one, and which one that is depends
/// on the file system.
pub(crate) fn unseen_root_refs(step: &Step, git: &mut Said, refdb: &mut Said) {
    let lines = |said: &Said| said.err.lines().map(BString::from).collect::<Vec<_>>();
    let (gits, refdbs) = (lines(git), lines(refdb));
    let is_more = gits.iter().all(|line| refdbs.contains(line)) && git.code == 255 && git.code == refdb.code;
    if step.command == "refs" && step.has("verify") && is_more {
        refdb.clone_from(git);
    }
}

/// Accepts that refdb cuts the messages of a reflog when blocks are smaller than those it was written with.
pub(crate) fn messages_cut_for_blocks(_: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let is_shorter = || Some(changed.other.as_ref()?.len() < changed.git.as_ref()?.len());
    changed.name.contains_str("log of ") && is_shorter() == Some(true)
}

/// Accepts that git begins or omits a reflog because it looks only at the settings above a condition on the branch.
pub(crate) fn log_behind_a_condition(step: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let has_condition = |text: &BString| text.to_ascii_lowercase().contains_str("onbranch:");
    let is_conditional =
        step.environment.iter().chain(&step.globals).any(has_condition) || left.plan.to_string().contains("onbranch:");
    is_conditional
        && step.changes()
        && is_log(changed)
        && (changed.git == changed.before || changed.other == changed.before)
}

/// Accepts that a migration leaves a HEAD that was in no table, but only in the stub file beside the tables, and its
/// reflog.
pub(crate) fn head_that_was_gone(step: &Step, changed: &Changed, left: Left<'_>) -> bool {
    const STANDS_FOR_HEAD: &[u8] = b"ref: refs/heads/.invalid\n";
    let lead = |end: &[u8]| changed.name.strip_suffix(end);
    let was_gone = |lead: &[u8]| {
        let head = left.before.get([lead, b"HEAD"].concat().as_bstr());
        head.is_none_or(|head| head == STANDS_FOR_HEAD)
    };
    let is_left = match lead(b"logs/HEAD") {
        Some(lead) => was_gone(lead) && changed.other.as_ref().is_some_and(|log| log.is_empty()),
        None => {
            lead(b"HEAD").is_some_and(was_gone) && changed.other.as_ref().is_some_and(|head| head == STANDS_FOR_HEAD)
        }
    };
    step.command == "refs" && step.has("migrate") && changed.git.is_none() && is_left
}

/// Accepts that git cannot write the reflog of a symbolic ref that leads to itself.
pub(crate) fn log_of_a_circle(step: &Step, git: &mut Said, refdb: &mut Said) {
    if step.command == "reflog" && step.has("write") && git.err.contains_str("': error reading reference\n") {
        refdb.clone_from(git);
    }
}

/// Accepts that both refuse, git because of a hook, refdb for a reason that it finds before it calls the hook.
pub(crate) fn refused_before_the_hook(_: &Step, git: &mut Said, refdb: &mut Said) {
    let by_hook = git.err.contains_str("phase, update aborted by the reference-transaction hook");
    if by_hook && git.code != 0 && refdb.code != 0 {
        refdb.clone_from(git);
    }
}

/// Accepts that git repeats a warning about an ambiguous name or a broken ref, because some commands walk the refs
/// twice.
pub(crate) fn repeated_warnings(_: &Step, git: &mut Said, refdb: &mut Said) {
    let others = |said: &Said| -> Vec<BString> {
        let is_other = |line: &&[u8]| !(line.starts_with(b"warning: refname '") && line.ends_with(b"' is ambiguous."));
        let mut lines: Vec<BString> = said.err.lines().filter(is_other).map(BString::from).collect();
        lines.sort();
        lines.dedup();
        lines
    };
    if git.code == refdb.code && git.out == refdb.out && others(git) == others(refdb) {
        refdb.err.clone_from(&git.err);
    }
}

/// Accepts that git reads the standard input of `--exclude-existing` in pieces, and takes the rest of a long line for
/// another line.
pub(crate) fn long_lines(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_long = |line: &BString| line.len() > 1000;
    let excludes = |word: &BString| word.starts_with(b"--exclude-existing");
    if step.words.iter().any(excludes) && step.input.iter().any(is_long) && git.code == refdb.code {
        refdb.clone_from(git);
    }
}

/// Accepts faults of the configuration that only git meets, or that it meets first, because it reads files in another
/// order or once more.
pub(crate) fn other_faults_of_files(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_of_a_file = |said: &Said| said.code == 128 && said.err.contains_str("fatal: bad config line ");
    let is_log_setting = git.err.contains_str("missing value for 'core.logallrefupdates'");
    let is_other_worktrees = is_of_a_file(git) && git.err.contains_str("/config.worktree");
    let includes_itself =
        |said: &Said| said.code == 128 && said.err.starts_with(b"fatal: exceeded maximum include depth ");
    let both = is_of_a_file(git) && is_of_a_file(refdb) || includes_itself(git) && includes_itself(refdb);
    if both || git.code == 128 && (is_log_setting || is_other_worktrees) {
        refdb.clone_from(git);
    }
}

/// Accepts what git leaves half done if the command fails.
pub(crate) fn half_done(_: &Step, changed: &Changed, left: Left<'_>) -> bool {
    left.said.iter().all(|said| said.code != 0) && changed.other == changed.before
}

/// Accepts that git cannot open a stack after a migration if the configuration asks for the branch, or cannot rewrite
/// tables of small blocks.
pub(crate) fn unopened_stacks(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_unopened = git.err.contains_str("reftable: transaction prepare: I/O error");
    let is_too_small = git.code == 245;
    if (is_unopened || is_too_small) && refdb.code == 0 {
        refdb.clone_from(git);
    }
}

/// Accepts that refdb does not carry over reflogs whose names no table can hold.
pub(crate) fn logs_not_carried_over(step: &Step, git: &mut Said, refdb: &mut Said) {
    if is_storage(step) && refdb.err.contains_str("error: some refs cannot be carried over") {
        refdb.clone_from(git);
    }
}

/// Accepts that git and refdb report different ones of two mistakes in one request, and any result of refdb if git
/// cannot write the ref, or if show-ref calls its name dangerous.
pub(crate) fn other_mistakes(step: &Step, git: &mut Said, refdb: &mut Said) {
    let both_refuse = git.code == refdb.code && git.code != 0;
    let is_bad_name = both_refuse && refdb.err.contains_str("refusing to update ref with bad name");
    let is_same_ref = both_refuse && refdb.err.ends_with(b"' is the same ref\n");
    let is_of_git = git.code == 128
        && (git.err.contains_str("fatal: couldn't set '") || git.err.contains_str("; non-directory in the way"));
    let is_dangerous = git.err.starts_with(b"fatal: refname is dangerous: ") && step.does() == "show-ref";
    if is_bad_name || is_same_ref || is_of_git || is_dangerous {
        refdb.clone_from(git);
    }
}

/// Accepts that refdb reports a setting without a value that git reads only if two names differ.
pub(crate) fn unread_suffixes(step: &Step, git: &mut Said, refdb: &mut Said) {
    let told = "error: missing value for 'versionsort.suffix'\n";
    let sorts = step.words.iter().any(|word| word.contains_str("--sort="));
    if sorts && refdb.err.replacen(told, "", 1) == git.err[..] && git.code == refdb.code {
        refdb.err.clone_from(&git.err);
    }
}

/// Accepts that git's reflog commands report a bad name before they read the whole configuration.
pub(crate) fn names_before_settings(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_name = git.err.contains_str("fatal: invalid ref format: ") || git.err.starts_with(b"error: not a reflog: ");
    let is_setting = ["exceeded maximum include depth", "fatal: bad config variable '", "fatal: unable to parse '"]
        .iter()
        .any(|words| refdb.err.contains_str(words));
    // Without a name there is nothing to drop, so git does not read the settings.
    let drops_nothing =
        step.has("drop") && step.words[1..].iter().all(|word| word == "--single-worktree") && git.code == 0;
    let is_command_line = refdb.err.ends_with(b"fatal: unable to parse command-line config\n");
    if step.command == "reflog" && (is_name && is_setting || drops_nothing && is_command_line) {
        refdb.clone_from(git);
    }
}
