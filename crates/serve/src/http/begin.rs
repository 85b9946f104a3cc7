//! Reads the part of a request that the server examines before it starts git.

use crate::{
    inflow::Inflow,
    repository::Facts,
    upload::{
        READ_BYTES, REQUEST_BYTES_MAX,
        ls_refs::{Progress, RequestReader},
        wants::{Wants, WantsReader},
    },
};
use std::io;

/// The number of bytes of a fetch's request after which git is started without waiting for the rest.
const EARLY_BYTES_MAX: usize = 256 << 10;

/// Reads a request of protocol version 2 until it is complete, turns out to be one for git, ends, or exceeds
/// [`REQUEST_BYTES_MAX`]. Returns what is known of it, and the bytes that were read.
pub(super) async fn read_request(facts: &Facts, inflow: &mut Inflow) -> io::Result<(Progress, Vec<u8>)> {
    let (mut reader, mut progress) = (RequestReader::new(facts.hash), Progress::Incomplete);
    read_while(inflow, |bytes| {
        progress = reader.add(bytes);
        progress == Progress::Incomplete && reader.bytes().len() <= REQUEST_BYTES_MAX
    })
    .await?;
    Ok((progress, reader.into_bytes()))
}

/// Reads a fetch of protocol version 0 or 1 until its wants are known, or it ends or exceeds [`REQUEST_BYTES_MAX`].
/// Returns the wants and the bytes that were read.
pub(super) async fn read_wants(facts: &Facts, inflow: &mut Inflow) -> io::Result<(Wants, Vec<u8>)> {
    let (mut reader, mut wants) = (WantsReader::new(facts.hash), Wants::Incomplete);
    read_while(inflow, |bytes| {
        wants = reader.add(bytes);
        wants == Wants::Incomplete && reader.bytes().len() <= REQUEST_BYTES_MAX
    })
    .await?;
    Ok((wants, reader.into_bytes()))
}

/// Reads the rest of a request, or until at least [`EARLY_BYTES_MAX`] bytes have been read in all. A client that sends
/// slowly therefore does not occupy one of the limited git processes meanwhile.
pub(super) async fn read_more(begin: &mut Vec<u8>, inflow: &mut Inflow) -> io::Result<()> {
    if begin.len() >= EARLY_BYTES_MAX {
        return Ok(());
    }
    read_while(inflow, |bytes| {
        begin.extend_from_slice(bytes);
        begin.len() < EARLY_BYTES_MAX
    })
    .await
}

/// Passes the bytes that arrive to `add`, until `add` returns `false` or the request ends.
async fn read_while(inflow: &mut Inflow, mut add: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = inflow.read(&mut buffer).await?;
        if count == 0 || !add(&buffer[..count]) {
            return Ok(());
        }
    }
}
