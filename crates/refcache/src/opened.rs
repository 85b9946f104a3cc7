use crate::{
    Error, Found, Result, ViewSettings,
    answer::Answer,
    files::FilesReader,
    found::Pointing,
    group::Groups,
    identity::{Identity, Verdict},
    in_flight::{InFlightBatches, Repositories},
    listing::Source,
    memory::{Memory, Part},
    plan::Plan,
    stats::Counters,
    tables::TablesReader,
};
use bstr::{BStr, BString};
use refdb::{
    Environment, Repository, Store,
    files::{Charge, FilesBackend},
    reftable::ReftableBackend,
};
use refdb_types::ObjectId;
use refdb_vfs::Fs;
use std::{path::Path, sync::Arc};

/// A repository as it was when it was opened: its store, its reader, and the test of its identity.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) reader: Reader,
    pub(crate) groups: Arc<Groups>,
    pub(crate) counters: Arc<Counters>,
    identity: Identity,
    fs: Fs,
    charge: Charge,
    /// Whether it goes on with what was known of the same folder before.
    pub(crate) is_next: bool,
}

/// What a repository takes that is open, besides refs: its configuration, its paths, what reads it. Measured by
/// `figures projects`.
const OPEN_BYTES: usize = 10 << 10;

/// Reads the refs of one format.
pub(crate) enum Reader {
    Files(Box<FilesReader>),
    Tables(TablesReader),
}

impl Opened {
    pub(crate) fn open(
        git_dir: &Path,
        settings: &ViewSettings,
        fs: &Fs,
        memory: &Arc<Memory>,
        repositories: &Repositories,
        counters: &Arc<Counters>,
    ) -> Result<Self> {
        let mut environment = Environment::empty(git_dir).with("GIT_DIR", git_dir);
        for setting in &settings.config {
            environment = environment.with_config(setting.as_ref());
        }
        let repository = Repository::entered(fs, &environment, git_dir)?;
        // Before the store reads the configuration: what changes afterwards is noticed.
        let identity = Identity::of(fs, repository.common_dir())?;
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
        let trust = settings.trust;
        let reader = match (store.backend_as::<ReftableBackend>(), store.backend_as::<FilesBackend>()) {
            (Some(backend), _) => Reader::Tables(TablesReader::new(fs, backend, trust, memory, counters, &in_flight)?),
            (_, Some(backend)) => {
                let reader = FilesReader::new(fs, backend, store.hash(), trust, memory, counters, &in_flight);
                Reader::Files(Box::new(reader))
            }
            (None, None) => unreachable!("a store has one of the two backends"),
        };
        let charge = memory.pages.charge(OPEN_BYTES);
        let (groups, counters) = (Arc::default(), Arc::clone(counters));
        Ok(Opened { store, reader, groups, counters, identity, fs: fs.clone(), charge, is_next: false })
    }

    /// Goes on with what was known of the same folder, if its refs are still of the same kind. Then only the
    /// configuration is another one, which is no change of refs.
    pub(crate) fn follow(&mut self, old: &Opened) {
        if self.identity.inode() != old.identity.inode() {
            return;
        }
        self.is_next = match (&mut self.reader, &old.reader) {
            (Reader::Files(reader), Reader::Files(old)) => reader.follow(old),
            (Reader::Tables(reader), Reader::Tables(old)) => reader.follow(old),
            _ => false,
        };
    }

    /// Whether the folder still holds the repository that was opened.
    pub(crate) fn is_same(&self) -> Result<bool> {
        match self.identity.check(&self.fs)? {
            Verdict::Same => Ok(true),
            Verdict::Changed => Ok(false),
            Verdict::Gone => Err(Error::Gone(self.store.repository().common_dir().to_owned())),
        }
    }

    /// One ref.
    pub(crate) fn get(&self, name: &BStr) -> Result<Answer<Option<Found>>> {
        match &self.reader {
            Reader::Files(reader) => reader.get(&self.store, name),
            Reader::Tables(reader) => reader.get(&self.store, name),
        }
    }

