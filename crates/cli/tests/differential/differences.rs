//! Every intended difference from git, with its reason. The differential test accepts these and no others.

use crate::logs::{
    is_log, log_of_a_file, log_of_head, log_of_mains_pseudo, log_of_nothing, log_of_pseudo, log_of_rejected,
    log_of_symbolic, log_of_the_clock, log_of_the_end, log_of_the_missing, log_of_verified, peeled_lies,
    pseudo_of_main,
};
use crate::{lists_and_logs::*, mistakes::*, surroundings::*, unify::*, warnings::*};
use bstr::BStr;
use refdb_testkit::differential::{Changed, Difference, Left, Said, Step};

const LEFT_ALIKE: fn(&Step, &Changed, Left<'_>) -> bool = Difference::LEFT_ALIKE;
const LEFT_BY_GIT: fn(&Step, &Changed, Left<'_>) -> bool = Difference::LEFT_BY_GIT;
const LEFT_BY_LONG_NAMES: fn(&Step, &Changed, Left<'_>) -> bool = |step, changed, left| {
    let is_elsewhere = changed.git == changed.before || changed.other == changed.before || is_log(changed);
    // Git's tables may hold a ref with the long name.
    let is_there = |changed: &Changed| {
        is_log(changed) && is_long_name(&changed.name) || changed.name.starts_with(b"main-worktree/")
    };
    let leads_there = || left.all.iter().any(is_there);
    let is_link = |value: &BStr| value.strip_prefix(b"ref: ").is_some_and(|target| is_long_name(&target.into()));
    let is_linked = || left.before.values().any(is_link);
    (left.met || has_long_name(step) || leads_there() || is_linked()) && is_elsewhere
};
const LEFT_BY_REFDB: fn(&Step, &Changed, Left<'_>) -> bool = Difference::LEFT_BY_OTHER;
const SAID_ALIKE: fn(&Step, &mut Said, &mut Said) = Difference::SAID_ALIKE;

pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        why: "of a lock that is in the way refdb tells the age and the owner as well",
        unify: lock_in_the_way,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git runs transactions inside others, or to pack and to migrate, and calls the reference-transaction hook for them; refdb calls it for what was asked",
        unify: heard_while_stored,
        left: |step, changed, left| more_calls(step, changed, left) || LEFT_BY_GIT(step, changed, left),
    },
    Difference {
        why: "in a bare repository git runs hooks where it was called; refdb in the repository, as githooks(5) says",
        unify: SAID_ALIKE,
        left: called_in_a_bare_repository,
    },
    Difference {
        why: "git ends a whole list at a date before 1970 or behind the years of its system; refdb shows the other refs",
        unify: dates_that_end_git,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "refdb reads the committer's date where it prepares an entry of a reflog, git where it commits, in each transaction",
        unify: unread_dates,
        left: |step, changed, left| LEFT_BY_GIT(step, changed, left) || LEFT_BY_REFDB(step, changed, left),
    },
    Difference {
        why: "a condition on the branch makes git open the refs, with the settings above it; refdb logs as all settings say",
        unify: SAID_ALIKE,
        left: log_behind_a_condition,
    },
    Difference {
        why: "where HEAD is in no table, git migrates to files that are no repository; refdb leaves HEAD as it is beside tables",
        unify: SAID_ALIKE,
        left: head_that_was_gone,
    },
    Difference {
        why: "of the root refs of a worktree, refs verify names all that have a fault; git stops at the first that it finds",
        unify: unseen_root_refs,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "refdb cuts messages of reflogs that do not fit the block size that is set now when it writes their table anew; git cannot",
        unify: SAID_ALIKE,
        left: messages_cut_for_blocks,
    },
    Difference {
        why: "git adds no entry to the reflog of a symbolic ref that leads to itself; refdb does",
        unify: log_of_a_circle,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "git asks the hook about a request that it would refuse afterwards; refdb refuses it first",
        unify: refused_before_the_hook,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git warns once more of an ambiguous name or a broken ref where it walks twice or resolves a name twice",
        unify: repeated_warnings,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git takes the rest of a line of more than a thousand bytes for a line of its own",
        unify: long_lines,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "of the faults of several configuration files, git and refdb report the first that they meet; git reads some files that are not in effect",
        unify: other_faults_of_files,
        left: |step, changed, left| LEFT_BY_GIT(step, changed, left) || LEFT_BY_REFDB(step, changed, left),
    },
    Difference {
        why: "where a command fails, git leaves what it had changed before; refdb has changed nothing",
        unify: SAID_ALIKE,
        left: half_done,
    },
    Difference {
        why: "behind a migration git cannot open the stack while it reads a condition on the branch, nor write tables of small blocks anew; refdb can",
        unify: unopened_stacks,
        left: |step, changed, left| LEFT_BY_GIT(step, changed, left) || LEFT_BY_REFDB(step, changed, left),
    },
    Difference {
        why: "reflogs with names that no table can hold stop a migration to reftables; git migrates them and can write nothing afterwards",
        unify: logs_not_carried_over,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "of two mistakes in one request, git reports the one and refdb the other",
        unify: other_mistakes,
        left: |step, changed, left| LEFT_BY_GIT(step, changed, left) || LEFT_BY_REFDB(step, changed, left),
    },
    Difference {
        why: "git reads versionsort.suffix where two names differ; refdb where there are two",
        unify: unread_suffixes,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git checks the name of a reflog before it reads all of the configuration",
        unify: names_before_settings,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git writes names that no index of a table can hold and then fills the disk; refdb refuses them. It cuts entries of reflogs at which git stops",
        unify: long_for_tables,
        left: |step, changed, left| LEFT_BY_GIT(step, changed, left) || LEFT_BY_REFDB(step, changed, left),
    },
    Difference {
        why: "git says in lines of its own that a hook was killed or cannot be started; refdb says so when it refuses",
        unify: failed_hooks,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "include.path without a value is the folder of the file that says it, unless git calls that file by its name alone",
        unify: included_folders,
        left: LEFT_BY_REFDB,
    },
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
        left: peeled_lies,
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
        why: "where a file of a ref is in the way of a packed ref's folder, git lists that ref and does not find it by name; refdb finds it",
        unify: packed_below_a_file,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "where a linked worktree has no folder for tables, git names no cause; refdb names the lock that it cannot make",
        unify: no_folder_for_tables,
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
    Difference {
        why: "git shows zeros for %(deltabase) where a field needs the object's content too; refdb shows the base",
        unify: delta_bases,
        left: LEFT_ALIKE,
    },
    Difference { why: "git ends text that it aligns at a zero byte", unify: aligned_zeros, left: LEFT_ALIKE },
    Difference {
        why: "among loose refs, git for-each-ref --start-after loses or repeats refs where its name is beyond refs/ or in no folder",
        unify: start_beyond,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "where HEAD's branch is symbolic itself, or a ref becomes so, git logs zeros or nothing for what leads there; refdb logs what it leads to",
        unify: SAID_ALIKE,
        left: log_of_head,
    },
    Difference {
        why: "of a wrong command line and a mistake in settings, or of two in settings, git and refdb may report the one or the other: git reads some settings late, and reads them twice where a condition on the branch makes it open the refs",
        unify: settings_before_words,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "in a bare repository git looks for a mail map in HEAD before it lists a reflog, and warns of what HEAD could mean; refdb needs no mail map there",
        unify: mail_map_of_head,
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
        why: "in git's tables one request of a batch is rejected twice, for a symbolic ref and for what it leads to; refdb tells the first",
        unify: told_twice,
        left: log_of_rejected,
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
        why: "where git deletes refs that are not packed it may make a packed-refs without refs; refdb makes none",
        unify: SAID_ALIKE,
        left: |_, changed, _| {
            let is_empty =
                |packed: &[u8]| packed.split(|byte| *byte == b'\n').all(|line| line.is_empty() || line[0] == b'#');
            changed.name == "packed-refs"
                && changed.git.as_ref().is_some_and(|packed| is_empty(packed))
                && changed.other.is_none()
        },
    },
    Difference {
        why: "a symbolic ref that an edit follows to itself is edited twice for refdb; git cannot read it, or changes it",
        unify: loops,
        left: |step, changed, left| LEFT_BY_GIT(step, changed, left) || LEFT_BY_REFDB(step, changed, left),
    },
    Difference {
        why: "of two requests of a batch that change one ref by two names, git rejects the one, refdb the other or both",
        unify: twice_in_a_batch,
        left: twice_left,
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
        why: "where what a symbolic ref leads to is only verified, git's files log for the symbolic ref that it went away",
        unify: SAID_ALIKE,
        left: log_of_verified,
    },
    Difference {
        why: "of one ref that is changed by two names, git and refdb may name the one or the other first; refdb says so before it looks at values",
        unify: two_names,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "a linked worktree's HEAD by its long name takes commits only, as HEAD does; git looks at the name",
        unify: no_branch_by_long_name,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "a symbolic ref without a target, or to a folder, leads in git to a ref of that name, which it finds or not; refdb refuses that request",
        unify: no_target,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "git cannot remove a link that it has packed if it has pruned what the link leads to; refdb removes it",
        unify: pruned_links,
        left: |step, changed, left| {
            let is_link = changed.git.as_ref().is_some_and(|link| link.starts_with(b"link to "));
            left.met && step.does() == "pack-refs" && is_link && changed.other.is_none()
        },
    },
    Difference {
        why: "git cannot verify that a ref does not exist, or delete it, whose folder holds a file that is no ref; refdb sees no ref there",
        unify: folder_of_no_refs,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "a name that leads out of refs/, or has two slashes, is called dangerous by git, which stops; for refdb it is a bad ref",
        unify: dangerous_names,
        left: LEFT_ALIKE,
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
        why: "git jumps over refs that --exclude leaves out and does not see that one has a bad name; refdb warns of it",
        unify: warnings_of_excluded,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "refdb stops where it has shown as many refs as --count says, or finds the command line to be wrong, and warns of no ref then",
        unify: warnings_behind_the_last,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "where a symbolic ref to MERGE_HEAD or FETCH_HEAD of reftables changes, git logs no old value; refdb logs what was there",
        unify: SAID_ALIKE,
        left: log_of_pseudo,
    },
    Difference {
        why: "in a linked worktree git takes MERGE_HEAD and FETCH_HEAD of the main worktree for the old values there; refdb reads its own",
        unify: pseudo_of_main,
        left: |step, changed, left| log_of_mains_pseudo(step, changed, left) || LEFT_BY_REFDB(step, changed, left),
    },
    Difference {
        why: "where the reflog of a ref that is gone is in the way of another's folder, git and the system have their own words; git fails also where no reflog is wanted",
        unify: log_in_the_way,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "of a ref and one below it, one of which is found through a symbolic ref, git names the one or the other first",
        unify: one_and_the_other,
        left: |step, changed, left| LEFT_BY_GIT(step, changed, left) || LEFT_BY_REFDB(step, changed, left),
    },
    Difference {
        why: "git's reftables make a ref above HEAD's branch whose absence the same transaction verifies through HEAD; refdb sees the conflict",
        unify: verified_through_head,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "git does not pack a branch that holds no commit, which a symbolic ref can give it, nor then any other ref; refdb packs it",
        unify: branch_of_no_commit,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "with --updateref git writes each ref into a table again; refdb only those that change",
        unify: SAID_ALIKE,
        left: branch_of_a_tag,
    },
    Difference {
        why: "among reftables git deletes a reflog's entries where one is written or migrated whose new value is null; refdb adds it, as both do among files",
        unify: SAID_ALIKE,
        left: log_ended_by_an_entry,
    },
    Difference {
        why: "git refs has the forms create, delete, update and rename from 2.56 on, and settle and locks are refdb's own",
        unify: forms_of_refs,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "where messages of reflogs have no room in a table, or entries no values, both lose them when refs are migrated; refdb says so",
        unify: cut_messages,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git reflog write does not read advice.ignoredHook; refdb obeys it wherever a hook is looked for",
        unify: unread_advice,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "where HEAD's branch is broken, git's reflog says so; refdb names its file and what is wrong with it",
        unify: broken_current_branch,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "without a committer's date entries have the time of the clock, which goes on between git and refdb",
        unify: SAID_ALIKE,
        left: log_of_the_clock,
    },
    Difference {
        why: "git leaves empty folders of refs behind, and takes their names for paths in a bare repository; refdb removes them",
        unify: folders_as_paths,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git's reflog reads core.fsync after its command line, its lists after their own settings; refdb before",
        unify: fsync_behind_words,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git refuses to migrate a repository with linked worktrees; refdb migrates them too",
        unify: migrated_worktrees,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "git migrates no repository with a reflog of MERGE_HEAD or FETCH_HEAD where all refs get reflogs; refdb does",
        unify: migrated_log_of_a_file,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "where the main worktree's HEAD is no good, git migrates nothing from a linked worktree for other reasons; refdb says so",
        unify: broken_main_worktree,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "the folder of a dry migration has a random name",
        unify: folder_of_a_migration,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "from a linked worktree git's tables keep the main worktree's own reflogs in reflog drop and expire --all: decision 0045",
        unify: SAID_ALIKE,
        left: logs_of_main,
    },
    Difference {
        why: "git verifies refs in the order of the folder's entries, refdb by name; tables have random names",
        unify: order_of_verify,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git refs verify --verbose writes control characters of names to the terminal; refdb writes ? for them",
        unify: names_for_terminals,
        left: LEFT_ALIKE,
    },
    Difference { why: "among reftables git verifies no names; refdb does", unify: names_in_tables, left: LEFT_ALIKE },
    Difference {
        why: "git refs verify stops at a symbolic link into no folder, and takes the target for an absolute path in a linked worktree",
        unify: links_that_lead_nowhere,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "git migrates no refs into a packed-refs that has a header only, and packs a worktree's own refs; refdb writes these as files",
        unify: SAID_ALIKE,
        left: packed_by_migration,
    },
    Difference {
        why: "git looks at all refs, and warns of broken ones, for branch --all and where HEAD is detached: SHORTCOMINGS.md",
        unify: warnings_of_others,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "among files, git passes over all reflogs of refs whose last part is @",
        unify: list_without_an_at,
        left: log_of_an_at,
    },
    Difference {
        why: "git refs verify leaves root refs alone behind one that has a fault; refdb verifies them all",
        unify: root_refs_behind_a_fault,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "where a list asks git for fields, refdb has warned of core.fsync, and git does so again",
        unify: settings_read_twice,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "reflog write refuses long names from git 2.56 on, and git 2.55 those of entries whose new value is null; refdb takes them",
        unify: bad_name_of_a_log,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "git cuts messages of reflogs that it migrates at half a block, refdb where a block has no room for them",
        unify: SAID_ALIKE,
        left: longer_messages,
    },
    Difference {
        why: "git logs a rename as a change of the new ref among files, and as its end and its beginning among reftables, and makes a loose ref; refdb logs a beginning, and packs it",
        unify: SAID_ALIKE,
        left: renamed,
    },
    Difference {
        why: "git renames a ref over a broken one or a symbolic one that leads nowhere, and makes branches of objects that are no commits; refdb refuses to",
        unify: refused_rename,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "git does not migrate the reflog of no ref whose name is a folder of refs, or below a ref; refdb does where files have room for it",
        unify: log_of_a_folder,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "among files git adds no entry to the reflog of a symbolic ref that leads to itself, or of a broken ref; refdb does",
        unify: log_of_a_loop,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "git fails half-way where empty folders are below refs/ or in the place of root refs beside reftables, and leaves no refs; refdb migrates",
        unify: folder_of_a_stub,
        // The difference about hooks may already have made the two outputs alike, so only git's is examined.
        left: |step, _, left| is_stopped_by_a_folder(step, left.said[0]),
    },
    Difference {
        why: "from a linked worktree git finds no place for a reflog where the main worktree has refs of its own; refdb has one",
        unify: folder_of_the_main_worktree,
        left: LEFT_BY_GIT,
    },
    Difference {
        why: "git migrates tags without what they lead to, which refdb looks up",
        unify: SAID_ALIKE,
        left: peeled_by_migration,
    },
    Difference {
        why: "git makes a repository unreadable where version 0 ignores an extension that nobody knows; refdb refuses to migrate it",
        unify: extension_of_old_version,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "git drops refs that it cannot migrate, and all behind a broken one; refdb refuses to: decision 0074",
        unify: not_carried_over,
        left: LEFT_BY_REFDB,
    },
    Difference {
        why: "where a folder is in the way of a ref that takes its value from its reflog, refdb names the folder",
        unify: folder_in_the_way_of_a_value,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "among reftables git lets a symbolic ref's entries expire as if it led nowhere; refdb follows it, as both do among files",
        unify: SAID_ALIKE,
        left: log_of_symbolic,
    },
    Difference {
        why: "git judges reflogs of MERGE_HEAD and FETCH_HEAD by a table's value that it shows nowhere; refdb by the file",
        unify: SAID_ALIKE,
        left: log_of_a_file,
    },
    Difference {
        why: "where a reflog of no ref is below a ref, git cannot lock its name to let entries expire; refdb locks no ref there",
        unify: log_below_a_ref,
        left: LEFT_BY_GIT,
    },
    Difference { why: "git cuts its messages at 4095 bytes", unify: long_messages, left: LEFT_ALIKE },
    Difference {
        why: "where a file that is no ref is in the way of a folder, git says that it cannot make the lock; refdb names the file's ref, or misses the ref below it",
        unify: file_in_the_way,
        left: LEFT_ALIKE,
    },
    Difference {
        why: "among files, git finds its own lock of one ref in the way of another when a part is committed; refdb sees it before",
        unify: folder_of_a_lock,
        left: LEFT_BY_REFDB,
    },
];
