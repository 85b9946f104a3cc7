//! Helpers that the tests of the files backend share.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use bstr::{BStr, BString, ByteSlice};
use refdb::{
    Backend, Cursor, Error, HashKind, Misuse, ObjectError, ObjectId, Probe, RefName, Rejection, RejectionReason,
    Result, Snapshot, Step, Target, TargetView,
    backend::{Answers, Claim, ClaimKind, Claims, LogLine, NewValue, OptimizeOptions, Peeled, Steps},
    files::{FilesBackend, FilesOptions, TakenOver},
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_testkit::{Repo, files_below};
use refdb_types::Ident;
use refdb_vfs::{Fs, LockTimeout};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) type Refs = BTreeMap<String, String>;

/// Returns a repository's refs as the files backend reads them.
pub(crate) fn read(dir: &Path) -> Refs {
    let store = FilesBackend::new(options(Fs::real(), dir, HashKind::Sha1));
    let snapshot = store.snapshot().unwrap();
    let lines = rest(&mut *snapshot.cursor(false).unwrap());
    lines.iter().map(|line| line.split_once(' ').unwrap()).map(|(name, value)| (name.into(), value.into())).collect()
}

/// Opens a server's store, which writes small batches as loose files.
pub(crate) fn batching(fs: &Fs, dir: &Path, sync: bool, lock_timeout: Duration) -> FilesBackend {
    FilesBackend::new(FilesOptions {
        sync,
        loose_batches_from: Some(0),
        ref_lock_timeout: Some(LockTimeout::For(lock_timeout)),
        packed_lock_timeout: Some(LockTimeout::For(lock_timeout)),
        ..options(fs.clone().signing_locks(), dir, HashKind::Sha1)
    })
}

/// Recovers the batches that are left, and returns the outcome of each. It tries again for a while, because a program
/// that another test starts holds the locks of this process until its `exec`, also those of batches that play dead.
pub(crate) fn settle_when_free(store: &FilesBackend) -> Vec<(PathBuf, Result<TakenOver>)> {
    let begun = Instant::now();
    let mut outcomes = Vec::new();
    loop {
        outcomes.extend(store.recover().unwrap());
        let is_busy = |(_, outcome): &(_, _)| matches!(outcome, Ok(TakenOver::Busy));
        if !outcomes.iter().any(is_busy) || begun.elapsed() > Duration::from_secs(60) {
            return outcomes;
        }
        outcomes.retain(|one| !is_busy(one));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An object check that knows the tags it was given, and takes everything else for a commit.
#[derive(Default)]
pub(crate) struct KnownTags(pub(crate) HashMap<ObjectId, ObjectId>);

impl ObjectCheck for KnownTags {
    fn classify(&self, id: &ObjectId) -> std::result::Result<ObjectClass, ObjectError> {
        Ok(self.0.get(id).map_or(ObjectClass::Commit, |to| ObjectClass::Tag(Some(*to))))
    }
}

pub(crate) fn options(fs: Fs, git_dir: &Path, hash: HashKind) -> FilesOptions {
    FilesOptions::new(fs, git_dir.to_owned(), hash, Arc::new(KnownTags::default()))
}

pub(crate) fn backend(repo: &Repo) -> FilesBackend {
    let mut options = options(Fs::real(), repo.git_dir(), repo.hash());
    // Races must not be lost because the machine is busy.
    let lock_timeout = Some(LockTimeout::For(Duration::from_secs(300)));
    (options.ref_lock_timeout, options.packed_lock_timeout) = (lock_timeout, lock_timeout);
    FilesBackend::new(options)
}

pub(crate) fn show(target: TargetView<'_>) -> String {
    match target {
        TargetView::Direct(id) => id.to_string(),
        TargetView::Symbolic(name) => format!("-> {name}"),
    }
}

pub(crate) fn show_target(target: &Target) -> String {
    match target {
        Target::Direct(id) => id.to_string(),
        Target::Symbolic(name) => format!("-> {name}"),
    }
}

/// Returns the rest of a cursor as `NAME VALUE` lines.
pub(crate) fn rest(cursor: &mut dyn Cursor) -> Vec<String> {
    let mut out = Vec::new();
    while let Some(view) = cursor.next().unwrap() {
        out.push(format!("{} {}", view.name, show(view.target)));
    }
    out
}

/// Returns the names in the rest of the cursor, each with what is known about its peeled object.
pub(crate) fn peeled(cursor: &mut dyn Cursor) -> Vec<(BString, Peeled)> {
    let mut out = Vec::new();
    while let Some(view) = cursor.next().unwrap() {
        out.push((view.name.to_owned(), view.peeled));
    }
    out
}

/// Returns all refs as git lists them, including root refs and symbolic refs.
pub(crate) fn git_list(repo: &Repo) -> Vec<String> {
    let list = |listed: refdb_testkit::Listed| match listed.symref {
        Some(target) => format!("{} -> {target}", listed.name),
        None => format!("{} {}", listed.name, listed.oid),
    };
    repo.refs().into_iter().map(list).collect()
}

#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Collected {
    pub(crate) values: Vec<Option<String>>,
    pub(crate) broken: Vec<usize>,
    pub(crate) below: Vec<(usize, String)>,
}

impl Answers for Collected {
    fn value(&mut self, probe: usize, value: Option<TargetView<'_>>) -> Result<()> {
        assert_eq!(probe, self.values.len());
        self.values.push(value.map(show));
        Ok(())
    }
    fn broken(&mut self, probe: usize, _: refdb::BrokenRef) -> Result<()> {
        assert_eq!(probe, self.values.len());
        self.values.push(None);
        self.broken.push(probe);
        Ok(())
    }
    fn below(&mut self, probe: usize, child: &BStr) -> Result<()> {
        self.below.push((probe, child.to_string()));
        Ok(())
    }
}

pub(crate) fn probe<'a>(snapshot: &dyn Snapshot, names: impl IntoIterator<Item = &'a str>) -> Collected {
    let mut collected = Collected::default();
    let mut probes = names.into_iter().map(|name| Probe { name: name.as_bytes().as_bstr(), below: true });
    snapshot.probe(&mut probes, &mut collected).unwrap();
    collected
}

