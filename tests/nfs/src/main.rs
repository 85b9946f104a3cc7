//! Proves refdb on a real NFS, whose server and clients are kernels of User Mode Linux on this machine.
//!
//! `nfs-tests scenes MOUNT-OPTIONS ENGINE,... [SCENE...]` plays what is known to go wrong, step by step.
//! `nfs-tests load MOUNT-OPTIONS HISTORY FORMAT TRUST ENGINE,... SECONDS SEED` writes down the history of a load.
//! `nfs-tests requests MOUNT-OPTIONS` counts the requests of each operation.
//! `nfs-tests talk [MOUNT-OPTIONS]` passes lines of stdin, `NODE LINE WORD...`, to the agents of the nodes.
//! `nfs-tests agent` is what the nodes run.

mod agent;
mod load;
mod node;
mod requests;
mod scenes;

use node::{Cluster, Options};
use std::path::Path;

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
                let number = |word: &str| word.parse().expect("a number");
                println!("{:?}", cluster.ask(number(node), number(agent), words));
            }
        }),
        ["scenes", rest @ ..] => on_cluster(rest, |cluster, rest| {
            let (engines, chosen) = rest.split_first().expect("engines");
            let bad = scenes::run(cluster, engines, chosen);
            println!("{bad} went wrong");
            assert_eq!(bad, 0, "all scenes end as expected");
        }),
        ["requests", rest @ ..] => on_cluster(rest, |cluster, _| requests::run(cluster)),
        ["boot", rest @ ..] => on_cluster(rest, |_, _| ()),
        ["load", mount, history, format, trust, engines, seconds, seed] => on_cluster(&[mount], |cluster, _| {
            let number = |word: &str| word.parse().expect("a number");
            let engines = engines.split(',').collect();
            let plan = load::Plan { format, trust, engines, seconds: number(seconds), seed: number(seed) };
            let counts = load::run(cluster, &plan, Path::new(history));
            println!("{} reads, {} writes, {} refused", counts.reads, counts.writes, counts.refused);
            for (error, times) in &counts.errors {
                println!("{times} times: {error}");
            }
        }),
        _ => panic!("usage: nfs-tests scenes [MOUNT-OPTIONS]"),
    }
}

/// Boots nodes with the mount options that come first in `arguments`.
fn on_cluster(arguments: &[&str], act: impl FnOnce(&Cluster, &[&str])) {
    let (mount, rest) = arguments.split_first().unwrap_or((&"vers=4.2", &[]));
    let folder = std::env::temp_dir().join(format!("refdb-nfs-{}", std::process::id()));
    let options = Options { mount: (*mount).into(), delay: None, clients: 2, lines: 4 };
    let cluster = Cluster::boot(&folder, options);
    act(&cluster, rest);
    drop(cluster);
    let _ = std::fs::remove_dir_all(&folder);
}
