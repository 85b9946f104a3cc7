//! A transaction of the files backend: it locks, stages and commits.

use super::{
    batch::{self, journal_file::JournalFile},
    lock::{
        publish,
        set::{self, Held, Locks},
        stale,
    },
    loose::{self, folders, listing::Rivals},
    nested::{self, SetAside},
    packed::cache::PackedFile,
    packing::{
        bulk,
        write::{self, NewPacked, PackedEdit},
    },
    reflog,
    snapshot::FilesSnapshot,
    store::Store,
    strategy::{self, WritePlan, WriteStrategy},
};
use crate::{
    Error, Locked, Rejection, RejectionReason, Result, Snapshot, Step, TargetView,
    backend::{Claims, NewValue, Standing, Steps},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::ObjectId;
use refdb_vfs::{EntryKind, File};
use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Folders that no ref replaces, even if they contain no file. With a file in such a place, git would not recognise the
/// repository, or could not write reflogs.
const KEPT_FOLDERS: [&str; 3] = ["logs", "objects", "refs"];

/// A transaction on the files backend that holds its locks.
pub(super) struct FilesLocked {
    store: Arc<Store>,
    // Declared before the locks, so that a new packed-refs is removed while they are still held.
    staged: Option<NewPacked>,
    locks: Locks,
    /// The journal file of a small batch. The locks are links to it.
    journal_file: Option<JournalFile>,
    /// The new contents of a small batch, which are not synced yet.
    unsynced: Vec<File>,
    strategy: WriteStrategy,
    atomic_visibility: bool,
    refused: Vec<(usize, RejectionReason)>,
    snapshot: FilesSnapshot,
    /// packed-refs as it was before the new values were put into it. It is restored if another writer has, or may have,
    /// committed a conflicting ref.
    before: Option<Arc<PackedFile>>,
    /// Whether packed-refs has its new values.
    has_new_packed: bool,
    /// The claims whose loose files have their new values.
    renamed: BTreeSet<usize>,
    /// Refs whose loose values were moved into packed-refs.
    cleared: Vec<BString>,
    /// The claims that stay loose in bulk, because a symbolic link gives their files a second name.
    through_links: BTreeSet<usize>,
    /// Whether folders that were searched contain files of others, by the names of the folders. Without this, the
    /// folders of many names, each below the one before, would be searched once for each of the names.
    searched: Mutex<HashMap<BString, bool>>,
}

impl FilesLocked {
    pub(super) fn lock(store: &Arc<Store>, claims: &dyn Claims) -> Result<Self> {
        store.check_storage()?;
        if claims.atomic_visibility() {
            nested::pack_outer(store, claims)?;
        }
        let mut plan = WritePlan::of(claims, store.packed_len_bytes()?, &store.options);
        let mut journal_file = None;
        let (locks, refused, through_links) = loop {
            if plan.strategy == WriteStrategy::Batch && journal_file.is_none() {
                journal_file = JournalFile::take(store)?;
                if journal_file.is_none() {
                    plan = plan.through_packed_refs();
                }
            }
            let path = journal_file.as_ref().filter(|_| plan.strategy == WriteStrategy::Batch).map(JournalFile::path);
            let Some((locks, refused)) = set::lock(store, claims, plan, path)? else {
                plan = plan.through_packed_refs();
                continue;
            };
            store.check_format()?;
            let through_links = match plan.strategy {
                WriteStrategy::Bulk | WriteStrategy::Batch => {
                    bulk::through_links(store, claims.iter().map(|claim| claim.name))?
                }
                WriteStrategy::Loose => BTreeSet::new(),
            };
            if plan.strategy == WriteStrategy::Batch && !through_links.is_empty() {
                plan = plan.through_packed_refs();
                continue;
            }
            break (locks, refused, through_links);
        };
        Ok(FilesLocked {
            store: Arc::clone(store),
            staged: None,
            locks,
            journal_file: journal_file.filter(|_| plan.strategy == WriteStrategy::Batch),
            unsynced: Vec::new(),
            strategy: plan.strategy,
            atomic_visibility: plan.atomic_visibility,
            refused,
            snapshot: FilesSnapshot::new(Arc::clone(store), Rivals::LockedOut),
            before: None,
            has_new_packed: false,
            renamed: BTreeSet::new(),
            cleared: Vec::new(),
            through_links,
            searched: Mutex::default(),
        })
    }

    /// Pairs each step with the position of its claim.
    fn claimed<'a>(&self, steps: &'a dyn Steps) -> Vec<(usize, Step<'a>)> {
        let mut claim = 0;
        steps
            .iter()
            .map(|step| {
                while claim < self.locks.count() && self.locks.name(claim) < step.name {
                    claim += 1;
                }
                assert!(
                    claim < self.locks.count() && self.locks.name(claim) == step.name,
                    "ref '{}' is changed without being claimed, or out of order",
                    step.name
                );
                assert!(self.locks.held(claim) != Held::No, "ref '{}' is changed without its lock", step.name);
                (claim, step)
            })
            .collect()
    }

    /// Returns whether the step's value goes to packed-refs. A symbolic value cannot, and neither can the value of a
    /// ref whose loose file is a symbolic ref or broken, because that file stays and would outrank the packed value,
    /// nor that of a ref to which a symbolic link gives a second name, under which the packed value would be missing.
    fn is_packed_put(&self, claim: usize, step: &Step<'_>) -> bool {
        self.strategy == WriteStrategy::Bulk
            && matches!(self.locks.held(claim), Held::Linked(_))
            && !self.through_links.contains(&claim)
            && matches!(step.new, Some(NewValue::Direct(..)))
            && !matches!(step.old, Some(TargetView::Symbolic(_)))
            && !step.is_broken
    }

    /// Writes a loose ref's new content beside the present file, under the ref's lock.
    fn stage_loose(&mut self, claim: usize, step: &Step<'_>, value: TargetView<'_>) -> Result<()> {
        let options = &self.store.options;
        let Some(path) = self.store.layout.ref_path(step.name) else { return Ok(()) };
        // A ref that is only packed may have a folder in its place. That is checked here, before other refs change.
        let may_be_blocked = step.old.is_none() || options.fs.is_folder_itself(&path)?;
        if may_be_blocked && !self.has_room(step.name, &path)? {
            return Err(Rejection::of_claim(step.name, RejectionReason::Folder { path }));
        }
        let mut content = Vec::with_capacity(options.hash.len_hex() + 1);
        loose::encode(value, &mut content);
        debug_assert!(
            matches!(value, TargetView::Symbolic(_))
                || loose::parse(options.hash, &content).is_ok_and(|read| TargetView::from(read) == value),
            "a loose ref is read as it was written: {value:?}"
        );
        let Some(lock) = self.locks.guard(claim) else { return Ok(()) };
        let file = lock.content()?;
        file.write_all(&content)?;
        let is_synced_later = options.sync && self.strategy == WriteStrategy::Batch;
        match options.sync {
            true if is_synced_later => {}
            true => file.sync()?,
            false => options.fs.deliver(file)?,
        }
        let file = lock.take_content();
        self.unsynced.extend(file.filter(|_| is_synced_later));
        folders::share(&options.fs, &lock.content_path(), options.sharing, false)?;
        Ok(())
    }

    /// Makes room for a ref's file: removes empty folders, and locks whose owners are gone. Returns `false` if
    /// something else is in the way.
    fn has_room(&self, name: &BStr, path: &Path) -> Result<bool> {
        if KEPT_FOLDERS.iter().any(|kept| name == *kept) {
            return Ok(!is_folder(&self.store, path));
        }
        let fs = &self.store.options.fs;
        if fs.remove_empty_tree(path)? || !is_folder(&self.store, path) {
            return Ok(true);
        }
        stale::clear_below(fs, path)?;
        Ok(fs.remove_empty_tree(path)?)
    }

    /// Returns whether the step is a deletion that must become visible together with the new packed-refs if the ref
    /// holds an object.
    fn is_packed_removal(&self, claim: usize, step: &Step<'_>) -> bool {
        self.atomic_visibility
            && matches!(step.new, Some(NewValue::Deleted))
            && strategy::is_packed_name(step.name)
            && !self.through_links.contains(&claim)
    }

    /// Moves the loose values of refs that will change in packed-refs into packed-refs, so that no loose file hides a
    /// new value.
    fn clear_loose(&mut self, claimed: &[(usize, Step<'_>)]) -> Result<()> {
        assert!(self.locks.holds_packed(), "packed-refs is replaced under its lock");
        let is_packed = |claim, step: &Step<'_>| self.is_packed_put(claim, step) || self.is_packed_removal(claim, step);
        let puts = claimed.iter().filter(|(claim, step)| is_packed(*claim, step));
        let (names, values): (Vec<&BStr>, Vec<Option<ObjectId>>) =
            puts.filter_map(|(_, step)| bulk::direct(step.old).map(|id| (step.name, Some(id)))).unzip();
        let loose: Vec<(&BStr, ObjectId)> = bulk::with_loose_file(&self.store, &names)?
            .into_iter()
            .filter_map(|at| values[at].map(|id| (names[at], id)))
            .collect();
        if loose.is_empty() {
            return Ok(());
        }
        bulk::pack_old_values(&self.store, &*self.store.packed()?, &loose)?;
        self.cleared = loose.into_iter().map(|(name, _)| name.to_owned()).collect();
        Ok(())
    }

    /// Writes the new packed-refs beside the old one, if it changes.
    fn stage_packed(&mut self, claimed: &[(usize, Step<'_>)]) -> Result<()> {
        assert!(self.locks.holds_packed(), "packed-refs is read again under its lock");
        let old = self.store.packed()?;
        let mut position = old.packed.start();
        let mut edits = Vec::new();
        for (claim, step) in claimed {
            match step.new {
                Some(NewValue::Deleted) if bulk::is_packed(&old, &mut position, step.name)? => {
                    edits.push(PackedEdit::Remove(step.name));
                }
                Some(NewValue::Direct(id, peeled)) if self.is_packed_put(*claim, step) => {
                    edits.push(PackedEdit::Put(step.name, id, peeled));
                }
                _ => {}
            }
        }
        if refdb_vfs::planted("refdb-packed") {
            edits.reverse();
        }
        if !edits.is_empty() {
            self.staged = Some(write::rewrite(&self.store, &old, &mut edits.into_iter())?);
        }
        self.before = Some(old);
        Ok(())
    }

    /// Replaces packed-refs, and makes sure that no other writer has committed a ref whose name conflicts with a new
    /// one. If one has or may still do so, or if that cannot be found out, puts the old packed-refs back and fails.
    fn publish_packed(&mut self, claimed: &[(usize, Step<'_>)]) -> Result<()> {
        let Some(mut new) = self.staged.take() else { return Ok(()) };
        assert!(self.locks.holds_packed(), "packed-refs is replaced under its lock");
        new.rename()?;
        self.has_new_packed = true;
        new.sync_name()?;
        let puts = claimed.iter().filter(|(claim, step)| self.is_packed_put(*claim, step));
        let names: Vec<&BStr> = puts.filter(|(_, step)| step.old.is_none()).map(|(_, step)| step.name).collect();
        if names.is_empty() {
            return Ok(());
        }
        let error = match bulk::find_rival(&self.store, &self.locks, &names) {
            Ok(None) => return Ok(()),
            Ok(Some(rival)) => {
                let why = RejectionReason::Conflict { with: rival.theirs, is_new: false, prevents_lock: true };
                Rejection::of_claim(rival.ours.as_bstr(), why)
            }
            Err(error) => error,
        };
        if let Some(before) = &self.before {
            match write::restore(&self.store, before)? {
                Some(mut old) => {
                    old.rename()?;
                    self.has_new_packed = false;
                    old.sync_name()?;
                }
                None => {
                    self.store.options.fs.remove_existing(&self.store.packed_target()?)?;
                    self.has_new_packed = false;
                    new.sync_name()?;
                }
            }
        }
        Err(error)
    }

    /// Reads the reflogs that refs take over from other refs in renames, before the old ones are removed. Leaves out a
    /// rename of a ref to a name below or above its own, whose reflog [`nested::move_logs`] moves.
    fn take_logs<'s>(&self, steps: &'s dyn Steps) -> Result<Vec<(&'s BStr, Vec<u8>)>> {
        let mut taken = Vec::new();
        for at in 0..steps.count() {
            if let Some(source) = steps.log_source(at).filter(|source| !nested::are_nested(steps.name(at), source)) {
                assert!(self.locks.holds(source), "a log is taken from a ref that is locked: '{source}'");
                taken.extend(reflog::file::taken(&self.store, source)?.map(|log| (steps.name(at), log)));
            }
        }
        Ok(taken)
    }

    /// Appends the reflog lines of refs that remain. With `track`, adds the reflogs that did not exist before to `new`.
    fn append_logs(&self, claimed: &[(usize, Step<'_>)], track: bool, new: &mut Vec<PathBuf>) -> Result<()> {
        let mut writer = reflog::Writer::new(&self.store, track);
        // HEAD's reflog comes after its branch's, so that it gets no line if the branch's cannot be written.
        let of = |changes: bool| claimed.iter().filter(move |(_, step)| step.new.is_some() == changes);
        let mut lines = of(true).chain(of(false)).filter_map(|(_, step)| {
            let line = step.log.as_ref().filter(|_| !matches!(step.new, Some(NewValue::Deleted)));
            line.map(|line| (step.name, line))
        });
        let appended = lines.try_for_each(|(name, line)| writer.append(name, line));
        new.append(&mut writer.created);
        appended
    }

    /// Moves aside the reflogs of deleted refs that stand where a ref of this transaction needs a folder for its own
    /// reflog.
    fn make_room_for_logs(&self, claimed: &[(usize, Step<'_>)], aside: &mut SetAside) -> Result<()> {
        let is_deleted = |step: &Step<'_>| matches!(step.new, Some(NewValue::Deleted));
        for (_, deleted) in claimed.iter().filter(|(_, step)| is_deleted(step)) {
            let below = [deleted.name.as_bytes(), b"/"].concat();
            let behind = claimed.partition_point(|(_, step)| step.name.as_bytes() < below.as_slice());
            let needs_room = |(_, step): &(usize, Step<'_>)| step.log.is_some() && !is_deleted(step);
            if claimed[behind..].iter().take_while(|(_, step)| step.name.starts_with(&below)).any(needs_room) {
                assert!(self.locks.holds_packed(), "reflogs are moved aside under the lock of packed-refs");
                aside.move_log(&self.store, deleted.name)?;
            }
        }
        Ok(())
    }

    /// Renames the new contents of loose refs into place, one after the other, and syncs their folders where refs are
    /// synced.
    fn publish_loose(&mut self, claimed: &[(usize, Step<'_>)]) -> Result<()> {
        let mut changed = BTreeSet::new();
        for (claim, step) in claimed {
            let is_value = matches!(step.new, Some(NewValue::Direct(..) | NewValue::Symbolic(_)));
            if !is_value || self.is_packed_put(*claim, step) {
                continue;
            }
            let guard = self.locks.take_guard(*claim);
            assert!(guard.is_some(), "what was staged for '{}' is published", step.name);
            let Some(mut lock) = guard else { continue };
            publish::publish_ref(&self.store, step.name, &mut lock)?;
            self.renamed.insert(*claim);
            changed.extend(lock.target().parent().filter(|_| self.store.options.sync).map(Path::to_owned));
        }
        // Folders created for these refs must be durable as well; those created for locks alone are removed again.
        let made: BTreeSet<&Path> = self.locks.made().iter().map(PathBuf::as_path).collect();
        let new = changed.iter().flat_map(|folder| folder.ancestors().take_while(|ancestor| made.contains(ancestor)));
        let holding_new: Vec<PathBuf> = new.filter_map(Path::parent).map(Path::to_owned).collect();
        changed.extend(holding_new);
        changed.iter().try_for_each(|folder| self.sync_dir(folder))
    }

    /// Syncs a folder of refs. It may be gone, because another writer may have packed or deleted the ref since its lock
    /// was released.
    fn sync_dir(&self, folder: &Path) -> Result<()> {
        match self.store.options.fs.sync_dir(folder) {
            Err(error) if error.is_not_found() => Ok(()),
            synced => Ok(synced?),
        }
    }

    /// Returns whether packed-refs or a loose file has a new value.
    fn has_new_values(&self) -> bool {
        self.has_new_packed || !self.renamed.is_empty()
    }

    /// Returns whether the new value of a ref is visible. A step that changes no ref follows those that do.
    fn is_visible(&self, claim: usize, step: &Step<'_>) -> bool {
        match step.new {
            None => self.has_new_values(),
            Some(NewValue::Deleted) => self.has_new_packed,
            Some(_) if self.is_packed_put(claim, step) => self.has_new_packed,
            Some(_) => self.renamed.contains(&claim),
        }
    }

    /// Writes the reflogs and makes the new values visible. If this fails, then for each ref whose new value is not
    /// visible, a reflog that was taken from another ref or, at least in bulk, is new is removed, and a reflog that was
    /// moved aside is moved back, as far as that is possible.
    fn publish(&mut self, steps: &dyn Steps, claimed: &[(usize, Step<'_>)]) -> Result<()> {
        let taken = self.take_logs(steps)?;
        let (mut aside, mut new_logs) = (SetAside::default(), Vec::new());
        let published = self
            .publish_logs(claimed, taken, &mut aside, &mut new_logs)
            .and_then(|()| self.publish_packed(claimed))
            .and_then(|()| self.publish_loose(claimed));
        let is_done = published.is_ok();
        let visible = claimed.iter().filter(|(claim, step)| !is_done && self.is_visible(*claim, step));
        let visible: BTreeSet<PathBuf> =
            visible.filter_map(|(_, step)| self.store.layout.log_path(step.name)).collect();
        let is_visible = |log: &Path| is_done || visible.contains(log);
        for log in new_logs.iter().filter(|log| !is_visible(log)) {
            // If that fails, the reflog stays, as do lines that were added to existing reflogs.
            let _ = self.store.options.fs.remove_file(log);
        }
        aside.settle(&self.store, &is_visible);
        published
    }

    /// Writes the reflogs, and those `taken` from other refs under their new names. Reflogs that were in the way are
    /// moved aside and added to `aside`, and those to remove after an error to `new`.
    fn publish_logs(
        &self,
        claimed: &[(usize, Step<'_>)],
        taken: Vec<(&BStr, Vec<u8>)>,
        aside: &mut SetAside,
        new: &mut Vec<PathBuf>,
    ) -> Result<()> {
        self.make_room_for_logs(claimed, aside)?;
        for (name, log) in taken {
            assert!(self.locks.holds_packed(), "a reflog is taken from a ref that is deleted");
            aside.move_log(&self.store, name)?;
            new.extend(self.store.layout.log_path(name));
            reflog::file::put(&self.store, name, &log)?;
        }
        let track = self.strategy == WriteStrategy::Bulk || !aside.is_empty();
        self.append_logs(claimed, track, new)
    }

    /// Removes the loose files of deleted refs, and then their reflogs. The lock of packed-refs, for which other
    /// writers wait, is released before the removal is made durable; the locks of the refs are not, so that nobody
    /// gives one of them a packed value before.
    fn remove_deleted(&mut self, deleted: &[&BStr]) -> Result<()> {
        let mut changed = BTreeSet::new();
        let removed = self.remove_files(deleted, &mut changed);
        self.locks.release_packed();
        // Even after a failure, because a file that reappeared after a loss of power would hide the next packed value.
        changed.iter().try_for_each(|folder| self.sync_dir(folder))?;
        removed
    }

    /// Removes the loose files of these refs, then their reflogs. Adds the folders to sync to `changed`.
    fn remove_files(&self, deleted: &[&BStr], changed: &mut BTreeSet<PathBuf>) -> Result<()> {
        let options = &self.store.options;
        debug_assert!(deleted.iter().all(|name| self.locks.holds(name)), "a ref's file is removed under its lock");
        for path in deleted.iter().filter_map(|name| self.store.layout.ref_path(name)) {
            match options.fs.remove_file(&path) {
                Ok(()) => changed.extend(path.parent().filter(|_| options.sync).map(Path::to_owned)),
                Err(error) if error.is_not_found() || error.is_folder() => {}
                Err(error) => return Err(error.into()),
            }
        }
        deleted.iter().try_for_each(|name| match reflog::remove(&self.store, name) {
            // The ref is gone, so a reflog that may not be removed stays, as in git.
            Err(Error::Io(error)) if error.is_forbidden() => Ok(()),
            removed => removed,
        })
    }
}

impl FilesLocked {
    /// Returns whether the folder with this name contains, at any depth, a file that is not a lock of this transaction.
    /// A folder that cannot be read counts as empty.
    fn has_files_of_others(&self, folder: &Path, name: &BStr) -> bool {
        let mut known = self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(name) {
            return *found;
        }
        // Without recursion: a name can have two thousand folders, and the threads of servers have small stacks.
        let mut folders = vec![(folder.to_owned(), name.to_owned())];
        let mut at = 0;
        while let Some((path, name_of_path)) = folders.get(at).cloned() {
            at += 1;
            for (entry, kind) in self.store.options.fs.read_dir(&path).unwrap_or_default() {
                let below = BString::from([name_of_path.as_bytes(), b"/", &entry].concat());
                let is_of_others = match kind {
                    EntryKind::Dir => known.get(&below).copied(),
                    _ => Some(!below.strip_suffix(b".lock").is_some_and(|locked| self.locks.holds(locked.as_bstr()))),
                };
                match is_of_others {
                    Some(true) => {
                        let ends = below.find_iter("/").filter(|end| *end >= name.len());
                        known.extend(ends.map(|end| (below[..end].into(), true)));
                        return true;
                    }
                    Some(false) => {}
                    None => folders.push((path.join(OsStr::from_bytes(&entry)), below)),
                }
            }
        }
        known.extend(folders.into_iter().map(|(_, name)| (name, false)));
        false
    }
}

impl Locked for FilesLocked {
    fn snapshot(&self) -> &dyn Snapshot {
        &self.snapshot
    }

    fn refused(&self) -> &[(usize, RejectionReason)] {
        &self.refused
    }

    fn standing(&self, name: &BStr) -> Standing {
        match self.store.layout.ref_path(name) {
            Some(path) if self.has_files_of_others(&path, name) => Standing::Folder,
            _ => Standing::NoFolder,
        }
    }

    fn stage(&mut self, steps: &dyn Steps) -> Result<()> {
        let claimed = self.claimed(steps);
        if self.strategy == WriteStrategy::Batch && !batch::fits(&claimed) {
            self.locks.add_packed()?;
            self.strategy = WriteStrategy::Bulk;
        }
        if !(self.atomic_visibility && self.strategy == WriteStrategy::Bulk) {
            nested::refuse(steps)?;
        }
        for (claim, step) in &claimed {
            match step.new {
                Some(NewValue::Direct(id, _)) if !self.is_packed_put(*claim, step) => {
                    self.stage_loose(*claim, step, TargetView::Direct(id))?;
                }
                Some(NewValue::Symbolic(target)) => self.stage_loose(*claim, step, TargetView::Symbolic(target))?,
                _ => {}
            }
        }
        set::heed_signals()?;
        if self.locks.holds_packed() {
            self.clear_loose(&claimed)?;
            self.stage_packed(&claimed)?;
        } else {
            let is_packed = |(claim, step): &(usize, Step<'_>)| {
                self.is_packed_put(*claim, step) || matches!(step.new, Some(NewValue::Deleted))
            };
            assert!(!claimed.iter().any(is_packed), "a change of packed-refs has its lock");
        }
        set::heed_signals()
    }

    fn commit(mut self: Box<Self>, steps: &dyn Steps) -> Result<()> {
        let claimed = self.claimed(steps);
        if self.strategy == WriteStrategy::Batch
            && let Some(journal_file) = &mut self.journal_file
        {
            let contents = std::mem::take(&mut self.unsynced);
            batch::publish(&self.store, &mut self.locks, journal_file, contents, &claimed)?;
            self.locks.release();
            return Ok(());
        }
        let moved = nested::move_logs(&self.store, steps)?;
        if let Err(error) = self.publish(steps, &claimed) {
            if !self.has_new_values() {
                moved.back(&self.store);
            }
            return Err(error);
        }
        let is_deleted = |step: &Step<'_>| matches!(step.new, Some(NewValue::Deleted));
        let deleted: Vec<&BStr> =
            claimed.iter().filter(|(_, step)| is_deleted(step)).map(|(_, step)| step.name).collect();
        if refdb_vfs::planted("refdb-locks") {
            self.locks.release();
        }
        self.remove_deleted(&deleted)?;
        self.locks.release();
        bulk::remove_emptied(&self.store, &deleted);
        bulk::remove_emptied(&self.store, &self.cleared.iter().map(|name| name.as_bstr()).collect::<Vec<_>>());
        Ok(())
    }
}

fn is_folder(store: &Store, path: &Path) -> bool {
    store.options.fs.stat(path).is_ok_and(|stat| stat.is_dir())
}
