//! How accepted differences show: a function that a difference names makes the two outputs equal if that difference is
//! between them.

use crate::lists_and_logs::without_fsync;
use bstr::{BString, ByteSlice};
use refdb_testkit::{
    Git,
    differential::{Place, Said, Step},
};

/// Parts of git's messages about bad settings that refs do not depend on. Refdb does not read most of these settings.
const OTHER_SETTINGS: &[&str] = &[
    "push.default",
    "core.abbrev",
    "core.compression",
    "core.loosecompression",
    "pack.packsizelimit",
    "branch.autosetupmerge",
    "core.symlinks",
    "core.commentchar",
    "core.ignorecase",
    "core.bigfilethreshold",
    "core.quotepath",
    "core.eol",
    "core.whitespace",
    "core.fsync",
    "core.editor",
    "gpg.format",
    "gc.auto",
    "bad zlib compression level",
    "color.advice",
    "core.hookspath",
    "i18n.logoutputencoding",
    "i18n.commitencoding",
    "mailmap.file",
    "log.date",
    "remote.",
    "branch.",
    "trailer.",
];

/// Accepts that git fails at a bad value of one of [`OTHER_SETTINGS`], or at an invalid refspec.
pub(crate) fn bad_settings(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_other = OTHER_SETTINGS.iter().any(|setting| git.err.contains_str(setting));
    if git.code == 128
        && is_other
        && ["fatal: bad ", "error: malformed value", "fatal: unable to parse '"]
            .iter()
            .any(|words| git.err.contains_str(words))
        || git.err.lines().any(|line| line.starts_with(b"fatal: invalid refspec "))
    {
        refdb.clone_from(git);
    }
}

/// Settings that refdb reads at once, but git only when it needs them.
const LATE_SETTINGS: &[&str] = &[
    "core.packedrefstimeout",
    "core.filesreflocktimeout",
    "reftable.blocksize",
    "reftable.restartinterval",
    "reftable.locktimeout",
    "reftable.indexobjects",
    "reftable.geometricfactor",
];

pub(crate) fn late_settings(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_late = LATE_SETTINGS
        .iter()
        .any(|setting| refdb.err.contains_str(format!("' for '{setting}'")) && is_of_a_setting(refdb));
    // Git's commands about reflogs and whole stores read few settings.
    let settings = ["for 'user.useconfigonly'", "bad config variable 'user.", "for 'core.ignorecase'"];
    let is_unread = ["reflog", "refs", "pack-refs"].contains(&step.command)
        && git.code != 128
        && (settings.iter().any(|setting| refdb.err.contains_str(setting)) || is_of_a_setting(refdb));
    // Git does not read how refs are logged if it opens no ref, nor the hooks' folder if it calls no hook.
    let unread = ["core.logallrefupdates", "core.hookspath", "onbranch:"];
    // If the configuration has two faults, either one may be reported.
    let is_of_command_line = git.code == refdb.code && git.err.contains_str("unable to parse command-line config");
    let is_unasked = is_of_a_setting(refdb) && is_of_command_line
        || is_of_a_setting(refdb) && !is_of_a_setting(git) && unread.iter().any(|key| refdb.err.contains_str(key));
    if (is_late || is_unread || is_unasked) && refdb.code != 0 {
        refdb.clone_from(git);
    }
}

/// Whether the command fails because of a setting.
fn is_of_a_setting(said: &Said) -> bool {
    let words = [
        "fatal: bad config variable '",
        "fatal: unable to parse '",
        "fatal: bad numeric config value '",
        "fatal: bad boolean config value '",
        "fatal: exceeded maximum include depth",
    ];
    said.code != 0 && words.iter().any(|words| said.err.contains_str(words))
}

pub(crate) fn dot_folder(_: &Step, git: &mut Said, refdb: &mut Said) {
    for said in [git, refdb] {
        said.err =
            said.err.replace("in file ./", "in file ").replace("\n\t././", "\n\t./").replace("\n\t./", "\n\t").into();
    }
}

