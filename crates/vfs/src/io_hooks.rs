//! Calls the I/O hook before visible changes of the disk, and counts open files.

use crate::{Descriptors, Error, IoHook, LookUp, Op, Result, Verdict, descriptors::is_want};
use std::{borrow::Cow, io, path::Path, sync::Arc};

/// The I/O hook and the counter of open files, which a file system shares with the files that it opens.
#[derive(Clone, Default)]
pub(crate) struct IoHooks {
    hook: Option<Arc<dyn IoHook>>,
    descriptors: Option<Arc<Descriptors>>,
}

impl std::fmt::Debug for IoHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.has_hook() { "IoHooks(hooked)" } else { "IoHooks" })
    }
}

impl IoHooks {
    pub(crate) fn new(hook: Arc<dyn IoHook>) -> Self {
        IoHooks { hook: Some(hook), descriptors: None }
    }

    /// Returns these hooks without the I/O hook, for files that are not visible yet.
    pub(crate) fn without_hook(&self) -> Self {
        IoHooks { hook: None, ..self.clone() }
    }

    pub(crate) fn counting(self, descriptors: &Arc<Descriptors>) -> Self {
        IoHooks { descriptors: Some(Arc::clone(descriptors)), ..self }
    }

    pub(crate) fn has_hook(&self) -> bool {
        self.hook.is_some()
    }

    pub(crate) fn count_opened(&self) {
        if let Some(descriptors) = &self.descriptors {
            descriptors.add();
        }
    }

    pub(crate) fn count_closed(&self) {
        if let Some(descriptors) = &self.descriptors {
            descriptors.sub();
        }
    }

    /// Opens something. If the process or the machine has no descriptor left, this asks for files to be closed (see
    /// [`Descriptors::ask_when_short`]), and tries again if some were.
    pub(crate) fn opening<T, E: Into<io::Error>>(
        &self,
        mut open: impl FnMut() -> std::result::Result<T, E>,
    ) -> io::Result<T> {
        // Other threads may take the descriptors that were given up, so several attempts may be needed.
        const TRIES_MAX: usize = 16;
        let mut tries = 1;
        loop {
            match open().map_err(Into::into) {
                Err(error) if tries < TRIES_MAX && is_want(&error) && self.relieve() => tries += 1,
                opened => return opened,
            }
        }
    }

    fn relieve(&self) -> bool {
        self.descriptors.as_ref().is_some_and(|descriptors| descriptors.relieve())
    }

    /// The path at which a name is to be looked up.
    #[inline]
    pub(crate) fn look_up<'p>(&self, path: &'p Path, how: LookUp) -> io::Result<Cow<'p, Path>> {
        match &self.hook {
            None => Ok(Cow::Borrowed(path)),
            Some(hook) => Ok(hook.look_up(path, how)?.map_or(Cow::Borrowed(path), Cow::Owned)),
        }
    }

    /// Sends a request, and sends it again if the hook loses the reply.
    pub(crate) fn sent<T>(&self, mut send: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let answer = send();
        if self.hook.as_ref().is_some_and(|hook| hook.loses_reply()) { send() } else { answer }
    }

    /// Returns whether the hook treats all files as on a network file system.
    pub(crate) fn is_network(&self) -> bool {
        self.hook.as_ref().is_some_and(|hook| hook.is_network())
    }

    /// Asks the hook whether an operation may proceed.
    pub(crate) fn verdict(&self, op: Op<'_>) -> Verdict {
        self.hook.as_ref().map_or(Verdict::Proceed, |hook| hook.before(op))
    }

    /// Asks the hook about an operation that happens completely or not at all.
    fn ask(&self, op: Op<'_>) -> io::Result<()> {
        match self.verdict(op) {
            Verdict::Proceed => Ok(()),
            Verdict::Fail(error) | Verdict::Tear(_, error) => Err(error),
        }
    }

    /// Calls `act`, which changes the disk, unless the hook refuses the operation.
    pub(crate) fn change<T>(
        &self,
        op: Op<'_>,
        operation: &'static str,
        path: &Path,
        act: impl FnOnce() -> io::Result<T>,
    ) -> Result<T> {
        self.ask(op).and_then(|()| act()).map_err(|source| Error::new(operation, path, source))
    }
}
