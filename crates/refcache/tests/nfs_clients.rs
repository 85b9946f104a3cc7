//! Views on two clients of a modelled NFS server: every operation of one client is interrupted, before its calls of the
//! operating system, by the operations of the other one. `make test-long` does so before each call, other runs before a
//! sample of them.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use bstr::BStr;
use common::{edit, open_at, prefixed, unsynced};
use refdb::{Change, Error, Precondition, Target, backend::OptimizeOptions};
use refdb_refcache::{Batch, TrustSettings, View, Views, ViewsSettings};
use refdb_testkit::{
    RefFormat, Repo, every,
    nfs_client::{NfsClient, Replaced, SharedFolder},
};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::Fs;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

const PACKED: &str = "refs/heads/packed";
const LOOSE: &str = "refs/heads/loose";
const ABSENT: &str = "refs/heads/absent";
/// A ref in folders that do not exist yet.
const DEEP: &str = "refs/deep/er/new";
const NAMES: [&str; 4] = [PACKED, LOOSE, ABSENT, DEEP];

/// What a client is told to do. Values are the numbers of commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    Get(&'static str),
    List,
    /// Changes these refs at once, each from its first value here to its second, if all of them have their first
    /// values. `None` is the value of a ref that does not exist.
    Swap(&'static [Swap]),
    Pack,
}

type Swap = (&'static str, Option<usize>, Option<usize>);

const INTERRUPTED: [Op; 13] = [
    Op::Get(PACKED),
    Op::Get(LOOSE),
    Op::Get(ABSENT),
    Op::Get(DEEP),
    Op::List,
    Op::Swap(&[(PACKED, Some(0), Some(2))]),
    Op::Swap(&[(LOOSE, Some(1), Some(3))]),
    Op::Swap(&[(ABSENT, None, Some(4))]),
    Op::Swap(&[(DEEP, None, Some(5))]),
    Op::Swap(&[(PACKED, Some(0), None)]),
    Op::Swap(&[(LOOSE, Some(1), None)]),
    Op::Swap(&[(PACKED, Some(0), Some(2)), (LOOSE, Some(1), Some(3))]),
    Op::Pack,
];

const INTERRUPTING: [&[Op]; 11] = [
    &[Op::Swap(&[(PACKED, Some(0), Some(6))])],
    &[Op::Swap(&[(PACKED, Some(0), Some(6))]), Op::Pack],
    &[Op::Swap(&[(LOOSE, Some(1), Some(7))]), Op::Pack],
    &[Op::Swap(&[(ABSENT, None, Some(8))])],
    &[Op::Swap(&[(ABSENT, None, Some(8))]), Op::Pack],
    &[Op::Swap(&[(DEEP, None, Some(9))])],
    &[Op::Swap(&[(DEEP, None, Some(9))]), Op::Swap(&[(DEEP, Some(9), None)])],
    &[Op::Swap(&[(PACKED, Some(0), None)])],
    &[Op::Swap(&[(PACKED, Some(0), None)]), Op::Swap(&[(PACKED, None, Some(6))])],
    &[Op::Swap(&[(LOOSE, Some(1), None)])],
    &[Op::Pack],
];

/// What a client is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    Value(Option<ObjectId>),
    Refs(BTreeMap<String, ObjectId>),
    Done,
    Refused,
    /// Nothing was done, because the other client holds a lock.
    Busy,
    Failed(String),
}

/// The refs of a repository.
type Refs = BTreeMap<String, ObjectId>;

/// A repository in its first state, and its commits.
struct Scene {
    repo: Repo,
    ids: Vec<ObjectId>,
}

impl Scene {
    fn new(format: RefFormat) -> Self {
        let repo = Repo::bare(format, HashKind::Sha1);
        let ids = repo.commits(10);
        for (key, value) in
            [("core.filesRefLockTimeout", "0"), ("core.packedRefsTimeout", "0"), ("reftable.lockTimeout", "0")]
        {
            repo.config(key, value);
        }
        repo.create_refs([(PACKED, ids[0])]);
        repo.git(["pack-refs", "--all"]);
        repo.create_refs([(LOOSE, ids[1])]);
        Scene { repo, ids }
    }

    fn refs(&self) -> Refs {
        [(PACKED.to_owned(), self.ids[0]), (LOOSE.to_owned(), self.ids[1])].into()
    }

    /// What a lone client would be answered.
    fn expect(&self, refs: &mut Refs, op: Op) -> Answer {
        match op {
            Op::Get(name) => Answer::Value(refs.get(name).copied()),
            Op::List => Answer::Refs(refs.clone()),
            Op::Pack => Answer::Done,
            Op::Swap(swaps) => {
                let id = |at: Option<usize>| at.map(|at| self.ids[at]);
                if swaps.iter().any(|(name, old, _)| refs.get(*name).copied() != id(*old)) {
                    return Answer::Refused;
                }
                for (name, _, new) in swaps {
                    match id(*new) {
                        Some(id) => refs.insert((*name).to_owned(), id),
                        None => refs.remove(*name),
                    };
                }
                Answer::Done
            }
        }
    }