/// Accepts that git ends a list at a ref whose object is missing, because it reads each object; refdb may meet another
/// mistake later.
fn missing_where_pointed(step: &Step, git: &mut Said, refdb: &mut Said) {
    let asks = step.words.iter().any(|word| word.starts_with(b"--points-at"));
    if asks && git.code == 128 && git.err.contains_str("fatal: malformed object at '") {
        refdb.clone_from(git);
    }
}

pub(crate) fn lying_tags(step: &Step, git: &mut Said, refdb: &mut Said) {
    missing_where_pointed(step, git, refdb);
    let is_told = |line: &[u8]| {
        line.strip_prefix(b"error: object ").and_then(|rest| rest.splitn_str(2, " is a ").nth(1)).is_some_and(|kinds| {
            let kinds: Vec<&[u8]> = kinds.trim_end().split_str(", not a ").collect();
            kinds.len() == 2 && kinds.iter().all(|kind| [&b"blob"[..], b"tree", b"commit", b"tag"].contains(kind))
        })
    };
    // A ref or tag that leads to an object of another type than it states counts as damaged: for git once it has met
    // both types, for refdb each time.
    let is_bad =
        |line: &[u8]| line.starts_with(b"error: bad tag pointer to ") || line.starts_with(b"error: bad parent ");
    let is_refused = |said: &Said| {
        let words = [
            "with nonexistent object ",
            "trying to write non-commit object ",
            "unable to parse object",
            "parse_object_buffer failed on ",
            "fatal: bad tag",
            "fatal: malformed object at ",
            ": invalid <",
            ": not a valid SHA1",
        ];
        words.iter().any(|words| said.err.contains_str(words))
    };
    // Refdb has accepted that object, and may meet another mistake after it.
    let tells_twice = |line: &[u8]| line.starts_with(b"fatal: ") && line.contains_str("multiple updates for ");
    // Refdb does not look at objects either if the reflog does not exist.
    let is_unfound = step.command == "reflog" && refdb.err.contains_str("error: reflog could not be found: ");
    // In a batch, git rejects only that request and changes the ref by the other one.
    let is_batch = git.code == 0 && git.out.starts_with(b"rejected ");
    let is_other = step.input.len() > 1 && refdb.code == git.code || is_batch && refdb.err.lines().any(tells_twice);
    // If another request ends both, git has reported the wrong type before, while refdb accepted that object.
    let is_among = |part: &BString, all: &BString| part.lines().all(|line| all.lines().any(|other| other == line));
    let is_less = refdb.code == git.code && is_among(&refdb.err, &git.err) && is_among(&refdb.out, &git.out);
    // Git cannot read the history to its end because of the wrong type, and judges by what it has read whether the
    // commit is in it.
    let asks_history = |word: &BString| {
        ["--contains", "--no-contains", "--merged", "--no-merged"].iter().any(|asks| word.starts_with_str(asks))
    };
    let is_unread = git.err.lines().any(is_told)
        && git.err.contains_str("error: could not parse commit ")
        && git.code == refdb.code
        && is_among(&refdb.err, &git.err);
    if is_unread && step.words.iter().any(asks_history) {
        refdb.clone_from(git);
    }
    if git.err.lines().any(|line| is_bad(line) || is_told(line))
        && is_refused(git)
        && (refdb.code == 0 || is_refused(refdb) || is_other || is_unfound || is_less)
        && (step.command == "update-ref" || refdb.out.starts_with(&git.out))
        || refdb.err.lines().any(is_bad) && is_refused(refdb) && (is_refused(git) || git.err.lines().any(is_bad))
    {
        refdb.clone_from(git);
    }
    for said in [&mut *git, &mut *refdb] {
        said.err = said
            .err
            .lines_with_terminator()
            .filter(|line| !is_told(line) && !is_bad(line))
            .collect::<Vec<_>>()
            .concat()
            .into();
    }
}

pub(crate) fn too_many_digits(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_too_long = |word: &[u8]| [41, 65].contains(&word.len()) && word.iter().all(u8::is_ascii_hexdigit);
    let has_one = |text: &BString| text.split(|byte| b" =\n\0\"".contains(byte)).any(is_too_long);
    if refdb.code != 0 && step.words.iter().chain(&step.input).any(has_one) {
        refdb.clone_from(git);
    }
}

