//! Reads the request of a delegated push before git does, because git accepts refs whose names are too long for a
//! repository's reftables. After such a push, git would miss refs, or fill the disk when it writes
//! (docs/formats/reftable.md).

use crate::{
    Call, RefusedPush, ServeError, Settings,
    serve::{
        long_names::{Heard, must_screen, too_long},
        offer,
    },
    wire::{ProtocolError, RequestReader},
};
use refdb::Store;

/// Reads the request of a push that is delegated, and keeps its bytes for git.
#[derive(Debug)]
pub struct Screen {
    reader: RequestReader,
    heard: Heard,
}

/// The result of screening a push.
#[derive(Debug)]
pub enum Screened {
    /// Pass these bytes, and then all further input, to git.
    Passed(Vec<u8>),
    /// Git must receive nothing. Pass this to [`turn_away`](crate::turn_away()).
    Refused(RefusedPush),
}

impl Screen {
    /// Returns a screen for the requests of this repository. Returns `None` if the repository's ref format sets no
    /// limit on the length of refnames, so that nothing need be screened.
    pub fn of(store: &Store, settings: &Settings, call: &Call) -> Option<Self> {
        let reader = || RequestReader::new(&offer(store, settings, call), call.limits).with_certificates();
        must_screen(store).then(|| Screen { reader: reader(), heard: Heard::new(call.limits) })
    }

    /// Returns a number of bytes without which the request cannot end, or 0 once it has ended. Do not take more at
    /// once, because the pack follows the request.
    pub fn wants(&self) -> usize {
        self.reader.wants()
    }

    /// Consumes bytes from the client, at most as many as [`wants`](Self::wants) returns.
    ///
    /// # Errors
    ///
    /// Fails if a packet is invalid, cannot be accepted, exceeds a limit, or brings an error message of the client.
    /// Nothing may be passed to git then.
    ///
    /// # Panics
    ///
    /// Panics if the request ends before the last of these bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        self.heard.add(bytes, &self.reader)?;
        let taken = self.reader.take(bytes)?;
        assert_eq!(taken, bytes.len(), "the request ended before these bytes");
        Ok(())
    }

    /// Returns the bytes that were taken, for a client that disconnected before the end of its request. Git executes no
    /// such request.
    pub fn into_heard(self) -> Vec<u8> {
        self.heard.into_bytes()
    }

    /// Decides whether the push may be passed on to git. Call it once the request has ended.
    ///
    /// # Errors
    ///
    /// Fails if the request has not ended, if `GIT_NAMESPACE` is invalid, or if refs cannot be read.
    pub fn finish(self, store: &Store) -> Result<Screened, ServeError> {
        let request = self.reader.finish()?;
        let too_long = too_long(store, &request.commands)?;
        Ok(if too_long.is_empty() {
            Screened::Passed(self.heard.into_bytes())
        } else {
            Screened::Refused(RefusedPush { request, too_long })
        })
    }
}
