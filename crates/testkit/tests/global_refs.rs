//! A model of the protocol of docs/decisions/0090 between two Gerrit servers and etcd, written before the code. Every
//! order of the events of two nodes, the network, a lease and a crash is tried, and each likely fault is planted and
//! found.

#[path = "global_refs/etcd.rs"]
mod etcd;
#[path = "global_refs/explorer.rs"]
mod explorer;
#[path = "global_refs/node.rs"]
mod node;

use explorer::{Budget, Explored, World, explore};

/// A deliberate fault in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    /// No fault.
    None,
    /// A put does not compare the revision of the lock under which its node makes it.
    NoFencing,
    /// A put does not compare the value of the ref.
    PutWithoutCompare,
    /// A missing answer counts as success.
    LostAnswerIsSuccess,
    /// After a timeout, the mark is read but not closed.
    PlainReadOfTheMark,
    /// A transaction does not compare its mark.
    MarkNotCompared,
    /// A mark has no number, so after a later transaction it still looks open to an earlier one.
    MarkWithoutNumber,
    /// A node that restarts does not claim its marks.
    MarksNotClaimed,
    /// A node whose answer was lost takes the revision of the lock that is held now for that of its own lock.
    RevisionOfTheHeldLock,
}

/// Explores pairs of nodes with and without locks. If neither uses locks, one of them makes two puts in a row, so that
/// its mark is reused.
fn every_pair_of_nodes(fault: Fault) -> Result<Explored, String> {
    let budget = Budget { lost: 1, twice: 1, timeouts: 2, crashes: 1, leases: 1 };
    let mut all = Explored::default();
    for (locks, puts) in [([true, true], [1, 1]), ([true, false], [1, 1]), ([false, false], [2, 1])] {
        all += explore(World::new(locks, puts, budget), fault).map_err(|trace| trace.join("\n  "))?;
    }
    Ok(all)
}

#[test]
fn no_order_of_events_loses_or_invents_an_update() {
    let all = every_pair_of_nodes(Fault::None).unwrap_or_else(|trace| panic!("{trace}"));
    println!("{all:?}");
    // The exploration proves nothing unless it reaches the states that matter.
    assert!(all.states > 100_000, "{all:?}");
    assert!(all.successes > 0 && all.refusals > 0 && all.fenced > 0, "{all:?}");
    assert!(all.told_by_the_mark > 0 && all.closed_in_time > 0 && all.late_requests > 0, "{all:?}");
}

/// Checks that the planted fault is found because it breaks one of the promises in `broken`.
fn finds(fault: Fault, broken: &[&str]) {
    let trace = every_pair_of_nodes(fault).expect_err("the planted fault was not found");
    println!("{fault:?}:\n  {trace}");
    let last = trace.lines().last().unwrap_or_default();
    assert!(broken.iter().any(|broken| last.contains(broken)), "found by another property: {trace}");
}

#[test]
fn without_fencing_a_node_that_was_stopped_writes_under_the_lock_of_another() {
    finds(Fault::NoFencing, &["another node has had the lock since"]);
}

#[test]
fn without_a_compare_an_update_is_lost() {
    finds(Fault::PutWithoutCompare, &["overwrites a value that it did not see"]);
}

#[test]
fn a_lost_answer_taken_for_success_acknowledges_nothing() {
    finds(Fault::LostAnswerIsSuccess, &["is acknowledged and has not applied"]);
}

#[test]
fn a_request_that_is_delayed_past_a_plain_read_of_its_mark_applies_after_its_failure() {
    finds(Fault::PlainReadOfTheMark, &["applies after its failure was reported"]);
}

#[test]
fn a_transaction_without_its_mark_applies_after_its_failure() {
    finds(Fault::MarkNotCompared, &["applies after its failure was reported", "applies, of a process"]);
}

#[test]
fn a_mark_without_a_number_lets_an_older_transaction_apply() {
    finds(
        Fault::MarkWithoutNumber,
        &["applies after its failure was reported", "has applied, and its failure is reported"],
    );
}

#[test]
fn marks_that_a_new_start_leaves_open_let_a_dead_process_write() {
    finds(Fault::MarksNotClaimed, &["of a process that was followed by another"]);
}

/// Previously, the model itself answered like that, so that it could not find the fault.
#[test]
fn the_revision_of_the_lock_that_is_held_now_lets_a_node_write_under_the_lock_of_another() {
    finds(Fault::RevisionOfTheHeldLock, &["another node has had the lock since"]);
}
