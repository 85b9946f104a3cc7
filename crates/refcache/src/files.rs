//! Refs in loose files and packed-refs: a loose ref outranks packed-refs.

// Reading order: `loose` (one loose file), [`FilesReader`], `walk` (all loose refs of some folders), `whole` (several
// refs as transactions left them), `source` (listings), `news` (which changes listings find), `pointing` and `tips`
// (refs by object), `questionable` (refs that a verification compares).
mod loose;
mod news;
mod pointing;
mod questionable;
mod source;
mod tips;
mod walk;
mod whole;

pub(crate) use source::FilesSource;

use crate::{
    Error, Found, Result, Storage, Trust, TrustSettings,
    answer::Answer,
    bloom::BloomFilter,
    found::Pointing,
    identity::{Identity, Verdict},
    in_flight::InFlightBatches,
    listing::Source,
    memory::{Memory, Part},
    name_cache::{Known, Loose},
    plan::{Plan, Range},
    reader::ReadRefs,
    stats::{Counters, count},
};
use bstr::{BStr, BString};
use refdb::{
    Store, Target,
    files::{FilesBackend, Look, PackedFile},
    transaction::ObjectCheck,
};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, Stat};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use tips::Tips;
use walk::Folders;
use whole::{Seen, set_back};

/// The target that git gives HEAD when it converts a repository to reftable, so that no program takes the repository
/// for one with files.
const HEAD_OF_REFTABLE: &str = "refs/heads/.invalid";

fn target_of(found: &Option<Found>) -> Option<&Target> {
    found.as_ref().map(|found| &found.target)
}

/// When a query began. This decides whether cached values may be used without reading the disk.
#[derive(Clone, Copy)]
struct Moment {
    epoch: u64,
    looked_nanos: u64,
}

/// What a look-up has found before it reads packed-refs.
enum First {
    /// The answer, for which packed-refs need not be read.
    Found(Answer<Option<Found>>),
    /// There is no loose file. Holds what is cached of the name.
    NotLoose(Option<Arc<Known>>),
}

impl Moment {
    fn known(self, loose: Option<Loose>, kept: Option<Found>) -> Known {
        Known { epoch: self.epoch, looked_nanos: self.looked_nanos, loose, kept }
    }
}

/// Reads loose refs and packed-refs.
///
/// With the default trust settings on a local file system, a look-up calls `stat` for the loose path, and then for
/// packed-refs unless there is a loose file. This order matters, because a process that packs a ref writes packed-refs
/// before it removes the loose file. The loose file is read only if its attributes do not show that the cached content
/// is current.
pub(crate) struct FilesReader {
    fs: Fs,
    backend: FilesBackend,
    hash: HashKind,
    identity: Arc<Identity>,
    trust: TrustSettings,
    memory: Arc<Memory>,
    counters: Arc<Counters>,
    /// The number that distinguishes this reader's entries from those of others in the shared caches.
    owner: u64,
    knowledge: Arc<Knowledge>,
    /// The generation of the packed-refs that this reader used last.
    seen_generation: AtomicU64,
    /// The index from objects to refs, as it was last built, maybe of an older packed-refs.
    tips: Mutex<Option<Arc<Tips>>>,
    /// Held while `tips` is built, so that one thread does it.
    indexing: Mutex<()>,
    /// The batches of this process that are being written as loose files.
    in_flight: Arc<InFlightBatches>,
}

/// What a reader has seen of a repository's files. The reader compares the files with it to find changes. A reader
/// that [follows](FilesReader::follow) an earlier one takes over what that one has seen.
struct Knowledge {
    /// The number of the first reader that had this knowledge. Its successors use it in the cache of single refs, too.
    number: u64,
    begun: Instant,
    /// Counts the events after which no older cached value is used unchecked: a write, an invalidation, a change of
    /// packed-refs, or a new reader that takes over this knowledge.
    epoch: AtomicU64,
    /// Counts each change of a single ref or of packed-refs that was found, and each batch that was written here.
    changes: AtomicU64,
    /// The names that may be in the cache of single refs, where most names are not.
    may_know: BloomFilter,
    /// The attributes of the packed-refs that was last used.
    packed: Mutex<Option<Option<Stat>>>,
    folders: Mutex<Folders>,
}

impl Knowledge {
    fn none(memory: &Memory, number: u64) -> Self {
        Knowledge {
            number,
            begun: Instant::now(),
            epoch: AtomicU64::new(0),
            changes: AtomicU64::new(1),
            may_know: BloomFilter::default(),
            packed: Mutex::default(),
            folders: Mutex::new(Folders::new(&memory.pages)),
        }
    }
}

