//! Accepted differences in the commands about reflogs, lists and whole stores.

use crate::logs::{are_more, entries, is_log};
use bstr::{BString, ByteSlice};
use refdb_testkit::{
    Git,
    differential::{Changed, Left, Place, Said, Step},
};

/// Prefixes of the refs that each worktree has of its own.
const OWN: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];

fn is(step: &Step, command: &str, member: &str) -> bool {
    step.command == command && step.words.first().is_some_and(|word| word == member)
}

pub(crate) fn log_ended_by_an_entry(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let is_null = |id: &[u8]| id.len() >= 40 && id[..40].iter().all(|digit| *digit == b'0');
    let has_end = |log: &BString| log.lines().any(|line| line.splitn_str(3, " ").nth(1).is_some_and(is_null));
    (is(step, "reflog", "write") || is(step, "refs", "migrate"))
        && is_log(changed)
        && are_more(&entries(changed.other.as_ref()), &entries(changed.git.as_ref()), |_| true)
        && changed.other.as_ref().is_some_and(has_end)
}

/// Accepts that refdb keeps every entry that git keeps, with possibly more of its message.
pub(crate) fn longer_messages(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    const HALF_A_BLOCK: usize = 2048;
    let (Some(git), Some(refdb)) = (&changed.git, &changed.other) else { return false };
    let is_longer = |line: &[u8], ours: &[u8]| {
        let kept = line.strip_suffix(b"\\n\"").unwrap_or(line);
        ours == line || kept.len() > HALF_A_BLOCK && ours.starts_with(kept)
    };
    is(step, "refs", "migrate")
        && is_log(changed)
        && git.lines().all(|line| refdb.lines().any(|ours| is_longer(line, ours)))
        && refdb.lines().any(|line| line.len() > HALF_A_BLOCK)
}

/// Accepts that refdb refuses renames that git allows, and that git's reftables speak of copying.
pub(crate) fn refused_rename(step: &Step, git: &mut Said, refdb: &mut Said) {
    if !is(step, "refs", "rename") {
        return;
    }
    git.err = git.err.replace(" symbolic ref, copying it ", " symbolic ref, renaming it ").into();
    let words = ["trying to write non-commit object ", ": reference broken: ", "fatal: reference already exists: "];
    if git.code == 0 && words.iter().any(|words| refdb.err.contains_str(words)) {
        refdb.clone_from(git);
    }
}

/// Accepts that a renamed ref with the same value is packed by refdb and loose in git, and that packed-refs and reflogs
/// differ.
pub(crate) fn renamed(step: &Step, changed: &Changed, left: Left<'_>) -> bool {
    if !is(step, "refs", "rename") {
        return false;
    }
    let is_packed = |name: &[u8], value: &[u8]| {
        let line = [value.trim_end(), b" ", name].concat();
        left.all.iter().any(|other| {
            other.name == "packed-refs"
                && other.other.as_ref().is_some_and(|packed| packed.lines().any(|it| it == line))
        })
    };
    let is_loose_for_git = changed.git.as_ref().is_some_and(|value| is_packed(&changed.name, value));
    is_log(changed) || changed.name == "packed-refs" || is_loose_for_git && changed.other.is_none()
}

/// Accepts that git cannot expire the reflog of a deleted ref whose name lies below that of another ref.
pub(crate) fn log_below_a_ref(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = |line: &[u8]| {
        let says = |words: &str| line.contains_str(words);
        line.starts_with(b"error: cannot lock ref '")
            && (says("' exists; cannot create '") || says(".lock': Not a directory"))
    };
    let are_told = |said: &Said| !said.err.is_empty() && said.err.lines().all(is_told);
    let is_either = refdb.code == 0 || are_told(refdb) && git.code == refdb.code;
    if is(step, "reflog", "expire") && are_told(git) && is_either {
        refdb.clone_from(git);
    }
}

