//! A migration removes nothing through a symbolic link that takes the place of the folder at work.
//!
//! The links lead to folders that the tests have made. The tests do nothing as root; scripts/tests/test-as-user runs
//! them as another user.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use refdb::{MigrateOptions, RefFormat, Store};
use refdb_testkit::Repo;
use refdb_types::HashKind;
use refdb_vfs::{Fs, IoHook, Op, Verdict, effective_user};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// Before one of the removals, replaces the folder of the removed entry by a link to a copy of that folder.
struct Swap {
    is_meant: fn(&Path) -> bool,
    copy: PathBuf,
    state: Mutex<State>,
}

struct State {
    removals_left: usize,
    /// The folder that was replaced, and the content of its copy.
    swapped: Option<(PathBuf, Vec<PathBuf>)>,
}

impl IoHook for Swap {
    fn before(&self, op: Op<'_>) -> Verdict {
        let (Op::Remove(path) | Op::RemoveDir(path)) = op else { return Verdict::Proceed };
        let folder = path.parent().unwrap();
        let mut state = self.state.lock().unwrap();
        // A lock is released by its path, as it was taken.
        let is_lock = path.extension().is_some_and(|extension| extension == "lock");
        if !(self.is_meant)(folder) || is_lock || state.swapped.is_some() {
            return Verdict::Proceed;
        }
        if state.removals_left > 0 {
            state.removals_left -= 1;
            return Verdict::Proceed;
        }
        copy(folder, &self.copy);
        std::fs::rename(folder, self.copy.with_extension("moved")).unwrap();
        std::os::unix::fs::symlink(&self.copy, folder).unwrap();
        state.swapped = Some((folder.to_owned(), content(&self.copy)));
        Verdict::Proceed
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Returns the paths of everything in a folder.
fn content(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(content(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Runs the migration again and again, with another one of its removals disturbed each time. Returns the number of
/// removals.
fn disturb_each(make: fn() -> Repo, to: RefFormat, is_meant: fn(&Path) -> bool) -> usize {
    for at in 0.. {
        let repo = make();
        let copy = repo.scratch().join("copy");
        let state = Mutex::new(State { removals_left: at, swapped: None });
        let swap = Arc::new(Swap { is_meant, copy: copy.clone(), state });
        let options = MigrateOptions::new(to);
        let store = Store::builder(repo.git_dir()).fs(Fs::with_hook(swap.clone())).open().unwrap();
        // The result does not matter, because a folder disappeared during the work.
        let _ = store.migrate(&options, &mut |_| {});
        let Some((folder, before)) = swap.state.lock().unwrap().swapped.take() else { return at };
        let after = content(&copy);
        let missing: Vec<_> = before.iter().filter(|path| !after.contains(path)).collect();
        assert!(missing.is_empty(), "removal {at}, in {}: {missing:?}", folder.display());
    }
    unreachable!("a migration ends")
}

fn repo(format: refdb_testkit::RefFormat) -> Repo {
    let repo = Repo::bare(format, HashKind::Sha1);
    repo.config("core.logAllRefUpdates", "true");
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id), ("refs/heads/a/b", id), ("refs/tags/v1", id)]);
    repo
}

#[test]
fn a_link_in_the_place_of_a_folder_of_a_migration_loses_nothing_behind_it() {
    if effective_user() == 0 {
        return;
    }
    let is_meant = |folder: &Path| folder.to_string_lossy().contains("/ref_migration");
    let from_files = disturb_each(|| repo(refdb_testkit::RefFormat::Files), RefFormat::Reftable, is_meant);
    let from_tables = disturb_each(|| repo(refdb_testkit::RefFormat::Reftable), RefFormat::Files, is_meant);
    assert!(from_files > 10 && from_tables > 5, "{from_files}, {from_tables}");
}

#[test]
fn a_link_in_the_place_of_a_folder_of_reflogs_without_refs_loses_nothing_behind_it() {
    if effective_user() == 0 {
        return;
    }
    let make = || {
        let repo = repo(refdb_testkit::RefFormat::Reftable);
        let folder = repo.git_dir().join("logs/refs/lone");
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["a", "b"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        repo
    };
    let is_meant = |folder: &Path| folder.ends_with("logs/refs/lone");
    assert_eq!(disturb_each(make, RefFormat::Files, is_meant), 2);
}