impl FilesReader {
    #[expect(clippy::too_many_arguments, reason = "one caller passes what an open repository consists of")]
    pub(crate) fn new(
        fs: &Fs,
        backend: &FilesBackend,
        hash: HashKind,
        identity: &Arc<Identity>,
        trust: TrustSettings,
        memory: &Arc<Memory>,
        counters: &Arc<Counters>,
        in_flight: &Arc<InFlightBatches>,
    ) -> Self {
        let owner = memory.owner();
        FilesReader {
            fs: fs.clone(),
            backend: backend.clone(),
            hash,
            identity: Arc::clone(identity),
            trust,
            memory: Arc::clone(memory),
            counters: Arc::clone(counters),
            owner,
            knowledge: Arc::new(Knowledge::none(memory, owner)),
            seen_generation: AtomicU64::new(0),
            tips: Mutex::new(None),
            indexing: Mutex::default(),
            in_flight: Arc::clone(in_flight),
        }
    }

    /// Takes over the knowledge of the reader that this one replaces in the same folder, and returns its position in
    /// the sequence of changes. Returns `None` if the hash functions differ, so that the old reader's knowledge is of
    /// no use.
    pub(crate) fn follow(&mut self, old: &FilesReader) -> Option<u64> {
        if self.hash != old.hash {
            return None;
        }
        self.knowledge = Arc::clone(&old.knowledge);
        self.invalidate();
        Some(self.sequence())
    }

    /// Looks up several refs, each as it is at the moment it is read. Packed-refs is checked after all loose paths.
    fn get_each(&self, names: &[&BStr]) -> Result<Seen<Answer<Vec<Option<Found>>>>> {
        let moment = self.moment();
        let mut answers = Vec::with_capacity(names.len());
        let mut needs_revalidation = false;
        let mut not_loose = Vec::new();
        for name in names {
            match self.get_first(name, moment)? {
                First::Found(answer) => answers.push(answer.into_part(&mut needs_revalidation)),
                First::NotLoose(known) => {
                    not_loose.push((answers.len(), known));
                    answers.push(None);
                }
            }
        }
        // Checked even if several refs are all loose: a transaction may have moved them to packed-refs, and later ones
        // may have written loose files again.
        let file = if names.len() > 1 || !not_loose.is_empty() { Some(self.packed()?) } else { None };
        let is_any_loose = not_loose.len() < names.len();
        if let Some(file) = &file {
            for (at, known) in not_loose {
                let answer = self.get_packed(file, names[at], known.as_deref(), moment)?;
                answers[at] = answer.into_part(&mut needs_revalidation);
            }
        }
        debug_assert_eq!(answers.len(), names.len(), "each name has its answer");
        Ok(Seen { value: Answer::new(answers, needs_revalidation), packed: file.filter(|_| is_any_loose) })
    }

    /// Returns the present moment. A query must take it before it reads anything, so that a ref that changes
    /// meanwhile is checked again later.
    fn moment(&self) -> Moment {
        Moment { epoch: self.epoch(), looked_nanos: self.clock() }
    }

    /// A number that grows whenever cached values must be checked again. A write through one view of a repository
    /// raises it for all views of that repository at once.
    fn epoch(&self) -> u64 {
        self.knowledge.epoch.load(Ordering::Acquire) + self.in_flight.steps()
    }

    /// Looks up a ref as far as possible without reading packed-refs.
    fn get_first(&self, name: &BStr, moment: Moment) -> Result<First> {
        let known = if self.knowledge.may_know.has(name) {
            self.memory.name_cache.get(self.knowledge.number, name)
        } else {
            None
        };
        if let Some(known) = &known
            && self.believes(known, moment)
        {
            count(&self.counters.hits, 1);
            return Ok(First::Found(Answer::Validated(known.answer())));
        }
        Ok(match self.get_loose(name, known.as_deref(), moment)? {
            Some(found) => {
                let needs_revalidation =
                    matches!(&found.target, Target::Symbolic(to) if to.as_bstr() == HEAD_OF_REFTABLE);
                First::Found(Answer::new(Some(found), needs_revalidation))
            }
            None => First::NotLoose(known),
        })
    }

