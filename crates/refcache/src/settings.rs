use crate::TrustSettings;
use bstr::BString;
use refdb::{Committer, transaction::ObjectCheck};
use std::sync::Arc;

/// The settings of a process.
#[derive(Clone, Debug)]
pub struct ViewsSettings {
    /// How many bytes all caches of the process may take together. They hold blocks of reftables, pages of packed-refs
    /// and the index from objects to refs. Single names take a quarter at most.
    pub memory_bytes: usize,
    /// How many files all views together may keep open, at most half of the process's own limit. `None` is a quarter of
    /// that limit.
    pub open_files: Option<usize>,
}

impl Default for ViewsSettings {
    /// Enough for all refs of a repository with 1.5 million of them, and the index from objects to refs.
    fn default() -> Self {
        ViewsSettings { memory_bytes: 56 << 20, open_files: None }
    }
}

/// The settings of one repository's view.
#[derive(Clone)]
pub struct ViewSettings {
    /// What counts as a proof.
    pub trust: TrustSettings,
    /// Whether refs are brought to stable storage before a commit returns. `None` for what `core.fsync` says.
    pub sync: Option<bool>,
    /// Settings `key=value` that outrank the repository's configuration.
    pub config: Vec<BString>,
    /// Answers what new ids are where a [`Batch`](crate::Batch) does not say; `None` to read the repository's objects.
    pub objects: Option<Arc<dyn ObjectCheck + Send>>,
    /// Who the reflog says it was where a batch does not say; `None` for whom the configuration names.
    pub committer: Option<Arc<Committer>>,
}

impl Default for ViewSettings {
    /// As a server wants it: attributes are trusted, commits are on stable storage.
    fn default() -> Self {
        ViewSettings {
            trust: TrustSettings::default(),
            sync: Some(true),
            config: Vec::new(),
            objects: None,
            committer: None,
        }
    }
}
