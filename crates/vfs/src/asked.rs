//! The folders that were revalidated with the server of a network file system during one operation of a caller, so that
//! the server is not asked about them again.

use std::{
    cell::RefCell,
    marker::PhantomData,
    path::{Path, PathBuf},
};

/// Maximum number of folders that are remembered. The server is asked about others each time.
const FOLDERS_MAX: usize = 64;

thread_local! {
    /// The folders of the innermost [`AskingOnce`] of this thread.
    static ASKED: RefCell<Option<Vec<PathBuf>>> = const { RefCell::new(None) };
}

/// While this lives, this thread asks the server of a network file system only once about each of the first 64 folders
/// in which it looks up names. It asks again after it has tried to take a lock, after an answer that may be old, and
/// under an inner value that began [afresh](Self::afresh). A result may then be as old as this value (or the outer one,
/// if [`new`](Self::new) continues that), or as the last lock that this thread took, whichever is younger. A lock that
/// was taken while an inner value that began afresh lived does not count for the outer one. While no such value lives,
/// each lookup asks.
///
/// This is meant for a caller that looks up what its locks protect. A caller that waits for what others do, or that
/// looks up two things of which the second must be newer, has to ask [afresh](Self::afresh).
#[derive(Debug)]
#[must_use = "it has an effect only until it is dropped"]
pub struct AskingOnce {
    /// What the thread remembered before, if this value began afresh.
    outer: Option<Option<Vec<PathBuf>>>,
    /// Keeps the value in the thread that created it.
    _of_thread: PhantomData<*const ()>,
}

impl AskingOnce {
    /// From now on this thread asks about each folder once. If it already does so, it continues with what it remembers.
    /// On a local file system there is no server to ask.
    #[allow(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        let is_active = ASKED.with_borrow(Option::is_some);
        if is_active { AskingOnce { outer: None, _of_thread: PhantomData } } else { Self::afresh() }
    }

    /// From now on this thread asks about each folder once, and uses nothing that it remembered before.
    pub fn afresh() -> Self {
        AskingOnce { outer: Some(ASKED.replace(Some(Vec::new()))), _of_thread: PhantomData }
    }
}

impl Drop for AskingOnce {
    fn drop(&mut self) {
        if let Some(outer) = self.outer.take() {
            let own = ASKED.replace(outer).unwrap_or_default();
            own.iter().for_each(|folder| note(folder));
        }
    }
}

/// Returns whether the server need not be asked about this folder.
pub(crate) fn was_asked(folder: &Path) -> bool {
    ASKED.with_borrow(|asked| asked.as_ref().is_some_and(|asked| asked.iter().any(|known| known == folder)))
}

/// Remembers that the server was asked about a folder and has answered that it exists.
pub(crate) fn note(folder: &Path) {
    ASKED.with_borrow_mut(|asked| {
        let has_room =
            |asked: &&mut Vec<PathBuf>| asked.len() < FOLDERS_MAX && !asked.iter().any(|known| known == folder);
        if let Some(asked) = asked.as_mut().filter(has_room) {
            asked.push(folder.to_owned());
        }
    });
}

/// Forgets all folders. This is called after an attempt to take a lock, because what is found afterwards must be newer
/// than the attempt, and when a folder may have changed since the server was asked. It is not called when
/// [`Lock::link_detached`](crate::Lock::link_detached) fails, whose caller then tries to take the lock in another way.
pub(crate) fn forget() {
    ASKED.with_borrow_mut(|asked| {
        if let Some(asked) = asked {
            asked.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fs, Lock, LockTimeout};

    #[test]
    fn a_folder_is_asked_about_once_until_the_caller_says_otherwise() {
        let folder = Path::new("/a");
        let knows = || {
            let before = was_asked(folder);
            note(folder);
            before
        };
        assert!(!knows() && !knows(), "nobody wants it remembered");
        let once = AskingOnce::new();
        assert!(!knows() && knows());
        {
            let _inner = AskingOnce::afresh();
            assert!(!knows() && knows(), "of its own");
            note(Path::new("/b"));
        }
        assert!(was_asked(Path::new("/b")), "it is younger than the outer value");
        {
            let _inner = AskingOnce::new();
            assert!(knows());
        }
        assert!(knows());
        forget();
        assert!(!knows() && knows());
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("HEAD");
        Lock::acquire(&Fs::real(), &target, 0o666, LockTimeout::None).unwrap().release().unwrap();
        assert!(!knows() && knows(), "what is looked up behind a lock is newer than the lock");
        (0..2 * FOLDERS_MAX).for_each(|_| note(folder));
        (0..2 * FOLDERS_MAX).for_each(|at| note(Path::new(&at.to_string())));
        assert!(was_asked(Path::new("1")) && !was_asked(Path::new("100")), "it has a bound");
        drop(once);
        assert!(!knows() && !knows());
    }
}