pub(crate) fn without_fsync(text: &[u8]) -> BString {
    let is_other = |line: &&[u8]| !line.starts_with(b"warning: ignoring unknown core.fsync component ");
    text.lines_with_terminator().filter(is_other).collect::<Vec<_>>().concat().into()
}

pub(crate) fn forms_of_refs(step: &Step, git: &mut Said, refdb: &mut Said) {
    // Refdb may have warned about `core.fsync` before the usage.
    let before = |text: &BString| text.find("usage: git refs").map(|at| without_fsync(&text[..at]));
    if step.command == "refs" {
        for (git, refdb) in [(&git.out, &mut refdb.out), (&git.err, &mut refdb.err)] {
            if before(git).is_some() && before(git) == before(refdb) {
                refdb.clone_from(git);
            }
        }
    }
}

/// Accepts that git gives advice about a hook that is not executable although that advice is switched off.
pub(crate) fn unread_advice(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_advice = |line: &[u8]| {
        line.starts_with(b"hint: ")
            && (line.contains_str("hook was ignored") || line.contains_str("advice.ignoredHook"))
    };
    let rest: Vec<&[u8]> = git.err.lines_with_terminator().filter(|line| !is_advice(line)).collect();
    if is(step, "reflog", "write") && rest.concat() == refdb.err[..] {
        refdb.err.clone_from(&git.err);
    }
}

/// Accepts that git has other words for a broken branch that HEAD leads to.
pub(crate) fn broken_current_branch(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err.ends_with(b"fatal: your current branch appears to be broken\n");
    if step.command == "reflog" && is_told && git.code == refdb.code && refdb.err.contains_str(": reference broken: ") {
        refdb.clone_from(git);
    }
}

/// Accepts that git takes a name that is also the name of a folder for a path.
pub(crate) fn folders_as_paths(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_path =
        git.err.contains_str("fatal: your current branch '") && git.err.contains_str("' does not have any commits");
    if step.command == "reflog" && is_path && refdb.err.contains_str("fatal: ambiguous argument '") {
        refdb.clone_from(git);
    }
}

pub(crate) fn fsync_behind_words(step: &Step, git: &mut Said, refdb: &mut Said) {
    // Refdb's other commands read `core.fsync` first, too, if another setting ends them.
    let is_ended = git.code == 128 && git.err.contains_str("fatal: bad config variable '");
    if (["reflog", "refs"].contains(&step.command) || is_ended) && without_fsync(&refdb.err) == git.err {
        refdb.err.clone_from(&git.err);
    }
}

pub(crate) fn migrated_worktrees(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_refused = git.err.ends_with(b"error: migrating repositories with worktrees is not supported yet\n");
    if is(step, "refs", "migrate") && is_refused {
        refdb.clone_from(git);
    }
}

/// Accepts that both refuse, refdb because of the main worktree's bad HEAD, while git looks only at the linked
/// worktree.
pub(crate) fn broken_main_worktree(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = refdb.code == 255 && refdb.err.starts_with(b"error: the main worktree's '");
    if is(step, "refs", "migrate") && matches!(step.place, Place::Tree(_)) && is_told && git.code != 0 {
        refdb.clone_from(git);
    }
}

pub(crate) fn folder_of_a_migration(step: &Step, git: &mut Said, refdb: &mut Said) {
    if is(step, "refs", "migrate") && git.code == 0 && refdb.code == 0 {
        for said in [git, refdb] {
            if let Some(at) = said.out.find("/ref_migration.") {
                said.out.truncate(at);
            }
        }
    }
}

/// Accepts that git's tables keep the main worktree's own reflogs, including those of its root refs, when `--all` is
/// given in a linked worktree.
pub(crate) fn logs_of_main(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let is_all = ["drop", "expire"].iter().any(|member| is(step, "reflog", member)) && step.has("--all");
    let name = changed.name.strip_prefix(b"log of ");
    let is_root = |name: &[u8]| !name.contains(&b'/');
    let is_own = name.is_some_and(|name| is_root(name) || OWN.iter().any(|own| name.starts_with(own.as_bytes())));
    matches!(step.place, Place::Tree(_)) && is_all && is_own && changed.git == changed.before
}

