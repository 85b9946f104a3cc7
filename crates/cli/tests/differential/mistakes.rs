//! Accepted differences where a step has several mistakes, of which git and refdb may report different ones.

use crate::logs::{are_more, entries, is_log, ref_of};
use bstr::{BString, ByteSlice};
use refdb_testkit::differential::{Changed, Left, Said, Step};

/// Returns the setting whose value is reported as bad, if any.
fn bad_setting(said: &Said) -> Option<&[u8]> {
    let of_value = |line: &'_ [u8]| line.starts_with(b"fatal: bad ") && line.contains_str("config value");
    let value = said.err.lines().find(|line| of_value(line)).and_then(|line| line.rsplit_once_str(" for "));
    let variable = || said.err.lines().find_map(|line| line.strip_prefix(b"fatal: bad config variable "));
    value.map(|(_, setting)| setting).or_else(variable)
}

/// Returns the mistake that is reported in the settings: the bad setting, or the kind of error that makes them
/// unreadable.
fn mistake_in_settings(said: &Said) -> Option<&[u8]> {
    const KINDS: &[&str] = &[
        "fatal: bad config line ",
        "fatal: exceeded maximum include depth ",
        "fatal: unable to parse command-line config",
        "warning: unknown repository extension found",
    ];
    fn of_line(line: &[u8]) -> Option<&[u8]> {
        match KINDS.iter().find(|kind| line.starts_with(kind.as_bytes())) {
            Some(kind) => Some(kind.as_bytes()),
            None => Some(line).filter(|line| line.ends_with(b"' must be removed; aborting.")),
        }
    }
    bad_setting(said).or_else(|| said.err.lines().find_map(of_line))
}

/// Accepts that git reports wrong use and refdb a bad setting, or that each reports another one of two mistakes in
/// settings.
pub(crate) fn settings_before_words(_: &Step, git: &mut Said, refdb: &mut Said) {
    if git.code >= 128 && refdb.code != 0 && mistake_in_settings(git) != mistake_in_settings(refdb) {
        refdb.clone_from(git);
    }
}

/// Git's words for a ref that lacks the expected value, cannot hold the new one, or has no room.
const VALUES_SAID: &[&str] = &[
    " but expected ",
    ": reference already exists",
    ": dangling symref already exists",
    ": unable to resolve reference ",
    "trying to write ref ",
    "trying to write non-commit object ",
    "verifying symref target: ",
    ": expected symref with target ",
    " exists; cannot create '",
];

/// Accepts that refdb says that a ref is changed twice where git says so in other words or, with several requests,
/// reports a wrong value.
pub(crate) fn two_names(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = |said: &Said| {
        said.err.contains_str("multiple updates for '") && said.err.contains_str(" (including one via ")
            || said.err.contains_str("multiple updates for ref '") && said.err.ends_with(b"' is the same ref\n")
    };
    let is_refused = git.code == refdb.code && git.code != 0 && git.out == refdb.out;
    // Two of three requests may have the same name.
    let is_one_name = || git.err.starts_with(b"fatal: multiple updates for ref '");
    let is_value = || VALUES_SAID.iter().any(|words| git.err.contains_str(words));
    if is_refused && is_told(refdb) && (is_told(git) || is_one_name() || step.input.len() > 1 && is_value()) {
        refdb.clone_from(git);
    }
}

/// Accepts that the two conflicting names stand in the opposite order in the message, or that git names a ref that
/// exists already and refdb another request, if both are in the way of the same new ref.
pub(crate) fn one_and_the_other(step: &Step, git: &mut Said, refdb: &mut Said) {
    let pair = |said: &Said| -> Option<[BString; 2]> {
        let (_, names) = said.err.split_once_str("cannot process '")?;
        let (one, other) = names.strip_suffix(b"' at the same time\n")?.split_once_str("' and '")?;
        Some([one.into(), other.into()])
    };
    let created = |said: &Said| -> Option<BString> {
        let (_, name) = said.err.split_once_str("' exists; cannot create '")?;
        Some(name.strip_suffix(b"'\n")?.into())
    };
    let are_swapped = || pair(git).zip(pair(refdb)).is_some_and(|(theirs, [one, other])| theirs == [other, one]);
    let are_of_one = || created(git).zip(pair(refdb)).is_some_and(|(created, pair)| pair.contains(&created));
    if (are_swapped() || are_of_one()) && git.code == refdb.code && step.input.len() > 1 {
        refdb.clone_from(git);
    }
}

/// Accepts that refdb reports a conflict of names when HEAD leads to the branch, as git does only for the branch
/// itself.
pub(crate) fn verified_through_head(step: &Step, git: &mut Said, refdb: &mut Said) {
    let verifies = step.input.iter().any(|line| line.starts_with(b"verify HEAD"));
    let is_told = refdb.err.starts_with(b"fatal: cannot process '")
        && refdb.err.ends_with(b"' and 'refs/heads' at the same time\n");
    if verifies && is_told && git.code == 0 {
        refdb.clone_from(git);
    }
}

