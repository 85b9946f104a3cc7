//! Background pack-refs moves the loose refs of small batches into packed-refs, beside writers and lists.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{listed, prefixed, set, unsynced};
use refdb::{Precondition, Target};
use refdb_refcache::{Batch, TrustSettings, View, ViewSettings, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

/// Creates a repository whose packed-refs is so long that a batch of two is worth loose files.
fn repo() -> (Repo, Vec<ObjectId>) {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(7);
    let lines: String = (0..20_000).map(|at| format!("{} refs/old/{at:06}\n", ids[0])).collect();
    let packed = format!("# pack-refs with: peeled fully-peeled sorted \n{lines}");
    assert!(packed.len() > 2 * (512 << 10));
    fs::write(repo.git_dir().join("packed-refs"), packed).unwrap();
    (repo, ids)
}

fn settings(loose_refs: usize, other: &[&str]) -> ViewSettings {
    let bound = format!("refdb.looseRefs={loose_refs}");
    let config = other.iter().copied().chain([&*bound]).map(Into::into).collect();
    unsynced(TrustSettings::default()).config(config)
}

const LOOSE: &str = "refdb.smallBatches=loose";

fn pair(writer: usize, at: usize) -> [String; 2] {
    ["1", "meta"].map(|last| format!("refs/changes/{writer}/{at}/{last}"))
}

fn write(view: &View, writer: usize, at: usize, id: ObjectId) {
    let edits = pair(writer, at).map(|name| set(&name, id, Precondition::MustNotExist));
    let mut batch = Batch::atomic(edits.into());
    batch.options.atomic_visibility = true;
    view.commit(&batch).unwrap();
}

/// Returns the number of refs of changes that have a file of their own.
fn loose(git_dir: &Path) -> usize {
    let (mut count, mut folders) = (0, vec![git_dir.join("refs/changes")]);
    while let Some(folder) = folders.pop() {
        // Background pack-refs removes a folder when it is empty.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => count += usize::from(entry.path().extension().is_none()),
                Err(_) => {}
            }
        }
    }
    count
}

/// Waits until `is_so` holds, for a minute at most.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Requires that a list and git show exactly what was written, given the number of batches of each writer.
fn has_all(repo: &Repo, view: &View, written: &[usize], ids: &[ObjectId]) {
    let listed: HashMap<String, Target> = changes(view);
    let by_git = repo.git(["for-each-ref", "--format=%(refname) %(objectname)", "refs/changes/"]);
    let by_git: HashMap<&str, &str> = by_git.lines().map(|line| line.split_once(' ').unwrap()).collect();
    for (writer, batches) in written.iter().enumerate() {
        for at in 0..*batches {
            let id = ids[at % ids.len()];
            for name in pair(writer, at) {
                assert_eq!(listed[&name], Target::Direct(id), "{name}");
                assert_eq!(by_git[&*name], id.to_string(), "{name}");
            }
        }
    }
    let all = 2 * written.iter().sum::<usize>();
    assert_eq!((listed.len(), by_git.len()), (all, all));
    assert_eq!(view.verify().unwrap().differences, []);
}

fn changes(view: &View) -> HashMap<String, Target> {
    listed(view, &prefixed(&["refs/changes/"])).into_iter().map(|(name, target)| (name.to_string(), target)).collect()
}

#[test]
fn what_is_written_during_a_fold_is_folded_though_nobody_writes_after_it() {
    let (repo, ids) = repo();
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(repo.git_dir(), &settings(8, &[LOOSE])).unwrap();
    write(&view, 0, 0, ids[0]);
    wait_until("the first fold has looked", || !repo.git_dir().join("packed-refs.refdb-fold.lock").exists());
    // The test has the lock, for which the next run waits.
    let lock = repo.git_dir().join("packed-refs.lock");
    fs::write(&lock, "").unwrap();
    (1..4).for_each(|at| write(&view, 0, at, ids[0]));
    // This run must list the loose refs before the writes below. A run that began between those writes would leave the
    // refs of later ones loose, because they would be fewer than the bound.
    wait_until("the fold has listed the loose refs", || repo.git_dir().join("packed-refs.refdb-fold").exists());
    thread::scope(|scope| {
        for at in 4..8 {
            let (view, ids) = (&view, &ids);
            scope.spawn(move || write(view, 0, at, ids[0]));
        }
    });
    // By now no writer holds the lock of a ref, which would keep the ref loose.
    assert_eq!(loose(repo.git_dir()), 16);
    fs::remove_file(&lock).unwrap();
    wait_until("all are folded", || loose(repo.git_dir()) == 0);
}