pub(crate) fn bad_symbolic_name(step: &Step, git: &mut Said, refdb: &mut Said) {
    let refuses = refdb.err.lines().any(|line| line.starts_with(b"error: refusing to update ref with bad name "));
    if step.command == "symbolic-ref" && git.code == 0 && refuses {
        refdb.clone_from(git);
    }
}

pub(crate) fn loops(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_followed = || {
        git.err.contains_str(": couldn't write '")
            && refdb.err.contains_str("(including one via symref ")
            && refdb.code == 128
    };
    // In a loop through HEAD, git logs an update that changes nothing, and deletes HEAD in place of the branch.
    let is_twice = went_on(git, refdb) && refdb.code != 0 && refdb.err.contains_str("multiple updates for '");
    // Whether the two names that refdb reports occur in one request only.
    let is_one_request = || {
        let names: Vec<&[u8]> = refdb.err.split_str("'").skip(1).step_by(2).collect();
        let has_one = |piece: &BString| piece.split(|byte| b" \0\"\n".contains(byte)).any(|word| names.contains(&word));
        step.input.iter().filter(|piece| has_one(piece)).count() < 2
    };
    // Git cannot read a loop that an edit follows, whereas refdb finds the edited ref again or breaks the loop.
    let is_circle = || {
        let is_unread = git.err.ends_with(b": error reading reference\n");
        let is_missing = git.err.contains_str(": reference is missing but expected ");
        (is_unread || is_missing) && refdb.err.contains_str("(including one via symref ")
            || is_unread && git.code == 128 && step.input.iter().any(|piece| piece.starts_with(b"symref-update "))
    };
    if is_followed() || is_circle() || is_twice && is_one_request() {
        refdb.clone_from(git);
    }
}

pub(crate) fn push_of_a_tag(step: &Step, git: &mut Said, refdb: &mut Said) {
    let asks = step.words.iter().any(|word| word.contains_str("*push"));
    let ends = [&b"fatal: unknown date format "[..], b"fatal: missing object "];
    let goes_on = refdb.code == 0 || ends.iter().any(|end| refdb.err.starts_with(end));
    if asks && git.code == 128 && goes_on && git.err.contains_str("fatal: missing object ") {
        refdb.clone_from(git);
    }
}

/// Counts as met if both report the same rejected ref in a batch: the added line feed marks both outputs as changed.
pub(crate) fn rejected(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_batch = step.has("-0") || step.has("--batch-updates");
    if is_batch && git == refdb && git.out.contains_str("rejected ") {
        git.out.push(b'\n');
        refdb.clone_from(git);
    }
}

pub(crate) fn has_long_name(step: &Step) -> bool {
    step.words.iter().chain(&step.input).any(is_long_name)
}

pub(crate) fn is_long_name(text: &BString) -> bool {
    text.contains_str("main-worktree/") || text.contains_str("worktrees/")
}

pub(crate) fn long_names(step: &Step, git: &mut Said, refdb: &mut Said) {
    // A lock that refdb does not meet is git's own. The long name may also be the target of a symbolic ref.
    let waits_for_itself =
        git.err.contains_str(".lock': File exists") && (has_long_name(step) || !refdb.err.contains_str(".lock'"));
    let is_gone = git.code == 128 && git.err.ends_with(b"reftable: transaction prepare: I/O error\n");
    // Git reports the long name by which a symbolic ref calls its target.
    let is_short = git.err.replace("'main-worktree/", "'") == refdb.err[..];
    // Git takes two names of one ref for two refs.
    let is_one_ref = has_long_name(step) && refdb.code == 128 && refdb.err.ends_with(b"' is the same ref\n");
    let is_stopped = has_long_name(step) && is_gone && refdb.code == 128;
    let is_locked = has_long_name(step) && git.code == 128 && git.err.ends_with(b"fatal: cannot lock references\n");
    if waits_for_itself || is_stopped || is_locked || is_one_ref || is_short && git.code == refdb.code {
        refdb.clone_from(git);
    }
}

