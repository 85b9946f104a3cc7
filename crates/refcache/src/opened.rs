use crate::{
    Error, Result, ViewSettings,
    files::FilesReader,
    group::Groups,
    identity::{Identity, Verdict},
    ignored_trust::IgnoredTrust,
    in_flight::{InFlightBatches, Repositories},
    memory::Memory,
    reader::ReadRefs,
    stats::Counters,
    tables::TablesReader,
};
use refdb::{
    Environment, Repository, Store,
    files::{Charge, FilesBackend},
    reftable::ReftableBackend,
};
use refdb_vfs::Fs;
use std::{ops::Deref, path::Path, sync::Arc};

/// An open repository: its store, its reader, and what identifies it.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) reader: Reader,
    pub(crate) groups: Arc<Groups>,
    pub(crate) counters: Arc<Counters>,
    identity: Arc<Identity>,
    fs: Fs,
    charge: Charge,
    /// The position from which this repository continues the sequence of changes of the one that was open before in the
    /// same folder; `None` if it begins its own.
    pub(crate) follows: Option<u64>,
}

/// Bytes that an open repository takes besides refs: its configuration, its paths and its reader. Measured by the
/// example `figures projects`.
const OPEN_BYTES: usize = 10 << 10;

impl Opened {
    pub(crate) fn open(
        git_dir: &Path,
        settings: &ViewSettings,
        fs: &Fs,
        memory: &Arc<Memory>,
        repositories: &Repositories,
        counters: &Arc<Counters>,
    ) -> Result<Self> {
        let fs = &fs.at(git_dir)?;
        let mut environment = Environment::empty(git_dir).with("GIT_DIR", git_dir);
        for setting in &settings.config {
            environment = environment.with_config(setting.as_ref());
        }
        let repository = Repository::entered(fs, &environment, git_dir)?;
        // Taken before the store reads its settings, so that changes after that are noticed.
        let identity = Arc::new(Identity::of(fs, repository.common_dir(), repository.config_text())?);
        let in_flight = repositories.of(identity.inode(), fs);
        let reading = refdb::Reading::Shared(Arc::clone(&memory.blocks), Arc::clone(&memory.pages));
        let mut builder = Store::builder_of(repository, environment).fs(fs.clone()).reading(reading);
        builder = builder.commit_observer(Arc::<InFlightBatches>::clone(&in_flight));
        if let Some(sync) = settings.sync {
            builder = builder.sync(sync);
        }
        if let Some(objects) = &settings.objects {
            builder = builder.objects(Arc::clone(objects));
        }
        if let Some(committer) = settings.committer.clone() {
            builder = builder.committer(move || committer());
        }
        let store = builder.open()?;
        counters.git_packs.note(store.settings().git_packs.clone());
        if settings.trust.is_always_set {
            counters.ignored_trust.note(IgnoredTrust::of(fs, git_dir)?);
        }
        let trust = settings.trust.at(fs);
        let reader = match (store.backend_as::<ReftableBackend>(), store.backend_as::<FilesBackend>()) {
            (Some(backend), _) => Reader::Tables(TablesReader::new(backend, trust, memory, counters, &in_flight)?),
            (_, Some(backend)) => {
                let reader =
                    FilesReader::new(fs, backend, store.hash(), &identity, trust, memory, counters, &in_flight);
                Reader::Files(Box::new(reader))
            }
            (None, None) => unreachable!("a store has one of the two backends"),
        };
        let charge = memory.pages.charge(OPEN_BYTES);
        let (groups, counters) = (Arc::default(), Arc::clone(counters));
        Ok(Opened { store, reader, groups, counters, identity, fs: fs.clone(), charge, follows: None })
    }

    /// Continues the sequence of changes of `old` if both have the same folder with refs of the same format and, in
    /// files, ids of the same hash function, so that opening the repository again is not in itself a change for
    /// callers. In the files format, the refs that `old` had cached are kept too, to be checked before they are used.
    pub(crate) fn follow(&mut self, old: &Opened) {
        if self.identity.inode() != old.identity.inode() {
            return;
        }
        self.follows = self.reader.follow(&old.reader);
    }

    /// Returns whether the repository is on a network file system.
    pub(crate) fn asks_server(&self) -> bool {
        self.fs.asks_server()
    }

    /// Returns whether the folder still holds the repository that was opened.
    pub(crate) fn is_same(&self) -> Result<bool> {
        match self.identity.check(&self.fs)? {
            Verdict::Same => Ok(true),
            Verdict::Changed => Ok(false),
            Verdict::Gone => Err(Error::Gone(self.store.repository().common_dir().to_owned())),
        }
    }

    /// The in-flight batches, which count the loose refs too, and how many loose refs there may be before they are
    /// packed; `None` if they are not packed in the background.
    pub(crate) fn loose_refs(&self) -> Option<(&Arc<InFlightBatches>, usize)> {
        Some((self.reader.in_flight()?, self.store.backend_as::<FilesBackend>()?.loose_max()?))
    }

    /// Bytes of private memory that the open repository takes, besides what all views share.
    pub(crate) fn bytes(&self) -> usize {
        self.reader.bytes() + self.charge.bytes()
    }
}

/// The reader of a repository's format.
pub(crate) enum Reader {
    /// The reader of loose refs and packed-refs.
    Files(Box<FilesReader>),
    /// The reader of reftables.
    Tables(TablesReader),
}

impl Reader {
    /// Continues the sequence of `old`, a reader of the same folder, and returns the position of `old` in it; a reader
    /// of files also takes over the refs that `old` had cached. Returns `None` if the refs now have another backend, or
    /// files another hash function.
    pub(crate) fn follow(&mut self, old: &Reader) -> Option<u64> {
        match (self, old) {
            (Reader::Files(reader), Reader::Files(old)) => reader.follow(old),
            (Reader::Tables(reader), Reader::Tables(old)) => Some(reader.follow(old)),
            _ => None,
        }
    }
}

impl Deref for Reader {
    type Target = dyn ReadRefs;

    fn deref(&self) -> &Self::Target {
        match self {
            Reader::Files(reader) => &**reader,
            Reader::Tables(reader) => reader,
        }
    }
}