#[test]
fn ten_times_the_bound_is_written_and_less_than_twice_the_bound_is_loose() {
    const BOUND: usize = 200;
    const WRITERS: usize = 4;
    const BATCHES: usize = 10 * BOUND / 2 / WRITERS;
    let (repo, ids) = repo();
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(repo.git_dir(), &settings(BOUND, &[LOOSE])).unwrap();
    let written: [AtomicUsize; WRITERS] = Default::default();
    let is_over = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let counting = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(SeqCst) {
                most = most.max(loose(repo.git_dir()));
                thread::sleep(Duration::from_millis(5));
            }
            most
        });
        let listing = scope.spawn(|| {
            while !is_over.load(SeqCst) {
                let before: Vec<usize> = written.iter().map(|count| count.load(SeqCst)).collect();
                let all = changes(&view);
                for (writer, batches) in before.into_iter().enumerate() {
                    for at in 0..batches {
                        let expected = Target::Direct(ids[at % ids.len()]);
                        pair(writer, at).iter().for_each(|name| assert_eq!(all.get(name), Some(&expected), "{name}"));
                    }
                }
                assert!(all.len().is_multiple_of(2), "no batch is seen in part");
                thread::sleep(Duration::from_millis(5));
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (view, ids, written) = (&view, &ids, &written);
                scope.spawn(move || {
                    for at in 0..BATCHES {
                        write(view, writer, at, ids[at % ids.len()]);
                        written[writer].store(at + 1, SeqCst);
                    }
                })
            })
            .collect();
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        is_over.store(true, SeqCst);
        listing.join().unwrap();
        ends.into_iter().for_each(|end| end.unwrap());
        counting.join().unwrap()
    });
    assert!((BOUND / 2..2 * BOUND).contains(&most), "{most} were loose at once");
    assert!(views.holdings().background_packs >= 3, "{:?}", views.holdings());
    has_all(&repo, &view, &[BATCHES; WRITERS], &ids);
}

#[test]
fn a_fold_that_fails_stops_no_writer_and_is_tried_again() {
    let (repo, ids) = repo();
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(repo.git_dir(), &settings(8, &[LOOSE, "core.packedRefsTimeout=0"])).unwrap();
    let lock = repo.git_dir().join("packed-refs.lock");
    fs::write(&lock, "").unwrap();
    let mut written = 0;
    let mut write_one = || {
        write(&view, 0, written, ids[written % ids.len()]);
        written += 1;
    };
    wait_until("it fails more than once", || {
        write_one();
        views.holdings().failed_background_packs >= 2
    });
    assert_eq!(views.holdings().background_packs, 0);
    wait_until("a log is told of it", || {
        write_one();
        view.unreported() > 0
    });
    let told = view.take_failing_pack().unwrap();
    assert!(told.contains("packed-refs.lock"), "{told}");
    assert_eq!((view.unreported(), view.take_failing_pack()), (0, None), "once");
    fs::remove_file(&lock).unwrap();
    wait_until("it is made once it can be", || {
        write_one();
        views.holdings().background_packs > 0
    });
    assert!(loose(repo.git_dir()) < written, "{} of {written} pairs", loose(repo.git_dir()));
    has_all(&repo, &view, &[written], &ids);
}

#[test]
fn a_fold_that_failed_is_made_again_though_nobody_writes_after_it() {
    let (repo, ids) = repo();
    let views = Views::new(&ViewsSettings::default());
    let open = || views.open(repo.git_dir(), &settings(8, &[LOOSE, "core.packedRefsTimeout=0"])).unwrap();
    let view = open();
    write(&view, 0, 0, ids[0]);
    let lock = repo.git_dir().join("packed-refs.lock");
    fs::write(&lock, "").unwrap();
    (1..8).for_each(|at| write(&view, 0, at, ids[0]));
    wait_until("a fold has failed", || views.holdings().failed_background_packs > 0);
    wait_until("it is tried again", || views.holdings().failed_background_packs > 2);
    assert_eq!(loose(repo.git_dir()), 16);
    fs::remove_file(&lock).unwrap();
    wait_until("all are folded", || loose(repo.git_dir()) == 0 && views.holdings().background_packs > 0);
    // A run that waits to be tried again does not delay the end of the views.
    fs::write(&lock, "").unwrap();
    let before = views.holdings().failed_background_packs;
    (8..16).for_each(|at| write(&view, 0, at, ids[0]));
    wait_until("a fold has failed", || views.holdings().failed_background_packs > before + 3);
    let asked = Instant::now();
    drop((view, views));
    assert!(asked.elapsed() < Duration::from_secs(30), "it took {:?}", asked.elapsed());
}

