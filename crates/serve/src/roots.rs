//! Finds the repository that the path of a request names.

use crate::{repository::with_settings_of_process, settings::Settings};
use bstr::ByteSlice;
use percent_encoding::percent_decode;
use refdb::{Environment, Repository, RepositoryError};
use refdb_vfs::Fs;
use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

/// The folders below which repositories are served.
#[derive(Debug)]
pub(crate) struct Roots {
    roots: Vec<Root>,
    allowed_targets: Vec<PathBuf>,
    export_all: bool,
    environment: Environment,
    fs: Fs,
    is_remote: bool,
}

#[derive(Debug)]
struct Root {
    prefix: Vec<u8>,
    dir: PathBuf,
}

/// Why a path names no served repository. Clients get the response 404 for all reasons but the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NotFound {
    /// [`decode`] refuses the path, or it is below the prefix of no root.
    BadPath,
    /// There is no repository, it cannot be used, or it belongs to another user and `safe.directory` does not name it.
    NoRepository(String),
    /// The repository has no file `git-daemon-export-ok`, and not all repositories are exported.
    NotExported,
    /// A link or a file `.git` leads out of the root, and not into a folder of `serve.allowTarget`.
    Outside,
    /// The search failed, for example because no file descriptor is free. The response is 500.
    Unknown(String),
}

/// The file that marks a repository as exported, as for `git daemon`.
const EXPORT_OK: &str = "git-daemon-export-ok";

impl Roots {
    /// Resolves the links in the roots and allowed targets of these settings. Fails if one of them is not a folder,
    /// does not exist or cannot be reached.
    pub(crate) fn new(settings: &Settings) -> io::Result<Self> {
        let (fs, mut roots, mut is_remote) = (Fs::real(), Vec::new(), false);
        for (prefix, dir) in &settings.roots {
            let dir = without_links("cannot serve", dir)?;
            is_remote |= !fs.is_local(&dir).map_err(io::Error::other)?;
            roots.push(Root { prefix: prefix.clone().into_bytes(), dir });
        }
        // A target that does not exist is an error below.
        is_remote |= settings.allowed_targets.iter().any(|dir| fs.is_local(dir).is_ok_and(|is_local| !is_local));
        // Roots with a prefix are tried first.
        roots.sort_by_key(|root| root.prefix.is_empty());
        let targets =
            settings.allowed_targets.iter().map(|target| without_links("cannot use serve.allowTarget", target));
        let environment = with_settings_of_process(Environment::without_git(std::env::current_dir()?));
        Ok(Roots {
            roots,
            allowed_targets: targets.collect::<io::Result<_>>()?,
            export_all: settings.export_all,
            environment,
            fs,
            is_remote,
        })
    }

    /// Returns whether a root or an allowed target is on a network file system, or on one that is not known to be
    /// local, where [`find`](Self::find) may block for long.
    pub(crate) fn are_remote(&self) -> bool {
        self.is_remote
    }

    /// Returns the folder of the repository that the path of a URL names, with all links resolved. As in git, the path
    /// may lack an ending such as `.git` or `/.git`.
    pub(crate) fn find(&self, url_path: &str) -> Result<PathBuf, NotFound> {
        let path = decode(url_path).ok_or(NotFound::BadPath)?;
        let mut why = NotFound::BadPath;
        for root in &self.roots {
            let Some(below) = root.below(&path) else { continue };
            match self.find_below(root, below) {
                Ok(folder) => return Ok(folder),
                // The repository may be in this root, and another one with its path in the next.
                Err(error @ NotFound::Unknown(_)) => return Err(error),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Returns whether this folder, a path without links, is a root or an allowed target, or lies below one.
    pub(crate) fn hold(&self, folder: &Path) -> bool {
        let mut allowed = self.roots.iter().map(|root| &root.dir).chain(&self.allowed_targets);
        allowed.any(|allowed| folder.starts_with(allowed))
    }

    fn find_below(&self, root: &Root, below: &[u8]) -> Result<PathBuf, NotFound> {
        let given = root.dir.join(OsStr::from_bytes(below));
        let served = Repository::served_folder(&self.fs, &self.environment, &given).map_err(|error| match error {
            RepositoryError::Io(error) if !is_absence(&error.source) => NotFound::Unknown(error.to_string()),
            // The user's settings decide whether a repository of another user is served.
            RepositoryError::Config(error) => NotFound::Unknown(error.to_string()),
            error => NotFound::NoRepository(error.to_string()),
        })?;
        let folder = resolved_below(&root.dir, &served.folder).map_err(|error| {
            let kind = if is_absence(&error) { NotFound::NoRepository } else { NotFound::Unknown };
            kind(format!("cannot resolve the links in {}: {error}", served.folder.display()))
        })?;
        if !folder.starts_with(&root.dir) && !self.allowed_targets.iter().any(|target| folder.starts_with(target)) {
            return Err(NotFound::Outside);
        }
        if !self.export_all {
            self.fs.stat(&folder.join(EXPORT_OK)).map_err(|error| match is_absence(&error.source) {
                true => NotFound::NotExported,
                false => NotFound::Unknown(error.to_string()),
            })?;
        }
        Ok(folder)
    }
}

impl Root {
    /// Returns the part of a decoded path that is below this root, without a slash at its start.
    fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        if self.prefix.is_empty() {
            return Some(path);
        }
        path.strip_prefix(&self.prefix[..])?.strip_prefix(b"/")
    }
}

/// Resolves the links in a path. `root` has no links. If the path is below it and has neither links nor `..` there,
/// only the components below `root` are looked at, because this is done for each request.
fn resolved_below(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let Ok(below) = path.strip_prefix(root) else { return path.canonicalize() };
    let mut reached = root.to_owned();
    for component in below.components() {
        reached.push(component);
        let is_name = matches!(component, Component::Normal(_));
        if !is_name || reached.symlink_metadata()?.is_symlink() {
            return path.canonicalize();
        }
    }
    Ok(reached)
}

/// Resolves the links in the path of a folder. The text of an error begins with `failed`.
fn without_links(failed: &str, path: &Path) -> io::Result<PathBuf> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{failed} {}: {error}", path.display()));
    let folder = path.canonicalize().map_err(named)?;
    match folder.metadata().map_err(named)?.is_dir() {
        true => Ok(folder),
        false => Err(named(rustix::io::Errno::NOTDIR.into())),
    }
}

/// Returns whether an error means that what was looked for is not there for the server's user.
fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    let is_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    is_loop || [NotFound, PermissionDenied, NotADirectory, IsADirectory, InvalidFilename].contains(&error.kind())
}

