use super::{Block, BlockLoader, Loaded, Table};
use crate::{
    Error, Fault, Result,
    block::{first_key, restart_from, restart_offset},
    format::BlockKind,
    record::{
        Context, Records,
        key::{self, Key, common_prefix},
    },
};
use std::{borrow::Cow, ops::ControlFlow, sync::Arc};

/// A function that is called with a key, its value, the context of the table, and the records that contain the value.
pub(crate) trait Visit<R: Records>: FnMut(&[u8], &R::Value, &Context, &[u8]) -> ControlFlow<()> {}
impl<R: Records, F: FnMut(&[u8], &R::Value, &Context, &[u8]) -> ControlFlow<()>> Visit<R> for F {}

/// Steps through the records of one kind in one table, in the order of their keys. [`Seeker`](super::Seeker) adds
/// seeking through an index.
///
/// The key of the current record is assembled in a buffer, while its value stays in the block. Only bytes that are read
/// are checked: a damaged table gives an error or wrong records, but never a panic, and every loop moves forward in the
/// file.
pub(crate) struct Cursor<R: Records> {
    table: Arc<Table>,
    context: Context,
    loader: BlockLoader,
    pub(super) block: Option<Block>,
    /// The offset in the block of the record after the current one.
    after: usize,
    /// The offset at which the records of the block end; 0 unless there is a current record.
    end: usize,
    /// The number of a restart point at or before the current record. Searches within a block only move it forward.
    pub(super) restart: usize,
    /// The key of the current record; at the end, that of the last one that was read, or empty.
    pub(super) key: Key,
    value: R::Value,
    pub(super) at: At,
    /// The number of bytes that the current key is known to share with the previous key.
    shared: usize,
    /// If set, no record has a key from this one, inclusive, up to that of the current record or the end. Seeking to a
    /// key in that gap costs nothing, which matters because a sorted batch of new names does so again and again.
    pub(super) floor: Vec<u8>,
    pub(super) floor_is_set: bool,
}

/// The position of a cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    /// Before the first record of the current block, or of the section if there is no current block.
    Start,
    /// On a record.
    Record,
    /// After the last record.
    End,
    /// Unknown, for example after an error, until the next seek.
    Lost,
}

impl<R: Records> Cursor<R> {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let context = Context { hash: table.hash(), min_update_index: table.min_update_index() };
        Cursor {
            table,
            context,
            loader: BlockLoader::default(),
            block: None,
            after: 0,
            end: 0,
            restart: 0,
            key: Key::default(),
            value: R::Value::default(),
            at: At::Start,
            shared: 0,
            floor: Vec::new(),
            floor_is_set: false,
        }
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns whether there is a current record.
    pub(crate) fn is_on_record(&self) -> bool {
        self.at == At::Record
    }

