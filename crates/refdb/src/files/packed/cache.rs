use crate::files::{
    Charge, FilesOptions, Packed, PackedAccess,
    loose::file::REPLACED_LOOKS_MAX,
    packed::{
        disorder::Disorder,
        far_reads::FarReads,
        pages::{Pages, Shed},
        read::Bytes,
        source::{Found, PackedSource},
    },
};
use crate::{Error, Result};
use refdb_vfs::{AskingOnce, Fs, Mapping, Stat, again_if_lost, now_nanos};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The packed-refs that was read last, shared by all readers of a store; [`PackedCache::get`] validates it.
#[derive(Debug)]
pub(crate) struct PackedCache {
    path: PathBuf,
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    file: Option<Arc<PackedFile>>,
    /// The number of attempts to open packed-refs so far.
    opened: u64,
    /// On a network file system: what the last look found, and when it was first found.
    first_seen: Option<(Option<Found>, Instant)>,
    /// The last file that was found not to be sorted although it says so.
    distrusted: Option<(Stat, Disorder)>,
}

/// One packed-refs file as it was when it was opened.
#[derive(Clone, Debug)]
pub struct PackedFile {
    /// The records of the file.
    pub packed: Arc<Packed>,
    /// A number that grows each time the store opens packed-refs anew. What was read from a file is valid as long as
    /// the present file has the same generation.
    pub generation: u64,
    /// What the file looked like when it was opened; `None` if packed-refs does not exist.
    pub(crate) found: Option<Found>,
    /// From where the file is read; `None` if packed-refs does not exist.
    pub(crate) file: Option<Arc<PackedSource>>,
    /// Whether the stat may not reveal a later change, because the file was changed, or on a network file system first
    /// seen, shortly before it was opened.
    is_racy: bool,
    /// The bytes of a file that was read completely; pages are charged one by one.
    _charge: Option<Arc<Charge>>,
}

/// A packed-refs file that was opened, or on a network file system only identified, and not read yet.
struct Opened {
    source: Arc<PackedSource>,
    found: Found,
    is_racy: bool,
}

/// Identifies a packed-refs file without holding its content.
#[derive(Debug)]
pub(crate) struct PackedProof {
    found: Option<Found>,
    is_racy: bool,
    _file: Option<Arc<PackedSource>>,
}

impl PackedProof {
    /// Returns whether the file at `path` is this very file and certainly unchanged, or was missing and still is. A
    /// file that was changed shortly before it was opened is never certain. The ctime is ignored, because a rename
    /// changes it.
    pub(crate) fn is_at(&self, fs: &Fs, path: &Path) -> Result<bool> {
        Ok(match (&self.found, fs.find_link(path)?) {
            (None, None) => true,
            (Some(Found { stat: then, .. }), Some(now)) => {
                !self.is_racy && Stat { changed_nanos: then.changed_nanos, ..now } == *then
            }
            _ => false,
        })
    }
}

impl PackedFile {
    /// An identity by which the file can be recognised later.
    pub(crate) fn proof(&self) -> PackedProof {
        PackedProof { found: self.found.clone(), is_racy: self.is_racy, _file: self.file.clone() }
    }

    /// Returns whether there was a packed-refs to open. If not, there are no records.
    pub fn exists(&self) -> bool {
        self.found.is_some()
    }

    /// The stat of the file when it was opened; `None` if there is no file.
    pub fn stat(&self) -> Option<Stat> {
        self.found.as_ref().map(|found| found.stat)
    }

    /// Checks that `again` is this file, read once more, so that records of both are of one state.
    ///
    /// # Errors
    ///
    /// Fails with `ESTALE` if another file has taken the place of this one, or if this one was changed in place.
    pub fn check_same(&self, again: &PackedFile) -> Result<()> {
        if self.found == again.found {
            Ok(())
        } else {
            Err(refdb_vfs::Error::stale("read", again.packed.path()).into())
        }
    }

    /// Returns a copy of this file for another query, which opens the file again if it has to read more.
    fn again(&self) -> Self {
        let file = self.file.as_ref().and_then(|file| file.again()).map(Arc::new);
        let packed = file.as_ref().and_then(|file| self.packed.through(file)).map(Arc::new);
        PackedFile { packed: packed.unwrap_or_else(|| Arc::clone(&self.packed)), file, ..self.clone() }
    }
}