/// Sorts the lines of `refs verify` and removes those about tables, whose names are random and whose number may differ
/// from git's.
pub(crate) fn order_of_verify(step: &Step, git: &mut Said, refdb: &mut Said) {
    if !is(step, "refs", "verify") {
        return;
    }
    for said in [git, refdb] {
        let is_table = |line: &&[u8]| line.starts_with(b"Checking table: ");
        let mut lines: Vec<&[u8]> = said.err.lines().filter(|line| !is_table(line)).collect();
        lines.sort_unstable();
        said.err = bstr::join("\n", lines).into();
    }
}

/// Replaces control characters in git's verbose list of checked names, because refdb does not write them to a terminal.
pub(crate) fn names_for_terminals(step: &Step, git: &mut Said, _: &mut Said) {
    if is(step, "refs", "verify") && step.has("--verbose") {
        git.err
            .iter_mut()
            .filter(|byte| byte.is_ascii_control() && !b"\t\n".contains(byte))
            .for_each(|byte| *byte = b'?');
    }
}

/// Accepts that refdb reports bad names in reftables that git does not report.
pub(crate) fn names_in_tables(step: &Step, git: &mut Said, refdb: &mut Said) {
    // A name with a newline continues on a line of its own.
    let is_begin = |line: &[u8]| line.strip_prefix(b"error: ").is_some_and(|name| !name.contains(&b':'));
    let is_name = |line: &[u8]| {
        [": badRefName: ", ": badReferentName: "].iter().any(|words| line.contains_str(words)) || is_begin(line)
    };
    let is_told = |line: &[u8]| git.err.lines().any(|told| told == line);
    let are_names = refdb.err.lines().all(|line| is_told(line) || is_name(line));
    let are_more = git.err.lines().count() < refdb.err.lines().count();
    if is(step, "refs", "verify") && are_names && are_more && refdb.code == 255 {
        refdb.clone_from(git);
    }
}

/// Accepts that git treats the target of a symbolic link as a path, and looks for it.
pub(crate) fn links_that_lead_nowhere(step: &Step, git: &mut Said, refdb: &mut Said) {
    if is(step, "refs", "verify")
        && (git.err.contains_str("fatal: Invalid path '") || git.err.contains_str("nested symlinks on path"))
    {
        refdb.clone_from(git);
    }
    let is_path = |line: &&[u8]| !line.contains_str(": badReferentName: points to invalid refname '/");
    let rest: Vec<&[u8]> = git.err.lines().filter(is_path).collect();
    if is(step, "refs", "verify") && git.err.lines().count() > rest.len() && refdb.err.lines().eq(rest) {
        refdb.clone_from(git);
    }
}

/// Accepts that git writes a branch anew that holds a tag, with the tag's peeled value.
pub(crate) fn branch_of_a_tag(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let is_peeled = || {
        let (git, other) = (changed.git.as_ref()?, changed.other.as_ref()?);
        Some(git.strip_prefix(&other[..])?.starts_with(b" peeled "))
    };
    step.command == "reflog" && step.has("--updateref") && changed.other == changed.before && is_peeled() == Some(true)
}

pub(crate) fn cut_messages(step: &Step, git: &mut Said, refdb: &mut Said) {
    if is(step, "refs", "migrate") && git.code == 0 && refdb.code == 0 {
        let is_other = |line: &&[u8]| {
            !line.starts_with(b"warning: reflog entries ") && !line.starts_with(b"warning: lines of reflogs ")
        };
        refdb.err = refdb.err.lines_with_terminator().filter(is_other).collect::<Vec<_>>().concat().into();
    }
}