    /// The key of the current record.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.key.as_slice()
    }

    /// The value of the current record.
    #[inline]
    pub(crate) fn value(&self) -> &R::Value {
        &self.value
    }

    /// The context of the table's records.
    #[inline]
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// The number of bytes that the current key is known to share with the previous one, if `step` has moved here.
    #[inline]
    pub(crate) fn shared(&self) -> usize {
        self.shared
    }

    /// The records that contain the current value.
    #[inline]
    pub(crate) fn records(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], Block::records)
    }

    /// The block that contains the current record.
    pub(crate) fn block(&self) -> Option<&Block> {
        self.block.as_ref()
    }

    /// Moves to the next record. Returns whether there is one; `false` if the position is unknown after an error.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<bool> {
        if self.after >= self.end {
            return self.step_to_next_block();
        }
        self.floor_is_set = false;
        self.decode().map(|()| true)
    }

    /// Passes the current record, and if `on` is set those that follow, to `visit`, without tombstones, until `visit`
    /// breaks or there are no more. After a break the cursor is still on the record that was passed last.
    #[inline(always)]
    pub(crate) fn for_each_visible(&mut self, on: bool, visit: &mut impl Visit<R>) -> Result<ControlFlow<()>> {
        while self.at == At::Record {
            let Some(block) = &self.block else { break };
            let records = block.records();
            loop {
                let is_visible = !R::is_deletion(&self.value);
                if is_visible && visit(self.key.as_slice(), &self.value, &self.context, records).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if !on {
                    return Ok(ControlFlow::Continue(()));
                }
                if self.after >= records.len() {
                    break;
                }
                let mut at = self.after;
                let decoded = self.key.read_greater(records, &mut at).and_then(|(shared, value_type)| {
                    self.shared = shared;
                    R::parse(records, at, value_type, &self.context, self.key.as_slice())
                });
                match decoded {
                    Ok((value, after)) => (self.value, self.after) = (value, after),
                    Err(fault) => return self.fail_in_block(self.after, fault),
                }
                self.floor_is_set = false;
            }
            self.step_to_next_block()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Moves to the next record, and remembers the gap between the two, so that a seek into it costs nothing.
    pub(crate) fn pass(&mut self) -> Result<bool> {
        debug_assert!(self.is_on_record(), "only what follows a record is known to be empty");
        let mut floor = std::mem::take(&mut self.floor);
        floor.clear();
        floor.extend_from_slice(self.key());
        // The least key that is greater than the current one.
        floor.push(0);
        let stepped = self.step();
        self.floor = floor;
        self.floor_is_set = stepped.is_ok();
        stepped
    }

    /// Decodes the record at `after`. The buffer must hold the key before it.
    #[inline]
    fn decode(&mut self) -> Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        let records = block.records();
        let mut at = self.after;
        debug_assert!(at <= records.len(), "a record ends where the restart points begin, at the latest");
        let decoded = match self.key.read_greater(records, &mut at) {
            Ok((shared, value_type)) => {
                self.shared = shared;
                R::parse(records, at, value_type, &self.context, self.key.as_slice())
            }
            Err(fault) => Err(fault),
        };
        match decoded {
            Ok((value, after)) => {
                debug_assert!(self.after < after && after <= records.len(), "each record leads on, within the block");
                self.value = value;
                self.after = after;
                self.end = records.len();
                self.at = At::Record;
                Ok(())
            }
            Err(fault) => self.fail_in_block(self.after, fault),
        }
    }

    #[cold]
    fn fail_in_block<T>(&mut self, offset: usize, fault: Fault) -> Result<T> {
        let place = self.block.as_ref().map_or(0, |block| block.place_of(offset));
        self.be(At::Lost);
        Err(self.table.corrupt(place, fault).behind(&self.name()))
    }

    /// Moves to a position without a current record.
    pub(super) fn be(&mut self, at: At) {
        self.at = at;
        self.end = 0;
    }

    #[cold]
    fn step_to_next_block(&mut self) -> Result<bool> {
        let position = match (self.at, &self.block) {
            (At::End | At::Lost, _) => return Ok(false),
            (At::Record, Some(block)) => Some(block.next),
            _ => self.table.section(R::BLOCK).map(|section| section.start),
        };
        self.floor_is_set = false;
        match position {
            Some(position) => self.enter(position),
            None => {
                self.be(At::End);
                Ok(false)
            }
        }
    }

    /// Moves to the first record of the block at `position`. Returns `false`, and is at the end, if the section ends
    /// there.
    fn enter(&mut self, position: u64) -> Result<bool> {
        if self.load(position)?.is_some() {
            self.be(At::End);
            return Ok(false);
        }
        // In an index the next block can belong to the next level, where the keys begin again.
        if R::BLOCK != BlockKind::Index {
            self.check_first_key()?;
        }
        // Keys share nothing across blocks. The last key is kept until here, because it is needed at the end of the
        // section.
        self.key.clear();
        self.decode().map(|()| true)
    }

    /// Checks that the first key of the block is greater than the last key of the previous block.
    fn check_first_key(&mut self) -> Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        let checked = self.check_begins_behind(block);
        if checked.is_err() {
            self.be(At::Lost);
        }
        checked
    }

    /// Checks that the first key of `block` is greater than the current key.
    fn check_begins_behind(&self, block: &Block) -> Result<()> {
        let fault = match first_key(block.bytes(), &block.layout) {
            Ok(first) if first > self.key.as_slice() => return Ok(()),
            Ok(_) => Fault::KeyOrder,
            Err(fault) => fault,
        };
        Err(self.table.corrupt(block.place_of(block.layout.records_at), fault).behind(&self.name()))
    }

    /// The name in the current key, or in the last one that was read. In the index of objects the key is an abbreviated
    /// object id, which is returned in hexadecimal digits.
    fn name(&self) -> Cow<'_, [u8]> {
        let (key, footer) = (self.key.as_slice(), &self.table.footer);
        let position = self.block.as_ref().map_or(0, |block| block.position);
        if footer.objects > 0 && position >= footer.objects && (footer.logs == 0 || position < footer.logs) {
            return key.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect::<Vec<u8>>().into();
        }
        key.split(|byte| *byte == 0).next().unwrap_or_default().into()
    }

    /// Checks that the next key that is stored whole is greater than the current one. This serves a walk that ends
    /// here because of the current key: a damaged key that seems greater than the wanted ones would end the walk too
    /// early.
    pub(crate) fn check_ahead(&mut self) -> Result<()> {
        let Some(block) = self.block.as_ref().filter(|_| self.at == At::Record) else { return Ok(()) };
        let offset_of = |index| restart_offset(block.bytes(), &block.layout, index);
        let (mut low, mut high) = (0, block.layout.restart_count);
        while low < high {
            let middle = low + (high - low) / 2;
            match offset_of(middle) {
                Ok(offset) if offset < self.after => low = middle + 1,
                Ok(_) => high = middle,
                Err(fault) => return self.fail_in_block(block.layout.restarts_at, fault),
            }
        }
        if low == block.layout.restart_count {
            let next = self.loader.load_if(&self.table, block.next, R::BLOCK)?.and_then(Loaded::block);
            return next.map_or(Ok(()), |next| self.check_begins_behind(&next));
        }
        let offset = offset_of(low).unwrap_or(self.after);
        match key::get_whole(block.records(), &mut offset.clone()) {
            Ok(next) if next > self.key.as_slice() => Ok(()),
            Ok(_) => self.fail_in_block(offset, Fault::KeyOrder),
            Err(fault) => self.fail_in_block(offset, fault),
        }
    }

    /// Makes the block at `position` the current one, without a current record. If that block has another kind, returns
    /// that kind, or 0 if there is no block; the position is then unknown.
    pub(super) fn load(&mut self, position: u64) -> Result<Option<u8>> {
        self.loader.recycle(self.block.take());
        self.be(At::Lost);
        match self.loader.load_if(&self.table, position, R::BLOCK)? {
            Some(Loaded::Block(block)) => {
                self.stand_before(block);
                Ok(None)
            }
            Some(Loaded::Other(kind)) => Ok(Some(kind as u8)),
            None => Ok(Some(0)),
        }
    }

    /// Moves to the first record of the block at `position`; fails if there is no block of this kind.
    pub(crate) fn step_into(&mut self, position: u64) -> Result<bool> {
        self.floor_is_set = false;
        if let Some(found) = self.load(position)? {
            return Err(wrong_kind(&self.table, position, R::BLOCK, found));
        }
        self.key.clear();
        self.decode().map(|()| true)
    }

    /// Moves to the next record of the same block. Returns whether there is one.
    pub(crate) fn step_within_block(&mut self) -> Result<bool> {
        self.floor_is_set = false;
        if self.block.as_ref().is_none_or(|block| self.after >= block.layout.restarts_at) {
            return Ok(false);
        }
        self.decode().map(|()| true)
    }

    /// Makes `block` the current one, without a current record.
    pub(super) fn stand_before(&mut self, block: Block) {
        debug_assert_eq!(block.layout.kind, R::BLOCK, "its records are read as those of this kind");
        self.loader.recycle(self.block.take());
        self.after = block.layout.records_at;
        self.restart = 0;
        self.block = Some(block);
        self.be(At::Start);
    }

    /// Returns whether `wanted` is known to be greater than all keys, for a cursor at the end.
    pub(super) fn is_past_end(&self, wanted: &[u8]) -> bool {
        if self.floor_is_set { self.floor.as_slice() <= wanted } else { self.key.as_slice() < wanted }
    }

    /// Moves to the first record from the current one on whose key is `wanted` or greater, or to the end. Searches the
    /// block and at most `hops` blocks after it; returns `false` if that record may lie farther on.
    pub(super) fn search_blocks(&mut self, wanted: &[u8], mut hops: usize) -> Result<bool> {
        loop {
            if self.gallop_restarts(wanted)? {
                return match self.search_interval(wanted)? {
                    true => Ok(true),
                    false => self.fail_in_block(self.after, Fault::KeyOrder),
                };
            }
            let position = self.block.as_ref().map_or(u64::MAX, |block| block.next);
            let next = self.loader.load_if(&self.table, position, R::BLOCK)?.and_then(Loaded::block);
            match next {
                Some(next) if self.begins_at_or_before(&next, wanted)? => {
                    if hops == 0 {
                        return Ok(false);
                    }
                    hops -= 1;
                    self.stand_before(next);
                }
                _ if self.search_interval(wanted)? => return Ok(true),
                Some(next) => {
                    self.stand_before(next);
                    self.key.clear();
                    return self.decode().map(|()| true);
                }
                None => {
                    self.be(At::End);
                    return Ok(true);
                }
            }
        }
    }

    /// Moves `restart` forward to the last restart point whose key is not greater than `wanted`. Returns whether
    /// another restart point follows in the block; the key of that one is greater than `wanted`.
    fn gallop_restarts(&mut self, wanted: &[u8]) -> Result<bool> {
        let Some(block) = &self.block else { return Ok(false) };
        let count = block.layout.restart_count;
        let found = restart_from(block.bytes(), &block.layout, self.restart, wanted);
        match found {
            Ok(restart) => {
                debug_assert!((self.restart..count).contains(&restart), "restart points only move forward in a block");
                self.restart = restart;
                Ok(restart + 1 < count)
            }
            Err(fault) => {
                let offset = block.layout.restarts_at;
                self.fail_in_block(offset, fault)
            }
        }
    }

    fn begins_at_or_before(&mut self, block: &Block, wanted: &[u8]) -> Result<bool> {
        match first_key(block.bytes(), &block.layout) {
            Ok(key) => Ok(key <= wanted),
            Err(fault) => {
                self.be(At::Lost);
                Err(self.table.corrupt(block.place_of(block.layout.records_at), fault))
            }
        }
    }

    /// Steps at most `steps` times within the block. Returns whether the steps reached `wanted` or a greater key.
    pub(super) fn step_in_block(&mut self, wanted: &[u8], steps: usize) -> Result<bool> {
        let Some(end) = self.block.as_ref().map(|block| block.layout.restarts_at) else { return Ok(false) };
        // The current key is less than `wanted`. So is each following key that shares more bytes with the current key
        // than `wanted` does.
        let mut matched = common_prefix(self.key(), wanted);
        for _ in 0..steps {
            if self.after >= end {
                return Ok(false);
            }
            self.decode()?;
            if self.shared <= matched {
                matched = self.shared + common_prefix(&self.key()[self.shared..], &wanted[self.shared..]);
                if self.key()[matched..] >= wanted[matched..] {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Searches the block for `wanted` or a greater key. Returns whether the block has one.
    pub(super) fn search_block(&mut self, wanted: &[u8]) -> Result<bool> {
        self.gallop_restarts(wanted)?;
        self.search_interval(wanted)
    }

    /// Searches the block for `wanted` or a greater key, from `restart` or the current record on, whichever is later.
    fn search_interval(&mut self, wanted: &[u8]) -> Result<bool> {
        let Some(block) = &self.block else { return Ok(false) };
        let start = match self.restart {
            0 => Ok(block.layout.records_at),
            restart => restart_offset(block.bytes(), &block.layout, restart),
        };
        let start = match start {
            Ok(start) => start,
            Err(fault) => {
                let offset = block.layout.restarts_at;
                return self.fail_in_block(offset, fault);
            }
        };
        if self.at != At::Record || start >= self.after {
            self.after = start;
            self.key.clear();
            self.decode()?;
            if self.key() >= wanted {
                return Ok(true);
            }
        }
        self.step_in_block(wanted, usize::MAX)
    }
}

pub(super) fn wrong_kind(table: &Table, position: u64, expected: BlockKind, found: u8) -> Error {
    table.corrupt(position, Fault::WrongBlockType { expected: expected as u8, found })
}