/// How to validate that the packed-refs in memory is still the present one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// By a `stat`, like git, on the assumption that packed-refs is replaced and never changed in place.
    Stat,
    /// By a `stat`, unless the time stamp is too recent to reveal a change in place; then the file is read again.
    DoubtfulStat,
    /// Not at all: the present file is read again.
    Read,
}

/// The longest packed-refs, in bytes, that a server reads completely at once; a longer one is read page by page, unless
/// it has to be sorted.
const WHOLE_LEN_MAX: u64 = 64 << 10;

/// More than a tick of any server's clock, even where time stamps have only whole seconds.
const TICKS: Duration = Duration::from_millis(2500);

/// How many times packed-refs is opened in all if another machine replaces it while it is read.
pub(crate) const OPENED_MAX: usize = 8;

impl Latest {
    /// Counts the file that is about to be opened. Returns the stat of the file, if any, whose header was found to
    /// claim falsely that its records are sorted.
    fn next(&mut self) -> Option<Stat> {
        if let Some(file) = &self.file
            && let (Some(stat), Some(disorder)) = (file.stat(), file.packed.disorder())
        {
            self.distrusted = Some((stat, disorder.clone()));
        }
        self.opened += 1;
        let before = self.file.as_ref().map_or(0, |file| file.generation);
        assert!(before < self.opened, "each file that is opened has a number of its own: {before}");
        self.distrusted.as_ref().map(|(stat, _)| *stat)
    }
}

impl PackedCache {
    pub(crate) fn new(path: PathBuf) -> Self {
        PackedCache { path, latest: Mutex::default() }
    }

