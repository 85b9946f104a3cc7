//! Determines which worktrees have refs, and where the refs are before, during and after a migration.

use super::{MigrateOptions, Result};
use crate::{
    Config, Environment, Error, MigrateError, Misuse, Reading, RefFormat, Repository, RepositoryError, Settings, Store,
    files::FilesOptions, store,
};
use bstr::{BString, ByteSlice};
use refdb_vfs::{EntryKind, Fs, Lock, LockError, LockTimeout};
use reftable::stack::{Durability, Stack, StackOptions};
use std::{
    collections::hash_map::RandomState,
    ffi::OsStr,
    hash::{BuildHasher, Hasher},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The folder of a worktree. The folder of the main worktree also contains the shared refs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The id of the linked worktree; `None` for the main worktree.
    pub(super) id: Option<BString>,
    /// The worktree's own folder, in which its refs are before and after a migration.
    pub(super) dir: PathBuf,
}

impl Place {
    /// Returns the folder of the worktree below another folder that stands for the repository.
    pub(super) fn below(&self, folder: &Path) -> PathBuf {
        debug_assert!(self.id.as_ref().is_none_or(|id| !id.contains(&b'/')), "a worktree has one folder: {self:?}");
        match &self.id {
            None => folder.to_owned(),
            Some(id) => folder.join("worktrees").join(OsStr::from_bytes(id)),
        }
    }

    /// Returns the folder of the worktree's stack.
    pub(super) fn reftable(&self) -> PathBuf {
        self.dir.join("reftable")
    }

    /// Returns the folder that becomes the worktree's stack. It exists from the step `Note` of a migration to reftables
    /// until it is moved to its final place.
    pub(super) fn new_reftable(&self, root: &Root) -> PathBuf {
        self.below(&root.path).join("new")
    }
}

/// The repository, as a migration sees it.
pub(super) struct Site<'s> {
    pub(super) store: &'s Store,
    /// The file system, with which locks are signed, so that those of a killed migration can be removed.
    pub(super) fs: Fs,
    pub(super) common: PathBuf,
    pub(super) places: Vec<Place>,
    /// The settings of the files format, and those of reftables.
    settings: [Settings; 2],
}

impl<'s> Site<'s> {
    pub(super) fn of(store: &'s Store) -> Result<Self> {
        let (config, environment): (&Config, &Environment) = (store.config(), store.environment());
        let is_bare = store.repository().is_bare();
        let settings =
            [Settings::load(config, environment, is_bare, false)?, Settings::load(config, environment, is_bare, true)?];
        // With a bad setting, all commands that write would fail after the migration, so the migration is refused.
        if let Some(what) = settings.iter().find_map(|settings| settings.bad_for_writers.clone()) {
            return Err(Misuse::Setting(what).into());
        }
        Self::with(store, settings)
    }

    /// Creates a site for a caller that only examines which files exist, so that the settings of the other format do
    /// not matter.
    pub(super) fn to_look_at(store: &'s Store) -> Result<Self> {
        Self::with(store, [store.settings().clone(), store.settings().clone()])
    }

    fn with(store: &'s Store, settings: [Settings; 2]) -> Result<Self> {
        let repository: &Repository = store.repository();
        if repository.format_watch().is_none() {
            return Err(MigrateError::Environment);
        }
        if repository.refs_dir() != repository.common_dir() {
            return Err(MigrateError::Elsewhere(repository.refs_dir().to_owned()));
        }
        let fs = store.fs().clone().signing_locks();
        let common = repository.common_dir().to_owned();
        let places = places(store, &common)?;
        debug_assert!(places.iter().filter(|place| place.id.is_none()).count() == 1, "there is one main worktree");
        Ok(Site { store, fs, common, places, settings })
    }

