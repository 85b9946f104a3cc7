//! A model of the rules of docs/decisions/0093 for batches that are too large for one etcd transaction, written before
//! the code. Two nodes change the same two refs, each of which is a part of a batch. Every order of the events of the
//! nodes, the network, cleaners and a crash is tried, and each likely fault is planted and found.

#[path = "global_stages/etcd.rs"]
mod etcd;
#[path = "global_stages/node.rs"]
mod node;
#[path = "global_stages/world.rs"]
mod world;

use node::Kind;
use world::{Budget, Explored, World, explore};

/// A deliberate fault in the rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    /// No fault.
    None,
    /// A stage is put regardless of the value of the ref.
    StageWithoutCompare,
    /// A stage is put over a stage of another batch that is not decided.
    StageOverStage,
    /// A later part does not compare the deciding key.
    StageWithoutDecider,
    /// The first part does not compare the mark.
    FirstPartWithoutMark,
    /// The decision does not compare the deciding key.
    DecisionWithoutDecider,
    /// The decision does not compare the token that distinguishes successive deciding keys of the same name.
    DecisionWithoutToken,
    /// The decision does not compare its mark.
    DecisionWithoutMark,
    /// A missing answer to the decision counts as success.
    LostAnswerIsSuccess,
    /// After a timeout, the deciding key is read but nothing is closed.
    PlainRead,
    /// A node that restarts drops an intent although its deciding key is open.
    DroppedWhileOpen,
    /// A stage of a node that seems dead is cleared without closing its deciding key.
    VoidIsGuessed,
    /// A deciding key is closed as void without comparing its state.
    VoidWithoutCompare,
    /// A stage is turned into a value without comparing the current value of the ref.
    ClearedWithoutCompare,
    /// The deciding key is removed while there are stages.
    DeciderGoesFirst,
    /// A put overwrites the stage of an undecided batch.
    PutOverStage,
}

/// Explores two batches, and one batch beside updates of single refs.
fn every_pair(fault: Fault) -> Result<Explored, String> {
    let mut all = Explored::default();
    for (kinds, budget) in [
        ([Kind::Batch, Kind::Put], Budget { twice: 1, timeouts: 1, crashes: 1, voids: 1, clears: 3 }),
        ([Kind::Batch, Kind::Batch], Budget { twice: 0, timeouts: 1, crashes: 1, voids: 1, clears: 1 }),
        ([Kind::Batch, Kind::Batch], Budget { twice: 0, timeouts: 1, crashes: 0, voids: 1, clears: 3 }),
    ] {
        all += explore(World::new(kinds, budget), fault).map_err(|trace| trace.join("\n  "))?;
    }
    Ok(all)
}

#[test]
fn no_order_of_events_divides_a_batch_or_loses_an_update() {
    let all = every_pair(Fault::None).unwrap_or_else(|trace| panic!("{trace}"));
    println!("{all:?}");
    // The exploration proves nothing unless it reaches the states that matter.
    assert!(all.states > 100_000, "{all:?}");
    assert!(all.decided > 0 && all.voided > 0 && all.staged_over > 0 && all.settled > 0 && all.removed > 0, "{all:?}");
}

/// Checks that the planted fault is found because it breaks one of the promises in `broken`.
fn finds(fault: Fault, broken: &[&str]) {
    let trace = every_pair(fault).expect_err("the planted fault was not found");
    println!("{fault:?}:\n  {trace}");
    let last = trace.lines().last().unwrap_or_default();
    assert!(broken.iter().any(|broken| last.contains(broken)), "found by another property: {trace}");
}

#[test]
fn a_stage_without_a_compare_overwrites_an_update() {
    finds(Fault::StageWithoutCompare, &["is lost", "did not see"]);
}

#[test]
fn a_stage_over_an_undecided_one_takes_the_other_batch_apart() {
    finds(Fault::StageOverStage, &["is lost", "did not see"]);
}

#[test]
fn a_late_part_that_does_not_look_at_its_deciding_key_comes_back_to_life() {
    finds(Fault::StageWithoutDecider, &["whose deciding key is gone", "is lost"]);
}

#[test]
fn a_late_first_part_without_its_mark_begins_a_batch_that_has_ended() {
    finds(Fault::FirstPartWithoutMark, &["begins after its mark was closed"]);
}

#[test]
fn a_decision_that_does_not_look_at_its_deciding_key_overrules_who_closed_it() {
    finds(Fault::DecisionWithoutDecider, &["is lost", "did not see", "after it was closed"]);
}

#[test]
fn a_decision_that_takes_a_deciding_key_of_a_late_request_for_its_own_loses_a_part() {
    finds(Fault::DecisionWithoutToken, &["is lost"]);
}

#[test]
fn a_decision_without_its_mark_comes_after_its_failure() {
    finds(Fault::DecisionWithoutMark, &["after its failure was reported", "has applied, and its failure"]);
}

#[test]
fn a_lost_answer_taken_for_success_acknowledges_nothing() {
    finds(Fault::LostAnswerIsSuccess, &["is acknowledged and has not applied"]);
}

#[test]
fn a_decision_that_is_delayed_past_a_plain_read_comes_after_its_failure() {
    finds(Fault::PlainRead, &["after its failure was reported"]);
}

#[test]
fn an_intent_that_is_dropped_while_its_batch_is_open_loses_it() {
    finds(Fault::DroppedWhileOpen, &["after its failure was reported"]);
}

#[test]
fn a_stage_that_is_cleared_by_a_guess_loses_a_part() {
    finds(Fault::VoidIsGuessed, &["is lost"]);
}

#[test]
fn a_void_that_does_not_compare_takes_an_acknowledged_batch_back() {
    finds(Fault::VoidWithoutCompare, &["is lost"]);
}

#[test]
fn a_stage_that_is_cleared_late_overwrites_what_came_since() {
    finds(Fault::ClearedWithoutCompare, &["is lost"]);
}

#[test]
fn a_deciding_key_that_goes_first_leaves_stages_that_nobody_can_read() {
    finds(Fault::DeciderGoesFirst, &["whose deciding key is gone"]);
}

#[test]
fn a_put_over_a_stage_is_lost_or_loses_the_batch() {
    finds(Fault::PutOverStage, &["is lost", "did not see"]);
}
