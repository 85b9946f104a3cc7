//! Look-ups and listings.

use crate::repository::{id, make, names, open, settings};
use bstr::{BStr, BString, ByteSlice};
use refdb_refcache::{ListOptions, Trust, View};
use std::{fs, hint::black_box, ops::ControlFlow, path::Path, time::Duration};

pub(crate) fn measure(dir: &Path, refs: usize) {
    let names = names(refs);
    for format in ["files", "reftable"] {
        let repo = dir.join(format!("figures-{format}-{}.git", std::process::id()));
        make(&repo, format, &names);
        println!("## {format}, {refs} refs");
        measure_one(&repo, &names);
        fs::remove_dir_all(&repo).expect("a folder just made can be removed");
    }
}

fn measure_one(repo: &Path, names: &[BString]) {
    let trusting = settings(Trust::Always, None);
    let probe = names[names.len() / 3].as_bstr();
    show(
        "open and first look-up",
        each(50, || {
            let view = open(repo, &trusting);
            black_box(view.get(probe).expect("readable").expect("there"));
        }),
    );
    let view = open(repo, &trusting);
    let before = anonymous_bytes();
    let grown = |what: &str| {
        println!("| memory after {what} | {:.1} MB |", (anonymous_bytes().saturating_sub(before)) as f64 / 1e6);
    };
    look_ups(&view, names, "always");
    grown("look-ups");
    let stat = each(20_000, || {
        let _ = black_box(fs::metadata(repo.join("refs/heads/nothing-of-that-name")));
        let _ = black_box(fs::metadata(repo.join("packed-refs")));
    });
    show("two stats, for comparison", stat);
    let short = |at: usize| ListOptions::new().prefixes(vec![names[at][..names[at].len() - 1].into()]);
    let mut at = 0;
    show(
        "prefix of one change",
        each(2000, || {
            at = (at + 7919) % names.len();
            let mut listing = view.list(&short(at)).expect("readable");
            while let Some(row) = listing.next().expect("readable") {
                black_box(row);
            }
        }),
    );
    show(
        "list all",
        each(7, || {
            let mut bytes = 0;
            let mut listing = view.list(&ListOptions::default()).expect("readable");
            let mut refs = 0;
            listing
                .each(&mut |row| {
                    bytes += row.name.len();
                    refs += 1;
                    black_box(row.target);
                    ControlFlow::Continue(())
                })
                .expect("readable");
            assert_eq!(refs, names.len());
        }),
    );
    show(
        "refs by object, the first time",
        each(1, || assert_eq!(view.pointing_at(&id(5)).expect("readable").len(), 1)),
    );
    show(
        "refs by object",
        each(2000, || {
            at = (at + 7919) % names.len();
            assert_eq!(view.pointing_at(&id(at)).expect("readable"), [names[at].as_bstr()]);
        }),
    );
    println!("| private bytes of the view | {:.1} MB |", view.stats().bytes as f64 / 1e6);
    grown("everything");
    look_ups(&open(repo, &settings(Trust::AfterOpen, None)), names, "after_open");
    look_ups(&open(repo, &settings(Trust::Never, None)), names, "never");
    look_ups(&open(repo, &settings(Trust::Always, Some(Duration::from_secs(3600)))), names, "trustMillis");
}

fn look_ups(view: &View, names: &[BString], trust: &str) {
    let get = |name: &BStr| assert!(black_box(view.get(name).expect("readable")).is_some());
    let count = if trust == "never" { 2000 } else { 200_000 };
    let hot: Vec<&BStr> = names.iter().step_by(names.len() / 100).map(|name| name.as_bstr()).collect();
    for name in &hot {
        get(name);
    }
    let mut at = 0;
    show(
        &format!("look-up, {trust}, of a hundred names in turn"),
        each(count, || {
            at = (at + 1) % hot.len();
            get(hot[at]);
        }),
    );
    show(
        &format!("look-up, {trust}, anywhere"),
        each(count, || {
            at = (at + 790_211) % names.len();
            get(names[at].as_bstr());
        }),
    );
}

/// Returns the mean time of a call in the fastest of up to eleven rounds. It is processor time, since the machine may
/// have other things to do.
fn each(count: usize, mut call: impl FnMut()) -> Duration {
    let rounds = count.min(11);
    let per_round = count / rounds;
    let times = (0..rounds).map(|_| each_of(per_round as u32, &mut call));
    times.min().unwrap_or_default()
}

/// Returns the mean processor time of `count` calls.
pub(crate) fn each_of(count: u32, mut call: impl FnMut()) -> Duration {
    let begun = processor_time();
    (0..count).for_each(|_| call());
    (processor_time() - begun) / count
}

/// The processor time of this thread, in user space and in the kernel.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub(crate) fn show(what: &str, time: Duration) {
    println!("| {what} | {:.2} us |", time.as_nanos() as f64 / 1e3);
}

pub(crate) fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}
