//! Every difference from git that is meant, with its reason. The differential test accepts these and no others.

use crate::logs::{
    is_log, log_of_head, log_of_new_target, log_of_nothing, log_of_rejected, log_of_the_end, log_of_the_missing,
    log_of_verified,
};
use crate::unify::*;
use refdb_testkit::differential::{Changed, Difference, Left, Said, Step};

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
    Difference { why: "git 2.55 crashes", unify: crashes, left: |_, _, left| left.met },
    Difference {
        why: "messages of the engine are text: bytes of names that are not UTF-8 are replaced in them",
        unify: names_beyond_text,
        left: LEFT_ALIKE,
    },
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
        why: "check-ref-format of git reads the configuration only where it has to look up a branch, refdb where it finds one; who asks for the usage gets it from refdb whatever is set",
        unify: settings_of_check_ref_format,
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
        why: "git warns of reflogs in which an entry does not follow from the one before it; refdb takes the entry's value, not the present one, for @{0}",
        unify: gaps_in_logs,
        left: |_, _, left| left.met,
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
        why: "a symbolic ref without a target leads in git to a ref without a name, which it finds or not; refdb refuses that request",
        unify: no_target,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "git cannot remove a link that it has packed if it has pruned what the link leads to; refdb removes it",
        unify: pruned_links,
        left: |step, changed, left| {
            let is_link = changed.git.as_ref().is_some_and(|link| link.starts_with(b"link to "));
            left.met && step.command == "pack-refs" && is_link && changed.other.is_none()
        },
    },
    Difference {
        why: "git cannot verify that a ref does not exist whose folder holds what is no ref; refdb sees no ref there",
        unify: folder_of_no_refs,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "a name that leads out of refs/ is called dangerous by git's show-ref, and by refdb a bad ref",
        unify: dangerous_names,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "@{N} of a HEAD that leads nowhere is in git of any ref that is called HEAD; refdb knows no value",
        unify: nothing_checked_out,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "git says in a line more what kind of object a name leads to that is not of the wanted kind",
        unify: other_kinds,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "where a ref is deleted that is not there, git's files delete a reflog that was left of it; refdb leaves it",
        unify: folder_of_logs,
        left: log_of_the_missing,
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
        why: "refdb stops where it has shown as many refs as --count says, or finds the command line to be wrong, and warns of no ref then",
        unify: warnings_behind_the_last,
        left: LEFT_ALIKE,
    },
];
