//! Reads the request of a push that is delegated to git before git does, because git accepts refs whose names are too
//! long for a repository's reftables. Afterwards git lists no refs, or fills the disk (docs/formats/reftable.md).

use crate::{
    Call, ServeError, Settings,
    serve::offer,
    wire::{Commands, Fault, Limits, ProtocolError, Request, RequestReader},
};
use bstr::{BString, ByteSlice};
use refdb::{RefFormat, Store};

/// The reason for which commands that name such refs are refused: git's words.
pub(crate) const TOO_LONG: &str = "entry too large";

/// Reads the request of a push that is delegated, and keeps its bytes for git.
#[derive(Debug)]
pub struct Screen {
    reader: RequestReader,
    heard: Heard,
}

/// The bytes of a client's request, for git.
#[derive(Debug)]
pub(crate) struct Heard {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Heard {
    /// Returns no bytes. As many are accepted as commands may take in memory: a reader keeps less than it reads, for
    /// example of capabilities that follow each command.
    pub(crate) fn new(limits: Limits) -> Self {
        Heard { bytes: Vec::new(), bytes_max: limits.commands_bytes }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            let fault = Fault::TooMuch { what: "commands", limit: self.bytes_max };
            return Err(ProtocolError { offset: self.bytes.len() as u64, fault });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// What may be done with a push.
#[derive(Debug)]
pub enum Screened {
    /// Pass these bytes, and then all further input, to git.
    Passed(Vec<u8>),
    /// Git must receive nothing. Pass this to [`turn_away`](crate::turn_away()).
    Refused(RefusedPush),
}

/// The request of a push that is refused.
#[derive(Debug)]
pub struct RefusedPush {
    pub(crate) request: Request,
    /// The positions of the commands that create or update refs with too long names. There is at least one.
    pub(crate) too_long: Vec<usize>,
}

impl Screen {
    /// Begins to read a request. Returns `None` if the repository has room for names of any length, so that nothing
    /// need be screened.
    pub fn of(store: &Store, settings: &Settings, call: &Call) -> Option<Self> {
        let reader = || RequestReader::new(&offer(store, settings, call), call.limits).with_certificates();
        must_screen(store).then(|| Screen { reader: reader(), heard: Heard::new(call.limits) })
    }

    /// Returns the least number of bytes that must still arrive before the request can end, or 0 once it has ended.
    /// Do not take more, because the pack follows.
    pub fn wants(&self) -> usize {
        self.reader.wants()
    }

    /// Consumes bytes from the client, at most as many as [`wants`](Self::wants) returns.
    ///
    /// # Errors
    ///
    /// Fails if a packet is invalid or exceeds a limit. Nothing may be passed to git then.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        self.heard.add(bytes)?;
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
    /// Fails if the request has not ended, or if refs cannot be read.
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

/// Returns whether the repository has refs in a format that has no room for every name.
pub(crate) fn must_screen(store: &Store) -> bool {
    store.repository().ref_format() == RefFormat::Reftable
}

/// Returns the positions of the commands that create or update a ref whose name is too long. In a namespace the names
/// are longer by its prefix.
pub(crate) fn too_long(store: &Store, commands: &Commands) -> Result<Vec<usize>, ServeError> {
    let prefix = store.repository().namespace(store.environment()).map_err(refdb::Error::from)?;
    let mut found = Vec::new();
    for (at, command) in commands.iter().enumerate().filter(|(_, command)| !command.deletes()) {
        let name: BString = [&prefix[..], command.name].concat().into();
        if store.is_too_long(name.as_bstr())? {
            found.push(at);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_kept_for_git_is_bounded() {
        let limits = Limits { commands_bytes: 10, ..Limits::default() };
        let mut heard = Heard::new(limits);
        assert_eq!(heard.add(b"123456"), Ok(()));
        assert!(matches!(heard.add(b"78901"), Err(ProtocolError { fault: Fault::TooMuch { limit: 10, .. }, .. })));
        assert_eq!(heard.add(b"7890"), Ok(()));
        assert_eq!(heard.into_bytes(), b"1234567890");
    }
}
