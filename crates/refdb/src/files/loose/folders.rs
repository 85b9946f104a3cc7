//! Creates and removes the folders of loose refs and reflogs. git removes empty ones at any time, so a writer that
//! needs a folder retries.

use refdb_repo::config::SharedRepository;
use refdb_vfs::Fs;
use std::{
    io,
    path::{Path, PathBuf},
};

/// How many times the folders above a file are created, because other processes may remove them before they have
/// content.
const ATTEMPTS: usize = 32;

/// Calls `act`, which needs the parent folders of `path`, and creates them if `act` fails because they are missing.
/// Created folders are added to `made`.
pub(crate) fn with_parents<T, E: From<refdb_vfs::Error>>(
    fs: &Fs,
    path: &Path,
    sharing: SharedRepository,
    made: &mut Vec<PathBuf>,
    is_missing: impl Fn(&E) -> bool,
    mut act: impl FnMut() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    for _ in 0..ATTEMPTS {
        match act() {
            Err(error) if is_missing(&error) => make_parents(fs, path, sharing, made)?,
            done => return done,
        }
    }
    act()
}

/// Creates the missing folders above `path`, without recursion: a name can have two thousand folders, and the threads
/// of servers have small stacks.
fn make_parents(fs: &Fs, path: &Path, sharing: SharedRepository, made: &mut Vec<PathBuf>) -> refdb_vfs::Result<()> {
    let mut missing: Vec<&Path> = path.parent().into_iter().collect();
    for _ in 0..ATTEMPTS * path.components().count() {
        let Some(folder) = missing.last().copied() else { return Ok(()) };
        match fs.create_dir(folder, 0o777) {
            Ok(()) => {
                made.push(folder.to_owned());
                share(fs, folder, sharing, true)?;
                missing.pop();
            }
            Err(error) if error.is_exists() => drop(missing.pop()),
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => match folder.parent() {
                Some(parent) => missing.push(parent),
                None => return Ok(()),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Gives a created file or folder the permissions that `core.sharedRepository` asks for.
pub(crate) fn share(fs: &Fs, path: &Path, sharing: SharedRepository, is_folder: bool) -> refdb_vfs::Result<()> {
    if sharing == SharedRepository::Umask {
        return Ok(());
    }
    let Some(mode) = sharing.adjust(fs.stat(path)?.mode, is_folder) else { return Ok(()) };
    fs.set_mode(path, mode)
}

/// The file between `base` and `path` that stands where a folder is needed; `None` if there is none.
pub(crate) fn file_in_the_way(fs: &Fs, base: &Path, path: &Path) -> Option<PathBuf> {
    let parents: Vec<&Path> = path.ancestors().skip(1).take_while(|parent| *parent != base).collect();
    let blocker = parents.into_iter().rev().find(|parent| fs.stat(parent).is_ok_and(|stat| !stat.is_dir()));
    blocker.map(Path::to_owned)
}

/// Removes the empty folders above `path`, except for the first two below `base`, because git keeps `refs/heads` too.
pub(crate) fn remove_empty_parents(fs: &Fs, base: &Path, path: &Path) {
    if let Some(folder) = path.parent() {
        remove_emptied(fs, base, folder);
    }
}

/// Removes a folder and those above it as far as they are empty, except for the first two below `base`. Returns the
/// lowest one that stays.
pub(crate) fn remove_emptied<'p>(fs: &Fs, base: &Path, folder: &'p Path) -> &'p Path {
    debug_assert!(folder.starts_with(base), "{} lies below {}", folder.display(), base.display());
    for folder in folder.ancestors() {
        let is_deep = folder.strip_prefix(base).is_ok_and(|below| below.components().count() > 2);
        // Other processes remove empty folders as well.
        let is_gone = || fs.remove_dir(folder).map_or_else(|error| error.is_not_found(), |()| true);
        if !is_deep || !is_gone() {
            return folder;
        }
    }
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_deep_folders_need_no_deep_stack() {
        let small_stack = std::thread::Builder::new().stack_size(128 << 10);
        let work = small_stack.spawn(|| {
            let dir = tempfile::tempdir().unwrap();
            let fs = Fs::real();
            let path = dir.path().join("a/".repeat(1500)).join("ref");
            let missing = |error: &refdb_vfs::Error| error.is_not_found();
            let mut made = Vec::new();
            with_parents(&fs, &path, SharedRepository::Umask, &mut made, missing, || fs.create_new(&path, 0o666))
                .unwrap();
            assert_eq!(made.len(), 1500);
            fs.remove_file(&path).unwrap();
            assert!(fs.remove_empty_tree(&dir.path().join("a")).unwrap());
            assert!(!dir.path().join("a").exists());
        });
        work.unwrap().join().unwrap();
    }

    #[test]
    fn emptied_parents_go_but_the_first_two_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("refs/heads/a/b/c");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        remove_empty_parents(&Fs::real(), dir.path(), &path);
        let heads = dir.path().join("refs/heads");
        assert!(heads.exists() && !heads.join("a").exists());
        std::fs::create_dir_all(heads.join("a/b")).unwrap();
        std::fs::write(heads.join("a/x"), "").unwrap();
        let lowest = |folder: &Path| remove_emptied(&Fs::real(), dir.path(), folder).to_owned();
        assert_eq!(lowest(&heads.join("a/b/gone")), heads.join("a"));
        assert_eq!(lowest(&heads), heads);
        assert!(!heads.join("a/b").exists());
    }

    #[test]
    fn missing_parents_are_made_and_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::real();
        let path = dir.path().join("a/b/c");
        let mut made = Vec::new();
        let missing = |error: &refdb_vfs::Error| error.is_not_found();
        let create = || fs.create_new(&path, 0o666);
        with_parents(&fs, &path, SharedRepository::AtLeast(0o660), &mut made, missing, create).unwrap();
        assert_eq!(made, [dir.path().join("a"), dir.path().join("a/b")]);
        assert_eq!(fs.stat(&dir.path().join("a")).unwrap().mode & 0o2770, 0o2770);
        assert_eq!(file_in_the_way(&fs, dir.path(), &path.join("d/e")), Some(path));
    }
}
