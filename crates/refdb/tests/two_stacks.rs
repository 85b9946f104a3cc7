//! Transactions on refs of several stacks: those that all worktrees share, and a linked worktree's own.
#![allow(clippy::unwrap_used, reason = "tests")]

use refdb::{Environment, Error, StackError, Store};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId, RefName};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Refuses each sync of a folder once the list in it has been replaced.
struct Unsynced {
    folder: PathBuf,
    is_replaced: AtomicBool,
}

impl IoHook for Unsynced {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Rename(_, to) if to == self.folder.join("tables.list") => {
                self.is_replaced.store(true, Ordering::Relaxed)
            }
            Op::SyncDir(folder) if folder == self.folder && self.is_replaced.load(Ordering::Relaxed) => {
                return Verdict::Fail(io::ErrorKind::StorageFull.into());
            }
            _ => {}
        }
        Verdict::Proceed
    }
}

#[test]
fn a_stack_that_cannot_be_synced_leaves_no_transaction_half_done() {
    let repo = Repo::with_worktree(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.commit();
    repo.git(["branch", "w", &id.to_string()]);
    repo.git(["worktree", "add", "-q", "../w", "w"]);
    let folder = repo.git_dir().join("reftable");
    let hook = Arc::new(Unsynced { folder, is_replaced: AtomicBool::new(false) });
    let environment = Environment::empty(repo.git_dir()).with("GIT_DIR", repo.git_dir());
    let store = Store::builder_in(environment).fs(Fs::with_hook(hook.clone())).sync(true).open().unwrap();
    let mut transaction = store.transaction();
    transaction.create("refs/heads/x", id).create("worktrees/w/refs/bisect/bad", id);
    let told = transaction.commit();
    assert!(matches!(told, Err(Error::Stack(StackError::NotDurable(_)))), "{told:?}");
    assert!(hook.is_replaced.load(Ordering::Relaxed));
    for name in ["refs/heads/x", "worktrees/w/refs/bisect/bad"] {
        assert_eq!(repo.git(["rev-parse", name]), id.to_string(), "{name} is there");
    }
    repo.verify();
}

#[test]
fn a_reflog_of_a_worktree_that_does_not_exist_is_refused_for_what_it_is() {
    let repo = Repo::with_worktree(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.commit();
    let store = Store::open(repo.git_dir()).unwrap();
    let head = RefName::new("worktrees/none/HEAD").unwrap();
    let refused = store.append_log(&head, ObjectId::null(HashKind::Sha1), id, "why".into()).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("worktrees/none") && said.ends_with("No such file or directory (os error 2)"), "{said}");
}
