use super::{
    locked::{ReftableLocked, check_sizes, too_long},
    log_edit,
    options::ReftableOptions,
    stacks::{Place, Stacks},
    state::ReftableSnapshot,
};
use crate::{
    Backend, Error, Limit, Locked, LogJudge, PruneLogs, RejectionReason, Result, Snapshot,
    backend::{Claims, Maintenance, OptimizeOptions, OptimizePlan, Optimized, Steps},
};
use bstr::BStr;
use refdb_repo::ObjectCheck;
use refdb_types::RefName;
use refdb_vfs::LockError;
use reftable::stack::{Scope, Stack, StackError};
use std::{any::Any, path::PathBuf, sync::Arc};

/// The backend for refs in stacks of reftables.
#[derive(Clone, Debug)]
pub struct ReftableBackend {
    stacks: Arc<Stacks>,
}

impl ReftableBackend {
    /// Creates the backend for a repository as one of its worktrees sees it. No file is opened yet.
    pub fn new(options: ReftableOptions) -> Self {
        ReftableBackend { stacks: Arc::new(Stacks::new(options)) }
    }

    /// Returns the open stack of the shared refs and those of the main worktree.
    ///
    /// # Errors
    ///
    /// The stack cannot be opened.
    pub fn stack(&self) -> Result<Stack> {
        self.stacks.stack(&Place::Common)
    }

    /// The folders of the stacks that every snapshot of this worktree reads: the shared stack, then its own if it is a
    /// linked worktree.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.stacks.own_places().map(|place| self.stacks.folder(place)).collect()
    }

    /// Locks as [`Backend::lock`] does, but returns the type that a group commit needs, which can
    /// [stage](ReftableLocked::restage) more than once.
    pub fn lock_stacks(&self, claims: &dyn Claims) -> Result<ReftableLocked> {
        ReftableLocked::lock(&self.stacks, claims)
    }

    /// Returns the stack to compact: in a linked worktree only its own, as in git, because the shared one is compacted
    /// from the main worktree.
    fn optimized_stack(&self) -> Result<Stack> {
        self.stacks.stack(self.stacks.own_places().last().unwrap_or(&Place::Common))
    }
}

impl Backend for ReftableBackend {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(ReftableSnapshot::fresh(&self.stacks)?))
    }

    fn lock(&self, claims: &dyn Claims) -> Result<Box<dyn Locked + '_>> {
        Ok(Box::new(self.lock_stacks(claims)?))
    }

    fn canonical_name<'n>(&self, name: &'n BStr) -> &'n BStr {
        self.stacks.canonical_name(name)
    }

    fn keeps_symref_logs(&self) -> bool {
        true
    }

    fn unstorable(&self, claims: &dyn Claims) -> Vec<(usize, RejectionReason)> {
        too_long(&self.stacks, claims)
    }

    fn check(&self, steps: &dyn Steps) -> Result<()> {
        check_sizes(&self.stacks, steps)
    }
}

impl Maintenance for ReftableBackend {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn check_storage(&self) -> Result<()> {
        self.stacks.check_storage()
    }

    fn optimize(&self, options: &OptimizeOptions) -> Result<Optimized> {
        let lock_timeout = self.stacks.options.lock_timeout();
        let scope = scope_of(options);
        self.stacks.check_storage()?;
        self.stacks.options.check_format()?;
        let stack = self.optimized_stack()?;
        match stack.compact(scope, lock_timeout).and_then(|_| stack.clean(lock_timeout)) {
            // The message is git's, because git's tests compare it.
            Err(StackError::Lock(LockError::Held { .. })) => {
                return Err(Limit::StackLocked.into());
            }
            done => done?,
        };
        // Compaction reads no object, as in git.
        Ok(Optimized::default())
    }

    fn prune_logs(
        &self,
        names: &[RefName],
        how: PruneLogs,
        objects: &dyn ObjectCheck,
        judge: &mut dyn LogJudge,
    ) -> Result<()> {
        log_edit::prune(&self.stacks, names, how, objects, judge)
    }

    fn drop_logs(&self, names: &[RefName], _: &mut dyn FnMut(&RefName, Error)) -> Result<()> {
        log_edit::drop_logs(&self.stacks, names)
    }

    fn plan_optimize(&self, options: &OptimizeOptions) -> Result<OptimizePlan> {
        let stack = self.optimized_stack()?;
        let (snapshot, range) = stack.compaction_range(scope_of(options))?;
        let tables = snapshot.tables()[range].iter();
        Ok(OptimizePlan { compact: tables.map(|listed| listed.name.as_bstr().into()).collect(), ..Default::default() })
    }
}

fn scope_of(options: &OptimizeOptions) -> Scope {
    if options.auto { Scope::Geometric } else { Scope::All(None) }
}