pub(crate) fn printed_before(step: &Step, git: &mut Said, refdb: &mut Said) {
    // Git checks the format of a tagger's date only at a tag that has a tagger.
    let asks_tagger = step.words.iter().any(|word| word.contains_str("taggerdate:"));
    if asks_tagger && git.code == 0 && refdb.err.starts_with(b"fatal: unknown date format ") {
        refdb.clone_from(git);
    }
    if step.does() != "for-each-ref" || git.code != 128 {
        return;
    }
    let fields = ["fatal: missing object ", "fatal: unknown date format"];
    // If two formats are bad, git reports the author's before the committer's.
    if refdb.code == 128 && [&*git, &*refdb].iter().all(|said| said.err.starts_with(fields[1].as_bytes())) {
        refdb.err.clone_from(&git.err);
    }
    // Which of several missing objects ends a list depends on the order in which refs are compared.
    let is_missing =
        |said: &Said| said.err.lines().next_back().is_some_and(|line| line.starts_with(fields[0].as_bytes()));
    let sorts = step.words.iter().any(|word| word.starts_with(b"--sort="));
    if refdb.code == 128 && sorts && is_missing(git) && is_missing(refdb) {
        refdb.err.clone_from(&git.err);
    }
    if refdb.code == 128 && refdb.out.starts_with(&git.out) {
        refdb.out.clone_from(&git.out);
        // Refdb has met a broken ref after the one at which git stops.
        let is_warning = |line: &&[u8]| line.starts_with(b"warning: ignoring ");
        if !git.err.lines().any(|line| is_warning(&line)) {
            let rest = refdb.err.lines_with_terminator().filter(|line| !is_warning(line)).collect::<Vec<_>>().concat();
            refdb.err = rest.into();
        }
        for said in [&mut *git, &mut *refdb] {
            let mut lines: Vec<_> = said.err.lines_with_terminator().collect();
            lines.dedup();
            said.err = lines.concat().into();
        }
    }
    // Git may read the objects of refs behind the last that it shows.
    let counts = step.words.iter().any(|word| word.starts_with(b"--count="));
    if refdb.code == 0 && (counts && is_missing(git) || git.err.contains_str("fatal: unknown date format"))
        || refdb.err.contains_str("fatal: format: ") && fields.iter().any(|words| git.err.contains_str(words))
    {
        refdb.clone_from(git);
    }
}

pub(crate) fn symref_target(_: &Step, git: &mut Said, refdb: &mut Said) {
    let others = ["unable to resolve reference", "expected symref with target"];
    let is_other = others.iter().any(|words| refdb.err.contains_str(words));
    if git.err.contains_str("verifying symref target: ") && is_other && git.code == refdb.code {
        refdb.clone_from(git);
    }
}

/// Git's message when it gives up a batch that changes HEAD and its branch.
const GIVES_UP: &str = "HEAD has been racily updated";

pub(crate) fn twice_in_a_batch(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_batch = step.has("-0") || step.has("--batch-updates");
    let is_told = |said: &Said| said.err.contains_str("error: multiple updates for ");
    let is_same = refdb.code == 128 && refdb.err.ends_with(b"' is the same ref\n") && is_told(git);
    let is_raced = git.code == 128 && git.err.contains_str(GIVES_UP);
    let is_either = (is_told(git) || is_told(refdb)) && git.code == refdb.code;
    let others = |said: &Said| -> Vec<BString> {
        said.out.lines().filter(|line| !line.starts_with(b"rejected ")).map(BString::from).collect()
    };
    let is_batch = is_batch && others(refdb).starts_with(&others(git));
    if is_batch && (is_either || is_told(refdb) && refdb.code == 0 || is_same || is_raced) && git != refdb {
        refdb.clone_from(git);
    }
}