/// A change of one ref that a transaction is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) new: Option<Target>,
    /// Whether the ref must not exist.
    pub(crate) create: bool,
    pub(crate) log: Option<String>,
}

pub(crate) fn set(name: impl Into<String>, id: ObjectId) -> Wish {
    Wish { name: name.into(), new: Some(Target::Direct(id)), create: false, log: None }
}

pub(crate) fn create(name: impl Into<String>, id: ObjectId) -> Wish {
    Wish { create: true, ..set(name, id) }
}

pub(crate) fn delete(name: impl Into<String>) -> Wish {
    Wish { name: name.into(), new: None, create: false, log: None }
}

pub(crate) fn link(name: impl Into<String>, target: &str) -> Wish {
    let target = Target::Symbolic(RefName::new(target).unwrap());
    Wish { name: name.into(), new: Some(target), create: false, log: None }
}

pub(crate) fn rejection(name: &str, why: RejectionReason) -> Error {
    match RefName::new(name) {
        Ok(name) => Rejection::of(name, why).into(),
        Err(_) => Misuse::BadName(name.into()).into(),
    }
}

/// Commits a transaction as the store does, with the checks that matter here: of values under the lock, and of name
/// conflicts.
pub(crate) fn transact(backend: &FilesBackend, wishes: &[Wish]) -> Result<()> {
    transact_as(backend, wishes, false)
}

/// Commits a transaction of which readers see all changes or none.
pub(crate) fn transact_whole(backend: &FilesBackend, wishes: &[Wish]) -> Result<()> {
    transact_as(backend, wishes, true)
}

struct Wishes<'a> {
    claims: Vec<Claim<'a>>,
    atomic_visibility: bool,
}

impl Claims for Wishes<'_> {
    fn count(&self) -> usize {
        self.claims.len()
    }

    fn claim(&self, at: usize) -> Claim<'_> {
        self.claims[at]
    }

    fn atomic_visibility(&self) -> bool {
        self.atomic_visibility
    }
}

