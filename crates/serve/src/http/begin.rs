//! The part of a request that is read before git is started.

use crate::inflow::Inflow;
use crate::{
    repository::Facts,
    upload::{
        ls_refs::{Progress, RequestReader},
        wants::{Wants, WantsReader},
    },
};
use std::io;

/// How much of a request is interpreted: room for more prefixes or wants than any git sends. A longer one is left to
/// git.
const REQUEST_BYTES_MAX: usize = 8 << 20;

/// How much of a request is read at once. Nearly all requests are shorter.
const READ_BYTES: usize = 8 << 10;

/// Reads a request of version 2 until it is known to be one for git, or complete. Returns what was read.
pub(super) async fn read_request(facts: &Facts, inflow: &mut Inflow) -> io::Result<(Progress, Vec<u8>)> {
    let mut reader = RequestReader::new(facts.hash);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = inflow.read(&mut buffer).await?;
        let progress = reader.add(&buffer[..count]);
        if progress != Progress::Incomplete || count == 0 || reader.bytes().len() > REQUEST_BYTES_MAX {
            return Ok((progress, reader.into_bytes()));
        }
    }
}

/// Reads a fetch of version 0 or 1 until its wants are known. Returns what was read.
pub(super) async fn read_wants(facts: &Facts, inflow: &mut Inflow) -> io::Result<(Wants, Vec<u8>)> {
    let mut reader = WantsReader::new(facts.hash);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = inflow.read(&mut buffer).await?;
        let wants = reader.add(&buffer[..count]);
        if wants != Wants::Incomplete || count == 0 || reader.bytes().len() > REQUEST_BYTES_MAX {
            return Ok((wants, reader.into_bytes()));
        }
    }
}

/// How much of a fetch's request is read before git is started for it.
const EARLY_BYTES_MAX: usize = 256 << 10;

/// Reads a request to its end, if it is not very long, so that a client that sends slowly keeps no git from others.
pub(super) async fn read_more(begin: &mut Vec<u8>, inflow: &mut Inflow) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    while begin.len() < EARLY_BYTES_MAX {
        match inflow.read(&mut buffer).await? {
            0 => break,
            count => begin.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(())
}
