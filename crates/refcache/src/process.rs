//! What all views of a process share: their memory, their open files, and the thread that packs loose refs.

use crate::{
    Holdings, ViewsSettings,
    background_pack::BackgroundPacker,
    ignored_trust::WarnedMounts,
    in_flight::Repositories,
    memory::{Memory, Part},
    open_views::{OpenViews, Slot},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// What all views of a process share.
pub(crate) struct Process {
    pub(crate) memory: Arc<Memory>,
    pub(crate) open_views: Arc<OpenViews>,
    pub(crate) in_flight: Repositories,
    pub(crate) background_packer: Arc<BackgroundPacker>,
    /// Whether it was reported that git may pack refs for a reason that no configuration file gives.
    pub(crate) is_git_told: AtomicBool,
    /// The mounts on which a trust setting was reported to have no effect.
    pub(crate) warned_mounts: WarnedMounts,
}

impl Process {
    pub(crate) fn new(settings: &ViewsSettings) -> Arc<Self> {
        Arc::new(Process {
            memory: Memory::new(settings),
            open_views: OpenViews::new(settings),
            in_flight: Repositories::default(),
            background_packer: Arc::default(),
            is_git_told: AtomicBool::new(false),
            warned_mounts: WarnedMounts::default(),
        })
    }

    /// The resources that the views of the process hold together. `views` is the number of views.
    pub(crate) fn holdings(&self, views: u64) -> Holdings {
        let (background_packs, failed_background_packs) = self.background_packer.counts();
        Holdings {
            views,
            open_views: self.open_views.count() as u64,
            closed: self.open_views.closed(),
            files: self.open_views.files() as u64,
            files_max: self.open_views.files_max() as u64,
            bytes: self.memory.held_bytes() as u64,
            bytes_max: self.memory.bytes_max as u64,
            background_packs,
            failed_background_packs,
        }
    }

    /// Releases memory, if possible until the limit holds. `spared`, which is answering a query, is not closed.
    pub(crate) fn trim(&self, spared: &Arc<Slot>) {
        let memory = &self.memory;
        memory.blocks.trim();
        if !memory.is_over() {
            return;
        }
        let slots = self.open_views.by_use();
        self.open_views.tick();
        for opened in slots.iter().filter_map(|slot| slot.get()) {
            opened.reader.release(Part::Text);
        }
        // If releasing the text was enough, the other caches are kept, because they may answer most queries.
        let bound = memory.bound_bytes();
        if memory.held_bytes() <= bound / 32 * 31 {
            return;
        }
        let closed_bytes = memory.closed_bytes.load(Relaxed);
        let enough = closed_bytes + bound.saturating_sub(closed_bytes + memory.blocks.held_bytes()) / 4 * 3;
        let others = || slots.iter().filter(|slot| !Arc::ptr_eq(slot, spared));
        for slot in others() {
            for part in [Part::Pages, Part::All] {
                if memory.pages.used_bytes() <= enough {
                    return;
                }
                if let Some(opened) = slot.get() {
                    opened.reader.release(part);
                }
            }
        }
        if let Some(opened) = spared.get() {
            // The view may need more memory than there is. The pages that it uses most remain, unless even they are too
            // much.
            opened.reader.release(Part::PagesOf(memory.pages.used_bytes().saturating_sub(enough)));
            if memory.held_bytes() > bound {
                opened.reader.release(Part::All);
            }
        }
        for slot in others() {
            if memory.pages.used_bytes() <= enough {
                return;
            }
            self.open_views.close(slot);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.background_packer.end();
    }
}