fn transact_as(backend: &FilesBackend, wishes: &[Wish], whole: bool) -> Result<()> {
    let mut wishes = wishes.to_vec();
    wishes.sort_by(|a, b| a.name.cmp(&b.name));
    let claims: Vec<Claim<'_>> = wishes
        .iter()
        .map(|wish| {
            let kind = match &wish.new {
                Some(Target::Direct(_)) => ClaimKind::SetDirect,
                Some(Target::Symbolic(_)) => ClaimKind::SetSymbolic,
                None => ClaimKind::Delete,
            };
            Claim { name: wish.name.as_bytes().as_bstr(), kind }
        })
        .collect();
    let mut locked = backend.lock(&Wishes { claims, atomic_visibility: whole })?;
    if let Some((at, why)) = locked.refused().first() {
        return Err(rejection(&wishes[*at].name, why.clone()));
    }
    let names: Vec<&str> = wishes.iter().map(|wish| wish.name.as_str()).collect();
    let mut seen = Seen::default();
    let mut probes = names.iter().map(|name| Probe { name: name.as_bytes().as_bstr(), below: true });
    locked.snapshot().probe(&mut probes, &mut seen)?;
    if let Some((probe, child)) = seen.below.first().filter(|(probe, _)| wishes[*probe].new.is_some()) {
        let with = child.as_str().into();
        return Err(rejection(names[*probe], RejectionReason::Conflict { with, is_new: false, prevents_lock: false }));
    }
    let mut parents: Vec<String> = Vec::new();
    for wish in wishes.iter().filter(|wish| wish.new.is_some()) {
        parents.extend(wish.name.match_indices('/').map(|(at, _)| wish.name[..at].to_string()));
    }
    parents.sort();
    parents.dedup();
    let mut found = Seen::default();
    let mut probes = parents.iter().map(|name| Probe { name: name.as_bytes().as_bstr(), below: false });
    locked.snapshot().probe(&mut probes, &mut found)?;
    let is_deleted = |name: &str| wishes.iter().any(|wish| wish.name == name && wish.new.is_none());
    let stays = |at: &usize| found.values[*at].is_some() && !is_deleted(&parents[*at]);
    if let Some(at) = (0..parents.len()).find(stays) {
        let with = parents[at].as_str().into();
        return Err(rejection(&parents[at], RejectionReason::Conflict { with, is_new: false, prevents_lock: false }));
    }
    let ident =
        Ident { name: "A".into(), email: "a@example.com".into(), time_seconds: 1_700_000_000, offset_decimal: 0 };
    let null = ObjectId::null(match wishes.iter().find_map(|wish| wish.new.as_ref().and_then(Target::id)) {
        Some(id) => id.kind(),
        None => HashKind::Sha1,
    });
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (wish, value) in wishes.iter().zip(&seen.values) {
        let old = value.as_ref().map(|target| match target {
            Target::Direct(id) => TargetView::Direct(*id),
            Target::Symbolic(name) => TargetView::Symbolic(name.as_bstr()),
        });
        if wish.create && old.is_some() {
            return Err(rejection(&wish.name, RejectionReason::Exists { is_dangling: false }));
        }
        let log = wish.log.as_ref().map(|message| LogLine {
            old: value.as_ref().and_then(Target::id).unwrap_or(null),
            new: wish.new.as_ref().and_then(Target::id).unwrap_or(null),
            committer: &ident,
            message: message.as_bytes().as_bstr(),
        });
        let new = match &wish.new {
            Some(Target::Direct(id)) => NewValue::Direct(*id, None),
            Some(Target::Symbolic(name)) => NewValue::Symbolic(name.as_bstr()),
            None => NewValue::Deleted,
        };
        steps.push(Step { name: wish.name.as_bytes().as_bstr(), old, is_broken: false, new: Some(new), log });
    }
    locked.stage(&steps as &dyn Steps)?;
    locked.commit(&steps as &dyn Steps)
}

/// The answers of a probe.
#[derive(Default)]
struct Seen {
    values: Vec<Option<Target>>,
    below: Vec<(usize, String)>,
}

impl Answers for Seen {
    fn value(&mut self, _: usize, value: Option<TargetView<'_>>) -> Result<()> {
        self.values.push(value.map(|value| match value {
            TargetView::Direct(id) => Target::Direct(id),
            TargetView::Symbolic(name) => Target::Symbolic(RefName::new(name.to_vec()).unwrap()),
        }));
        Ok(())
    }
    fn broken(&mut self, _: usize, broken: refdb::BrokenRef) -> Result<()> {
        Err(broken.into())
    }
    fn below(&mut self, probe: usize, child: &BStr) -> Result<()> {
        self.below.push((probe, child.to_string()));
        Ok(())
    }
}

pub(crate) fn pack_all() -> OptimizeOptions {
    OptimizeOptions::new().all(true)
}

/// Returns the files below a folder that are locks, or a new packed-refs that was being made under the lock.
pub(crate) fn leftovers(dir: &Path) -> Vec<PathBuf> {
    let files = files_below(dir).into_iter().filter(|name| name.ends_with(".lock") || name.ends_with(".refdb"));
    files.map(|name| dir.join(name)).collect()
}
