//! Completes or drops a small batch whose commit failed or whose process has ended.
//!
//! As long as a batch has an entry, its commit has not returned successfully, and no writer that respects locks has
//! changed its refs since, because the locks are released only after the entry is removed. The entry of an unsynced
//! batch may be back after a loss of power, and is dropped then.

use crate::files::{
    batch::{
        entry::{JournalEntry, JournalRef},
        journal,
    },
    lock::publish,
    loose::{folders, listing::Rivals},
    reflog,
    snapshot::FilesSnapshot,
    store::Store,
};
use crate::{Error, Probe, Result, Snapshot, Target, TargetView, backend::Answers};
use bstr::{BStr, BString, ByteSlice};
use refdb_vfs::{BatchId, File, Fs, Lock, LockError, LockTimeout, RecoveryHandler, StaleLock, boot_id};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The outcome of a recovered batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All refs of the batch have their new values.
    Complete,
    /// The entry was dropped and the recovery changed no ref, because no ref had its new value, or because the batch
    /// was not synced and the machine has restarted since.
    Dropped,
    /// These refs could not be given their new values, and others have theirs. The entry is kept for an administrator.
    Half(Vec<BString>),
}

/// How the present value of a ref compares with its journal entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Old,
    New,
    Other,
}

/// Completes a batch whose refs are all locked by the caller, or drops it if no ref has its new value, or if it was not
/// synced and the machine has restarted since. Afterwards the entry is removed, or kept under another name if some refs
/// could not be set.
pub(crate) fn recover(store: &Arc<Store>, id: BatchId, entry: &JournalEntry) -> Result<Outcome> {
    let sync = entry.synced || store.options.sync;
    if entry.hash != store.options.hash {
        return Err(journal::fault(
            &journal::path(store, id),
            "its ids are of another hash function than the repository's".into(),
        ));
    }
    check_links(store, entry)?;
    let values = entry.refs.iter().map(|change| look(store, change)).collect::<Result<Vec<Value>>>()?;
    // After a restart any part of an unsynced batch may be missing, so it is not completed.
    let is_of_last_boot = !entry.synced && boot_id() != Some(entry.boot.as_str());
    if is_of_last_boot || !values.contains(&Value::New) {
        journal::remove(store, id, sync)?;
        return Ok(Outcome::Dropped);
    }
    let (mut left, mut made) = (Vec::new(), Vec::new());
    for (change, value) in entry.refs.iter().zip(values) {
        let is_done = match value {
            Value::New => add_log(store, change).map(|()| true)?,
            Value::Old => can_stand(store, change)? && set(store, change, sync, &mut made)?,
            Value::Other => false,
        };
        if !is_done {
            left.push(change.name.as_bstr().to_owned());
        }
    }
    if sync {
        publish::sync_folders(store, &mut entry.refs.iter().map(|change| change.name.as_bstr()), &made)?;
    }
    if left.is_empty() {
        journal::remove(store, id, sync)?;
        return Ok(Outcome::Complete);
    }
    journal::leave(store, id, sync)?;
    Ok(Outcome::Half(left))
}

/// Fails if a ref of the entry, or a folder below `refs` on the way to it, is a symbolic link, which may lead out of
/// `refs/`.
fn check_links(store: &Store, entry: &JournalEntry) -> Result<()> {
    let names = || entry.refs.iter().map(|change| change.name.as_bstr());
    let mut through =
        crate::files::packing::bulk::through_links(store, names())?.into_iter().filter_map(|at| names().nth(at));
    let is_link = |name: &&BStr| {
        let path = store.layout.ref_path(name);
        path.is_some_and(|path| {
            store.options.fs.find_link(&path).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_symlink()))
        })
    };
    match through.next().or_else(|| names().find(is_link)) {
        None => Ok(()),
        Some(name) => {
            let path = store.layout.ref_path(name).unwrap_or_default();
            Err(journal::fault(
                &path,
                "a symbolic link is here or above, and an unfinished batch changes this ref".into(),
            ))
        }
    }
}

fn look(store: &Arc<Store>, entry: &JournalRef) -> Result<Value> {
    let now = match FilesSnapshot::new(Arc::clone(store), Rivals::LockedOut).get(entry.name.as_bstr()) {
        Ok(now) => now,
        Err(Error::BrokenRef(_)) => return Ok(Value::Other),
        Err(error) => return Err(error),
    };
    Ok(match now {
        Some(Target::Direct(id)) if id == entry.new => Value::New,
        Some(Target::Direct(id)) if Some(id) == entry.old => Value::Old,
        None if entry.old.is_none() => Value::Old,
        _ => Value::Other,
    })
}

