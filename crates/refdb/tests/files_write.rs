//! Real git reads what the files backend writes as its own, and the other way round.

#![allow(clippy::unwrap_used, reason = "tests")]

mod files_common;

use bstr::BStr;
use files_common::*;
use refdb::{
    Backend, Error, HashKind, LogJudge, LoggedChange, Maintenance, PruneLogs, RejectionClass, files::FilesBackend,
};
use refdb_testkit::{RefFormat, Repo, files_below};
use refdb_types::{ObjectId, RefName};
use refdb_vfs::{Fs, IoHook, LookUp, Op, Verdict};
use std::{
    fs, io,
    path::{Path, PathBuf},
    slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("refs/heads/new/{}/b{i:05}", i / 50)).collect()
}

/// Requires that git and refdb list the same, that git finds nothing wrong, and that nothing is left behind. Returns
/// the list.
fn agree(repo: &Repo) -> Vec<String> {
    let snapshot = backend(repo).snapshot().unwrap();
    let ours = rest(&mut *snapshot.cursor(false).unwrap());
    // Root refs are left out, because git does not list a HEAD without a branch.
    let git: Vec<String> = git_list(repo).into_iter().filter(|line| line.starts_with("refs/")).collect();
    assert!(ours == git, "differs: {:?}", ours.iter().zip(&git).find(|(ours, git)| ours != git));
    repo.verify();
    assert_eq!(leftovers(repo.git_dir()), Vec::<std::path::PathBuf>::new());
    ours
}

#[test]
fn single_refs_are_created_updated_linked_and_deleted_in_loose_files() {
    for hash in HASHES {
        let repo = Repo::bare(RefFormat::Files, hash);
        let ids = repo.commits(2);
        let store = backend(&repo);
        transact(&store, &[create("refs/heads/main", ids[0]), create("refs/heads/a/b/c", ids[0])]).unwrap();
        transact(&store, &[set("refs/heads/main", ids[1]), link("refs/remotes/o/HEAD", "refs/heads/main")]).unwrap();
        let listed = agree(&repo);
        assert_eq!(listed[1], format!("refs/heads/main {}", ids[1]));
        assert_eq!(listed[2], "refs/remotes/o/HEAD -> refs/heads/main");
        assert_eq!(fs::read_to_string(repo.git_dir().join("refs/heads/main")).unwrap(), format!("{}\n", ids[1]));
        transact(&store, &[delete("refs/heads/a/b/c"), delete("refs/remotes/o/HEAD")]).unwrap();
        assert_eq!(agree(&repo).len(), 1);
        assert!(!repo.git_dir().join("refs/heads/a").exists(), "emptied folders go");
        assert!(!repo.git_dir().join("packed-refs").exists());
    }
}

#[test]
fn many_new_refs_go_to_packed_refs_and_leave_no_folder() {
    for hash in HASHES {
        let repo = Repo::bare(RefFormat::Files, hash);
        let ids = repo.commits(3);
        repo.create_refs([("refs/heads/main", ids[0]), ("refs/tags/old", ids[0])]);
        repo.git(["pack-refs", "--all"]);
        let store = backend(&repo);
        let wishes: Vec<Wish> = names(300).into_iter().map(|name| create(name, ids[1])).collect();
        transact(&store, &wishes).unwrap();
        assert_eq!(agree(&repo).len(), 302);
        assert!(!repo.git_dir().join("refs/heads/new").exists());
        let text = fs::read_to_string(repo.git_dir().join("packed-refs")).unwrap();
        assert_eq!(text.lines().count(), 303);
        // Packed, loose and symbolic refs of the first transaction are changed once more.
        for name in ["refs/heads/new/0/b00000", "refs/heads/new/3/b00170"] {
            repo.git(["update-ref", name, &ids[2].to_string()]);
        }
        repo.git(["symbolic-ref", "refs/heads/new/1/b00050", "refs/heads/main"]);
        let wishes: Vec<Wish> = names(300).into_iter().map(|name| set(name, ids[2])).collect();
        transact(&store, &wishes).unwrap();
        let listed = agree(&repo);
        assert_eq!(listed.iter().filter(|line| line.ends_with(&ids[2].to_string())).count(), 300);
        assert!(!repo.git_dir().join("refs/heads/new/0").exists(), "loose values were packed and pruned");
        // All of them are deleted.
        let wishes: Vec<Wish> = names(300).into_iter().map(delete).collect();
        transact(&store, &wishes).unwrap();
        assert_eq!(agree(&repo).len(), 2);
    }
}