#[test]
fn a_lock_of_folds_that_nobody_gives_up_is_told_of() {
    let (repo, ids) = repo();
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(repo.git_dir(), &settings(8, &[LOOSE])).unwrap();
    fs::write(repo.git_dir().join("packed-refs.refdb-fold.lock"), "").unwrap();
    let mut written = 0;
    wait_until("a log is told of it", || {
        write(&view, 0, written, ids[written % ids.len()]);
        written += 1;
        view.unreported() > 0
    });
    let told = view.take_failing_pack().unwrap();
    assert!(told.contains("packed-refs.refdb-fold.lock"), "{told}");
    assert!(views.holdings().failed_background_packs > 0, "and an alarm is raised");
}

#[test]
fn nothing_is_folded_unless_small_batches_become_loose_files() {
    let (repo, ids) = repo();
    for (writer, settings) in [settings(1, &[]), settings(0, &[LOOSE])].into_iter().enumerate() {
        let views = Views::new(&ViewsSettings::default());
        let view = views.open(repo.git_dir(), &settings).unwrap();
        let before = loose(repo.git_dir());
        for at in 0..20 {
            write(&view, writer, at, ids[at % ids.len()]);
            let single = set(&format!("refs/changes/{writer}/{at}/single"), ids[0], Precondition::Any);
            view.commit(&Batch::atomic(vec![single])).unwrap();
        }
        assert!(loose(repo.git_dir()) >= before + 20, "they stay");
        drop(view);
        // If a run were under way, this would wait for it.
        drop(views);
        assert!(loose(repo.git_dir()) >= before + 20, "they stay");
    }
}

#[test]
fn a_fold_ends_with_the_views() {
    let (repo, ids) = repo();
    let mut written = 0;
    for round in 0..10 {
        let views = Views::new(&ViewsSettings::default());
        let view = views.open(repo.git_dir(), &settings(40, &[LOOSE])).unwrap();
        for _ in 0..60 {
            write(&view, 0, written, ids[written % ids.len()]);
            written += 1;
        }
        thread::sleep(Duration::from_millis(round));
        drop(view);
        drop(views);
        // No lock is held or left.
        let left: Vec<String> = refdb_testkit::files_below(repo.git_dir())
            .into_iter()
            .filter(|name| name.ends_with(".lock") || name.contains("refdb-fold"))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    }
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(repo.git_dir(), &settings(40, &[LOOSE])).unwrap();
    has_all(&repo, &view, &[written], &ids);
}

#[test]
fn where_it_is_auto_small_batches_are_loose_unless_git_may_pack_by_itself() {
    const AUTO: &str = "refdb.smallBatches=auto";
    const NO: [&str; 2] = ["gc.packRefs=false", "maintenance.pack-refs.enabled=false"];
    let (repo, ids) = repo();
    let open = |views: &Views, other: &[&str]| views.open(repo.git_dir(), &settings(1_000, other)).unwrap();
    let views = Views::new(&ViewsSettings::default());
    let view = open(&views, &[AUTO, NO[0]]);
    let told = |view: &View| view.take_git_packs().map(|found| found.to_string());
    assert_eq!((view.stats().git_packs, view.unreported()), (2, 1));
    assert_eq!(told(&view).as_deref(), Some("maintenance.pack-refs.enabled is not set"));
    assert_eq!((told(&view), view.unreported()), (None, 0));
    write(&view, 0, 0, ids[0]);
    assert_eq!(loose(repo.git_dir()), 0);
    // No configuration file gives the reason, so another view does not report it again.
    drop(view);
    assert_eq!(told(&open(&views, &[AUTO, NO[0]])), None);

    let view = open(&views, &[AUTO, NO[0], NO[1]]);
    write(&view, 0, 1, ids[0]);
    assert_eq!((loose(repo.git_dir()), view.stats().git_packs), (2, 0));
    // The next batch after a change of the repository's own configuration heeds it.
    repo.config("gc.packRefs", "true");
    write(&view, 0, 2, ids[0]);
    assert_eq!((loose(repo.git_dir()), view.stats().git_packs), (2, 1));
    let told = told(&view).unwrap();
    assert!(told.starts_with("gc.packRefs is true in '") && told.ends_with("config'"), "{told}");
    repo.config("gc.packRefs", "false");
    write(&view, 0, 3, ids[0]);
    assert_eq!((loose(repo.git_dir()), view.stats().git_packs), (4, 0));
}
