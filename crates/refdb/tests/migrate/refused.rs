//! What prevents a migration is named before anything has changed, and a dry run changes nothing.

use crate::{
    common::{assert_clean, format_of, migrate, scene, state},
    late::is_commit,
};
use refdb::{HashKind, MigrateError, MigrateOptions, RefFormat, Store};
use refdb_testkit::{Git, Repo};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{os::unix::fs::symlink, sync::Arc};

fn refusal(repo: &Repo, to: RefFormat) -> String {
    let from = format_of(repo.git_dir());
    let error = migrate(&Fs::real(), repo.git_dir(), to).unwrap_err();
    assert_eq!(format_of(repo.git_dir()), from);
    assert!(!repo.git_dir().join("ref_migration.lock").exists());
    error.to_string()
}

#[test]
fn broken_refs_and_bad_names_are_named_and_nothing_is_lost() {
    // Git would migrate the refs that come before these, and drop all others.
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let heads = repo.git_dir().join("refs/heads");
    for (name, content) in [("a..b", "0123456789012345678901234567890123456789\n"), ("empty", ""), ("rubbish", "x\n")] {
        std::fs::write(heads.join(name), content).unwrap();
    }
    std::fs::write(heads.join("null"), "0".repeat(40)).unwrap();
    std::fs::write(heads.join("out"), "ref: ../x\n").unwrap();
    let said = refusal(&repo, RefFormat::Reftable);
    for name in ["a..b", "empty", "rubbish", "null", "out"] {
        assert!(said.contains(&format!("refs/heads/{name}")), "{name}: {said}");
        std::fs::remove_file(heads.join(name)).unwrap();
    }
    let before = state(repo.git_dir());
    migrate(&Fs::real(), repo.git_dir(), RefFormat::Reftable).unwrap();
    assert_eq!(state(repo.git_dir()), before);
}

#[test]
fn what_is_in_the_way_stays_and_is_named() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let stack = repo.git_dir().join("reftable");
    std::fs::create_dir(&stack).unwrap();
    std::fs::write(stack.join("tables.list"), "").unwrap();
    assert!(refusal(&repo, RefFormat::Reftable).contains("reftable' is in the way"));
    std::fs::remove_dir_all(&stack).unwrap();
    let moved = repo.scratch().join("refs");
    std::fs::rename(repo.git_dir().join("refs"), &moved).unwrap();
    symlink(&moved, repo.git_dir().join("refs")).unwrap();
    assert!(refusal(&repo, RefFormat::Reftable).contains("symbolic link"));

    let repo = scene(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.commit();
    std::fs::create_dir(repo.git_dir().join("refs/tags")).unwrap();
    std::fs::write(repo.git_dir().join("refs/tags/late"), format!("{id}\n")).unwrap();
    std::fs::write(repo.git_dir().join("HEAD"), "ref: refs/heads/late\n").unwrap();
    let said = refusal(&repo, RefFormat::Files);
    assert!(said.contains("\n  HEAD") && said.contains("\n  refs/tags/late"), "{said}");
}

/// Previously, the refs below such a folder were gone afterwards, because lists of refs follow a link and a migration
/// did not.
#[test]
fn a_folder_of_refs_or_reflogs_that_leads_elsewhere_is_refused() {
    for path in ["refs/heads", "refs/heads/below", "logs/refs", "logs/HEAD"] {
        let repo = scene(RefFormat::Files, HashKind::Sha1);
        let mut before = state(repo.git_dir());
        if path == "logs/HEAD" {
            // A reflog that is a symbolic link is not listed.
            before.1.remove("HEAD");
        }
        let (moved, path) = (repo.scratch().join("moved"), repo.git_dir().join(path));
        if path.exists() {
            std::fs::rename(&path, &moved).unwrap();
        } else {
            std::fs::create_dir(&moved).unwrap();
        }
        symlink(&moved, &path).unwrap();
        let said = refusal(&repo, RefFormat::Reftable);
        assert!(said.contains("symbolic link") && said.contains(path.to_str().unwrap()), "{said}");
        assert_eq!(state(repo.git_dir()), before);
    }
}