#[test]
fn deleting_a_packed_ref_keeps_known_promises_peeled_lines_and_neighbours_byte_for_byte() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let tag = repo.tag_object(id, "v");
    repo.create_refs((0..500).map(|i| (format!("refs/tags/t{i:03}"), if i % 2 == 0 { tag } else { id })));
    repo.git(["pack-refs", "--all"]);
    let path = repo.git_dir().join("packed-refs");
    let before = fs::read_to_string(&path).unwrap().replacen("sorted", "sorted strange", 1);
    fs::write(&path, &before).unwrap();
    let store = backend(&repo);
    transact(&store, &[delete("refs/tags/t100"), delete("refs/tags/t101"), delete("refs/tags/none")]).unwrap();
    let expected =
        before.replace(&format!("{tag} refs/tags/t100\n^{id}\n"), "").replace(&format!("{id} refs/tags/t101\n"), "");
    let expected = expected.replacen("sorted strange", "sorted", 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    agree(&repo);
}

#[test]
fn a_packed_refs_without_sorted_is_rewritten_whole_sorted_and_peeled() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let tag = repo.tag_object(id, "v");
    let path = repo.git_dir().join("packed-refs");
    fs::write(&path, format!("{tag} refs/tags/c\n{id} refs/heads/z\n{id} refs/tags/a\n")).unwrap();
    let mut options = options(refdb_vfs::Fs::real(), repo.git_dir(), HashKind::Sha1);
    options.objects = std::sync::Arc::new(KnownTags([(tag, id)].into()));
    transact(&refdb::files::FilesBackend::new(options), &[delete("refs/tags/a")]).unwrap();
    let expected =
        format!("# pack-refs with: peeled fully-peeled sorted \n{id} refs/heads/z\n{tag} refs/tags/c\n^{id}\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    agree(&repo);
}

#[test]
fn deleting_a_packed_ref_that_is_also_loose_removes_both_and_its_reflog() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    repo.git(["update-ref", "-m", "one", "refs/heads/deep/a", &ids[0].to_string()]);
    repo.git(["pack-refs", "--all"]);
    repo.git(["update-ref", "-m", "two", "refs/heads/deep/a", &ids[1].to_string()]);
    assert!(repo.git_dir().join("logs/refs/heads/deep/a").exists());
    transact(&backend(&repo), &[delete("refs/heads/deep/a")]).unwrap();
    assert_eq!(agree(&repo), Vec::<String>::new());
    assert!(!repo.git_dir().join("logs/refs/heads/deep").exists());
    assert!(!repo.git_dir().join("refs/heads/deep").exists());
}

#[test]
fn reflog_lines_are_appended_as_git_writes_them_loose_and_in_bulk() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    let store = backend(&repo);
    let logged = |name: &str, id: ObjectId, message: &str| Wish { log: Some(message.into()), ..set(name, id) };
    transact(&store, &[logged("refs/heads/x/y", ids[0], "one")]).unwrap();
    transact(&store, &[logged("refs/heads/x/y", ids[1], "")]).unwrap();
    repo.git(["update-ref", "-m", "three", "refs/heads/x/y", &ids[0].to_string()]);
    let log: Vec<String> = repo.reflog("refs/heads/x/y").iter().map(ToString::to_string).collect();
    let null = ObjectId::null(HashKind::Sha1);
    assert_eq!(log[0], format!("{null} {} A <a@example.com> 1700000000 +0000\tone", ids[0]));
    assert_eq!(log[1], format!("{} {} A <a@example.com> 1700000000 +0000", ids[0], ids[1]));
    assert!(log[2].ends_with("\tthree"));
    let wishes: Vec<Wish> = names(100).iter().map(|name| logged(name, ids[0], "bulk")).collect();
    transact(&store, &wishes).unwrap();
    for name in names(100) {
        assert_eq!(repo.reflog(&name).len(), 1);
    }
}

