//! Accepted differences in reflogs.

use bstr::{BStr, BString, ByteSlice};
use refdb_testkit::differential::{Changed, Difference, Left, Place, Said, Step};

pub(crate) fn is_log(changed: &Changed) -> bool {
    let name = &changed.name;
    name.contains_str("log of ") || name.starts_with(b"logs/") || name.contains_str("/logs/")
}

/// Returns the ref that a reflog belongs to, or `name` itself if it is a ref; the prefix of a linked worktree is
/// removed.
pub(crate) fn ref_of(name: &BString) -> &BStr {
    let own =
        name.strip_prefix(b"worktrees/").and_then(|rest| rest.split_once_str("/")).map_or(&name[..], |(_, own)| own);
    own.strip_prefix(b"log of ").or_else(|| own.strip_prefix(b"logs/")).unwrap_or(own).as_bstr()
}

/// Splits the entries of a reflog into fields: the old value, the new value, and everything else.
pub(crate) fn entries(log: Option<&BString>) -> Vec<Vec<BString>> {
    let fields = |line: &[u8]| line.splitn_str(3, " ").map(BString::from).collect();
    log.iter().flat_map(|log| log.lines()).map(fields).collect()
}

fn is_zeros(id: &BString) -> bool {
    id.iter().all(|byte| *byte == b'0')
}

/// Whether `more` consists of the entries of `less`, in the same order, and of others that satisfy `fits`.
pub(crate) fn are_more(more: &[Vec<BString>], less: &[Vec<BString>], fits: impl Fn(&[BString]) -> bool) -> bool {
    let mut less = less.iter().peekable();
    let all_fit = more.iter().all(|entry| less.next_if_eq(&entry).is_some() || fits(entry));
    all_fit && less.next().is_none()
}

pub(crate) fn log_of_nothing(_: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let (git, refdb) = (entries(changed.git.as_ref()), entries(changed.other.as_ref()));
    let is_nothing = |entry: &[BString]| entry.len() == 3 && entry[..2].iter().all(is_zeros);
    is_log(changed) && (are_more(&git, &refdb, is_nothing) || are_more(&refdb, &git, is_nothing))
}

pub(crate) fn log_of_rejected(_: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let (git, refdb) = (entries(changed.git.as_ref()), entries(changed.other.as_ref()));
    left.met && is_log(changed) && are_more(&git, &refdb, |_| true)
}

/// Accepts entries of HEAD that differ only in null ids in git's, and entries that git lacks where a symbolic ref leads
/// nowhere now or to a ref that the same transaction creates.
pub(crate) fn log_of_head(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let (git, refdb) = (entries(changed.git.as_ref()), entries(changed.other.as_ref()));
    let is_alike = |git: &[BString], refdb: &[BString]| {
        let [git_ids, refdb_ids] = [git, refdb].map(|entry| entry.iter().take(2));
        git.get(2) == refdb.get(2) && git_ids.zip(refdb_ids).all(|(git, refdb)| git == refdb || is_zeros(git))
    };
    let is_heads = changed.name.ends_with(b"logs/HEAD") || changed.name.ends_with(b"log of HEAD");
    let are_alike = || git.len() == refdb.len() && git.iter().zip(&refdb).all(|(git, refdb)| is_alike(git, refdb));
    let leads_on = step.input.iter().any(|line| line.starts_with(b"symref-"));
    let is_made = |id: &BString| step.input.iter().any(|line| line.starts_with(b"create ") && line.contains_str(id));
    let is_lost = || {
        let is_of_those = |entry: &[BString]| entry.iter().take(2).any(is_zeros) || entry.get(1).is_some_and(is_made);
        leads_on && are_more(&refdb, &git, is_of_those)
    };
    step.changes() && is_log(changed) && (is_heads && are_alike() || is_lost())
}

pub(crate) fn log_of_the_end(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let git = entries(changed.git.as_ref());
    let is_end = git.len() == 1 && git[0].get(1).is_some_and(is_zeros);
    is_log(changed) && step.has("--create-reflog") && changed.before.is_none() && changed.other.is_none() && is_end
}

pub(crate) fn log_of_verified(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let (git, refdb) = (entries(changed.git.as_ref()), entries(changed.other.as_ref()));
    let verifies = step.input.iter().any(|line| line.starts_with(b"verify "));
    is_log(changed) && verifies && are_more(&git, &refdb, |entry| entry.get(1).is_some_and(is_zeros))
}

pub(crate) fn log_of_the_missing(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let is_null = |word: &BString| word.len() >= 40 && is_zeros(word);
    let new_value = |line: &BString| line.trim_end().split(|byte| b" \0".contains(byte)).nth(2).map(BString::from);
    let is_deletion = |line: &BString| {
        line.starts_with(b"delete ")
            || line.starts_with(b"symref-delete ")
            || line.starts_with(b"update ") && new_value(line).is_some_and(|new| is_null(&new))
    };
    let deletes = step.has("-d") || step.words.iter().any(is_null) || step.input.iter().any(is_deletion);
    is_log(changed) && deletes && changed.git.is_none() && changed.other == changed.before
}

/// Returns the value that the reflog's ref had before the step, in the same worktree or else shared.
fn value_before<'a>(changed: &Changed, left: &Left<'a>) -> Option<&'a BStr> {
    let lead = changed.name.find("log of ").map_or(&b""[..], |at| &changed.name[..at]);
    let name = ref_of(&changed.name);
    let own = BString::from([lead, name.as_bytes()].concat());
    left.before.get(own.as_bstr()).or_else(|| left.before.get(name))
}

