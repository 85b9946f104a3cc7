//! Reads all blocks in the order of their positions.

use super::Report;
use crate::{
    Error, Fault, Result, Table,
    block::restart_offset,
    format::BlockKind,
    record::{Context, IndexRecords, LogRecords, ObjectRecords, Records, RefRecords, key::get_whole, log_update_index},
    table::{Block, BlockScan},
};
use refdb_types::ObjectId;
use std::sync::Arc;

/// What was read from the blocks, to be compared with the indexes.
#[derive(Default)]
pub(super) struct Found {
    pub(super) blocks: Vec<FoundBlock>,
    /// The object ids to which refs point, each with the position of the ref's block.
    pub(super) pointed: Vec<(ObjectId, u64)>,
    pub(super) objects: Vec<FoundObject>,
    /// Whether every record of every block could be read.
    pub(super) complete: bool,
}

pub(super) struct FoundBlock {
    pub(super) position: u64,
    pub(super) kind: BlockKind,
    pub(super) last_key: Vec<u8>,
    /// The entries of an index block: the last key and the position of each block below.
    pub(super) children: Vec<(Vec<u8>, u64)>,
}

/// A record of the object index.
pub(super) struct FoundObject {
    pub(super) block: u64,
    pub(super) id: Vec<u8>,
    /// The positions of ref blocks; empty if there were too many to list, or if they are damaged.
    pub(super) positions: Vec<u64>,
}

pub(super) fn read(table: &Arc<Table>, report: &mut Report) -> Result<Found> {
    let mut found = Found { complete: true, ..Found::default() };
    let mut scan = BlockScan::new(table.clone());
    loop {
        let position = scan.position();
        match scan.next() {
            Ok(None) => return Ok(found),
            Ok(Some(block)) => {
                check_len(table, &block, report);
                check_restarts(&block, report);
                check_padding(table, &block, report)?;
                read_records(table, &block, &mut found, report);
            }
            Err(Error::Corrupt(corruption)) => {
                report.push(*corruption);
                found.complete = false;
                // The length of the block is unknown, but the next section that the footer mentions can still be read.
                let footer = &table.footer;
                let starts = [footer.ref_index, footer.objects, footer.object_index, footer.logs, footer.log_index];
                match starts.into_iter().filter(|start| *start > position).min() {
                    Some(start) => scan.skip_to(start),
                    None => return Ok(found),
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Checks that a block other than a log block is not larger than the header's block size. The file's header counts as a
/// part of the first block.
fn check_len(table: &Table, block: &Block, report: &mut Report) {
    if let Some(len) = table.len_beyond_block_size(block) {
        report.add(block.position, Fault::BlockTooLarge { len, block_size: table.footer.header.block_size });
    }
}

/// Checks that the restart points ascend from the first record on, and that each leads to a record with a whole key.
fn check_restarts(block: &Block, report: &mut Report) {
    let bytes = block.bytes();
    let mut last = None;
    for index in 0..block.layout.restart_count {
        let checked = restart_offset(bytes, &block.layout, index).and_then(|offset| {
            let in_order = last.map_or(offset == block.layout.records_at, |last| last < offset);
            last = Some(offset);
            if !in_order {
                return Err(Fault::RestartOffset(offset as u32));
            }
            get_whole(block.records(), &mut offset.clone()).map(drop)
        });
        if let Err(fault) = checked {
            report.add(block.place_of(block.layout.restarts_at), fault);
        }
    }
}

fn check_padding(table: &Table, block: &Block, report: &mut Report) -> Result<()> {
    if block.layout.kind == BlockKind::Log {
        return Ok(());
    }
    let end = block.position + block.bytes().len() as u64;
    let next = block.next.min(table.blocks_end);
    debug_assert!(end <= next, "a block ends within the file's blocks, and before the next one: {end}");
    let padding = table.source.read(end, (next - end) as usize)?;
    if let Some(at) = padding.iter().position(|byte| *byte != 0) {
        report.add(end + at as u64, Fault::Padding);
    }
    Ok(())
}

fn read_records(table: &Table, block: &Block, found: &mut Found, report: &mut Report) {
    let kind = block.layout.kind;
    let context = Context { hash: table.hash(), min_update_index: table.min_update_index() };
    let max = table.max_update_index();
    // Keys ascend through a section. The order of index blocks is checked later, when they are compared with the blocks
    // below them.
    let mut last_key = match found.blocks.last() {
        Some(before) if before.kind == kind && kind != BlockKind::Index => before.last_key.clone(),
        _ => Vec::new(),
    };
    let mut children = Vec::new();
    let mut check = |offset: usize, key: &[u8], update_index: u64, report: &mut Report| {
        if key <= last_key.as_slice() {
            report.add(block.place_of(offset), Fault::KeyOrder);
        }
        if update_index > max {
            report.add(block.place_of(offset), Fault::UpdateIndex);
        }
        last_key.clear();
        last_key.extend_from_slice(key);
    };
    let read = match kind {
        BlockKind::Ref => block.each::<RefRecords>(&context, |offset, key, value| {
            check(offset, key, value.update_index, report);
            if key.contains(&0) {
                report.add(block.place_of(offset), Fault::Key);
            }
            found.pointed.extend(value.objects(block.records(), context.hash).map(|id| (id, block.position)));
        }),
        BlockKind::Log => block.each::<LogRecords>(&context, |offset, key, value| {
            // A tombstone may hide an entry with a greater update index than this table has.
            let update_index = if LogRecords::is_deletion(value) { 0 } else { log_update_index(key) };
            check(offset, key, update_index, report);
        }),
        BlockKind::Object => block.each::<ObjectRecords>(&context, |offset, key, value| {
            check(offset, key, 0, report);
            if key.len() != usize::from(table.footer.object_id_len) {
                report.add(block.place_of(offset), Fault::Key);
            }
            let positions: Result<Vec<u64>, Fault> = value.positions(block.records()).collect();
            let positions = positions.unwrap_or_else(|fault| {
                report.add(block.place_of(offset), fault);
                Vec::new()
            });
            found.objects.push(FoundObject { block: block.position, id: key.to_vec(), positions });
        }),
        BlockKind::Index => block.each::<IndexRecords>(&context, |offset, key, value| {
            check(offset, key, 0, report);
            children.push((key.to_vec(), value.position));
        }),
    };
    if let Err((offset, fault)) = read {
        report.add(block.place_of(offset), fault);
        found.complete = false;
    }
    debug_assert!(found.blocks.last().is_none_or(|last| last.position < block.position), "`Found::at` halves them");
    found.blocks.push(FoundBlock { position: block.position, kind, last_key, children });
}
