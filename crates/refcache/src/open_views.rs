//! Which views hold files open, and which of them are closed when there are too many.

use crate::{ViewsSettings, opened::Opened};
use refdb_vfs::{Descriptors, Fs, descriptors_max};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// If the settings have no limit on open files, the limit is one in this many of the file descriptors that the process
/// may have; the others are for packs, connections and logs.
const PART: u64 = 4;

/// The upper limit on open files if the settings have none, however many the process may have, since each open view
/// takes memory too.
const FILES_MAX: u64 = 8 << 10;

/// The lower limit on open files, whatever the settings say: as many as a handful of views need.
const FILES_MIN: u64 = 16;
const _: () = assert!(FILES_MIN <= FILES_MAX, "bounds of one number");

/// One in this many of the open views is closed at a time, so that the next query need not close another one.
const PART_CLOSED: usize = 8;

/// The open repository of a view, if it is open.
///
/// The repository may be closed at any moment. A query keeps it alive until the query is answered, and the next query
/// opens it again. The lock is never held during I/O.
#[derive(Default)]
pub(crate) struct Slot {
    state: RwLock<State>,
    used: AtomicU64,
}

#[derive(Default)]
struct State {
    opened: Option<Arc<Opened>>,
    /// How many open repositories this slot held before, not counting those whose sequence of changes a successor
    /// continues.
    before: u64,
}

