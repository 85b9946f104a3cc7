//! Finds the repository: git(1), "GIT_DIR", "GIT_CEILING_DIRECTORIES", and gitrepository-layout(5).

use super::{FormatWatch, RefStorage, Repository, RepositoryError, format::Format, gitfile, ownership};
use crate::{
    config::{Level, Outer, parse_boolean, read_file, read_limited},
    environment::{Environment, os},
};
use bstr::{BString, ByteSlice};
use refdb_types::{HashKind, ObjectId, space::trim_start};
use refdb_vfs::{Fs, Stat};
use std::{
    cell::RefCell,
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The number of bytes at the start of HEAD that decide whether a folder is a repository. The limit is git's.
const HEAD_MAX_BYTES: usize = 255;

/// The size limit of a `commondir` file in bytes. Git has none, but no path is longer.
const COMMON_DIR_MAX_BYTES: usize = 1 << 20;

/// A folder that looks like a repository.
struct Found {
    git_dir: PathBuf,
    common_dir: PathBuf,
    /// The path of `git_dir` that git would show when it runs at the top of the worktree.
    shown: PathBuf,
    /// The folder in which git would work, and to which `shown` is relative.
    standing: PathBuf,
    how: How,
}

enum How {
    /// `GIT_DIR`, `--git-dir` or the client of a server names the repository.
    Named,
    /// The `.git` in this folder leads to the repository.
    DotGit(PathBuf),
    /// The folder in which the search began is the repository itself or inside it.
    Inside,
}

pub(super) fn discover(fs: &Fs, environment: &Environment) -> Result<Repository, RepositoryError> {
    let finder = Finder { fs, environment, is_trusted: false, outer: RefCell::default(), warnings: RefCell::default() };
    let found = match environment.get("GIT_DIR") {
        Some(named) => finder.named(named.as_ref())?,
        None => finder.upwards()?,
    };
    finder.open(found)
}

/// Opens the repository `folder`, or the one that the `.git` file of this path names, as a server sees it after
/// changing into its folder.
pub(super) fn entered(fs: &Fs, environment: &Environment, folder: &Path) -> Result<Repository, RepositoryError> {
    let finder = Finder { fs, environment, is_trusted: false, outer: RefCell::default(), warnings: RefCell::default() };
    let found = finder.named(folder)?;
    let mut repository = finder.open(found)?;
    repository.is_entered = true;
    Ok(repository)
}

/// Returns whether the folder has what makes a repository: a HEAD, objects and refs.
pub(super) fn is_repository(fs: &Fs, environment: &Environment, folder: &Path) -> Result<bool, RepositoryError> {
    let finder = Finder { fs, environment, is_trusted: false, outer: RefCell::default(), warnings: RefCell::default() };
    Ok(finder.common_dir_if_repository(folder)?.is_some())
}

/// Returns the folder that a `.git` file names.
pub(super) fn gitfile_target(fs: &Fs, path: &Path) -> Result<PathBuf, RepositoryError> {
    Ok(real(gitfile::read(fs, path, path)?))
}

/// Opens the repository in this very folder. Its owner is checked unless `is_trusted`.
pub(super) fn at(
    fs: &Fs,
    environment: &Environment,
    folder: &Path,
    is_trusted: bool,
) -> Result<Repository, RepositoryError> {
    let finder = Finder { fs, environment, is_trusted, outer: RefCell::default(), warnings: RefCell::default() };
    let found = match finder.by_dot_git(folder)? {
        Some(found) => found,
        None => finder.this(folder, |_| Ok(()))?.ok_or_else(|| RepositoryError::NotARepository(folder.to_owned()))?,
    };
    finder.open(found)
}

struct Finder<'a> {
    fs: &'a Fs,
    environment: &'a Environment,
    /// Whether the repository is trusted already, whoever owns it.
    is_trusted: bool,
    /// The configuration files above the repository, if `safe.bareRepository` was looked up in them.
    outer: RefCell<Option<Outer>>,
    /// Git's warnings about the settings that decided whether the repository is trusted.
    warnings: RefCell<Vec<String>>,
}

