//! Errors that the client of a file server learns only when it sends the bytes that were written, at the latest when
//! the file is closed, for example because a quota is used up. Refs are not synced here.
#![allow(clippy::unwrap_used, reason = "tests")]

use refdb::{Environment, OptimizeOptions, Precondition, Store};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// A network file system whose server, once it is full, refuses the bytes of a file when it gets them.
struct Server {
    is_full: AtomicBool,
    /// A part of the path of the file.
    refuses: Mutex<&'static str>,
}

impl IoHook for Server {
    fn before(&self, op: Op<'_>) -> Verdict {
        let is_refused = |path: &Path| path.to_str().unwrap().contains(*self.refuses.lock().unwrap());
        match op {
            Op::Sync(path) if self.is_full.load(Ordering::Relaxed) && is_refused(path) => {
                Verdict::Fail(io::ErrorKind::QuotaExceeded.into())
            }
            _ => Verdict::Proceed,
        }
    }

    fn is_network(&self) -> bool {
        true
    }
}

struct Scene {
    repo: Repo,
    ids: [ObjectId; 2],
    server: Arc<Server>,
    store: Store,
}

impl Scene {
    fn new(format: RefFormat, refuses: &'static str) -> Self {
        let repo = Repo::bare(format, HashKind::Sha1);
        let ids = repo.commits(2).try_into().unwrap();
        repo.config("core.logAllRefUpdates", "true");
        let server = Arc::new(Server { is_full: AtomicBool::new(false), refuses: Mutex::new(refuses) });
        let environment = Environment::empty(repo.git_dir())
            .with("GIT_DIR", repo.git_dir())
            .with("GIT_COMMITTER_NAME", "C")
            .with("GIT_COMMITTER_EMAIL", "c@e");
        let fs = Fs::with_hook(server.clone()).at(repo.git_dir()).unwrap();
        let store = Store::builder_in(environment).fs(fs).sync(false).open().unwrap();
        let scene = Scene { repo, ids, server, store };
        scene.set(0).unwrap();
        scene
    }

    fn set(&self, value: usize) -> refdb::Result<()> {
        let mut transaction = self.store.transaction();
        transaction.update("refs/heads/main", self.ids[value], Precondition::Any).message("why");
        transaction.commit().map(drop)
    }

    fn value(&self) -> String {
        self.repo.git(["rev-parse", "refs/heads/main"])
    }

    /// Requires that a change fails while the server is full, changes nothing, and succeeds later.
    fn check(&self, change: impl Fn() -> refdb::Result<()>) {
        let before = self.value();
        self.server.is_full.store(true, Ordering::Relaxed);
        let error = change().unwrap_err().to_string();
        assert!(error.contains("quota"), "{error}");
        assert_eq!(self.value(), before);
        self.server.is_full.store(false, Ordering::Relaxed);
        change().unwrap();
        self.repo.verify();
    }
}

#[test]
fn an_update_fails_whose_loose_ref_the_server_refuses() {
    let scene = Scene::new(RefFormat::Files, "/refs/heads/main.lock");
    scene.check(|| scene.set(1));
    assert_eq!(scene.value(), scene.ids[1].to_string());
}

#[test]
fn an_update_fails_whose_reflog_line_the_server_refuses() {
    let scene = Scene::new(RefFormat::Files, "/logs/");
    scene.check(|| scene.set(1));
    assert_eq!(scene.value(), scene.ids[1].to_string());
}

#[test]
fn a_packing_fails_whose_file_the_server_refuses() {
    let scene = Scene::new(RefFormat::Files, "/packed-refs");
    scene.check(|| scene.store.optimize(&OptimizeOptions::default()).map(drop));
}

#[test]
fn an_update_fails_whose_table_the_server_refuses() {
    for file in [".ref", "/tables.list"] {
        let scene = Scene::new(RefFormat::Reftable, file);
        scene.check(|| scene.set(1));
        assert_eq!(scene.value(), scene.ids[1].to_string());
    }
}
