//! Reads the beginning of a fetch's request: what the server examines, and a little more before it starts git.

use crate::{
    inflow::Inflow,
    repository::Facts,
    upload::{
        READ_BYTES, REQUEST_BYTES_MAX,
        ls_refs::{Progress, RequestReader},
        wants::{Wants, WantsReader},
    },
};
use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The number of bytes of a fetch's request after which git is started without waiting for the rest, unless the server
/// still examines the request.
const EARLY_BYTES_MAX: usize = 256 << 10;

/// Reads a request of protocol version 2 until it is complete, turns out to be one for git, ends, or exceeds
/// [`REQUEST_BYTES_MAX`] or the room that is left. Returns what is known of it, and the bytes that were read.
pub(super) async fn read_request(
    facts: &Facts,
    inflow: &mut Inflow,
    room: &mut Room,
) -> io::Result<(Progress, Vec<u8>)> {
    let (mut reader, mut progress) = (RequestReader::new(facts.hash), Progress::Incomplete);
    read_while(inflow, |bytes| {
        progress = reader.add(bytes);
        progress == Progress::Incomplete && room.has(reader.bytes().len())
    })
    .await?;
    Ok((progress, reader.into_bytes()))
}

/// Reads a fetch of protocol version 0 or 1 until its wants are known, or it turns out to be one for git, ends, or
/// exceeds [`REQUEST_BYTES_MAX`] or the room that is left. Returns what is known of its wants, and the bytes that were
/// read.
pub(super) async fn read_wants(facts: &Facts, inflow: &mut Inflow, room: &mut Room) -> io::Result<(Wants, Vec<u8>)> {
    let (mut reader, mut wants) = (WantsReader::new(facts.hash), Wants::Incomplete);
    read_while(inflow, |bytes| {
        wants = reader.add(bytes);
        wants == Wants::Incomplete && room.has(reader.bytes().len())
    })
    .await?;
    Ok((wants, reader.into_bytes()))
}

/// Reads the rest of a request, or until at least [`EARLY_BYTES_MAX`] bytes have been read in all. A client that sends
/// slowly occupies none of the limited git processes until then.
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

/// The part of the memory for long requests that one request takes while it is examined, and then until it has been
/// passed to git or its list of refs has been sent. Without a common bound, clients that send thousands of long
/// requests slowly, or do not read what they have asked for, would use up the memory of the machine.
#[derive(Default)]
pub(super) struct Room {
    taken: usize,
}

/// The number of bytes that all requests longer than [`EARLY_BYTES_MAX`] may take together.
const LONG_BYTES_MAX: usize = 256 << 20;

/// The number of bytes that requests longer than [`EARLY_BYTES_MAX`] take at present.
static LONG_BYTES: AtomicUsize = AtomicUsize::new(0);

impl Room {
    /// Returns whether a request of which `len` bytes were read may be read on. `len` never falls.
    fn has(&mut self, len: usize) -> bool {
        if len <= EARLY_BYTES_MAX {
            return true;
        }
        let more = len - self.taken;
        self.taken = len;
        let all = LONG_BYTES.fetch_add(more, Relaxed) + more;
        len <= REQUEST_BYTES_MAX && all <= LONG_BYTES_MAX
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        LONG_BYTES.fetch_sub(self.taken, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_requests_share_a_bounded_room() {
        let mut all: Vec<Room> = (0..LONG_BYTES_MAX / REQUEST_BYTES_MAX).map(|_| Room::default()).collect();
        assert!(all.iter_mut().all(|room| room.has(REQUEST_BYTES_MAX)));
        let mut one_more = Room::default();
        assert!(one_more.has(EARLY_BYTES_MAX));
        assert!(!one_more.has(EARLY_BYTES_MAX + 1));
        drop(all);
        assert!(one_more.has(REQUEST_BYTES_MAX));
        assert!(!one_more.has(REQUEST_BYTES_MAX + 1));
    }
}
