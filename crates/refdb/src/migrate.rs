//! Brings a repository's refs into the other format, beside writers, so that a crash loses nothing (decision 0074).
//!
//! Read in the order of the modules, which is that of the work.

// `steps` has the order of all, and the answer to a crash. `place` knows whose refs there are, and where they lie meanwhile.
// `to_reftable` and `to_files` copy, `switch` does the steps, `retire` moves the old files away. `late` finds the changes that
// others made meanwhile, `late_refs` those of refs and `late_logs` those of reflogs. `leftover` ends an earlier run. `levels`
// finds refs below others, `strays` files where no ref should be. `in_two` lets a second thread help with very many files.
mod in_two;
mod late;
mod late_logs;
mod late_refs;
mod leftover;
mod levels;
mod place;
mod retire;
mod steps;
mod strays;
mod switch;
mod to_files;
mod to_reftable;

pub use late::Conflict;
pub use leftover::Recovered;

use crate::{Error, MigrateError, RefFormat, Result, Store, files::FilesBackend};
use bstr::BString;
use place::{Site, hold};
use refdb_vfs::interrupt;
use std::path::PathBuf;
use switch::Switch;

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MigrateOptions {
    /// The format that the refs shall have.
    pub to: RefFormat,
    /// Whether reflogs are kept. Otherwise they are gone.
    pub reflogs: bool,
    /// Only writes the refs in the new format beside the repository, and changes nothing of it.
    pub dry_run: bool,
}

impl MigrateOptions {
    /// The options for this format: with reflogs, and not as a dry run.
    pub fn new(to: RefFormat) -> Self {
        MigrateOptions { to, reflogs: true, dry_run: false }
    }

    /// Sets [`MigrateOptions::reflogs`](#structfield.reflogs).
    #[must_use]
    pub fn reflogs(mut self, reflogs: bool) -> Self {
        self.reflogs = reflogs;
        self
    }

    /// Sets [`MigrateOptions::dry_run`](#structfield.dry_run).
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Migrated {
    /// Where the result of a dry run is.
    pub folder: Option<PathBuf>,
    /// What became of an earlier migration that did not end.
    pub recovered: Option<Recovered>,
    /// Refs that writers of the old format changed meanwhile: they have the changed value.
    pub taken_over: Vec<BString>,
    /// Refs that were changed in both formats. They have the new format's value.
    pub conflicts: Vec<Conflict>,
    /// The folder that keeps the old files because of them.
    pub kept: Option<PathBuf>,
    /// What was written to the old place too late to be taken over, by its path from the repository's folder.
    pub strays: Vec<BString>,
    /// Reflogs without their refs, which such programs left before. They are gone, but for a dry run.
    pub lone_logs: Vec<BString>,
    /// Lines of reflogs that were no entries, or lacked both values, and were left out.
    pub lines_left_out: u64,
    /// Entries of reflogs that were cut, since no block of a table has room for them.
    pub entries_cut: u64,
}

/// Called with the number of refs and reflog entries done so far.
pub type OnProgress<'p> = &'p mut dyn FnMut(u64);

/// Between two calls of [`OnProgress`], and two looks for a signal.
const DONE_BETWEEN_LOOKS: u64 = 4096;

/// Counts the refs and entries that are done, tells their number, and heeds signals.
pub(crate) struct Ticker<'p> {
    done: u64,
    tell: OnProgress<'p>,
}

impl Ticker<'_> {
    /// One more is done.
    #[inline]
    fn pass(&mut self) -> Result<()> {
        self.done += 1;
        if self.done.is_multiple_of(DONE_BETWEEN_LOOKS) { self.look() } else { Ok(()) }
    }

    fn look(&mut self) -> Result<()> {
        (self.tell)(self.done);
        interrupt::check().map_err(Error::Interrupted)
    }
}

impl Store {
    /// Brings all refs and reflogs, those of every worktree too, into the other format.
    ///
    /// Writers of either format may go on meanwhile. They wait, or fail, or their change is in the new format too. A store
    /// that was opened before refuses to write afterwards, and has to be opened again. The new files are on stable storage
    /// before the old ones go, whatever `core.fsync` says. A run that ends half-way leaves the refs whole, in the old format
    /// or in the new one. The next run takes its remains away. A full disk ends it with an error before anything has changed.
    ///
    /// A table takes some 20 bytes of memory a ref while it is written. The names of all reflogs are in memory besides.
    pub fn migrate(&self, options: &MigrateOptions, progress: OnProgress<'_>) -> Result<Migrated> {
        if !self.backend().is_on_disk() {
            return Err(MigrateError::InMemory.into());
        }
        let mut migrated = Migrated::default();
        let mut ticker = Ticker { done: 0, tell: progress };
        let site = &Site::of(self)?;
        let running = hold(site)?;
        migrated.recovered = leftover::recover(site, options.to, &mut migrated, &mut ticker)?;
        let now = site.format_on_disk()?;
        if let Some(files) = self.backend_as::<FilesBackend>().filter(|_| now == RefFormat::Files && !options.dry_run) {
            // In the other format nobody would know of its record.
            files.recover_all()?;
        }
        if now == options.to {
            return match migrated.recovered {
                Some(Recovered::Finished) if !options.dry_run => Ok(migrated),
                _ => Err(MigrateError::SameFormat(now.name()).into()),
            };
        }
        if now != self.repository().ref_format() {
            self.repository().format_watch().map_or(Ok(()), |watch| watch.check(self.fs()))?;
        }
        Switch::new(site, options, &mut migrated)?.run(&mut migrated, &mut ticker)?;
        if migrated.folder.is_none() {
            migrated.strays = strays::of(site, options.to)?;
        }
        drop(running);
        Ok(migrated)
    }

    /// Names the files that lie where the other format has its refs, by their paths from the repository's folder. A program
    /// that opened the repository before it was migrated may have written them.
    pub fn strays(&self) -> Result<Vec<BString>> {
        if self.backend().is_on_disk() { strays::all(self) } else { Ok(Vec::new()) }
    }
}
