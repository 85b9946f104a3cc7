//! Finds the commands of a push whose refnames are too long for a repository's reftables, and keeps the bytes of the
//! request, which git receives only if there is no such command.

use super::ServeError;
use crate::wire::{Commands, Fault, Limits, ProtocolError, Request, RequestReader};
use bstr::{BString, ByteSlice};
use refdb::{RefFormat, Store};

/// The reason with which a command is refused whose refname is too long, in git's words.
pub(crate) const TOO_LONG: &str = "entry too large";

/// The bytes of a client's request, for git.
#[derive(Debug)]
pub(crate) struct Heard {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Heard {
    /// Starts without bytes, and accepts at most [`Limits::commands_bytes`] of them. The limit of a
    /// [`RequestReader`] does not suffice, because the reader keeps less than it reads, for
    /// example if capabilities follow each command.
    pub(crate) fn new(limits: Limits) -> Self {
        Heard { bytes: Vec::new(), bytes_max: limits.commands_bytes }
    }

    /// Keeps bytes that `reader` takes next. Fails if they are too many, which is a fault of the packet that the reader
    /// has begun.
    pub(crate) fn add(&mut self, bytes: &[u8], reader: &RequestReader) -> Result<(), ProtocolError> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(reader.at(Fault::TooMuch { what: "commands", limit: self.bytes_max }));
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

/// The request of a push that is refused.
#[derive(Debug)]
pub struct RefusedPush {
    pub(crate) request: Request,
    /// The positions of the commands that create or update refs with too long names. There is at least one.
    pub(crate) too_long: Vec<usize>,
}

/// Returns whether the repository stores refs in a format that limits the length of names.
pub(crate) fn must_screen(store: &Store) -> bool {
    store.repository().ref_format() == RefFormat::Reftable
}

/// Returns the positions of the commands that create or update a ref whose name is too long. The prefix of a namespace
/// counts as part of the name.
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
    use crate::wire::Offer;

    #[test]
    fn a_request_that_is_kept_for_git_is_bounded() {
        let limits = Limits { commands_bytes: 10, ..Limits::default() };
        let (mut heard, reader) = (Heard::new(limits), reader(limits));
        assert_eq!(heard.add(b"123456", &reader), Ok(()));
        let failed = heard.add(b"78901", &reader);
        assert!(matches!(failed, Err(ProtocolError { fault: Fault::TooMuch { limit: 10, .. }, .. })));
        assert_eq!(heard.add(b"7890", &reader), Ok(()));
        assert_eq!(heard.into_bytes(), b"1234567890");
    }

    fn reader(limits: Limits) -> RequestReader {
        let hash = refdb::HashKind::Sha1;
        let (agent, session_id) = (BString::default(), None);
        RequestReader::new(
            &Offer { hash, atomic: true, push_options: true, ofs_delta: true, agent, session_id },
            limits,
        )
    }

    /// Previously, the offset was that of the packet's data, unless the packet was the first.
    #[test]
    fn a_request_that_is_too_long_for_git_names_the_offset_of_the_packet() {
        let line = format!("{0} {0} refs/heads/a", "0".repeat(40));
        let packet = format!("{:04x}{line}", line.len() + 4);
        let limits = Limits { commands_bytes: packet.len() + 4, ..Limits::default() };
        let (mut heard, mut reader) = (Heard::new(limits), reader(limits));
        let mut rest = [&packet[..], &packet, "0000"].concat().into_bytes();
        let error = loop {
            let bytes: Vec<u8> = rest.drain(..reader.wants()).collect();
            if let Err(error) = heard.add(&bytes, &reader) {
                break error;
            }
            reader.take(&bytes).unwrap();
        };
        assert_eq!(error.offset, packet.len() as u64);
    }
}
