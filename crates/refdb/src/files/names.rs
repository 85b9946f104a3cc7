//! The names of a transaction's claims, in byte order.

use bstr::{BStr, ByteSlice};

/// The claims' names in one piece of memory.
#[derive(Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    pub(super) fn push(&mut self, name: &BStr) {
        debug_assert!(self.last() < Some(name), "locks are taken in order of name, each once: {name}");
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn last(&self) -> Option<&BStr> {
        self.ends.len().checked_sub(1).map(|last| self.get(last))
    }

    pub(super) fn get(&self, at: usize) -> &BStr {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes[start..self.ends[at]].as_bstr()
    }
}
