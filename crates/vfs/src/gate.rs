//! What every operation goes through: the witness sees changes first, open files are counted.

use crate::{Descriptors, Error, Op, Result, Verdict, Witness, descriptors::is_want};
use std::{io, path::Path, sync::Arc};

/// Shared by a file system and the files that it opened.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    witness: Option<Arc<dyn Witness>>,
    descriptors: Option<Arc<Descriptors>>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_witnessed() { "Gate(witnessed)" } else { "Gate" })
    }
}

impl Gate {
    pub(crate) fn witnessed(witness: Arc<dyn Witness>) -> Self {
        Gate { witness: Some(witness), descriptors: None }
    }

    /// The same, for what nobody sees.
    pub(crate) fn unwitnessed(&self) -> Self {
        Gate { witness: None, ..self.clone() }
    }

    pub(crate) fn counting(self, descriptors: &Arc<Descriptors>) -> Self {
        Gate { descriptors: Some(Arc::clone(descriptors)), ..self }
    }

    pub(crate) fn is_witnessed(&self) -> bool {
        self.witness.is_some()
    }

    /// A file that is counted was opened.
    pub(crate) fn count_opened(&self) {
        if let Some(descriptors) = &self.descriptors {
            descriptors.add();
        }
    }

    /// It was closed.
    pub(crate) fn count_closed(&self) {
        if let Some(descriptors) = &self.descriptors {
            descriptors.sub();
        }
    }

    /// Opens something. If the process has no descriptor left, others may give up some of theirs, and it is tried
    /// again.
    pub(crate) fn opening<T, E: Into<io::Error>>(
        &self,
        mut open: impl FnMut() -> std::result::Result<T, E>,
    ) -> io::Result<T> {
        // What others give up, threads that are as much in need may take.
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

    /// What the witness says to an operation.
    pub(crate) fn verdict(&self, op: Op<'_>) -> Verdict {
        self.witness.as_ref().map_or(Verdict::Proceed, |witness| witness.before(op))
    }

    /// Asks the witness about an operation that is done whole or not at all.
    fn ask(&self, op: Op<'_>) -> io::Result<()> {
        match self.verdict(op) {
            Verdict::Proceed => Ok(()),
            Verdict::Fail(error) | Verdict::Tear(_, error) => Err(error),
        }
    }

    /// Does what changes the disk, unless the witness refuses it.
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
