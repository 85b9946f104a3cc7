//! A model of the clients of an NFS server: what each of them remembers of a shared folder, and how that misleads it.
//!
//! - A name that a client has looked up leads to the same file, and a name that was absent stays absent, until the
//!   client sees that the name's folder has changed.
//! - The client sees that a folder has changed when it opens the folder or asks for the folder's attributes, and when
//!   it changes an entry of the folder.
//! - A name whose file another client has replaced or removed leads to the old file, as if a program had that open, or
//!   is a stale handle (`ESTALE`).
//! - A folder that another client has removed is a stale handle, also if there is a new one of its name.
//! - A request whose reply is lost is sent again, so that a link or a new folder "exists already", and the file of a
//!   rename or a removal is "not found".
//!
//! A real client forgets what it remembers after some time, and asks the server more often than this one does. The
//! model's clients forget nothing by the mere passage of time. The attributes and contents of files are the server's,
//! because the code under test asks for them each time.

use refdb_vfs::{IoHook, LookUp, Op, Verdict};
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::SystemTime,
};

/// A folder that several clients share.
#[derive(Debug)]
pub struct SharedFolder {
    root: PathBuf,
    /// The folder for files that have lost the name by which a client remembers them.
    held: PathBuf,
    state: Mutex<State>,
}

/// The number of a file's inode and the time at which the file was created, because numbers of inodes are used again.
type FileId = (u64, Option<SystemTime>);

#[derive(Default, Debug)]
struct State {
    /// How often each folder has changed.
    versions: HashMap<PathBuf, u64>,
    clients: Vec<HashMap<PathBuf, Known>>,
}

/// What a client remembers of a folder.
#[derive(Debug)]
struct Known {
    folder: Option<FileId>,
    version: u64,
    /// Each name that was looked up, and its file if it had one.
    names: HashMap<OsString, Option<FileId>>,
}

/// What a remembered name of a replaced file leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replaced {
    /// The name leads to the old file.
    OldFile,
    /// The name is a stale handle.
    Stale,
}

/// A client, as the hook of a [`Fs`](refdb_vfs::Fs).
pub struct NfsClient {
    shared: Arc<SharedFolder>,
    number: usize,
    replaced: Replaced,
    steps: AtomicUsize,
    interruption: Mutex<Option<Interruption>>,
    /// How many more requests that change something are answered before the reply to one is lost.
    answers_left: AtomicUsize,
}

/// An interruption of a client: the step before which it comes, and what happens then.
type Interruption = (usize, Box<dyn FnOnce() + Send>);

