//! The pieces of long lists of refs: when one may be made, and how large it may be.

use bytes::Bytes;
use std::{
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// The number of bytes at which a piece is complete. The last refs may exceed it.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// The number of bytes at which a large piece is complete. It costs a sixth less CPU for each ref than small ones do,
/// because the kernel sends it, and wakes the client for it, all at once.
const LARGE_PIECE_BYTES: usize = 256 << 10;

/// Maximum number of large pieces in memory. Each of thousands of slow clients may hold a piece.
const LARGE_PIECES_MAX: usize = 64;

/// What the lists of all repositories share, so that long ones leave threads and memory to other requests.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    turns: PollSemaphore,
    large: Arc<Semaphore>,
}

impl Pieces {
    /// `workers` is the number of the runtime's worker threads. If there are several, one of them is left to other
    /// requests, which would otherwise wait until each of hundreds of clients that ask for all refs of a large
    /// repository has got as much as its socket takes.
    pub(crate) fn new(workers: usize) -> Self {
        let turns = Arc::new(Semaphore::new(workers.saturating_sub(1).max(1)));
        Pieces { turns: PollSemaphore::new(turns), large: Arc::new(Semaphore::new(LARGE_PIECES_MAX)) }
    }

    /// Waits for the turn to make a piece. Lists get their turns in the order in which they asked.
    pub(crate) fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Option<OwnedSemaphorePermit>> {
        self.turns.poll_acquire(context)
    }

    /// Begins a piece that is large unless too many large ones are in memory.
    pub(crate) fn large(&self) -> Piece {
        let room = Arc::clone(&self.large).try_acquire_owned().ok();
        Piece { len_max: if room.is_some() { LARGE_PIECE_BYTES } else { PIECE_BYTES }, bytes: Vec::new(), room }
    }
}

/// Some refs of a response, as the client gets them.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    /// The number of bytes at which the piece is complete.
    pub(crate) len_max: usize,
    /// The permit for a large piece, which is given back with the memory of the piece.
    room: Option<OwnedSemaphorePermit>,
}

impl Piece {
    /// Begins a small piece.
    pub(crate) fn small() -> Self {
        Piece { bytes: Vec::new(), len_max: PIECE_BYTES, room: None }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Piece> for Bytes {
    fn from(piece: Piece) -> Self {
        if piece.room.is_some() { Bytes::from_owner(piece) } else { piece.bytes.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_small_if_too_many_large_ones_are_in_memory() {
        let pieces = Pieces::new(2);
        let make = |len_max| {
            let mut piece = pieces.large();
            assert_eq!(piece.len_max, len_max);
            piece.bytes.resize(len_max, 0);
            Bytes::from(piece)
        };
        let mut large: Vec<Bytes> = (0..LARGE_PIECES_MAX).map(|_| make(LARGE_PIECE_BYTES)).collect();
        let small: Vec<Bytes> = (0..10 * LARGE_PIECES_MAX).map(|_| make(PIECE_BYTES)).collect();
        drop(small);
        make(PIECE_BYTES);
        // The rest of a piece that was sent in part needs its memory.
        let mut rest = large.pop().unwrap();
        drop(rest.split_to(LARGE_PIECE_BYTES - 1));
        make(PIECE_BYTES);
        drop(rest);
        make(LARGE_PIECE_BYTES);
    }
}
