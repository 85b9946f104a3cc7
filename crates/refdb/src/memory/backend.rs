use super::{
    locked::{Shared, WriterLock},
    log_edit,
    snapshot::MemorySnapshot,
    state::State,
};
use crate::{
    Backend, Error, Locked, LogJudge, Maintenance, PruneLogs, Result, Snapshot,
    backend::{Claims, OptimizeOptions, OptimizePlan, Optimized},
};
use bstr::BStr;
use refdb_repo::ObjectCheck;
use refdb_types::{HashKind, RefName, canonical_name};
use std::{any::Any, sync::Arc, time::Duration};

/// The lock timeout of a backend that was given none.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Refs and reflogs in memory. Clones share them.
///
/// A new one has the symbolic ref `HEAD`, which leads to `refs/heads/main`, and nothing else.
#[derive(Clone, Debug)]
pub struct MemoryBackend {
    shared: Arc<Shared>,
    lock_timeout: Duration,
}

impl MemoryBackend {
    /// Creates a backend with only `HEAD`, whose object ids are of this hash function.
    pub fn new(hash: HashKind) -> Self {
        MemoryBackend { shared: Arc::new(Shared::new(hash, State::initial())), lock_timeout: LOCK_TIMEOUT }
    }

    /// Sets how long this clone waits for the writer's lock before it fails with
    /// [`Error::StackLocked`](crate::Error::StackLocked). The default is 10 seconds.
    #[must_use]
    pub fn lock_timeout(self, lock_timeout: Duration) -> Self {
        MemoryBackend { lock_timeout, ..self }
    }

    /// The hash function of all object ids.
    pub fn hash(&self) -> HashKind {
        self.shared.hash
    }

    fn lock_writer(&self) -> Result<WriterLock> {
        WriterLock::take(&self.shared, self.lock_timeout)
    }
}

impl Backend for MemoryBackend {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(MemorySnapshot::new(self.shared.state())))
    }

    fn lock(&self, _: &dyn Claims) -> Result<Box<dyn Locked + '_>> {
        Ok(Box::new(self.lock_writer()?.into_locked()))
    }

    fn canonical_name<'n>(&self, name: &'n BStr) -> &'n BStr {
        canonical_name(name, None)
    }

    fn keeps_symref_logs(&self) -> bool {
        true
    }
}

impl Maintenance for MemoryBackend {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_on_disk(&self) -> bool {
        false
    }

    fn optimize(&self, _: &OptimizeOptions) -> Result<Optimized> {
        Ok(Optimized::default())
    }

    fn plan_optimize(&self, _: &OptimizeOptions) -> Result<OptimizePlan> {
        Ok(OptimizePlan::default())
    }

    fn prune_logs(
        &self,
        names: &[RefName],
        how: PruneLogs,
        objects: &dyn ObjectCheck,
        judge: &mut dyn LogJudge,
    ) -> Result<()> {
        let writer = if how.dry_run { None } else { Some(self.lock_writer()?) };
        let mut state = State::clone(&self.shared.state());
        log_edit::prune(&mut state, names, how, objects, judge)?;
        if let Some(writer) = writer {
            writer.publish(state);
        }
        Ok(())
    }

    fn drop_logs(&self, names: &[RefName], _: &mut dyn FnMut(&RefName, Error)) -> Result<()> {
        let writer = self.lock_writer()?;
        let mut state = State::clone(&self.shared.state());
        for name in names {
            state.logs.remove(canonical_name(name.as_bstr(), None));
        }
        writer.publish(state);
        Ok(())
    }
}
