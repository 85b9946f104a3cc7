//! The folder of a run, and the repositories in it.

use refdb_vfs::{BatchId, EntryKind, Error, Folder, Fs};
use std::{
    fmt,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

/// How refs are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Files,
    Reftable,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Files => "files",
            Format::Reftable => "reftable",
        })
    }
}

/// The prefix of the name of each run's folder.
pub(super) const RUN: &str = "refdb-check-";

/// The folder of a run. Dropping it removes the folder with its content, or warns if that fails repeatedly.
#[derive(Debug)]
pub(super) struct RunFolder {
    pub(super) path: PathBuf,
}

impl RunFolder {
    /// Makes the folder in `dir`.
    pub(super) fn make(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(format!("{RUN}{}", BatchId::random()));
        Fs::real().create_dir(&path, 0o777)?;
        Ok(RunFolder { path })
    }

    fn remove(&self) -> Result<(), Error> {
        let (Some(dir), Some(name)) = (self.path.parent(), self.path.file_name()) else { return Ok(()) };
        let dir: Folder = Fs::real().folder(dir)?;
        dir.remove_tree(name, EntryKind::Dir)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // An NFS client only renames a file that is removed while open, and removes it for good when the file is
        // closed. The folder can be removed only after that.
        for pause in [0, 100, 1000, 3000] {
            sleep(Duration::from_millis(pause));
            if self.remove().is_ok() && !self.path.exists() {
                return;
            }
        }
        crate::failure::say("warning: ", format!("could not remove '{}'", self.path.display()).as_bytes());
    }
}

/// Makes a bare repository without refs or objects, in which refs can be written.
pub(super) fn make(path: &Path, format: Format) -> Result<(), Error> {
    let fs = Fs::real();
    let folder = |name: &str| fs.create_dir(&path.join(name), 0o777);
    fs.create_dir(path, 0o777)?;
    ["objects", "refs"].into_iter().try_for_each(folder)?;
    write(&path.join("description"), "made by refdb check-storage")?;
    match format {
        Format::Files => {
            folder("refs/heads")?;
            write(&path.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")?;
            write(&path.join("HEAD"), "ref: refs/heads/main\n")
        }
        Format::Reftable => {
            let config =
                "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\trefstorage = reftable\n";
            write(&path.join("config"), config)?;
            folder("reftable")?;
            write(&path.join("reftable/tables.list"), "")?;
            write(&path.join("refs/heads"), "this repository uses the reftable format\n")?;
            write(&path.join("HEAD"), "ref: refs/heads/.invalid\n")
        }
    }
}

/// Makes a new file with this content.
pub(super) fn write(path: &Path, content: &str) -> Result<(), Error> {
    let mut file = Fs::real().create_new(path, 0o666)?;
    file.write_all(content.as_bytes())
}
