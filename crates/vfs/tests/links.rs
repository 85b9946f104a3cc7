//! A symbolic link that takes the place of a folder at work leads no removal to other files. Each test links to a
//! folder that it made, and does nothing as root: scripts/tests/test-as-user runs them as another user.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use refdb_vfs::{EntryKind, Fs, IoHook, Op, Verdict, effective_user};
use std::{
    ffi::OsStr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

fn is_root() -> bool {
    effective_user() == 0
}

#[test]
fn work_in_an_open_folder_stays_in_it_after_a_link_took_its_place() {
    if is_root() {
        return;
    }
    let (dir, fs) = (tempfile::tempdir().unwrap(), Fs::real());
    let at = |name: &str| dir.path().join(name);
    for folder in ["open", "target"] {
        std::fs::create_dir(at(folder)).unwrap();
        for file in ["keep", "go", "link", "rename"] {
            std::fs::write(at(folder).join(file), folder).unwrap();
        }
        std::fs::create_dir(at(folder).join("empty")).unwrap();
    }
    let folder = fs.folder_no_follow(&at("open")).unwrap();
    std::fs::rename(at("open"), at("moved")).unwrap();
    fs.symlink(&at("target"), &at("open")).unwrap();
    assert_eq!(folder.entries().unwrap().len(), 5);
    folder.remove_file(OsStr::new("go")).unwrap();
    folder.remove_dir(OsStr::new("empty")).unwrap();
    folder.hard_link(OsStr::new("link"), &at("linked")).unwrap();
    folder.rename(OsStr::new("rename"), &at("renamed")).unwrap();
    folder.rename_within(OsStr::new("link"), OsStr::new("again")).unwrap();
    folder.create_dir(OsStr::new("new"), 0o700).unwrap();
    folder.create_new(OsStr::new("file"), 0o600).unwrap();
    assert_eq!(folder.open(OsStr::new("keep")).unwrap().read_to_end().unwrap(), b"open");
    assert_eq!(std::fs::read(at("linked")).unwrap(), b"open");
    assert_eq!(std::fs::read(at("renamed")).unwrap(), b"open");
    assert_eq!(folder.entries().unwrap().len(), 4, "a folder can be read again");
    assert_eq!(fs.read_dir(&at("target")).unwrap().len(), 5, "nothing is missing behind the link");
    assert!(fs.folder_no_follow(&at("open")).unwrap_err().is_not_found());
}

#[test]
fn a_tree_goes_and_what_its_links_lead_to_stays() {
    if is_root() {
        return;
    }
    let (dir, fs) = (tempfile::tempdir().unwrap(), Fs::real());
    std::fs::create_dir_all(dir.path().join("tree/a/b")).unwrap();
    std::fs::create_dir_all(dir.path().join("target/in")).unwrap();
    for file in ["tree/1", "tree/a/2", "tree/a/b/3", "target/4"] {
        std::fs::write(dir.path().join(file), "").unwrap();
    }
    fs.symlink(&dir.path().join("target"), &dir.path().join("tree/a/link")).unwrap();
    let folder = fs.folder(dir.path()).unwrap();
    folder.remove_tree(OsStr::new("tree"), EntryKind::Dir).unwrap();
    folder.remove_tree(OsStr::new("tree"), EntryKind::Dir).unwrap();
    assert!(!dir.path().join("tree").exists());
    assert!(dir.path().join("target/4").exists() && dir.path().join("target/in").exists());
}

/// Before the first removal, puts a link to another folder in the place of the one at work.
struct Swap {
    at: PathBuf,
    target: PathBuf,
    is_done: Mutex<bool>,
}

impl IoHook for Swap {
    fn before(&self, op: Op<'_>) -> Verdict {
        let mut is_done = self.is_done.lock().unwrap();
        if matches!(op, Op::Remove(path) | Op::RemoveDir(path) if path.starts_with(&self.at)) && !*is_done {
            *is_done = true;
            std::fs::rename(&self.at, self.at.with_extension("moved")).unwrap();
            std::os::unix::fs::symlink(&self.target, &self.at).unwrap();
        }
        Verdict::Proceed
    }
}

#[test]
fn a_folder_replaced_by_a_link_during_a_removal_leads_nowhere() {
    if is_root() {
        return;
    }
    for is_full in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (at, target) = (dir.path().join("top/a/b"), dir.path().join("target"));
        for folder in [&at, &target] {
            std::fs::create_dir_all(folder.join("in/deep")).unwrap();
            std::fs::create_dir_all(folder.join("other")).unwrap();
            if is_full {
                std::fs::write(folder.join("file"), "").unwrap();
                std::fs::write(folder.join("in/file"), "").unwrap();
            }
        }
        let swap = Swap { at, target: target.clone(), is_done: Mutex::new(false) };
        let fs = Fs::with_hook(Arc::new(swap));
        if is_full {
            let folder = fs.folder(dir.path()).unwrap();
            // The link stays in the place of `b`, so that the folder `a` above it is not empty and cannot be removed.
            assert!(folder.remove_tree(OsStr::new("top"), EntryKind::Dir).is_err());
        } else {
            assert!(!fs.remove_empty_tree(&dir.path().join("top")).unwrap());
        }
        assert!(target.join("in/deep").exists() && target.join("other").exists(), "{is_full}");
        assert_eq!(target.join("in/file").exists(), is_full);
    }
}

#[test]
fn a_folder_moved_during_a_removal_does_not_take_it_along() {
    if is_root() {
        return;
    }
    struct Move(PathBuf, PathBuf, Mutex<bool>);
    impl IoHook for Move {
        fn before(&self, _: Op<'_>) -> Verdict {
            let mut is_done = self.2.lock().unwrap();
            if !*is_done {
                *is_done = true;
                std::fs::rename(&self.0, &self.1).unwrap();
            }
            Verdict::Proceed
        }
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("top/a")).unwrap();
    std::fs::create_dir_all(dir.path().join("elsewhere")).unwrap();
    std::fs::write(dir.path().join("top/a/file"), "").unwrap();
    std::fs::write(dir.path().join("elsewhere/file"), "").unwrap();
    let moves = Move(dir.path().join("top/a"), dir.path().join("elsewhere/a"), Mutex::new(false));
    let folder = Fs::with_hook(Arc::new(moves)).folder(dir.path()).unwrap();
    let error = folder.remove_tree(OsStr::new("top"), EntryKind::Dir).unwrap_err();
    assert!(error.to_string().contains("moved"), "{error}");
    assert!(dir.path().join("elsewhere/file").exists() && dir.path().join("elsewhere/a").exists());
}
