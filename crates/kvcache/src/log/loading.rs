//! Reads the index that the files of a cache give, part by part, so that the cache can be used meanwhile.

use crate::log::{
    index::SHARDS,
    replay::{FoundShard, Replay},
    saved::SavedShards,
};

/// Where the entries come from.
pub(crate) enum Source {
    /// A saved index.
    Saved(SavedShards),
    /// The footers of the segments.
    Footers(Replay),
}

impl Source {
    /// Number of records: in a saved index the live ones, in footers all.
    fn records(&self) -> usize {
        match self {
            Source::Saved(saved) => saved.entries(),
            Source::Footers(replay) => replay.records(),
        }
    }
}

/// The shards of the index that were not read yet.
pub(crate) struct Loading {
    source: Source,
    /// Number of segments that were found; they have the slots from 0.
    pub(crate) segments: u16,
    next: usize,
    /// Number of shards that are read together.
    at_once: usize,
}

/// A part of the index that was read.
pub(crate) struct Part {
    /// For each segment, the bytes of its file that marks (tombstones and notes of dropped segments) take, if that was
    /// not known before.
    pub(crate) marks: Option<Vec<u64>>,
    /// Number of the first of the shards.
    pub(crate) first: usize,
    pub(crate) shards: Vec<FoundShard>,
}

impl Loading {
    /// Reads `source` in parts of about this number of records.
    pub(crate) fn new(source: Source, segments: u16, records_at_once: usize) -> Self {
        let parts = (source.records() / records_at_once.max(1)).clamp(1, SHARDS);
        Loading { source, segments, next: 0, at_once: SHARDS.div_ceil(parts) }
    }

    /// Number of records in all shards.
    pub(crate) fn records(&self) -> usize {
        self.source.records()
    }

    /// Returns whether all shards were read.
    pub(crate) fn is_done(&self) -> bool {
        self.next == SHARDS
    }

    /// Reads the next shards; `None` if they cannot be read from the saved index or are damaged there.
    pub(crate) fn read(&mut self) -> Option<Part> {
        let range = self.next..(self.next + self.at_once).min(SHARDS);
        let (marks, shards) = match &mut self.source {
            Source::Saved(saved) => (None, saved.read(range.clone())?),
            Source::Footers(replay) => (replay.count(), replay.read(range.clone())),
        };
        debug_assert_eq!(shards.len(), range.len(), "each shard is read");
        self.next = range.end;
        Some(Part { marks, first: range.start, shards })
    }

    /// Reads the remaining shards from the footers instead.
    pub(crate) fn turn_to(&mut self, footers: Replay) {
        self.source = Source::Footers(footers);
    }
}
