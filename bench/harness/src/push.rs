//! What a client sends to `receive-pack --stateless-rpc`: commands, and a pack.

use std::{fs, io::Write, path::Path};

use anyhow::{Context, Result};

use crate::seed::{Commits, MAIN, fresh};

/// A push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    /// Makes this many branches, each at a commit of its own as far as the repository has enough. No object is sent.
    Create(usize),
    /// Moves `main` forward by one commit with a file.
    Forward,
    /// Makes `main` at a commit with many files of random bytes.
    Large,
    /// Makes a branch at another ref's commit.
    AtTip,
    /// Makes a branch at a commit that refs reach but none points to.
    AtOld,
}

/// A pack of version 2 without objects.
const EMPTY_PACK: [u8; 32] = [
    b'P', b'A', b'C', b'K', 0, 0, 0, 2, 0, 0, 0, 0, 0x02, 0x9d, 0x08, 0x82, 0x3b, 0xd8, 0xa8, 0xea, 0xb5, 0x10, 0xad,
    0x6a, 0xc7, 0x5c, 0x82, 0x3c, 0xfd, 0x3e, 0xd3, 0x1e,
];

impl Push {
    /// The file name under which the push is kept.
    pub fn file_name(self) -> String {
        match self {
            Push::Create(count) => format!("push-{count}"),
            Push::Forward => "push-forward".to_owned(),
            Push::Large => "push-large".to_owned(),
            Push::AtTip => "push-at-tip".to_owned(),
            Push::AtOld => "push-at-old".to_owned(),
        }
    }

    /// Writes what the client sends. `seed` is an empty repository, which holds the pack of a small commit; the pack of
    /// a large commit is beside it.
    pub fn write(self, out: &mut dyn Write, seed: &Path, commits: &Commits) -> Result<()> {
        let null = "0".repeat(40);
        // Refs hold the first commit, the third and so on, and the last.
        let middle = commits.len() / 4 * 2;
        match self {
            Push::Create(count) => {
                for n in 0..count {
                    command(out, n == 0, &null, &commits[n % commits.len()], &fresh(n))?;
                }
            }
            Push::AtTip => command(out, true, &null, &commits[middle], &fresh(0))?,
            Push::AtOld => command(out, true, &null, &commits[middle + 1], &fresh(0))?,
            Push::Forward => {
                let new = fs::read_to_string(seed.join("forward"))?;
                command(out, true, commits.last().context("there are commits")?, &new, MAIN)?;
            }
            Push::Large => command(out, true, &null, &fs::read_to_string(seed.with_file_name("large"))?, MAIN)?,
        }
        out.write_all(b"0000")?;
        match self {
            Push::Forward => out.write_all(&fs::read(seed.join("forward.pack"))?)?,
            Push::Large => out.write_all(&fs::read(seed.with_file_name("large.pack"))?)?,
            Push::Create(_) | Push::AtTip | Push::AtOld => out.write_all(&EMPTY_PACK)?,
        }
        Ok(())
    }
}

fn command(out: &mut dyn Write, is_first: bool, old: &str, new: &str, name: &str) -> Result<()> {
    let words = if is_first { "\0report-status-v2 side-band-64k quiet" } else { "" };
    let line = format!("{old} {new} {name}{words}");
    Ok(write!(out, "{:04x}{line}", line.len() + 4)?)
}
