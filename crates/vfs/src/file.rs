use crate::{Error, Op, Result, ServerHandle, Stat, Verdict, io_hooks::IoHooks, planted};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::{Flock, FlockType, fcntl_getlk},
};
use std::{
    io::{self, Read, Write},
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::SystemTime,
};

/// An open file. Only [`overwrite`](File::overwrite) is meant to change bytes that were written before.
#[derive(Debug)]
pub struct File {
    inner: std::fs::File,
    path: PathBuf,
    /// The I/O hook, and the counter that counts this file as long as it is open.
    hooks: IoHooks,
    is_locked: AtomicBool,
}

impl Drop for File {
    fn drop(&mut self) {
        if *self.is_locked.get_mut() {
            // A child that another thread starts has a copy of the descriptor until it runs its program. Closing only
            // ours would leave the lock to that copy.
            let given_back = flock(&self.inner, FlockOperation::Unlock);
            debug_assert!(given_back.is_ok(), "a lock that was taken can be given back: {given_back:?}");
        }
        self.hooks.count_closed();
    }
}

impl File {
    pub(crate) fn new(hooks: &IoHooks, inner: std::fs::File, path: &Path) -> Self {
        hooks.count_opened();
        File { inner, path: path.to_owned(), hooks: hooks.clone(), is_locked: AtomicBool::new(false) }
    }

    /// The path at which the file was opened, or after [`Lock::commit`](crate::Lock::commit) that of the locked file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Duplicates the descriptor. The copy shares its position and its locks with this one; the locks end when the
    /// handle that took them is dropped.
    pub fn duplicate(&self) -> Result<Self> {
        match self.hooks.opening(|| self.inner.try_clone()) {
            Ok(inner) => Ok(File::new(&self.hooks, inner, &self.path)),
            Err(source) => Err(Error::new("open", &self.path, source)),
        }
    }

    pub(crate) fn renamed(mut self, path: &Path) -> Self {
        self.path = path.to_owned();
        self
    }

    pub(crate) fn as_std(&self) -> &std::fs::File {
        &self.inner
    }

    /// Stats the open file, even if its name leads to another file now.
    pub fn stat(&self) -> Result<Stat> {
        match self.inner.metadata() {
            Ok(metadata) => Ok(Stat::of(&metadata)),
            Err(source) => Err(Error::new("stat", &self.path, source)),
        }
    }

    /// The handle by which the server of a network file system knows the open file; see
    /// [`Fs::identify`](crate::Fs::identify). `None` if the file system does not reveal it.
    pub fn server_handle(&self) -> Option<ServerHandle> {
        ServerHandle::of(&self.inner)
    }

