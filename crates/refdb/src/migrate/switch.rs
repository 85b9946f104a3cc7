//! Runs the steps, each for all worktrees.

use super::{
    MigrateOptions, Migrated, Result, Ticker, late,
    place::{Place, Root, Site, hold_stack, make_folders},
    retire,
    steps::{Step, steps},
    strays, to_files,
    to_reftable::{self, Base, Copied},
};
use crate::{
    Error, MigrateError, RefFormat,
    files::{FilesBackend, FreshFiles, share},
};
use bstr::ByteSlice;
use refdb_types::{is_file_of_git, is_root_syntax};
use refdb_vfs::{EntryKind, Lock};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// A migration in progress.
pub(super) struct Switch<'s> {
    site: &'s Site<'s>,
    options: MigrateOptions,
    root: Root,
    /// Whether the new format is in effect.
    committed: bool,
    /// Whether each new file was synced individually.
    is_synced: bool,
    /// The state of the files that the tables were copied from, in the order of the worktrees; empty if this run did
    /// not copy them.
    copied: Vec<Copied>,
    // The locks are dropped in this order.
    /// The locks of all stacks, in the order of the worktrees. The stacks themselves are open one at a time.
    stacks: Vec<Lock>,
    config: Option<Lock>,
    packed: Option<Lock>,
}

impl<'s> Switch<'s> {
    /// Begins a migration. It checks first for what is known to make a later step fail. The only changes are that an
    /// empty folder in the place of a new stack and, before a migration to files, reflogs without refs are removed, and
    /// that the migration's folder is created.
    pub(super) fn new(site: &'s Site<'s>, options: &MigrateOptions, migrated: &mut Migrated) -> Result<Self> {
        for place in &site.places {
            retire::check_movable(site, place)?;
            if options.to == RefFormat::Reftable {
                retire::check_trees(site, place)?;
                retire::check_no_stack(site, place)?;
            }
        }
        site.store.repository().config_with_ref_format(&site.fs, options.to)?;
        if options.to == RefFormat::Files {
            migrated.lone_logs = strays::clear(site, options.dry_run)?;
        }
        Ok(Self::at(site, *options, site.make_root()?, false))
    }

    /// Continues a migration after [`Step::Commit`], where another run was interrupted.
    pub(super) fn resume(site: &'s Site<'s>, options: MigrateOptions, root: Root) -> Self {
        Self::at(site, options, root, true)
    }

    fn at(site: &'s Site<'s>, options: MigrateOptions, root: Root, committed: bool) -> Self {
        let (copied, stacks) = (Vec::new(), Vec::new());
        Switch { site, options, root, committed, is_synced: true, copied, stacks, config: None, packed: None }
    }

    /// Runs all steps. If one fails before the new format takes effect, everything is undone; what cannot be undone now
    /// is left to the next run, after [`MigrateError::NotUndone`] or [`MigrateError::Store`].
    pub(super) fn run(mut self, migrated: &mut Migrated, ticker: &mut Ticker<'_>) -> Result<()> {
        debug_assert!(!self.committed, "a migration that counts is finished, not begun");
        if self.options.dry_run {
            return self.run_dry(migrated, ticker);
        }
        for step in steps(self.options.to) {
            if let Err(error) = self.step(*step, migrated, ticker) {
                if self.committed {
                    return Err(self.unfinished(error));
                }
                return Err(self.undo(error));
            }
        }
        self.clear(migrated);
        Ok(())
    }

    /// Converts an error after [`Step::Commit`], except an interruption, to one that says that the migration is not
    /// finished.
    fn unfinished(&self, why: MigrateError) -> MigrateError {
        debug_assert!(self.committed, "before that, all is undone");
        match why {
            MigrateError::Store(Error::Interrupted(_)) => why,
            why => MigrateError::Unfinished { to: self.options.to.name(), why: Box::new(why) },
        }
    }

    fn run_dry(mut self, migrated: &mut Migrated, ticker: &mut Ticker<'_>) -> Result<()> {
        for step in [Step::HoldOld, Step::Build] {
            if let Err(error) = self.step(step, migrated, ticker) {
                return Err(self.undo(error));
            }
        }
        migrated.folder = Some(self.root.path);
        Ok(())
    }