/// Accepts that one side has not changed a ref that a message names or to which such a ref leads, or HEAD, packed-refs,
/// or a reflog of these refs, or that each side has carried out the request that the other rejected. If git gives up
/// the whole batch, it has changed nothing. Git's tables may lose reflogs of the batch's other refs.
pub(crate) fn twice_left(_: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let name = ref_of(&changed.name);
    let is_told_of =
        |name: &[u8]| left.said.iter().any(|said| said.out.contains_str(name) || said.err.contains_str(name));
    let leads_here = |from: &&BString| {
        let value = left.before.get(from.as_bstr()).and_then(|value| value.strip_prefix(b"ref: "));
        value.is_some_and(|target| target.trim_end() == name.as_bytes())
    };
    let is_told = || is_told_of(name) || left.before.names().filter(leads_here).any(|from| is_told_of(ref_of(from)));
    let is_one_sided = changed.git == changed.before || changed.other == changed.before;
    let gives_up = || left.said[0].code != 0 && changed.git == changed.before;
    let took_others = left.said.iter().all(|said| said.err.contains_str("error: multiple updates for "));
    let loses_log = || {
        let (git, refdb) = (entries(changed.git.as_ref()), entries(changed.other.as_ref()));
        is_log(changed) && are_more(&refdb, &git, |_| true)
    };
    let is_about = || name == "HEAD" || name == "packed-refs" || is_told() || gives_up();
    left.met && ((is_one_sided || took_others) && is_about() || loses_log())
}

/// Accepts that refdb adds the age and the owner of a lock that is in the way, and leaves out a dot of git's path.
pub(crate) fn lock_in_the_way(_: &Step, git: &mut Said, refdb: &mut Said) {
    let path = |said: &Said| {
        let (_, rest) = said.err.split_once_str("Unable to create '")?;
        let (path, rest) = rest.split_once_str("'")?;
        rest.starts_with(b": File exists.").then(|| path.replace("/./", "/"))
    };
    if git.code == refdb.code && path(git).is_some_and(|path_of_git| Some(path_of_git) == path(refdb)) {
        refdb.clone_from(git);
    }
}

/// Accepts that git reports a second error for a request: that the target of the symbolic ref does not match either.
pub(crate) fn told_twice(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_second = |line: &[u8]| {
        line.contains_str(": expected symref with target '") || line.contains_str(": unable to resolve reference '")
    };
    let is_told = |line: &[u8]| refdb.err.lines().any(|told| told == line);
    let is_rest = |line: &[u8]| line.starts_with(b"rejected ") || refdb.out.lines().any(|told| told == line);
    let has_all = refdb.err.lines().all(|line| git.err.lines().any(|told| told == line));
    let is_batch = step.has("-0") || step.has("--batch-updates");
    if is_batch
        && refdb.err.contains_str("error: verifying symref target: ")
        && has_all
        && git.err.lines().all(|line| is_told(line) || is_second(line))
        && git.out.lines().all(is_rest)
    {
        refdb.clone_from(git);
    }
}

pub(crate) fn file_in_the_way(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told =
        git.err.contains_str("unable to create lock file ") && git.err.ends_with(b"; non-directory in the way\n");
    // Refdb looks for an old value first.
    let is_missed = || {
        let name = git.err.split_once_str("cannot lock ref '").and_then(|(_, rest)| rest.split_once_str("'"));
        name.is_some_and(|(name, _)| refdb.err.ends_with(&[b"unable to resolve reference '", name, b"'\n"].concat()))
    };
    // A ref that git cannot lock ends even a batch.
    let is_batch = refdb.code == 0 && refdb.out.starts_with(b"rejected ");
    let is_as_bad = git.code == refdb.code || is_batch;
    if is_told && (refdb.err.contains_str("' exists; cannot create '") || is_missed()) && is_as_bad {
        refdb.clone_from(git);
    }
}

pub(crate) fn log_in_the_way(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err.contains_str("': unable to append to '") && git.err.ends_with(b"': Not a directory\n");
    let is_told_too = refdb.err.ends_with(b"': Not a directory (os error 20)\n") && git.code == refdb.code;
    let is_done = refdb.code == 0 || refdb.out.contains_str("commit: ok\n");
    if is_told && (is_told_too || is_done) {
        refdb.clone_from(git);
    }
}

/// Accepts that git truncates each of its messages to 4095 bytes.
pub(crate) fn long_messages(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_same = |(git, refdb): (&[u8], &[u8])| git == refdb || git.len() >= 4094 && refdb.starts_with(git);
    let are_as_many = git.err.lines().count() == refdb.err.lines().count();
    if are_as_many && git.err.lines().zip(refdb.err.lines()).all(is_same) {
        refdb.err.clone_from(&git.err);
    }
}

pub(crate) fn folder_of_a_lock(_: &Step, git: &mut Said, refdb: &mut Said) {
    let set = git.err.split_once_str("couldn't set '").map(|(_, rest)| rest);
    let name = set.and_then(|rest| rest.strip_suffix(b"'\n"));
    let is_refused = |name: &[u8]| {
        refdb.err.contains_str("there is a non-empty directory '")
            && refdb.err.ends_with(&[b"' blocking reference '", name, b"'\n"].concat())
    };
    let is_stuck = git.err.starts_with(b"fatal: unable to unlink '") && git.err.ends_with(b"': Is a directory\n");
    if name.is_some_and(is_refused) || is_stuck && git.code == 128 {
        refdb.clone_from(git);
    }
}