impl fmt::Debug for NfsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NfsClient").field("number", &self.number).field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl SharedFolder {
    /// Shares the folder `root`. `held` is an empty folder on the same file system.
    pub fn new(root: &Path, held: &Path) -> Arc<Self> {
        Arc::new(SharedFolder { root: root.to_owned(), held: held.to_owned(), state: Mutex::default() })
    }

    /// Returns a new client, which remembers nothing yet.
    pub fn client(self: &Arc<Self>, replaced: Replaced) -> Arc<NfsClient> {
        let mut state = self.state();
        state.clients.push(HashMap::new());
        Arc::new(NfsClient {
            shared: Arc::clone(self),
            number: state.clients.len() - 1,
            replaced,
            steps: AtomicUsize::new(0),
            interruption: Mutex::default(),
            answers_left: AtomicUsize::new(usize::MAX),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panicked with the state")
    }

    /// Returns a path relative to the shared folder, or `None` for a path elsewhere.
    fn within(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.root).ok().map(Path::to_owned)
    }

    fn id(&self, below: &Path) -> Option<FileId> {
        id_of(&self.root.join(below))
    }

    /// Returns what the client remembers of a folder, which is nothing if another folder has taken its place.
    fn known<'s>(&self, state: &'s mut State, client: usize, folder: &Path) -> &'s mut Known {
        let (id, version) = (self.id(folder), state.versions.get(folder).copied().unwrap_or(0));
        let new = || Known { folder: id, version, names: HashMap::new() };
        let known = state.clients[client].entry(folder.to_owned()).or_insert_with(new);
        if known.folder != id {
            *known = new();
        }
        known
    }

    /// Returns the file to which the client believes that a name leads. A client that does not remember the name asks
    /// the server.
    fn believed(&self, state: &mut State, client: usize, folder: &Path, name: &OsStr) -> Option<FileId> {
        let known = self.known(state, client, folder);
        *known.names.entry(name.to_owned()).or_insert_with(|| self.id(&folder.join(name)))
    }

    /// Follows a path through folders, as far as the client believes in them.
    fn walk(&self, state: &mut State, client: usize, folder: &Path) -> io::Result<()> {
        let mut at = PathBuf::new();
        for part in folder.components() {
            let name = part.as_os_str();
            let believed = self.believed(state, client, &at, name);
            at.push(name);
            match believed {
                None => return Err(io::ErrorKind::NotFound.into()),
                Some(id) if self.id(&at) != Some(id) => return Err(io::ErrorKind::StaleNetworkFileHandle.into()),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The client asks the server whether a folder has changed.
    fn refresh(&self, state: &mut State, client: usize, folder: &Path) {
        let version = state.versions.get(folder).copied().unwrap_or(0);
        let known = self.known(state, client, folder);
        if known.version != version {
            known.version = version;
            known.names.clear();
        }
    }

    /// Keeps the file that is about to lose this name if a client remembers it by the name.
    fn hold(&self, state: &State, below: &Path) {
        let (Some((folder, name)), Some(id)) = (place(below), self.id(below)) else { return };
        let is_known = |known: &HashMap<PathBuf, Known>| {
            known.get(folder).is_some_and(|known| known.names.get(name) == Some(&Some(id)))
        };
        if !state.clients.iter().any(is_known) {
            return;
        }
        let (path, held) = (self.root.join(below), self.held_path(id));
        // A lock is copied, not linked: it may be a link to one of the spare files of `refdb_vfs`, each of which serves
        // one lock after the other, and a further link to a spare file would look like a lock that still uses the file.
        if below.extension().is_some_and(|extension| extension == "lock") {
            let _ = fs::copy(path, held);
        } else {
            let _ = fs::hard_link(path, held);
        }
    }

    fn held_path(&self, (inode, _): FileId) -> PathBuf {
        self.held.join(inode.to_string())
    }

    /// The client changes an entry of a folder. The reply says whether somebody else has changed the folder before.
    fn change(&self, state: &mut State, client: usize, below: &Path) {
        let Some((folder, name)) = place(below) else { return };
        self.refresh(state, client, folder);
        let version = state.versions.entry(folder.to_owned()).or_insert(0);
        *version += 1;
        let version = *version;
        let known = self.known(state, client, folder);
        known.version = version;
        known.names.remove(name);
    }
}

impl NfsClient {
    /// How many operations the client was asked for so far.
    pub fn steps(&self) -> usize {
        self.steps.load(SeqCst)
    }

    /// Loses the server's reply to one request that changes something: the one after the next `answered` such requests.
    pub fn lose_reply_after(&self, answered: usize) {
        self.answers_left.store(answered, SeqCst);
    }

    /// Returns whether a reply is still to be lost, and loses none from now on.
    pub fn keep_replies(&self) -> bool {
        self.answers_left.swap(usize::MAX, SeqCst) <= usize::MAX / 2
    }

    /// Has something happen before operation number `step`, counted from 0, in another thread.
    pub fn interrupt_at(&self, step: usize, act: impl FnOnce() + Send + 'static) {
        *self.interruption() = Some((step, Box::new(act)));
    }

    /// Does what was to happen at a step that never came. Returns whether there was such a thing.
    pub fn interrupt_now(&self) -> bool {
        let due = self.interruption().take();
        let is_due = due.is_some();
        if let Some((_, act)) = due {
            act();
        }
        is_due
    }

    fn interruption(&self) -> MutexGuard<'_, Option<Interruption>> {
        self.interruption.lock().expect("no thread panicked with the interruption")
    }

    fn step(&self) {
        let step = self.steps.fetch_add(1, SeqCst);
        let due = self.interruption().take_if(|(at, _)| *at == step);
        if let Some((_, act)) = due {
            // In another thread, because `refdb_vfs` remembers for each thread about which folders it has asked the
            // server.
            thread::spawn(act).join().expect("what interrupts the client succeeds");
        }
    }
}

impl IoHook for NfsClient {
    fn before(&self, op: Op<'_>) -> Verdict {
        self.step();
        let (lost, changed): (&[&Path], &[&Path]) = match &op {
            Op::Create(path) | Op::MakeDir(path) | Op::Symlink(path, _) => (&[], &[path]),
            Op::Link(_, to) => (&[], &[to]),
            Op::Remove(path) | Op::RemoveDir(path) => (&[path], &[path]),
            Op::Rename(from, to) => (&[to], &[from, to]),
            Op::Exchange(one, other) => (&[one, other], &[one, other]),
            _ => return Verdict::Proceed,
        };
        let (shared, mut state) = (&self.shared, self.shared.state());
        for below in changed.iter().filter_map(|path| shared.within(path)) {
            let folder = below.parent().unwrap_or(Path::new(""));
            if let Err(error) = shared.walk(&mut state, self.number, folder) {
                return Verdict::Fail(error);
            }
        }
        lost.iter().filter_map(|path| shared.within(path)).for_each(|below| shared.hold(&state, &below));
        for below in changed.iter().filter_map(|path| shared.within(path)) {
            shared.change(&mut state, self.number, &below);
        }
        Verdict::Proceed
    }

    fn look_up(&self, path: &Path, how: LookUp) -> io::Result<Option<PathBuf>> {
        self.step();
        let shared = &self.shared;
        let Some(below) = shared.within(path) else { return Ok(None) };
        let mut state = shared.state();
        if how == LookUp::Folder {
            shared.walk(&mut state, self.number, &below)?;
            shared.refresh(&mut state, self.number, &below);
            return Ok(None);
        }
        let Some((folder, name)) = place(&below) else { return Ok(None) };
        shared.walk(&mut state, self.number, folder)?;
        let Some(id) = shared.believed(&mut state, self.number, folder, name) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if shared.id(&below) == Some(id) {
            if how == LookUp::Attributes {
                shared.refresh(&mut state, self.number, &below);
            }
            return Ok(None);
        }
        let held = shared.held_path(id);
        match self.replaced {
            Replaced::OldFile if held.exists() => Ok(Some(held)),
            _ => Err(io::ErrorKind::StaleNetworkFileHandle.into()),
        }
    }

    fn loses_reply(&self) -> bool {
        // After 0, the counter wraps around to the largest number, so that only one reply is lost.
        self.answers_left.fetch_sub(1, SeqCst) == 0
    }

    fn is_network(&self) -> bool {
        true
    }
}

/// Makes a file system count as one on a network, and changes nothing else.
#[derive(Debug)]
pub struct Network;

impl IoHook for Network {
    fn before(&self, _: Op<'_>) -> Verdict {
        Verdict::Proceed
    }

    fn is_network(&self) -> bool {
        true
    }
}

fn id_of(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    let stat = fs::symlink_metadata(path).ok()?;
    Some((stat.ino(), stat.created().ok()))
}

/// A path's folder and the name in it.
fn place(below: &Path) -> Option<(&Path, &OsStr)> {
    Some((below.parent()?, below.file_name()?))
}
