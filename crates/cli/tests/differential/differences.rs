//! Every difference from git that is meant, with its reason. The differential test accepts these and no others.

use crate::logs::{
    is_log, log_of_head, log_of_new_target, log_of_nothing, log_of_rejected, log_of_the_end, log_of_verified,
};
use bstr::{BString, ByteSlice};
use refdb_testkit::{
    Git,
    differential::{Changed, Difference, Left, Place, Said, Step},
};

const LEFT_ALIKE: fn(&Step, &Changed, Left<'_>) -> bool = Difference::LEFT_ALIKE;
const LEFT_BY_GIT: fn(&Step, &Changed, Left<'_>) -> bool = Difference::LEFT_BY_GIT;
const LEFT_BY_LONG_NAMES: fn(&Step, &Changed, Left<'_>) -> bool = |step, changed, left| {
    let is_elsewhere = changed.git == changed.before || changed.other == changed.before || is_log(changed);
    let leads_there = || left.all.iter().any(|changed| is_log(changed) && is_long_name(&changed.name));
    (left.met || has_long_name(step) || leads_there()) && is_elsewhere
};
const LEFT_BY_ONE: fn(&Step, &Changed, Left<'_>) -> bool = |step, changed, left| {
    LEFT_BY_GIT(step, changed, left) || LEFT_BY_REFDB(step, changed, left) || log_of_rejected(step, changed, left)
};
const LEFT_BY_REFDB: fn(&Step, &Changed, Left<'_>) -> bool = Difference::LEFT_BY_OTHER;
const SAID_ALIKE: fn(&Step, &mut Said, &mut Said) = Difference::SAID_ALIKE;

/// The differences.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference { why: "the descriptions of options are in refdb's own words", unify: usages, left: LEFT_ALIKE },
    Difference {
        why: "from git 2.56 on, who asks for the usage gets it with exit code 0; refdb does as git 2.55",
        unify: asked_for_usage,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "some fields of for-each-ref are not there yet: SHORTCOMINGS.md",
        unify: missing_fields,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git stops at bad values of settings that refs do not depend on; refdb reads those that they depend on",
        unify: bad_settings,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "refdb reads the settings that refs depend on when it opens a repository, git some of them when it needs them",
        unify: late_settings,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "git calls the configuration of the folder it is in by one path or another",
        unify: dot_folder,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git's objects remember as what they were named, and say so where they are something else; refdb looks at no more objects than it needs",
        unify: lying_tags,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "git logs that nothing became nothing; refdb only for symbolic refs of reftables",
        unify: SAID_ALIKE,
        left: log_of_nothing,
    },
    Difference {
        why: "git logs what it has rejected for HEAD and for symbolic refs on the way; refdb logs nothing then",
        unify: rejected,
        left: log_of_rejected,
    },
    Difference {
        why: "where a symbolic ref gets a target that the same transaction makes, git's files log its value, and refdb none",
        unify: SAID_ALIKE,
        left: log_of_new_target,
    },
    Difference {
        why: "git cannot write a worktree's own refs by their long names there: decision 0045",
        unify: long_names,
        left: LEFT_BY_LONG_NAMES,
    },
    Difference {
        why: "below a ref among files, show-ref --exists of git cannot tell; for refdb there is no ref",
        unify: below_a_file,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git leaves root refs out where it has to look at history; refdb shows them if they fit",
        unify: root_refs_with_history,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "check-ref-format of git reads the configuration only where it has to look up a branch; refdb where it finds one",
        unify: settings_of_check_ref_format,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "messages of the engine are text: bytes of names that are not UTF-8 are replaced in them",
        unify: names_beyond_text,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git looks at all fields before it shows a ref, also at those that %(if) leaves out; refdb at what it shows",
        unify: printed_before,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "from a linked worktree git's reftables take a shared ref where the main worktree has refs of its own below it, and its files see but a folder",
        unify: above_own_refs,
        left: LEFT_BY_REFDB,
    },
    Difference { why: "git ends text that it aligns at a zero byte", unify: aligned_zeros, left: LEFT_ALIKE },
    Difference {
        why: "among loose refs, git for-each-ref --start-after loses or repeats refs where its name is beyond refs/ or in no folder",
        unify: start_beyond,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "where HEAD's branch is symbolic itself, or becomes so, git logs zeros for HEAD; refdb logs what HEAD leads to",
        unify: SAID_ALIKE,
        left: log_of_head,
    },
    Difference {
        why: "of a wrong command line and a bad setting git and refdb may report the one or the other: git reads some settings late",
        unify: settings_before_words,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git takes an id with a digit too many for that id; refdb says that there is no such object",
        unify: too_many_digits,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "where a symbolic ref leads to no ref, git's two formats have different words for its unexpected target",
        unify: symref_target,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git makes symbolic refs of bad names, which it warns of afterwards; refdb refuses to",
        unify: bad_symbolic_name,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "git warns of refs that are called like an object id wherever that id is given; refdb takes the id",
        unify: named_like_ids,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "a symbolic ref that leads to itself dangles for refdb; git cannot read it",
        unify: loops,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "of two requests of a batch that change one ref by two names, git rejects one and refdb may reject both",
        unify: twice_in_a_batch,
        left: LEFT_BY_ONE,
    },
    Difference {
        why: "git warns of reflogs in which an entry does not follow from the one before it; refdb takes the entry's value",
        unify: gaps_in_logs,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git 2.55 takes %(*push) for a field of the object, which is always missing then; refdb shows nothing",
        unify: push_of_a_tag,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git has no path to tell of a linked worktree whose HEAD is gone; refdb names its folder",
        unify: worktree_without_head,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "no reflog of refdb begins with a ref's end; with --create-reflog git begins HEAD's that way",
        unify: SAID_ALIKE,
        left: log_of_the_end,
    },
    Difference {
        why: "where HEAD's branch is only verified, git's files log for HEAD that it went away",
        unify: SAID_ALIKE,
        left: log_of_verified,
    },
    Difference {
        why: "of one ref that is changed by two names, git and refdb may name the one or the other first",
        unify: two_names,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "a linked worktree's HEAD by its long name takes commits only, as HEAD does; git looks at the name",
        unify: no_branch_by_long_name,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "where HEAD's branch holds the null id, git show-ref --head names HEAD as bad, and refdb the branch",
        unify: null_branch,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git jumps over refs that --exclude leaves out and does not see that one has a bad name; refdb warns of it",
        unify: warnings_of_excluded,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "refdb stops where it has shown as many refs as --count says, and warns of no ref behind them",
        unify: warnings_behind_the_last,
        left: LEFT_ALIKE,
    },
];

/// Settings of git that refs do not depend on.
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
];

/// What git does where a setting has a bad value that refdb does not look at.
fn bad_settings(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_other = OTHER_SETTINGS.iter().any(|setting| git.err.contains_str(setting));
    if git.code == 128
        && is_other
        && (git.err.contains_str("fatal: bad ") || git.err.contains_str("error: malformed value"))
        || git.err.starts_with(b"fatal: invalid refspec ")
    {
        refdb.clone_from(git);
    }
}

/// Settings that refdb reads at once.
const LATE_SETTINGS: &[&str] =
    &["core.packedrefstimeout", "core.filesreflocktimeout", "core.sharedrepository", "core.warnambiguousrefs"];

fn late_settings(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_late =
        LATE_SETTINGS.iter().any(|setting| refdb.err.contains_str(format!("config value 'x' for '{setting}'")));
    if is_late && refdb.code != 0 {
        refdb.clone_from(git);
    }
}

fn dot_folder(_: &Step, git: &mut Said, refdb: &mut Said) {
    for said in [git, refdb] {
        said.err = said.err.replace("in file ./config: ", "in file config: ").into();
    }
}

fn lying_tags(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = |line: &[u8]| {
        line.strip_prefix(b"error: object ").and_then(|rest| rest.splitn_str(2, " is a ").nth(1)).is_some_and(|kinds| {
            let kinds: Vec<&[u8]> = kinds.trim_end().split_str(", not a ").collect();
            kinds.len() == 2 && kinds.iter().all(|kind| [&b"blob"[..], b"tree", b"commit", b"tag"].contains(kind))
        })
    };
    for said in [&mut *git, &mut *refdb] {
        said.err = said.err.lines_with_terminator().filter(|line| !is_told(line)).collect::<Vec<_>>().concat().into();
    }
    // What leads to an object that does not fit is taken for damaged: by git once it has met the lie, by refdb each time.
    let is_bad =
        |line: &[u8]| line.starts_with(b"error: bad tag pointer to ") || line.starts_with(b"error: bad parent ");
    let is_refused = |said: &Said| {
        let words =
            ["with nonexistent object ", "unable to parse object", "parse_object_buffer failed on ", "fatal: bad tag"];
        words.iter().any(|words| said.err.contains_str(words))
    };
    if git.err.lines().any(is_bad) && is_refused(git)
        || refdb.err.lines().any(is_bad) && is_refused(refdb) && is_refused(git)
    {
        refdb.clone_from(git);
    }
}

/// Wrong use is reported by git, a bad setting by refdb.
fn settings_before_words(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_setting = |said: &Said| {
        let is_bad = |line: &[u8]| {
            line.starts_with(b"fatal: bad config variable ")
                || line.starts_with(b"fatal: bad ") && line.contains_str("config value")
        };
        said.err.lines().any(is_bad)
    };
    if git.code >= 128 && refdb.code >= 128 && is_setting(git) != is_setting(refdb) {
        refdb.clone_from(git);
    }
}

fn too_many_digits(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_too_long = |word: &[u8]| [41, 65].contains(&word.len()) && word.iter().all(u8::is_ascii_hexdigit);
    let has_one = |text: &BString| text.split(|byte| b" =\n\0\"".contains(byte)).any(is_too_long);
    if refdb.code != 0 && step.words.iter().chain(&step.input).any(has_one) {
        refdb.clone_from(git);
    }
}

fn symref_target(_: &Step, git: &mut Said, refdb: &mut Said) {
    let others = ["unable to resolve reference", "expected symref with target"];
    let is_other = others.iter().any(|words| refdb.err.contains_str(words));
    if git.err.contains_str("verifying symref target: ") && is_other && git.code == refdb.code {
        refdb.clone_from(git);
    }
}

fn bad_symbolic_name(step: &Step, git: &mut Said, refdb: &mut Said) {
    let refuses = refdb.err.lines().any(|line| line.starts_with(b"error: refusing to update ref with bad name "));
    if step.command == "symbolic-ref" && git.code == 0 && refuses {
        refdb.clone_from(git);
    }
}

/// Cuts off the warning and the advice that follows it.
fn named_like_ids(_: &Step, git: &mut Said, _: &mut Said) {
    while let Some(advice) = git.err.find("Git normally never creates a ref that ends with 40 hex characters") {
        let start = git.err[..advice].rfind("warning: refname '").unwrap_or(advice);
        let last = "git config set advice.objectNameWarning false\"\n";
        let end = git.err[advice..].find(last).map_or(git.err.len(), |at| advice + at + last.len());
        let rest = BString::from([&git.err[..start], &git.err[end..]].concat());
        git.err = rest;
    }
}

fn gaps_in_logs(_: &Step, git: &mut Said, _: &mut Said) {
    let is_gap = |line: &[u8]| {
        line.starts_with(b"warning: log for ref ")
            && (line.contains_str(" unexpectedly ended on ") || line.contains_str(" has gap after "))
    };
    let kept: Vec<&[u8]> = git.err.lines_with_terminator().filter(|line| !is_gap(line)).collect();
    git.err = kept.concat().into();
}

fn loops(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_read = git.err.contains_str("error reading reference");
    let is_followed = || {
        git.err.contains_str(": couldn't write '")
            && refdb.err.contains_str("(including one via symref ")
            && refdb.code == 128
    };
    if is_read || is_followed() {
        refdb.clone_from(git);
    }
}

fn twice_in_a_batch(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_batch = step.has("-0") || step.has("--batch-updates");
    let is_told = |said: &Said| said.code == 0 && said.err.contains_str("error: multiple updates for ");
    let is_raced = git.code == 128 && git.err.contains_str("HEAD has been racily updated");
    if is_batch && (is_told(git) || is_told(refdb) || is_raced) && git != refdb {
        refdb.clone_from(git);
    }
}

fn push_of_a_tag(step: &Step, git: &mut Said, refdb: &mut Said) {
    let asks = step.words.iter().any(|word| word.contains_str("*push"));
    if asks && git.code == 128 && refdb.code == 0 && git.err.contains_str("fatal: missing object ") {
        refdb.clone_from(git);
    }
}

/// Is met where git says that it rejects a ref, which both say.
fn rejected(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_batch = step.has("-0") || step.has("--batch-updates");
    if is_batch && git == refdb && git.out.contains_str("rejected ") {
        git.out.push(b'\n');
        refdb.clone_from(git);
    }
}

fn has_long_name(step: &Step) -> bool {
    step.words.iter().chain(&step.input).any(is_long_name)
}

fn is_long_name(text: &BString) -> bool {
    text.contains_str("main-worktree/") || text.contains_str("worktrees/")
}

fn long_names(step: &Step, git: &mut Said, refdb: &mut Said) {
    let waits_for_itself =
        git.err.contains_str("/HEAD.lock': File exists") || git.err.contains_str(".lock': File exists");
    let is_gone = git.code == 128 && git.err.ends_with(b"reftable: transaction prepare: I/O error\n");
    // The name by which a symbolic ref calls its target.
    let is_short = git.err.replace("'main-worktree/", "'") == refdb.err[..];
    if has_long_name(step) && (waits_for_itself || is_gone && refdb.code == 128) || is_short && git.code == refdb.code {
        refdb.clone_from(git);
    }
}

fn root_refs_with_history(step: &Step, git: &mut Said, refdb: &mut Said) {
    let asks = ["contains", "merged", "ahead-behind"];
    let looks = asks.iter().any(|word| step.words.iter().any(|given| given.contains_str(word)));
    if looks && step.has("--include-root-refs") && git.code == 0 && refdb.code == 0 {
        refdb.clone_from(git);
    }
}

const SETTINGS_SAID: &[&str] =
    &["bad config ", "core.fsync component", "unknown repository extension", "Expected git repo version"];

fn settings_of_check_ref_format(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_setting = |said: &Said| SETTINGS_SAID.iter().any(|words| said.err.contains_str(words));
    if step.command == "check-ref-format" && is_setting(git) != is_setting(refdb) {
        refdb.clone_from(git);
    }
}

fn names_beyond_text(_: &Step, git: &mut Said, refdb: &mut Said) {
    if git.err != refdb.err && git.err.to_str_lossy() == refdb.err.to_str_lossy() {
        refdb.err.clone_from(&git.err);
    }
}

fn printed_before(step: &Step, git: &mut Said, refdb: &mut Said) {
    if step.command != "for-each-ref" || git.code != 128 {
        return;
    }
    if refdb.code == 128 && refdb.out.starts_with(&git.out) {
        refdb.out.clone_from(&git.out);
        for said in [&mut *git, &mut *refdb] {
            let mut lines: Vec<_> = said.err.lines_with_terminator().collect();
            lines.dedup();
            said.err = lines.concat().into();
        }
    } else if refdb.code == 0 && git.err.contains_str("fatal: unknown date format") {
        refdb.clone_from(git);
    }
}

fn above_own_refs(step: &Step, git: &mut Said, refdb: &mut Said) {
    let above =
        ["refs/bisect", "refs/worktree", "refs/rewritten"].map(|name| format!("exists; cannot create '{name}'\n"));
    let is_above = above.iter().any(|end| refdb.err.ends_with(end.as_bytes()));
    let is_folder = ["bisect", "worktree", "rewritten"].iter().any(|name| {
        git.err.contains_str("there is a non-empty directory ")
            && git.err.contains_str(format!("/refs/{name}' blocking reference 'refs/{name}'"))
    });
    if matches!(step.place, Place::Tree(_)) && (git.code == 0 || is_folder && git.code == refdb.code) && is_above {
        refdb.clone_from(git);
    }
}

fn aligned_zeros(step: &Step, git: &mut Said, refdb: &mut Said) {
    let aligns = |word: &BString| word.contains_str("%(align") && word.contains_str("%00");
    if step.words.iter().any(aligns) {
        for said in [git, refdb] {
            said.out.retain(|byte| ![b' ', 0].contains(byte));
        }
    }
}

fn start_beyond(step: &Step, git: &mut Said, refdb: &mut Said) {
    let markers = step.words.iter().filter_map(|word| word.strip_prefix(b"--start-after="));
    // Where the name lies in a folder of its own below refs/ or beyond.
    let is_odd = markers.clone().any(|name| {
        let is_beyond = name > &b"refs/"[..] && !name.starts_with(b"refs/");
        is_beyond && refdb.out.is_empty() || name.iter().filter(|byte| **byte == b'/').count() > 2
    });
    if is_odd && git.code == 0 && refdb.code == 0 {
        let has_all = |more: &Said, less: &Said| {
            let lines: Vec<&[u8]> = more.out.lines().collect();
            more.err == less.err && less.out.lines().all(|line| lines.contains(&line))
        };
        let is_short = has_all(git, refdb) || has_all(refdb, git);
        if is_short {
            refdb.clone_from(git);
        }
    }
}

fn below_a_file(step: &Step, git: &mut Said, refdb: &mut Said) {
    let says = |said: &Said, text: &str| said.err == *text.as_bytes();
    if step.has("--exists")
        && says(git, "error: failed to look up reference: Not a directory\n")
        && says(refdb, "error: reference does not exist\n")
    {
        refdb.clone_from(git);
    }
}

fn asked_for_usage(_: &Step, git: &mut Said, refdb: &mut Said) {
    if Git::find().version() >= (2, 56) && git.code == 0 && refdb.code == 129 && git.out.starts_with(b"usage: git ") {
        git.code = 129;
    }
}

/// The fields that git has and refdb has not.
const MISSING_FIELDS: &[&str] = &["deltabase", "trailers", "signature", "describe", "is-base"];

/// What git does with a field that refdb does not know.
fn missing_fields(_: &Step, git: &mut Said, refdb: &mut Said) {
    let unknown = refdb.err.find("fatal: unknown field name: ").map(|at| &refdb.err[at + 27..]);
    let name = unknown.map(|name| name.strip_prefix(b"*").unwrap_or(name));
    if name.is_some_and(|name| MISSING_FIELDS.iter().any(|missing| name.starts_with(missing.as_bytes()))) {
        refdb.clone_from(git);
    }
}

/// Cuts off what follows the forms of use.
fn usages(_: &Step, git: &mut Said, refdb: &mut Said) {
    for said in [git, refdb] {
        for text in [&mut said.out, &mut said.err] {
            let Some(start) = text.find("usage: git ") else { continue };
            let list = text[start..].find("\n\n").map_or(text.len(), |end| start + end);
            let kept = BString::from(&text[..list]);
            *text = kept;
        }
    }
}

fn worktree_without_head(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_told = git.err == "fatal: not a git repository: (null)\n";
    let names_it = refdb.err.starts_with(b"fatal: not a git repository: ") && refdb.err.contains_str("/worktrees/");
    if matches!(step.place, Place::Tree(_)) && is_told && names_it && git.code == refdb.code {
        refdb.clone_from(git);
    }
}

fn warnings_behind_the_last(step: &Step, git: &mut Said, refdb: &mut Said) {
    let counts = step.words.iter().any(|word| word.starts_with(b"--count="));
    let is_warning = |line: &&[u8]| line.starts_with(b"warning: ignoring ");
    let (warnings, rest): (Vec<&[u8]>, Vec<&[u8]>) = git.err.lines_with_terminator().partition(is_warning);
    if counts
        && git.code == 0
        && rest.concat().is_empty()
        && refdb.err.lines_with_terminator().all(|line| warnings.contains(&line))
    {
        refdb.err.clone_from(&git.err);
    }
}

/// Both say that it is changed twice, and call it by the same names.
fn two_names(_: &Step, git: &mut Said, refdb: &mut Said) {
    let names = |said: &Said| {
        let is_told = said.err.contains_str("multiple updates for '") && said.err.contains_str(" (including one via ");
        let mut names: Vec<BString> =
            said.err.split(|byte| *byte == b'\'').skip(1).step_by(2).map(BString::from).collect();
        names.sort_unstable();
        is_told.then_some(names)
    };
    if git.code == refdb.code && git.out == refdb.out && names(git).is_some() && names(git) == names(refdb) {
        refdb.clone_from(git);
    }
}

fn no_branch_by_long_name(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_refused = |line: &[u8]| {
        let is_head = line.ends_with(b"/HEAD'") && is_long_name(&line.into());
        line.contains_str("trying to write non-commit object ") && is_head
    };
    if has_long_name(step) && refdb.err.lines().any(is_refused) {
        refdb.clone_from(git);
    }
}

fn null_branch(step: &Step, git: &mut Said, refdb: &mut Said) {
    let id = |said: &Said| {
        let (name, id) = said.err.strip_prefix(b"fatal: git show-ref: bad ref ")?.split_once_str(b" (")?;
        let is_null = id.ends_with(b")\n") && id[..id.len() - 2].iter().all(|byte| *byte == b'0');
        is_null.then(|| (name == b"HEAD", id.to_owned()))
    };
    if let (Some((true, one)), Some((false, two))) = (id(git), id(refdb))
        && step.has("--head")
        && one == two
    {
        refdb.clone_from(git);
    }
}

fn warnings_of_excluded(step: &Step, git: &mut Said, refdb: &mut Said) {
    let excludes = step.words.iter().any(|word| word.starts_with(b"--exclude"));
    let is_other = |line: &&[u8]| !line.starts_with(b"warning: ignoring ref with broken name ");
    let rest: Vec<&[u8]> = refdb.err.lines_with_terminator().filter(is_other).collect();
    let theirs: Vec<&[u8]> = git.err.lines_with_terminator().filter(is_other).collect();
    if excludes && rest == theirs {
        refdb.err.clone_from(&git.err);
    }
}
