//! One folder for each cache name and version.

use crate::{
    error::{Error, Result},
    format::identity,
    log::files::{LOCK, PROMISE},
};
use refdb_vfs::{EntryKind, Fs};
use std::path::{Path, PathBuf};

/// The folder of the cache with this name and version below `root`: `root/<name>/v<version>`. In the name, bytes other
/// than ASCII letters, digits, `_`, `-` and `.`, and a leading dot, are written as `%XX`, and the empty name as `%`, so
/// that every name has one folder of its own.
pub fn version_dir(root: &Path, name: &str, version: u32) -> PathBuf {
    name_dir(root, name).join(format!("v{version}"))
}

/// Name and version of the cache in a folder, `<name>/v<version>`, by which an import knows whether values mean the
/// same; empty if the path does not end like this.
pub(crate) fn label(dir: &Path) -> String {
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let version = dir.file_name().and_then(|name| version_of(name.as_encoded_bytes()));
    let name = dir.parent().and_then(Path::file_name);
    match (name, version) {
        (Some(name), Some(version)) => format!("{}/v{version}", name.display()),
        _ => String::new(),
    }
}

fn name_dir(root: &Path, name: &str) -> PathBuf {
    let mut folder = String::new();
    for (at, byte) in name.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || (byte == b'.' && at > 0);
        if plain { folder.push(char::from(byte)) } else { folder.push_str(&format!("%{byte:02X}")) }
    }
    if folder.is_empty() {
        folder.push('%');
    }
    root.join(folder)
}

