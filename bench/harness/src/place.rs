//! Where the repositories of a run lie: memory, or a fresh ext4 file system on the disk.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use refdb_lab::process::tool;
use tempfile::TempDir;

/// A temporary folder, which is removed when the value is dropped.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    is_mounted: bool,
    /// The folder that is removed: `dir` itself, or what holds `dir` and the image mounted there.
    _folder: TempDir,
}

/// The kind of file system a job runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// A memory file system: only the programs and the kernel are measured.
    Tmpfs,
    /// An ext4 file system made for this run, so that no run inherits another's journal or folders.
    Ext4,
}

impl Disk {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Disk::Tmpfs => "tmpfs",
            Disk::Ext4 => "ext4",
        }
    }
}

/// The size of an ext4 image; the file is sparse.
const IMAGE_BYTES: u64 = 4 << 30;

impl Place {
    /// A new empty folder on `disk`. The image of an ext4 file system lies below `cache` as long as the value lives.
    pub fn new(disk: Disk, cache: &Path) -> Result<Place> {
        match disk {
            Disk::Tmpfs => Place::memory(),
            Disk::Ext4 => Place::image(cache),
        }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn memory() -> Result<Place> {
        let folder = folder(Path::new("/dev/shm"))?;
        Ok(Place { dir: folder.path().to_owned(), is_mounted: false, _folder: folder })
    }

    fn image(cache: &Path) -> Result<Place> {
        let folder = folder(cache)?;
        let (image, dir) = (folder.path().join("image"), folder.path().join("mounted"));
        fs::create_dir(&dir)?;
        fs::File::create(&image)?.set_len(IMAGE_BYTES)?;
        tool(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        tool(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&dir))
            .context("an ext4 job mounts a file system of its own: run as root, or leave the ext4 jobs out")?;
        Ok(Place { dir, is_mounted: true, _folder: folder })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted {
            tool(Command::new("umount").arg(&self.dir)).ok();
        }
    }
}

fn folder(parent: &Path) -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix("refdb-bench.").tempdir_in(parent);
    made.with_context(|| format!("cannot make a folder in '{}'", parent.display()))
}

/// Copies the folder `from` with all it holds to the new folder `to`.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make '{}'", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read '{}'", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("cannot copy to '{}'", target.display()))?;
        }
    }
    Ok(())
}

/// Makes the file or folder `path` by `make`, unless it exists. `make` gets another path beside it, which is renamed in
/// the end, so that later runs do not use what an interrupted run has left.
pub fn make_once(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut name = path.file_name().context("a path with a name")?.to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    fs::remove_file(&part).or_else(|_| fs::remove_dir_all(&part)).ok();
    make(&part)?;
    fs::rename(&part, path).with_context(|| format!("cannot rename '{}'", part.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]
mod tests {
    use super::*;

    #[test]
    fn what_an_interrupted_run_has_left_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made");
        let interrupted = make_once(&path, |part| {
            fs::write(part, "half")?;
            anyhow::bail!("interrupted")
        });
        assert!(interrupted.is_err() && !path.exists());
        let interrupted = make_once(&path, |part| {
            fs::create_dir(part)?;
            fs::write(part.join("file"), "half")?;
            anyhow::bail!("interrupted")
        });
        assert!(interrupted.is_err() && !path.exists());
        make_once(&path, |part| Ok(fs::write(part, "all")?)).unwrap();
        make_once(&path, |_| anyhow::bail!("it exists")).unwrap();
        assert_eq!(fs::read(path).unwrap(), b"all");
    }
}
