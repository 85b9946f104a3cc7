//! Proves refdb on a real NFS, whose server and clients are kernels of User Mode Linux on this machine.
//!
//! `nfs-tests scenes [MOUNT-OPTIONS]` plays what is known to go wrong, step by step; `nfs-tests agent` is what the nodes
//! run.

mod agent;
mod node;
mod scenes;

use node::{Cluster, Options};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &words[..] {
        ["agent"] => agent::run().expect("the serial line works"),
        ["scenes", rest @ ..] => {
            let mount = rest.first().unwrap_or(&"vers=4.2");
            let folder = std::env::temp_dir().join(format!("refdb-nfs-{}", std::process::id()));
            let options = Options { mount: (*mount).into(), delay: None, clients: 2, lines: 4 };
            let cluster = Cluster::boot(&folder, options);
            let bad = scenes::run(&cluster, rest.get(1..).unwrap_or_default());
            drop(cluster);
            println!("{bad} went wrong");
            let _ = std::fs::remove_dir_all(&folder);
        }
        _ => panic!("usage: nfs-tests scenes [MOUNT-OPTIONS]"),
    }
}