    /// The number of names (hard links) of the open file.
    pub fn names(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.inner).map_err(|source| Error::new("stat", &self.path, source))?;
        Ok(stat.st_nlink as u64)
    }

    /// Fills `buffer` from `offset`; fails if the file ends before the buffer is full.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.require_name()
            .and_then(|()| self.require_content(offset))
            .and_then(|()| self.inner.read_exact_at(buffer, offset))
            .map_err(|source| Error::new("read", &self.path, source))
    }

    /// Reads at `offset` into `buffer`, and returns the number of bytes read, which is 0 at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.require_name()
            .and_then(|()| self.require_content(offset))
            .and_then(|()| self.inner.read_at(buffer, offset))
            .map_err(|source| Error::new("read", &self.path, source))
    }

    /// Reads from the position where the last read or write without an offset ended, at first from the start of the
    /// file, to its end.
    pub fn read_to_end(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.require_name()
            .and_then(|()| (&self.inner).read_to_end(&mut bytes))
            .map_err(|source| Error::new("read", &self.path, source))?;
        Ok(bytes)
    }

    /// Reads all bytes of the file, wherever the last read ended.
    pub(crate) fn read_all(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.stat()?.len_bytes as usize];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// With a planted fault, fails as an NFS 3 server does for a file that has lost its last name.
    #[inline]
    fn require_name(&self) -> io::Result<()> {
        if planted("vfs-stale") && rustix::fs::fstat(&self.inner)?.st_nlink == 0 {
            return Err(io::ErrorKind::StaleNetworkFileHandle.into());
        }
        Ok(())
    }

    /// With a planted fault, fails once in a process as if the server had lost a large file: `vfs-stale-early` at the
    /// first read in the first eighth of the file but not at its start, `vfs-stale-late` at the first read beyond
    /// 128 KiB between the middle and seven eighths of the file.
    #[inline]
    fn require_content(&self, offset: u64) -> io::Result<()> {
        const LATE_BYTES: u64 = 128 << 10;
        static HAS_FAILED: AtomicBool = AtomicBool::new(false);
        let is_lost = if planted("vfs-stale-early") {
            offset > 0 && offset < self.inner.metadata()?.len() / 8
        } else if planted("vfs-stale-late") {
            let len = self.inner.metadata()?.len();
            offset > LATE_BYTES && offset > len / 2 && offset < len / 8 * 7
        } else {
            false
        };
        if is_lost && !HAS_FAILED.swap(true, Relaxed) {
            return Err(io::ErrorKind::StaleNetworkFileHandle.into());
        }
        Ok(())
    }

    /// Reads this number of bytes, or as many as remain, from the position where the last read or write without an
    /// offset ended.
    pub fn read_len(&self, len_bytes: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = match bytes.try_reserve_exact(usize::try_from(len_bytes).unwrap_or(usize::MAX)) {
            Ok(()) => (&self.inner).take(len_bytes).read_to_end(&mut bytes),
            Err(_) => Err(io::ErrorKind::OutOfMemory.into()),
        };
        read.map(|_| bytes).map_err(|source| Error::new("read", &self.path, source))
    }

    /// Writes all of `bytes` where the last write, copy or read without an offset ended, or at the end of the file if
    /// that was opened for appending.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match self.hooks.verdict(Op::Write(&self.path, bytes)) {
            Verdict::Proceed => self.inner.write_all(bytes),
            Verdict::Fail(error) => Err(error),
            Verdict::Tear(len, error) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len());
                self.inner.write_all(&bytes[..len]).and(Err(error))
            }
        };
        written.map_err(|source| Error::new("write", &self.path, source))
    }

    /// Writes all of `bytes` at `offset`, the end of the bytes written so far. After a failure the same bytes can be
    /// written again at the same offset.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write_at(Op::Write(&self.path, bytes), bytes, offset)
    }

    /// Overwrites the bytes at `offset` with all of `bytes`. If the overwritten bytes lie within the file, its length
    /// stays the same.
    pub fn overwrite(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write_at(Op::Overwrite(&self.path, offset, bytes), bytes, offset)
    }

    fn write_at(&self, op: Op<'_>, bytes: &[u8], offset: u64) -> Result<()> {
        let written = match self.hooks.verdict(op) {
            Verdict::Proceed => self.inner.write_all_at(bytes, offset),
            Verdict::Fail(error) => Err(error),
            Verdict::Tear(len, error) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len());
                self.inner.write_all_at(&bytes[..len], offset).and(Err(error))
            }
        };
        written.map_err(|source| Error::new("write", &self.path, source))
    }

    /// Locks the file exclusively for this handle (`flock`), until the handle is dropped or the process ends in any
    /// way. A file server gives the lock up earlier if it does not hear from this machine. Returns `false` if another
    /// handle, of this or another process, has the file locked, be it only shared.
    pub fn try_lock(&self) -> Result<bool> {
        self.lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a shared lock on the file, for callers that only want to know whether a handle has the file locked
    /// exclusively. Any number of handles can have a shared lock. The file may be open for reading only.
    pub(crate) fn try_lock_shared(&self) -> Result<bool> {
        self.lock(FlockOperation::NonBlockingLockShared)
    }

    fn lock(&self, how: FlockOperation) -> Result<bool> {
        match flock(&self.inner, how) {
            Ok(()) => {
                self.is_locked.store(true, Relaxed);
                Ok(true)
            }
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(source) => Err(Error::new("lock", &self.path, source)),
        }
    }

    /// Returns whether another process has an exclusive record lock (`fcntl`) on the file. The kernel's NFS server
    /// turns a client's exclusive `flock` into such a lock, which a `flock` on the server's own machine does not see.
    pub(crate) fn is_record_locked(&self) -> Result<bool> {
        let whole = Flock::from(FlockType::ReadLock);
        match fcntl_getlk(&self.inner, &whole) {
            Ok(holder) => Ok(holder.is_some()),
            Err(source) => Err(Error::new("examine the locks of", &self.path, source)),
        }
    }

    /// Writes `len` bytes of `source`, from `offset` on, where [`write_all`](Self::write_all) would write. They are
    /// copied inside the kernel where that is possible.
    pub fn copy_from(&mut self, source: &File, offset: u64, len: u64) -> Result<()> {
        let op = Op::Copy { from: &source.path, offset, len, to: &self.path };
        let (len, torn) = match self.hooks.verdict(op) {
            Verdict::Proceed => (len, None),
            Verdict::Fail(error) => (0, Some(error)),
            Verdict::Tear(at, error) => (len.min(at), Some(error)),
        };
        copy_range(&source.inner, offset, &mut self.inner, len)
            .and_then(|()| torn.map_or(Ok(()), Err))
            .map_err(|source| Error::new("write", &self.path, source))
    }

    /// Brings the file's content to stable storage.
    pub fn sync(&self) -> Result<()> {
        self.hooks.change(Op::Sync(&self.path), "sync", &self.path, || self.inner.sync_all())
    }

    /// Brings the file's content to stable storage, without time stamps and other metadata that nobody needs to read
    /// the content.
    pub fn sync_data(&self) -> Result<()> {
        self.hooks.change(Op::Sync(&self.path), "sync", &self.path, || self.inner.sync_data())
    }

    /// Sets the open file's permission bits regardless of the umask.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        self.hooks.change(Op::SetMode(&self.path, mode), "set the permissions of", &self.path, || {
            self.inner.set_permissions(std::fs::Permissions::from_mode(mode))
        })
    }

    /// Sets the time at which the open file was last modified; a later write sets it to the time of that write.
    pub fn set_modified(&self, time: SystemTime) -> Result<()> {
        self.hooks
            .change(Op::SetModified(&self.path, time), "set the time of", &self.path, || self.inner.set_modified(time))
    }
}

