//! Many small repositories in one process: what each costs, and what it costs to come back to one.

use crate::{
    reads::{anonymous_bytes, show},
    repository::{make_at_once, names, settings},
};
use bstr::{BStr, ByteSlice};
use refdb_refcache::{Trust, View, Views, ViewsSettings};
use std::{fs, hint::black_box, path::Path, sync::Arc, time::Instant};

/// The refs of the two changes in a new project, which also has a branch.
const REFS: usize = 6;

pub(crate) fn measure(dir: &Path, projects: usize) {
    for (what, format, tables) in [("files", "files", 0), ("1 table", "reftable", 1), ("5 tables", "reftable", 5)] {
        let folder = dir.join(format!("figures-projects-{}", std::process::id()));
        let paths: Vec<_> = (0..projects).map(|at| folder.join(format!("{at}.git"))).collect();
        for path in &paths {
            make_at_once(path, format, &names(REFS), tables);
        }
        // Time stamps that are too recent prove nothing.
        std::thread::sleep(std::time::Duration::from_millis(100));
        println!("## {what}, {projects} projects");
        let views = Views::new(&ViewsSettings::default());
        let settings = settings(Trust::Always, None);
        let before = (anonymous_bytes(), descriptors());
        let open = |path: &Path| views.open(path, &settings).expect("opened");
        let held: Vec<Arc<View>> = in_turn("open and first look-up", paths.iter(), |path| {
            let view = open(path);
            look_up(&view);
            view
        });
        let grown = anonymous_bytes().saturating_sub(before.0);
        println!("| memory a project | {} bytes |", grown / projects as u64);
        println!("| descriptors | {} |", descriptors() - before.1);
        in_turn("the next look-up", held.iter(), |view| look_up(view));
        in_turn("after that", held.iter().rev().take(20).cycle().take(2000), |view| look_up(view));
        drop(held);
        fs::remove_dir_all(&folder).expect("a folder just made can be removed");
    }
}

fn look_up(view: &View) {
    let name: &BStr = b"refs/heads/master".as_bstr();
    assert!(black_box(view.get(name).expect("readable")).is_some());
}

/// Does something for each, and shows the median of the times that it takes and the time that 95 of 100 do not exceed.
fn in_turn<T, R>(what: &str, each: impl Iterator<Item = T>, mut act: impl FnMut(T) -> R) -> Vec<R> {
    let mut times = Vec::new();
    let done = each
        .map(|one| {
            let begun = Instant::now();
            let done = act(one);
            times.push(begun.elapsed());
            done
        })
        .collect();
    times.sort_unstable();
    show(&format!("{what}, median"), times[times.len() / 2]);
    show(&format!("{what}, 95 of 100"), times[times.len() * 95 / 100]);
    done
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux").count()
}