/// Previously, such a ref was lost: once its link lay elsewhere, the file to which it leads was no longer found.
#[test]
fn a_ref_whose_file_is_a_symbolic_link_is_refused() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let shared = repo.scratch().join("shared");
    std::fs::copy(repo.git_dir().join("refs/heads/main"), &shared).unwrap();
    let links = [
        ("refs/heads/linked", shared.to_str().unwrap()),
        ("refs/heads/linked", "../../../shared"),
        ("refs/heads/linked", "refs/heads/main"),
        ("ORIG_HEAD", "../shared"),
    ];
    for (name, leads_to) in links {
        let path = repo.git_dir().join(name);
        let _ = std::fs::remove_file(&path);
        symlink(leads_to, &path).unwrap();
        assert!(Store::open(repo.git_dir()).unwrap().snapshot().unwrap().get(name.into()).unwrap().is_some());
        let before = state(repo.git_dir());
        let said = refusal(&repo, RefFormat::Reftable);
        assert!(said.contains("symbolic link") && said.contains(path.to_str().unwrap()), "{said}");
        assert_eq!(state(repo.git_dir()), before);
        std::fs::remove_file(&path).unwrap();
    }
    let before = state(repo.git_dir());
    symlink("nowhere", repo.git_dir().join("refs/heads/nothing")).unwrap();
    std::fs::remove_file(repo.git_dir().join("HEAD")).unwrap();
    symlink("refs/heads/main", repo.git_dir().join("HEAD")).unwrap();
    migrate(&Fs::real(), repo.git_dir(), RefFormat::Reftable).unwrap();
    assert_eq!(state(repo.git_dir()), before, "a link that leads nowhere is no ref");
}

#[test]
fn an_extension_that_nobody_knows_is_refused_before_anything_is_made() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    repo.config("extensions.foo", "bar");
    let before = state(repo.git_dir());
    assert!(refusal(&repo, RefFormat::Reftable).contains("unknown repository extension"));
    assert_eq!(state(repo.git_dir()), before);
    assert_clean(repo.git_dir());
}

#[test]
fn one_migration_runs_at_a_time_and_the_same_format_is_an_error() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    std::fs::write(repo.git_dir().join("ref_migration.lock"), "").unwrap();
    let error = migrate(&Fs::real(), repo.git_dir(), RefFormat::Reftable).unwrap_err();
    assert!(matches!(error, MigrateError::Running(_)), "{error}");
    std::fs::remove_file(repo.git_dir().join("ref_migration.lock")).unwrap();
    assert_eq!(refusal(&repo, RefFormat::Files), "repository already uses 'files' format");
}

#[test]
fn locks_of_others_are_waited_for_and_then_fail_it_cleanly() {
    for (format, to, lock) in [
        (RefFormat::Files, RefFormat::Reftable, "packed-refs.lock"),
        (RefFormat::Files, RefFormat::Reftable, "config.lock"),
        (RefFormat::Files, RefFormat::Reftable, "HEAD.lock"),
        (RefFormat::Files, RefFormat::Reftable, "worktrees/tree/HEAD.lock"),
        (RefFormat::Reftable, RefFormat::Files, "reftable/tables.list.lock"),
        (RefFormat::Reftable, RefFormat::Files, "worktrees/tree/reftable/tables.list.lock"),
        (RefFormat::Reftable, RefFormat::Files, "config.lock"),
    ] {
        let repo = scene(format, HashKind::Sha1);
        repo.config("core.packedRefsTimeout", "10");
        repo.config("reftable.lockTimeout", "10");
        let before = state(repo.git_dir());
        let path = repo.git_dir().join(lock);
        std::fs::write(&path, "").unwrap();
        assert!(refusal(&repo, to).contains(lock), "{lock}");
        std::fs::remove_file(path).unwrap();
        assert_eq!(state(repo.git_dir()), before);
        assert_clean(repo.git_dir());
    }
}

