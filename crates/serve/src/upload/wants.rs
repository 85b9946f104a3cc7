//! The wants of a fetch of version 0 or 1. Git walks all refs to check them; where each is the tip of a visible ref,
//! the index of a view can tell, and git need not.

use crate::repository::{Facts, Served};
use bstr::{BStr, BString, ByteSlice};
use refdb::{HashKind, ObjectId};
use refdb_receive::{
    HiddenRefs,
    wire::pkt::{Decoded, Packet, decode},
};
use std::{collections::BTreeMap, io};

/// Settings with which git walks no ref and checks no want, because that was done.
pub const CHECKED: [&str; 3] =
    ["transfer.hideRefs=refs", "transfer.hideRefs=HEAD", "uploadpack.allowAnySHA1InWant=true"];

/// The number of wants that are looked up. More are left to git.
const WANTS_MAX: usize = 4096;

/// Reads the first part of a request, up to its first flush, piece by piece.
#[derive(Debug)]
pub struct WantsReader {
    hash: HashKind,
    bytes: Vec<u8>,
    at: usize,
    wants: Vec<ObjectId>,
}

/// What the bytes of a request are so far.
#[derive(PartialEq, Eq, Debug)]
pub enum Wants {
    /// The request goes on.
    Incomplete,
    /// The request wants these objects.
    Complete(Vec<ObjectId>),
    /// Git may refuse the request.
    Unknown,
}

impl WantsReader {
    /// Returns a reader for a repository with this hash function.
    pub fn new(hash: HashKind) -> Self {
        WantsReader { hash, bytes: Vec::new(), at: 0, wants: Vec::new() }
    }

    /// Adds bytes of the client, and says what the request is.
    pub fn add(&mut self, bytes: &[u8]) -> Wants {
        self.bytes.extend_from_slice(bytes);
        loop {
            match decode(&self.bytes[self.at..]) {
                Ok(Decoded::Packet(Packet::Line(line), length)) => {
                    if let Some(want) = line.strip_prefix(b"want ") {
                        // The first want is followed by the client's capabilities.
                        let digits = want.split_once_str(" ").map_or(want, |(digits, _)| digits);
                        let Ok(id) = ObjectId::from_hex(self.hash, digits) else { return Wants::Unknown };
                        if self.wants.len() == WANTS_MAX {
                            return Wants::Unknown;
                        }
                        self.wants.push(id);
                    } else if line == b"deepen-relative" {
                        // Git then looks from its refs for the commits at which the client's history ends.
                        return Wants::Unknown;
                    }
                    self.at += length;
                }
                Ok(Decoded::Packet(Packet::Flush, _)) => return Wants::Complete(std::mem::take(&mut self.wants)),
                Ok(Decoded::Packet(Packet::Special(_), _)) | Err(_) => return Wants::Unknown,
                Ok(Decoded::Missing(_)) => return Wants::Incomplete,
            }
        }
    }

    /// Returns all bytes that were added.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns all bytes that were added.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// How many refs of an object are looked at to find a visible one. Usual objects have one or two.
const REFS_MAX: usize = 256;

/// Which objects count as tips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tips {
    /// What refs hold.
    Themselves,
    /// Also what a tag leads to that a ref holds. Where each request has a connection of its own, git lets a client
    /// have all that can be reached from a ref.
    OrTagged,
}

/// Returns those of the wants that are not known to exist and to be tips of visible refs. If very many refs hold an
/// object, it may be among them although it is a tip; then git walks the refs itself.
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
        // The index of a view leads from a tagged object to the refs of its tags, too.
        let holds = |name: &BString| tips == Tips::OrTagged || tip(served, name.as_bstr()) == Some(*want);
        let is_shown = |name: &BString| !hidden.covers(name.as_bstr()) && holds(name);
        let is_visible = Some(*want) == head || names.get(want).is_some_and(|names| names.iter().any(is_shown));
        if !is_visible || !facts.objects.exists(want).map_err(io::Error::other)? {
            others.push(*want);
        }
    }
    Ok(others)
}

/// Returns the object that a ref leads to. As in lists, a ref that cannot be read leads nowhere.
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
        for bad in ["want 12", "want ", "0001", "deepen-relative"] {
            assert_eq!(read(&[bad, "0000"]), Wants::Unknown, "{bad}");
        }
    }
}
