use refdb_vfs::{IoHook, Op, Verdict};
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// A recorded operation. Paths are relative to the folder in which the workload runs.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Create(PathBuf),
    Write(PathBuf, Vec<u8>),
    Overwrite(PathBuf, u64, Vec<u8>),
    Copy { from: PathBuf, offset: u64, len: u64, to: PathBuf },
    Sync(PathBuf),
    SyncDir(PathBuf),
    Rename(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
    SyncAll,
    Link(PathBuf, PathBuf),
    Symlink(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDir(PathBuf),
    RemoveDir(PathBuf),
    SetMode(PathBuf),
    SetModified(PathBuf),
}

impl Seen {
    pub(super) fn new(root: &Path, op: Op<'_>) -> Self {
        let at = |path: &Path| match path.strip_prefix(root) {
            Ok(path) => path.to_owned(),
            Err(_) => panic!("{op:?} leaves the folder of the workload, '{}'", root.display()),
        };
        match op {
            Op::Create(path) => Seen::Create(at(path)),
            Op::Write(path, bytes) => Seen::Write(at(path), bytes.to_vec()),
            Op::Overwrite(path, offset, bytes) => Seen::Overwrite(at(path), offset, bytes.to_vec()),
            Op::Copy { from, offset, len, to } => Seen::Copy { from: at(from), offset, len, to: at(to) },
            Op::Sync(path) => Seen::Sync(at(path)),
            Op::SyncDir(path) => Seen::SyncDir(at(path)),
            Op::Rename(from, to) => Seen::Rename(at(from), at(to)),
            Op::Exchange(one, other) => Seen::Exchange(at(one), at(other)),
            Op::SyncAll(_) => Seen::SyncAll,
            Op::Link(from, to) => Seen::Link(at(from), at(to)),
            Op::Symlink(path, content) => Seen::Symlink(at(path), content.to_owned()),
            Op::Remove(path) => Seen::Remove(at(path)),
            Op::MakeDir(path) => Seen::MakeDir(at(path)),
            Op::RemoveDir(path) => Seen::RemoveDir(at(path)),
            Op::SetMode(path, _) => Seen::SetMode(at(path)),
            Op::SetModified(path, _) => Seen::SetModified(at(path)),
        }
    }

    /// Returns the number of bytes that the operation writes to a file.
    pub(super) fn len_bytes(&self) -> u64 {
        match self {
            Seen::Write(_, bytes) | Seen::Overwrite(_, _, bytes) => bytes.len() as u64,
            Seen::Copy { len, .. } => *len,
            _ => 0,
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Create(path) => write!(f, "create {}", path.display()),
            Seen::Write(path, bytes) => write!(f, "write {} bytes to {}", bytes.len(), path.display()),
            Seen::Overwrite(path, offset, bytes) => {
                let what = if bytes.iter().all(|byte| *byte == 0) { "zeros" } else { "bytes" };
                write!(f, "write {} {what} over those at {offset} of {}", bytes.len(), path.display())
            }
            Seen::Copy { from, len, to, .. } => {
                write!(f, "copy {len} bytes of {} to {}", from.display(), to.display())
            }
            Seen::Sync(path) => write!(f, "sync {}", path.display()),
            Seen::SyncDir(path) => write!(f, "sync the folder {}", path.display()),
            Seen::Rename(from, to) => write!(f, "rename {} to {}", from.display(), to.display()),
            Seen::Exchange(one, other) => write!(f, "exchange {} with {}", one.display(), other.display()),
            Seen::SyncAll => write!(f, "sync everything"),
            Seen::Link(from, to) => write!(f, "link {} to {}", to.display(), from.display()),
            Seen::Symlink(path, content) => write!(f, "make {} a link to {}", path.display(), content.display()),
            Seen::Remove(path) => write!(f, "remove {}", path.display()),
            Seen::MakeDir(path) => write!(f, "make the folder {}", path.display()),
            Seen::RemoveDir(path) => write!(f, "remove the folder {}", path.display()),
            Seen::SetMode(path) => write!(f, "set the mode of {}", path.display()),
            Seen::SetModified(path) => write!(f, "set the time of {}", path.display()),
        }
    }
}

/// Which operations of the workload fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// No operation fails; the run is only recorded.
    None,
    /// The operation with this number fails, and every later one.
    Dead(usize),
    /// The operation with this number writes that many bytes and then fails, and so does every later one.
    DeadInside(usize, u64),
    /// Only the operation with this number fails.
    Once(usize),
}

/// Records what a workload does below `root`, and makes operations fail as `fault` says.
pub(super) struct Recorder {
    root: PathBuf,
    fault: Fault,
    seen: Mutex<Vec<Seen>>,
}

impl Recorder {
    pub(super) fn new(root: &Path, fault: Fault) -> Self {
        Recorder { root: root.to_owned(), fault, seen: Mutex::default() }
    }

    /// Takes all operations that were recorded so far, including those that failed.
    pub(super) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("no holder panics"))
    }
}

impl IoHook for Recorder {
    fn before(&self, op: Op<'_>) -> Verdict {
        let op = Seen::new(&self.root, op);
        let mut seen = self.seen.lock().expect("no holder panics");
        let now = seen.len();
        seen.push(op);
        let error = || io::Error::other("stopped by the crash explorer");
        match self.fault {
            Fault::DeadInside(at, len) if now == at => Verdict::Tear(len, error()),
            Fault::Dead(at) | Fault::DeadInside(at, _) if now >= at => Verdict::Fail(error()),
            Fault::Once(at) if now == at => Verdict::Fail(io::ErrorKind::StorageFull.into()),
            _ => Verdict::Proceed,
        }
    }
}