/// A bad setting for the old format fails the migration itself. One for the new format would afterwards make all
/// commands that write refuse to.
#[test]
fn a_setting_that_cannot_be_used_in_the_new_format_is_named() {
    for (format, to, setting) in [
        (RefFormat::Reftable, RefFormat::Files, "core.packedRefsTimeout"),
        (RefFormat::Reftable, RefFormat::Files, "core.filesRefLockTimeout"),
        (RefFormat::Files, RefFormat::Reftable, "core.packedRefsTimeout"),
        (RefFormat::Files, RefFormat::Reftable, "reftable.blockSize"),
    ] {
        let repo = scene(format, HashKind::Sha1);
        repo.config(setting, "12x");
        let said = refusal(&repo, to);
        assert!(said.contains(&setting.to_lowercase()), "{said}");
        assert_clean(repo.git_dir());
    }
}

/// Previously, the entries disappeared without a word, because a file of that name is no ref and has no reflog.
#[test]
fn a_reflog_that_has_no_place_among_files_is_named() {
    let repo = scene(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.commit().to_string();
    repo.config("core.logAllRefUpdates", "always");
    let unchecked = "REF_SKIP_OID_VERIFICATION,REF_SKIP_REFNAME_VERIFICATION";
    let tool = ["ref-store", "main", "update-ref", "made", "MERGE_HEAD", &id, &"0".repeat(40), unchecked];
    assert!(repo.try_run(Git::find().test_tool(), tool, "").status.success());
    assert!(refusal(&repo, RefFormat::Files).contains("the reflog of MERGE_HEAD: "));
}

#[test]
fn a_store_that_was_opened_before_writes_nothing_afterwards() {
    for from in [RefFormat::Files, RefFormat::Reftable] {
        let repo = scene(from, HashKind::Sha1);
        let id = repo.commit();
        let store = Store::open(repo.git_dir()).unwrap();
        migrate(&Fs::real(), repo.git_dir(), crate::common::other(from)).unwrap();
        let before = state(repo.git_dir());
        for name in ["refs/heads/new", "refs/tags/new", "refs/new", "NEW_HEAD"] {
            let mut tx = store.transaction();
            tx.create(name, id);
            assert!(tx.commit().unwrap_err().to_string().contains("were migrated from"), "{name}");
        }
        assert!(store.find("refs/heads/none").unwrap_err().to_string().contains("were migrated from"));
        let options = refdb::backend::OptimizeOptions::new().all(true);
        assert!(store.optimize(&options).is_err());
        assert_eq!(state(repo.git_dir()), before);
        assert_clean(repo.git_dir());
    }
}

#[test]
fn a_dry_run_changes_nothing_and_leaves_what_git_can_read() {
    for from in [RefFormat::Files, RefFormat::Reftable] {
        let repo = scene(from, HashKind::Sha1);
        let before = state(repo.git_dir());
        let options = MigrateOptions::new(crate::common::other(from)).dry_run(true);
        let store = Store::open(repo.git_dir()).unwrap();
        let folder = store.migrate(&options, &mut |_| {}).unwrap().folder.unwrap();
        assert_eq!(state(repo.git_dir()), before);
        let listed = |extra: &[(&str, String)]| {
            let mut command = repo.command(refdb_testkit::Git::find().program());
            command.args(["for-each-ref"]).envs(extra.iter().map(|(key, value)| (key, value)));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            output.stdout
        };
        let backend = format!("{}://{}", options.to.name(), folder.display());
        assert_eq!(listed(&[("GIT_REFERENCE_BACKEND", backend)]), listed(&[]));
        // The folder was not left by a migration, so the next run does not touch it.
        migrate(&Fs::real(), repo.git_dir(), options.to).unwrap();
        assert!(folder.exists());
    }
}

#[test]
fn a_packed_name_outside_of_refs_is_named_and_an_entry_without_values_is_counted() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let packed = repo.git_dir().join("packed-refs");
    repo.git(["pack-refs", "--all"]);
    let (whole, id) = (std::fs::read_to_string(&packed).unwrap(), repo.commit());
    for name in ["FOO_HEAD", "FOO", "zoo/x"] {
        std::fs::write(&packed, format!("{id} {name}\n")).unwrap();
        assert!(refusal(&repo, RefFormat::Reftable).contains(&format!("packed-refs: {name}: ")));
    }
    std::fs::write(&packed, whole).unwrap();
    let null = "0".repeat(40);
    repo.git(["reflog", "write", "refs/heads/main", &null, &null, "nothing became nothing"]);
    let before = state(repo.git_dir());
    let counted = migrate(&Fs::real(), repo.git_dir(), RefFormat::Reftable).unwrap();
    assert_eq!(counted.lines_left_out, 1);
    let counted = migrate(&Fs::real(), repo.git_dir(), RefFormat::Files).unwrap();
    assert_eq!(counted.lines_left_out, 1);
    assert_ne!(state(repo.git_dir()), before, "the entry is gone");
}