fn copy_range(from: &std::fs::File, mut offset: u64, to: &mut std::fs::File, len: u64) -> io::Result<()> {
    let end = offset + len;
    while offset < end {
        let want = usize::try_from(end - offset).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut offset), &*to, None, want) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // The kernel cannot copy between these two files, or a sandbox forbids the call, so a buffer is used.
            Err(
                rustix::io::Errno::XDEV
                | rustix::io::Errno::BADF
                | rustix::io::Errno::PERM
                | rustix::io::Errno::INVAL
                | rustix::io::Errno::NOSYS
                | rustix::io::Errno::OPNOTSUPP,
            ) => return copy_through_buffer(from, offset, to, end),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_through_buffer(from: &std::fs::File, mut offset: u64, to: &mut std::fs::File, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    while offset < end {
        let want = usize::try_from(end - offset).unwrap_or(usize::MAX).min(buffer.len());
        let got = from.read_at(&mut buffer[..want], offset)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all(&buffer[..got])?;
        offset += got as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fs;

    #[test]
    fn a_lock_ends_with_its_handle_though_a_child_has_a_copy_of_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (Fs::real(), dir.path().join("lock"));
        let file = fs.create_new(&path, 0o666).unwrap();
        assert!(file.try_lock().unwrap());
        let copy = file.as_std().try_clone().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(copy).spawn().unwrap();
        drop(file);
        let is_free = fs.open(&path).unwrap().try_lock();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_free.unwrap());
    }

    #[test]
    fn a_range_is_copied_to_the_end_of_a_file_that_is_open_for_appending() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, [from, to]) = (Fs::real(), ["from", "to"].map(|name| dir.path().join(name)));
        std::fs::write(&from, "content").unwrap();
        std::fs::write(&to, "some ").unwrap();
        let mut end = fs.append(&to, 0o666).unwrap();
        copy_range(fs.open(&from).unwrap().as_std(), 3, &mut end.inner, 4).unwrap();
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "some tent");
    }

    #[test]
    fn a_file_is_read_after_its_name_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (Fs::real(), dir.path().join("file"));
        std::fs::write(&path, "content").unwrap();
        let file = fs.open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.read_all().map_err(|error| error.to_string()), Ok(b"content".into()), "it is held open");
    }

    #[test]
    fn each_part_of_a_large_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (Fs::real(), dir.path().join("file"));
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let file = fs.open(&path).unwrap();
        for offset in [0, 64 << 10, 700 << 10] {
            let mut bytes = [0; 100];
            let got = file.read_at(&mut bytes, offset).map_err(|error| error.to_string());
            assert_eq!((got, bytes), (Ok(100), [7; 100]), "nothing is lost");
        }
    }

    #[test]
    fn a_range_is_copied_to_the_end_by_either_way() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::real();
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let mut from = fs.create_new(&dir.path().join("from"), 0o666).unwrap();
        from.write_all(&bytes).unwrap();
        let mut to = fs.create_new(&dir.path().join("to"), 0o666).unwrap();
        to.write_all(b"head").unwrap();
        to.copy_from(&from, 7, 2_500_000).unwrap();
        copy_through_buffer(from.as_std(), 5, &mut to.inner, 1_200_000).unwrap();
        let expected = [b"head", &bytes[7..2_500_007], &bytes[5..1_200_000]].concat();
        assert!(fs.read(&dir.path().join("to")).unwrap() == expected);
        assert!(to.copy_from(&from, 2_999_999, 2).is_err(), "a range past the end is an error, not a short copy");
    }
}
