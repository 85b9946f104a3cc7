//! Every difference from git that is meant, with its reason. The differential test accepts these and no others.

use bstr::{BString, ByteSlice};
use refdb_testkit::{
    Git,
    differential::{Changed, Difference, Said, Step},
};

const LEFT_ALIKE: fn(&Step, &Changed) -> bool = Difference::LEFT_ALIKE;
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
        left: whatever,
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
        left: whatever,
    },
    Difference {
        why: "where a symbolic ref leads to no ref, git's two formats have different words for its unexpected target",
        unify: symref_target,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "of several mistakes in one transaction, refdb may report another one than git, which looks at refs in turn",
        unify: several_mistakes,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git makes symbolic refs of bad names, which it warns of afterwards; refdb refuses to",
        unify: bad_symbolic_name,
        left: whatever,
    },
    Difference {
        why: "git warns of refs that are called like an object id wherever that id is given; refdb takes the id",
        unify: named_like_ids,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "a symbolic ref that leads to itself dangles for refdb; git cannot read it",
        unify: loops,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "of two requests of a batch that change one ref by two names, git rejects one and refdb may reject both",
        unify: twice_in_a_batch,
        left: whatever,
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
];

/// What git does where a setting has a bad value that refdb does not look at.
fn bad_settings(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_other = OTHER_SETTINGS.iter().any(|setting| git.err.contains_str(setting));
    if git.code == 128
        && is_other
        && (git.err.contains_str("fatal: bad ") || git.err.contains_str("error: malformed value"))
    {
        refdb.clone_from(git);
    }
}

/// Wrong use is reported by git, a bad setting by refdb.
fn settings_before_words(_: &Step, git: &mut Said, refdb: &mut Said) {
    let is_setting = |said: &Said| said.err.starts_with(b"fatal: bad ") && said.err.contains_str("config value");
    if git.code >= 128 && refdb.code >= 128 && is_setting(git) != is_setting(refdb) {
        refdb.clone_from(git);
    }
}

fn too_many_digits(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_too_long = |word: &[u8]| [41, 65].contains(&word.len()) && word.iter().all(u8::is_ascii_hexdigit);
    let has_one = |text: &BString| text.split(|byte| b" =\n\0".contains(byte)).any(is_too_long);
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

/// Both refuse a transaction of several requests, in other words.
fn several_mistakes(step: &Step, git: &mut Said, refdb: &mut Said) {
    let words = [
        "multiple updates for ",
        "cannot lock ref ",
        "cannot process ",
        "exists; cannot create",
        "verifying symref target: ",
    ];
    let refuses = |said: &Said| said.code == 128 && words.iter().any(|words| said.err.contains_str(words));
    let is_batch = step.has("-0") || step.has("--batch-updates");
    if step.input.len() > 1 && !is_batch && refuses(git) && refuses(refdb) {
        refdb.err.clone_from(&git.err);
    }
}

fn bad_symbolic_name(step: &Step, git: &mut Said, refdb: &mut Said) {
    let refuses = refdb.err.starts_with(b"error: refusing to update ref with bad name ");
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
    if git.err.contains_str("error reading reference") && refdb.err.contains_str("cannot lock ref ") {
        refdb.clone_from(git);
    }
}

fn twice_in_a_batch(step: &Step, git: &mut Said, refdb: &mut Said) {
    let is_batch = step.has("-0") || step.has("--batch-updates");
    if is_batch && git.code == 0 && refdb.code == 0 && git.err.contains_str("error: multiple updates for ") {
        refdb.clone_from(git);
    }
}

fn push_of_a_tag(step: &Step, git: &mut Said, refdb: &mut Said) {
    let asks = step.words.iter().any(|word| word.contains_str("*push"));
    if asks && git.code == 128 && refdb.code == 0 && git.err.contains_str("fatal: missing object ") {
        refdb.clone_from(git);
    }
}

fn whatever(_: &Step, _: &Changed) -> bool {
    true
}

fn log_of_head(_: &Step, changed: &Changed) -> bool {
    changed.name.ends_with(b"logs/HEAD") || changed.name.ends_with(b"log of HEAD")
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