    /// Returns the format that the configuration currently names.
    pub(super) fn format_on_disk(&self) -> Result<RefFormat> {
        match Repository::at_again(&self.fs, self.store.environment(), &self.common) {
            Ok(repository) => Ok(repository.ref_format()),
            Err(RepositoryError::NotARepository(folder)) if self.is_from_a_worktree() => {
                Err(MigrateError::MainHead(folder.join("HEAD")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the migration was called in a linked worktree, which does not need the `HEAD` of the main
    /// worktree.
    fn is_from_a_worktree(&self) -> bool {
        self.store.repository().git_dir() != self.common
    }

    /// Fails if worktrees have been added or removed since the beginning.
    pub(super) fn check_worktrees(&self) -> Result<()> {
        if places(self.store, &self.common)? == self.places { Ok(()) } else { Err(MigrateError::WorktreesChanged) }
    }

    /// Returns the options for reading and writing the files of a worktree, below a folder that stands for the
    /// repository.
    pub(super) fn files(&self, folder: &Path, place: &Place) -> FilesOptions {
        let store = self.store;
        let objects = store.object_check();
        let [settings, _] = &self.settings;
        let options = store::files_options(&self.fs, store.repository(), settings, &Reading::Mapped, false, objects);
        let (git_dir, common_dir) = (place.below(folder), folder.to_owned());
        debug_assert_eq!(
            git_dir == common_dir,
            place.id.is_none(),
            "only the main worktree's folder is the common one"
        );
        FilesOptions { git_dir, common_dir, worktree: place.id.clone(), format: None, ..options }
    }

    /// Returns the path of the configuration file, or of the file to which it leads if it is a symbolic link. This is
    /// the file that writers lock and replace.
    pub(super) fn config_target(&self) -> PathBuf {
        let path = self.common.join("config");
        path.canonicalize().unwrap_or(path)
    }

    /// Opens the stack in a folder. Additions to it are synced.
    pub(super) fn stack(&self, folder: &Path) -> Result<Stack> {
        Ok(Stack::open(self.fs.clone(), folder, self.stack_options())?)
    }

    fn stack_options(&self) -> StackOptions {
        let (store, [_, settings]) = (self.store, &self.settings);
        let (repository, environment) = (store.repository(), store.environment());
        let options = store::stack_options(&self.fs, repository, settings, environment, &Reading::Mapped, true);
        debug_assert_eq!(options.durability, Durability::Sync, "what a migration writes outlasts what it removes");
        options
    }

    /// Returns the lock timeout for stacks.
    pub(super) fn stack_lock_timeout(&self) -> LockTimeout {
        self.settings[1].reftable.lock_timeout.unwrap_or(LONG)
    }

    /// Returns the lock timeout for the locks of packed-refs, root refs and the configuration.
    pub(super) fn lock_timeout(&self) -> LockTimeout {
        self.settings[0].packed_refs_timeout.unwrap_or(LONG)
    }

    /// Creates a folder with a new name for the copy.
    pub(super) fn make_root(&self) -> Result<Root> {
        const TRIES: usize = 32;
        let mut tries = 0;
        loop {
            let path = self.common.join(format!("{ROOT_START}{}", random_letters()));
            match self.fs.create_dir(&path, 0o700) {
                Ok(()) => return Ok(Root { path }),
                Err(error) if error.is_exists() && tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the folders that other migrations, and dry runs, have left.
    pub(super) fn roots(&self) -> Result<Vec<Root>> {
        let entries = self.fs.read_dir(&self.common)?;
        let is_root = |(name, kind): &(Vec<u8>, EntryKind)| {
            *kind == EntryKind::Dir && name.starts_with(ROOT_START.as_bytes()) && !name.ends_with(b".lock")
        };
        let mut roots: Vec<Root> = entries
            .iter()
            .filter(|entry| is_root(entry))
            .map(|(name, _)| Root { path: self.common.join(OsStr::from_bytes(name)) })
            .collect();
        roots.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(roots)
    }
}

/// The lock timeout if the settings have none. Others normally hold the locks for less time than this.
const LONG: LockTimeout = LockTimeout::For(std::time::Duration::from_secs(15));

/// The content of HEAD beside reftables, for programs that only check whether this is a repository.
pub(super) const BLANK_HEAD: &[u8] = b"ref: refs/heads/.invalid\n";
/// The content of the file in the place of the folder `refs/heads`.
pub(super) const BLANK_HEADS: &[u8] = b"this repository uses the reftable format\n";

/// The beginning of the name of a migration's folder, as in git.
const ROOT_START: &str = "ref_migration.";

fn places(store: &Store, common: &Path) -> Result<Vec<Place>> {
    let main = Place { id: None, dir: common.to_owned() };
    let linked = store.repository().worktrees(store.fs())?;
    Ok(std::iter::once(main)
        .chain(linked.into_iter().map(|tree| Place { id: Some(tree.id), dir: tree.git_dir }))
        .collect())
}

/// Returns six random letters or digits. The hashers of the standard library are seeded with randomness of the system.
fn random_letters() -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut number = RandomState::new().build_hasher().finish();
    let mut letter = || {
        let at = (number % LETTERS.len() as u64) as usize;
        number /= LETTERS.len() as u64;
        char::from(LETTERS[at])
    };
    let letters: String = (0..6).map(|_| letter()).collect();
    debug_assert!(letters.len() == 6, "as git's have: {letters}");
    letters
}

/// Returns the path that a running migration locks.
fn running(site: &Site<'_>) -> PathBuf {
    site.common.join("ref_migration")
}

/// Takes the lock that excludes other migrations by refdb.
pub(super) fn hold(site: &Site<'_>) -> Result<Lock> {
    match Lock::acquire(&site.fs, &running(site), 0o666, LockTimeout::None) {
        Ok(lock) => Ok(lock),
        Err(held @ LockError::Held { .. }) => Err(MigrateError::Running(held)),
        Err(LockError::Io(error)) => Err(error.into()),
    }
}

/// Takes the lock that excludes writers of a worktree's stack. Where the file system permits, it is made as a hard link
/// to the lock that [`hold`] took, so that no file is held open for each worktree.
pub(super) fn hold_stack(site: &Site<'_>, place: &Place) -> Result<Lock> {
    let (list, lock_timeout) = (Stack::list_path_in(&place.reftable()), site.stack_lock_timeout());
    let held = match Lock::acquire_linked(&site.fs, &list, &Lock::path_of(&running(site)), lock_timeout) {
        // The file system has no hard links, or permits only a few for each file.
        Err(LockError::Io(_)) => Lock::acquire(&site.fs, &list, 0o666, lock_timeout),
        linked => linked,
    };
    held.map_err(|error| match error {
        held @ LockError::Held { .. } => Error::StackLocked(held).into(),
        LockError::Io(error) => error.into(),
    })
}

/// The folder that a migration works in.
///
/// ```text
/// plan          which format is made: only in a folder of a migration that changes the repository
/// done          the same, renamed, once all that remains can go
/// reftable/ or packed-refs, refs/, logs/, HEAD   the copy; that of a linked worktree below worktrees/ID/
/// new/          the files of the copy in reftable/, linked or copied, until the folder is moved to its final place; that
///               of a linked worktree below worktrees/ID/
/// blank/        what stands for HEAD and refs/heads beside reftables
/// old/          the old files or stacks, or the new ones if the migration is undone
/// ```
pub(super) struct Root {
    pub(super) path: PathBuf,
}

impl Root {
    fn plan(&self) -> PathBuf {
        self.path.join("plan")
    }

    fn done(&self) -> PathBuf {
        self.path.join("done")
    }

    /// Returns the folder to which the old files or stacks are moved, or the new ones if the migration is undone.
    pub(super) fn old(&self) -> PathBuf {
        self.path.join("old")
    }

    /// Returns the folder of the two placeholders that a repository with reftables has in place of `HEAD` and
    /// `refs/heads`.
    pub(super) fn blank(&self) -> PathBuf {
        self.path.join("blank")
    }

    /// Writes a note that says which migration this is.
    pub(super) fn note(&self, fs: &Fs, options: &MigrateOptions) -> Result<()> {
        debug_assert!(!options.dry_run, "a dry run is nobody's leftover");
        let mut file = fs.create_new(&self.plan(), 0o666)?;
        file.write_all(plan_text(options).as_bytes())?;
        file.sync()?;
        fs.sync_dir(&self.path)?;
        Ok(fs.sync_dir(self.path.parent().unwrap_or(Path::new(".")))?)
    }

    /// Reads the note. Returns the options of the migration, and whether only the removal of the folder is left.
    /// Returns `None` if there is no complete note: nothing was changed yet, the folder was being removed, or it is the
    /// result of a dry run or was kept for people.
    pub(super) fn noted(&self, fs: &Fs) -> Result<Option<(MigrateOptions, bool)>> {
        for (path, is_done) in [(self.plan(), false), (self.done(), true)] {
            let text = match fs.read(&path) {
                Err(error) if error.is_not_found() => continue,
                text => text?,
            };
            // A truncated note was not synced, so no step that depends on it was done.
            let options = all_options().find(|options| plan_text(options).as_bytes() == text);
            return Ok(options.map(|options| (options, is_done)));
        }
        Ok(None)
    }

    /// Records that nothing in the folder is needed any more, or, if it is kept, that only people need it.
    pub(super) fn finish(&self, fs: &Fs, is_kept: bool) -> Result<()> {
        if is_kept {
            fs.remove_file(&self.plan())?
        } else {
            fs.rename(&self.plan(), &self.done())?
        }
        Ok(fs.sync_dir(&self.path)?)
    }

    /// Removes the folder if it is empty or contains only a part of the note. Any other folder without a note is the
    /// result of a dry run, or was kept for people.
    pub(super) fn remove_if_bare(&self, fs: &Fs) -> Result<Option<Bare>> {
        let bare = match &fs.read_dir(&self.path)?[..] {
            [] => Bare::Empty,
            [(name, _)] if name == b"plan" => Bare::Begun,
            _ => return Ok(None),
        };
        self.remove(fs)?;
        Ok(Some(bare))
    }

    /// Removes the folder with everything in it.
    pub(super) fn remove(&self, fs: &Fs) -> Result<()> {
        let name = self.path.file_name().unwrap_or_default();
        assert!(
            name.as_bytes().starts_with(ROOT_START.as_bytes()),
            "only a migration's own folder is removed: {name:?}"
        );
        // A symbolic link in place of the folder was not created by a migration, and its target must not be removed.
        let folder = fs.folder_no_follow(&self.path)?;
        // The note is removed last, because until then it tells the next run what the folder is.
        for (name, kind) in folder.entries()? {
            if !matches!(name.as_bytes(), b"plan" | b"done") {
                folder.remove_tree(OsStr::from_bytes(&name), kind)?;
            }
        }
        for note in ["plan", "done"] {
            folder.remove_tree(OsStr::new(note), EntryKind::File)?;
        }
        Ok(fs.remove_dir(&self.path)?)
    }
}

/// What was in a folder that [`Root::remove_if_bare`] removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bare {
    /// The folder was empty: the migration had not begun, or had ended.
    Empty,
    /// The folder contained a part of the note.
    Begun,
}

fn all_options() -> impl Iterator<Item = MigrateOptions> {
    let formats = [RefFormat::Files, RefFormat::Reftable].into_iter();
    formats.flat_map(|to| [true, false].map(|reflogs| MigrateOptions { to, reflogs, dry_run: false }))
}

fn plan_text(options: &MigrateOptions) -> String {
    let reflogs = if options.reflogs { "with" } else { "without" };
    format!("refs are being migrated to {}, {reflogs} reflogs\n", options.to.name())
}

/// Returns whether a file has this content, apart from white space at the end.
pub(super) fn holds(site: &Site<'_>, path: &Path, content: &[u8]) -> bool {
    let mut text = Vec::new();
    site.fs.read_small(path, false, usize::MAX, &mut text).is_ok() && text.trim_end() == content.trim_end()
}

/// Creates a folder and its parents up to `base`, which must exist. Each of them may exist already.
pub(super) fn make_folders(fs: &Fs, base: &Path, folder: &Path) -> Result<()> {
    debug_assert!(folder.starts_with(base), "{} lies below {}", folder.display(), base.display());
    let mut missing: Vec<&Path> = folder.ancestors().take_while(|above| *above != base).collect();
    while let Some(next) = missing.pop() {
        match fs.create_dir(next, 0o777) {
            Err(error) if error.is_exists() => {}
            made => made?,
        }
    }
    Ok(())
}
