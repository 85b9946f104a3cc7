//! gitoxide: see README.md one folder up. It has no push.

use gix::{
    progress::Discard,
    protocol::handshake::Ref,
    remote::{Direction, ref_map},
};
use std::{error::Error, sync::atomic::AtomicBool};

const NEVER: AtomicBool = AtomicBool::new(false);

fn list(url: &str) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("gitoxide-client-{}", std::process::id()));
    let repo = gix::init_bare(&folder)?;
    let listed = list_into(&repo, url);
    std::fs::remove_dir_all(folder)?;
    listed
}

fn list_into(repo: &gix::Repository, url: &str) -> Result<(), Box<dyn Error>> {
    // With refs/* alone, gitoxide would ask the server for nothing but tags.
    let specs = ["refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*"];
    let remote = repo.remote_at(url)?.with_refspecs(specs, Direction::Fetch)?;
    let (map, _) = remote.connect(Direction::Fetch)?.ref_map(Discard, ref_map::Options::default())?;
    for found in map.remote_refs {
        let (name, target, peeled) = found.unpack();
        if let (Some(id), false) = (target.or(peeled), matches!(found, Ref::Unborn { .. })) {
            println!("{id}\t{name}");
        }
    }
    Ok(())
}

fn fetch(url: &str, folder: &str) -> Result<(), Box<dyn Error>> {
    let repo = gix::open(folder)?;
    let remote = repo.remote_at(url)?.with_refspecs(["+refs/heads/*:refs/from/*"], Direction::Fetch)?;
    let connection = remote.connect(Direction::Fetch)?;
    connection.prepare_fetch(Discard, ref_map::Options::default())?.receive(Discard, &NEVER)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list", url] => list(url),
        ["clone", url, folder] => {
            gix::prepare_clone_bare(url, folder)?.fetch_only(Discard, &NEVER)?;
            Ok(())
        }
        ["fetch", url, folder] => fetch(url, folder),
        _ => Err("gitoxide cannot do that".into()),
    }
}
