use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ops::Range,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Memory that one thread fills from the start, while any number of others read the filled part.
///
/// The owner of the only [`Filler`] writes, and a [`Filled`] shows the bytes written so far. These bytes are not
/// overwritten as long as a reader could see them.
#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    /// The number of bytes written.
    filled: AtomicUsize,
}

/// The alignment of the memory, which is the usual page size.
const ALIGN: usize = 4096;

impl Memory {
    fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len.max(1), ALIGN).expect("no memory is as long as the address space");
        // SAFETY: the layout's size is not 0.
        #[expect(unsafe_code, reason = "memory that is read while another part of it is written has no safe form")]
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Memory { start, layout, filled: AtomicUsize::new(0) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and the last owner is gone, and with it every reference
        // into the memory.
        #[expect(unsafe_code, reason = "it was allocated by hand")]
        unsafe {
            dealloc(self.start.as_ptr(), self.layout);
        }
    }
}

// SAFETY: a `Memory` owns its bytes. Those below `filled` are only read; those above are touched only by the one
// `Filler`, through `&mut`.
#[expect(unsafe_code, reason = "it has a pointer")]
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
#[expect(unsafe_code, reason = "it has a pointer")]
unsafe impl Sync for Memory {}

/// Read access to the bytes that have been filled so far.
#[derive(Debug)]
pub struct Filled(Arc<Memory>);

/// Write access to the memory of a [`Filled`]. A memory has at most one filler.
#[derive(Debug)]
pub struct Filler(Arc<Memory>);

impl Filled {
    /// Allocates `len` bytes to be filled.
    pub fn new(len: usize) -> (Filler, Filled) {
        let memory = Arc::new(Memory::new(len));
        (Filler(memory.clone()), Filled(memory))
    }

    /// Discards the content, so that the memory can be filled again. Returns `None` while its filler exists.
    pub fn refill(&mut self) -> Option<Filler> {
        *Arc::get_mut(&mut self.0)?.filled.get_mut() = 0;
        Some(Filler(self.0.clone()))
    }

    /// Returns the number of bytes that can be filled.
    pub fn capacity(&self) -> usize {
        self.0.layout.size()
    }

    /// Returns the number of bytes that are filled.
    pub fn len(&self) -> usize {
        self.0.filled.load(Ordering::Acquire)
    }

    /// Returns whether no byte is filled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of a range; `None` if they are not all filled yet, or if the range ends before it starts.
    pub fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        // SAFETY: the range is within the memory, which `filled` never exceeds, and which lives as long as `self`. It
        // was written before `filled` was raised above it, and is not written again. The filler only writes above
        // `filled`. `refill` lowers `filled` only if the only owner is borrowed mutably.
        #[expect(unsafe_code, reason = "memory that is read while another part of it is written has no safe form")]
        let bytes = unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().add(range.start), range.len()) };
        Some(bytes)
    }
}

impl Filler {
    /// Appends these bytes.
    ///
    /// # Panics
    ///
    /// Panics if they do not fit.
    pub fn append(&mut self, bytes: &[u8]) {
        let memory = &*self.0;
        let at = memory.filled.load(Ordering::Relaxed);
        assert!(bytes.len() <= memory.layout.size() - at, "{} bytes more than {at} do not fit", bytes.len());
        // SAFETY: the target is within the memory, and no reader sees it before `filled` is raised. No other thread
        // writes: this is the only filler, and it is borrowed mutably. The source does not overlap the target,
        // because what a reader can see of this memory lies below `at`.
        #[expect(unsafe_code, reason = "memory that is read while another part of it is written has no safe form")]
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.start.as_ptr().add(at), bytes.len());
        }
        memory.filled.store(at + bytes.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_is_shown_and_nothing_beyond() {
        let (mut filler, mut filled) = Filled::new(10);
        assert!(filled.is_empty() && filled.get(0..1).is_none());
        filler.append(&[1, 2, 3]);
        filler.append(&[4]);
        assert_eq!((filled.len(), filled.capacity(), filled.get(1..4)), (4, 10, Some(&[2, 3, 4][..])));
        let (start, end) = (3, 2);
        assert!(filled.get(0..5).is_none() && filled.get(start..end).is_none());
        filler.append(&[5; 6]);
        let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| filler.append(&[0])));
        assert!(beyond.is_err(), "there is no room for more");
        assert!(filled.refill().is_none(), "its filler is there");
        drop(filler);
        let mut filler = filled.refill().expect("nobody else has it");
        assert!(filled.get(0..1).is_none());
        filler.append(&[9]);
        assert_eq!(filled.get(0..1), Some(&[9][..]));
    }

    #[test]
    fn readers_see_whole_appends_while_it_is_filled() {
        const PIECE: usize = 1024;
        let (mut filler, filled) = Filled::new(256 * PIECE);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while filled.len() < filled.capacity() {
                    let len = filled.len();
                    assert!(len % PIECE == 0);
                    let last = filled.get(len.saturating_sub(PIECE)..len).expect("it is filled");
                    assert!(last.iter().all(|byte| usize::from(*byte) == (len / PIECE) % 256));
                }
            });
            (1..=256u32).for_each(|round| filler.append(&[round as u8; PIECE]));
        });
    }
}
