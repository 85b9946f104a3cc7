//! Measures views: `figures DIR [REFS]` look-ups and listings on many refs, `figures commits DIR` how many commits a
//! second several threads make, with syncs. It makes one repository of each format in DIR, removes them afterwards, and
//! prints a table. DIR should be in memory (/dev/shm) for the first and on a disk for the second. docs/benchmarking.md
//! has recorded results.

use bstr::{BStr, BString, ByteSlice};
use refdb::{Change, Edit, Precondition, RefName, Target, transaction::ObjectClass};
use refdb_refcache::{Batch, ListOptions, Trust, TrustSettings, View, ViewSettings, Views, ViewsSettings};
use refdb_types::{HashKind, ObjectId};
use reftable::{RefRecord, RefValue, TableWriter, WriteOptions};
use std::{
    fs,
    hint::black_box,
    io::Write,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

fn main() {
    let mut args = std::env::args_os().skip(1);
    let mut first = args.next().expect("usage: figures DIR [REFS] | figures commits DIR");
    let commits = first == "commits";
    if commits {
        first = args.next().expect("usage: figures commits DIR");
    }
    let dir = PathBuf::from(first);
    if commits {
        return measure_commits(&dir);
    }
    let refs =
        args.next().map_or(1_500_000, |refs| refs.to_str().and_then(|refs| refs.parse().ok()).expect("a number"));
    let names = names(refs);
    for format in ["files", "reftable"] {
        let repo = dir.join(format!("figures-{format}-{}.git", std::process::id()));
        make(&repo, format, &names);
        println!("## {format}, {refs} refs");
        measure(&repo, &names);
        fs::remove_dir_all(&repo).expect("a folder just made can be removed");
    }
}

/// New changes of two refs each, made by so many threads at once for a second.
fn measure_commits(dir: &Path) {
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

/// Three refs a change, as Gerrit has them, and a branch.
fn names(refs: usize) -> Vec<BString> {
    let mut names: Vec<BString> = (0..refs / 3)
        .flat_map(|change| {
            ["1", "2", "meta"].map(|last| format!("refs/changes/{:02}/{change}/{last}", change % 100).into())
        })
        .collect();
    names.push("refs/heads/master".into());
    names.sort_unstable();
    names
}

fn id(at: usize) -> ObjectId {
    let mut bytes = [0; 20];
    for (part, salt) in bytes.chunks_mut(8).zip(1u64..) {
        let mut mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt << 17);
        mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        part.copy_from_slice(&mixed.to_be_bytes()[..part.len()]);
    }
    ObjectId::from_bytes(HashKind::Sha1, &bytes).expect("twenty bytes")
}

fn make(repo: &Path, format: &str, names: &[BString]) {
    for folder in ["objects", "refs/heads", "reftable"] {
        fs::create_dir_all(repo.join(folder)).expect("DIR is writable");
    }
    let reftable = format == "reftable";
    let config = if reftable {
        "\trepositoryformatversion = 1\n[extensions]\n\trefstorage = reftable\n"
    } else {
        "\trepositoryformatversion = 0\n"
    };
    fs::write(repo.join("config"), format!("[core]\n\tbare = true\n{config}")).expect("written");
    fs::write(repo.join("HEAD"), if reftable { "ref: refs/heads/.invalid\n" } else { "ref: refs/heads/master\n" })
        .expect("written");
    if reftable {
        let mut bytes = Vec::new();
        let mut writer = TableWriter::new(WriteOptions::default(), 1, 1, &mut bytes).expect("good options");
        let head =
            RefRecord { name: "HEAD".into(), update_index: 1, value: RefValue::Symbolic("refs/heads/master".into()) };
        writer.add_ref(&head).expect("in order");
        for (at, name) in names.iter().enumerate() {
            let record = RefRecord { name: name.as_bstr(), update_index: 1, value: RefValue::Direct(id(at)) };
            writer.add_ref(&record).expect("in order");
        }
        writer.finish().expect("finished");
        let table = "0x000000000001-0x000000000001-00000001.ref";
        fs::write(repo.join("reftable").join(table), bytes).expect("written");
        fs::write(repo.join("reftable/tables.list"), format!("{table}\n")).expect("written");
    } else {
        let file = fs::File::create(repo.join("packed-refs")).expect("created");
        let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
        out.write_all(b"# pack-refs with: peeled fully-peeled sorted \n").expect("written");
        for (at, name) in names.iter().enumerate() {
            writeln!(out, "{} {name}", id(at)).expect("written");
        }
        out.flush().expect("written");
        fs::remove_dir(repo.join("reftable")).expect("empty");
    }
    // Time stamps that are too recent prove nothing.
    std::thread::sleep(Duration::from_millis(100));
}

fn settings(trust: Trust, believe: Option<Duration>) -> ViewSettings {
    let trust = TrustSettings { packed_refs: trust, loose_refs: trust, tables_list: trust, believe };
    ViewSettings { trust, ..ViewSettings::default() }
}

fn open(repo: &Path, settings: &ViewSettings) -> Arc<View> {
    Views::new(&ViewsSettings::default()).open(repo, settings).expect("opened")
}

fn measure(repo: &Path, names: &[BString]) {
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
    let short =
        |at: usize| ListOptions { prefixes: vec![names[at][..names[at].len() - 1].into()], ..ListOptions::default() };
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

/// The least time of one call, of rounds of many: processor time, since the machine has other things to do.
fn each(count: usize, mut call: impl FnMut()) -> Duration {
    let rounds = count.min(11);
    let per_round = count / rounds;
    let times = (0..rounds).map(|_| {
        let begun = processor_time();
        (0..per_round).for_each(|_| call());
        (processor_time() - begun) / per_round as u32
    });
    times.min().unwrap_or_default()
}

/// Of this thread, in user space and in the kernel.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn show(what: &str, time: Duration) {
    println!("| {what} | {:.2} us |", time.as_nanos() as f64 / 1e3);
}

fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}
