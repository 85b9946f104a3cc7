//! Checks the wants of a fetch of version 0 or 1. Git walks all refs for this check. If each want is the tip of a
//! visible ref, the server usually finds that out from its index of refs by object, and git need not check.

use crate::repository::{Facts, Served};
use bstr::{BStr, BString, ByteSlice};
use refdb::{HashKind, ObjectId};
use refdb_receive::{
    HiddenRefs,
    wire::pkt::{Decoded, Packet, decode},
};
use std::{collections::BTreeMap, io};

/// Maximum number of wants in a request that the server checks. Git checks a request with more.
const WANTS_MAX: usize = 4096;

/// Parses the first part of a request, up to its first flush packet. The request may arrive in pieces.
#[derive(Debug)]
pub struct WantsReader {
    hash: HashKind,
    bytes: Vec<u8>,
    at: usize,
    wants: Vec<ObjectId>,
}

/// What is known of a request so far.
#[derive(PartialEq, Eq, Debug)]
pub enum Wants {
    /// More bytes are needed.
    Incomplete,
    /// The request wants these objects.
    Complete(Vec<ObjectId>),
    /// Git must handle the request without a check by the server, for example because git may refuse it or needs its
    /// refs.
    Unknown,
}

impl WantsReader {
    /// Returns a reader for a repository with this hash function.
    pub fn new(hash: HashKind) -> Self {
        WantsReader { hash, bytes: Vec::new(), at: 0, wants: Vec::new() }
    }

    /// Adds bytes from the client, and returns what is known of the request.
    pub fn add(&mut self, bytes: &[u8]) -> Wants {
        self.bytes.extend_from_slice(bytes);
        loop {
            match decode(&self.bytes[self.at..]) {
                Ok(Decoded::Packet(Packet::Line(line), length)) => {
                    if let Some(want) = line.strip_prefix(b"want ") {
                        // The first want is followed by the client's capabilities.
                        let (digits, capabilities) = want.split_once_str(" ").unwrap_or((want, b""));
                        if capabilities.split_str(" ").any(|word| word == b"deepen-relative") {
                            // Git then needs its refs, to find out which of the commits at which the client's history
                            // ends can be reached from refs.
                            return Wants::Unknown;
                        }
                        let Ok(id) = ObjectId::from_hex(self.hash, digits) else { return Wants::Unknown };
                        if self.wants.len() == WANTS_MAX {
                            return Wants::Unknown;
                        }
                        self.wants.push(id);
                    }
                    self.at += length;
                }
                Ok(Decoded::Packet(Packet::Flush, _)) => return Wants::Complete(std::mem::take(&mut self.wants)),
                Ok(Decoded::Packet(Packet::Special(_), _)) | Err(_) => return Wants::Unknown,
                Ok(Decoded::Missing(_)) => return Wants::Incomplete,
            }
        }
    }

    /// Returns all bytes that have been added.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Consumes the reader and returns all bytes that have been added.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Maximum number of refs to one object, in packed-refs or in one reftable, among which a visible ref is searched. Most
/// objects have one or two.
const REFS_MAX: usize = 256;

/// Which objects count as tips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tips {
    /// The objects that refs hold.
    Themselves,
    /// The objects that refs hold, and those to which the tags among them lead. If each request has a connection of its
    /// own, git accepts every want that is reachable from a visible ref.
    OrTagged,
}

/// Returns the wants that are not certain to exist and to be tips of visible refs. A tip to which very many refs point
/// may be among them.
pub(crate) fn not_visible_tips(
    served: &Served,
    facts: &Facts,
    hidden: &HiddenRefs,
    wants: &[ObjectId],
    tips: Tips,
) -> io::Result<Vec<ObjectId>> {
    let head = if hidden.covers("HEAD".into()) { None } else { tip(served, "HEAD".into()) };
    let others: Vec<ObjectId> = wants.iter().copied().filter(|want| Some(*want) != head).collect();
    let names = match others.is_empty() {
        true => BTreeMap::new(),
        false => served.view().few_pointing_at_each(&others, REFS_MAX).map_err(io::Error::other)?,
    };
    let mut others = Vec::new();
    for want in wants {
        // The index also leads from a tagged object to the refs of its tags.
        let holds = |name: &BString| tips == Tips::OrTagged || tip(served, name.as_bstr()) == Some(*want);
        let is_shown = |name: &BString| !hidden.covers(name.as_bstr()) && holds(name);
        let is_visible = Some(*want) == head || names.get(want).is_some_and(|names| names.iter().any(is_shown));
        if !is_visible || !facts.objects.exists(want).map_err(io::Error::other)? {
            others.push(*want);
        }
    }
    Ok(others)
}

/// Returns the object to which a ref leads, or `None` if the ref leads to no object or cannot be read.
fn tip(served: &Served, name: &BStr) -> Option<ObjectId> {
    served.view().resolve(name).ok()?.found?.target.id()
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_receive::wire::pkt;

    fn read(lines: &[&str]) -> Wants {
        let mut bytes = Vec::new();
        for line in lines {
            match *line {
                "0000" => pkt::flush(&mut bytes),
                "0001" => bytes.extend_from_slice(b"0001"),
                line => pkt::line(&[line.as_bytes(), b"\n"], &mut bytes),
            }
        }
        let mut reader = WantsReader::new(HashKind::Sha1);
        let last = bytes.iter().map(|byte| reader.add(&[*byte])).find(|wants| *wants != Wants::Incomplete);
        last.unwrap_or(Wants::Incomplete)
    }

    #[test]
    fn wants_are_read_up_to_the_first_flush() {
        let [one, two] = ["1".repeat(40), "2".repeat(40)];
        let lines = [format!("want {one} ofs-delta agent=x"), format!("want {two}"), "deepen 1".into()];
        let lines: Vec<&str> = lines.iter().map(|line| &line[..]).collect();
        assert_eq!(read(&lines), Wants::Incomplete);
        let ids = [&one, &two].map(|hex| ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).unwrap());
        assert_eq!(read(&[&lines[..], &["0000"]].concat()), Wants::Complete(ids.to_vec()));
        assert_eq!(read(&["0000"]), Wants::Complete(Vec::new()));
        let many = vec![lines[1]; WANTS_MAX + 1];
        assert_eq!(read(&many), Wants::Unknown);
        let relative = format!("want {one} ofs-delta deepen-relative agent=x");
        for bad in ["want 12", "want ", "0001", &relative] {
            assert_eq!(read(&[bad, "0000"]), Wants::Unknown, "{bad}");
        }
    }
}
