mod reflogs;
#[cfg(test)]
pub(crate) mod tests;
mod warnings;

use crate::{
    Batch, Error, Found, ListOptions, Listing, Outcome, Resolved, Result, Stats, ViewSettings,
    answer::Answer,
    batch::{Agreement, Noting, beyond_global, commit_agreed_in, commit_in, commit_settling_in},
    broken::{is_broken, unless_broken},
    group,
    memory::ClosedCharge,
    open_views::Slot,
    opened::Opened,
    plan::Plan,
    process::Process,
    stats::{Counters, count},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{
    BrokenRef, Environment, Reading, RefFormat, RefName, Repository, Store, Target,
    backend::{OptimizeOptions, Optimized},
    global::{Arbiter, GlobalIntent},
};
use refdb_types::{HashKind, ObjectId, SYMREF_DEPTH_MAX, is_safe};
use refdb_vfs::{AskingOnce, Storage, again_if_lost};
use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
};

/// The number of attempts to answer one query while the repository is replaced again and again.
const ATTEMPTS_MAX: usize = 5;

/// Bytes that a view takes while it has nothing open, besides its path: itself, its settings and its counters.
const CLOSED_BYTES: usize = 1 << 10;

/// One repository's refs, shared by all threads of the process.
///
/// Names are full refnames as the main worktree sees them. A name is answered with `None` if it has an empty, `.` or
/// `..` component, or if it neither begins with `refs/` nor consists of upper-case letters and underscores.
///
/// # Freshness
///
/// Every look-up and every listing checks the disk as the [`TrustSettings`](crate::TrustSettings) demand, so that its
/// answer is at least as new as the moment at which the query began. Only with
/// [`TrustSettings::believe`](crate::TrustSettings::believe) may the answer be older, by that duration at most. Changes
/// made through any view of this process are seen at once even then.
///
/// # Blocking
///
/// Queries read files and may wait for the disk, but not for the locks of writers; on a network file system, a query
/// that finds a file missing beside its lock file looks for it again for about 0.1 s. If several threads need a
/// packed-refs or a list of tables that has changed, one reads the file while the others wait. [`commit`](Self::commit)
/// and [`optimize`](Self::optimize) wait for locks that others hold, as long as the repository's configuration says
/// (`core.filesRefLockTimeout`, `core.packedRefsTimeout`, `reftable.lockTimeout`); batches that are written together
/// share one such wait.
///
/// # Errors
///
/// A method that returns a [`Result`] may fail with [`Error::Gone`] if the repository was removed, with
/// [`Error::Restless`] if it changes too fast, with [`Error::Repository`] if it cannot be opened, and with
/// [`Error::Store`] if a file cannot be read or is corrupt. Further failures are listed at each method.
///
/// # Closing
///
/// A view may be closed when others need its memory or its files. The next query opens it again, with empty caches.
pub struct View {
    git_dir: PathBuf,
    settings: ViewSettings,
    process: Arc<Process>,
    slot: Arc<Slot>,
    /// Held while the repository is opened, so that one thread does it.
    opening: Mutex<()>,
    counters: Arc<Counters>,
    /// A number that no other view of the process has.
    number: u64,
    _charge: ClosedCharge,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("git_dir", &self.git_dir).field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl View {
    pub(crate) fn open(git_dir: &Path, settings: ViewSettings, process: &Arc<Process>) -> Result<Self> {
        let view = View {
            git_dir: git_dir.to_owned(),
            settings,
            process: Arc::clone(process),
            slot: Arc::default(),
            opening: Mutex::default(),
            counters: Arc::default(),
            number: process.memory.owner(),
            _charge: process.memory.charge_closed(CLOSED_BYTES + 2 * git_dir.as_os_str().len()),
        };
        view.opened()?;
        Ok(view)
    }

    /// The path of the repository's folder, as it was given to [`Views::open`](crate::Views::open).
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The format in which the repository kept its refs when a query last looked. This method looks itself only if the
    /// view does not have the repository open.
    pub fn format(&self) -> Result<RefFormat> {
        Ok(self.opened()?.store.repository().ref_format())
    }

    /// Lines for people about the repository's mount and what it means for refs. `None` if its file system is local.
    ///
    /// # Errors
    ///
    /// Fails also if the file system cannot be examined.
    pub fn shared_storage(&self) -> Result<Option<String>> {
        let storage = Storage::of(self.opened()?.store.repository().common_dir()).map_err(refdb::Error::from)?;
        Ok((!storage.is_local).then(|| storage.to_string()))
    }

    /// The reason why the repository's mount keeps refs from being written; `None` if they are written. See
    /// [`refdb::Store::check_storage`].
    ///
    /// # Errors
    ///
    /// Those that are listed at [`View`]. A mount that cannot be examined is no error, and counts as unsafe unless its
    /// file system is known to be none of NFS, SMB and FUSE.
    pub fn storage_fault(&self) -> Result<Option<String>> {
        match self.opened()?.store.check_storage() {
            Ok(()) => Ok(None),
            Err(fault @ refdb::Error::Misuse(refdb::Misuse::UnsafeStorage { .. })) => Ok(Some(fault.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// The hash function of the repository's object ids when a query last looked, like [`format`](Self::format).
    pub fn hash(&self) -> Result<HashKind> {
        Ok(self.opened()?.store.hash())
    }

    /// Looks up one ref without following symbolic refs; `None` if there is no such ref.
    ///
    /// # Errors
    ///
    /// Fails if the ref's own file is corrupt, or cannot be read for a lasting reason such as its permissions;
    /// [`Error::broken_ref`] recognizes this error, which names the file. In reftables, a symbolic ref that leads to a
    /// name that no ref can have is [`refdb::Error::BadTarget`] instead.
    pub fn get(&self, name: &BStr) -> Result<Option<Found>> {
        if !is_safe(name) {
            return Ok(None);
        }
        self.ask(|opened| opened.reader.get(&opened.store, name))
    }

    /// Looks up several refs without following symbolic refs, and returns them in the order of `names`.
    ///
    /// Files that all refs share (packed-refs, the list of tables) are checked for all names together. A transaction
    /// that is written to packed-refs or to one stack of reftables, and a small batch of this process, is seen whole or
    /// not at all, unless packed-refs is replaced again and again meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if one of the refs is broken; see [`get`](Self::get).
    pub fn get_many(&self, names: &[&BStr]) -> Result<Vec<Option<Found>>> {
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.retain(|at| is_safe(names[*at]));
        order.sort_unstable_by_key(|at| names[*at]);
        let sorted: Vec<&BStr> = order.iter().map(|at| names[*at]).collect();
        let answers = self.ask(|opened| opened.reader.get_many(&opened.store, &sorted))?;
        assert_eq!(answers.len(), order.len(), "each name has its own answer");
        let mut found = vec![None; names.len()];
        for (at, answer) in order.into_iter().zip(answers) {
            found[at] = answer;
        }
        Ok(found)
    }

    /// Follows symbolic refs from `name`. A chain of more than five, which is JGit's limit, leads to no ref. Git
    /// follows four.
    ///
    /// # Errors
    ///
    /// Fails if `name` itself is broken, and with [`refdb::Error::BadTarget`] like [`get`](Self::get). A symbolic ref
    /// that leads to a broken ref counts as leading to no ref, because the caller did not ask for the broken one.
    pub fn resolve(&self, name: &BStr) -> Result<Resolved> {
        let found = self.get(name)?;
        self.resolve_from(name, found)
    }

    /// Follows symbolic refs from each of these names, and returns the results in the order of the names.
    ///
    /// # Errors
    ///
    /// A broken ref counts as missing. The first broken ref is returned as an error only if none of the names has an
    /// intact ref.
    pub fn resolve_many(&self, names: &[&BStr]) -> Result<Vec<Resolved>> {
        let found = self.get_many(names);
        let found = if is_broken(&found) { self.get_whole(names)? } else { found? };
        names.iter().zip(found).map(|(name, found)| self.resolve_from(name, found)).collect()
    }

    /// Looks up each ref separately, so that broken ones do not keep the others from being found.
    fn get_whole(&self, names: &[&BStr]) -> Result<Vec<Option<Found>>> {
        let mut broken = None;
        let found: Vec<_> =
            names.iter().map(|name| unless_broken(self.get(name), &mut broken)).collect::<Result<_>>()?;
        if found.iter().any(Option::is_some) { Ok(found) } else { broken.map_or(Ok(found), Err) }
    }

    /// Follows symbolic refs from `name`, whose own value is `found`.
    fn resolve_from(&self, name: &BStr, mut found: Option<Found>) -> Result<Resolved> {
        let mut resolved = Resolved { links: Vec::new(), name: name.to_owned(), found: None };
        for _ in 0..=SYMREF_DEPTH_MAX {
            let Some(Found { target: Target::Symbolic(next), .. }) = &found else {
                resolved.found = found;
                break;
            };
            let link = std::mem::replace(&mut resolved.name, next.as_bstr().to_owned());
            resolved.links.extend(RefName::new_safe(link));
            let next = self.get(resolved.name.as_bstr());
            found = if is_broken(&next) { None } else { next? };
        }
        Ok(resolved)
    }

    /// Lists the refs that `options` select, in order of name. Broken loose refs are left out; see
    /// [`broken`](Self::broken). A symbolic ref in a reftable is listed even if it leads to a name that no ref can have.
    pub fn list(&self, options: &ListOptions) -> Result<Listing> {
        let plan = Plan::of(options);
        self.ask(|opened| {
            opened.reader.list(&plan)?.try_map(|source| {
                let mut listing = Listing::new(plan.clone(), source, opened.reader.owner());
                if opened.asks_server() {
                    listing.look_ahead()?;
                }
                Ok(listing)
            })
        })
    }

    /// Returns whether there is any ref below `refs/`, not counting broken loose refs.
    pub fn has_refs(&self) -> Result<bool> {
        Ok(self.list(&ListOptions::default())?.next()?.is_some())
    }

    /// The existing refs that keep `name` from being created, because they are parent folders of it or lie below it.
    /// Broken refs, as far as [`broken`](Self::broken) would return them, are among them, since their files are in the
    /// way.
    pub fn conflicting(&self, name: &BStr) -> Result<Vec<BString>> {
        let mut conflicting = Vec::new();
        for slash in name.find_iter(b"/") {
            let parent = name[..slash].as_bstr();
            let found = self.get(parent);
            if parent.contains(&b'/') && (is_broken(&found) || found?.is_some()) {
                conflicting.push(parent.to_owned());
            }
        }
        let below = BString::from([name.as_bytes(), b"/"].concat());
        let options = ListOptions { prefixes: vec![below.clone()], ..ListOptions::default() };
        conflicting.extend(again_if_lost(ATTEMPTS_MAX, Error::is_stale, || self.names(&options))?);
        conflicting.extend(self.counters.broken.below(&below).into_iter().map(|broken| broken.name));
        Ok(conflicting)
    }

    fn names(&self, options: &ListOptions) -> Result<Vec<BString>> {
        let (mut listing, mut names) = (self.list(options)?, Vec::new());
        while let Some(row) = listing.next()? {
            names.push(row.name.to_owned());
        }
        Ok(names)
    }

    /// The broken loose refs, which listings leave out, and the folders of refs that cannot be read; a thousand at
    /// most. Checks all loose refs.
    pub fn broken(&self) -> Result<Vec<BrokenRef>> {
        self.ask(|opened| opened.reader.look_for_broken().map(Answer::Validated))?;
        Ok(self.counters.broken.below(b""))
    }

    /// The names, in order, of the refs below `refs/` that point at the object, directly or through an annotated tag.
    ///
    /// In a repository with files, a tag is followed from a ref outside `refs/tags/` only if packed-refs has the peeled
    /// object, and a call reads all of packed-refs unless an earlier one has left an index that is still current.
    pub fn pointing_at(&self, id: &ObjectId) -> Result<Vec<BString>> {
        let mut found = self.pointing_at_each(std::slice::from_ref(id))?;
        Ok(found.remove(id).unwrap_or_default())
    }

    /// The names, in order, of the refs below `refs/` that point at each of these objects, as
    /// [`pointing_at`](Self::pointing_at) finds them, and as consistent as those of a [`Listing`]. An object without a
    /// ref has an empty entry. The files of loose refs are read for all objects together.
    pub fn pointing_at_each(&self, ids: &[ObjectId]) -> Result<BTreeMap<ObjectId, Vec<BString>>> {
        self.few_pointing_at_each(ids, usize::MAX)
    }

    /// Returns what [`pointing_at_each`](Self::pointing_at_each) does, except that an object with very many refs has no
    /// entry, so that it costs little time and memory: one at which more than `most` refs in packed-refs or in one
    /// reftable point, those with a newer value elsewhere included. Each other object has an entry, which is empty if
    /// no ref points at it.
    pub fn few_pointing_at_each(&self, ids: &[ObjectId], most: usize) -> Result<BTreeMap<ObjectId, Vec<BString>>> {
        self.ask(|opened| opened.reader.pointing_at(ids, most, opened.store.context().objects))
    }

    /// Applies the edits of a batch in one transaction. The next look-up by any thread sees them.
    ///
    /// # Durability
    ///
    /// On return the edits are on stable storage if [`ViewSettings::sync`](crate::ViewSettings::sync) says so, and
    /// survive a loss of power. In reftables without a reference-transaction hook, batches that several threads commit
    /// at the same time are usually written and synced as one addition, unless they change the same or conflicting
    /// refs.
    ///
    /// # Atomicity
    ///
    /// An atomic batch ([`Batch::atomic`]) is rejected as a whole or applied. In reftables it is applied by one rename
    /// for each stack that it changes: by one alone, unless it changes refs of linked worktrees. Among files, an I/O
    /// error or the death of the process during the commit can leave some refs changed, except for those that
    /// [`atomic_visibility`](refdb::TransactionOptions::atomic_visibility) covers, if the batch's options set it.
    ///
    /// # Errors
    ///
    /// A rejected atomic batch fails with [`refdb::Error::Rejected`]; the rejections of other batches are in the
    /// [`Outcome`]. If others hold the lock of packed-refs or of a stack, a hook refuses, or an I/O error occurs,
    /// the batch ends; nothing of it is applied, except as said above or by the error. Among files, an edit of a ref
    /// that others have locked is rejected like any other. After [`Error::Abandoned`], whether the batch was applied is
    /// not known.
    pub fn commit(&self, batch: &Batch) -> Result<Outcome> {
        // What is read before the refs are locked may be as old as this call, so the server of a network file system is
        // not asked again about folders about which the check of the repository has asked it.
        let _asking = AskingOnce::afresh();
        self.commit_by(batch, &|| true, &mut |opened| commit(opened, batch))
    }

    /// Applies the edits of a batch if the global ref database, for which `arbiter` speaks, agrees. The database is
    /// asked while the refs are locked. Batches that are written together ask at the same time, each in its own thread.
    ///
    /// # Errors
    ///
    /// As for [`commit`](Self::commit). In addition [`refdb::Error::Undecided`] says why the database has not agreed.
    pub fn commit_agreed(&self, batch: &Batch, arbiter: &mut dyn Arbiter) -> Result<Outcome> {
        let has_begun = Cell::new(false);
        let mut arbiter = Noting { arbiter, has_begun: &has_begun };
        // Once the database was asked, only the caller may repeat the batch.
        self.commit_by(batch, &|| !has_begun.get(), &mut |opened| commit_agreed(opened, batch, &mut arbiter))
    }

    /// The intents that transactions recorded before they asked the global ref database and that are not settled yet,
    /// with their ids.
    pub fn global_intents(&self) -> Result<Vec<(String, GlobalIntent)>> {
        Ok(self.same()?.store.global_intents().list()?)
    }

    /// Removes a settled intent by its id.
    pub fn remove_global_intent(&self, id: &str) -> Result<()> {
        Ok(self.same()?.store.global_intents().remove(id)?)
    }

    fn commit_by(
        &self,
        batch: &Batch,
        may_repeat: &dyn Fn() -> bool,
        commit: &mut dyn FnMut(&Opened) -> Result<Outcome>,
    ) -> Result<Outcome> {
        let mut opened = self.same()?;
        let mut outcome = commit(&opened);
        // If the repository was converted or replaced between the check and the lock, nothing was written, and the
        // batch is repeated.
        if outcome.as_ref().is_err_and(|error| !error.is_refusal() && !error.may_be_applied())
            && may_repeat()
            && !opened.is_same()?
        {
            opened = self.reopen(Some(&opened))?;
            outcome = commit(&opened);
        }
        let may_have_written = match &outcome {
            Ok(outcome) => outcome.rejected.len() < batch.edits.len(),
            Err(error) => error.may_be_applied(),
        };
        self.tell(&opened, |opened| match may_have_written {
            true => opened.reader.wrote(),
            // A stale cache may have caused the error or the rejections.
            false => opened.reader.invalidate(),
        });
        match &outcome {
            Ok(outcome) => {
                debug_assert!(outcome.rejected.len() <= batch.edits.len(), "an edit is rejected once");
                debug_assert!(outcome.group > 0, "a batch is one of its group");
                self.process.background_packer.wrote(&opened, batch.edits.len() - outcome.rejected.len());
                count(&self.counters.commits, 1);
                count(&self.counters.groups, u64::from(outcome.leads));
                self.counters.largest_group.fetch_max(outcome.group as u64, Relaxed);
                count(&self.counters.rejections, outcome.rejected.len() as u64);
            }
            Err(error) if error.is_refusal() => count(&self.counters.rejections, 1),
            Err(error) if error.is_want_of_room() => self.process.background_packer.make_room(&opened),
            Err(_) => {}
        }
        outcome
    }

    /// Packs loose refs or compacts reftables, as `options` say, so that refs are read faster. This may take as long as
    /// reading and writing all refs.
    pub fn optimize(&self, options: &OptimizeOptions) -> Result<Optimized> {
        let opened = self.same()?;
        let done = opened.store.optimize(options);
        self.tell(&opened, |opened| opened.reader.invalidate());
        Ok(done?)
    }

    /// Notifies the repository that was open when it was written to, and the one that is open now, because the view
    /// may have been closed and opened again meanwhile. A repository that is opened later uses no value from before the
    /// write without checking it.
    fn tell(&self, opened: &Arc<Opened>, word: impl Fn(&Opened)) {
        word(opened);
        if let Some(present) = self.slot.get().filter(|present| !Arc::ptr_eq(present, opened)) {
            word(&present);
        }
    }

    /// Makes the next query check the disk, whatever the trust settings allow: for a message from another server that
    /// the refs have changed. A wrong message costs a check of the disk and nothing else.
    pub fn invalidate(&self) {
        if let Some(opened) = self.slot.get() {
            opened.reader.invalidate();
        }
    }

    /// Drops all caches of this repository and opens it again.
    pub fn flush(&self) -> Result<()> {
        let old = self.slot.get();
        self.replace(old.as_ref(), |_| {}).map(drop)
    }

    /// A number that grows whenever the view changes refs or finds that they differ from what it remembers, and when a
    /// change may have been missed because the view was closed. Does not touch the disk. The number has no meaning in
    /// another process.
    pub fn version(&self) -> u64 {
        const SEQUENCE_BITS: u32 = 40;
        let (before, sequence) = self.slot.numbers();
        debug_assert!(sequence >> SEQUENCE_BITS == 0, "a sequence has its own bits: {sequence}");
        debug_assert!(before << SEQUENCE_BITS >> SEQUENCE_BITS == before, "so has what was open before: {before}");
        before << SEQUENCE_BITS | sequence
    }

    /// Counters of what the view has done so far, and the memory that it holds. Does not touch the disk.
    pub fn stats(&self) -> Stats {
        self.counters.read(self.number, self.slot.get().map_or(0, |opened| opened.bytes() as u64))
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The names for which the caches may differ from `disk`.
    pub(crate) fn questionable(&self, disk: &Store) -> Result<Vec<BString>> {
        self.slot.get().map_or(Ok(Vec::new()), |opened| opened.reader.questionable(disk))
    }

    /// A number that grows whenever a small batch begins or ends, and whenever a view of this repository has written
    /// files in another way. It is 0 for reftables, and while this view is closed. `None` while a small batch is
    /// changing the ref `name`.
    pub(crate) fn batch_steps(&self, name: &BStr) -> Option<u64> {
        let opened = self.slot.get();
        let Some(in_flight) = opened.as_ref().and_then(|opened| opened.reader.in_flight()) else { return Some(0) };
        if in_flight.before(name).is_some() { None } else { Some(in_flight.steps()) }
    }

    /// A store that shares no cache with this view.
    pub(crate) fn disk(&self) -> Result<Store> {
        let fs = self.process.open_views.fs().clone();
        let environment = Environment::empty(&self.git_dir).with("GIT_DIR", &self.git_dir);
        let repository = Repository::entered(&fs, &environment, &self.git_dir)?;
        const BLOCKS_BYTES: usize = 1 << 20;
        Ok(Store::builder_of(repository, environment).fs(fs).reading(Reading::Cached(BLOCKS_BYTES)).open()?)
    }

    fn opened(&self) -> Result<Arc<Opened>> {
        match self.slot.get() {
            Some(opened) => Ok(opened),
            None => self.reopen(None),
        }
    }

    /// The open repository. It is opened again if the folder holds another one by now.
    fn same(&self) -> Result<Arc<Opened>> {
        self.be_used();
        let mut opened = self.opened()?;
        for _ in 0..ATTEMPTS_MAX {
            if opened.is_same()? {
                return Ok(opened);
            }
            opened = self.reopen(Some(&opened))?;
        }
        Err(Error::Restless(self.git_dir.clone()))
    }

    /// Marks the view as just used, and closes others or releases memory if limits are exceeded.
    fn be_used(&self) {
        let open_views = &self.process.open_views;
        self.slot.touch(open_views.clock());
        if open_views.is_crowded() {
            open_views.make_room(&self.slot);
        }
        if self.process.memory.is_over() {
            self.process.trim(&self.slot);
        }
    }

    /// Answers a query, and repeats it if the repository, or a file that was being read, was replaced meanwhile. An
    /// error of the query itself is returned only if the repository is still the same.
    fn ask<T>(&self, question: impl Fn(&Opened) -> Result<Answer<T>>) -> Result<T> {
        self.be_used();
        let mut opened = self.opened()?;
        for attempts_left in (0..ATTEMPTS_MAX).rev() {
            match question(&opened) {
                Ok(Answer::Validated(answer)) => return Ok(answer),
                Ok(Answer::NeedsRevalidation(answer)) if opened.is_same()? => return Ok(answer),
                // A file was replaced while it was read; another attempt finds what replaced it.
                Err(error) if error.is_stale() && attempts_left > 0 => {}
                Err(error) if opened.is_same()? => return Err(error),
                _ => opened = self.reopen(Some(&opened))?,
            }
        }
        Err(Error::Restless(self.git_dir.clone()))
    }

    /// Opens the repository, unless another thread has done so since `old` was open. The new one follows `old`; see
    /// [`Opened::follow`].
    fn reopen(&self, old: Option<&Arc<Opened>>) -> Result<Arc<Opened>> {
        self.replace(old, |fresh| {
            if let Some(old) = old {
                fresh.follow(old);
            }
        })
    }

    fn replace(&self, old: Option<&Arc<Opened>>, prepare: impl Fn(&mut Opened)) -> Result<Arc<Opened>> {
        let _one_at_a_time = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.slot.get();
        if let Some(present) = present.filter(|present| old.is_none_or(|old| !Arc::ptr_eq(present, old))) {
            return Ok(present);
        }
        let Process { memory, open_views, in_flight, .. } = &*self.process;
        let mut fresh =
            Opened::open(&self.git_dir, &self.settings, open_views.fs(), memory, in_flight, &self.counters)?;
        prepare(&mut fresh);
        let fresh = Arc::new(fresh);
        self.process.open_views.open(&self.slot, Arc::clone(&fresh));
        // Without `old`, the view was not open yet, or was closed to make room for others: no repository was replaced.
        count(&self.counters.reopens, u64::from(old.is_some()));
        Ok(fresh)
    }
}

fn commit(opened: &Opened, batch: &Batch) -> Result<Outcome> {
    match &batch.agreement {
        Agreement::Settles(id) => commit_settling_in(&opened.store, batch, id),
        Agreement::Agreed => commit_in(beyond_global(opened.store.context()), batch),
        Agreement::Unknown if group::can_be_grouped(&opened.store, batch)? => {
            opened.groups.commit(&opened.store, batch, None)
        }
        Agreement::Unknown => commit_in(opened.store.context(), batch),
    }
}

fn commit_agreed(opened: &Opened, batch: &Batch, arbiter: &mut dyn Arbiter) -> Result<Outcome> {
    if group::can_be_grouped(&opened.store, batch)? {
        opened.groups.commit(&opened.store, batch, Some(arbiter))
    } else {
        commit_agreed_in(&opened.store, batch, arbiter)
    }
}
