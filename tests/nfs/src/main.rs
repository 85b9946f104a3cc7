//! Tests refdb on a real NFS, whose server and clients are User Mode Linux kernels on this machine.
//!
//! `nfs-tests scenes MOUNT-OPTIONS ENGINE,... [SCENE...]` plays what is known to go wrong, step by step.
//! `nfs-tests load MOUNT-OPTIONS HISTORY FORMAT TRUST ENGINE,... SECONDS SEED` writes down the history of a load.
//! `nfs-tests faults ...` does so on three clients while machines, the network, the share and clocks fail.
//! `nfs-tests short MOUNT-OPTIONS FOLDER SECONDS SEED` plays the scenes, counts requests, and leaves
//! two histories of loads in FOLDER.
//! `nfs-tests requests MOUNT-OPTIONS` counts the requests of each operation.
//! `nfs-tests gerrits MOUNT-OPTIONS REFDB-JAR JDK SECONDS` has users work with a real Gerrit on each of two clients.
//! `nfs-tests storage MOUNT-OPTIONS REFDB WORD|... [planted]` runs `refdb check-storage`; its verdict must begin with
//! one of the WORDs. `planted` plants a fault.
//! `nfs-tests pack MOUNT-OPTIONS DELAY ENGINE=COMMAND...` measures how long `pack-refs` keeps others waiting.
//! `nfs-tests talk [MOUNT-OPTIONS]` sends the words of each row of stdin (NODE, number of the serial line and words,
//! separated by tabs) to the agent of that line, and prints its answer.
//! `nfs-tests boot [MOUNT-OPTIONS]` only boots and stops the nodes.
//! `nfs-tests agent` is what the nodes run.
//! `nfs-tests names FOLDER` lists a folder as refdb does, and prints how many entries it has. `requests` and `short`
//! run it on a node.
//! `nfs-tests watch FILE END` prints how long FILE stayed the same, until END exists; `pack` runs it on a node.

mod agent;
mod faults;
mod gerrits;
mod line;
mod load;
mod node;
mod pack;
mod requests;
mod scenes;
mod served;
mod storage;