fn expires(step: &Step, changed: &Changed) -> bool {
    step.command == "reflog"
        && step.words.first().is_some_and(|word| word == "expire")
        && changed.name.contains_str("log of ")
}

/// Accepts that git's tables keep fewer entries for a symbolic ref.
pub(crate) fn log_of_symbolic(step: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let (git, refdb) = (entries(changed.git.as_ref()), entries(changed.other.as_ref()));
    let is_symbolic = || value_before(changed, &left).is_some_and(|value| value.starts_with(b"ref: "));
    expires(step, changed) && is_symbolic() && are_more(&refdb, &git, |_| true)
}

/// Accepts that refdb's tables keep fewer entries for a name whose value is in a file.
pub(crate) fn log_of_a_file(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let (git, refdb) = (entries(changed.git.as_ref()), entries(changed.other.as_ref()));
    let is_file = ["MERGE_HEAD", "FETCH_HEAD"].iter().any(|name| ref_of(&changed.name) == name);
    expires(step, changed) && is_file && are_more(&git, &refdb, |_| true)
}

/// Accepts that some entries of a ref that led to `MERGE_HEAD` or `FETCH_HEAD` have no old value in git's tables.
pub(crate) fn log_of_pseudo(step: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let (git, refdb) = (entries(changed.git.as_ref()), entries(changed.other.as_ref()));
    let is_alike = |(git, refdb): (&Vec<BString>, &Vec<BString>)| {
        git == refdb || git.first().is_some_and(is_zeros) && git.get(1..) == refdb.get(1..)
    };
    let lead = changed.name.find("log of ").map_or(&b""[..], |at| &changed.name[..at]);
    let mut name = ref_of(&changed.name).to_owned();
    let mut leads_to_one = || {
        (0..5).any(|_| {
            let own = BString::from([lead, &name[..]].concat());
            let value = left.before.get(own.as_bstr()).or_else(|| left.before.get(name.as_bstr()));
            name = value.and_then(|value| value.strip_prefix(b"ref: ")).unwrap_or_default().into();
            name == "MERGE_HEAD" || name == "FETCH_HEAD"
        })
    };
    let is_of_table = changed.name.contains_str("log of ");
    let are_alike = git.len() == refdb.len() && git.iter().zip(&refdb).all(is_alike);
    is_of_table && step.changes() && are_alike && leads_to_one()
}

/// Accepts that entries differ slightly in time, because git and refdb read the clock one after the other.
pub(crate) fn log_of_the_clock(step: &Step, changed: &Changed, _: Left<'_>) -> bool {
    let has_clock = step.environment.iter().any(|word| word == "GIT_COMMITTER_DATE=" || word == "GIT_COMMITTER_DATE");
    let words = |log: &Option<BString>| -> Vec<BString> {
        log.iter().flat_map(|log| log.split_str(" ").map(BString::from).collect::<Vec<_>>()).collect()
    };
    let is_near = |(git, refdb): (&BString, &BString)| {
        let seconds = |word: &BString| word.to_str().ok()?.parse::<u64>().ok();
        git == refdb || seconds(git).zip(seconds(refdb)).is_some_and(|(git, refdb)| git.abs_diff(refdb) < 600)
    };
    let (git, refdb) = (words(&changed.git), words(&changed.other));
    has_clock && is_log(changed) && git.len() == refdb.len() && git.iter().zip(&refdb).all(is_near)
}

/// Accepts that git finds a `MERGE_HEAD` or `FETCH_HEAD` that the linked worktree does not have.
pub(crate) fn pseudo_of_main(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_missing = |name: &str| refdb.err.contains_str(format!("unable to resolve reference '{name}'\n"));
    let is_missed = ["MERGE_HEAD", "FETCH_HEAD"].into_iter().any(is_missing);
    if matches!(step.place, Place::Tree(_)) && is_missed && (git.code == 0 || git.err.contains_str("': is at ")) {
        refdb.clone_from(git);
    }
}

/// Accepts that, in a linked worktree, git's entries for a ref that led to `MERGE_HEAD` or `FETCH_HEAD` begin with the
/// main worktree's value, and that git has an entry for the end of that value.
pub(crate) fn log_of_mains_pseudo(step: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let (git, refdb) = (entries(changed.git.as_ref()), entries(changed.other.as_ref()));
    let mains = ["MERGE_HEAD", "FETCH_HEAD"].map(|name| left.before.get(name.into()));
    let is_mains =
        |entry: &[BString]| entry.first().is_some_and(|old| mains.iter().flatten().any(|value| value.starts_with(old)));
    let is_alike =
        |(git, refdb): (&Vec<BString>, &Vec<BString>)| git == refdb || is_mains(git) && git.get(1..) == refdb.get(1..);
    let are_alike = git.len() == refdb.len() && git.iter().zip(&refdb).all(is_alike);
    let is_linked = matches!(step.place, Place::Tree(_));
    is_linked && step.changes() && is_log(changed) && (are_alike || are_more(&git, &refdb, is_mains))
}

/// Accepts that git's tables hold no peeled value for a tag that git takes for damaged.
pub(crate) fn peeled_lies(step: &Step, changed: &Changed, left: Left<'_>) -> bool {
    let value = |value: &Option<BString>| {
        value.as_ref().map(|value| value.split_once_str(" peeled ").map_or(&value[..], |parts| parts.0).to_owned())
    };
    let is_unpeeled = changed.git.is_some() && changed.git == value(&changed.other).map(BString::from);
    left.met
        && (is_unpeeled
            || Difference::LEFT_BY_GIT(step, changed, left)
            || Difference::LEFT_BY_OTHER(step, changed, left))
}