#[test]
fn name_conflicts_with_files_and_folders_are_refused_and_empty_folders_are_not() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/file", id)]);
    let store = backend(&repo);
    let error = transact(&store, &[create("refs/heads/file/below", id)]).unwrap_err().to_string();
    let git = repo.try_git(["update-ref", "refs/heads/file/below", &id.to_string()], "");
    let git = String::from_utf8_lossy(&git.stderr).into_owned();
    assert!(git.contains(&error) && error.contains("'refs/heads/file' exists; cannot create"), "{git}\n{error}");
    let folder = repo.git_dir().join("refs/heads/folder");
    fs::create_dir_all(folder.join("empty/too")).unwrap();
    transact(&store, &[create("refs/heads/folder", id)]).unwrap();
    let full = repo.git_dir().join("refs/heads/full");
    fs::create_dir_all(&full).unwrap();
    fs::write(full.join("x.lock"), "").unwrap();
    let error = transact(&store, &[create("refs/heads/full", id)]).unwrap_err().to_string();
    assert!(error.contains("there is a non-empty directory") && error.contains("blocking reference"), "{error}");
    fs::remove_dir_all(&full).unwrap();
    agree(&repo);
}

/// Previously, the folder was met only when the ref's new file was renamed into place, after reflogs and earlier refs
/// had changed.
#[test]
fn a_folder_in_place_of_a_packed_refs_file_fails_before_anything_changes() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    let (old, new) = (ids[0], ids[1]);
    repo.create_refs([("refs/heads/a", old), ("refs/heads/full", old), ("refs/heads/free", old)]);
    repo.git(["pack-refs", "--all"]);
    for folder in ["full", "free"] {
        fs::create_dir_all(repo.git_dir().join("refs/heads").join(folder).join("empty")).unwrap();
    }
    fs::write(repo.git_dir().join("refs/heads/full/x.lock"), "").unwrap();
    let before = repo.git(["for-each-ref"]);
    let store = backend(&repo);
    let wishes = ["refs/heads/a", "refs/heads/full"].map(|name| Wish { log: Some("why".into()), ..set(name, new) });
    let error = transact(&store, &wishes).unwrap_err().to_string();
    assert!(error.contains("there is a non-empty directory") && error.contains("blocking reference"), "{error}");
    assert_eq!(repo.git(["for-each-ref"]), before);
    assert!(
        !repo.git_dir().join("logs/refs/heads/a").exists() && !repo.git_dir().join("logs/refs/heads/full").exists()
    );
    transact(&store, &[set("refs/heads/free", new)]).unwrap();
    fs::remove_dir_all(repo.git_dir().join("refs/heads/full")).unwrap();
    transact(&store, &wishes).unwrap();
    agree(&repo);
}

/// Previously, the reflog of a ref that makes room for refs below its name was removed first, so that it was lost if a
/// later reflog could not be written, although no ref had changed.
#[test]
fn a_reflog_that_makes_room_is_back_if_the_transaction_fails() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(2);
    let logs = repo.git_dir().join("logs/refs/heads");
    fs::create_dir_all(logs.join("z/below")).unwrap();
    repo.git(["config", "core.logAllRefUpdates", "always"]);
    for outer in ["a", "b"] {
        let name = format!("refs/heads/{outer}");
        repo.git(["update-ref", "-m", "first", &name, &ids[0].to_string()]);
        repo.git(["update-ref", "-m", "second", &name, &ids[1].to_string()]);
    }
    repo.git(["pack-refs", "--all"]);
    let (refs, read) = (repo.git(["for-each-ref"]), |name: &str| fs::read_to_string(logs.join(name)).unwrap());
    let before = (read("a"), read("b"));
    let store = backend(&repo);
    for count in [0, 100] {
        let logged = |name: &str| Wish { log: Some("why".into()), ..set(name, ids[0]) };
        let mut wishes = vec![delete("refs/heads/a"), delete("refs/heads/b")];
        wishes.extend((0..count).map(|at| logged(&format!("refs/heads/many/{at}"))));
        wishes.extend(["refs/heads/a/x", "refs/heads/b/x", "refs/heads/z"].map(logged));
        fs::write(logs.join("z/below/log"), "").unwrap();
        let error = transact(&store, &wishes).unwrap_err().to_string();
        assert!(error.contains("refs/heads/z"), "{error}");
        assert_eq!(repo.git(["for-each-ref"]), refs, "no ref has changed");
        assert_eq!((read("a"), read("b")), before, "no reflog has changed");
    }
    fs::remove_file(logs.join("z/below/log")).unwrap();
    let outer = [delete("refs/heads/a"), delete("refs/heads/b")];
    let inner = ["refs/heads/a/x", "refs/heads/b/x"].map(|name| Wish { log: Some("why".into()), ..set(name, ids[0]) });
    transact(&store, &[outer, inner].concat()).unwrap();
    agree(&repo);
    assert!(read("a/x").ends_with("\twhy\n"));
    assert_eq!(files_below(&repo.git_dir().join("logs/refs")).len(), 2, "what made room is gone");
}

