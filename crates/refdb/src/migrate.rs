//! Migrates the refs of a repository to the other format while writers continue, such that a crash loses nothing
//! (decision 0074).
//!
//! The modules are best read in the order of the work, which the comment below gives.

// `steps` defines the order of the steps and the response to a crash. `place` knows which worktrees have refs, and
// where the refs are before, during and after a migration. `to_reftable` and `to_files` copy, `switch` runs the steps,
// and `retire` moves the old files away. `late` finds the changes that others made in the meantime, with `late_refs`
// for refs and `late_logs` for reflogs. `leftover` finishes or undoes an earlier run. `levels` finds refs below
// others, and `strays` finds files where no ref should be. `in_two` divides work on very many files between two
// threads.
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

use crate::{Error, MigrateError, RefFormat, Store, files::FilesBackend};
use bstr::BString;
use place::{Site, hold};
use refdb_vfs::interrupt;
use std::path::PathBuf;
use switch::Switch;

/// The result of a part of a migration.
type Result<T, E = MigrateError> = std::result::Result<T, E>;

/// The options of a migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MigrateOptions {
    /// The format to which the refs are migrated.
    pub to: RefFormat,
    /// Whether reflogs are kept. If not, they are deleted.
    pub reflogs: bool,
    /// Whether this is a dry run, which writes the refs in the new format to a folder of their own and changes nothing
    /// else, except that it finishes or undoes an earlier migration that was interrupted, and removes an empty folder
    /// in the place of the new tables.
    pub dry_run: bool,
}

impl MigrateOptions {
    /// Returns the options for a migration to this format, with reflogs, and not as a dry run.
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

/// The result of a migration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Migrated {
    /// The folder with the result of a dry run.
    pub folder: Option<PathBuf>,
    /// What happened to an earlier migration that was interrupted, if there was one.
    pub recovered: Option<Recovered>,
    /// Refs that writers of the old format changed during the migration; the new format has the changed values.
    pub taken_over: Vec<BString>,
    /// Refs whose changes in the old format were not taken over, for a reason that [`Conflict`] gives; they keep the
    /// values of the new format.
    pub conflicts: Vec<Conflict>,
    /// The folder in which the old files are kept if there are conflicts.
    pub kept: Option<PathBuf>,
    /// Files, or folders of stacks, that were written to the old place too late to be taken over, by their paths
    /// relative to the repository. After a migration to reftables also the files of refs such as `TEMP_TAG`, which
    /// `git update-ref` can make but git neither lists nor migrates.
    pub strays: Vec<BString>,
    /// Reflogs without refs that lay as files beside the tables before a migration to files, by their paths. A program
    /// that opened the repository before it was migrated to reftables may have left them. They are removed except in a
    /// dry run.
    pub lone_logs: Vec<BString>,
    /// The number of lines of reflogs that were left out of the copy, because they were malformed or had neither an old
    /// nor a new value. Lines that were added during the migration are not counted.
    pub lines_left_out: u64,
    /// The number of reflog entries that were shortened to fit into a block of a table: the message, or the name or
    /// email of the committer. Entries that were added during the migration are not counted.
    pub entries_cut: u64,
}

/// A function that is called with the number of refs and reflog entries that are done so far.
pub type OnProgress<'p> = &'p mut dyn FnMut(u64);

/// The number of refs and entries between two calls of [`OnProgress`], and between two checks for a signal.
const DONE_BETWEEN_LOOKS: u64 = 4096;

/// Counts the refs and entries that are done, reports their number, and checks for signals.
pub(crate) struct Ticker<'p> {
    done: u64,
    tell: OnProgress<'p>,
}

impl Ticker<'_> {
    /// Counts one more ref or entry.
    ///
    /// # Errors
    ///
    /// If a signal to stop has arrived.
    #[inline]
    fn pass(&mut self) -> Result<(), Error> {
        self.done += 1;
        if self.done.is_multiple_of(DONE_BETWEEN_LOOKS) { self.look() } else { Ok(()) }
    }

    fn look(&mut self) -> Result<(), Error> {
        (self.tell)(self.done);
        interrupt::check().map_err(Error::Interrupted)
    }
}

impl Store {
    /// Migrates all refs that git lists to the other format, including root refs and those of every worktree, and their
    /// reflogs unless `options` has them deleted.
    ///
    /// Writers of either format may continue during the migration: they wait, or fail, or their change is taken over
    /// into the new format or reported in [`Migrated::conflicts`] or [`Migrated::strays`]. A store that was opened
    /// before the migration refuses to write afterwards, and has to be opened again. The new files are on stable
    /// storage before the old ones are removed, regardless of `core.fsync`.
    ///
    /// Writing a table takes 36 to 72 bytes of memory for each ref with SHA-1, for the index from objects to refs. The
    /// names of all reflogs are held in memory as well.
    ///
    /// # Errors
    ///
    /// If the refs cannot be migrated, or if files cannot be read or written ([`MigrateError::Store`]). A run that
    /// fails or is interrupted leaves all refs intact, in the old format or in the new one, and the next run finishes
    /// or undoes it. If the disk has no room for the copy of the refs, the run fails before any ref has changed.
    pub fn migrate(&self, options: &MigrateOptions, progress: OnProgress<'_>) -> Result<Migrated> {
        if !self.backend().is_on_disk() {
            return Err(MigrateError::InMemory);
        }
        let mut migrated = Migrated::default();
        let mut ticker = Ticker { done: 0, tell: progress };
        let site = &Site::of(self)?;
        let running = hold(site)?;
        migrated.recovered = leftover::recover(site, options.to, &mut migrated, &mut ticker)?;
        let now = site.format_on_disk()?;
        if let Some(files) = self.backend_as::<FilesBackend>().filter(|_| now == RefFormat::Files && !options.dry_run) {
            // The journal of small batches is recovered first, because the other format does not know it.
            files.recover_all()?;
        }
        if now != options.to {
            if now != self.repository().ref_format() {
                self.repository().format_watch().map_or(Ok(()), |watch| watch.check(self.fs()))?;
            }
            Switch::new(site, options, &mut migrated)?.run(&mut migrated, &mut ticker)?;
        } else if options.dry_run || !matches!(migrated.recovered, Some(Recovered::Finished)) {
            return Err(MigrateError::SameFormat(now.name()));
        }
        if migrated.folder.is_none() {
            migrated.strays = strays::of(site, options.to, strays::Unlisted::Told)?;
        }
        drop(running);
        Ok(migrated)
    }

    /// Returns the files, or the folders of stacks, that lie where the other format has its refs, by their paths
    /// relative to the repository. A program that opened the repository before it was migrated may have written them.
    ///
    /// # Errors
    ///
    /// If the list of worktrees or a folder cannot be read.
    pub fn strays(&self) -> crate::Result<Vec<BString>> {
        if self.backend().is_on_disk() { strays::all(self) } else { Ok(Vec::new()) }
    }
}
