//! Very many small repositories, each with a branch whose values encode the project and their order.

use super::{set, unsynced};
use bstr::{BStr, BString};
use refdb::{Precondition, Target, transaction::ObjectClass};
use refdb_refcache::{Batch, TrustSettings, View, Views};
use refdb_types::{HashKind, ObjectId};
use reftable::{RefRecord, RefValue, TableWriter, WriteOptions};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

pub(crate) const BRANCH: &str = "refs/heads/main";

/// One in this number of projects with reftables has a table of more than 16 KiB, the most that is held in memory as a
/// whole.
const LARGE: usize = 16;

pub(crate) struct Projects {
    dir: tempfile::TempDir,
    states: Vec<State>,
}

#[derive(Default)]
struct State {
    /// The last turn of the branch whose commit has returned.
    committed: AtomicUsize,
    /// The highest version that any reader got.
    version: AtomicU64,
}

pub(crate) fn id(project: usize, turn: usize) -> ObjectId {
    let mut bytes = [7; 20];
    bytes[..8].copy_from_slice(&(project as u64).to_be_bytes());
    bytes[8..16].copy_from_slice(&(turn as u64).to_be_bytes());
    ObjectId::from_bytes(HashKind::Sha1, &bytes).unwrap()
}

/// Returns the configuration of the committer.
pub(crate) fn config() -> Vec<BString> {
    vec!["user.name=a".into(), "user.email=a@b".into()]
}

/// Returns the turn that a value of this project's branch encodes.
fn turn(project: usize, id: &ObjectId) -> usize {
    let number = |range: std::ops::Range<usize>| u64::from_be_bytes(id.as_bytes()[range].try_into().unwrap()) as usize;
    assert_eq!(number(0..8), project, "the value of another project");
    number(8..16)
}

impl Projects {
    /// Creates this number of projects, half of them with reftables.
    pub(crate) fn new(count: usize) -> Self {
        let projects =
            Projects { dir: tempfile::tempdir().unwrap(), states: (0..count).map(|_| State::default()).collect() };
        (0..count).for_each(|at| projects.make(at));
        // Timestamps that are too recent prove nothing.
        std::thread::sleep(std::time::Duration::from_millis(100));
        projects
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn path(&self, at: usize) -> PathBuf {
        self.dir.path().join(format!("{at}.git"))
    }

    fn make(&self, at: usize) {
        let path = self.path(at);
        for folder in ["objects", "refs/heads"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        let is_reftable = at % 2 == 1;
        let (version, extension) = if is_reftable { (1, "[extensions]\n\trefstorage = reftable\n") } else { (0, "") };
        let config = format!("[core]\n\trepositoryformatversion = {version}\n\tbare = true\n{extension}");
        fs::write(path.join("config"), config).unwrap();
        fs::write(path.join("HEAD"), if is_reftable { "ref: refs/heads/.invalid\n" } else { "ref: refs/heads/main\n" })
            .unwrap();
        let others = if is_reftable && (at / 2).is_multiple_of(LARGE) { 900 } else { 3 };
        let mut refs: Vec<(String, ObjectId)> =
            (0..others).map(|other| (format!("refs/changes/{other:03}/meta"), id(at, other))).collect();
        refs.push((BRANCH.to_owned(), id(at, 0)));
        if !is_reftable {
            let mut text = String::from("# pack-refs with: peeled fully-peeled sorted \n");
            refs.iter().for_each(|(name, id)| writeln!(text, "{id} {name}").unwrap());
            fs::write(path.join("packed-refs"), text).unwrap();
            return;
        }
        let mut bytes = Vec::new();
        let mut writer = TableWriter::new(WriteOptions::default(), 1, 1, &mut bytes).unwrap();
        let head = RefValue::Symbolic(BRANCH.into());
        writer.add_ref(&RefRecord { name: "HEAD".into(), update_index: 1, value: head }).unwrap();
        for (name, id) in &refs {
            let value = RefValue::Direct(*id);
            writer.add_ref(&RefRecord { name: name.as_str().into(), update_index: 1, value }).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(bytes.len() > 16 << 10, others > 3);
        fs::create_dir(path.join("reftable")).unwrap();
        fs::write(path.join("reftable/0x000000000001-0x000000000001-00000001.ref"), bytes).unwrap();
        fs::write(path.join("reftable/tables.list"), "0x000000000001-0x000000000001-00000001.ref\n").unwrap();
    }

    /// Copies a repository.
    pub(crate) fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                Self::copy(&entry.path(), &to);
            } else {
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }

    pub(crate) fn open(&self, views: &Views, at: usize, trust: TrustSettings) -> Arc<View> {
        let settings = unsynced(trust).config(config());
        views.open(&self.path(at), &settings).unwrap()
    }

    /// Forgets the versions that were seen, because other views are asked from now on.
    pub(crate) fn forget_versions(&self) {
        self.states.iter().for_each(|state| state.version.store(0, SeqCst));
    }

    /// Reads a project's branch. Its value must not be older than one that was committed before, and the view's version
    /// must not go back.
    pub(crate) fn read(&self, at: usize, view: &View) -> usize {
        let state = &self.states[at];
        let (committed, version) = (state.committed.load(SeqCst), state.version.load(SeqCst));
        let found = view.get(BStr::new(BRANCH)).unwrap().unwrap();
        let turn = turn(at, &found.target.id().unwrap());
        assert!(turn >= committed, "project {at}: value {turn} was read after {committed} was committed");
        let now = view.version();
        assert!(now >= version, "project {at}: version {now:x} after {version:x}");
        state.version.fetch_max(now, SeqCst);
        turn
    }

    /// Moves a project's branch on by one turn, unless another thread is quicker.
    pub(crate) fn write(&self, at: usize, view: &View) {
        let state = &self.states[at];
        let (before, version) = (self.read(at, view), view.version());
        let next = id(at, before + 1);
        let edit = set(BRANCH, next, Precondition::MustMatch(Target::Direct(id(at, before))));
        let made = view.commit(&Batch::atomic(vec![edit]).knowing(next, ObjectClass::Commit));
        match made {
            Ok(_) => {
                state.committed.fetch_max(before + 1, SeqCst);
                assert!(self.read(at, view) > before, "project {at}: its own value is not seen");
                assert!(view.version() > version, "project {at}: a commit is no news");
            }
            Err(error) => {
                assert!(matches!(error.store(), Some(refdb::Error::Rejected(_))), "project {at}: {error}");
            }
        }
    }
}
