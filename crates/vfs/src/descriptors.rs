//! Counts open files, and calls for some to be closed when the process cannot open more.

use std::{
    fmt, io,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Counts the files that are open through any number of [`Fs`](crate::Fs), and calls a function that closes some when
/// a file or a folder cannot be opened for lack of descriptors.
///
/// Open folders are not counted, nor are files that are opened, read and closed within one call.
#[derive(Default)]
pub struct Descriptors {
    open: AtomicUsize,
    relief: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Descriptors({})", self.open())
    }
}

impl Descriptors {
    /// The number of open files.
    #[inline]
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Sets the function that is called when a file or a folder cannot be opened because the process or the machine has
    /// too many open files. The function returns whether it has closed any; if so, the open is retried. It is called by
    /// the thread that opens, which may hold locks, so it must not wait for a lock under which files may be opened.
    ///
    /// Only the first function that is set is used.
    pub fn ask_when_short(&self, relief: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.relief.set(Box::new(relief));
    }

    pub(crate) fn relieve(&self) -> bool {
        self.relief.get().is_some_and(|relief| relief())
    }

    pub(crate) fn add(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    pub(crate) fn sub(&self) {
        let before = self.open.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a file is closed once, after it was opened");
    }
}

/// Returns whether the process (`EMFILE`) or the machine (`ENFILE`) has as many files open as it may.
pub(crate) fn is_want(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// How many files this process may have open (`ulimit -n`); `None` if there is no limit.
pub fn descriptors_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fs, io_hooks::IoHooks};
    use std::sync::{Arc, Mutex};

    #[test]
    fn files_are_counted_while_they_are_open_by_whatever_name() {
        let dir = tempfile::tempdir().unwrap();
        let descriptors = Arc::default();
        let fs = Fs::real().counting(&descriptors);
        let path = dir.path().join("a");
        let made = fs.create_new(&path, 0o666).unwrap();
        let unnamed = fs.create_unnamed(&dir.path().join("b"), 0o666).unwrap();
        let opened = [fs.open(&path).unwrap(), fs.clone().append(&path, 0o666).unwrap().renamed(&path)];
        assert_eq!(descriptors.open(), 3 + usize::from(unnamed.is_some()));
        assert!(fs.open(&dir.path().join("missing")).is_err());
        drop((made, opened));
        assert_eq!(descriptors.open(), usize::from(unnamed.is_some()));
        drop(unnamed);
        assert_eq!(descriptors.open(), 0);
    }

    #[test]
    fn who_can_close_files_is_asked_until_there_are_none() {
        let want = || io::Error::from(rustix::io::Errno::MFILE);
        assert!(is_want(&want()) && is_want(&rustix::io::Errno::NFILE.into()));
        assert!(!is_want(&io::ErrorKind::NotFound.into()));
        let descriptors = Arc::<Descriptors>::default();
        let idle = Arc::new(Mutex::new(3));
        descriptors.ask_when_short({
            let idle = Arc::clone(&idle);
            move || {
                let mut idle = idle.lock().unwrap();
                let had = *idle > 0;
                *idle -= i32::from(had);
                had
            }
        });
        let hooks = IoHooks::default().counting(&descriptors);
        let mut tries = 0;
        let opened = hooks.opening(|| {
            tries += 1;
            if tries < 3 { Err(want()) } else { Ok(()) }
        });
        assert!(opened.is_ok() && tries == 3 && *idle.lock().unwrap() == 1);
        let error = hooks.opening(|| Err::<(), _>(want())).unwrap_err();
        assert!(is_want(&error) && *idle.lock().unwrap() == 0, "nobody waits for ever");
    }
}