/// Decodes the percent-encoding of a URL's path, and returns it without the slash at its start. Returns `None` if the
/// path does not start with a slash, has a component that is empty, `.` or `..`, or has an encoded slash or NUL.
pub fn decode(path: &str) -> Option<Vec<u8>> {
    let path = path.strip_prefix('/')?;
    let mut decoded = Vec::with_capacity(path.len());
    for component in path.split('/') {
        let bytes: Vec<u8> = percent_decode(component.as_bytes()).collect();
        if matches!(&bytes[..], b"" | b"." | b"..") || bytes.find_byteset(b"/\0").is_some() {
            return None;
        }
        if !decoded.is_empty() {
            decoded.push(b'/');
        }
        decoded.extend_from_slice(&bytes);
    }
    Some(decoded)
}

/// Returns the path of a repository's folder as the logs show it, by which the limits count requests. Bytes that are
/// not UTF-8 are replaced.
pub(crate) fn shown(folder: &Path) -> String {
    folder.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_testkit::{RefFormat, Repo};
    use refdb_vfs::{IoHook, LookUp, Op, Verdict};
    use std::sync::{Arc, Mutex};

    /// Makes the look-ups of paths that end in a text fail.
    #[derive(Default)]
    struct Failing(Mutex<Option<&'static str>>);

    impl IoHook for Failing {
        fn before(&self, _: Op<'_>) -> Verdict {
            Verdict::Proceed
        }

        fn look_up(&self, path: &Path, _: LookUp) -> io::Result<Option<PathBuf>> {
            match *self.0.lock().unwrap() {
                Some(end) if path.ends_with(end) => Err(io::Error::from_raw_os_error(5)),
                _ => Ok(None),
            }
        }
    }

    #[test]
    fn a_search_that_fails_is_not_continued_in_another_root() {
        let repos = [(); 2].map(|()| Repo::bare(RefFormat::Files, refdb::HashKind::Sha1));
        let failing = Arc::new(Failing::default());
        let root =
            |repo: &Repo, prefix: &[u8]| Root { prefix: prefix.to_vec(), dir: repo.scratch().canonicalize().unwrap() };
        let roots = Roots {
            roots: vec![root(&repos[0], b""), root(&repos[1], b"")],
            allowed_targets: Vec::new(),
            export_all: false,
            environment: Environment::process(),
            fs: Fs::with_hook(Arc::clone(&failing) as Arc<dyn IoHook>),
            is_remote: false,
        };
        for repo in &repos {
            std::fs::write(repo.git_dir().join(EXPORT_OK), "").unwrap();
        }
        let folder = repos[0].git_dir().canonicalize().unwrap();
        assert_eq!(roots.find("/repo"), Ok(folder));
        *failing.0.lock().unwrap() = Some("HEAD");
        let found = roots.find("/repo");
        assert!(matches!(found, Err(NotFound::Unknown(_))), "{found:?}");
    }

    /// Previously, a file was served as a root without repositories.
    #[test]
    fn a_root_that_is_no_folder_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = without_links("cannot serve", file.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        assert!(error.to_string().starts_with(&format!("cannot serve {}", file.path().display())), "{error}");
    }

    #[test]
    fn links_below_a_root_are_resolved_as_the_system_resolves_them() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b/c")).unwrap();
        std::fs::write(root.join("a/file"), "").unwrap();
        for (link, target) in [("a/up", ".."), ("a/b/loop", "loop"), ("l", "a/b"), ("out", "/"), ("lost", "nowhere")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let paths =
            "a a/b/c l/c a/up/a/b l/../b a/b/loop a/up/l/c a/./b out out/tmp lost none a/file a/file/x a/none/..";
        for path in paths.split(' ').map(|path| root.join(path)).chain([root.clone(), "/".into(), "/none".into()]) {
            let kind = |found: io::Result<PathBuf>| found.map_err(|error| error.raw_os_error());
            assert_eq!(kind(resolved_below(&root, &path)), kind(path.canonicalize()), "{}", path.display());
        }
    }

    #[test]
    fn a_path_is_decoded_once_and_never_leads_upwards() {
        for (path, wanted) in [
            ("/a/b.git", Some("a/b.git")),
            ("/a%20b", Some("a b")),
            ("/a%2525", Some("a%25")),
            ("/~x/y", Some("~x/y")),
            ("", None),
            ("/", None),
            ("a", None),
            ("/a//b", None),
            ("/a/", None),
            ("/./a", None),
            ("/a/../b", None),
            ("/a/%2e%2E/b", None),
            ("/a%2fb", None),
            ("/a%00", None),
        ] {
            assert_eq!(decode(path).as_deref(), wanted.map(str::as_bytes), "{path}");
        }
    }
}
