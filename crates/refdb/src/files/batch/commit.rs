//! Commits a small batch under all its locks, in the order that docs/formats/intent.md explains.

use crate::files::{
    CommitObserver,
    batch::{
        entry::{JournalEntry, JournalRef, LEN_MAX_BYTES},
        journal,
        journal_file::JournalFile,
        recover::{self, Outcome},
    },
    lock::{publish, set::Locks},
    reflog,
    store::Store,
    strategy::REFS_MAX,
};
use crate::{
    Error, Result, Step, TargetView,
    backend::{LogLine, NewValue},
};
use bstr::BString;
use refdb_types::RefName;
use refdb_vfs::{BatchId, File, boot_id};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Returns whether these steps can be a small batch: there are at most [`REFS_MAX`], each sets a ref with a valid
/// name, which was neither symbolic nor broken nor the null id, to an object, and their journal entry is short enough
/// to be read again. A journal entry has the null id in place of the old value of a ref that did not exist.
pub(crate) fn fits(steps: &[(usize, Step<'_>)]) -> bool {
    let is_simple = |step: &Step<'_>| {
        matches!(step.new, Some(NewValue::Direct(..)))
            && match step.old {
                None => true,
                Some(TargetView::Direct(old)) => !old.is_null(),
                Some(TargetView::Symbolic(_)) => false,
            }
            && !step.is_broken
            && RefName::new(step.name.to_vec()).is_ok()
    };
    steps.len() <= REFS_MAX && steps.iter().all(|(_, step)| is_simple(step)) && entry_len_max(steps) <= LEN_MAX_BYTES
}

/// Returns a length that the journal entry of these steps does not exceed. Reflog messages have no limit of their own.
fn entry_len_max(steps: &[(usize, Step<'_>)]) -> usize {
    /// More than the ids, words and numbers of a ref and its reflog line, or those of the first and last line.
    const REST: usize = 512;
    let log_len = |line: &LogLine<'_>| line.committer.name.len() + line.committer.email.len() + line.message.len();
    let len = |(_, step): &(usize, Step<'_>)| REST + step.name.len() + step.log.as_ref().map_or(0, log_len);
    REST + steps.iter().map(len).sum::<usize>()
}

/// Makes the staged contents visible. After an error no ref has its new value, with two exceptions: [`Error::HalfDone`]
/// names the refs that do not have theirs, and after [`Error::Unrecovered`] any ref of the batch may have its new value
/// and the locks stay like those of a dead process, so that the next writer that meets a lock recovers the batch. The
/// locks also stay after the error of a journal entry that could be neither written nor wiped.
pub(crate) fn publish(
    store: &Arc<Store>,
    locks: &mut Locks,
    file: &mut JournalFile,
    contents: Vec<File>,
    steps: &[(usize, Step<'_>)],
) -> Result<()> {
    assert!(fits(steps), "a batch that does not fit goes to packed-refs");
    if steps.is_empty() {
        return Ok(());
    }
    let entry = entry_of(store, steps)?;
    // The entry relies on the new contents and on the names of the locks, so they become durable first.
    if entry.synced {
        let folders = publish::changed_folders(store, &mut steps.iter().map(|(_, step)| step.name), locks.made());
        store.options.fs.sync_together(contents, &folders)?;
    }
    locks.outlive_us(true);
    if let Err(error) = file.place(&entry) {
        if file.wipe().is_ok() {
            locks.outlive_us(false);
        }
        return Err(error);
    }
    let in_flight = InFlight::begin(store, file.path(), &entry);
    let mut new_logs = Vec::new();
    let finished = show(store, locks, steps, &mut new_logs).and_then(|()| file.wipe());
    if let Err(error) = finished {
        let recovered = recover_failed(store, file.id(), &entry, error, &new_logs);
        if matches!(recovered, Err(Error::Unrecovered { .. })) {
            // Without an entry nobody will recover the batch any more, whatever values its refs have.
            if matches!(journal::read(store, file.id()), Ok(None)) {
                in_flight.over();
            }
            return recovered;
        }
        in_flight.over();
        locks.outlive_us(false);
        return recovered;
    }
    in_flight.over();
    locks.outlive_us(false);
    Ok(())
}

/// A batch of which readers may see a part. If it is dropped before [`over`](InFlight::over) is called, the observer
/// learns that the batch is unrecovered.
struct InFlight<'s> {
    observer: Option<(&'s dyn CommitObserver, u64)>,
    record: PathBuf,
}

impl<'s> InFlight<'s> {
    fn begin(store: &'s Store, record: &Path, entry: &JournalEntry) -> Self {
        assert!(!entry.refs.is_empty(), "a batch has refs");
        let refs = || entry.refs.iter().map(|entry| (entry.name.as_bstr().to_owned(), entry.old)).collect();
        let observer = store.options.commit_observer.as_deref();
        InFlight { observer: observer.map(|all| (all, all.begin(refs()))), record: record.to_owned() }
    }

    /// Tells the observer that the batch has ended: completed, dropped, or left for an administrator.
    fn over(mut self) {
        if let Some((observer, batch)) = self.observer.take() {
            observer.end(batch, None);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some((observer, batch)) = self.observer.take() {
            observer.end(batch, Some(&self.record));
        }
    }
}

/// Completes or drops a batch whose own commit failed with `error`.
fn recover_failed(
    store: &Arc<Store>,
    id: BatchId,
    entry: &JournalEntry,
    error: Error,
    new_logs: &[PathBuf],
) -> Result<()> {
    match recover::recover(store, id, entry) {
        Ok(Outcome::Complete) => Ok(()),
        Ok(Outcome::Dropped) => {
            for log in new_logs {
                // If that fails, the reflog stays, as do lines that were added to existing reflogs.
                let _ = store.options.fs.remove_file(log);
            }
            Err(error)
        }
        Ok(Outcome::Half(refs)) => Err(Error::HalfDone { refs, source: Box::new(error) }),
        Err(_) => Err(Error::Unrecovered { record: journal::path(store, id), source: Box::new(error) }),
    }
}

/// Appends to the reflogs, renames the new contents into place and, if refs are synced, makes the renames durable.
/// Reflogs that did not exist before are added to `new_logs`, even on error.
fn show(store: &Store, locks: &mut Locks, steps: &[(usize, Step<'_>)], new_logs: &mut Vec<PathBuf>) -> Result<()> {
    let mut writer = reflog::Writer::new(store, true);
    let logged = steps
        .iter()
        .filter_map(|(_, step)| Some((step.name, step.log.as_ref()?)))
        .try_for_each(|(name, line)| writer.append(name, line));
    new_logs.append(&mut writer.created);
    logged?;
    for (claim, step) in steps {
        let Some(lock) = locks.guard(*claim) else { continue };
        publish::publish_ref(store, step.name, lock)?;
    }
    if store.options.sync {
        // New folders became durable together with the locks in them.
        publish::sync_folders(store, &mut steps.iter().map(|(_, step)| step.name), &[])?;
    }
    Ok(())
}

fn entry_of(store: &Store, steps: &[(usize, Step<'_>)]) -> Result<JournalEntry> {
    let entry = |(_, step): &(usize, Step<'_>)| {
        let Some(NewValue::Direct(new, _)) = step.new else { unreachable!("only such steps fit") };
        let log = step.log.as_ref().map(|line| {
            let mut bytes = Vec::new();
            reflog::line::encode(line, &mut bytes);
            bytes.pop();
            BString::from(bytes)
        });
        let name = RefName::new(step.name.to_vec()).expect("only valid names fit");
        JournalRef { name, old: crate::files::packing::bulk::direct(step.old), new, log }
    };
    let boot = boot_id().unwrap_or_default().to_owned();
    debug_assert!(!boot.is_empty(), "where the boot is not known no lock is signed");
    Ok(JournalEntry {
        hash: store.options.hash,
        synced: store.options.sync,
        boot,
        refs: steps.iter().map(entry).collect(),
    })
}
