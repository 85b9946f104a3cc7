//! Which views have something open, and which of them are closed when that is too much.

use crate::{ViewsSettings, opened::Opened};
use refdb_vfs::{Descriptors, Fs, descriptors_max};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The part of the process's descriptors that refdb takes for itself: the rest is for packs, connections and logs.
const PART: u64 = 4;

/// However many the process may have: each view that is open takes memory too.
const FILES_MAX: u64 = 8 << 10;

/// And however few: this is what a handful of views need.
const FILES_MIN: u64 = 16;
const _: () = assert!(FILES_MIN <= FILES_MAX, "bounds of one number");

/// So much is closed at once that it is not the next view's turn right away.
const PART_CLOSED: usize = 8;

/// What a view has open, if anything.
///
/// It may be closed at any moment. A user of it keeps it until the question is answered, and the next question
/// opens it again. The lock is held for no longer than to look or to change: nobody waits for a disk behind it.
#[derive(Default)]
pub(crate) struct Slot {
    state: RwLock<State>,
    used: AtomicU64,
}

#[derive(Default)]
struct State {
    opened: Option<Arc<Opened>>,
    /// How often something else was open before.
    before: u64,
}

impl Slot {
    /// The open repository.
    #[inline]
    pub(crate) fn get(&self) -> Option<Arc<Opened>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).opened.clone()
    }

    /// The same, with the number of repositories that were open before; without one, the number of the next.
    pub(crate) fn numbered(&self) -> (u64, Option<Arc<Opened>>) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        (state.before, state.opened.clone())
    }

    /// Puts something in the place of what was open, which it returns.
    fn put(&self, fresh: Arc<Opened>) -> Option<Arc<Opened>> {
        let is_next = fresh.is_next;
        self.change(|state| {
            let old = state.opened.replace(fresh);
            // One that goes on with what the old one knew finds its changes by itself.
            state.before += u64::from(old.is_some() && !is_next);
            old
        })
    }

    /// Takes out the open repository, if `which` agrees.
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

    /// Takes down that it is used now. Written only if it changes: all threads write here.
    #[inline]
    pub(crate) fn touch(&self, clock: u64) {
        if self.used() != clock {
            self.used.store(clock, Relaxed);
        }
    }

    /// When it was used last, on the clock of [`OpenViews`].
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}

/// The views of a process that have something open.
///
/// They hold no more files than `files_max`, but for those of questions under way. Beyond that the views that were not
/// used for the longest time are closed. A question waits for no other. It opens its own files. A view chosen to be
/// closed while it is used is closed when its last question is answered.
pub(crate) struct OpenViews {
    /// Those that have something in their slot, and maybe some that are gone.
    slots: Mutex<Vec<Weak<Slot>>>,
    /// Ticks whenever a view is opened or memory was short: it tells who was used since.
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
            fs: Fs::real().signing_locks().counting(&files),
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

    /// The time, as far as it matters who was used last.
    #[inline]
    pub(crate) fn clock(&self) -> u64 {
        self.clock.load(Relaxed)
    }

    /// How many files are open.
    #[inline]
    pub(crate) fn files(&self) -> usize {
        self.files.open()
    }

    /// How many may be.
    pub(crate) fn files_max(&self) -> usize {
        self.files_max
    }

    /// How many views have something open.
    pub(crate) fn count(&self) -> usize {
        self.slots().iter().filter(|slot| slot.strong_count() > 0).count()
    }

    /// How many were closed because others needed their room.
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Relaxed)
    }

    /// Opens a view, or puts something else into its place.
    pub(crate) fn open(&self, slot: &Arc<Slot>, fresh: Arc<Opened>) {
        slot.touch(self.tick());
        let mut slots = self.slots();
        // Under the lock, as `close_in` takes: a slot that is filled first may be emptied before it is listed.
        let old = slot.put(fresh);
        if old.is_none() {
            slots.push(Arc::downgrade(slot));
        }
        debug_assert_eq!(listed(&slots, slot), 1, "a view that has something open is listed once");
        drop(slots);
        // What it had open is closed without the lock.
        drop(old);
        self.make_room(slot);
    }

    pub(crate) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed) + 1
    }

    /// Whether more files are open than may be.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.files() > self.files_max
    }

    /// Closes the views that were not used for the longest time, but not `spared`. Ends when few enough files are open,
    /// or there are no other views.
    pub(crate) fn make_room(&self, spared: &Arc<Slot>) {
        while self.is_crowded() && self.close_some(spared) {}
    }

    /// Closes a part of the views but for `spared`. Whether there were any.
    fn close_some(&self, spared: &Arc<Slot>) -> bool {
        let mut slots = self.slots();
        let mut others: Vec<Arc<Slot>> = slots.iter().filter_map(Weak::upgrade).collect();
        others.retain(|slot| !Arc::ptr_eq(slot, spared));
        order_by_use(&mut others);
        others.truncate(others.len().div_ceil(PART_CLOSED));
        let closed = self.close_in(&mut slots, &others, |_| true);
        drop(slots);
        // Their files are closed without the lock.
        !closed.is_empty()
    }

    /// Closes every view that nobody uses. Whether there were any.
    fn close_unused(&self) -> bool {
        let mut slots = self.slots();
        let all: Vec<Arc<Slot>> = slots.iter().filter_map(Weak::upgrade).collect();
        // Nobody can begin to use it while the slot is locked.
        let closed = self.close_in(&mut slots, &all, |opened| Arc::strong_count(opened) == 1);
        drop(slots);
        !closed.is_empty()
    }

    /// Closes one view, which may be in use, to have its memory back.
    pub(crate) fn close(&self, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        let closed = self.close_in(&mut slots, std::slice::from_ref(slot), |_| true);
        drop(slots);
        drop(closed);
    }

    /// Takes out what those slots have open, if `which` agrees; the slots leave the list.
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

    /// The views that are open, those first that were not used for the longest time.
    pub(crate) fn by_use(&self) -> Vec<Arc<Slot>> {
        let mut slots: Vec<Arc<Slot>> = self.slots().iter().filter_map(Weak::upgrade).collect();
        order_by_use(&mut slots);
        slots
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Weak<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often the list has this slot.
fn listed(slots: &[Weak<Slot>], slot: &Arc<Slot>) -> usize {
    slots.iter().filter(|listed| listed.as_ptr() == Arc::as_ptr(slot)).count()
}

/// Puts those first that were not used for the longest time. Other threads use them meanwhile: each is asked once, since a sort
/// may panic where the answer changes.
fn order_by_use(slots: &mut [Arc<Slot>]) {
    slots.sort_by_cached_key(|slot| slot.used());
}

/// How many files may be open where `asked` is set and the process may have `process_max`.
fn files_bound(asked: Option<usize>, process_max: Option<u64>) -> usize {
    let process_max = process_max.unwrap_or(u64::MAX);
    let bound = match asked {
        // All that a process has is not for one part of it.
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