#[test]
fn a_transaction_that_is_dropped_at_any_stage_leaves_nothing() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id), ("refs/heads/loose", id)]);
    repo.git(["pack-refs", "--all"]);
    let before = agree(&repo);
    let store = backend(&repo);
    for count in [2, 100] {
        let mut wishes: Vec<Wish> = names(count).into_iter().map(|name| create(name, id)).collect();
        // This conflict is found only when all locks are held.
        wishes.push(create("refs/heads/main", id));
        let error = transact(&store, &wishes).unwrap_err();
        assert!(matches!(error, Error::Rejected(rejection) if rejection.class() == RejectionClass::CreateExists));
        assert_eq!(agree(&repo), before);
        assert!(!repo.git_dir().join("refs/heads/new").exists());
    }
}

#[test]
fn permissions_follow_core_shared_repository() {
    use std::os::unix::fs::PermissionsExt;
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let mut options = options(refdb_vfs::Fs::real(), repo.git_dir(), HashKind::Sha1);
    options.sharing = refdb::config::SharedRepository::AtLeast(0o660);
    let store = refdb::files::FilesBackend::new(options);
    transact(&store, &[create("refs/heads/s/a", id)]).unwrap();
    store.optimize(&pack_all()).unwrap();
    transact(&store, &[create("refs/heads/s/b", id)]).unwrap();
    let mode = |path: &str| fs::metadata(repo.git_dir().join(path)).unwrap().permissions().mode();
    assert_eq!(mode("refs/heads/s/b") & 0o660, 0o660);
    assert_eq!(mode("packed-refs") & 0o660, 0o660);
    assert_eq!(mode("refs/heads/s") & 0o2770, 0o2770);
}

#[test]
fn packing_moves_what_git_moves() {
    for hash in HASHES {
        let by_git = Repo::bare(RefFormat::Files, hash);
        let by_us = Repo::bare(RefFormat::Files, hash);
        let choices: [(&[&str], refdb::backend::OptimizeOptions); 5] = [
            (&["--all", "--exclude", "refs/heads/a*"], with(|options| options.exclude = vec!["refs/heads/a*".into()])),
            (&[], with(|options| options.all = false)),
            (
                &["--include", "refs/*/x/*"],
                with(|options| {
                    options.all = false;
                    options.include = vec!["refs/*/x/*".into()];
                }),
            ),
            (&["--all", "--no-prune"], with(|options| options.prune = false)),
            (&["--all"], with(|_| {})),
        ];
        let mut tag = None;
        for repo in [&by_git, &by_us] {
            let id = repo.commit();
            let tagged = repo.tag_object(id, "v");
            tag = Some((tagged, id));
            repo.create_refs(["a1", "a2", "b", "x/y"].map(|name| (format!("refs/heads/{name}"), id)));
            repo.create_refs([("refs/tags/v", tagged), ("refs/remotes/x/1", id), ("refs/bisect/bad", id)]);
            repo.git(["symbolic-ref", "refs/remotes/x/HEAD", "refs/remotes/x/1"]);
        }
        let mut options = options(refdb_vfs::Fs::real(), by_us.git_dir(), hash);
        options.objects = std::sync::Arc::new(KnownTags(tag.into_iter().collect()));
        let store = refdb::files::FilesBackend::new(options);
        for (args, choice) in choices {
            by_git.git([&["pack-refs"], args].concat());
            store.optimize(&choice).unwrap();
            let packed = |repo: &Repo| fs::read_to_string(repo.git_dir().join("packed-refs")).unwrap();
            assert_eq!(packed(&by_us), packed(&by_git), "{args:?}");
            let loose = |repo: &Repo| files_below(&repo.git_dir().join("refs"));
            assert_eq!(loose(&by_us), loose(&by_git), "{args:?}");
            agree(&by_us);
        }
    }
}

