//! Reads whole files. Reading fails if a pipe in the place of a file would block, or for an endless device, because
//! these would stop a server that reads other people's repositories. Only [`Fs::read_input`], for files that the user
//! has named, waits for a pipe.

use crate::{Error, Fs, LookUp, Result, fs::past_lease};
use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
};
use std::{io, os::fd::AsFd, path::Path};

/// The number of bytes read at once from a small file, which is more than nearly every HEAD and config file has.
const SMALL_FILE_BYTES: usize = 1024;

/// The least room for one read from a file that turns out to be larger, in bytes.
const LARGER_FILE_BYTES: usize = 16 << 10;

impl Fs {
    /// Reads a whole file. Fails rather than wait for a pipe or read an endless device; see [`Error::is_special`].
    pub fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_small(path, true, usize::MAX, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a file into `buffer`, which is cleared first, with as few system calls as possible for a file of less than
    /// a KiB. If the file has more than `max_bytes` bytes, `buffer` gets more than `max_bytes` of them, but perhaps not
    /// all. A symbolic link is followed only if `follow` is set. Fails rather than wait for a pipe or read an endless
    /// device; see [`Error::is_special`].
    pub fn read_small(&self, path: &Path, follow: bool, max_bytes: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let link = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        self.read_file(path, OFlags::NONBLOCK | link, max_bytes, buffer)
    }

    /// Reads a file that the user who started this process has named, as [`read_small`](Self::read_small) does with
    /// `follow`. A pipe can block the caller until all its writers have closed it, because a shell can pass the output
    /// of a command as one.
    pub fn read_input(&self, path: &Path, max_bytes: usize, buffer: &mut Vec<u8>) -> Result<()> {
        self.read_file(path, OFlags::empty(), max_bytes, buffer)
    }

    fn read_file(&self, path: &Path, flags: OFlags, max_bytes: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let is_input = !flags.contains(OFlags::NONBLOCK);
        let read = || -> io::Result<()> {
            buffer.clear();
            let file = self.opening(path, || -> io::Result<_> {
                let found = self.hooks().look_up(path, LookUp::Name)?;
                let base = OFlags::RDONLY | OFlags::CLOEXEC;
                past_lease(flags, |flags| rustix::fs::open(&*found, base | flags, Mode::empty()))
            })?;
            // This is on the stack, whose page is mapped already. A large buffer on the heap costs a page fault for
            // each file.
            let mut small = [0; SMALL_FILE_BYTES];
            loop {
                let len = match rustix::io::read(&file, &mut small) {
                    Err(Errno::WOULDBLOCK) => return Err(Errno::SPIPE.into()),
                    len => len?,
                };
                if len == 0 && buffer.is_empty() && !is_input && kind_of_file(&file)? == FileType::Fifo {
                    return Err(Errno::SPIPE.into());
                }
                let goes_on = len > 0 && !buffer.is_empty();
                buffer.extend_from_slice(&small[..len]);
                if len == 0 {
                    return Ok(());
                }
                // What gives more after a short read is hardly ever a regular file, and is examined below.
                if len == small.len() || goes_on {
                    break;
                }
            }
            if !is_input && kind_of_file(&file)? != FileType::RegularFile {
                return Err(Errno::SPIPE.into());
            }
            while buffer.len() <= max_bytes {
                buffer.reserve(LARGER_FILE_BYTES);
                if rustix::io::read(&file, rustix::buffer::spare_capacity(buffer))? == 0 {
                    break;
                }
            }
            Ok(())
        };
        self.reading(path, read).map_err(|source| Error::new("read", path, source))
    }
}

fn kind_of_file(file: &impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::{sync::mpsc, time::Duration};

    #[test]
    fn small_and_not_so_small_files_are_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (Fs::real(), dir.path().join("a"));
        let mut buffer = b"old".to_vec();
        for len in [0, 1, SMALL_FILE_BYTES - 1, SMALL_FILE_BYTES, SMALL_FILE_BYTES + 1, 3 * LARGER_FILE_BYTES] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            fs.read_small(&path, true, usize::MAX, &mut buffer).unwrap();
            assert!(buffer == bytes, "{len}");
            let mut part = Vec::new();
            fs.read_small(&path, true, SMALL_FILE_BYTES, &mut part).unwrap();
            assert!(bytes.starts_with(&part) && part.len() >= len.min(SMALL_FILE_BYTES + 1), "{len}");
            assert!(part.len() <= 2 * LARGER_FILE_BYTES, "{len}");
        }
        let link = dir.path().join("link");
        fs.symlink(&path, &link).unwrap();
        assert!(fs.read_small(&link, false, usize::MAX, &mut buffer).unwrap_err().is_symlink());
        fs.read_small(&link, true, usize::MAX, &mut buffer).unwrap();
        assert!(fs.read_small(&dir.path().join("b"), true, 9, &mut buffer).unwrap_err().is_not_found());
    }

    /// Previously, a pipe in the place of a file blocked its reader for ever.
    #[test]
    fn a_pipe_or_an_endless_device_is_no_file_and_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, pipe) = (Fs::real(), dir.path().join("pipe"));
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let read = |path: &Path| {
            let (fs, path) = (fs.clone(), path.to_owned());
            let (tell, told) = mpsc::channel();
            std::thread::spawn(move || {
                let small = fs.read_small(&path, true, usize::MAX, &mut Vec::new()).map_err(|error| error.is_special());
                let _ = tell.send((small, fs.read(&path).map_err(|error| error.is_special())));
            });
            told.recv_timeout(Duration::from_secs(60)).expect("it does not block")
        };
        assert_eq!(read(&pipe), (Err(true), Err(true)), "without a writer");
        let writer = rustix::fs::open(&pipe, OFlags::RDWR, Mode::empty()).unwrap();
        assert_eq!(read(&pipe), (Err(true), Err(true)), "with a writer that writes nothing");
        rustix::io::write(&writer, &[b'x'; SMALL_FILE_BYTES]).unwrap();
        assert_eq!(read(&pipe), (Err(true), Err(true)), "with a writer that has written");
        assert_eq!(read(Path::new("/dev/zero")), (Err(true), Err(true)));
        assert_eq!(read(Path::new("/dev/null")), (Ok(()), Ok(Vec::new())), "git takes it for an empty file");
    }

    #[test]
    fn a_pipe_that_was_named_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let content: Vec<u8> = (0..3 * SMALL_FILE_BYTES).map(|at| (at % 251) as u8).collect();
        let mut buffer = Vec::new();
        let (to, written) = (pipe.clone(), content.clone());
        // Nobody waits for this thread, which would wait for ever if nobody read.
        std::thread::spawn(move || std::fs::write(to, written));
        Fs::real().read_input(&pipe, usize::MAX, &mut buffer).unwrap();
        assert!(buffer == content);
    }
}