    fn get_loose(&self, name: &BStr, known: Option<&Known>, moment: Moment) -> Result<Option<Found>> {
        let Some((loose, is_new)) = self.loose(name, known.and_then(|known| known.loose.as_ref()))? else {
            return Ok(None);
        };
        count(if is_new { &self.counters.misses } else { &self.counters.hits }, 1);
        let found = Found::loose(loose.target.clone());
        let is_changed = match known {
            Some(known) => target_of(&known.answer()) != Some(&found.target),
            None => is_new && self.folders().were_listed_without(name),
        };
        if is_new && is_changed {
            count(&self.knowledge.changes, 1);
        }
        if is_new || self.trust.believe.is_some() {
            self.remember(name, moment.known(Some(loose), None));
        }
        Ok(Some(found))
    }

    /// Looks up a ref for which there is no loose file. `file` must have been found current after the loose path was
    /// checked.
    fn get_packed(
        &self,
        file: &PackedFile,
        name: &BStr,
        known: Option<&Known>,
        moment: Moment,
    ) -> Result<Answer<Option<Found>>> {
        let mut has_read = false;
        let kept = match self.memory.direct_mapped.get(self.owner, file.generation, name) {
            Some(kept) => kept,
            None => {
                let kept = look_up(file, name, &mut has_read)?;
                if file.packed.disorder().is_some() {
                    let sorted = self.packed()?;
                    assert!(sorted.generation > file.generation, "a file that is not believed is opened again");
                    return self.get_packed(&sorted, name, known, moment);
                }
                if !has_read {
                    self.memory.direct_mapped.put(self.owner, file.generation, name, &kept);
                }
                kept
            }
        };
        count(if has_read { &self.counters.misses } else { &self.counters.hits }, 1);
        let needs_revalidation = kept.is_none() && !file.exists();
        let is_changed = known.is_some_and(|known| target_of(&known.answer()) != target_of(&kept));
        if is_changed {
            count(&self.knowledge.changes, 1);
        }
        // A value in packed-refs is in the page that was searched and need not be remembered separately. The absence
        // of a ref is remembered, so that a loose ref that another process makes later is known to be a change.
        let is_missed = kept.is_none() && known.is_none();
        if self.trust.believe.is_some() || is_changed || is_missed || known.is_some_and(|known| known.loose.is_some()) {
            self.remember(name, moment.known(None, kept.clone()));
        }
        Ok(Answer::new(kept, needs_revalidation))
    }

    fn remember(&self, name: &BStr, known: Known) {
        self.memory.name_cache.put(self.knowledge.number, name, known);
        self.knowledge.may_know.add(name);
        debug_assert!(self.knowledge.may_know.has(name), "a known name is asked for: {name}");
    }

    fn believes(&self, known: &Known, Moment { epoch, looked_nanos }: Moment) -> bool {
        self.trust.believe.is_some_and(|believe| {
            known.epoch == epoch && looked_nanos.saturating_sub(known.looked_nanos) < believe.as_nanos() as u64
        })
    }

    fn clock(&self) -> u64 {
        if self.trust.believe.is_some() { self.knowledge.begun.elapsed().as_nanos() as u64 } else { 0 }
    }

    /// The present packed-refs, checked as the trust settings demand. For an answer it must be called after the loose
    /// refs were read.
    fn packed(&self) -> Result<Arc<PackedFile>> {
        let look = match self.trust.packed_refs {
            Trust::Always | Trust::AfterOpen => Look::DoubtfulStat,
            Trust::Never => Look::Read,
        };
        let file = self.backend.packed(look)?;
        if self.seen_generation.load(Ordering::Acquire) != file.generation {
            self.note(&file)?;
        }
        Ok(file)
    }

    /// Records that packed-refs was opened again, and whether it has changed since it was last used. Fails if the
    /// folder no longer holds the repository that was opened, because the file may then have ids of another length.
    #[cold]
    fn note(&self, file: &PackedFile) -> Result<()> {
        if self.identity.check(&self.fs)? != Verdict::Same {
            return Err(Error::Restless(self.backend.folder_path(BStr::new(""))));
        }
        self.counters.disorders.note(self.backend.disorder());
        let mut seen = self.knowledge.packed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.replace(file.stat());
        // The file may have been opened again for other reasons, without having changed.
        if before.is_some_and(|before| before != file.stat()) {
            count(&self.counters.loads, 1);
            count(&self.knowledge.changes, 1);
            // The new file may hold a part of a transaction whose other refs would still be answered with their old
            // values.
            self.invalidate();
        }
        // Stored last: a thread that sees this number uses no older value without checking it.
        self.seen_generation.store(file.generation, Ordering::Release);
        Ok(())
    }

