use bstr::{BStr, BString};
use refdb::{
    Change, Committed, Cursor, Edit, HashKind, Ident, Maintenance, ObjectError, ObjectId, Precondition, RefName,
    RefView, Resolved, Result, Target, TargetView, Transaction, TransactionOptions,
    files::{FilesBackend, FilesOptions},
    memory::MemoryBackend,
    reftable::{ReftableBackend, ReftableOptions},
    transaction::{Context, Hook, HookSource, HookState, LogPolicy, Mode, NoHook, ObjectCheck, ObjectClass},
};
use refdb_testkit::{RefFormat, Repo};
use refdb_vfs::{Fs, LockTimeout};
use reftable::{WriteOptions, stack::StackOptions};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

/// A backend, and a repository of real git: the one whose refs the backend reads or, for refs in memory, just the
/// repository of their objects.
pub(crate) struct Subject {
    pub(crate) repo: Repo,
    is_in_memory: bool,
    pub(crate) backend: Box<dyn Maintenance>,
    pub(crate) policy: LogPolicy,
    objects: Arc<Objects>,
    hooks: Recorder,
}

/// Runs `behaviour` on every backend with each hash.
pub(crate) fn everywhere(behaviour: impl Fn(&mut Subject)) {
    on_disk(&behaviour);
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        behaviour(&mut Subject::in_memory(hash));
    }
}

/// Runs `behaviour` on every backend that git can read, with each hash.
pub(crate) fn on_disk(behaviour: impl Fn(&mut Subject)) {
    for (format, hash) in Repo::KINDS {
        behaviour(&mut Subject::new(format, hash, Fs::real()));
    }
}

impl Subject {
    pub(crate) fn new(format: RefFormat, hash: HashKind, fs: Fs) -> Self {
        let repo = Repo::bare(format, hash);
        let objects = Arc::new(Objects::default());
        let backend = backend(format, hash, fs, repo.git_dir(), repo.git_dir(), objects.clone());
        let (policy, hooks) = (LogPolicy::Never, Recorder::default());
        Subject { repo, is_in_memory: false, backend, policy, objects, hooks }
    }

