//! Compares an index with the blocks that it lists.

use super::{Found, Report, blocks::FoundBlock};
use crate::{Fault, Table, format::BlockKind};

/// More levels than any index can need.
const LEVELS_MAX: usize = 64;

/// Walks from the root blocks down, level by level. The last level must consist of all blocks of the section, in order.
pub(super) fn compare(table: &Table, found: &Found, kind: BlockKind, report: &mut Report) {
    let blocks: Vec<&FoundBlock> = found.blocks.iter().filter(|block| block.kind == kind).collect();
    let Some(section) = table.section(kind) else {
        if let Some(block) = blocks.first() {
            report.add(block.position, Fault::Unreachable);
        }
        return;
    };
    if blocks.first().is_none_or(|block| block.position != section.start && section.start != 0) {
        report.add(table.blocks_end, Fault::SectionPosition(section.start));
    }
    if section.index == 0 {
        return;
    }
    // C git can leave several root blocks, one after the other.
    let from_root = found.blocks.iter().skip_while(|block| block.position < section.index);
    let mut level: Vec<&FoundBlock> = from_root.take_while(|block| block.kind == BlockKind::Index).collect();
    if level.first().is_none_or(|block| block.position != section.index) {
        return report.add(table.blocks_end, Fault::SectionPosition(section.index));
    }
    for _ in 0..LEVELS_MAX {
        let mut below = Vec::new();
        for block in &level {
            // A sound index lists no block twice, so a level has no more entries than there are blocks.
            if below.len() > found.blocks.len() {
                return report.add(section.index, Fault::IndexIncomplete);
            }
            for (key, position) in &block.children {
                match found.at(*position) {
                    Some(child) if child.last_key == *key => below.push(child),
                    _ => report.add(block.position, Fault::IndexEntry(*position)),
                }
            }
        }
        if below.iter().all(|block| block.kind == kind) {
            let listed = below.iter().map(|block| block.position);
            if !listed.eq(blocks.iter().map(|block| block.position)) {
                report.add(section.index, Fault::IndexIncomplete);
            }
            return;
        }
        if below.iter().any(|block| block.kind != BlockKind::Index) {
            return report.add(section.index, Fault::IndexIncomplete);
        }
        level = below;
    }
    report.add(section.index, Fault::IndexDepth);
}

impl Found {
    /// The block at a position, if one was found there.
    pub(super) fn at(&self, position: u64) -> Option<&FoundBlock> {
        self.blocks.binary_search_by_key(&position, |block| block.position).ok().map(|at| &self.blocks[at])
    }
}