/// Returns whether the object of the new value exists and, if the batch creates the ref, no ref's name conflicts with
/// its name.
fn can_stand(store: &Arc<Store>, entry: &JournalRef) -> Result<bool> {
    if !store.options.objects.exists(&entry.new)? {
        return Ok(false);
    }
    if entry.old.is_some() {
        return Ok(true);
    }
    let snapshot = FilesSnapshot::new(Arc::clone(store), Rivals::LockedOut);
    for parent in entry.name.parents() {
        match snapshot.get(parent) {
            Ok(None) => {}
            Ok(Some(_)) | Err(Error::BrokenRef(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    let mut below = Below(false);
    snapshot.probe(&mut std::iter::once(Probe { name: entry.name.as_bstr(), below: true }), &mut below)?;
    Ok(!below.0)
}

/// Receives the answer whether there is a ref below a name.
struct Below(bool);

impl Answers for Below {
    fn value(&mut self, _: usize, _: Option<TargetView<'_>>) -> Result<()> {
        Ok(())
    }

    fn broken(&mut self, _: usize, _: crate::BrokenRef) -> Result<()> {
        Ok(())
    }

    fn below(&mut self, _: usize, _: &BStr) -> Result<()> {
        self.0 = true;
        Ok(())
    }
}

/// Sets a ref to its new value. Returns `false` if a folder that holds anything but folders is in the way, or one that
/// cannot be removed.
fn set(store: &Store, entry: &JournalRef, sync: bool, made: &mut Vec<PathBuf>) -> Result<bool> {
    let (options, fs) = (&store.options, &store.options.fs);
    let Some(path) = store.layout.ref_path(entry.name.as_bstr()) else { return Ok(false) };
    if fs.find_link(&path)?.is_some_and(|stat| stat.is_dir()) && !fs.remove_empty_tree(&path)? {
        return Ok(false);
    }
    add_log(store, entry)?;
    let content = Lock::path_of(&Lock::path_of(&path));
    let is_missing = |error: &refdb_vfs::Error| error.source.kind() == io::ErrorKind::NotFound;
    let mut file =
        folders::with_parents(fs, &content, options.sharing, made, is_missing, || fs.create_afresh(&content, 0o666))?;
    let mut line = Vec::new();
    entry.new.write_hex(&mut line);
    line.push(b'\n');
    file.write_all(&line)?;
    if sync {
        file.sync()?
    } else {
        fs.deliver(&file)?
    }
    drop(file);
    folders::share(fs, &content, options.sharing, false)?;
    fs.rename(&content, &path)?;
    Ok(true)
}

/// Appends the line to the ref's reflog, unless the reflog ends with that line already. A reflog behind a symbolic link
/// is left alone.
fn add_log(store: &Store, entry: &JournalRef) -> Result<()> {
    let Some(log) = &entry.log else { return Ok(()) };
    let Some(path) = store.layout.log_path(entry.name.as_bstr()) else { return Ok(()) };
    let logs = store.layout.base_path(entry.name.as_bstr()).join("logs");
    let is_link =
        |path: &Path| store.options.fs.find_link(path).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_symlink()));
    if path.ancestors().take_while(|path| path.starts_with(&logs)).any(is_link) {
        return Ok(());
    }
    let line = [log.as_bytes(), b"\n"].concat();
    let now = reflog::file::read(store, &path)?.unwrap_or_default();
    let rest = missing_part(&now, &line);
    if rest.is_empty() { Ok(()) } else { crate::files::reflog::append_bytes(store, entry.name.as_bstr(), rest) }
}

/// The part of `line` that is missing at the end of the reflog, whose writer may have died half-way through it.
fn missing_part<'l>(log: &[u8], line: &'l [u8]) -> &'l [u8] {
    if log.ends_with(line) && log[..log.len() - line.len()].last().is_none_or(|byte| *byte == b'\n') {
        return &[];
    }
    let torn = &log[log.rfind_byte(b'\n').map_or(0, |newline| newline + 1)..];
    line.strip_prefix(torn).unwrap_or(line)
}

/// The result of an attempt to take over the locks of a batch and recover it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TakenOver {
    /// The batch is recovered.
    Recovered(Outcome),
    /// There is no journal entry: the batch had not begun, or had ended.
    Nothing,
    /// The process of the batch is alive, or somebody else holds one of its locks.
    Busy,
}