    /// Creates a subject with refs in memory, which behave as reftables do: tests that ask for the format take them for
    /// such.
    pub(crate) fn in_memory(hash: HashKind) -> Self {
        let backend = Box::new(MemoryBackend::new(hash).lock_timeout(Duration::from_millis(100)));
        Subject { is_in_memory: true, backend, ..Subject::new(RefFormat::Reftable, hash, Fs::real()) }
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Makes a transaction fail soon if another one holds a lock, which refs in memory do anyway.
    pub(crate) fn wait_briefly_for_locks(&mut self) {
        let (hash, dir) = (self.repo.hash(), self.repo.git_dir());
        let lock_timeout = Some(LockTimeout::For(Duration::from_millis(100)));
        match self.repo.format() {
            RefFormat::Files => {
                let options = files_options(hash, Fs::real(), dir, dir, self.objects.clone());
                let options =
                    FilesOptions { ref_lock_timeout: lock_timeout, packed_lock_timeout: lock_timeout, ..options };
                self.backend = Box::new(FilesBackend::new(options));
            }
            RefFormat::Reftable if self.is_in_memory => {}
            RefFormat::Reftable => self.backend = reftable_backend(hash, Fs::real(), dir, dir, lock_timeout),
        }
    }

    /// Creates refs, by git if they are on disk.
    pub(crate) fn create_refs<N: AsRef<[u8]>>(&self, refs: impl IntoIterator<Item = (N, ObjectId)>) {
        if !self.is_in_memory {
            return self.repo.create_refs(refs);
        }
        let edit = |(name, id): (N, ObjectId)| {
            let name = RefName::new(name.as_ref()).unwrap();
            Edit::new(name, Change::Set(Target::Direct(id)), Precondition::MustNotExist)
        };
        self.set_up(refs.into_iter().map(edit));
    }

    /// Creates a symbolic ref, by git if it is on disk.
    pub(crate) fn make_symbolic(&self, from: &str, to: &str) {
        if self.is_in_memory {
            self.set_up([set(from, to)]);
        } else {
            self.repo.git(["symbolic-ref", from, to]);
        }
    }

    /// Deletes a ref, by git if it is on disk.
    pub(crate) fn remove(&self, name: &str) {
        if self.is_in_memory {
            self.set_up([delete(name)]);
        } else {
            self.repo.git(["update-ref", "-d", name]);
        }
    }

    /// Has git pack all refs, if they are on disk.
    pub(crate) fn pack(&self) {
        if !self.is_in_memory {
            self.repo.git(["pack-refs", "--all"]);
        }
    }

    /// Creates many refs as [`Repo::fill`] does, and returns their names.
    pub(crate) fn fill(&self, count: usize, ids: &[ObjectId]) -> Vec<BString> {
        if !self.is_in_memory {
            return self.repo.fill(count, ids);
        }
        let name = |at: usize| format!("refs/heads/load/{:03}/{at:06}", at / 1000).into();
        let names: Vec<BString> = (0..count).map(name).collect();
        self.create_refs(names.iter().zip(ids.iter().cycle().copied()));
        names
    }

    /// Changes refs in memory where git would change them on disk: without reflogs and hooks, and without following
    /// symbolic refs.
    fn set_up(&self, edits: impl IntoIterator<Item = Edit>) {
        let context = Context { hooks: &NoHook, log_policy: LogPolicy::Never, ..self.context() };
        let mut transaction = Transaction::new(context, TransactionOptions::default());
        edits.into_iter().try_for_each(|edit| transaction.add(edit.no_deref())).unwrap();
        transaction.commit().unwrap();
    }

    /// Has git verify the refs, if they are on disk.
    pub(crate) fn verify(&self) {
        if !self.is_in_memory {
            self.repo.verify();
        }
    }

    /// Returns the object to which a name leads, as git finds it if the refs are on disk.
    pub(crate) fn rev_parse(&self, name: &str) -> ObjectId {
        if !self.is_in_memory {
            return self.repo.rev_parse(name);
        }
        let (name, tag) = name.strip_suffix("^{}").map_or((name, false), |name| (name, true));
        let id = self.object_of(self::name(name)).unwrap();
        if tag { self.objects.peel_tag(&id).unwrap().unwrap() } else { id }
    }

    fn object_of(&self, name: RefName) -> Option<ObjectId> {
        match refdb::resolve(&*self.backend.snapshot().unwrap(), &name).unwrap() {
            Resolved::Object { id, .. } => Some(id),
            Resolved::Missing(_) => None,
        }
    }

    /// Returns the target of a symbolic ref, as git finds it if the ref is on disk.
    pub(crate) fn leads_to(&self, name: &str) -> String {
        if !self.is_in_memory {
            return self.repo.git(["symbolic-ref", name]);
        }
        self.get(name).unwrap().symbolic().unwrap().to_string()
    }

    /// Creates `count` commits, and makes the object check know them.
    pub(crate) fn commits(&self, count: usize) -> Vec<ObjectId> {
        let ids = self.repo.commits(count);
        let mut classes = self.objects.0.lock().unwrap();
        classes.extend(ids.iter().map(|id| (*id, ObjectClass::Commit)));
        ids
    }

    /// Creates an annotated tag of `target`, and makes the object check know it.
    pub(crate) fn tag(&self, target: ObjectId, name: &str) -> ObjectId {
        let id = self.repo.tag_object(target, name);
        self.objects.0.lock().unwrap().insert(id, ObjectClass::Tag(Some(target)));
        id
    }

    pub(crate) fn blob(&self) -> ObjectId {
        let id = self.repo.blob("content");
        self.objects.0.lock().unwrap().insert(id, ObjectClass::Other);
        id
    }

    pub(crate) fn objects(&self) -> Arc<dyn ObjectCheck + Send> {
        self.objects.clone()
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            backend: &*self.backend,
            objects: &*self.objects,
            hooks: &self.hooks,
            committer: &committer,
            log_policy: self.policy,
            hash: self.repo.hash(),
            forbidden: None,
        }
    }

