//! Recovers the batches of a boot that an administrator has declared ended.

use crate::Result;
use crate::files::{
    batch::{
        journal,
        recover::{self, TakenOver},
    },
    store::Store,
};
use refdb_vfs::{BatchId, EndedBoot, StaleLock};
use std::{path::PathBuf, sync::Arc};

/// The batches that an ended boot has left unfinished.
pub(crate) struct EndedBatches {
    boot: String,
    /// The store without a recovery handler. It treats the locks of the boot as those of ended processes.
    alone: Arc<Store>,
}

impl EndedBatches {
    pub(in crate::files) fn new(store: &Store, boot: &EndedBoot) -> Result<Self> {
        store.check_format()?;
        let mut alone = store.without_recovery();
        alone.options.fs = alone.options.fs.with_ended_boot(boot.clone());
        Ok(EndedBatches { boot: boot.id().to_owned(), alone: Arc::new(alone) })
    }

    /// Recovers the batch to which a lock belongs, and releases its locks. Returns the path of its journal entry as
    /// well.
    pub(crate) fn recover(&self, met: StaleLock) -> (PathBuf, Result<TakenOver>) {
        let id = met.id();
        (journal::path(&self.alone, id), recover::take_over(&self.alone, id, Some(met)))
    }

    /// Recovers the batches of the boot that still have a journal entry, for example because none of their locks was
    /// met.
    pub(crate) fn recover_rest(&self) -> Result<Vec<(PathBuf, Result<TakenOver>)>> {
        let (open, _) = journal::list(&self.alone)?;
        let mut recovered = Vec::new();
        for id in open {
            let path = journal::path(&self.alone, id);
            match self.is_of_boot(id) {
                Ok(true) => recovered.push((path, recover::take_over(&self.alone, id, None))),
                Ok(false) => {}
                Err(error) => recovered.push((path, Err(error))),
            }
        }
        Ok(recovered)
    }

    fn is_of_boot(&self, id: BatchId) -> Result<bool> {
        let Some(bytes) = journal::read(&self.alone, id)? else { return Ok(false) };
        Ok(journal::parse(&self.alone, id, &bytes)?.boot == self.boot)
    }
}