fn with(change: impl Fn(&mut refdb::backend::OptimizeOptions)) -> refdb::backend::OptimizeOptions {
    let mut options = pack_all();
    change(&mut options);
    options
}

/// Removes the oldest entry of a reflog. Before the first answer, `meddle` changes the log as another writer would.
struct Oldest<'m> {
    is_first: bool,
    meddle: Option<&'m dyn Fn()>,
    failed: Vec<(String, Error)>,
}

impl LogJudge for Oldest<'_> {
    fn begin(&mut self, _: &BStr, _: &mut dyn ExactSizeIterator<Item = u64>) -> refdb::Result<()> {
        self.is_first = true;
        Ok(())
    }

    fn goes(&mut self, _: &LoggedChange<'_>) -> refdb::Result<bool> {
        if let Some(meddle) = self.meddle.take() {
            meddle();
        }
        Ok(std::mem::take(&mut self.is_first))
    }

    fn told(&mut self, _: &LoggedChange<'_>, _: bool) {}

    fn failed(&mut self, name: &RefName, error: Error) {
        self.failed.push((name.to_string(), error));
    }
}

#[test]
fn a_log_that_changes_between_the_look_and_the_lock_is_judged_again() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commits(1)[0];
    repo.create_refs([("refs/heads/main", id)]);
    let name = RefName::new("refs/heads/main").unwrap();
    let log = repo.git_dir().join("logs/refs/heads/main");
    let line = |at: u64| format!("{id} {id} A <a@example.com> {at} +0000\tx\n");
    let lines = |numbers: &[u64]| numbers.iter().copied().map(line).collect::<String>();
    let append = || fs::write(&log, lines(&[1, 2, 3, 4])).unwrap();
    let replace = || {
        // The new file has the length and the modification time of the old one.
        let time = fs::metadata(&log).unwrap().modified().unwrap();
        let new = log.with_extension("new");
        fs::write(&new, lines(&[7, 8, 9])).unwrap();
        fs::File::open(&new).unwrap().set_modified(time).unwrap();
        fs::rename(&new, &log).unwrap();
    };
    let remove = || fs::remove_file(&log).unwrap();
    let link = || {
        let elsewhere = repo.git_dir().join("elsewhere");
        fs::rename(&log, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &log).unwrap();
    };
    let prune = |meddle: &dyn Fn(), left: Option<&[u64]>| {
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        fs::write(&log, lines(&[1, 2, 3])).unwrap();
        // A reflog that was written just now is always judged again.
        std::thread::sleep(Duration::from_millis(60));
        let mut judge = Oldest { is_first: true, meddle: Some(meddle), failed: Vec::new() };
        backend(&repo)
            .prune_logs(slice::from_ref(&name), PruneLogs::default(), &KnownTags::default(), &mut judge)
            .unwrap();
        assert!(judge.failed.is_empty(), "{:?}", judge.failed);
        assert_eq!(fs::read_to_string(&log).ok(), left.map(lines));
    };
    prune(&|| (), Some(&[2, 3]));
    prune(&append, Some(&[2, 3, 4]));
    prune(&replace, Some(&[8, 9]));
    prune(&remove, None);
    prune(&link, Some(&[2, 3]));
    assert!(fs::symlink_metadata(&log).unwrap().is_symlink(), "the file behind the link was replaced");
}

