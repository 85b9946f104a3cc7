//! A cache of objects that serve as bases of deltas in a pack.

use gix_object::Kind;
use gix_pack::cache::DecodeEntry;
use std::collections::BTreeMap;

/// Objects of at most 1 MiB that were met while deltas were resolved. They are kept so that a chain of deltas is not
/// walked to its end for each of the chain's objects.
#[derive(Debug, Default)]
pub(super) struct Bases {
    /// The contents, one after the other.
    content: Vec<u8>,
    entries: BTreeMap<(u32, u64), Entry>,
}

#[derive(Debug)]
struct Entry {
    start: usize,
    end: usize,
    kind: Kind,
    compressed_bytes: usize,
}

/// Maximum number of bytes of content in the cache, enough for tens of thousands of commits. A full cache is emptied,
/// because tracking the age of its entries would cost more.
const CONTENT_MAX_BYTES: usize = 16 << 20;

impl Bases {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl DecodeEntry for Bases {
    fn put(&mut self, pack: u32, offset: u64, data: &[u8], kind: Kind, compressed_bytes: usize) {
        if data.len() > CONTENT_MAX_BYTES / 16 {
            return;
        }
        if self.content.len() + data.len() > CONTENT_MAX_BYTES {
            self.content.clear();
            self.entries.clear();
        }
        debug_assert!(self.content.len() + data.len() <= CONTENT_MAX_BYTES, "emptying the cache made room for it");
        let start = self.content.len();
        self.content.extend_from_slice(data);
        self.entries.insert((pack, offset), Entry { start, end: self.content.len(), kind, compressed_bytes });
    }

    fn get(&mut self, pack: u32, offset: u64, out: &mut Vec<u8>) -> Option<(Kind, usize)> {
        let entry = self.entries.get(&(pack, offset))?;
        debug_assert!(entry.end <= self.content.len(), "entries are forgotten with their content");
        out.clear();
        out.extend_from_slice(&self.content[entry.start..entry.end]);
        Some((entry.kind, entry.compressed_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_got_until_there_is_too_much() {
        let mut bases = Bases::default();
        let mut out = vec![1, 2, 3];
        assert_eq!(bases.get(0, 7, &mut out), None);
        bases.put(0, 7, b"seven", Kind::Commit, 3);
        bases.put(1, 7, b"", Kind::Tag, 4);
        assert_eq!(bases.get(0, 7, &mut out), Some((Kind::Commit, 3)));
        assert_eq!(out, b"seven");
        assert_eq!(bases.get(1, 7, &mut out), Some((Kind::Tag, 4)));
        assert!(out.is_empty());
        bases.put(2, 7, &vec![0; CONTENT_MAX_BYTES / 16 + 1], Kind::Blob, 1);
        assert_eq!(bases.get(2, 7, &mut out), None, "one object must not drive out all others");
        for offset in 0..17 {
            bases.put(3, offset, &vec![0; CONTENT_MAX_BYTES / 16], Kind::Blob, 1);
        }
        assert_eq!(bases.get(0, 7, &mut out), None);
        assert!(bases.get(3, 16, &mut out).is_some() && bases.content.len() <= CONTENT_MAX_BYTES);
    }
}
