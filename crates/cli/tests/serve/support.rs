//! A running server, a client that sends exactly what a test says, and git's answers to the same requests.

mod client;
mod oracle;
mod server;
mod shim;

pub(crate) use client::{Answer, DAMAGED, Request, damaged, gzip};
pub(crate) use oracle::{Backend, masked, upload_pack};
pub(crate) use server::{Options, Server, environment};
pub(crate) use shim::{Said, feed, plain_upload_pack};

use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::path::Path;

/// Writes packets: `0000`, `0001` and `0002` stand for themselves, every other text is a line.
pub(crate) fn packets(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        if !["0000", "0001", "0002"].contains(line) {
            bytes.extend_from_slice(format!("{:04x}", line.len() + 4).as_bytes());
        }
        bytes.extend_from_slice(line.as_bytes());
    }
    bytes
}

/// Lets the server show a repository.
pub(crate) fn export(git_dir: &Path) {
    std::fs::write(git_dir.join("git-daemon-export-ok"), "").unwrap();
}

/// Creates an exported bare repository with a few commits, two branches and a tag. Its path is `/repo` if its scratch
/// folder is served.
pub(crate) fn exported(format: RefFormat, hash: HashKind) -> Repo {
    let repo = Repo::bare(format, hash);
    let commits = repo.commits(3);
    let tag = repo.tag_object(commits[0], "v1");
    repo.create_refs([("refs/heads/main", commits[2]), ("refs/heads/old", commits[1]), ("refs/tags/v1", tag)]);
    export(repo.git_dir());
    repo
}