pub(crate) fn root_refs_with_history(step: &Step, git: &mut Said, refdb: &mut Said) {
    let asks = ["contains", "merged", "ahead-behind"];
    let looks = asks.iter().any(|word| step.words.iter().any(|given| given.contains_str(word)));
    // The object of a root ref may be missing, which git does not notice.
    let is_missing = || {
        let name = refdb.err.strip_prefix(b"fatal: missing object ").and_then(|rest| rest.rsplit_str(" for ").next());
        refdb.code == 128 && name.is_some_and(|name| !name.contains(&b'/'))
    };
    if looks && step.has("--include-root-refs") && git.code == 0 && (refdb.code == 0 || is_missing()) {
        refdb.clone_from(git);
    }
}

const SETTINGS_SAID: &[&str] = &[
    "bad config ",
    "core.fsync component",
    "unknown repository extension",
    "Expected git repo version",
    "bad numeric config value",
    "unable to parse command-line config",
    "unable to parse '",
    "remote URLs cannot be configured in file",
];

pub(crate) fn settings_of_check_ref_format(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_setting = |said: &Said| SETTINGS_SAID.iter().any(|words| said.err.contains_str(words));
    let asks = ["-h", "--help-all", "--git-completion-helper", "--git-completion-helper-all"];
    let needs_none = step.command == "check-ref-format" || asks.iter().any(|word| step.has(word));
    if needs_none && is_setting(git) != is_setting(refdb) {
        refdb.clone_from(git);
    }
}

/// Whether `one` carried out what `other` refused, even if it failed later.
fn went_on(one: &Said, other: &Said) -> bool {
    one.code == 0 || one.out.len() > other.out.len() && one.out.starts_with(&other.out)
}

pub(crate) fn above_own_refs(step: &Step, git: &mut Said, refdb: &mut Said) {
    let names = ["refs", "refs/bisect", "refs/worktree", "refs/rewritten"];
    let is_above = names.iter().any(|name| {
        let end = format!("exists; cannot create '{name}'");
        refdb.err.lines().any(|line| line.ends_with(end.as_bytes()))
    });
    // In a batch, refdb rejects only that request.
    let is_rejected =
        refdb.out.lines().any(|line| line.starts_with(b"rejected ") && line.ends_with(b"refname conflict"));
    let is_folder = names.iter().any(|name| {
        git.err.contains_str("there is a non-empty directory ")
            && git.err.contains_str(format!("/{name}' blocking reference '{name}'"))
    });
    let is_either = went_on(git, refdb) || is_rejected || is_folder && git.code == refdb.code;
    if matches!(step.place, Place::Tree(_)) && is_either && is_above {
        refdb.clone_from(git);
    }
}

pub(crate) fn aligned_zeros(step: &Step, git: &mut Said, refdb: &mut Said) {
    let aligns = |word: &BString| word.contains_str("%(align") && word.contains_str("%00");
    if step.words.iter().any(aligns) {
        for said in [git, refdb] {
            said.out.retain(|byte| ![b' ', 0].contains(byte));
        }
    }
}

/// Accepts null ids in place of delta bases in git's output.
pub(crate) fn delta_bases(step: &Step, git: &mut Said, refdb: &mut Said) {
    let asks = step.words.iter().any(|word| word.contains_str("deltabase"));
    let is_alike = |(git, refdb): (&u8, &u8)| git == refdb || *git == b'0' && refdb.is_ascii_hexdigit();
    // Git repeats warnings if it looks at refs a second time for their delta bases.
    let warnings = |said: &Said| {
        let mut lines: Vec<BString> = said.err.lines().map(BString::from).collect();
        lines.sort();
        lines.dedup();
        lines
    };
    if asks && warnings(git) == warnings(refdb) {
        refdb.err.clone_from(&git.err);
    }
    // Null ids sort differently from delta bases.
    let is_sorted = step.words.iter().any(|word| word.starts_with(b"--sort=") && word.contains_str("deltabase"));
    let is_same = is_sorted || git.out.iter().zip(refdb.out.iter()).all(is_alike);
    if asks && git.code == refdb.code && git.out.len() == refdb.out.len() && is_same {
        refdb.out.clone_from(&git.out);
    }
}

