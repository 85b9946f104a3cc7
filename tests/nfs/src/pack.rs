//! How long `pack-refs` keeps the lock of packed-refs from other machines, in a repository with millions of packed
//! refs.

use crate::node::Cluster;
use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Changes in the repository, each of which has two packed refs.
const CHANGES: usize = 1_500_000;
/// Loose refs.
const LOOSE: usize = 10_000;
/// The time after which a packing is given up.
const PACKING_MAX: Duration = Duration::from_secs(1500);

const SHARE: &str = "/mnt/disk/share";

/// Packs with each engine on the first client, while a view on the second one creates and deletes a ref, and prints a
/// table.
pub(crate) fn run(cluster: &Cluster, engines: &[(&str, &str)]) {
    let id = make_repository(cluster);
    println!(
        "{} packed and {LOOSE} loose refs; s | lock held longest, ms | updates beside it | slowest, ms",
        2 * CHANGES
    );
    for (engine, command) in engines {
        let repo = format!("{engine}.git");
        cluster.shell(0, &format!("cd {SHARE} && cp -a base.git {repo} && sync"));
        let program = std::env::current_exe().expect("this program has a path");
        let watch = format!("watch packed-refs.lock {SHARE}/{repo}.done >{SHARE}/{repo}.held");
        let in_background = "</dev/null >/dev/null 2>&1 &";
        cluster.shell(0, &format!("(cd {SHARE}/{repo} && exec {} {watch}) {in_background}", program.display()));
        let path = format!("/mnt/share/{repo}");
        let is_over = AtomicBool::new(false);
        let (packed, (updates, slowest)) = thread::scope(|scope| {
            let writer = scope.spawn(|| write_beside(cluster, &path, &id, &is_over));
            let packed = pack(cluster, &path, command);
            is_over.store(true, Relaxed);
            (packed, writer.join().expect("the writer ends"))
        });
        let took = packed.unwrap_or_else(|said| panic!("{command}: {said}")).as_secs_f64();
        cluster.shell(0, &format!("touch {SHARE}/{repo}.done; sleep 1"));
        let held = cluster.shell(0, &format!("cat {SHARE}/{repo}.held"));
        let left = cluster.shell(0, &format!("ls {SHARE}/{repo}/refs/heads | wc -l; rm -rf {SHARE}/{repo}"));
        println!("{engine}, {left} stay loose: {took:.1} | {held} | {updates} | {}", slowest.as_millis());
    }
}

/// Makes the repository from which each engine gets a copy. Returns the id that all refs have.
fn make_repository(cluster: &Cluster) -> String {
    let commit = "$git config core.packedRefsTimeout 600000 && $git commit-tree -m 0 $($git mktree </dev/null)";
    let id = cluster.make_repository(0, "files", &format!("{SHARE}/base.git"), commit);
    let line = format!("{id} refs/changes/%07d");
    let packed = format!("for (i = 0; i < {CHANGES}; i++) printf \"{line}/1\\n{line}/meta\\n\", i, i");
    let filled = format!(
        "cd {SHARE}/base.git && (echo '# pack-refs with: peeled fully-peeled sorted '; awk 'BEGIN {{ {packed} }}') \
         >packed-refs && for ((i = 0; i < {LOOSE}; i++)); do echo {id} >refs/heads/$i; done; sync"
    );
    cluster.shell(0, &filled);
    id
}

/// Runs a command in the repository, which may take longer than an agent is waited for. Returns how long it took, or
/// what it said if it failed.
fn pack(cluster: &Cluster, path: &str, command: &str) -> Result<Duration, String> {
    let begun = Instant::now();
    let log = "/mnt/tmp/packed";
    cluster.shell(
        1,
        &format!("rm -f {log}; (cd {path} && {command} >{log}.said 2>&1; echo $? >{log}) </dev/null >/dev/null 2>&1 &"),
    );
    while cluster.shell(1, &format!("cat {log} 2>/dev/null || true")).is_empty() {
        assert!(begun.elapsed() < PACKING_MAX, "the packing does not end");
        thread::sleep(Duration::from_millis(100));
    }
    let took = begun.elapsed();
    let said = cluster.shell(1, &format!("cat {log} {log}.said"));
    if said == "0" || said.starts_with("0 |") { Ok(took) } else { Err(said) }
}

/// Creates and deletes a ref until the packing is over. Returns how many of these updates were made, and how long the
/// slowest creation and deletion took together.
fn write_beside(cluster: &Cluster, path: &str, id: &str, is_over: &AtomicBool) -> (usize, Duration) {
    let nothing = "0".repeat(id.len());
    let (mut done, mut slowest) = (0, Duration::ZERO);
    while !is_over.load(Relaxed) {
        let begun = Instant::now();
        for (old, new) in [(nothing.as_str(), id), (id, nothing.as_str())] {
            match cluster.ask(2, 1, &["view", path, "swap", "refs/heads/beside", old, new]) {
                Ok(said) if said == "done" => done += 1,
                Ok(said) => println!("{said}"),
                Err(failure) => println!("{failure}"),
            }
        }
        slowest = slowest.max(begun.elapsed());
        thread::sleep(Duration::from_millis(50));
    }
    (done, slowest)
}

/// Prints how long `file` was the same, as seen each millisecond until `end` is there: the five longest times in
/// milliseconds, and the number of all. A time that has not ended by then is left out.
pub(crate) fn watch(file: &Path, end: &Path) {
    let (mut seen, mut times) = (None, Vec::new());
    while !end.exists() {
        // The time of the file's last change is not compared, because a lock of a ref that is made as a link to the
        // file changes that time.
        let now = std::fs::symlink_metadata(file).ok().map(|now| (now.ino(), now.created().ok()));
        if seen.is_none_or(|(known, _)| Some(known) != now) {
            times.extend(seen.map(|(_, since)| Instant::elapsed(&since).as_millis()));
            seen = now.map(|now| (now, Instant::now()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    times.sort_unstable_by(|one, other| other.cmp(one));
    let longest: Vec<String> = times.iter().take(5).map(u128::to_string).collect();
    println!("{} of {}", longest.join(" "), times.len());
}