/// Takes over the locks of a batch whose process has ended, recovers the batch and releases the locks, except those that
/// name another batch with an entry. `met` is a lock that names this batch, if the caller has taken one over already.
pub(crate) fn take_over(store: &Arc<Store>, id: BatchId, met: Option<StaleLock>) -> Result<TakenOver> {
    let Some(bytes) = journal::read(store, id)? else {
        if let Some(met) = met {
            // The owner may have died right after it wiped the entry. The wiping must be durable before the lock is
            // removed.
            journal::make_absence_durable(store, id)?;
            met.remove()?;
        }
        return Ok(TakenOver::Nothing);
    };
    let entry = journal::parse(store, id, &bytes)?;
    let mut orphans: Vec<StaleLock> = met.into_iter().collect();
    let mut locks: BTreeMap<PathBuf, BatchId> = orphans.iter().map(|met| (met.path().to_owned(), met.id())).collect();
    for change in &entry.refs {
        let Some(path) = store.layout.ref_path(change.name.as_bstr()) else { return Ok(TakenOver::Busy) };
        let Some(of) = take_one(store, id, entry.synced, &path, &mut orphans)? else { return Ok(TakenOver::Busy) };
        locks.insert(Lock::path_of(&path), of);
    }
    // The owner may have been alive until all locks were taken over.
    if journal::read(store, id)?.as_ref() != Some(&bytes) {
        return Ok(TakenOver::Busy);
    }
    let outcome = recover(store, id, &entry)?;
    for (path, of) in locks {
        if of != id {
            if journal::read(store, of)?.is_some() {
                continue;
            }
            journal::make_absence_durable(store, of)?;
        }
        match orphans.iter().find(|orphan| orphan.path() == path) {
            Some(orphan) => orphan.remove()?,
            None => remove_lock(store, &path)?,
        }
    }
    Ok(TakenOver::Recovered(outcome))
}

/// Removes the lock file of a ref. Fails if a folder on the way to it was replaced by a symbolic link.
fn remove_lock(store: &Store, lock: &Path) -> Result<()> {
    // `refs` itself may be a link, since a repository can share its refs with another.
    let refs = store.layout.common_dir.join("refs");
    let Some((below, name)) = lock.strip_prefix(&refs).ok().and_then(|at| Some((at.parent()?, at.file_name()?))) else {
        return Ok(());
    };
    let folder = store.options.fs.folder(&refs).and_then(|refs| refs.below(below));
    match folder {
        Err(error) if error.is_not_found() => Ok(()),
        folder => Ok(StaleLock::remove_in(&folder?, name)?),
    }
}

/// Takes over the lock of one ref, or creates it again if somebody has removed it. Returns the batch that the lock
/// names; `None` if somebody else holds the lock. The lock may name another dead batch: a copy of the repository made
/// file by file may contain the lock of a later batch, which protects the ref just as well.
fn take_one(
    store: &Store,
    id: BatchId,
    sync: bool,
    target: &Path,
    orphans: &mut Vec<StaleLock>,
) -> Result<Option<BatchId>> {
    let fs = &store.options.fs;
    let path = Lock::path_of(target);
    for orphan in orphans.iter() {
        if orphan.is_also_at(fs, &path)? {
            return Ok(Some(orphan.id()));
        }
    }
    if fs.find_link(&path)?.is_none() {
        let is_missing = |error: &refdb_vfs::Error| error.source.kind() == io::ErrorKind::NotFound;
        let own = orphans.iter().find(|orphan| orphan.id() == id);
        let extend = || match own {
            Some(orphan) => orphan.extend_to(fs, &path),
            None => make_lock(fs, target, id, sync),
        };
        let made = folders::with_parents(fs, &path, store.options.sharing, &mut Vec::new(), is_missing, extend)?;
        if made && own.is_some() {
            return Ok(Some(id));
        }
    }
    let Some(orphan) = StaleLock::take(fs, &path)? else { return Ok(None) };
    let of = orphan.id();
    orphans.push(orphan);
    Ok(Some(of))
}

/// Creates a lock file of the batch and leaves it without an owner, so that it can be taken over like the others.
fn make_lock(fs: &Fs, target: &Path, id: BatchId, sync: bool) -> refdb_vfs::Result<bool> {
    match Lock::acquire_for_batch(fs, target, LockTimeout::None, id, sync) {
        Ok(lock) => Ok(lock.map(|lock| drop(lock.into_source())).is_some()),
        Err(LockError::Held { .. }) => Ok(false),
        Err(LockError::Io(error)) => Err(error),
    }
}

impl RecoveryHandler for Store {
    fn recover(&self, id: BatchId, lock: File) -> bool {
        // The locks are taken with a store that has no recovery handler, so that recovery does not nest.
        let alone = Arc::new(self.without_recovery());
        match StaleLock::handed(&alone.options.fs, lock) {
            // A lock that is not in its place any more is free, or was taken over by somebody else.
            Ok(None) => true,
            Err(_) => false,
            // A batch that cannot be recovered stays locked, and `refdb stat` names it.
            Ok(met) => matches!(take_over(&alone, id, met), Ok(TakenOver::Recovered(_) | TakenOver::Nothing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_line_that_a_reflog_has_in_part_is_appended() {
        let line = b"0 1 A <a> 1 +0000\tm\n";
        assert_eq!(missing_part(b"", line), line);
        assert_eq!(missing_part(b"old\n", line), line);
        assert_eq!(missing_part(b"old\n0 1 A", line), b" <a> 1 +0000\tm\n");
        assert_eq!(missing_part(&[b"old\n", &line[..]].concat(), line), b"");
        assert_eq!(missing_part(line, line), b"");
        assert_eq!(missing_part(b"rubbish", line), line);
        assert_eq!(missing_part(&[b"x", &line[..]].concat(), line), line);
    }
}
