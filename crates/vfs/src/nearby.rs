//! Opens very many files that are ordered by folder, from an open folder instead of along the whole path.

use crate::{Error, File, Fs, Result, Stat, fs::past_lease};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, Mode, OFlags},
};
use std::path::{Path, PathBuf};

/// Keeps the folder of the most recent files open, except on network file systems. A folder is opened only at the
/// second call in a row for a file in it.
///
/// If another process moves the folder while it is open, files are still found in the moved folder. A caller to which
/// this matters must check the path again.
#[derive(Debug)]
pub struct Nearby<'f> {
    fs: &'f Fs,
    folder: PathBuf,
    open: Option<OwnedFd>,
}

impl<'f> Nearby<'f> {
    /// Returns a value that keeps no folder open yet.
    pub fn new(fs: &'f Fs) -> Self {
        Nearby { fs, folder: PathBuf::new(), open: None }
    }

    /// Returns the same as [`Fs::find_link`], from the open folder if possible.
    pub fn find_link(&mut self, path: &Path) -> Result<Option<Stat>> {
        if self.fs.asks_server() {
            return self.fs.find_link(path);
        }
        let (folder, name) = self.place(path);
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        Stat::found(stat.map(|raw| Stat::of_raw(&raw)).map_err(Into::into), path)
    }

    /// Opens a file for reading, from the open folder if possible.
    pub fn open(&mut self, path: &Path) -> Result<File> {
        if self.fs.asks_server() {
            return self.fs.open(path);
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fs = self.fs;
        let (folder, name) = self.place(path);
        let open = || past_lease(flags, |flags| rustix::fs::openat(folder, name, flags, Mode::empty()));
        match fs.hooks().opening(open) {
            Ok(inner) => Ok(fs.file(inner.into(), path)),
            Err(source) => Err(Error::new("open", path, source)),
        }
    }

    /// Returns the folder in which a file is looked for, and its name there: the open folder, or else the current
    /// folder and the whole path.
    fn place<'p>(&mut self, path: &'p Path) -> (BorrowedFd<'_>, &'p Path) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return (CWD, path) };
        if folder != self.folder {
            folder.clone_into(&mut self.folder);
            self.open = None;
            return (CWD, path);
        }
        if self.open.is_none() {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.open = rustix::fs::open(folder, flags, Mode::empty()).ok();
        }
        match &self.open {
            Some(open) => (open.as_fd(), Path::new(name)),
            None => (CWD, path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_one_folder_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::real();
        for folder in ["a", "b"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
            for file in ["1", "2", "3"] {
                std::fs::write(dir.path().join(folder).join(file), [folder, file].concat()).unwrap();
            }
        }
        let mut near = Nearby::new(&fs);
        for name in ["a/1", "a/2", "a/3", "b/1", "a/2", "a/1"] {
            let path = dir.path().join(name);
            assert_eq!(near.find_link(&path).unwrap(), fs.find_link(&path).unwrap());
            let file = near.open(&path).unwrap();
            assert_eq!((file.path(), file.read_to_end().unwrap()), (&*path, name.replace('/', "").into_bytes()));
        }
        for name in ["a/1", "a/2", "a/3"] {
            std::fs::remove_file(dir.path().join(name)).unwrap();
            assert_eq!(near.find_link(&dir.path().join(name)).unwrap(), None);
            assert!(near.open(&dir.path().join(name)).is_err_and(|error| error.is_not_found()));
        }
        assert_eq!(fs.read_dir(&dir.path().join("a")).unwrap(), []);
        assert_eq!(fs.read_dir(&dir.path().join("b")).unwrap().len(), 3);
    }

    /// Previously, a file on which another process has a lease could not be opened.
    #[test]
    fn a_file_with_a_lease_is_opened_once_the_lease_has_ended() {
        let script = "import fcntl, os, signal, sys\n\
                      file = os.open(sys.argv[1], os.O_RDONLY)\n\
                      signal.signal(signal.SIGIO, lambda *_: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK))\n\
                      fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
                      os.write(1, b'x')\n\
                      while True: signal.pause()";
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (Fs::real(), dir.path().join("file"));
        std::fs::write(&path, "content").unwrap();
        let folder = fs.folder(dir.path()).unwrap();
        let mut near = Nearby::new(&fs);
        near.find_link(&path).unwrap();
        for is_near in [true, false] {
            let mut command = std::process::Command::new("python3");
            let mut holder =
                command.args(["-c", script]).arg(&path).stdout(std::process::Stdio::piped()).spawn().unwrap();
            std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            let opened = if is_near { near.open(&path) } else { folder.open("file".as_ref()) };
            holder.kill().unwrap();
            holder.wait().unwrap();
            assert_eq!(opened.unwrap().read_to_end().unwrap(), b"content");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::real();
        let mut near = Nearby::new(&fs);
        for _ in 0..3 {
            assert_eq!(near.find_link(&dir.path().join("none/x")).unwrap(), None);
            assert!(near.open(&dir.path().join("none/x")).is_err_and(|error| error.is_not_found()));
        }
    }
}