pub(crate) fn start_beyond(step: &Step, git: &mut Said, refdb: &mut Said) {
    let markers = step.words.iter().filter_map(|word| word.strip_prefix(b"--start-after="));
    // Whether a name lies deeper below refs/, or sorts after all of it.
    let is_odd = markers.clone().any(|name| {
        let is_beyond = name > &b"refs/"[..] && !name.starts_with(b"refs/");
        is_beyond && refdb.out.is_empty() || name.iter().filter(|byte| **byte == b'/').count() > 2
    });
    if is_odd && git.code == 0 && refdb.code == 0 {
        let has_all = |more: &Said, less: &Said| {
            let lines: Vec<&[u8]> = more.out.lines().collect();
            less.out.lines().all(|line| lines.contains(&line))
                && less.err.lines().all(|line| more.err.lines().any(|other| line == other))
        };
        let is_short = has_all(git, refdb) || has_all(refdb, git);
        if is_short {
            refdb.clone_from(git);
        }
    }
}

pub(crate) fn below_a_file(step: &Step, git: &mut Said, refdb: &mut Said) {
    let warnings = |said: &Said, text: &str| said.err.strip_suffix(text.as_bytes()).map(without_fsync);
    let gits = warnings(git, "error: failed to look up reference: Not a directory\n");
    if (step.has("--exists") || step.does() == "show-ref")
        && gits.is_some()
        && gits == warnings(refdb, "error: reference does not exist\n")
    {
        refdb.clone_from(git);
    }
}

/// Accepts that git's look-up of a single ref does not reach packed-refs if the packed ref lies below a loose file.
pub(crate) fn packed_below_a_file(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_hidden = git.err.starts_with(b"fatal: '") && git.err.ends_with(b"' - not a valid ref\n");
    let is_silent = (step.has("-q") || step.has("--quiet")) && git.err.is_empty() && git.code == 1;
    let is_missed = is_hidden && git.code == 128 || is_silent;
    if step.command == "show-ref" && step.has("--verify") && is_missed && refdb.code == 0 {
        refdb.clone_from(git);
    }
    // Both refuse to change the ref: git because it does not find it or cannot lock it, refdb because of its value or
    // because of the file.
    let reason = |said: &'_ Said| -> Option<[BString; 2]> {
        let (name, reason) = said.err.split_once_str("cannot lock ref '")?.1.split_once_str("': ")?;
        Some([name.into(), reason.into()])
    };
    if let (Some([name, gits]), Some([refdbs_name, refdbs])) = (reason(git), reason(refdb))
        && name == refdbs_name
        && git.code == refdb.code
        && (gits.starts_with(b"unable to resolve reference ") || gits.ends_with(b"; non-directory in the way\n"))
        && refdbs.starts_with(b"is at ")
    {
        refdb.clone_from(git);
    }
}

pub(crate) fn no_folder_for_tables(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err.contains_str("reftable: transaction prepare: general error");
    if is_told && refdb.err.contains_str("/reftable/tables.list.lock': ") && git.code == refdb.code {
        refdb.clone_from(git);
    }
}

pub(crate) fn asked_for_usage(_: &Step, git: &mut Said, refdb: &mut Said) {
    if Git::find().version() >= (2, 56) && git.code == 0 && refdb.code == 129 && git.out.starts_with(b"usage: git ") {
        git.code = 129;
    }
}

/// Cuts off everything after the synopsis of a usage.
pub(crate) fn usages(_: &Step, git: &mut Said, refdb: &mut Said) {
    for said in [git, refdb] {
        for text in [&mut said.out, &mut said.err] {
            let Some(start) = text.find("usage: git ") else { continue };
            let list = text[start..].find("\n\n").map_or(text.len(), |end| start + end);
            let kept = BString::from(&text[..list]);
            *text = kept;
        }
    }
}

pub(crate) fn worktree_without_head(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err == "fatal: not a git repository: (null)\n";
    let names_it = refdb.err.starts_with(b"fatal: not a git repository: ") && refdb.err.contains_str("/worktrees/");
    if matches!(step.place, Place::Tree(_)) && is_told && names_it && git.code == refdb.code {
        refdb.clone_from(git);
    }
}

pub(crate) fn no_branch_by_long_name(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_refused = |line: &[u8]| {
        let is_head = line.ends_with(b"/HEAD'") && is_long_name(&line.into());
        line.contains_str("trying to write non-commit object ") && is_head
    };
    if has_long_name(step) && refdb.err.lines().any(is_refused) {
        refdb.clone_from(git);
    }
}

