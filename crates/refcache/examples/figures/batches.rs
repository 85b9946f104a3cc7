//! Small atomic batches that become loose refs: many threads with folds, and what loose refs cost others.

use crate::{
    repository::{id, loose, open},
    writes::{Temporary, creations, in_ms},
};
use refdb_refcache::{ListOptions, Row, View, Views, ViewsSettings};
use std::{
    fs,
    hint::black_box,
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

const THREADS: usize = 8;

/// The engine's default for `refdb.looseRefs`.
pub(crate) const BOUND: usize = 2048;

/// New changes of two refs that eight threads make in one project, folds included.
pub(crate) fn measure(dir: &Path, refs: usize, seconds: u64, bound: usize) {
    println!(
        "| {THREADS} threads, {refs} refs, {seconds} s | batches/s | p50, p99, longest ms | folds | loose refs | packed-refs.lock held ms |"
    );
    println!("|-|-|-|-|-|-|");
    for format in ["reftable", "files"] {
        let repo = Temporary::make(dir, format, refs);
        let views = Views::new(&ViewsSettings::default());
        let view = views.open(&repo.0, &loose(bound)).expect("opened");
        let (begun, lasts) = (Instant::now(), Duration::from_secs(seconds));
        let is_over = AtomicBool::new(false);
        let (mut times, seen) = thread::scope(|scope| {
            let looking = scope.spawn(|| look_on(&repo.0, &is_over));
            let makers: Vec<_> = (0..THREADS)
                .map(|maker| (maker, &view))
                .map(|(maker, view)| scope.spawn(move || make(view, maker, begun, lasts)))
                .collect();
            let times: Vec<Duration> = makers.into_iter().flat_map(|maker| maker.join().expect("no panic")).collect();
            is_over.store(true, SeqCst);
            (times, looking.join().expect("no panic"))
        });
        let per_second = times.len() as f64 / begun.elapsed().as_secs_f64();
        times.sort_unstable();
        let ms = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
        let holdings = views.holdings();
        println!(
            "| {format} | {per_second:.0} | {:.1}, {:.1}, {:.0} | {}, failed {} | {} at most | {:.0} at most |",
            ms(50),
            ms(99),
            ms(100),
            holdings.background_packs,
            holdings.failed_background_packs,
            seen.loose_max,
            seen.held_max.as_secs_f64() * 1e3
        );
    }
}

/// Makes one change after the other, and returns how long each took.
fn make(view: &View, maker: usize, begun: Instant, lasts: Duration) -> Vec<Duration> {
    let mut times = Vec::new();
    while begun.elapsed() < lasts {
        let change = times.len();
        let names =
            ["1", "meta"].map(|last| format!("refs/changes/{:02}/9{maker}{change:06}/{last}", change % 100).into());
        let began = Instant::now();
        view.commit(&creations(names.into())).expect("committed");
        times.push(began.elapsed());
    }
    times
}

/// What another process could see meanwhile: the most loose refs, and the longest time for which packed-refs was
/// locked.
#[derive(Default)]
struct Seen {
    loose_max: usize,
    held_max: Duration,
}

fn look_on(repo: &Path, is_over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let (mut held, mut counted) = (None, Instant::now());
    while !is_over.load(SeqCst) {
        let lock = fs::symlink_metadata(repo.join("packed-refs.lock")).ok().map(|lock| lock.ino());
        held = match (lock, held) {
            (Some(now), Some((before, since))) if now == before => Some((now, since)),
            (now, before) => {
                let before: Option<(u64, Instant)> = before;
                seen.held_max = seen.held_max.max(before.map_or(Duration::ZERO, |(_, since)| since.elapsed()));
                now.map(|now| (now, Instant::now()))
            }
        };
        if counted.elapsed() > Duration::from_millis(500) && held.is_none() {
            seen.loose_max = seen.loose_max.max(count(&repo.join("refs")));
            counted = Instant::now();
        }
        thread::sleep(Duration::from_micros(500));
    }
    seen
}

fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count_one = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => count(&entry.path()),
        _ => usize::from(!entry.file_name().as_encoded_bytes().ends_with(b".lock")),
    };
    entries.map(count_one).sum()
}

/// Measures lists and look-ups with no loose ref, and with `bound` of them.
pub(crate) fn measure_bound(dir: &Path, refs: usize, bound: usize) {
    println!(
        "| {refs} refs, ms | all refs, read anew | all refs | of one change | which have an id | one ref |\n|-|-|-|-|-|-|"
    );
    let repo = Temporary::make(dir, "files", refs);
    for bound in [0, bound] {
        let view = open(&repo.0, &loose(0));
        for change in 0..bound / 2 {
            let names =
                ["1", "meta"].map(|last| format!("refs/changes/{:02}/9{change:06}/{last}", change % 100).into());
            view.commit(&creations(names.into())).expect("committed");
        }
        // Time stamps that are too recent prove nothing.
        thread::sleep(Duration::from_millis(100));
        let all = |view: &View| list(view, &ListOptions::default());
        let of_change = ListOptions::new().prefixes(vec!["refs/changes/07/9000007/".into()]);
        let tip = id(refs / 2);
        let one = if bound == 0 { "refs/changes/07/7/meta" } else { "refs/changes/07/9000007/meta" };
        let anew = || {
            let view = open(&repo.0, &loose(0));
            timed(1, &mut || all(&view))[0]
        };
        println!(
            "| {bound} loose | {} | {} | {} | {} | {} |",
            in_ms((0..9).map(|_| anew()).collect()),
            in_ms(timed(9, &mut || all(&view))),
            in_us(timed(200, &mut || list(&view, &of_change))),
            in_us(timed(200, &mut || drop(view.pointing_at(&tip).expect("asked")))),
            in_us(timed(2_000, &mut || drop(view.get(one.into()).expect("asked")))),
        );
    }
}

fn list(view: &View, options: &ListOptions) {
    let mut listing = view.list(options).expect("listed");
    let count = &mut |row: &Row<'_>| {
        black_box(row.target);
        ControlFlow::Continue(())
    };
    listing.each(count).expect("read");
}

fn timed(times: usize, act: &mut dyn FnMut()) -> Vec<Duration> {
    let time = |_| {
        let begun = Instant::now();
        act();
        begun.elapsed()
    };
    (0..times).map(time).collect()
}

fn in_us(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    format!("{:.1} us", times[times.len() / 2].as_secs_f64() * 1e6)
}
