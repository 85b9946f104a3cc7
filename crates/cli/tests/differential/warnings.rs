//! Accepted differences in warnings that only one of the two gives, and in messages with other bytes.

use bstr::{BString, ByteSlice};
use refdb_testkit::differential::{Said, Step};

pub(crate) fn names_beyond_text(_: &Step, git: &mut Said, refdb: &mut Said) {
    if git.err != refdb.err && git.err.to_str_lossy() == refdb.err.to_str_lossy() {
        refdb.err.clone_from(&git.err);
    }
}

/// Removes git's warning and advice about a ref that is named like an object id, and its warning if such a ref leads
/// nowhere.
pub(crate) fn named_like_ids(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_of_an_id = |line: &[u8]| {
        let name = line.trim_end().strip_prefix(b"warning: ignoring dangling symref ");
        let last = name.and_then(|name| name.rsplit_once_str("/")).map(|(_, last)| last);
        last.is_some_and(|last| matches!(last.len(), 40 | 64) && last.iter().all(u8::is_ascii_hexdigit))
    };
    if git.err.lines_with_terminator().any(is_of_an_id) && !refdb.err.lines_with_terminator().any(is_of_an_id) {
        let rest = git.err.lines_with_terminator().filter(|line| !is_of_an_id(line)).collect::<Vec<_>>().concat();
        git.err = rest.into();
    }
    while let Some(advice) = git.err.find("Git normally never creates a ref that ends with 40 hex characters") {
        let start = git.err[..advice].rfind("warning: refname '").unwrap_or(advice);
        let last = "git config set advice.objectNameWarning false\"\n";
        let end = git.err[advice..].find(last).map_or(git.err.len(), |at| advice + at + last.len());
        let rest = BString::from([&git.err[..start], &git.err[end..]].concat());
        git.err = rest;
    }
}

pub(crate) fn warnings_behind_the_last(step: &Step, git: &mut Said, refdb: &mut Said) {
    let counts = step.words.iter().any(|word| word.starts_with(b"--count="));
    let is_warning = |line: &&[u8]| line.starts_with(b"warning: ignoring ");
    let warnings =
        |said: &Said| said.err.lines_with_terminator().filter(is_warning).map(BString::from).collect::<Vec<_>>();
    let rest = |said: &Said| {
        said.err.lines_with_terminator().filter(|line| !is_warning(line)).map(BString::from).collect::<Vec<_>>()
    };
    let theirs = warnings(git);
    let are_fewer = rest(git) == rest(refdb) && warnings(refdb).iter().all(|line| theirs.contains(line));
    if (counts || git.code == 128) && git.code == refdb.code && are_fewer {
        refdb.err.clone_from(&git.err);
    }
}

pub(crate) fn warnings_of_excluded(step: &Step, git: &mut Said, refdb: &mut Said) {
    let excludes = step.words.iter().any(|word| word.starts_with(b"--exclude"));
    // A name with a line feed continues on the next line.
    let others = |said: &Said| {
        let starts = ["warning: ", "error: ", "fatal: "];
        let mut is_other = true;
        let mut rest = BString::default();
        for line in said.err.lines_with_terminator() {
            if is_other || starts.iter().any(|start| line.starts_with(start.as_bytes())) {
                is_other = !line.starts_with(b"warning: ignoring ref with broken name ");
            }
            if is_other {
                rest.extend_from_slice(line);
            }
        }
        rest
    };
    if excludes && others(git) == others(refdb) {
        refdb.err.clone_from(&git.err);
    }
}

/// Git resolves `HEAD` to find the mail map in a bare repository, and warns of a ref such as `refs/heads/HEAD` then.
pub(crate) fn mail_map_of_head(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_other = |line: &&[u8]| {
        let line = line.trim_end();
        !(line.starts_with(b"warning: ignoring ") && line.ends_with(b"/HEAD"))
    };
    let rest: Vec<&[u8]> = git.err.lines_with_terminator().filter(is_other).collect();
    if step.command == "reflog" && git.code == refdb.code && rest.concat() == refdb.err[..] {
        refdb.err.clone_from(&git.err);
    }
}