    /// Runs the remaining steps after the new format has taken effect.
    pub(super) fn finish(mut self, migrated: &mut Migrated, ticker: &mut Ticker<'_>) -> Result<()> {
        debug_assert!(self.committed, "what does not count yet is undone");
        let hold: &[Step] = match self.options.to {
            RefFormat::Reftable => &[Step::HoldOld, Step::HoldNew],
            // The stack may be gone already, together with its lock file.
            RefFormat::Files => &[],
        };
        let rest = steps(self.options.to).iter().skip_while(|step| **step != Step::Fence);
        for step in hold.iter().chain(rest) {
            if let Err(error) = self.step(*step, migrated, ticker) {
                return Err(self.unfinished(error));
            }
        }
        self.clear(migrated);
        Ok(())
    }

    fn step(&mut self, step: Step, migrated: &mut Migrated, ticker: &mut Ticker<'_>) -> Result<()> {
        let to = self.options.to;
        match (step, to) {
            (Step::HoldOld, RefFormat::Reftable) => {
                let target = self.site.common.join("packed-refs");
                self.packed = Some(Lock::acquire(&self.site.fs, &target, 0o666, self.site.lock_timeout())?);
                Ok(())
            }
            (Step::HoldOld, RefFormat::Files) | (Step::HoldNew, _) => self.lock_stacks(),
            (Step::Build, RefFormat::Reftable) => self.build_tables(migrated, ticker),
            (Step::Build, RefFormat::Files) => self.build_files(migrated, ticker),
            (Step::Note, _) => self.note(),
            (Step::Install, RefFormat::Reftable) => self.install_tables(),
            (Step::Install, RefFormat::Files) => self.install_files(),
            (Step::Sync, _) => self.sync(),
            (Step::Commit, _) => self.commit(),
            (Step::Fence, RefFormat::Reftable) => retire::files(self.site, &self.root),
            (Step::Fence, RefFormat::Files) => retire::stacks(self.site, &self.root),
            (Step::Look, _) => self.look(migrated),
            (Step::Done, _) => self.root.finish(&self.site.fs, !migrated.conflicts.is_empty()),
        }
    }

    fn lock_stacks(&mut self) -> Result<()> {
        debug_assert!(self.stacks.is_empty(), "each stack is locked once");
        for place in &self.site.places {
            self.stacks.push(hold_stack(self.site, place)?);
        }
        Ok(())
    }