impl Slot {
    /// The open repository.
    #[inline]
    pub(crate) fn get(&self) -> Option<Arc<Opened>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).opened.clone()
    }

    /// The number of earlier repositories as [`State::before`] counts them, and the position of the open one in its
    /// sequence of changes. If the view is closed, these are the numbers from which the next repository goes on.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        (state.before, state.opened.as_ref().map_or(0, |opened| opened.reader.sequence()))
    }

    /// Replaces the open repository, and returns the former one.
    fn put(&self, fresh: Arc<Opened>) -> Option<Arc<Opened>> {
        let follows = fresh.follows;
        self.change(|state| {
            let old = state.opened.replace(fresh);
            // Not counted if the successor continues the sequence, because the sequence then shows changes. A former
            // one that has gone on meanwhile may have been seen at a position that the successor has yet to reach.
            let is_continued = |old: &Arc<Opened>| follows == Some(old.reader.sequence());
            state.before += u64::from(old.as_ref().is_some_and(|old| !is_continued(old)));
            old
        })
    }

    /// Removes and returns the open repository if `which` returns `true` for it.
    fn take(&self, which: impl FnOnce(&Arc<Opened>) -> bool) -> Option<Arc<Opened>> {
        self.change(|state| {
            let old = state.opened.take_if(|opened| which(opened));
            state.before += u64::from(old.is_some());
            old
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Marks the view as used now. The value is written only if it changes, because all threads write here.
    #[inline]
    pub(crate) fn touch(&self, clock: u64) {
        if self.used() != clock {
            self.used.store(clock, Relaxed);
        }
    }

    /// When the view was last used, on the clock of [`OpenViews`].
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}

/// The open views of a process.
///
/// Besides files of queries that are being answered, views hold at most `files_max` open, unless a single view needs
/// more; beyond that the least recently used views are closed. Closing a view does not wait for the queries that use
/// it: the view releases its files when the last of them is answered.
pub(crate) struct OpenViews {
    /// The slots of open views, and possibly of views that are gone.
    slots: Mutex<Vec<Weak<Slot>>>,
    /// Ticks whenever a view is opened and whenever memory was short; it orders views by their last use.
    clock: AtomicU64,
    fs: Fs,
    files: Arc<Descriptors>,
    files_max: usize,
    closed: AtomicU64,
}

impl OpenViews {
    pub(crate) fn new(settings: &ViewsSettings) -> Arc<Self> {
        let files = Arc::<Descriptors>::default();
        let open_views = Arc::new(OpenViews {
            slots: Mutex::default(),
            clock: AtomicU64::new(1),
            fs: settings.fs.clone().signing_locks().counting(&files),
            files_max: files_bound(settings.open_files, descriptors_max()),
            files,
            closed: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&open_views);
        open_views.files.ask_when_short(move || weak.upgrade().is_some_and(|open_views| open_views.close_unused()));
        open_views
    }

    /// The file system through which views open what they hold.
    pub(crate) fn fs(&self) -> &Fs {
        &self.fs
    }

    /// The present time of the clock by which uses are compared.
    #[inline]
    pub(crate) fn clock(&self) -> u64 {
        self.clock.load(Relaxed)
    }

    /// How many files the views hold open.
    #[inline]
    pub(crate) fn files(&self) -> usize {
        self.files.open()
    }

    /// The limit on open files.
    pub(crate) fn files_max(&self) -> usize {
        self.files_max
    }

    /// How many views are open.
    pub(crate) fn count(&self) -> usize {
        self.slots().iter().filter(|slot| slot.strong_count() > 0).count()
    }

    /// How many views were closed because others needed their files or their memory.
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Relaxed)
    }

    /// Puts an open repository into a view's slot, and closes others if there are too many.
    pub(crate) fn open(&self, slot: &Arc<Slot>, fresh: Arc<Opened>) {
        slot.touch(self.tick());
        let mut slots = self.slots();
        // The slot is filled while the list is locked. Otherwise another thread might empty it before it is listed.
        let old = slot.put(fresh);
        if old.is_none() {
            slots.push(Arc::downgrade(slot));
        }
        debug_assert_eq!(listed(&slots, slot), 1, "a view that has something open is listed once");
        drop(slots);
        // Dropped without the lock, because closing files takes time.
        drop(old);
        self.make_room(slot);
    }

    pub(crate) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed) + 1
    }

    /// Returns whether the limit on open files is exceeded.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.files() > self.files_max
    }

    /// Closes the least recently used views except `spared`, until the limit holds or no others are open.
    pub(crate) fn make_room(&self, spared: &Arc<Slot>) {
        while self.is_crowded() && self.close_some(spared) {}
    }

    /// Closes some of the views except `spared`, the least recently used ones. Returns whether there were any.
    fn close_some(&self, spared: &Arc<Slot>) -> bool {
        let mut slots = self.slots();
        let mut others: Vec<Arc<Slot>> = slots.iter().filter_map(Weak::upgrade).collect();
        others.retain(|slot| !Arc::ptr_eq(slot, spared));
        order_by_use(&mut others);
        others.truncate(others.len().div_ceil(PART_CLOSED));
        let closed = self.close_in(&mut slots, &others, |_| true);
        drop(slots);
        // The views' files are closed without the lock.
        !closed.is_empty()
    }

    /// Closes every view that is not answering a query. Returns whether there were any.
    fn close_unused(&self) -> bool {
        let mut slots = self.slots();
        let all: Vec<Arc<Slot>> = slots.iter().filter_map(Weak::upgrade).collect();
        // While the slot is locked no query can begin to use it.
        let closed = self.close_in(&mut slots, &all, |opened| Arc::strong_count(opened) == 1);
        drop(slots);
        !closed.is_empty()
    }

    /// Closes one view, which may be in use, to free its memory.
    pub(crate) fn close(&self, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        let closed = self.close_in(&mut slots, std::slice::from_ref(slot), |_| true);
        drop(slots);
        drop(closed);
    }

    /// Empties those of the chosen slots for which `which` returns `true`, removes them from the list, and returns
    /// what they held.
    fn close_in(
        &self,
        slots: &mut Vec<Weak<Slot>>,
        chosen: &[Arc<Slot>],
        which: impl Fn(&Arc<Opened>) -> bool,
    ) -> Vec<Arc<Opened>> {
        let closed: Vec<(*const Slot, Arc<Opened>)> =
            chosen.iter().filter_map(|slot| Some((Arc::as_ptr(slot), slot.take(&which)?))).collect();
        let mut gone: Vec<*const Slot> = closed.iter().map(|(slot, _)| *slot).collect();
        gone.sort_unstable();
        slots.retain(|slot| slot.strong_count() > 0 && gone.binary_search(&slot.as_ptr()).is_err());
        self.closed.fetch_add(closed.len() as u64, Relaxed);
        closed.into_iter().map(|(_, opened)| opened).collect()
    }

    /// The open views, least recently used first.
    pub(crate) fn by_use(&self) -> Vec<Arc<Slot>> {
        let mut slots: Vec<Arc<Slot>> = self.slots().iter().filter_map(Weak::upgrade).collect();
        order_by_use(&mut slots);
        slots
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Weak<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a slot is in the list.
fn listed(slots: &[Weak<Slot>], slot: &Arc<Slot>) -> usize {
    slots.iter().filter(|listed| listed.as_ptr() == Arc::as_ptr(slot)).count()
}

/// Sorts slots by their last use, least recently used first. Other threads use the views meanwhile, so the time of each
/// view is read only once: a sort may panic if a key changes.
fn order_by_use(slots: &mut [Arc<Slot>]) {
    slots.sort_by_cached_key(|slot| slot.used());
}

/// Returns the limit on open files for the setting `asked`, in a process that may open `process_max` files.
fn files_bound(asked: Option<usize>, process_max: Option<u64>) -> usize {
    let process_max = process_max.unwrap_or(u64::MAX);
    let bound = match asked {
        // The rest of the process needs descriptors too.
        Some(asked) => (asked as u64).min(process_max / 2),
        None => (process_max / PART).min(FILES_MAX),
    };
    bound.max(FILES_MIN) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ViewSettings, Views, view::tests::opened_of};
    use refdb_testkit::{RefFormat, Repo};
    use refdb_types::HashKind;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_view_that_is_closed_while_it_is_opened_stays_listed_once() {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let views = Views::new(&ViewsSettings::default());
        let opened = opened_of(&views.open(repo.git_dir(), &ViewSettings::default()).unwrap());
        let (open_views, slot) = (OpenViews::new(&ViewsSettings::default()), Arc::<Slot>::default());
        let done = AtomicBool::new(false);
        let is_right = || {
            let slots = open_views.slots();
            listed(&slots, &slot) == usize::from(slot.get().is_some())
        };
        let closed_while_right = std::thread::scope(|scope| {
            let closing = scope.spawn(|| {
                while open_views.closed() < 200 && is_right() {
                    open_views.close(&slot);
                }
                done.store(true, Relaxed);
                open_views.closed()
            });
            while !done.load(Relaxed) {
                open_views.open(&slot, Arc::clone(&opened));
            }
            closing.join().unwrap()
        });
        assert!(closed_while_right >= 200 && is_right(), "wrong after {closed_while_right} were closed");
    }

    #[test]
    fn views_are_put_in_order_while_other_threads_use_them() {
        let mut slots: Vec<Arc<Slot>> = (0..64).map(|_| Arc::default()).collect();
        let (used, done) = (slots.clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut clock = 0_u64;
                while !done.load(Relaxed) {
                    clock += 1;
                    used[(clock.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize].touch(clock);
                }
            });
            let sorted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (0..2_000).for_each(|_| order_by_use(&mut slots));
            }));
            done.store(true, Relaxed);
            assert!(sorted.is_ok(), "a view's age changed while it was sorted");
        });
    }
}
