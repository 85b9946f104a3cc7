//! Filling the index after a start, while the cache is in use.
//!
//! Until a shard is filled, its old entries are misses, and what is put or removed wins over them. Before the index is
//! complete, nobody knows which records of a segment are live, so only a clear frees segments.

use super::steps::Reclaim;
use crate::log::{footers::Footer, loading::Loading, recover::read_footer, replay::Replay};

impl Reclaim {
    /// Gives the index what the files have, part by part, with the next calls of [`Reclaim::load_step`].
    pub(crate) fn begin_loading(&self, loading: Loading) {
        *self.loading.lock() = Some(loading);
    }

    /// Fills the next shards of the index. Returns false if none is left to fill, for example because the cache was
    /// cleared.
    pub(crate) fn load_step(&self) -> bool {
        let mut loading = self.loading.lock();
        let more = loading.as_mut().is_some_and(|left| self.load(left));
        if !more {
            *loading = None;
        }
        more
    }

    /// Fills the whole index, together with other threads that do the same.
    pub(crate) fn finish_loading(&self) {
        while self.load_step() {}
    }

    fn load(&self, loading: &mut Loading) -> bool {
        let store = &self.store;
        if store.log().is_loaded() {
            // Everything was removed meanwhile, so what the files had is of no use, even if it is damaged.
            return false;
        }
        let Some(part) = loading.read() else { return self.load_footers(loading) };
        if let Some(marks) = part.marks {
            store.log().set_marks(marks);
        }
        for (number, found) in (part.first..).zip(part.shards) {
            if !store.log().complete(&store.view, number, found) {
                return false;
            }
        }
        !loading.is_done()
    }

    /// Turns to the footers, because the saved index cannot be used. If a footer cannot be read either, everything is
    /// removed, because values that its records had replaced could come back.
    fn load_footers(&self, loading: &mut Loading) -> bool {
        let footers: Option<Vec<Footer>> = (0..loading.segments).map(|slot| self.footer_of(slot)).collect();
        if let Some(footers) = footers {
            loading.turn_to(Replay::new(footers));
            return true;
        }
        if self.store.log().is_loaded() {
            return false;
        }
        self.store.view.counters.corrupt.add(1);
        // If this fails, the old entries stay misses until the next start, which reads the files again.
        let _ = self.wipe();
        false
    }

    fn footer_of(&self, slot: u16) -> Option<Footer> {
        let segment = self.store.view.at(slot)?;
        let file = self.store.files.fs.open(segment.path()).ok()?;
        let len_bytes = file.stat().ok()?.len_bytes;
        read_footer(&file, len_bytes, segment.seq).ok()?.map(|(_, entries)| Footer::Read(entries))
    }
}
