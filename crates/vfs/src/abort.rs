//! Removes locks when the process aborts. Rust aborts without running destructors when memory runs out, so that every
//! lock would otherwise stay.

use rustix::{
    process::{Pid, getpid},
    thread::gettid,
};
use signal_hook::consts::SIGABRT;
use std::{
    ffi::CStr,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

/// The maximum length in bytes of a path that system calls accept, without the NUL that ends it.
const PATH_LEN_MAX: usize = 4095;

/// The number of words in the first chunk; each chunk has twice as many as the one before.
const FIRST_WORDS: usize = 512;
const CHUNKS: usize = 22;

/// Recorded paths, one after the other. A word says how many words follow, and its highest bit is set while the lock
/// is held. The path follows, padded with zeros.
static WORDS: [OnceLock<Box<[AtomicU64]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
/// The number of words of each chunk that are in use.
static FILLED: [AtomicUsize; CHUNKS] = [const { AtomicUsize::new(0) }; CHUNKS];
const HELD: u64 = 1 << 63;

/// Counts how often the paths of any chunk were discarded. While it stays the same, no recorded path is overwritten.
static AGE: AtomicU64 = AtomicU64::new(0);
/// The number of recorded paths in each chunk that have not been forgotten.
static NOTED: [AtomicU32; CHUNKS] = [const { AtomicU32::new(0) }; CHUNKS];
/// The chunk in which the next path is recorded, locked by the thread that records it.
static CURRENT: Mutex<usize> = Mutex::new(0);

static INSTALLED: AtomicBool = AtomicBool::new(false);
/// The process that holds the recorded locks. A child process, which has the same memory until it executes another
/// program, must not remove them.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The thread that has begun to remove the locks; 0 if none has.
static REMOVER: AtomicI32 = AtomicI32::new(0);
/// The memory in which the handler assembles a path.
static PATH: Mutex<[u8; PATH_LEN_MAX + 1]> = Mutex::new([0; PATH_LEN_MAX + 1]);

/// Makes an abort of this process remove the lock files whose paths are recorded. This is meant for programs; the host
/// of a library has its own handlers (decision 0047).
///
/// The path of a lock is recorded in memory before the lock is created, unless the lock is that of a batch or the
/// memory for paths is used up. A handler of `SIGABRT` unlinks the paths of the locks that are held. The handler
/// allocates nothing and waits for nothing but a thread that already removes the locks: it reads the paths from atomics
/// in memory that is never freed.
pub(crate) fn install() -> io::Result<()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if INSTALLED.load(Ordering::Relaxed) {
        return Ok(());
    }
    OWNER.store(Pid::as_raw(Some(getpid())), Ordering::Relaxed);
    // SAFETY: what runs in the handler must be async-signal-safe. `on_abort` reads statics through atomics,
    // `OnceLock::get` (a load) and `Mutex::try_lock` (a compare-and-swap, which does not wait). It calls unlink,
    // pause, getpid and gettid by rustix' bare system calls, which leave errno alone. It ends the process by
    // signal-hook's `emulate_default_handler`, which is documented to be async-signal-safe. It neither allocates
    // nor panics: every index is checked by `get`.
    #[expect(unsafe_code, reason = "there is no safe way to run more than a flag's store in a handler")]
    let registered = unsafe { signal_hook::low_level::register(SIGABRT, on_abort) };
    registered.map(|_| INSTALLED.store(true, Ordering::Release))
}

/// The number of the word at which the path of a lock is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note(u32);

impl Note {
    /// Stands for a path that is not recorded.
    pub(crate) const NONE: Note = Note(u32::MAX);

    /// Records the path of a lock that is about to be created, and allocates whatever memory that needs. Nothing is
    /// recorded without a handler ([`install`]), if the path is too long, or if the memory for paths is used up.
    #[inline]
    pub(crate) fn of(lock: &Path) -> Self {
        if INSTALLED.load(Ordering::Acquire) { Self::write(lock.as_os_str().as_bytes()) } else { Self::NONE }
    }

    fn write(path: &[u8]) -> Self {
        let words = path.len() / 8 + 1;
        if path.len() > PATH_LEN_MAX {
            return Self::NONE;
        }
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (chunk, filled) = (&WORDS[*current], &FILLED[*current]);
            let chunk = chunk.get_or_init(|| (0..FIRST_WORDS << *current).map(|_| AtomicU64::new(0)).collect());
            let start = filled.load(Ordering::Relaxed);
            let Some(room) = chunk.get(start..start + 1 + words) else {
                // The memory for paths, which is gigabytes, may be used up: further locks stay after an abort.
                let Some(next) = empty_chunk(words) else { return Self::NONE };
                *current = next;
                continue;
            };
            // The last word has at least the NUL that ends the path.
            room[words].store(0, Ordering::Relaxed);
            for (word, bytes) in room[1..].iter().zip(path.chunks(8)) {
                let mut padded = [0; 8];
                padded[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
            }
            room[0].store(words as u64, Ordering::Relaxed);
            filled.store(start + 1 + words, Ordering::Release);
            NOTED[*current].fetch_add(1, Ordering::Relaxed);
            return Note((first_of(*current) + start) as u32);
        }
    }

    /// Records that the lock is held.
    #[inline]
    pub(crate) fn arm(self) {
        if let Some(word) = self.word() {
            word.fetch_or(HELD, Ordering::Release);
        }
    }

    /// Records that the lock is released. This must come before its file is removed, because the next file of that
    /// name may be another process's lock.
    #[inline]
    pub(crate) fn forget(&mut self) {
        if let Some(word) = self.word() {
            word.fetch_and(!HELD, Ordering::Relaxed);
            // This release pairs with the acquiring load before the word is used again. Otherwise the processor could
            // unmark the next lock in the same place instead, which would then stay after an abort.
            NOTED[self.chunk()].fetch_sub(1, Ordering::Release);
        }
        *self = Self::NONE;
    }

    #[inline]
    fn word(self) -> Option<&'static AtomicU64> {
        if self == Self::NONE {
            return None;
        }
        let chunk = self.chunk();
        WORDS.get(chunk)?.get()?.get(self.0 as usize - first_of(chunk))
    }

    /// Returns the number of the chunk in which the path is recorded.
    fn chunk(self) -> usize {
        (self.0 as usize / FIRST_WORDS + 1).ilog2() as usize
    }
}