/// Previously, the first such ref ended the call, and the reflogs after it stayed as they were.
#[test]
fn a_reflog_whose_ref_cannot_be_set_keeps_no_other_from_being_pruned() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    // A folder with another file is in the place of the first ref.
    repo.create_refs([("refs/heads/a/b", id), ("refs/heads/c", id)]);
    let names = ["refs/heads/a", "refs/heads/c"].map(|name| RefName::new(name).unwrap());
    let line = format!("{id} {id} A <a@example.com> 1 +0000\tx\n");
    let logs = names.each_ref().map(|name| repo.git_dir().join("logs").join(name.to_string()));
    fs::create_dir_all(logs[0].parent().unwrap()).unwrap();
    logs.iter().for_each(|log| fs::write(log, line.repeat(2)).unwrap());
    let mut judge = Oldest { is_first: true, meddle: None, failed: Vec::new() };
    let how = PruneLogs::new().update_ref(true);
    backend(&repo).prune_logs(&names, how, &KnownTags::default(), &mut judge).unwrap();
    let [(name, Error::Rejected(rejection))] = &judge.failed[..] else { panic!("{:?}", judge.failed) };
    assert_eq!((name.as_str(), rejection.class()), ("refs/heads/a", RejectionClass::NameConflict));
    assert_eq!(fs::read_to_string(&logs[1]).unwrap(), line);
}

/// Fails the first look-up of one file as if the disk had failed.
struct Unread(PathBuf, AtomicBool);

impl IoHook for Unread {
    fn before(&self, _: Op<'_>) -> Verdict {
        Verdict::Proceed
    }

    fn look_up(&self, path: &Path, _: LookUp) -> io::Result<Option<PathBuf>> {
        let fails = path == self.0 && !self.1.swap(true, Ordering::Relaxed);
        if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(None) }
    }
}

/// Previously, the value from the reflog replaced whatever could not be read, even a symbolic ref.
#[test]
fn a_ref_that_cannot_be_read_is_not_set_to_the_end_of_its_reflog() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let [link, broken] = ["refs/heads/link", "refs/heads/broken"];
    for (name, content) in [(link, "ref: refs/heads/main\n"), (broken, "rubbish\n")] {
        fs::write(repo.git_dir().join(name), content).unwrap();
        let log = repo.git_dir().join("logs").join(name);
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        fs::write(log, format!("{id} {id} A <a@example.com> 1 +0000\tx\n").repeat(2)).unwrap();
    }
    let before = [link, broken].map(|name| fs::read(repo.git_dir().join(name)).unwrap());
    let disk = Arc::new(Unread(repo.git_dir().join(link), AtomicBool::new(false)));
    let store = FilesBackend::new(options(Fs::with_hook(disk), repo.git_dir(), repo.hash()));
    let mut judge = Oldest { is_first: true, meddle: None, failed: Vec::new() };
    let names = [link, broken].map(|name| RefName::new(name).unwrap());
    store.prune_logs(&names, PruneLogs::new().update_ref(true), &KnownTags::default(), &mut judge).unwrap();
    assert_eq!([link, broken].map(|name| fs::read(repo.git_dir().join(name)).unwrap()), before);
    let [(name, Error::Io(error))] = &judge.failed[..] else { panic!("{:?}", judge.failed) };
    assert!(name == link && error.is_transient(), "{error}");
    // git does not set a broken ref either.
    repo.git(["reflog", "expire", "--updateref", "--expire=never", "--expire-unreachable=never", "--all"]);
    assert_eq!(fs::read(repo.git_dir().join(broken)).unwrap(), before[1]);
}

/// Previously, the first reflog that was moved aside replaced one that an earlier transaction could not move back.
#[test]
fn a_reflog_that_stayed_aside_is_not_replaced() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    repo.config("core.logAllRefUpdates", "always");
    let id = repo.commit();
    repo.create_refs([("refs/heads/a", id)]);
    let logs = repo.git_dir().join("logs/refs");
    fs::write(logs.join("heads/b"), format!("{id} {id} A <a@example.com> 1 +0000\tof an older b\n")).unwrap();
    let stayed = logs.join(".tmp-removed-log-0");
    fs::write(&stayed, "of another ref").unwrap();
    let store = refdb::Store::builder(repo.git_dir()).open().unwrap();
    let mut transaction = store.transaction();
    transaction.rename(&RefName::new("refs/heads/a").unwrap(), &RefName::new("refs/heads/b").unwrap(), id);
    transaction.commit().unwrap();
    assert!(!fs::read_to_string(logs.join("heads/b")).unwrap().contains("older"), "it was replaced");
    assert_eq!(fs::read(&stayed).unwrap(), b"of another ref");
}