    /// The present packed-refs, validated as `look` says. Readers must read loose refs first.
    ///
    /// On a network file system, every look asks the server whether the name still leads to the same file.
    pub(crate) fn get(&self, options: &FilesOptions, look: Look) -> Result<Arc<PackedFile>> {
        if options.fs.asks_server() {
            return self.get_from_server(options, look);
        }
        // Validated without the mutex, for which other threads would wait.
        let known = self.latest().file.clone();
        if let Some(known) = &known
            && self.is_current(options, known, look)?
        {
            return Ok(Arc::clone(known));
        }
        let mut latest = self.latest();
        if let (Some(other), Some(known)) = (&latest.file, &known)
            && !Arc::ptr_eq(other, known)
            && self.is_current(options, other, look)?
        {
            return Ok(Arc::clone(other));
        }
        let distrusted = latest.next();
        let fresh = Arc::new(self.read(options, self.open(options)?, latest.opened, distrusted)?);
        debug_assert!(fresh.exists() || fresh.packed.end() == 0, "no file has no records");
        latest.file = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn get_from_server(&self, options: &FilesOptions, look: Look) -> Result<Arc<PackedFile>> {
        again_if_lost(OPENED_MAX, Error::is_stale, || self.get_identified(options, look)).map(Arc::new)
    }

    fn get_identified(&self, options: &FilesOptions, look: Look) -> Result<PackedFile> {
        // The server is asked even if this query has asked it already, because packed-refs must be newer than the
        // loose refs that were read before it.
        let _asking = AskingOnce::afresh();
        let mut found = options.fs.identify(&self.path)?;
        let mut looks_left = REPLACED_LOOKS_MAX;
        while found.is_none() && looks_left > 0 && options.fs.is_being_replaced(&self.path) {
            looks_left -= 1;
            found = options.fs.identify(&self.path)?;
        }
        let found = found.map(|(stat, handle)| Found { stat, handle });
        let mut latest = self.latest();
        if latest.first_seen.as_ref().is_none_or(|(seen, _)| *seen != found) {
            latest.first_seen = Some((found.clone(), Instant::now()));
        }
        if let Some(known) = &latest.file
            && look != Look::Read
            && known.packed.disorder().is_none()
            && known.found == found
            && !known.is_racy
        {
            return Ok(known.again());
        }
        // Without a handle, files that replace one another within a tick of the server's clock may look the same.
        // Only what is read after that tick certainly comes from the last of these files.
        let is_new = latest.first_seen.as_ref().is_none_or(|(_, since)| since.elapsed() < TICKS);
        let distrusted = latest.next();
        let opened = found.map(|found| {
            let source = PackedSource::closed(&options.fs, self.path.clone(), found.clone());
            Opened { source: Arc::new(source), is_racy: found.handle.is_none() && is_new, found }
        });
        let fresh = self.read(options, opened, latest.opened, distrusted)?;
        latest.file = Some(Arc::new(fresh.again()));
        Ok(fresh)
    }

    /// The file that was read last, without validation.
    pub(crate) fn latest_file(&self) -> Option<Arc<PackedFile>> {
        self.latest().file.clone()
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where packed-refs was found not to be sorted although its header says that it is.
    pub(crate) fn disorder(&self) -> Option<Disorder> {
        let latest = self.latest();
        let file = latest.file.as_ref()?;
        // Another file may have replaced the distrusted one.
        let distrusted = latest.distrusted.as_ref().filter(|(stat, _)| file.stat() == Some(*stat));
        file.packed.disorder().or(distrusted.map(|(_, disorder)| disorder)).cloned()
    }

    /// Releases memory that holds pages of the file; one that was read completely stays in memory. Positions and
    /// records that readers already have stay valid.
    pub(crate) fn shed(&self, shed: Shed) {
        let mut latest = self.latest();
        if let Some(known) = &latest.file
            && let Some(packed) = known.packed.without(shed)
        {
            debug_assert_eq!(packed.end(), known.packed.end(), "positions stay what they were");
            latest.file = Some(Arc::new(PackedFile { packed: Arc::new(packed), _charge: None, ..(**known).clone() }));
        }
    }

    /// Forgets the file, which is closed once no reader has it. The next use opens packed-refs again.
    pub(crate) fn forget(&self) {
        self.latest().file = None;
    }

    /// How many bytes of private memory the file that was read last takes.
    pub(crate) fn loaded_bytes(&self) -> usize {
        self.latest().file.as_ref().map_or(0, |known| known.packed.loaded_bytes())
    }

    fn is_current(&self, options: &FilesOptions, known: &PackedFile, look: Look) -> Result<bool> {
        match look {
            _ if known.packed.disorder().is_some() => Ok(false),
            Look::Read => Ok(false),
            Look::DoubtfulStat if known.is_racy => Ok(false),
            Look::Stat | Look::DoubtfulStat => Ok(options.fs.find(&self.path)? == known.stat()),
        }
    }

    fn open(&self, options: &FilesOptions) -> Result<Option<Opened>> {
        let file = match options.fs.open(&self.path) {
            Ok(file) => Arc::new(file),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let now = now_nanos();
        let stat = file.stat()?;
        let source = Arc::new(PackedSource::held(file));
        Ok(Some(Opened { source, found: Found { stat, handle: None }, is_racy: stat.is_racy(now) }))
    }

    fn read(
        &self,
        options: &FilesOptions,
        opened: Option<Opened>,
        generation: u64,
        distrusted: Option<Stat>,
    ) -> Result<PackedFile> {
        let Some(Opened { source, found, is_racy }) = opened else {
            let packed = Arc::new(Packed::empty(&self.path, options.hash));
            return Ok(PackedFile { packed, generation, found: None, file: None, is_racy: false, _charge: None });
        };
        let len_bytes = found.stat.len_bytes;
        let bytes = match &options.access {
            PackedAccess::Mapped if len_bytes > 0 => {
                let file = source.get()?;
                Bytes::Mapped(Mapping::new(file)?, FarReads::new(file))
            }
            PackedAccess::Paged(budget) if len_bytes > WHOLE_LEN_MAX => {
                Bytes::Paged(Pages::new(Arc::clone(&source), len_bytes as usize, budget))
            }
            PackedAccess::Mapped | PackedAccess::Paged(_) => Bytes::Owned(source.get()?.read_to_end()?),
        };
        let packed = Packed::open(&self.path, options.hash, bytes, distrusted != Some(found.stat))?;
        let charge = match &options.access {
            PackedAccess::Paged(budget) => Some(Arc::new(budget.charge(packed.whole_bytes()))),
            PackedAccess::Mapped => None,
        };
        let (packed, found, file) = (Arc::new(packed), Some(found), Some(source));
        Ok(PackedFile { packed, generation, found, file, is_racy, _charge: charge })
    }
}
