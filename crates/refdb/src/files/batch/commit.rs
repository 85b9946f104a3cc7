//! A few refs in one atomic batch, as loose files: in the order of docs/crash-model.md, under all their locks.

use crate::files::{
    CommitObserver,
    batch::{
        entry::{JournalEntry, JournalRef},
        journal,
        journal_file::JournalFile,
        recover::{self, Outcome},
    },
    lock::{publish, set::Locks},
    reflog,
    store::Store,
    strategy::REFS_MAX,
};
use crate::{Error, Result, Step, TargetView, backend::NewValue};
use bstr::BString;
use refdb_types::RefName;
use refdb_vfs::{BatchId, File, boot_id};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Whether such a batch can have these steps. Each gives a ref an object, and knows what it had.
pub(crate) fn fits(steps: &[(usize, Step<'_>)]) -> bool {
    let is_simple = |step: &Step<'_>| {
        matches!(step.new, Some(NewValue::Direct(..)))
            && !matches!(step.old, Some(TargetView::Symbolic(_)))
            && !step.is_broken
            && RefName::new(step.name.to_vec()).is_ok()
    };
    steps.len() <= REFS_MAX && steps.iter().all(|(_, step)| is_simple(step))
}

/// Makes the staged contents visible, all of them in the end or none. With an error the locks may stay, as those of a
/// process that died. The next who meets one settles their record.
pub(crate) fn publish(
    store: &Arc<Store>,
    locks: &mut Locks,
    slot: &mut JournalFile,
    contents: Vec<File>,
    steps: &[(usize, Step<'_>)],
) -> Result<()> {
    assert!(fits(steps), "what does not fit goes to packed-refs");
    if steps.is_empty() {
        return Ok(());
    }
    let intent = intent(store, steps)?;
    // All that a record rests on is durable before it: the new contents, and the names of the locks.
    if intent.synced {
        let folders = publish::changed_folders(store, &mut steps.iter().map(|(_, step)| step.name), locks.made());
        store.options.fs.sync_together(contents, &folders)?;
    }
    locks.outlive_us(true);
    if let Err(error) = slot.place(&intent) {
        if slot.wipe().is_ok() {
            locks.outlive_us(false);
        }
        return Err(error);
    }
    let showing = Showing::begin(store, slot.path(), &intent);
    let mut new_logs = Vec::new();
    let finished = show(store, locks, steps, &mut new_logs).and_then(|()| slot.wipe());
    if let Err(error) = finished {
        let settled = recover_failed(store, slot.id(), &intent, error, &new_logs);
        if matches!(settled, Err(Error::Unrecovered { .. })) {
            return settled;
        }
        showing.over();
        locks.outlive_us(false);
        return settled;
    }
    showing.over();
    locks.outlive_us(false);
    Ok(())
}

/// A batch that may show in part. Dropped before it is [over](Showing::over), it counts as unsettled.
struct Showing<'s> {
    commit_observer: Option<(&'s dyn CommitObserver, u64)>,
    record: PathBuf,
}

impl<'s> Showing<'s> {
    fn begin(store: &'s Store, record: &Path, intent: &JournalEntry) -> Self {
        assert!(!intent.refs.is_empty(), "a batch has refs");
        let refs = || intent.refs.iter().map(|entry| (entry.name.as_bstr().to_owned(), entry.old)).collect();
        let commit_observer = store.options.commit_observer.as_deref();
        Showing { commit_observer: commit_observer.map(|all| (all, all.begin(refs()))), record: record.to_owned() }
    }

    /// All its refs have their new values, or all have their old ones. Or a person has to look at them.
    fn over(mut self) {
        if let Some((commit_observer, batch)) = self.commit_observer.take() {
            commit_observer.end(batch, None);
        }
    }
}

impl Drop for Showing<'_> {
    fn drop(&mut self) {
        if let Some((commit_observer, batch)) = self.commit_observer.take() {
            commit_observer.end(batch, Some(&self.record));
        }
    }
}

/// Brings a batch to an end whose write failed.
fn recover_failed(
    store: &Arc<Store>,
    id: BatchId,
    intent: &JournalEntry,
    error: Error,
    new_logs: &[PathBuf],
) -> Result<()> {
    match recover::recover(store, id, intent) {
        Ok(Outcome::Complete) => Ok(()),
        Ok(Outcome::Dropped) => {
            for log in new_logs {
                // Only a log that nobody needs is left if that fails.
                let _ = store.options.fs.remove_file(log);
            }
            Err(error)
        }
        Ok(Outcome::Half(refs)) => Err(Error::HalfDone { refs, source: Box::new(error) }),
        Err(_) => Err(Error::Unrecovered { record: journal::path(store, id), source: Box::new(error) }),
    }
}

/// The reflogs, the renames, and their folders made durable.
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
        // New folders were made durable with the locks in them.
        publish::sync_folders(store, &mut steps.iter().map(|(_, step)| step.name), &[])?;
    }
    Ok(())
}

fn intent(store: &Store, steps: &[(usize, Step<'_>)]) -> Result<JournalEntry> {
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
