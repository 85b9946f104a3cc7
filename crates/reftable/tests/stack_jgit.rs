//! JGit and refdb read, write and compact one stack at the same time, and git reads it afterwards. Nothing is lost, and
//! each of the three lists what both have written.
//!
//! Git does not write here, because JGit and git 2.55 without refdb sometimes lose one of git's refs: three times in
//! ten runs of 300 transactions each. Git also fails if JGit deletes a table while git reads it.

#![allow(clippy::unwrap_used, reason = "a test that fails shall panic")]

mod stack_support;

use refdb_testkit::{JGit, RefFormat, Repo};
use refdb_types::HashKind;
use reftable::stack::Scope;
use stack_support::{LOCK_TIMEOUT, open, refs, write};
use std::{collections::BTreeSet, thread};

/// Number of refs that JGit and refdb each create.
const COUNT: usize = 300;

#[test]
fn jgit_and_refdb_write_at_the_same_time_and_lose_nothing() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    repo.config("reftable.autoRefresh", "true");
    let id = repo.commit();
    repo.create_refs([("refs/heads/first", id)]);
    let dir = repo.git_dir().join("reftable");
    let mut jgit = JGit::open(&repo);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                let name = format!("refs/heads/jgit/{number:04}");
                // JGit does not wait for a lock, so its caller tries again. It may also report a failure after it has
                // put its table into the list, and then the next try finds nothing to do.
                while !matches!(jgit.update(&name, id, None, "made").as_deref(), Ok("NEW" | "NO_CHANGE")) {
                    thread::yield_now();
                }
                if number % 50 == 49 {
                    // JGit gives up if another writer comes between.
                    let _ = jgit.compact();
                }
            }
        });
        scope.spawn(|| {
            let stack = open(&dir);
            for number in 0..COUNT {
                write(&stack, &[(format!("refs/heads/refdb/{number:04}").as_str(), Some(id))]);
                if number % 50 == 49 {
                    stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap();
                }
            }
        });
    });
    let mut expected = BTreeSet::from(["refs/heads/first".to_owned()]);
    for who in ["jgit", "refdb"] {
        expected.extend((0..COUNT).map(|number| format!("refs/heads/{who}/{number:04}")));
    }
    let by_git: BTreeSet<_> = repo.git(["for-each-ref", "--format=%(refname)"]).lines().map(String::from).collect();
    assert_eq!(by_git, expected);
    let by_jgit: BTreeSet<_> =
        jgit.list("refs/heads/").unwrap().into_iter().map(|listed| listed.name.to_string()).collect();
    assert_eq!(by_jgit, expected);
    let by_refdb: BTreeSet<_> = refs(&open(&dir).snapshot()).into_keys().collect();
    assert_eq!(by_refdb, expected);
}

#[test]
fn what_refdb_merged_jgit_and_git_read_and_merge_on() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let id = repo.commit();
    let stack = open(&repo.git_dir().join("reftable"));
    for number in 0..40 {
        write(&stack, &[(format!("refs/heads/{number:02}").as_str(), Some(id))]);
    }
    write(&stack, &[("refs/heads/07", None)]);
    let mut jgit = JGit::open(&repo);
    assert_eq!(jgit.list("refs/heads/").unwrap().len(), 39);
    jgit.compact().unwrap();
    assert_eq!(repo.git(["for-each-ref"]).lines().count(), 39);
    assert_eq!(stack.refresh().unwrap().tables().len(), 1);
    write(&stack, &[("refs/heads/08", None)]);
    assert_eq!(jgit.list("refs/heads/").unwrap().len(), 38);
    assert_eq!(jgit.get("refs/heads/08").unwrap(), None);
}
