use crate::TrustSettings;
use bstr::BString;
use refdb::{Committer, transaction::ObjectCheck};
use refdb_vfs::Fs;
use std::{fmt, sync::Arc};

/// The settings that all views of a process share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ViewsSettings {
    /// The limit, in bytes, on the memory of all caches of the process, which hold blocks of reftables, pages of
    /// packed-refs, the index from objects to refs, listings of folders and single refs. Single refs take about a
    /// quarter at most.
    pub memory_bytes: usize,
    /// The limit on files that all views together keep open. More than half of what the process may open is reduced to
    /// that half. `None` for a quarter of what the process may open, and 8,192 at most. Less than 16 counts as 16.
    pub open_files: Option<usize>,
    pub(crate) fs: Fs,
}

impl ViewsSettings {
    /// The defaults.
    pub fn new() -> Self {
        ViewsSettings::default()
    }

    /// Sets [`ViewsSettings::memory_bytes`](#structfield.memory_bytes).
    #[must_use]
    pub fn memory_bytes(mut self, memory_bytes: usize) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets [`ViewsSettings::open_files`](#structfield.open_files).
    #[must_use]
    pub fn open_files(mut self, open_files: impl Into<Option<usize>>) -> Self {
        self.open_files = open_files.into();
        self
    }

    /// Sets the file system through which all repositories are used.
    #[doc(hidden)]
    #[must_use]
    pub fn fs(mut self, fs: Fs) -> Self {
        self.fs = fs;
        self
    }
}

impl Default for ViewsSettings {
    /// The default limits; 56 MiB are enough for a repository with 1.5 million refs and the index from objects to
    /// them.
    fn default() -> Self {
        ViewsSettings { memory_bytes: 56 << 20, open_files: None, fs: Fs::real() }
    }
}

/// The settings of one repository's view.
#[derive(Clone)]
#[non_exhaustive]
pub struct ViewSettings {
    /// When cached answers count as current.
    pub trust: TrustSettings,
    /// Whether changed refs are on stable storage before a commit returns; `None` to follow `core.fsync`.
    pub sync: Option<bool>,
    /// Settings `key=value` that override the configuration, which is that of the repository and of `/etc/gitconfig`.
    pub config: Vec<BString>,
    /// Returns the type of an object, for instance of a new one whose type a [`Batch`](crate::Batch) does not bring.
    /// `None` to read the repository's objects.
    pub objects: Option<Arc<dyn ObjectCheck + Send>>,
    /// The committer for reflog entries of batches that name none; `None` for the one of the configuration.
    pub committer: Option<Arc<Committer>>,
}

impl ViewSettings {
    /// The defaults.
    pub fn new() -> Self {
        ViewSettings::default()
    }

    /// Sets [`ViewSettings::trust`](#structfield.trust).
    #[must_use]
    pub fn trust(mut self, trust: TrustSettings) -> Self {
        self.trust = trust;
        self
    }

    /// Sets [`ViewSettings::sync`](#structfield.sync).
    #[must_use]
    pub fn sync(mut self, sync: impl Into<Option<bool>>) -> Self {
        self.sync = sync.into();
        self
    }

    /// Sets [`ViewSettings::config`](#structfield.config).
    #[must_use]
    pub fn config(mut self, config: Vec<BString>) -> Self {
        self.config = config;
        self
    }

    /// Sets [`ViewSettings::objects`](#structfield.objects).
    #[must_use]
    pub fn objects(mut self, objects: Option<Arc<dyn ObjectCheck + Send>>) -> Self {
        self.objects = objects;
        self
    }

    /// Sets [`ViewSettings::committer`](#structfield.committer).
    #[must_use]
    pub fn committer(mut self, committer: Option<Arc<Committer>>) -> Self {
        self.committer = committer;
        self
    }
}

impl fmt::Debug for ViewSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewSettings")
            .field("trust", &self.trust)
            .field("sync", &self.sync)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Default for ViewSettings {
    /// Settings for a server: file attributes are trusted, and commits are on stable storage when they return.
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