    pub(crate) fn transaction(&self, mode: Mode, edits: impl IntoIterator<Item = Edit>) -> Result<Transaction<'_>> {
        let mut transaction = Transaction::new(self.context(), TransactionOptions::new().mode(mode));
        edits.into_iter().try_for_each(|edit| transaction.add(edit))?;
        Ok(transaction)
    }

    /// Commits an atomic transaction.
    pub(crate) fn commit(&self, edits: impl IntoIterator<Item = Edit>) -> Result<Committed> {
        self.transaction(Mode::Atomic, edits)?.commit()
    }

    /// Returns the error of an atomic transaction, which must be refused and leave everything as it was.
    pub(crate) fn refusal(&self, edits: impl IntoIterator<Item = Edit>) -> String {
        let before = self.git_lists();
        let text = match self.commit(edits) {
            Ok(_) => panic!("{:?}: the transaction should have been refused", self.repo.format()),
            Err(error) => error.to_string(),
        };
        assert_eq!(self.git_lists(), before);
        self.verify();
        text
    }

    /// Commits an atomic transaction, which must succeed, and has git verify the result.
    pub(crate) fn succeed(&self, edits: impl IntoIterator<Item = Edit>) {
        if let Err(error) = self.commit(edits) {
            panic!("{:?} {:?}: {error}", self.repo.format(), self.repo.hash());
        }
        self.verify();
    }

    /// Lists all refs as git does, as `NAME ID` or `NAME -> TARGET`, without symbolic refs that lead nowhere.
    pub(crate) fn git_lists(&self) -> Vec<String> {
        if self.is_in_memory {
            let snapshot = self.backend.snapshot().unwrap();
            let leads_somewhere = |line: &String| {
                let name = line.split(' ').next().unwrap();
                self.object_of(self::name(name)).is_some()
            };
            let lines = rest(&mut *snapshot.cursor(true).unwrap());
            return lines.into_iter().filter(leads_somewhere).collect();
        }
        let show = |listed: refdb_testkit::Listed| match listed.symref {
            Some(target) => format!("{} -> {target}", listed.name),
            None => format!("{} {}", listed.name, listed.oid),
        };
        self.repo.refs().into_iter().map(show).collect()
    }

    /// Lists the refs below `refs/` that the backend reads.
    pub(crate) fn lists(&self) -> Vec<String> {
        let snapshot = self.backend.snapshot().unwrap();
        let mut cursor = snapshot.cursor(false).unwrap();
        rest(&mut *cursor)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Target> {
        self.backend.snapshot().unwrap().get(name.into()).unwrap()
    }

    /// Returns the ref's reflog as the backend reads it, oldest entry first: `OLD NEW MESSAGE`, with each id as its
    /// place in `ids`, or `-`. Requires that git reads the same if the refs are on disk.
    pub(crate) fn log(&self, name: &str, ids: &[ObjectId]) -> Vec<String> {
        let mut entries = Vec::new();
        let snapshot = self.backend.snapshot().unwrap();
        snapshot
            .log(name.into(), &mut |entry| {
                assert_eq!(entry.committer, committer().unwrap());
                entries.push(format!("{} {} {}", place(entry.old, ids), place(entry.new, ids), entry.message));
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        entries.reverse();
        if self.is_in_memory {
            return entries;
        }
        let by_git: Vec<String> = self.repo.reflog(name).iter().map(|line| shorten(line.as_ref(), ids)).collect();
        assert_eq!(entries, by_git, "{:?} {name}: we read another reflog than git", self.repo.format());
        entries
    }

    /// Returns what the hook was told since the last call, as `STATE: LINE, LINE`.
    pub(crate) fn hook_calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.hooks.calls.lock().unwrap())
    }

    /// Makes transactions run the hook, which refuses in this state; in none if it is `None`.
    pub(crate) fn hook_fails_in(&mut self, state: Option<HookState>) {
        self.hooks.wanted = true;
        self.hooks.fails_in = state;
    }
}

fn shorten(line: &BStr, ids: &[ObjectId]) -> String {
    let line = line.to_string();
    let (head, message) = line.split_once('\t').unwrap_or((&line, ""));
    let mut words = head.split(' ');
    let mut id = || {
        let hex = words.next().unwrap();
        let id = ids.iter().position(|id| id.to_string() == hex);
        id.map_or("-".to_owned(), |at| at.to_string())
    };
    format!("{} {} {message}", id(), id())
}

fn place(id: ObjectId, ids: &[ObjectId]) -> String {
    ids.iter().position(|known| *known == id).map_or("-".to_owned(), |at| at.to_string())
}

pub(crate) fn backend(
    format: RefFormat,
    hash: HashKind,
    fs: Fs,
    git_dir: &Path,
    common_dir: &Path,
    objects: Arc<dyn ObjectCheck + Send>,
) -> Box<dyn Maintenance> {
    match format {
        RefFormat::Files => Box::new(FilesBackend::new(files_options(hash, fs, git_dir, common_dir, objects))),
        RefFormat::Reftable => reftable_backend(hash, fs, git_dir, common_dir, None),
    }
}

/// Returns the options of a repository without settings.
pub(crate) fn files_options(
    hash: HashKind,
    fs: Fs,
    git_dir: &Path,
    common_dir: &Path,
    objects: Arc<dyn ObjectCheck + Send>,
) -> FilesOptions {
    FilesOptions {
        git_dir: git_dir.to_owned(),
        worktree: worktree_id(git_dir, common_dir),
        ..FilesOptions::new(fs, common_dir.to_owned(), hash, objects)
    }
}

