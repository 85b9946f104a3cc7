//! What becomes of a small batch that was not finished. Its write failed, or its process is gone.
//!
//! A record that is found was never answered, and nobody who heeds locks has changed its refs since.

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
use refdb_vfs::{BatchId, Fs, Heir, Lock, LockError, Orphan, Patience, boot_id};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How a batch ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All its refs have their new values.
    Complete,
    /// No ref has its new value.
    Dropped,
    /// These refs could not be given their new values; others have theirs. A person has to look at them.
    Half(Vec<BString>),
}

/// What a ref of a batch holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Old,
    New,
    Other,
}

/// Finishes a batch whose refs are all locked, or undoes it if none of it shows. Its record is gone afterwards.
pub(crate) fn recover(store: &Arc<Store>, id: BatchId, intent: &JournalEntry) -> Result<Outcome> {
    let sync = intent.synced || store.options.sync;
    if intent.hash != store.options.hash {
        return Err(journal::fault(
            &journal::path(store, id),
            "its ids are of another kind than the repository's".into(),
        ));
    }
    check_links(store, intent)?;
    let values = intent.refs.iter().map(|entry| look(store, entry)).collect::<Result<Vec<Value>>>()?;
    // What was not synced may be there in part after a restart. Nothing is built upon it.
    let is_of_last_boot = !intent.synced && boot_id() != Some(intent.boot.as_str());
    if is_of_last_boot || !values.contains(&Value::New) {
        journal::remove(store, id, sync)?;
        return Ok(Outcome::Dropped);
    }
    let (mut left, mut made) = (Vec::new(), Vec::new());
    for (entry, value) in intent.refs.iter().zip(values) {
        let is_done = match value {
            Value::New => add_log(store, entry).map(|()| true)?,
            Value::Old => can_stand(store, entry)? && set(store, entry, sync, &mut made)?,
            Value::Other => false,
        };
        if !is_done {
            left.push(entry.name.as_bstr().to_owned());
        }
    }
    if sync {
        publish::sync_folders(store, &mut intent.refs.iter().map(|entry| entry.name.as_bstr()), &made)?;
    }
    if left.is_empty() {
        journal::remove(store, id, sync)?;
        return Ok(Outcome::Complete);
    }
    journal::leave(store, id, sync)?;
    Ok(Outcome::Half(left))
}

/// Nothing is written through a link, which may lead out of `refs/`.
fn check_links(store: &Store, intent: &JournalEntry) -> Result<()> {
    let names = || intent.refs.iter().map(|entry| entry.name.as_bstr());
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

/// Whether the new value has its object, and no ref stands above or below the name.
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

/// Whether there is a ref below a name.
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

/// Gives a ref its new value. `false` if a folder with something in it is in the way.
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
        file.sync()?;
    }
    drop(file);
    folders::share(fs, &content, options.sharing, false)?;
    fs.rename(&content, &path)?;
    Ok(true)
}

/// Adds the entry's line to its reflog, unless it is there.
fn add_log(store: &Store, entry: &JournalRef) -> Result<()> {
    let Some(log) = &entry.log else { return Ok(()) };
    let Some(path) = store.layout.log_path(entry.name.as_bstr()) else { return Ok(()) };
    let logs = store.layout.base_path(entry.name.as_bstr()).join("logs");
    let is_link =
        |path: &Path| store.options.fs.find_link(path).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_symlink()));
    // Nor is a log that lies behind a link written here.
    if path.ancestors().take_while(|path| path.starts_with(&logs)).any(is_link) {
        return Ok(());
    }
    let line = [log.as_bytes(), b"\n"].concat();
    let now = reflog::file::read(store, &path)?.unwrap_or_default();
    let rest = missing_part(&now, &line);
    if rest.is_empty() { Ok(()) } else { crate::files::reflog::append_bytes(store, entry.name.as_bstr(), rest) }
}