/// Deletes the versions of a cache other than `keep` that no process has open for writing, and returns the deleted
/// folders. Every folder `v<number>` below the cache's name counts as a version, even without a file `format`. Files
/// that are not named like those of a cache are left alone together with their folder.
///
/// # Errors
///
/// [`Error::File`], for example if a folder cannot be read or a file cannot be deleted. The first one is returned after
/// the other versions were tried too.
pub fn clean_versions(root: &Path, name: &str, keep: u32) -> Result<Vec<PathBuf>> {
    let fs = Fs::real();
    let dir = name_dir(root, name);
    let entries = match fs.read_dir(&dir) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        entries => entries?,
    };
    let (mut gone, mut failed) = (Vec::new(), None);
    for (entry, kind) in entries {
        let Some(version) = version_of(&entry).filter(|version| *version != keep && kind == EntryKind::Dir) else {
            continue;
        };
        let dir = dir.join(format!("v{version}"));
        match delete(&fs, &dir) {
            Ok(true) => gone.push(dir),
            Ok(false) | Err(Error::Locked { .. }) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    gone.sort();
    failed.map_or(Ok(gone), Err)
}

fn version_of(folder: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(folder).ok()?.strip_prefix('v')?;
    digits.parse().ok().filter(|version: &u32| version.to_string() == digits)
}

/// Deletes the cache in a folder, and the folder. Returns false if the folder stays, usually because it contains other
/// files. Files are deleted only from a folder with a cache of this version, an older or a newer one.
///
/// # Errors
///
/// [`Error::Corrupt`] or [`Error::File`] if the folder contains no readable file `format` of a cache; nothing is
/// changed then. [`Error::Locked`] if a process has the cache open for writing; [`Error::File`] if the folder cannot be
/// read or a file cannot be deleted.
pub fn delete_cache(dir: impl AsRef<Path>) -> Result<bool> {
    let (fs, dir) = (Fs::real(), dir.as_ref());
    match identity::is_encrypted(&fs, dir) {
        Ok(_) | Err(Error::Version { .. } | Error::OldVersion { .. }) => delete(&fs, dir),
        Err(error) => Err(error),
    }
}

fn delete(fs: &Fs, dir: &Path) -> Result<bool> {
    let _lock = crate::api::open::take_lock(fs, dir)?;
    let mut format = None;
    for (name, _) in fs.read_dir(dir)? {
        let is_ours = crate::log::segment::seq_of(&name).is_some()
            || [&b"format.tmp"[..], b"stats", b"stats.tmp", PROMISE.as_bytes()].contains(&&*name);
        let path = dir.join(String::from_utf8_lossy(&name).as_ref());
        if is_ours {
            fs.remove_file(&path)?;
        } else if &*name == b"format" {
            format = Some(path);
        }
    }
    // Deleted after the others, because without it `delete_cache` would refuse the rest if this is interrupted.
    format.map_or(Ok(()), |path| fs.remove_file(&path))?;
    // The lock file is deleted last, so that a process that opens the cache meanwhile fails; a later one creates a new
    // lock file.
    fs.remove_file(&dir.join(LOCK))?;
    Ok(fs.remove_dir(dir).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Options, api::open::take_lock};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_name_is_one_folder_of_its_own() {
        let at = |name: &str| version_dir(Path::new("/r"), name, 3).display().to_string();
        assert_eq!(at("web_sessions"), "/r/web_sessions/v3");
        assert_eq!(at("plugin.cache-1"), "/r/plugin.cache-1/v3");
        assert_eq!(at("../a/b"), "/r/%2E.%2Fa%2Fb/v3");
        assert_eq!(at(""), "/r/%/v3");
    }

    #[test]
    fn nothing_is_deleted_from_a_folder_that_is_no_cache() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("mine");
        assert!(matches!(delete_cache(&dir), Err(Error::File(_))), "there is no folder");
        std::fs::create_dir(&dir).unwrap();
        let names = ["stats", "promised", "lock", "0000000000000001.seg"];
        names.iter().for_each(|name| std::fs::write(dir.join(name), "mine").unwrap());
        assert!(matches!(delete_cache(&dir), Err(Error::File(_))));
        std::fs::write(dir.join("format"), "mine").unwrap();
        assert!(matches!(delete_cache(&dir), Err(Error::Corrupt { .. })));
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 5);

        let dir = root.path().join("cache");
        drop(Cache::open(&dir, Options::new(1 << 20)).unwrap());
        let mut format = std::fs::read(dir.join("format")).unwrap();
        format[8] += 1; // written by a newer program
        std::fs::write(dir.join("format"), format).unwrap();
        assert!(delete_cache(&dir).unwrap() && !dir.exists());
    }

    #[test]
    fn one_at_a_time_has_the_lock_of_a_cache_that_is_deleted_again_and_again() {
        let root = tempfile::tempdir().unwrap();
        let (fs, dir, holders) = (Fs::real(), root.path(), AtomicUsize::new(0));
        let contend = || {
            for _ in 0..3_000 {
                let Ok(lock) = take_lock(&fs, dir) else { continue };
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                std::thread::yield_now();
                holders.fetch_sub(1, Ordering::SeqCst);
                fs.remove_file(&dir.join("lock")).unwrap();
                drop(lock);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(contend);
            }
        });
    }

    #[test]
    fn a_version_that_cannot_be_deleted_keeps_no_other() {
        let root = tempfile::tempdir().unwrap();
        let dir = |version| version_dir(root.path(), "c", version);
        std::fs::create_dir_all(dir(1).join("lock")).unwrap();
        drop(Cache::open(dir(2), Options::new(1 << 20)).unwrap());
        std::fs::create_dir_all(dir(3).join("lock")).unwrap();
        assert!(matches!(clean_versions(root.path(), "c", 4), Err(Error::File(_))));
        assert!(!dir(2).exists() && dir(1).join("lock").exists() && dir(3).join("lock").exists());
    }

    #[test]
    fn other_versions_go_but_not_one_that_is_open_nor_a_strangers_files() {
        let root = tempfile::tempdir().unwrap();
        let dir = |version| version_dir(root.path(), "c", version);
        for version in [1, 2, 4] {
            let cache = Cache::open(dir(version), Options::new(1 << 20)).unwrap();
            cache.put(b"k", b"v").unwrap();
        }
        let open = Cache::open(dir(3), Options::new(1 << 20)).unwrap();
        std::fs::write(dir(2).join("notes"), "mine").unwrap();
        assert_eq!(clean_versions(root.path(), "c", 4).unwrap(), [dir(1)]);
        assert!(!dir(1).exists() && dir(2).join("notes").exists() && dir(3).exists() && dir(4).exists());
        drop(open);
        assert_eq!(clean_versions(root.path(), "c", 4).unwrap(), [dir(3)]);
        assert_eq!(clean_versions(root.path(), "other", 1).unwrap(), [] as [PathBuf; 0]);
    }
}