fn worktree_id(git_dir: &Path, common_dir: &Path) -> Option<BString> {
    let id = git_dir.file_name().filter(|_| git_dir != common_dir)?;
    Some(id.as_encoded_bytes().into())
}

pub(crate) fn reftable_backend(
    hash: HashKind,
    fs: Fs,
    git_dir: &Path,
    common_dir: &Path,
    lock_timeout: Option<LockTimeout>,
) -> Box<dyn Maintenance> {
    Box::new(ReftableBackend::new(ReftableOptions {
        fs,
        git_dir: git_dir.to_owned(),
        common_dir: common_dir.to_owned(),
        worktree: worktree_id(git_dir, common_dir),
        stack: StackOptions::new(WriteOptions::new(hash)),
        lock_timeout,
        may_be_unsafe: false,
        format: None,
    }))
}

pub(crate) fn rest(cursor: &mut dyn Cursor) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(view) = cursor.next().unwrap() {
        names.push(show(&view));
    }
    names
}

pub(crate) fn show(view: &RefView<'_>) -> String {
    match view.target {
        TargetView::Direct(id) => format!("{} {id}", view.name),
        TargetView::Symbolic(target) => format!("{} -> {target}", view.name),
    }
}

/// Returns the committer that git has in these tests.
pub(crate) fn committer() -> Result<Ident> {
    Ok(Ident {
        name: "C O Mitter".into(),
        email: "committer@example.com".into(),
        time_seconds: 1_700_000_000,
        offset_decimal: 0,
    })
}

/// An object check that knows only the objects that it was given.
#[derive(Default)]
pub(crate) struct Objects(Mutex<HashMap<ObjectId, ObjectClass>>);

impl ObjectCheck for Objects {
    fn classify(&self, id: &ObjectId) -> std::result::Result<ObjectClass, ObjectError> {
        Ok(self.0.lock().unwrap().get(id).copied().unwrap_or(ObjectClass::Missing))
    }
}

#[derive(Default, Clone)]
struct Recorder {
    wanted: bool,
    fails_in: Option<HookState>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl HookSource for Recorder {
    fn find(&self) -> Result<Option<Box<dyn Hook>>> {
        Ok(if self.wanted { Some(Box::new(self.clone())) } else { None })
    }
}

impl Hook for Recorder {
    fn run(&mut self, state: HookState, lines: &[u8]) -> Result<bool> {
        let lines = String::from_utf8(lines.to_vec()).unwrap();
        let lines: Vec<_> = lines.lines().collect();
        self.calls.lock().unwrap().push(format!("{}: {}", state.as_str(), lines.join(", ")));
        Ok(self.fails_in != Some(state))
    }
}

pub(crate) fn name(name: &str) -> RefName {
    RefName::new(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn symbolic(target: &str) -> Target {
    Target::Symbolic(name(target))
}

pub(crate) fn create(ref_name: &str, id: ObjectId) -> Edit {
    Edit::new(name(ref_name), Change::Set(Target::Direct(id)), Precondition::MustNotExist)
}

pub(crate) fn set(ref_name: &str, target: impl Into<Wish>) -> Edit {
    Edit::new(name(ref_name), Change::Set(target.into().0), Precondition::Any)
}

pub(crate) fn delete(ref_name: &str) -> Edit {
    Edit::new(name(ref_name), Change::Delete, Precondition::Any)
}

pub(crate) fn verify(ref_name: &str, expected: Precondition) -> Edit {
    Edit::new(name(ref_name), Change::Verify, expected)
}

pub(crate) trait With {
    fn expecting(self, expected: Precondition) -> Edit;
    fn no_deref(self) -> Edit;
    fn message(self, message: &str) -> Edit;
}

impl With for Edit {
    fn expecting(mut self, expected: Precondition) -> Edit {
        self.expected = expected;
        self
    }
    fn no_deref(mut self) -> Edit {
        self.deref = false;
        self
    }
    fn message(mut self, message: &str) -> Edit {
        self.log.message = Some(Arc::new(BString::from(message)));
        self
    }
}

/// A new value, made from an id or from the name of a target.
pub(crate) struct Wish(Target);

impl From<ObjectId> for Wish {
    fn from(id: ObjectId) -> Self {
        Wish(Target::Direct(id))
    }
}

impl From<&str> for Wish {
    fn from(target: &str) -> Self {
        Wish(symbolic(target))
    }
}

pub(crate) fn at(id: ObjectId) -> Precondition {
    Precondition::MustMatch(Target::Direct(id))
}