impl Finder<'_> {
    fn named(&self, given: &Path) -> Result<Found, RepositoryError> {
        let path = self.environment.resolve(given);
        let standing = self.environment.resolve(Path::new(""));
        if let Some(common_dir) = self.common_dir_if_repository(&path)? {
            return Ok(Found { git_dir: path, common_dir, shown: given.to_owned(), standing, how: How::Named });
        }
        if self.fs.stat(&path).is_ok_and(|stat| stat.is_file()) {
            let git_dir = real(gitfile::read(self.fs, &path, given)?);
            if let Some(common_dir) = self.common_dir_if_repository(&git_dir)? {
                return Ok(Found { shown: git_dir.clone(), git_dir, common_dir, standing, how: How::Named });
            }
        }
        Err(RepositoryError::NotARepository(given.to_owned()))
    }

    fn upwards(&self) -> Result<Found, RepositoryError> {
        // Most commands run at the top of the worktree or in a bare repository, where the absolute path is not needed.
        let here = self.environment.resolve(Path::new(""));
        if let Some(found) = self.at(&here)? {
            return Ok(found);
        }
        let start = self.environment.current_dir().map_err(RepositoryError::CurrentDir)?;
        debug_assert!(start.is_absolute(), "a search upwards ends at the root: {start:?}");
        let ceiling = self.ceiling(&start);
        let device = if self.may_cross_file_systems()? { None } else { Some(self.fs.stat(&start)?.device) };
        for folder in start.ancestors().skip(1).take_while(|folder| ceiling.as_deref() != Some(*folder)) {
            if device.is_some_and(|device| self.fs.stat(folder).map_or(true, |stat| stat.device != device)) {
                return Err(RepositoryError::Boundary { mount_point: folder.to_owned() });
            }
            if let Some(mut found) = self.at(folder)? {
                if matches!(found.how, How::Inside) {
                    // Git changes to the top of a worktree, but stays where it is inside a bare repository.
                    found.standing.clone_from(&start);
                }
                return Ok(found);
            }
        }
        Err(RepositoryError::NotFound)
    }

    /// Looks for `.git` in `folder`, or for a bare repository in `folder` itself.
    fn at(&self, folder: &Path) -> Result<Option<Found>, RepositoryError> {
        match self.by_dot_git(folder)? {
            Some(found) => Ok(Some(found)),
            None => self.bare(folder),
        }
    }

    fn by_dot_git(&self, folder: &Path) -> Result<Option<Found>, RepositoryError> {
        let dot_git = folder.join(".git");
        if let Ok(link) = self.fs.stat_link(&dot_git) {
            let stat = if link.is_symlink() { self.fs.stat(&dot_git).ok() } else { Some(link) };
            return match stat {
                Some(stat) if stat.is_dir() => self.git_folder(folder, &dot_git, link),
                Some(stat) if stat.is_file() => self.git_file(folder, &dot_git, link).map(Some),
                Some(_) => Err(RepositoryError::NotARegularFile(self.absolute(&dot_git))),
                None => Ok(None),
            };
        }
        Ok(None)
    }

    fn git_folder(&self, folder: &Path, dot_git: &Path, link: Stat) -> Result<Option<Found>, RepositoryError> {
        let Some(common_dir) = self.common_dir_if_repository(dot_git)? else { return Ok(None) };
        let work_tree = self.fs.stat_link(or_dot(folder))?;
        self.check_owner(&[work_tree, link], folder)?;
        let standing = or_dot(folder).to_owned();
        let how = How::DotGit(standing.clone());
        Ok(Some(Found { git_dir: dot_git.to_owned(), common_dir, shown: ".git".into(), standing, how }))
    }

    fn git_file(&self, folder: &Path, dot_git: &Path, link: Stat) -> Result<Found, RepositoryError> {
        let git_dir = real(gitfile::read(self.fs, dot_git, &self.absolute(dot_git))?);
        let Some(common_dir) = self.common_dir_if_repository(&git_dir)? else {
            return Err(RepositoryError::GitFileTarget(git_dir));
        };
        let work_tree = self.fs.stat_link(or_dot(folder))?;
        self.check_owner(&[link, work_tree, self.fs.stat_link(&git_dir)?], folder)?;
        let standing = or_dot(folder).to_owned();
        let how = How::DotGit(standing.clone());
        Ok(Found { shown: git_dir.clone(), git_dir, common_dir, standing, how })
    }

    /// Returns `folder` as a repository, or `None` if it is none. Fails if, for example, `may_be_bare` fails, which is
    /// called before the owner is checked, or the repository belongs to someone else and is not trusted.
    fn this(
        &self,
        folder: &Path,
        may_be_bare: impl FnOnce(&Path) -> Result<(), RepositoryError>,
    ) -> Result<Option<Found>, RepositoryError> {
        let folder = or_dot(folder);
        let Some(common_dir) = self.common_dir_if_repository(folder)? else { return Ok(None) };
        may_be_bare(folder)?;
        self.check_owner(&[self.fs.stat_link(folder)?], folder)?;
        let standing = folder.to_owned();
        Ok(Some(Found { git_dir: standing.clone(), common_dir, shown: ".".into(), standing, how: How::Inside }))
    }

    /// Returns `folder` as a repository, if it is one. Fails as [`Finder::this`] does, or if `safe.bareRepository`
    /// forbids repositories that were not named.
    fn bare(&self, folder: &Path) -> Result<Option<Found>, RepositoryError> {
        self.this(folder, |folder| {
            let outer = Outer::read(self.fs, self.environment)?;
            ownership::check_bare(self.fs, self.environment, &outer, &|| self.absolute(folder))?;
            let before = self.outer.replace(Some(outer));
            debug_assert!(before.is_none(), "a search ends at the first repository that it comes across");
            Ok(())
        })
    }

    fn check_owner(&self, parts: &[Stat], folder: &Path) -> Result<(), RepositoryError> {
        if self.is_trusted {
            return Ok(());
        }
        let outer = || Outer::read(self.fs, self.environment);
        let warnings = ownership::check(self.fs, self.environment, parts, &outer, &|| self.absolute(folder))?;
        self.warnings.borrow_mut().extend(warnings);
        Ok(())
    }

    /// Returns the folder that the repository `folder` shares with its worktrees. Returns `None` if `folder` is no
    /// repository, because it has no valid HEAD, or because there are no objects or refs.
    fn common_dir_if_repository(&self, folder: &Path) -> Result<Option<PathBuf>, RepositoryError> {
        let mut buffer = Vec::new();
        if !self.has_head(folder, &mut buffer)? {
            return Ok(None);
        }
        let common_dir = match self.environment.get("GIT_COMMON_DIR") {
            Some(named) => self.environment.resolve(named.as_ref()),
            None => match read_limited(self.fs, &folder.join("commondir"), COMMON_DIR_MAX_BYTES, &mut buffer) {
                Ok(()) if buffer.is_empty() => {
                    return Err(RepositoryError::CommonDirEmpty(self.absolute(folder).join("commondir")));
                }
                // As in git, a NUL ends the path.
                Ok(()) => {
                    let path = buffer[..buffer.find_byte(0).unwrap_or(buffer.len())].trim_end_with(is_end_of_line);
                    real(folder.join(os(path)))
                }
                Err(error) if error.is_not_found() => folder.to_owned(),
                Err(error) => return Err(error.into()),
            },
        };
        let objects = match self.environment.get("GIT_OBJECT_DIRECTORY") {
            Some(named) => self.environment.resolve(named.as_ref()),
            None => common_dir.join("objects"),
        };
        let whole = self.fs.is_executable(&objects) && self.fs.is_executable(&common_dir.join("refs"));
        Ok(whole.then_some(common_dir))
    }

    fn has_head(&self, folder: &Path, buffer: &mut Vec<u8>) -> Result<bool, RepositoryError> {
        let head = folder.join("HEAD");
        let read = self.fs.read_small(&head, false, HEAD_MAX_BYTES, buffer);
        buffer.truncate(HEAD_MAX_BYTES);
        Ok(match read {
            Ok(()) => match buffer.strip_prefix(b"ref:") {
                Some(target) => trim_start(target).starts_with(b"refs/"),
                // The hash of the repository is not known yet.
                None => [HashKind::Sha1, HashKind::Sha256]
                    .iter()
                    .any(|kind| buffer.get(..kind.len_hex()).is_some_and(|hex| ObjectId::from_hex(*kind, hex).is_ok())),
            },
            // Long ago HEAD was a symbolic link to a branch, which need not exist.
            Err(error) if error.is_symlink() => {
                let target = self.fs.find_link_content(&head)?;
                target.is_some_and(|target| target.as_os_str().as_bytes().starts_with(b"refs/"))
            }
            // A server must not take its repository for missing because, for example, it ran out of file descriptors.
            Err(error) if error.is_transient() => return Err(error.into()),
            Err(_) => false,
        })
    }

    /// Returns the nearest folder above `start` at which the search must stop.
    fn ceiling(&self, start: &Path) -> Option<PathBuf> {
        let list = self.environment.get("GIT_CEILING_DIRECTORIES")?;
        let mut resolve_links = true;
        let mut nearest: Option<PathBuf> = None;
        for entry in list.as_bytes().split(|byte| *byte == b':') {
            if entry.is_empty() {
                // Entries after an empty one are used without resolving links, because that may be slow.
                resolve_links = false;
                continue;
            }
            let path = os(entry);
            let path = if resolve_links { real(path.to_owned()) } else { path.components().collect() };
            let above = path.is_absolute() && path != start && start.starts_with(&path);
            if above && nearest.as_ref().is_none_or(|known| known.as_os_str().len() < path.as_os_str().len()) {
                nearest = Some(path);
            }
        }
        debug_assert!(nearest.as_ref().is_none_or(|nearest| start.starts_with(nearest)), "it is above: {nearest:?}");
        nearest
    }

    fn may_cross_file_systems(&self) -> Result<bool, RepositoryError> {
        const NAME: &str = "GIT_DISCOVERY_ACROSS_FILESYSTEM";
        let value: Option<OsString> = self.environment.get(NAME);
        value.map_or(Ok(false), |value| {
            parse_boolean(Some(value.as_bytes().as_bstr()))
                .ok_or_else(|| RepositoryError::BadEnvironment { value: value.as_bytes().into(), name: NAME })
        })
    }

    /// Reads the repository's `config` and checks that its format is supported.
    fn open(&self, found: Found) -> Result<Repository, RepositoryError> {
        let Found { git_dir, common_dir, shown, standing, how } = found;
        let is_linked = git_dir != common_dir;
        let shown_common = if is_linked { &common_dir } else { &shown };
        let config = common_dir.join("config");
        // The file is examined before it is read, so that a later change is noticed.
        let seen = self.fs.find(&config)?;
        let config_text = self.optional(&config)?.unwrap_or_default();
        let mut format = Format::parse(&config_text, &common_dir, &shown_common.join("config"))?;
        if is_linked {
            // What the shared file says about the working tree applies to the main worktree only.
            format.work_tree = None;
            if !matches!(how, How::Inside) {
                format.bare = None;
            }
        }
        let worktree_config_text =
            if format.worktree_config { self.optional(&git_dir.join("config.worktree"))? } else { None };
        if let Some(text) = &worktree_config_text {
            format.parse_worktree(text, &shown.join("config.worktree"))?;
        }
        format.check()?;
        let storage = match self.environment.get("GIT_REFERENCE_BACKEND") {
            None => format.storage.clone(),
            Some(value) => RefStorage::parse(value.as_bytes().as_bstr(), &common_dir)
                .map_err(|name| RepositoryError::UnknownRefStorage(name.to_string()))?,
        };
        let format_watch = self.environment.get("GIT_REFERENCE_BACKEND").is_none().then(|| FormatWatch {
            config,
            common_dir: common_dir.clone(),
            seen,
            storage: format.storage.clone(),
        });
        let work_tree = self.work_tree(&format, &how, &git_dir);
        let is_below = matches!(how, How::Inside) && standing != git_dir;
        Ok(Repository {
            format_watch,
            is_bare: format.bare != Some(false) && work_tree.is_none(),
            worktree_id: if is_linked { worktree_id(&git_dir) } else { None },
            shown_git_dir: if is_below { git_dir.clone() } else { shown },
            git_dir,
            common_dir,
            work_tree,
            standing,
            is_entered: false,
            hash: format.hash,
            storage,
            is_partial_clone: format.is_partial_clone,
            config_text,
            worktree_config_text,
            outer: self.outer.take(),
            warnings: self.warnings.take(),
        })
    }

    fn work_tree(&self, format: &Format, how: &How, git_dir: &Path) -> Option<PathBuf> {
        if let Some(named) = self.environment.get("GIT_WORK_TREE") {
            return Some(self.environment.resolve(named.as_ref()));
        }
        if let Some(configured) = &format.work_tree
            && self.environment.get("GIT_COMMON_DIR").is_none()
        {
            return Some(git_dir.join(os(configured)));
        }
        match how {
            _ if format.bare == Some(true) => None,
            How::DotGit(folder) => Some(folder.clone()),
            How::Inside => None,
            How::Named => Some(or_dot(&self.environment.resolve(Path::new(""))).to_owned()),
        }
    }

    fn optional(&self, path: &Path) -> Result<Option<Vec<u8>>, RepositoryError> {
        let mut text = Vec::new();
        match read_file(self.fs, path, Level::Local, &mut text) {
            Ok(()) => Ok(Some(text)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the absolute path, which git uses in messages, or `path` itself if the current folder is unknown.
    fn absolute(&self, path: &Path) -> PathBuf {
        match self.environment.current_dir() {
            Ok(folder) if path == Path::new(".") => folder,
            Ok(folder) => folder.join(path),
            Err(_) => path.to_owned(),
        }
    }
}

/// Returns the id of a linked worktree, whose folder is `worktrees/ID`, or `None` for a folder elsewhere.
fn worktree_id(git_dir: &Path) -> Option<BString> {
    let path = real(git_dir.to_owned());
    let is_worktree = path.parent().and_then(Path::file_name).is_some_and(|name| name == "worktrees");
    is_worktree.then(|| path.file_name().map(|name| name.as_bytes().into())).flatten()
}

fn or_dot(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// Resolves the symbolic links in a path, or returns it unchanged if that fails.
fn real(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

fn is_end_of_line(char: char) -> bool {
    matches!(char, '\n' | '\r')
}