/// The part of a line that a log lacks at its end, where the line's writer may have died.
fn missing_part<'l>(log: &[u8], line: &'l [u8]) -> &'l [u8] {
    if log.ends_with(line) && log[..log.len() - line.len()].last().is_none_or(|byte| *byte == b'\n') {
        return &[];
    }
    let torn = &log[log.rfind_byte(b'\n').map_or(0, |newline| newline + 1)..];
    line.strip_prefix(torn).unwrap_or(line)
}

/// What became of a batch whose locks were to be taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TakenOver {
    /// It is settled.
    Recovered(Outcome),
    /// There is no record: nothing had begun, or all was done.
    Nothing,
    /// Its process is at work, or someone else holds a lock of it.
    Busy,
}

/// Settles a batch whose process is gone, and gives up its locks. `met` is one of them.
pub(crate) fn take_over(store: &Arc<Store>, id: BatchId, met: Option<Orphan>) -> Result<TakenOver> {
    let Some(bytes) = journal::read(store, id)? else {
        if let Some(met) = met {
            // Its owner may have died right after it removed the record. That must last before the lock goes.
            journal::make_absence_durable(store, id)?;
            met.remove()?;
        }
        return Ok(TakenOver::Nothing);
    };
    let intent = journal::parse(store, id, &bytes)?;
    let mut orphans: Vec<Orphan> = met.into_iter().collect();
    let mut locks: BTreeMap<PathBuf, BatchId> = orphans.iter().map(|met| (met.path().to_owned(), met.id())).collect();
    for entry in &intent.refs {
        let Some(path) = store.layout.ref_path(entry.name.as_bstr()) else { return Ok(TakenOver::Busy) };
        let Some(of) = take_one(store, id, intent.synced, &path, &mut orphans)? else { return Ok(TakenOver::Busy) };
        locks.insert(Lock::path_of(&path), of);
    }
    // Its owner may have been at work until we had the locks.
    if journal::read(store, id)?.as_ref() != Some(&bytes) {
        return Ok(TakenOver::Busy);
    }
    let outcome = recover(store, id, &intent)?;
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

/// Removes the lock file of a ref, unless a folder on the way to it was replaced by a symbolic link.
fn remove_lock(store: &Store, lock: &Path) -> Result<()> {
    // `refs` itself may be a link, since a repository can share its refs with another.
    let refs = store.layout.common_dir.join("refs");
    let Some((below, name)) = lock.strip_prefix(&refs).ok().and_then(|at| Some((at.parent()?, at.file_name()?))) else {
        return Ok(());
    };
    let folder = store.options.fs.folder(&refs).and_then(|refs| refs.below(below));
    match folder {
        Err(error) if error.is_not_found() => Ok(()),
        folder => Ok(Orphan::remove_in(&folder?, name)?),
    }
}

/// Takes over the lock of one ref, or makes it anew where somebody removed it. Returns whose batch's it is, `None` if
/// another one holds it. A copy that was made file by file may have the lock of a later dead batch. That does as well.
fn take_one(
    store: &Store,
    id: BatchId,
    sync: bool,
    target: &Path,
    orphans: &mut Vec<Orphan>,
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
    let Some(orphan) = Orphan::take(fs, &path)? else { return Ok(None) };
    let of = orphan.id();
    orphans.push(orphan);
    Ok(Some(of))
}

/// Makes a lock of the batch that nobody holds.
fn make_lock(fs: &Fs, target: &Path, id: BatchId, sync: bool) -> refdb_vfs::Result<bool> {
    match Lock::acquire_for_batch(fs, target, Patience::None, id, sync) {
        Ok(lock) => Ok(lock.map(|lock| drop(lock.into_seed())).is_some()),
        Err(LockError::Held { .. }) => Ok(false),
        Err(LockError::Io(error)) => Err(error),
    }
}

impl Heir for Store {
    fn settle(&self, met: Orphan) -> bool {
        // A store of its own, on which a lock that is met is waited for like git's.
        let alone = Arc::new(self.without_heir());
        let id = met.id();
        // What cannot be settled stays locked, and `refdb stat` names it.
        matches!(take_over(&alone, id, Some(met)), Ok(TakenOver::Recovered(_) | TakenOver::Nothing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_line_that_a_log_has_in_part_the_rest_is_added() {
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