    /// Many refs, whose names are sorted.
    pub(crate) fn get_many(&self, names: &[&BStr]) -> Result<Answer<Vec<Option<Found>>>> {
        match &self.reader {
            Reader::Files(reader) => reader.get_many(&self.store, names),
            Reader::Tables(reader) => reader.get_many(&self.store, names),
        }
    }

    /// Where a listing has its rows, and the number of their reader.
    pub(crate) fn list(&self, plan: &Plan) -> Result<Answer<(Source, u64)>> {
        match &self.reader {
            Reader::Files(reader) => {
                Ok(reader.list(plan)?.map(|source| (Source::Files(Box::new(source)), reader.owner())))
            }
            Reader::Tables(reader) => {
                Ok(reader.list()?.map(|source| (Source::Tables(Box::new(source)), reader.owner())))
            }
        }
    }

    /// Looks at every ref that has a file of its own, so that the broken ones among them are known.
    pub(crate) fn look_for_broken(&self) -> Result<()> {
        match &self.reader {
            Reader::Files(reader) => reader.look_for_broken(),
            Reader::Tables(_) => Ok(()),
        }
    }

    /// For each object the names, in order, of the refs that hold it or a tag that leads to it.
    pub(crate) fn pointing_at(&self, ids: &[ObjectId]) -> Result<Answer<Pointing>> {
        match &self.reader {
            Reader::Files(reader) => reader.pointing_at(ids, self.store.context().objects),
            Reader::Tables(reader) => reader.pointing_at(ids),
        }
    }

    /// Grows whenever the refs are found changed.
    pub(crate) fn sequence(&self) -> u64 {
        match &self.reader {
            Reader::Files(reader) => reader.sequence(),
            Reader::Tables(reader) => reader.sequence(),
        }
    }

    /// The names for which memory may differ from `disk`. They are all those known one by one, and those that differ in
    /// pages known as a whole.
    pub(crate) fn questionable(&self, disk: &Store) -> Result<Vec<BString>> {
        match &self.reader {
            Reader::Files(reader) => reader.questionable(disk),
            // What else is in memory is blocks, through which a listing goes too.
            Reader::Tables(reader) => Ok(reader.questionable()),
        }
    }

    /// The small batches that are becoming loose files.
    pub(crate) fn in_flight(&self) -> Option<&InFlightBatches> {
        match &self.reader {
            Reader::Files(reader) => Some(reader.in_flight()),
            Reader::Tables(_) => None,
        }
    }

    /// Where it is known how many loose refs there may be, and the bound, if they are folded.
    pub(crate) fn loose_refs(&self) -> Option<(&Arc<InFlightBatches>, usize)> {
        match &self.reader {
            Reader::Files(reader) => Some((reader.in_flight(), self.store.backend_as::<FilesBackend>()?.loose_max()?)),
            Reader::Tables(_) => None,
        }
    }

    /// Makes the next question look at the disk.
    pub(crate) fn invalidate(&self) {
        match &self.reader {
            Reader::Files(reader) => reader.invalidate(),
            Reader::Tables(reader) => reader.invalidate(),
        }
    }

    /// The same after refs were changed here.
    pub(crate) fn wrote(&self) {
        match &self.reader {
            Reader::Files(reader) => reader.wrote(),
            Reader::Tables(reader) => reader.wrote(),
        }
    }

    /// Bytes of private memory that it holds itself.
    pub(crate) fn bytes(&self) -> usize {
        let refs = match &self.reader {
            Reader::Files(reader) => reader.bytes(),
            Reader::Tables(reader) => reader.bytes(),
        };
        refs + self.charge.bytes()
    }

    /// Gives up a part of that memory.
    pub(crate) fn release(&self, part: Part) {
        match &self.reader {
            Reader::Files(reader) => reader.release(part),
            Reader::Tables(_) => {}
        }
    }
}
