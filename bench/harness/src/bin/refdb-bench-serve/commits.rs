//! Commits without files that clients push, and packs of them.

use anyhow::Result;
use flate2::{Compression, write::ZlibEncoder};
use gix_hash::Kind;
use std::io::Write;

/// Returns the id and the content of a commit.
pub(crate) fn commit(tree: &str, parent: &str, message: &str) -> Result<(String, Vec<u8>)> {
    let who = "bench <bench@example.com> 1700000000 +0000";
    let content = format!("tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{message}\n").into_bytes();
    let id = gix_object::compute_hash(Kind::Sha1, gix_object::Kind::Commit, &content)?;
    Ok((id.to_string(), content))
}

/// Returns a pack of commits with these contents: gitformat-pack(5).
pub(crate) fn pack(commits: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend_from_slice(&u32::try_from(commits.len())?.to_be_bytes());
    for content in commits {
        // The type of a commit is 1. The lowest four bits of the length are in the byte of the type.
        let (mut byte, mut rest) = (0x10 | (content.len() & 15) as u8, content.len() >> 4);
        while rest > 0 {
            pack.push(byte | 0x80);
            (byte, rest) = ((rest & 0x7f) as u8, rest >> 7);
        }
        pack.push(byte);
        let mut encoder = ZlibEncoder::new(&mut pack, Compression::fast());
        encoder.write_all(content)?;
        encoder.finish()?;
    }
    let mut hasher = gix_hash::hasher(Kind::Sha1);
    hasher.update(&pack);
    pack.extend_from_slice(hasher.try_finalize()?.as_bytes());
    Ok(pack)
}