pub(crate) fn other_kinds(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = |line: &[u8]| {
        line.starts_with(b"error: ")
            && line.contains_str(" type, but the object dereferences to ")
            && line.contains_str("^{")
    };
    let kept: Vec<&[u8]> = git.err.lines_with_terminator().filter(|line| !is_told(line)).collect();
    if kept.concat() == refdb.err[..] {
        refdb.err.clone_from(&git.err);
    }
}

/// Accepts any result if a signal has ended git, because nothing can be expected of that run.
pub(crate) fn crashes(_: &Step, git: &mut Said, refdb: &mut Said) {
    if git.code > Said::SIGNALS {
        refdb.clone_from(git);
    }
}

pub(crate) fn folder_of_logs(_: &Step, git: &mut Said, _: &mut Said) {
    let is_told = |line: &[u8]| {
        line.starts_with(b"warning: unable to unlink '")
            && [&b"': Is a directory\n"[..], b"': Not a directory\n"].iter().any(|end| line.ends_with(end))
    };
    let kept: Vec<&[u8]> = git.err.lines_with_terminator().filter(|line| !is_told(line)).collect();
    git.err = kept.concat().into();
}

/// Accepts what git does with a ref whose name is empty or that of a folder, because it depends on the request.
pub(crate) fn no_target(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_folder = |line: &[u8]| {
        let (_, name) = line.split_once_str("refusing to update ref with bad name '")?;
        let name = name.strip_suffix(b"'")?;
        Some(name.is_empty() || name.ends_with(b"/") || name.contains_str("/../"))
    };
    if step.command == "update-ref" && refdb.err.lines().any(|line| is_folder(line) == Some(true)) {
        refdb.clone_from(git);
    }
}

pub(crate) fn pruned_links(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = |line: &[u8]| {
        line.starts_with(b"error: cannot lock ref '") && line.contains_str("': unable to resolve reference '")
    };
    let kept: Vec<&[u8]> = git.err.lines_with_terminator().filter(|line| !is_told(line)).collect();
    if step.does() == "pack-refs" && kept.concat() == refdb.err[..] && git.code == refdb.code {
        git.err.clone_from(&refdb.err);
    }
}

pub(crate) fn branch_of_no_commit(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err.contains_str("fatal: failure preparing to create packed reference ")
        && git.err.contains_str(": trying to write non-commit object ");
    if step.does() == "pack-refs" && is_told && refdb.code == 0 {
        refdb.clone_from(git);
    }
}

pub(crate) fn folder_of_no_refs(step: &Step, git: &mut Said, refdb: &mut Said) {
    let looks = |line: &BString| line.starts_with(b"verify ") || line.starts_with(b"delete ");
    let verifies = step.input.iter().any(looks);
    let is_told =
        git.err.contains_str("there is a non-empty directory '") && git.err.contains_str("' blocking reference '");
    // A batch reports this on standard output, and goes on.
    let is_rejected = git.code == 0 && git.out.starts_with(b"rejected ") && refdb.out.is_empty();
    if verifies && is_told && (git.code == 128 || is_rejected) && refdb.code == 0 {
        refdb.clone_from(git);
    }
}

pub(crate) fn dangerous_names(step: &Step, git: &mut Said, refdb: &mut Said) {
    let Some(name) = git.err.strip_prefix(b"fatal: refname is dangerous: ").map(|name| name.trim_end()) else { return };
    let begin = [b"fatal: git show-ref: bad ref ", name, b" (00000"].concat();
    let warning = [b"warning: ignoring ref with broken name ", name].concat();
    let is_shown = step.does() == "show-ref" && git.code == refdb.code && refdb.err.starts_with(&begin);
    let in_the_way = [b"'", name, b"' exists; cannot create '"].concat();
    let is_refused = git.code == refdb.code && refdb.err.contains_str(in_the_way);
    let lists = ["for-each-ref", "branch", "tag"].contains(&step.does());
    if is_shown || is_refused || lists && refdb.err.lines().any(|line| line == warning) {
        refdb.clone_from(git);
    }
}
