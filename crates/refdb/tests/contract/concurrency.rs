//! Several writers at the same time.

use crate::common::{Subject, at, create, everywhere, set};
use refdb::{Error, Limit, RejectionClass, transaction::Mode};
use std::thread;

const THREADS: usize = 3;
const CHANGES: usize = 4;

/// Whether a writer that was refused for this reason may try again.
fn was_in_the_way(error: &Error) -> bool {
    match error {
        Error::Rejected(rejection) => {
            matches!(rejection.class(), RejectionClass::IncorrectOldValue | RejectionClass::CreateExists)
        }
        Error::StackLocked(_) | Error::Lock(_) => true,
        Error::Limit(limit) => *limit == Limit::Attempts,
        _ => false,
    }
}

#[test]
fn writers_at_the_same_time_lose_no_change() {
    everywhere(|subject| {
        let ids = subject.commits(THREADS * CHANGES + 1);
        subject.create_refs([("refs/heads/shared", ids[0])]);
        let (subject, ids): (&Subject, &[_]) = (subject, &ids);
        let advance = |own: &str| loop {
            let now = subject.get("refs/heads/shared").and_then(|target| target.id()).unwrap();
            let next = ids[1 + ids.iter().position(|id| *id == now).unwrap()];
            let edits = [create(own, next), refdb::Edit { expected: at(now), ..set("refs/heads/shared", next) }];
            match subject.commit(edits) {
                Ok(_) => return,
                Err(error) => assert!(was_in_the_way(&error), "{error}"),
            }
        };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || (0..CHANGES).for_each(|at| advance(&format!("refs/own/{thread}/{at}"))));
            }
        });
        assert_eq!(subject.get("refs/heads/shared").and_then(|target| target.id()), ids.last().copied());
        let mut own: Vec<_> = subject.lists().into_iter().filter(|line| line.starts_with("refs/own/")).collect();
        own.sort_by_key(|line| ids.iter().position(|id| line.ends_with(&id.to_string())));
        let seen = own.iter().map(|line| line.split(' ').next_back().unwrap());
        assert!(seen.eq(ids[1..].iter().map(|id| id.to_string())), "each change was made once: {own:?}");
        subject.verify();
    });
}

#[test]
fn a_prepared_transaction_keeps_others_from_its_refs_and_shows_nothing() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.create_refs([("refs/heads/a", ids[0])]);
        subject.wait_briefly_for_locks();
        let subject: &Subject = subject;
        for is_committed in [false, true] {
            let prepared = subject.transaction(Mode::Atomic, [set("refs/heads/a", ids[1])]).unwrap().prepare().unwrap();
            let other = || subject.commit([set("refs/heads/a", ids[0]), create("refs/heads/b", ids[0])]).map(drop);
            let said = thread::scope(|scope| scope.spawn(other).join().unwrap());
            assert!(said.as_ref().is_err_and(was_in_the_way), "{said:?}");
            assert_eq!(subject.lists(), [format!("refs/heads/a {}", ids[0])]);
            if is_committed {
                prepared.commit().unwrap();
            } else {
                prepared.abort().unwrap();
            }
        }
        assert_eq!(subject.lists(), [format!("refs/heads/a {}", ids[1])]);
    });
}
