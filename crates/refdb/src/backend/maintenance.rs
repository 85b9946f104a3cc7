//! Packing refs and editing reflogs, apart from transactions.

use super::Backend;
use crate::{Error, LogJudge, PruneLogs, Result};
use bstr::BString;
use refdb_repo::ObjectCheck;
use refdb_types::RefName;
use std::any::Any;

/// A backend that also packs refs and edits reflogs, outside of any transaction.
pub trait Maintenance: Backend {
    /// Packs refs so that they are faster to read: pack-refs for files, compaction for reftables, nothing in memory.
    fn optimize(&self, options: &OptimizeOptions) -> Result<Optimized>;

    /// What [`optimize`](Self::optimize) would do at this moment. Locks and changes nothing.
    fn plan_optimize(&self, options: &OptimizeOptions) -> Result<OptimizePlan>;

    /// Removes entries from the reflogs of these refs, each named once.
    ///
    /// `judge` decides about each entry. The judge is notified of each log that cannot be changed; the other logs are
    /// edited all the same. `objects` peels annotated tags if the format stores the peeled object.
    ///
    /// # Errors
    ///
    /// An error that concerns the whole store, or a signal to the process to end, ends the call. If the judge fails,
    /// the log at hand stays as it is, and [`LogJudge::failed`] gets the error.
    ///
    /// # Atomicity
    ///
    /// The files backend replaces one log after the other. A stack of reftables changes all its logs at once, and so
    /// does memory.
    fn prune_logs(
        &self,
        names: &[RefName],
        how: PruneLogs,
        objects: &dyn ObjectCheck,
        judge: &mut dyn LogJudge,
    ) -> Result<()>;

    /// Removes the reflogs of these refs, each named once, and leaves the refs. In files, `failed` is called for each
    /// log that could not be removed; in the other formats all logs are removed, or the call fails.
    fn drop_logs(&self, names: &[RefName], failed: &mut dyn FnMut(&RefName, Error)) -> Result<()>;

    /// Fails if refs must not be written because of the mount that they are on, unless `refdb.unsafeStorage` is set.
    /// Backends make this check themselves before they write.
    ///
    /// # Errors
    ///
    /// [`Misuse::UnsafeStorage`](crate::Misuse::UnsafeStorage). A mount that cannot be examined counts as unsafe,
    /// unless its file system is known to be none of NFS, SMB and FUSE.
    fn check_storage(&self) -> Result<()> {
        Ok(())
    }

    /// Returns whether the refs lie in a repository on disk, which may be moved, deleted or migrated while the store is
    /// open.
    fn is_on_disk(&self) -> bool {
        true
    }

    /// Returns this backend as [`Any`], for [`Store::backend_as`](crate::Store::backend_as).
    fn as_any(&self) -> &dyn Any;
}

/// How to [optimize](Maintenance::optimize), in the terms of git-pack-refs(1).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OptimizeOptions {
    /// Pack all loose refs, not only tags or those that [`include`](Self::include) selects (files only).
    pub all: bool,
    /// Remove the loose files of packed refs (files only).
    pub prune: bool,
    /// Pack or compact only if a heuristic finds that this is worthwhile.
    pub auto: bool,
    /// Patterns of refs to pack; empty for the default (files only).
    pub include: Vec<BString>,
    /// Patterns of refs not to pack (files only).
    pub exclude: Vec<BString>,
}

impl Default for OptimizeOptions {
    /// The defaults of git-pack-refs(1): loose tags are packed, and their loose files removed.
    fn default() -> Self {
        OptimizeOptions { all: false, prune: true, auto: false, include: Vec::new(), exclude: Vec::new() }
    }
}

impl OptimizeOptions {
    /// The defaults.
    pub fn new() -> Self {
        OptimizeOptions::default()
    }

    /// Sets [`OptimizeOptions::all`](#structfield.all).
    #[must_use]
    pub fn all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Sets [`OptimizeOptions::prune`](#structfield.prune).
    #[must_use]
    pub fn prune(mut self, prune: bool) -> Self {
        self.prune = prune;
        self
    }

    /// Sets [`OptimizeOptions::auto`](#structfield.auto).
    #[must_use]
    pub fn auto(mut self, auto: bool) -> Self {
        self.auto = auto;
        self
    }

    /// Sets [`OptimizeOptions::include`](#structfield.include).
    #[must_use]
    pub fn include(mut self, include: Vec<BString>) -> Self {
        self.include = include;
        self
    }

    /// Sets [`OptimizeOptions::exclude`](#structfield.exclude).
    #[must_use]
    pub fn exclude(mut self, exclude: Vec<BString>) -> Self {
        self.exclude = exclude;
        self
    }
}

/// What [`Maintenance::optimize`] would do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptimizePlan {
    /// Loose refs that would be packed, in order. Packed-refs may have their values already.
    pub pack: Vec<BString>,
    /// Whether packed-refs would be written, if only to create it, to sort it or to correct its header. Also set if
    /// there are refs to pack and packed-refs has the values of all of them already.
    pub rewrites_packed: bool,
    /// Tables that would be merged into one, the oldest first.
    pub compact: Vec<BString>,
    /// Loose refs whose object is missing, in order. They would stay loose.
    pub missing: Vec<BString>,
}

/// What [`Maintenance::optimize`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Optimized {
    /// Loose refs whose object is missing, in order. They stay loose.
    pub missing: Vec<BString>,
}
