//! Implements `refdb-lab cache`, and keeps builds, each in a folder with a lock that a lab holds while it uses the
//! build.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, ensure};
use refdb_vfs::interrupt;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{options::CacheOptions, progress::progress};

/// The purpose of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The build is used but not changed, so several labs may hold the lock.
    Use,
    /// The build is created or removed.
    Change,
}

/// Locks the folder `home`, which is created if it does not exist.
///
/// # Errors
///
/// Fails if other labs hold the lock for longer than `timeout`, if a signal arrives, or if the folder cannot be used.
pub fn lock(home: &Path, access: Access, timeout: Duration) -> Result<File> {
    if let Some(file) = try_lock(home, access)? {
        return Ok(file);
    }
    progress(&format!("waiting for another lab, which has locked '{}'", home.display()));
    let start = Instant::now();
    loop {
        if let Some(file) = try_lock(home, access)? {
            return Ok(file);
        }
        // The lock is polled, because a wait in the kernel would neither time out nor notice a signal.
        interrupt::check()?;
        ensure!(
            start.elapsed() < timeout,
            "another lab has locked '{}' for {} s: end it, or name another folder with --cache",
            home.display(),
            timeout.as_secs()
        );
        sleep(Duration::from_millis(100));
    }
}

/// Tries to lock the folder `home` without waiting. Returns `None` if another lab's lock excludes this one.
fn try_lock(home: &Path, access: Access) -> Result<Option<File>> {
    let operation = match access {
        Access::Use => FlockOperation::NonBlockingLockShared,
        Access::Change => FlockOperation::NonBlockingLockExclusive,
    };
    let context = || format!("cannot lock '{}'", home.display());
    loop {
        fs::create_dir_all(home).with_context(|| format!("cannot make '{}'", home.display()))?;
        let path = home.join("lock");
        let Ok(file) = OpenOptions::new().create(true).append(true).open(&path) else {
            // If a second attempt succeeds, the loop tries again; otherwise, its error says what is wrong.
            File::create(&path).with_context(context)?;
            continue;
        };
        match flock(&file, operation) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            done => done.with_context(context)?,
        }
        // Another lab may have removed the folder in the meantime, in which case this lock excludes nobody.
        let (ours, there) = (file.metadata().with_context(context)?, fs::metadata(&path));
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok(Some(file));
        }
    }
}

/// A build that is kept.
struct Kept {
    home: PathBuf,
    bytes: u64,
    unused: Duration,
}

/// Lists the builds, the most recently used first, and removes those that the options select unless they are in use.
pub fn run(options: &CacheOptions, out: &mut impl Write) -> Result<()> {
    let cache = options.folder.cache()?;
    let (mut count, mut bytes) = (0, 0);
    for kept in builds(&cache)? {
        let old =
            options.remove_unused.is_some_and(|days| kept.unused >= Duration::from_secs(days.saturating_mul(DAY)));
        let what = if !old {
            "kept"
        } else if remove(&kept.home)? {
            "removed"
        } else {
            "in use"
        };
        (count, bytes) = if what == "removed" { (count, bytes) } else { (count + 1, bytes + kept.bytes) };
        let name = kept.home.file_name().unwrap_or_default().to_string_lossy();
        writeln!(out, "{} MB, unused for {} days, {what}: {name}", megabytes(kept.bytes), kept.unused.as_secs() / DAY)?;
    }
    writeln!(out, "{count} builds of {} MB in '{}'", megabytes(bytes), cache.display())?;
    Ok(())
}

const DAY: u64 = 24 * 60 * 60;

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

fn builds(cache: &Path) -> Result<Vec<Kept>> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(cache) else { return Ok(found) };
    for entry in entries {
        let home = entry?.path();
        // Other folders may have a lock too, and are not the lab's to remove.
        if !home.file_name().is_some_and(|name| is_of_build(&name.to_string_lossy())) {
            continue;
        }
        let Ok(lock) = fs::metadata(home.join("lock")) else { continue };
        let unused = SystemTime::now().duration_since(lock.modified()?).unwrap_or_default();
        found.push(Kept { bytes: size(&home)?, home, unused });
    }
    found.sort_by_key(|kept| kept.unused);
    Ok(found)
}

/// Returns the name of the folder of a build, which depends on the commit and on how it is built.
pub fn name_of_build(commit: &str, recipe_hash: u64) -> String {
    format!("{commit}-{recipe_hash:016x}")
}

/// Returns whether [`name_of_build`] makes such a name.
fn is_of_build(name: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.split_once('-').is_some_and(|(commit, recipe)| {
        matches!(commit.len(), 40 | 64) && recipe.len() == 16 && is_hex(commit) && is_hex(recipe)
    })
}

/// Returns the disk space of all files below a folder, in bytes. Another lab may add and remove files meanwhile, so
/// what vanishes counts as nothing.
fn size(folder: &Path) -> Result<u64> {
    let context = || format!("cannot list '{}'", folder.display());
    let Some(entries) = unless_gone(fs::read_dir(folder)).with_context(context)? else { return Ok(0) };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry.with_context(context)?;
        bytes += match unless_gone(entry.metadata()).with_context(context)? {
            Some(about) if about.is_dir() => size(&entry.path())?,
            Some(about) => about.blocks() * 512,
            None => 0,
        };
    }
    Ok(bytes)
}

fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Removes a build, unless a lab is using it. Returns whether it was removed.
fn remove(home: &Path) -> Result<bool> {
    let Some(_lock) = try_lock(home, Access::Change)? else { return Ok(false) };
    fs::remove_dir_all(home).with_context(|| format!("cannot remove '{}'", home.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_with_the_name_of_a_build_are_builds() {
        let cache = tempfile::tempdir().unwrap();
        let build = name_of_build(&"a1".repeat(20), 7);
        for name in [build.as_str(), "git", "a1-7", "mirror-0123456789abcdef"] {
            fs::create_dir(cache.path().join(name)).unwrap();
            fs::write(cache.path().join(name).join("lock"), "").unwrap();
        }
        let homes: Vec<_> = builds(cache.path()).unwrap().into_iter().map(|kept| kept.home).collect();
        assert_eq!(homes, [cache.path().join(build)]);
    }

    #[test]
    fn a_folder_that_vanishes_while_it_is_measured_takes_no_space() {
        let gone = tempfile::tempdir().unwrap().path().join("gone");
        assert_eq!(size(&gone).unwrap(), 0);
    }
}