    /// Whether the answers and the refs at the end fit some order of the operations, in which `op` comes before,
    /// between or after the others.
    fn is_explained(&self, op: Op, answer: &Answer, others: &[(Op, Answer)], end: &Refs) -> bool {
        (0..=others.len()).any(|at| {
            let mut refs = self.refs();
            let fits = |refs: &mut Refs, op: Op, answer: &Answer| {
                // A list may show some refs before and others after a change.
                *answer == Answer::Busy || self.expect(refs, op) == *answer || op == Op::List
            };
            let before = others[..at].iter().all(|(op, answer)| fits(&mut refs, *op, answer));
            let own = fits(&mut refs, op, answer);
            before && own && others[at..].iter().all(|(op, answer)| fits(&mut refs, *op, answer)) && refs == *end
        })
    }
}

fn act(ids: &[ObjectId], view: &View, op: Op) -> Answer {
    let failed = |error: refdb_refcache::Error| match error.store() {
        Some(Error::Rejected(rejection)) if !rejection.to_string().contains("Unable to create") => Answer::Refused,
        Some(Error::Rejected(_) | Error::Lock(_) | Error::StackLocked(_)) => Answer::Busy,
        _ if error.to_string().ends_with("data is locked") => Answer::Busy,
        _ => Answer::Failed(error.to_string()),
    };
    match op {
        Op::Get(name) => match view.get(BStr::new(name)) {
            Ok(found) => Answer::Value(found.and_then(|found| found.target.id())),
            Err(error) => failed(error),
        },
        Op::List => list(view).map_or_else(failed, Answer::Refs),
        Op::Pack => view.optimize(&OptimizeOptions::new().all(true)).map_or_else(failed, |_| Answer::Done),
        Op::Swap(swaps) => {
            let edits = swaps.iter().map(|(name, old, new)| {
                let change = new.map_or(Change::Delete, |at| Change::Set(Target::Direct(ids[at])));
                let direct = |at: usize| Precondition::MustMatch(Target::Direct(ids[at]));
                edit(name, change, old.map_or(Precondition::MustNotExist, direct))
            });
            view.commit(&Batch::atomic(edits.collect())).map_or_else(failed, |_| Answer::Done)
        }
    }
}

fn list(view: &View) -> refdb_refcache::Result<Refs> {
    let mut listing = view.list(&prefixed(&["refs/"]))?;
    let mut refs = Refs::new();
    while let Some(row) = listing.next()? {
        let refdb::TargetView::Direct(id) = row.target else { panic!("'{}' is symbolic", row.name) };
        refs.insert(row.name.to_string(), id);
    }
    Ok(refs)
}

/// A copy of the scene's repository, which clients share.
struct Site {
    _temp: TempDir,
    git_dir: PathBuf,
    shared: Arc<SharedFolder>,
}

impl Site {
    fn new(scene: &Scene) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let (git_dir, held) = (temp.path().join("repo.git"), temp.path().join("held"));
        copy(scene.repo.git_dir(), &git_dir);
        std::fs::create_dir(&held).unwrap();
        let shared = SharedFolder::new(&git_dir, &held);
        Site { _temp: temp, git_dir, shared }
    }

    /// A new client, and the view that it has of the repository. The view remembers all refs.
    fn client(&self, replaced: Replaced) -> (Arc<NfsClient>, Arc<View>) {
        let client = self.shared.client(replaced);
        let fs = Fs::with_hook(Arc::<NfsClient>::clone(&client));
        let views = Views::new(&ViewsSettings::new().fs(fs));
        let view = views.open(&self.git_dir, &unsynced(TrustSettings::default())).unwrap();
        for name in NAMES {
            view.get(BStr::new(name)).unwrap();
        }
        list(&view).unwrap();
        (client, view)
    }
}

