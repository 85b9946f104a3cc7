use super::{
    FilesOptions,
    layout::Layout,
    packed_cache::{PackedCache, PackedFile},
    snapshot::FilesSnapshot,
};
use crate::{
    Backend, Locked, Result, Snapshot,
    backend::{Claims, OptimizeOptions},
};
use std::{fmt, sync::Arc};

/// Refs in loose files and packed-refs.
#[derive(Clone, Debug)]
pub struct FilesBackend {
    pub(super) store: Arc<Store>,
}

/// What the backend, its snapshots and its transactions share.
pub(super) struct Store {
    pub(super) options: FilesOptions,
    pub(super) layout: Layout,
    cache: PackedCache,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.options.common_dir.display())
    }
}

impl Store {
    /// The present packed-refs, validated now.
    pub(super) fn packed(&self) -> Result<Arc<PackedFile>> {
        self.cache.get(&self.options)
    }
}

impl FilesBackend {
    /// The refs of a repository as one of its worktrees sees them. Touches no file.
    pub fn new(options: FilesOptions) -> Self {
        let layout = Layout { git_dir: options.git_dir.clone(), common_dir: options.common_dir.clone() };
        let cache = PackedCache::new(layout.packed_path());
        FilesBackend { store: Arc::new(Store { options, layout, cache }) }
    }
}

impl Backend for FilesBackend {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(FilesSnapshot::new(Arc::clone(&self.store))))
    }

    fn lock(&self, _claims: &dyn Claims) -> Result<Box<dyn Locked + '_>> {
        Err(crate::Error::Refused("writing to the files backend is not there yet".into()))
    }

    fn optimize(&self, _options: &OptimizeOptions) -> Result<()> {
        Err(crate::Error::Refused("packing refs is not there yet".into()))
    }
}