/// Refused, as by git. Previously, both refs were in the table afterwards, where one of them could no longer be
/// changed.
#[test]
fn a_ref_below_another_is_refused_and_both_are_named() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let (id, packed) = (repo.commit(), repo.git_dir().join("packed-refs"));
    let whole = std::fs::read_to_string(&packed).unwrap();
    for (in_packed, loose) in [("refs/tags/a", "refs/tags/a/b/c"), ("refs/tags/a/b", "refs/tags/a")] {
        std::fs::write(&packed, format!("{whole}{id} {in_packed}\n{id} refs/tags/{}\n", "w.x")).unwrap();
        let file = repo.git_dir().join(loose);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, format!("{id}\n")).unwrap();
        let before = state(repo.git_dir());
        let [outer, inner] = if loose.len() < in_packed.len() { [loose, in_packed] } else { [in_packed, loose] };
        assert!(refusal(&repo, RefFormat::Reftable).contains(&format!("\n  {inner}: cannot stand beside {outer}")));
        assert_eq!(state(repo.git_dir()), before);
        assert_clean(repo.git_dir());
        std::fs::remove_file(&file).unwrap();
        let _ = std::fs::remove_dir_all(repo.git_dir().join("refs/tags/a"));
    }
}

/// Refused, as by git, but with the name in the message.
#[test]
fn a_name_that_no_block_has_room_for_is_refused_and_named_with_the_limit() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let (id, packed) = (repo.commit(), repo.git_dir().join("packed-refs"));
    let whole = std::fs::read_to_string(&packed).unwrap();
    let long = format!("refs/tags/{}end", "x/".repeat(2100));
    std::fs::write(&packed, format!("{whole}{id} {long}\n")).unwrap();
    let before = state(repo.git_dir());
    let said = refusal(&repo, RefFormat::Reftable);
    assert!(said.contains(&format!("\n  {long}: a block")) && said.contains("4096 bytes"), "{said}");
    assert_eq!(state(repo.git_dir()), before);
    assert_clean(repo.git_dir());
    // The reflog needs more room than its ref.
    std::fs::write(&packed, whole).unwrap();
    repo.config("reftable.blockSize", "512");
    let middle = format!("refs/tags/{}end", "x/".repeat(220));
    repo.git(["update-ref", "--create-reflog", "-m", "why", &middle, &id.to_string()]);
    let said = refusal(&repo, RefFormat::Reftable);
    assert!(said.contains(&format!("\n  the reflog of {middle}: ")) && said.contains("512 bytes"), "{said}");
}

