//! Batches, with syncs.

use crate::repository::{id, loose, make, names, open, settings};
use bstr::BString;
use refdb::{Change, Edit, Precondition, RefName, Target, transaction::ObjectClass};
use refdb_refcache::{Batch, Trust, View};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Measures how many new changes of two refs each several threads make at once, in two seconds for each number of
/// threads.
pub(crate) fn measure_commits(dir: &Path) {
    println!("| commits/s | threads | mean group |\n|-|-|-|");
    for format in ["files", "reftable"] {
        for threads in [1, 2, 4, 8] {
            let repo = dir.join(format!("figures-{format}-{}.git", std::process::id()));
            make(&repo, format, &names(3000));
            let view = open(&repo, &settings(Trust::Always, None));
            let begun = Instant::now();
            let made: usize = std::thread::scope(|scope| {
                let makers: Vec<_> = (0..threads)
                    .map(|maker| {
                        scope.spawn({
                            let view = &view;
                            move || make_changes(view, begun, maker)
                        })
                    })
                    .collect();
                makers.into_iter().map(|maker| maker.join().expect("no panic")).sum()
            });
            let per_second = made as f64 / begun.elapsed().as_secs_f64();
            let stats = view.stats();
            let group = stats.commits as f64 / stats.groups.max(1) as f64;
            println!("| {format}: {per_second:.0} | {threads} | {group:.1} |");
            fs::remove_dir_all(&repo).expect("a folder just made can be removed");
        }
    }
}

fn make_changes(view: &View, begun: Instant, maker: usize) -> usize {
    let mut made = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        let id = id(maker << 20 | made);
        let edits = ["1", "meta"].map(|last| {
            let name = format!("refs/changes/{:02}/{maker}{made:06}/{last}", made % 100);
            let name = RefName::new(name).expect("a good name");
            Edit::new(name, Change::Set(Target::Direct(id)), Precondition::MustNotExist)
        });
        view.commit(&Batch::atomic(edits.into()).knowing(id, ObjectClass::Commit)).expect("committed");
        made += 1;
    }
    made
}

/// Measures 10,000 new refs on 100,000: all in one folder that exists, or two in each of 5,000 folders that do not.
pub(crate) fn measure_bulk(dir: &Path) {
    const NEW: usize = 10_000;
    println!("| 10,000 on 100,000 | ms |\n|-|-|");
    for format in ["files", "reftable"] {
        for (layout, name) in [
            ("one folder", &(|at| format!("refs/heads/new-{at:05}")) as &dyn Fn(usize) -> String),
            ("a folder for two", &|at| {
                format!("refs/changes/{:02}/9{:05}/{}", at / 2 % 100, at / 2, ["1", "meta"][at % 2])
            }),
        ] {
            let times = (0..3).map(|_| {
                let repo = Temporary::make(dir, format, 100_000);
                let view = open(&repo.0, &settings(Trust::Always, None));
                let batch = creations((0..NEW).map(name).map(BString::from).collect());
                let begun = Instant::now();
                view.commit(&batch).expect("committed");
                begun.elapsed()
            });
            println!("| {format}, {layout} | {} |", in_ms(times.collect()));
        }
    }
}

/// Measures a new change of two refs on very many, again and again. For comparison, packed-refs or the list of tables
/// is copied, synced and renamed.
pub(crate) fn measure_change(dir: &Path, refs: usize) {
    println!("| a change on {refs} refs | ms |\n|-|-|");
    let packed = settings(Trust::Always, None);
    let kinds =
        [("files", "files", packed.clone()), ("files", "files, loose", loose(0)), ("reftable", "reftable", packed)];
    for (format, shown, settings) in kinds {
        let repo = Temporary::make(dir, format, refs);
        let view = open(&repo.0, &settings);
        let copied = repo.0.join(if format == "files" { "packed-refs" } else { "reftable/tables.list" });
        let (mut ours, mut copies) = (Vec::new(), Vec::new());
        for change in 0..11 {
            let names = ["1", "meta"].map(|last| format!("refs/changes/{change:02}/9{change:05}/{last}").into());
            let batch = creations(names.into());
            let begun = Instant::now();
            view.commit(&batch).expect("committed");
            ours.push(begun.elapsed());
            // A change that becomes loose refs does not write packed-refs, and after a copy it would first have to read
            // the new file.
            if shown == format {
                let begun = Instant::now();
                copy_synced(&copied);
                copies.push(begun.elapsed());
            }
        }
        println!("| {shown} | {} |", in_ms(ours));
        if shown == format {
            println!("| {format}: copying {} bytes | {} |", fs::metadata(&copied).expect("there").len(), in_ms(copies));
        }
    }
}

/// Copies a file, syncs the copy, puts it in the file's place and syncs the folder.
fn copy_synced(path: &Path) {
    let new = path.with_extension("copy");
    fs::copy(path, &new).expect("copied");
    fs::File::open(&new).expect("there").sync_all().expect("synced");
    fs::rename(&new, path).expect("renamed");
    let folder = path.parent().expect("a file lies in a folder");
    fs::File::open(folder).expect("there").sync_all().expect("synced");
}

/// Returns a batch that creates these refs, with the options that Java sets.
pub(crate) fn creations(names: Vec<BString>) -> Batch {
    let mut batch = Batch::default();
    batch.options = batch.options.skip_hook(true).atomic_visibility(true).allow_replacing_parents(true);
    for (at, name) in names.into_iter().enumerate() {
        let id = id(at % 1000);
        let name = RefName::new(name).expect("a good name");
        batch.edits.push(Edit::new(name, Change::Set(Target::Direct(id)), Precondition::MustNotExist));
        batch = batch.knowing(id, ObjectClass::Commit);
    }
    batch
}

/// A repository that is removed in the end.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    pub(crate) fn make(dir: &Path, format: &str, refs: usize) -> Self {
        let repo = dir.join(format!("figures-{format}-{}.git", std::process::id()));
        make(&repo, format, &names(refs));
        Temporary(repo)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Shows the median, the least and the greatest time in milliseconds.
pub(crate) fn in_ms(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let ms = |at: usize| times[at].as_secs_f64() * 1e3;
    format!("{:.1} ({:.1} to {:.1})", ms(times.len() / 2), ms(0), ms(times.len() - 1))
}