/// One run: `op` is interrupted before its call number `at`, or follows the others if `at` is `None`. Returns whether
/// the operation had that many calls.
fn run(scene: &Scene, op: Op, others: &'static [Op], at: Option<usize>, replaced: Replaced) -> Result<bool, String> {
    let site = Site::new(scene);
    let (interrupted, own) = site.client(replaced);
    let (_, other) = site.client(replaced);
    let answers: Arc<Mutex<Vec<(Op, Answer)>>> = Arc::default();
    let rest = {
        let (answers, other, ids) = (Arc::clone(&answers), Arc::clone(&other), scene.ids.clone());
        move || others.iter().for_each(|op| answers.lock().unwrap().push((*op, act(&ids, &other, *op))))
    };
    match at {
        None => rest(),
        Some(at) => interrupted.interrupt_at(interrupted.steps() + at, rest),
    }
    let answer = act(&scene.ids, &own, op);
    let was_interrupted = !interrupted.interrupt_now();
    let answers = answers.lock().unwrap().clone();
    let end = list(&open_at(&site.git_dir)).unwrap();
    let told = format!("{answer:?}, beside {answers:?}: {end:?}");
    let is_alone = at.is_none() && answers.iter().all(|(_, answer)| *answer == Answer::Done);
    let is_right = if is_alone {
        let mut refs = scene.refs();
        others.iter().for_each(|other| drop(scene.expect(&mut refs, *other)));
        scene.expect(&mut refs, op) == answer && refs == end
    } else {
        scene.is_explained(op, &answer, &answers, &end)
    };
    if !is_right {
        return Err(format!("no order explains {told}"));
    }
    for view in [&own, &other] {
        let seen = |op| act(&scene.ids, view, op);
        let gets = NAMES.iter().all(|name| seen(Op::Get(name)) == Answer::Value(end.get(*name).copied()));
        if !gets || seen(Op::List) != Answer::Refs(end.clone()) {
            return Err(format!("a client does not see what was acknowledged: {told}"));
        }
    }
    Ok(was_interrupted)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            // Nobody changes objects.
            true if name == "objects" => std::os::unix::fs::symlink(path, to.join(name)).unwrap(),
            true => copy(&path, &to.join(name)),
            false => drop(std::fs::copy(path, to.join(name)).unwrap()),
        }
    }
}

/// The server's reply to a request is lost, and the client sends the request again. Returns whether there was such a
/// request.
fn run_with_lost_reply(scene: &Scene, op: Op, answered: usize) -> Result<bool, String> {
    let site = Site::new(scene);
    let (client, view) = site.client(Replaced::Stale);
    client.lose_reply_after(answered);
    let answer = act(&scene.ids, &view, op);
    let was_lost = !client.keep_replies();
    let (mut expected, end) = (scene.refs(), list(&open_at(&site.git_dir)).unwrap());
    let is_right = scene.expect(&mut expected, op) == answer && expected == end;
    if is_right { Ok(was_lost) } else { Err(format!("{answer:?}: {end:?}")) }
}

fn every_lost_reply(format: RefFormat) {
    let scene = Scene::new(format);
    let (mut runs, mut broken) = (0, Vec::new());
    for op in INTERRUPTED {
        for answered in 0..CALLS_MAX {
            runs += 1;
            match run_with_lost_reply(&scene, op, answered) {
                Ok(true) => {}
                Ok(false) => break,
                Err(how) => broken.push(format!("reply {answered} of {op:?} is lost: {how}")),
            }
        }
    }
    println!("{runs} runs");
    assert!(broken.is_empty(), "{} of {runs} runs:\n{}", broken.len(), broken[..broken.len().min(20)].join("\n"));
}

/// More calls than any operation makes.
const CALLS_MAX: usize = 400;

/// Tries each operation after those of the other client, and interrupted by them before every `stride`th of its calls.
fn every_interruption(format: RefFormat, stride: usize) {
    let scene = Scene::new(format);
    let (mut runs, mut broken) = (0, Vec::new());
    for op in INTERRUPTED {
        for others in INTERRUPTING {
            for replaced in [Replaced::OldFile, Replaced::Stale] {
                // Each call of this operation is tried, because a handle may become stale just between asking for a
                // folder and looking at a name in it.
                let stride = if op == Op::Get(PACKED) && replaced == Replaced::Stale { 1 } else { stride };
                let mut at = None;
                // A broken run says nothing of the number of calls.
                while at < Some(CALLS_MAX) {
                    runs += 1;
                    match run(&scene, op, others, at, replaced) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(how) => {
                            broken.push(format!("{others:?} before call {at:?} of {op:?}, {replaced:?}: {how}"))
                        }
                    }
                    at = Some(at.map_or(runs % stride, |at| at + stride));
                }
            }
        }
    }
    println!("{runs} runs");
    assert!(broken.is_empty(), "{} of {runs} runs:\n{}", broken.len(), broken[..broken.len().min(20)].join("\n"));
}

#[test]
fn clients_of_files_neither_lose_updates_nor_go_back() {
    every_interruption(RefFormat::Files, every(160));
}

#[test]
fn clients_of_reftables_neither_lose_updates_nor_go_back() {
    every_interruption(RefFormat::Reftable, every(160));
}

#[test]
fn what_was_done_is_no_failure_though_the_reply_was_lost() {
    for format in RefFormat::ALL {
        every_lost_reply(format);
    }
}