#[test]
fn the_reflog_of_a_ref_in_a_folder_that_is_passed_over_is_named_and_nothing_is_lost() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    // Git creates such a symbolic ref, and warns only afterwards.
    repo.git(["symbolic-ref", "-m", "made", "refs/heads/x.lock/y", "refs/heads/main"]);
    let said = refusal(&repo, RefFormat::Reftable);
    assert!(said.contains("the reflog of refs/heads/x.lock/y: no ref can have that name"), "{said}");
    assert!(repo.git_dir().join("refs/heads/x.lock/y").exists());
}

struct FailsAt(fn(&Op<'_>) -> bool);

impl IoHook for FailsAt {
    fn before(&self, op: Op<'_>) -> Verdict {
        if (self.0)(&op) { Verdict::Fail(std::io::ErrorKind::StorageFull.into()) } else { Verdict::Proceed }
    }
}

/// Previously, a migration to files lost such a ref: it was built with the others, but not moved to its place. Git's
/// migration loses it.
#[test]
fn a_ref_that_only_update_ref_makes_survives_in_files_and_is_reported_where_no_table_has_it() {
    let repo = scene(RefFormat::Reftable, HashKind::Sha1);
    let (id, dir, names) = (repo.commit().to_string(), repo.git_dir(), ["FOO-BAR", "TEMP_TAG"]);
    names.iter().for_each(|name| drop(repo.git(["update-ref", name, &id])));
    // A migration that fails at the last moment leaves nothing that is in the way of the next one.
    migrate(&Fs::with_hook(Arc::new(FailsAt(is_commit))), dir, RefFormat::Files).unwrap_err();
    assert!(names.iter().all(|name| !dir.join(name).exists()));
    assert_eq!(migrate(&Fs::real(), dir, RefFormat::Files).unwrap().strays, [""; 0]);
    names.iter().for_each(|name| assert_eq!(repo.git(["rev-parse", name]), id));
    for (other, content) in [("README", "text"), ("MERGE_MSG", &*id), ("FETCH_HEAD", &*id)] {
        std::fs::write(dir.join(other), content).unwrap();
    }
    // As with git, the files of these refs stay where they are.
    assert_eq!(migrate(&Fs::real(), dir, RefFormat::Reftable).unwrap().strays, names);
    assert_eq!(Store::open(dir).unwrap().strays().unwrap(), names);
    migrate(&Fs::real(), dir, RefFormat::Files).unwrap();
    names.iter().for_each(|name| assert_eq!(repo.git(["rev-parse", name]), id));
}

/// Previously, the error said only that something is in the way, as if nothing were left behind.
#[test]
fn a_refused_migration_that_cannot_be_undone_says_that_files_are_left() {
    let repo = scene(RefFormat::Files, HashKind::Sha1);
    let (dir, stack) = (repo.git_dir(), repo.git_dir().join("reftable"));
    let before = state(dir);
    let made = stack.clone();
    // A stack appears at the last moment, and no file can be removed afterwards.
    let hook = Appears(Box::new(move |op| match op {
        Op::Rename(_, to) if *to == made => {
            std::fs::create_dir(&made).unwrap();
            std::fs::write(made.join("tables.list"), "").unwrap();
            false
        }
        Op::Remove(_) | Op::RemoveDir(_) => made.exists(),
        _ => false,
    }));
    let error = migrate(&Fs::with_hook(Arc::new(hook)), dir, RefFormat::Reftable).unwrap_err();
    let MigrateError::NotUndone { why, .. } = error else { panic!("{error:?}") };
    assert!(matches!(&*why, MigrateError::InTheWay(path) if *path == stack), "{why:?}");
    assert_eq!(state(dir), before);
    std::fs::remove_dir_all(&stack).unwrap();
    migrate(&Fs::real(), dir, RefFormat::Reftable).unwrap();
    assert_eq!(state(dir), before);
}

struct Appears(Box<dyn Fn(&Op<'_>) -> bool + Send + Sync>);

impl IoHook for Appears {
    fn before(&self, op: Op<'_>) -> Verdict {
        if (self.0)(&op) { Verdict::Fail(std::io::ErrorKind::ReadOnlyFilesystem.into()) } else { Verdict::Proceed }
    }
}