/// Accepts that git's migration packs a worktree's own refs, and that the header of packed-refs differs.
pub(crate) fn packed_by_migration(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let is_own = |name: &[u8]| OWN.iter().any(|own| name.starts_with(own.as_bytes()));
    let shared = |text: &Option<BString>| -> Vec<BString> {
        let is_shared = |line: &&[u8]| {
            let name = line.split_once_str(" ").map_or(&b""[..], |(_, name)| name);
            !line.starts_with(b"#") && !is_own(name)
        };
        text.iter().flat_map(|text| text.lines().filter(is_shared).map(BString::from).collect::<Vec<_>>()).collect()
    };
    let is_packed = changed.name == "packed-refs" && shared(&changed.git) == shared(&changed.other);
    is(step, "refs", "migrate") && (is_packed || is_own(&changed.name) && changed.git.is_none())
}

/// Accepts that git records no peeled values for the tags that it migrates.
pub(crate) fn peeled_by_migration(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let id = |value: &Option<BString>| {
        value.as_ref().map(|value| value[..value.find_byte(b' ').unwrap_or(value.len())].to_vec())
    };
    is(step, "refs", "migrate") && changed.git.is_some() && id(&changed.git) == id(&changed.other)
}

pub(crate) fn extension_of_old_version(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_refused = refdb.err.starts_with(b"fatal: unknown repository extension");
    if is(step, "refs", "migrate") && is_refused && git.code == 0 {
        refdb.clone_from(git);
    }
}

pub(crate) fn not_carried_over(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_refused = without_fsync(&refdb.err).starts_with(b"error: some refs cannot be carried over; ");
    if is(step, "refs", "migrate") && is_refused {
        refdb.clone_from(git);
    }
}

pub(crate) fn migrated_log_of_a_file(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_refused = git.err.contains_str("error: refusing to update reflog for pseudoref '");
    if is(step, "refs", "migrate") && is_refused && git.code == 255 && refdb.code == 0 {
        refdb.clone_from(git);
    }
}

pub(crate) fn folder_in_the_way_of_a_value(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err.lines().all(|line| line.starts_with(b"error: couldn't set "));
    let is_folder = refdb.err.contains_str("there is a non-empty directory ");
    if step.command == "reflog" && is_told && is_folder && git.code == refdb.code {
        refdb.clone_from(git);
    }
}

/// Accepts that git warns about more refs, because it lists all refs for `branch --all` and with a detached HEAD.
pub(crate) fn warnings_of_others(step: &Step, git: &mut Said, refdb: &mut Said) {
    let part = |said: &Said, ignores: bool| -> Vec<BString> {
        // A name with a newline makes two lines.
        let is_wanted = |line: &&[u8]| line.len() > 1 && line.starts_with(b"warning: ignoring ") == ignores;
        said.err.lines().filter(is_wanted).map(BString::from).collect()
    };
    let (gits, ours) = (part(git, true), part(refdb, true));
    let is_same = part(git, false) == part(refdb, false);
    if step.command == "branch" && is_same && ours.iter().all(|line| gits.contains(line)) {
        refdb.err.clone_from(&git.err);
    }
}

/// Accepts that git's `--all` skips, and its migration loses, the reflog of a ref whose last component is `@`.
pub(crate) fn log_of_an_at(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let is_all = ["drop", "expire"].iter().any(|member| is(step, "reflog", member)) && step.has("--all");
    let is_kept = is_all && changed.git == changed.before;
    let is_lost = is(step, "refs", "migrate") && changed.git.is_none();
    is_log(changed) && changed.name.ends_with(b"/@") && (is_kept || is_lost)
}

pub(crate) fn list_without_an_at(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_other = |line: &&[u8]| !line.trim_end().ends_with(b"/@");
    if is(step, "reflog", "list") {
        let rest = refdb.out.lines_with_terminator().filter(is_other).collect::<Vec<_>>().concat();
        if rest == git.out[..] {
            refdb.out.clone_from(&git.out);
        }
    }
}

