//! A block of refs outside of a table: a compact form in which refs can be searched.

use crate::{
    Fault, HashKind, RefValue, WriteOptions,
    block::{BlockWriter, Layout, lower_bound, restart_before},
    format::BlockKind,
    record::{Context, Records, RefRecords, key},
};
use bstr::{BStr, ByteSlice};
use std::{fmt, ops::ControlFlow};

/// Refs in memory, sorted by name and compressed like the ref block of a table. It never changes.
///
/// A ref takes 26 or 27 bytes with SHA-1 if its name differs little from its neighbours' names.
#[derive(Debug)]
pub struct RefBlock {
    bytes: Box<[u8]>,
    layout: Layout,
    hash: HashKind,
}

/// Builds [`RefBlock`]s, one after the other, in a buffer that is reused.
pub struct RefBlockWriter {
    block: BlockWriter,
    hash: HashKind,
    last: Vec<u8>,
}

/// The greatest number of records from one restart point to the next: git's default. Fewer restart points make a block
/// smaller, but slower to search.
const RESTART_INTERVAL: u16 = 16;

impl fmt::Debug for RefBlockWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefBlockWriter").field("last", &self.last.as_bstr()).finish_non_exhaustive()
    }
}

impl RefBlockWriter {
    /// Creates a writer for object ids of this hash function.
    pub fn new(hash: HashKind) -> Self {
        let mut block = BlockWriter::new(RESTART_INTERVAL);
        block.begin(BlockKind::Ref, |_| {});
        RefBlockWriter { block, hash, last: Vec::new() }
    }

    /// Adds a ref. Returns `false` and adds nothing if the name is not greater than the last one, an id has another
    /// hash function, or the block has no room.
    pub fn add(&mut self, name: &BStr, value: &RefValue<'_>) -> bool {
        let is_of_kind = match value {
            RefValue::Direct(id) => id.kind() == self.hash,
            RefValue::Peeled { target, peeled } => target.kind() == self.hash && peeled.kind() == self.hash,
            RefValue::Deletion | RefValue::Symbolic(_) => true,
        };
        if !is_of_kind || name.as_bytes() <= self.last.as_slice() {
            return false;
        }
        let shared = key::common_prefix(&self.last, name);
        let limit = WriteOptions::BLOCK_SIZE_MAX as usize;
        if !self.block.add(name, shared, value.type_bits(), limit, |out| value.encode(0, out)) {
            return false;
        }
        self.last.truncate(shared);
        self.last.extend_from_slice(&name[shared..]);
        debug_assert_eq!(self.last, name.as_bytes(), "the next name is compared with this one");
        true
    }

    /// Returns the block of the refs that were added, and leaves the writer empty.
    ///
    /// # Errors
    ///
    /// A fault if no refs were added, since a block has at least one.
    pub fn finish(&mut self) -> Result<RefBlock, Fault> {
        let bytes: Box<[u8]> = self.block.finish().into();
        self.block.begin(BlockKind::Ref, |_| {});
        self.last.clear();
        let layout = Layout::of(BlockKind::Ref, &bytes, 0)?;
        Ok(RefBlock { bytes, layout, hash: self.hash })
    }
}

impl RefBlock {
    /// The length of the block in memory, in bytes.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Looks up a ref by its name.
    ///
    /// # Errors
    ///
    /// The fault, if the block is damaged.
    pub fn find(&self, name: &BStr) -> Result<Option<RefValue<'_>>, Fault> {
        let found = lower_bound::<RefRecords>(&self.bytes, &self.layout, name, &self.context())?;
        Ok(found.filter(|(is_equal, _)| *is_equal).map(|(_, place)| place.value(&self.bytes, self.hash)))
    }

    /// Passes the refs from the name `start` on to `visit`, in order, until it breaks.
    ///
    /// # Errors
    ///
    /// The fault, if the block is damaged.
    pub fn for_each_from(
        &self,
        start: &BStr,
        visit: &mut dyn FnMut(&BStr, RefValue<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Fault> {
        let records = &self.bytes[..self.layout.restarts_at];
        let (mut key, context) = (key::Key::default(), self.context());
        let mut at = restart_before(&self.bytes, &self.layout, start)?;
        let mut is_before = true;
        while at < records.len() {
            let (_, value_type) = key.read(records, &mut at)?;
            let (place, after) = RefRecords::parse(records, at, value_type, &context, &[])?;
            at = after;
            is_before = is_before && key.as_slice() < start.as_bytes();
            debug_assert!(is_before || key.as_slice() >= start.as_bytes(), "refs are handed over in order");
            if !is_before && visit(key.as_slice().as_bstr(), place.value(records, self.hash)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn context(&self) -> Context {
        Context { hash: self.hash, min_update_index: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectId;

    fn id(hash: HashKind, at: usize) -> ObjectId {
        let bytes: Vec<u8> = (0..hash.len_bytes()).map(|byte| (at * 31 + byte * 7) as u8).collect();
        ObjectId::from_bytes(hash, &bytes).unwrap()
    }

    #[test]
    fn refs_are_found_again_and_nothing_else_is() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let mut writer = RefBlockWriter::new(hash);
            for _ in 0..2 {
                let names: Vec<String> = (0..1000).map(|at| format!("refs/changes/{:02}/{at:04}/1", at / 50)).collect();
                let value = |at: usize| match at % 3 {
                    0 => RefValue::Peeled { target: id(hash, at), peeled: id(hash, at + 1) },
                    _ => RefValue::Direct(id(hash, at)),
                };
                for (at, name) in names.iter().enumerate() {
                    assert!(writer.add(name.as_str().into(), &value(at)));
                    assert!(!writer.add(name.as_str().into(), &value(at)), "the same name twice");
                }
                assert!(!writer.add("refs/a".into(), &value(1)), "out of order");
                assert!(!writer.add("".into(), &value(1)));
                let block = writer.finish().unwrap();
                assert!(block.len_bytes() < 1000 * (hash.len_bytes() * 4 / 3 + 9));
                for (at, name) in names.iter().enumerate() {
                    assert_eq!(block.find(name.as_str().into()), Ok(Some(value(at))));
                    assert_eq!(block.find(format!("{name}0").as_str().into()), Ok(None));
                    assert_eq!(block.find(name[..name.len() - 1].into()), Ok(None));
                }
                let mut at = 0;
                let walked = block.for_each_from("".into(), &mut |name, found| {
                    assert_eq!((name, found), (names[at].as_str().into(), value(at)));
                    at += 1;
                    if at == 999 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                assert_eq!((walked, at), (Ok(ControlFlow::Break(())), 999));
                for from in [0, 1, 15, 16, 17, 500, 999] {
                    for (start, first) in [(names[from].clone(), from), (format!("{}!", names[from]), from + 1)] {
                        let mut found = Vec::new();
                        let walked = block.for_each_from(start.as_str().into(), &mut |name, _| {
                            found.push(name.to_string());
                            ControlFlow::Continue(())
                        });
                        assert_eq!((walked, &*found), (Ok(ControlFlow::Continue(())), &names[first..]), "{start}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_id_of_another_kind_is_refused_and_an_empty_block_is_an_error() {
        let mut writer = RefBlockWriter::new(HashKind::Sha1);
        assert!(!writer.add("refs/a".into(), &RefValue::Direct(id(HashKind::Sha256, 1))));
        assert!(writer.finish().is_err());
    }
}
