//! Files of a network file system that another machine replaces while they are read. A planted fault lets them be lost
//! with their last name, as a server of NFS 3 does.
#![allow(clippy::unwrap_used, reason = "tests")]

use bstr::{BStr, ByteSlice};
use refdb::{Answers, BrokenRef, Cursor, Environment, Probe, Store, TargetView};
use refdb_testkit::{RefFormat, Repo, run_with_fault};
use refdb_types::HashKind;
use std::{
    fmt::Write,
    fs,
    ops::ControlFlow,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

const FIRST: &str = "1111111111111111111111111111111111111111";
const SECOND: &str = "2222222222222222222222222222222222222222";

/// Runs a test of this file again, in a process in which files are lost.
fn with_losses(test: &str) {
    run_with_fault(test, "vfs-stale");
}

fn name(at: usize) -> String {
    format!("refs/heads/{at:06}")
}

/// Replaces packed-refs as another machine does. It is read in many pages.
fn pack(git_dir: &Path, id: &str, ats: impl Iterator<Item = usize>) {
    let mut packed = String::from("# pack-refs with: peeled fully-peeled sorted \n");
    ats.for_each(|at| writeln!(packed, "{id} {}", name(at)).unwrap());
    fs::write(git_dir.join("packed-refs.new"), packed).unwrap();
    fs::rename(git_dir.join("packed-refs.new"), git_dir.join("packed-refs")).unwrap();
}

const COUNT: usize = 20_000;

/// A repository with loose refs among many packed ones.
fn repository() -> (Repo, Store) {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    pack(repo.git_dir(), FIRST, 0..COUNT);
    for at in [5, 15_000] {
        fs::write(repo.git_dir().join(name(at)), format!("{FIRST}\n")).unwrap();
    }
    let environment = Environment::empty(repo.git_dir()).with("GIT_DIR", repo.git_dir());
    let store = Store::builder_in(environment).open().unwrap();
    (repo, store)
}

/// The next refs, each as its name and whether it has the second value.
fn take(cursor: &mut dyn Cursor, count: usize) -> Vec<(String, bool)> {
    let mut refs = Vec::new();
    while refs.len() < count
        && let Some(view) = cursor.next().unwrap()
    {
        let TargetView::Direct(id) = view.target else { panic!("no ref is symbolic") };
        refs.push((view.name.to_str().unwrap().to_owned(), id.to_string() == SECOND));
    }
    refs
}

/// Runs `reads` while another thread calls `replace` again and again, at most five times during each of the reads, of
/// which `reads` counts the finished ones. A read begins again at most eight times, so it must succeed.
fn while_replaced(mut replace: impl FnMut(), reads: impl FnOnce(&AtomicUsize) -> Result<(), String> + Send) {
    let finished = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| reads(&finished));
        let (mut read, mut replaced) = (0, 0);
        while !reads.is_finished() {
            let now = finished.load(Ordering::Relaxed);
            if now != read {
                (read, replaced) = (now, 0);
            }
            if replaced == 5 {
                std::thread::yield_now();
                continue;
            }
            replace();
            replaced += 1;
        }
        assert_eq!(reads.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_walk_goes_on_behind_its_last_ref_in_the_packed_refs_that_replaced_those_that_are_lost() {
    with_losses("walks_of_files_that_are_lost");
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn walks_of_files_that_are_lost() {
    let (repo, store) = repository();
    let check = |refs: Vec<(String, bool)>, shown: usize| {
        // A loose ref keeps its own value.
        let is_loose = |at: usize| at == 5 || at == 15_000;
        // What was read together with the ref that was shown when the file was lost is as it was.
        let old = refs.iter().rposition(|(at, is_new)| !is_new && !is_loose(at[11..].parse().unwrap())).unwrap();
        assert!((shown - 1..shown + 2_000).contains(&old), "{old} after {shown}");
        let ahead = (old + 1..COUNT + 10).filter(|at| *at != 12_345).map(|at| (name(at), !is_loose(at)));
        let expected: Vec<_> = (0..=old).map(|at| (name(at), false)).chain(ahead).collect();
        assert!(refs == expected, "after {shown}");
    };
    let change = || pack(repo.git_dir(), SECOND, (0..COUNT + 10).filter(|at| *at != 12_345));
    for shown in [1, 7, 3_000, 12_000] {
        pack(repo.git_dir(), FIRST, 0..COUNT);
        let snapshot = store.snapshot().unwrap();
        let mut cursor = snapshot.cursor(false).unwrap();
        let mut refs = take(&mut *cursor, shown);
        change();
        refs.extend(take(&mut *cursor, usize::MAX));
        check(refs, shown);

        pack(repo.git_dir(), FIRST, 0..COUNT);
        let mut cursor = snapshot.cursor(false).unwrap();
        let mut refs = Vec::new();
        let flow = cursor.for_each(&mut |view| {
            let TargetView::Direct(id) = view.target else { panic!("no ref is symbolic") };
            refs.push((view.name.to_str().unwrap().to_owned(), id.to_string() == SECOND));
            if refs.len() == shown {
                change();
            }
            ControlFlow::Continue(())
        });
        assert_eq!(flow.unwrap(), ControlFlow::Continue(()));
        check(refs, shown);
    }
}

#[test]
fn a_ref_is_looked_up_in_the_packed_refs_that_replaced_those_that_are_lost() {
    with_losses("look_ups_in_files_that_are_lost");
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn look_ups_in_files_that_are_lost() {
    let (repo, store) = repository();
    while_replaced(
        || pack(repo.git_dir(), FIRST, 0..COUNT),
        |finished| {
            for at in (6..COUNT - 1).step_by(7).filter(|at| *at != 15_000) {
                let found = store.snapshot().unwrap().get(name(at).as_str().into());
                if !found.as_ref().is_ok_and(Option::is_some) {
                    return Err(format!("{at}: {found:?}"));
                }
                finished.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        },
    );
}

/// Replaces the only table of a stack by one with the same refs and another name, as a compaction does.
fn compact(git_dir: &Path, at: usize) {
    let folder = git_dir.join("reftable");
    let old = fs::read_to_string(folder.join("tables.list")).unwrap();
    let new = format!("{}-{at:08x}.ref\n", old.rsplit_once('-').unwrap().0);
    fs::copy(folder.join(old.trim_end()), folder.join(new.trim_end())).unwrap();
    fs::write(folder.join("tables.list.new"), &new).unwrap();
    fs::rename(folder.join("tables.list.new"), folder.join("tables.list")).unwrap();
    fs::remove_file(folder.join(old.trim_end())).unwrap();
}

#[test]
fn a_ref_is_looked_up_in_the_table_that_replaced_one_that_is_lost() {
    with_losses("look_ups_in_tables_that_are_lost");
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn look_ups_in_tables_that_are_lost() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let commit = repo.commits(1)[0];
    let names: Vec<String> = (0..2_000).map(name).collect();
    repo.create_refs(names.iter().map(|name| (name, commit)));
    repo.git(["pack-refs"]);
    let environment = Environment::empty(repo.git_dir()).with("GIT_DIR", repo.git_dir());
    let (store, git_dir) = (Store::builder_in(environment).open().unwrap(), repo.git_dir());
    let mut at = 0;
    while_replaced(
        || {
            at += 1;
            compact(git_dir, at);
        },
        |finished| {
            let finish = || finished.fetch_add(1, Ordering::Relaxed);
            for name in &names {
                let found = store.get(name.as_str().into());
                if !found.as_ref().is_ok_and(Option::is_some) {
                    return Err(format!("{name}: {found:?}"));
                }
                finish();
                // A list may fail behind its first refs, which have been shown.
                let mut shown = 0;
                let visited = store.visit("refs/", |row| {
                    shown += row.is_ok() as usize;
                    Ok(if shown < 1_900 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
                });
                if shown == 0 || visited.as_ref().is_err_and(|error| !error.to_string().ends_with("try again")) {
                    return Err(format!("a list: {visited:?}"));
                }
                finish();
                if let Err(error) = store.refs("refs/") {
                    return Err(format!("a list in parts: {error:?}"));
                }
                finish();
            }
            Ok(())
        },
    );
}

#[test]
fn a_seek_goes_to_the_packed_refs_that_replaced_those_that_are_lost() {
    with_losses("seeks_in_files_that_are_lost");
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn seeks_in_files_that_are_lost() {
    let (repo, store) = repository();
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.cursor(false).unwrap();
    assert_eq!(take(&mut *cursor, 2).len(), 2);
    pack(repo.git_dir(), SECOND, 0..COUNT);
    cursor.seek(name(10_000).as_str().into()).unwrap();
    assert_eq!(take(&mut *cursor, 2), [(name(10_000), true), (name(10_001), true)]);
}

/// Answers to probes, during which another machine replaces packed-refs once.
struct Replacing<'a> {
    git_dir: &'a Path,
    after: usize,
    found: Vec<String>,
    below: Vec<String>,
}

impl Answers for Replacing<'_> {
    fn value(&mut self, _: usize, value: Option<TargetView<'_>>) -> refdb::Result<()> {
        let Some(TargetView::Direct(id)) = value else { return Ok(()) };
        self.found.push(id.to_string());
        if self.found.len() == self.after {
            pack(self.git_dir, SECOND, 0..COUNT);
        }
        Ok(())
    }

    fn broken(&mut self, _: usize, broken: BrokenRef) -> refdb::Result<()> {
        panic!("{broken}")
    }

    fn below(&mut self, _: usize, child: &BStr) -> refdb::Result<()> {
        self.below.push(child.to_string());
        Ok(())
    }
}

#[test]
fn many_refs_are_probed_in_the_packed_refs_that_replaced_those_that_are_lost() {
    with_losses("probes_of_files_that_are_lost");
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn probes_of_files_that_are_lost() {
    let (repo, store) = repository();
    let names: Vec<String> = (6..14_000).step_by(7).map(name).collect();
    for after in [1, 100, 1_500] {
        pack(repo.git_dir(), FIRST, 0..COUNT);
        let snapshot = store.snapshot().unwrap();
        let mut answers = Replacing { git_dir: repo.git_dir(), after, found: Vec::new(), below: Vec::new() };
        let mut probes = names.iter().map(|name| Probe { name: name.as_str().into(), below: true });
        snapshot.probe(&mut probes, &mut answers).unwrap();
        assert_eq!(answers.found.len(), names.len(), "after {after}");
        assert_eq!(answers.found.last().map(String::as_str), Some(SECOND), "after {after}");
        assert_eq!(answers.below, Vec::<String>::new());
    }
}