/// Accepts that git stops checking root refs once it has found a fault in one.
pub(crate) fn root_refs_behind_a_fault(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = |line: &[u8]| git.err.lines().any(|told| told == line);
    let is_root = |line: &[u8]| {
        let subject =
            line.rsplit_once_str("Checking ").map_or_else(|| line.split_str(": ").nth(1), |(_, name)| Some(name));
        subject.is_some_and(|name| !name.contains(&b'/'))
    };
    let are_root = refdb.err.lines().all(|line| is_told(line) || is_root(line));
    if is(step, "refs", "verify") && git.code == 255 && refdb.code == 255 && are_root {
        refdb.clone_from(git);
    }
}

/// Removes repeated warnings about `core.fsync`: refdb reads the settings before it asks git for a field, and git reads
/// them again.
pub(crate) fn settings_read_twice(step: &Step, git: &mut Said, refdb: &mut Said) {
    let mut lines: Vec<&[u8]> = Vec::new();
    for line in refdb.err.lines_with_terminator() {
        if !line.starts_with(b"warning: ignoring unknown core.fsync component ") || !lines.contains(&line) {
            lines.push(line);
        }
    }
    if ["branch", "tag", "for-each-ref", "refs"].contains(&step.command) && lines.concat() == git.err[..] {
        refdb.err.clone_from(&git.err);
    }
}

/// Accepts that git refuses to write a reflog with a bad name; git 2.55 does so only if the new value is null.
pub(crate) fn bad_name_of_a_log(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_refused = git.err.contains_str("refusing to update reflog with bad name ");
    let is_null = |word: &BString| word.len() >= 40 && word.iter().all(|digit| *digit == b'0');
    let is_old = || step.words.get(3).is_some_and(is_null);
    if is(step, "reflog", "write") && is_refused && (Git::find().version() >= (2, 56) || is_old()) {
        refdb.clone_from(git);
    }
}

/// Accepts that git cannot migrate a reflog without a ref whose name is a folder of other refs.
pub(crate) fn log_of_a_folder(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err.ends_with(b" at the same time\n") || git.err.contains_str("' exists; cannot create '");
    if is(step, "refs", "migrate") && is_told && git.code == 255 {
        refdb.clone_from(git);
    }
}

/// Accepts that only refdb writes reflog entries for a broken ref, or for a symbolic ref that leads to itself.
pub(crate) fn log_of_a_loop(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err.ends_with(b": error reading reference\n") || git.err.ends_with(b": reference broken\n");
    if is(step, "reflog", "write") && is_told && refdb.code == 0 {
        refdb.clone_from(git);
    }
}

/// Accepts that an empty folder keeps git from migrating: the refs in the new format stay beside the repository, where
/// nobody reads them.
pub(crate) fn folder_of_a_stub(step: &Step, git: &mut Said, refdb: &mut Said) {
    if is_stopped_by_a_folder(step, git) {
        refdb.clone_from(git);
    }
}

/// Whether a folder in the way stopped git's migration, possibly after warnings about hooks.
pub(crate) fn is_stopped_by_a_folder(step: &Step, git: &Said) -> bool {
    let is_told = |line: &[u8]| {
        line.starts_with(b"error: could not delete refs directory: ")
            || line.starts_with(b"error: could not link file ") && line.ends_with(b"': Is a directory")
    };
    is(step, "refs", "migrate") && git.err.lines().any(is_told)
}

/// Accepts that git, in a linked worktree, refuses a reflog because of refs that only the main worktree has.
pub(crate) fn folder_of_the_main_worktree(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err.contains_str("there is a non-empty directory '");
    if is(step, "reflog", "write") && matches!(step.place, Place::Tree(_)) && is_told && refdb.code == 0 {
        refdb.clone_from(git);
    }
}