    fn held_tips(&self) -> MutexGuard<'_, Option<Arc<Tips>>> {
        self.tips.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folders(&self) -> MutexGuard<'_, Folders> {
        self.knowledge.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadRefs for FilesReader {
    fn get(&self, _: &Store, name: &BStr) -> Result<Answer<Option<Found>>> {
        let moment = self.moment();
        let answer = match self.get_first(name, moment) {
            Ok(First::Found(answer)) => Ok(answer),
            Ok(First::NotLoose(known)) => self.get_packed(&*self.packed()?, name, known.as_deref(), moment),
            Err(error) => Err(error),
        };
        match self.in_flight.before(name) {
            None => answer,
            Some(old) => Ok(Answer::Validated(found_before(old))),
        }
    }

    fn get_many(&self, _: &Store, names: &[&BStr]) -> Result<Answer<Vec<Option<Found>>>> {
        debug_assert!(names.is_sorted(), "loose refs are looked at in order of name");
        let (answers, back) = self.whole(|| self.get_each(names))?;
        Ok(answers.map(|mut answers| {
            for (name, old) in back {
                let same = names.partition_point(|other| *other < name)..names.partition_point(|other| *other <= name);
                same.for_each(|at| answers[at] = found_before(old));
            }
            answers
        }))
    }

    fn list(&self, plan: &Plan) -> Result<Answer<Box<dyn Source>>> {
        let ((loose, file), back) = self.whole(|| {
            let (loose, file) = (self.walk(plan)?, self.packed()?);
            let packed = (!loose.is_empty()).then(|| Arc::clone(&file));
            Ok(Seen { value: (loose, file), packed })
        })?;
        let loose = set_back(loose, back, plan);
        // A repository that was converted to reftable has files that look like those of an empty one.
        let needs_revalidation = !file.exists();
        let source = FilesSource::new(&self.backend, &self.counters, file, loose);
        Ok(Answer::new(Box::new(source), needs_revalidation))
    }

    fn pointing_at(&self, ids: &[ObjectId], most: usize, objects: &dyn ObjectCheck) -> Result<Answer<Pointing>> {
        self.find_pointing_at(ids, most, objects)
    }

    fn look_for_broken(&self) -> Result<()> {
        let everything = Plan { ranges: vec![Range::everything()], root_refs: true };
        self.walk(&everything).map(drop)
    }

    fn questionable(&self, disk: &Store) -> Result<Vec<BString>> {
        self.questionable_names(disk)
    }

    fn sequence(&self) -> u64 {
        self.knowledge.changes.load(Ordering::Relaxed)
    }

    fn owner(&self) -> u64 {
        self.owner
    }

    fn in_flight(&self) -> Option<&Arc<InFlightBatches>> {
        Some(&self.in_flight)
    }

    fn invalidate(&self) {
        self.knowledge.epoch.fetch_add(1, Ordering::Release);
    }

    fn wrote(&self) {
        count(&self.knowledge.changes, 1);
        self.invalidate();
        self.in_flight.wrote();
    }

    fn bytes(&self) -> usize {
        let tips = self.held_tips();
        self.backend.loaded_bytes() + tips.as_ref().map_or(0, |tips| tips.bytes()) + self.folders().bytes()
    }

    fn release(&self, part: Part) {
        match part {
            Part::Text => return self.backend.shed_text(),
            Part::PagesOf(bytes) => return self.backend.shed_pages(bytes),
            Part::Pages => return self.backend.shed(),
            Part::All => self.backend.shed(),
        }
        *self.held_tips() = None;
        *self.folders() = Folders::new(&self.memory.pages);
    }
}

impl Known {
    fn answer(&self) -> Option<Found> {
        debug_assert!(self.loose.is_none() || self.kept.is_none(), "behind a loose ref nothing is looked up");
        match &self.loose {
            Some(Loose { target, .. }) => Some(Found::loose(target.clone())),
            None => self.kept.clone(),
        }
    }
}

/// The answer for a ref that an in-flight batch is changing.
fn found_before(old: Option<ObjectId>) -> Option<Found> {
    old.map(|id| Found::loose(Target::Direct(id)))
}

fn look_up(file: &PackedFile, name: &BStr, has_read: &mut bool) -> Result<Option<Found>> {
    let found = file.packed.look_up(name, has_read)?;
    Ok(found.map(|(id, peeled)| Found {
        target: Target::Direct(id),
        peeled,
        storage: Storage::Packed,
        update_index: 0,
    }))
}