use node::{Cluster, Options};
use std::{path::Path, thread};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &words[..] {
        ["agent"] => agent::run().expect("the serial line works"),
        ["talk", rest @ ..] => on_cluster(rest, |cluster, _| {
            for line in std::io::stdin().lines() {
                let line = line.expect("stdin is text");
                let words: Vec<&str> = line.split('\t').collect();
                let [node, agent, words @ ..] = &words[..] else { panic!("NODE, LINE, and words, separated by tabs") };
                println!("{:?}", cluster.ask(number(node) as usize, number(agent) as usize, words));
            }
        }),
        ["scenes", rest @ ..] => on_cluster(rest, |cluster, rest| {
            let (engines, chosen) = rest.split_first().expect("engines");
            let plan = scenes::Plan { engines: engines.split(',').collect(), chosen, lines: 1..FAULTY };
            let bad = tell(&scenes::run(cluster, &plan));
            assert_eq!(bad, 0, "all scenes end as expected");
        }),
        ["short", mount, folder, seconds, seed] => on_cluster(&[mount], |cluster, _| {
            short(cluster, Path::new(folder), number(seconds), number(seed));
        }),
        ["requests", rest @ ..] => on_cluster(rest, |cluster, _| requests::run(cluster)),
        ["storage", mount, refdb, word, rest @ ..] => on_cluster(&[mount], |cluster, _| {
            let line = if rest == ["planted"] { FAULTY } else { 1 };
            let said = storage::run(cluster, refdb, line, 20);
            println!("{said}");
            assert!(
                said.lines().last().is_some_and(|verdict| word.split('|').any(|word| verdict.starts_with(word))),
                "the verdict is {word}"
            );
        }),
        ["names", folder] => requests::names(Path::new(folder)),
        ["watch", file, end] => pack::watch(Path::new(file), Path::new(end)),
        ["pack", mount, delay, engines @ ..] => {
            let engines: Vec<(&str, &str)> =
                engines.iter().map(|word| word.split_once('=').expect("ENGINE=COMMAND")).collect();
            on_delayed_clients(mount, Some(delay), 2, 3000, |cluster| pack::run(cluster, &engines));
        }
        ["boot", rest @ ..] => on_cluster(rest, |_, _| ()),
        [kind @ ("load" | "faults"), mount, history, format, trust, engines, seconds, seed] => {
            let (clients, faults): (_, &[_]) = if *kind == "faults" { (3, &faults::ALL) } else { (2, &[]) };
            let engines = engines.split(',').collect();
            let (seconds, seed) = (number(seconds), number(seed));
            let plan = load::Plan { format, trust, engines, line: 1, seconds, seed, faults };
            on_clients(mount, clients, 448, |cluster| load::run(cluster, &plan, Path::new(history)).tell());
        }
        ["gerrits", mount, jar, java, seconds] => {
            let folder = std::env::temp_dir().join(format!("refdb-nfs-site-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a folder for the site");
            let (java, scripts) = (Path::new(java), Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts"));
            let site = gerrits::site(&folder, &scripts, Path::new(jar), java);
            on_clients(mount, 2, 1700, |cluster| gerrits::run(cluster, &site, java, number(seconds)));
            let _ = std::fs::remove_dir_all(&folder);
        }
        _ => panic!("tests/nfs/src/main.rs lists the commands of nfs-tests"),
    }
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

/// The number of serial lines of each client, each of which leads to an agent.
const LINES: usize = 11;
/// The first serial line whose agent runs with the planted fault; so do those of all later lines.
const FAULTY: usize = 9;

/// Does what `make test` has time for: plays the scenes, some of them also with a planted fault that one must show,
/// counts the requests of operations, and puts the histories of a load in each format into `folder`.
fn short(cluster: &Cluster, folder: &Path, seconds: u64, seed: u64) {
    let sound = scenes::Plan { engines: vec!["view", "serve", "git"], chosen: &[], lines: 1..FAULTY };
    let faulty = scenes::Plan { engines: vec!["view"], chosen: &["A", "B", "F"], lines: FAULTY..LINES };
    let (bad, found) = thread::scope(|scope| {
        let faulty = scope.spawn(|| scenes::run(cluster, &faulty));
        (tell(&scenes::run(cluster, &sound)), faulty.join().expect("the scenes are played"))
    });
    assert_eq!(bad, 0, "all scenes end as expected");
    requests::run(cluster);
    let found = found.iter().filter(|played| played.what.contains("files") && !played.is_right).count();
    assert!(found > 0, "a harness that cannot fail proves nothing");
    println!("{PLANTED}: {found} scenes of refs in files went wrong, as they have to");
    thread::scope(|scope| {
        for (line, format) in [(1, "files"), (3, "reftable")] {
            scope.spawn(move || {
                let engines = vec!["view", "serve"];
                let plan = load::Plan { format, trust: "after_open", engines, line, seconds, seed, faults: &[] };
                load::run(cluster, &plan, &folder.join(format)).tell();
            });
        }
    });
}

/// Prints what was played. Returns how many scenes did not end as they must.
fn tell(played: &[scenes::Played]) -> usize {
    for scene in played {
        println!("{}: {}: {}", scene.what, scene.said, if scene.is_right { "as expected" } else { "WRONG" });
    }
    played.iter().filter(|scene| !scene.is_right).count()
}

const PLANTED: &str = "vfs-refresh";

/// Boots a server and two clients with the mount options that come first in `arguments`, and calls `act` with them and
/// the other arguments.
fn on_cluster(arguments: &[&str], act: impl FnOnce(&Cluster, &[&str])) {
    let (mount, rest) = arguments.split_first().unwrap_or((&"vers=4.2", &[]));
    on_clients(mount, 2, 448, |cluster| act(cluster, rest));
}

/// Boots a server, and clients with this much memory each, and calls `act` with them.
fn on_clients(mount: &str, clients: usize, megabytes: usize, act: impl FnOnce(&Cluster)) {
    on_delayed_clients(mount, None, clients, megabytes, act);
}

/// Boots a server, and clients whose outgoing packets have this delay, and calls `act` with them.
fn on_delayed_clients(mount: &str, delay: Option<&str>, clients: usize, megabytes: usize, act: impl FnOnce(&Cluster)) {
    let folder = std::env::temp_dir().join(format!("refdb-nfs-{}", std::process::id()));
    let planted = Some((PLANTED.to_owned(), FAULTY));
    let delay = delay.map(str::to_owned);
    let options = Options { mount: mount.into(), delay, clients, megabytes, lines: LINES, planted };
    let cluster = Cluster::boot(&folder, options);
    act(&cluster);
    drop(cluster);
    let _ = std::fs::remove_dir_all(&folder);
}