/// The number of words in the chunks before this one.
const fn first_of(chunk: usize) -> usize {
    FIRST_WORDS * ((1 << chunk) - 1)
}

/// Returns the smallest chunk that has room for a path of so many words and whose paths have all been forgotten, and
/// discards those, so that their memory is used again however many writers overlap. The caller has locked [`CURRENT`].
fn empty_chunk(words: usize) -> Option<usize> {
    let is_empty = |at: &usize| FIRST_WORDS << at > words && NOTED[*at].load(Ordering::Acquire) == 0;
    let empty = (0..CHUNKS).find(is_empty)?;
    AGE.fetch_add(1, Ordering::Release);
    fence(Ordering::SeqCst);
    FILLED[empty].store(0, Ordering::Release);
    Some(empty)
}

/// The handler of `SIGABRT`.
fn on_abort() {
    if Pid::as_raw(Some(getpid())) == OWNER.load(Ordering::Relaxed) {
        let thread = Pid::as_raw(Some(gettid()));
        // No other thread begins once this one is done, because the names may be locks of other processes by then.
        match REMOVER.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                if let Ok(mut path) = PATH.try_lock() {
                    // If another thread has discarded paths meanwhile, new paths may have overwritten those that were
                    // read.
                    let _ = (0..3).any(|_| remove_all(&mut path));
                }
            }
            // This handler itself has aborted, for instance because the stack has no room for it.
            Err(remover) if remover == thread => {}
            // Another thread is removing the locks, and ends the process when that is done.
            Err(_) => loop {
                rustix::event::pause();
            },
        }
    }
    // Ends the process. If the handler returned instead, a signal from outside would let the process continue without
    // its locks.
    let _ = signal_hook::low_level::emulate_default_handler(SIGABRT);
}

/// Unlinks every lock that is held. Returns `false` before the end if paths were discarded in the meantime, because new
/// ones may have overwritten them.
fn remove_all(path: &mut [u8; PATH_LEN_MAX + 1]) -> bool {
    let age = AGE.load(Ordering::Acquire);
    for (chunk, filled) in WORDS.iter().zip(&FILLED) {
        let Some(chunk) = chunk.get() else { break };
        let filled = filled.load(Ordering::Acquire);
        let mut at = 0;
        while at < filled {
            let Some(head) = chunk.get(at).map(|word| word.load(Ordering::Acquire)) else { break };
            let words = (head & !HELD) as usize;
            let noted = chunk.get(at + 1..at + 1 + words).unwrap_or_default();
            for (word, bytes) in noted.iter().zip(path.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
            fence(Ordering::SeqCst);
            if AGE.load(Ordering::Acquire) != age {
                return false;
            }
            match CStr::from_bytes_until_nul(path) {
                // Nobody is left to whom an error would be of use.
                Ok(lock) if head & HELD != 0 => drop(rustix::fs::unlink(lock)),
                _ => {}
            }
            at += 1 + words;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::process::ExitStatusExt, process::Stdio};

    #[test]
    fn words_are_found_by_their_numbers_in_all_chunks() {
        for chunk in 0..CHUNKS {
            for at in [0, 1, (FIRST_WORDS << chunk) - 1] {
                let number = first_of(chunk) + at;
                assert_eq!((number / FIRST_WORDS + 1).ilog2() as usize, chunk);
                assert!(number < u32::MAX as usize);
            }
        }
    }

    #[test]
    fn paths_of_locks_that_overlap_without_end_are_kept_in_little_memory() {
        let mut held = Note::write(b"/srv/git/first.lock");
        for at in 0..100_000 {
            let next = Note::write(format!("/srv/git/{at}.lock").as_bytes());
            std::mem::replace(&mut held, next).forget();
        }
        held.forget();
        let words: usize = WORDS.iter().filter_map(OnceLock::get).map(|chunk| chunk.len()).sum();
        assert!(words < 8 * FIRST_WORDS, "{words}");
    }

    /// Previously, the thread waited for itself without end.
    #[test]
    fn an_abort_in_the_handler_itself_ends_the_process() {
        const NAME: &str = "abort::tests::an_abort_in_the_handler_itself_ends_the_process";
        const MARK: &str = "REFDB_TEST_ABORTS_AGAIN";
        if std::env::var_os(MARK).is_some() {
            install().unwrap();
            REMOVER.store(Pid::as_raw(Some(gettid())), Ordering::Relaxed);
            std::process::abort();
        }
        let mut again = refdb_testkit::this_program();
        again.args(["--exact", NAME]).env(MARK, "1").stdout(Stdio::null()).stderr(Stdio::null());
        assert_eq!(again.status().unwrap().signal(), Some(SIGABRT));
    }
}