    fn build_tables(&mut self, migrated: &mut Migrated, ticker: &mut Ticker<'_>) -> Result<()> {
        let Switch { site, root, options, copied, .. } = self;
        for place in &site.places {
            let files = FilesBackend::new(site.files(&site.common, place));
            let folder = place.below(&root.path).join("reftable");
            make_folders(&site.fs, &root.path, &folder)?;
            let copy = |migrated: &mut Migrated, ticker: &mut Ticker<'_>| {
                to_reftable::copy(&files, &site.stack(&folder)?, options.reflogs, migrated, ticker)
            };
            let before = (migrated.lines_left_out, migrated.entries_cut);
            copied.push(match copy(migrated, ticker) {
                // If packed-refs is not sorted as its header claims, it is read in order from now on.
                Err(MigrateError::Store(Error::Table(reftable::Error::Order { .. }))) => {
                    (migrated.lines_left_out, migrated.entries_cut) = before;
                    copy(migrated, ticker)?
                }
                copied => copied?,
            });
        }
        Ok(())
    }

    fn build_files(&mut self, migrated: &mut Migrated, ticker: &mut Ticker<'_>) -> Result<()> {
        let Switch { site, root, options, stacks, is_synced, .. } = self;
        assert_eq!(stacks.len(), site.places.len(), "a stack is locked while it is copied");
        for place in &site.places {
            let folder = place.below(&root.path);
            let usual: &[&str] = if place.id.is_none() { &["refs/heads", "refs/tags"] } else { &["refs"] };
            let settings = site.files(&root.path, place);
            for name in usual {
                make_folders(&site.fs, &root.path, &folder.join(name))?;
                share(&site.fs, &folder.join(name), settings.sharing, true)?;
            }
            let snapshot = site.stack(&place.reftable())?.snapshot();
            *is_synced &= to_files::copy(
                snapshot.merged(),
                place,
                FreshFiles::new(settings),
                options.reflogs,
                &mut migrated.lines_left_out,
                ticker,
            )?;
        }
        Ok(())
    }

    fn note(&mut self) -> Result<()> {
        let Switch { site, root, options, .. } = self;
        root.note(&site.fs, options)?;
        if options.to == RefFormat::Reftable {
            site.places.iter().try_for_each(|place| make_folders(&site.fs, &root.path, &place.new_reftable(root)))?;
        }
        // The placeholders are written now, because the disk may be full when they are needed at the end, or to undo
        // everything.
        site.places.iter().try_for_each(|place| retire::prepare_blanks(site, root, place))
    }

    /// Locks the configuration against changes, and fails if worktrees have been added or removed.
    fn lock_config(&mut self) -> Result<()> {
        let site = self.site;
        self.config = Some(Lock::acquire(&site.fs, &site.config_target(), 0o666, site.lock_timeout())?);
        site.check_worktrees()
    }

    fn install_tables(&mut self) -> Result<()> {
        self.lock_config()?;
        let Switch { site, root, .. } = self;
        for place in &site.places {
            retire::try_root_refs(site, root, place)?;
            // The folder appears with everything in it, because a program that opened the repository before an earlier
            // migration, when the refs were in reftables, could write to a folder without a list.
            let (built, new) = (place.below(&root.path).join("reftable"), place.new_reftable(root));
            share(&site.fs, &new, site.files(&site.common, place).sharing, true)?;
            // The tables are linked and not moved, because the old files are compared with those in the migration's
            // folder later.
            for (name, _) in site.fs.read_dir(&built)? {
                let name = OsStr::from_bytes(&name);
                link_or_copy(site, &built.join(name), &new.join(name))?;
            }
            let folder = place.reftable();
            match site.fs.rename(&new, &folder) {
                Err(_) if site.fs.find_link(&folder)?.is_some() => return Err(MigrateError::InTheWay(folder)),
                renamed => renamed?,
            }
        }
        Ok(())
    }

    fn install_files(&mut self) -> Result<()> {
        self.lock_config()?;
        let Switch { site, root, .. } = self;
        for place in &site.places {
            retire::take_blanks(site, root, place)?;
            let built = place.below(&root.path);
            for (name, _) in site.fs.read_dir(&built.join("refs"))? {
                let name = Path::new("refs").join(OsStr::from_bytes(&name));
                put(site, &built, place, &name)?;
            }
            let mut entries = site.fs.read_dir(&built)?;
            // HEAD is last: its placeholder stays until all other files are in place.
            entries.sort_unstable_by_key(|(name, _)| name == b"HEAD");
            for (name, kind) in entries {
                let is_file = kind == EntryKind::File;
                let is_packed = name == b"packed-refs" && place.id.is_none();
                if name == b"logs"
                    || is_file && (is_packed || is_root_syntax(name.as_bstr()) && !is_file_of_git(name.as_bstr()))
                {
                    put(site, &built, place, Path::new(OsStr::from_bytes(&name)))?;
                }
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let fs = &self.site.fs;
        if !self.is_synced {
            fs.sync_all(&self.site.common)?;
        }
        for place in &self.site.places {
            let names: &[&str] = match self.options.to {
                RefFormat::Reftable => &["reftable", ""],
                RefFormat::Files => &["refs", ""],
            };
            names.iter().try_for_each(|name| fs.sync_dir(&place.dir.join(name)))?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let Switch { site, .. } = self;
        site.check_worktrees()?;
        assert!(!self.committed, "the new format counts once");
        let text = site.store.repository().config_with_ref_format(&site.fs, self.options.to)?;
        let Some(mut lock) = self.config.take() else {
            unreachable!("the configuration is locked before it is changed")
        };
        let file = lock.content()?;
        file.write_all(&text)?;
        if let Some(before) = site.fs.find(lock.target())? {
            lock.content()?.set_mode(before.mode & 0o7777)?;
        }
        lock.content()?.sync()?;
        lock.close();
        lock.publish()?;
        self.committed = true;
        // The file may be in another folder, to which a symbolic link leads.
        let folder = lock.target().parent().unwrap_or(&site.common).to_owned();
        lock.release()?;
        Ok(site.fs.sync_dir(&folder)?)
    }

    fn look(&mut self, migrated: &mut Migrated) -> Result<()> {
        let Switch { site, root, options, stacks, copied, .. } = self;
        assert_eq!(stacks.len(), site.places.len(), "nobody writes to a stack before the old files were looked at");
        assert!(copied.is_empty() || copied.len() == site.places.len(), "each place was copied, or none");
        for (at, (place, lock)) in site.places.iter().zip(stacks.drain(..)).enumerate() {
            let addition = site.stack(&place.reftable())?.locked(lock)?;
            let stack = site.stack(&place.below(&root.path).join("reftable"))?;
            let copy = stack.snapshot();
            let (merged, write) = (copy.merged(), stack.options().write);
            let base = Base { merged, copied: copied.get(at), reflogs: options.reflogs, write };
            late::take_over(site, root, place, &base, addition, migrated)?;
        }
        Ok(())
    }

    /// Removes what was created, because of this error, and returns the error to report. Whatever cannot be removed is
    /// left to the next run.
    fn undo(mut self, why: MigrateError) -> MigrateError {
        self.stacks.clear();
        self.config = None;
        let undone = retire::undo(self.site, &self.root, self.options.to);
        match (undone.and_then(|()| self.root.remove(&self.site.fs)), why) {
            // An error of this kind allows for files that are left.
            (Ok(()), why) | (Err(_), why @ MigrateError::Store(_)) => why,
            (Err(left), why) => MigrateError::NotUndone { why: Box::new(why), left: Box::new(left) },
        }
    }

    /// Removes what is no longer needed. Whatever cannot be removed is left to the next run.
    fn clear(mut self, migrated: &mut Migrated) {
        self.stacks.clear();
        // As long as the note exists, the next run checks whether this run left its locks.
        self.packed = None;
        if migrated.conflicts.is_empty() {
            let _ = self.root.remove(&self.site.fs);
        } else {
            migrated.kept = Some(self.root.old());
        }
    }
}

fn link_or_copy(site: &Site<'_>, from: &Path, to: &Path) -> Result<()> {
    match site.fs.hard_link(from, to) {
        Ok(()) => return Ok(()),
        Err(error) if error.is_exists() => return Err(error.into()),
        Err(_) => {}
    }
    // The file system may not support hard links. The copy is made in the migration's folder, because a part of it at
    // `to` would be left if the migration were killed.
    let source = site.fs.open(from)?;
    let stat = source.stat()?;
    let mut part = from.as_os_str().to_owned();
    part.push(".part");
    let mut file = site.fs.create_new(part.as_ref(), 0o666)?;
    file.copy_from(&source, 0, stat.len_bytes)?;
    file.set_mode(stat.mode & 0o7777)?;
    // Unlike a link, the copy is not on stable storage yet.
    file.sync()?;
    drop(file);
    Ok(site.fs.rename_new(part.as_ref(), to)?)
}

/// Moves a file or folder that was built to its final place.
fn put(site: &Site<'_>, built: &Path, place: &Place, name: &Path) -> Result<()> {
    let target = place.dir.join(name);
    if !retire::make_room(site, &target)? {
        return Err(MigrateError::InTheWay(target));
    }
    // Without the copy that stays, nobody would know such a file for one of the migration if all has to be undone.
    if retire::is_unlisted(name.as_os_str().as_bytes().as_bstr()) {
        return link_or_copy(site, &built.join(name), &target);
    }
    Ok(site.fs.rename(&built.join(name), &target)?)
}
