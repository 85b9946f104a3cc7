//! A model of the rules of docs/decisions/0092 for a group, written before the code. One thread holds the lock of a
//! disk, and each member asks etcd by itself. Every order of the events of the threads, the network, a hanging thread
//! and a crash is tried, and each likely fault is planted and found.

#[path = "global_groups/member.rs"]
mod member;
#[path = "global_groups/world.rs"]
mod world;

use member::{Change, Ref};
use world::{Budget, Explored, World, explore};

/// A deliberate fault in the rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    /// No fault.
    None,
    /// A member is checked against the disk as the previous members would leave it.
    CheckedAgainstAnother,
    /// The table also contains members that were refused.
    RefusedInTheTable,
    /// Intents are removed before the table is listed.
    IntentGoesBeforeTheList,
    /// A member counts as agreed if it gets no answer, or if it does not report in time.
    UndecidedIsAgreed,
    /// The leader waits without a bound.
    NoBound,
    /// A member reports success to its caller when etcd agreed, although the leader has continued without it.
    LateWordCounts,
    /// A member asks etcd without checking whether the leader has continued without it.
    AsksAfterTheLeader,
    /// An open intent blocks only its own refs, and not those that conflict with them.
    IntentBarsItsNamesAlone,
}

/// Explores groups in which one member depends on the change of another, and one does not.
fn every_group(fault: Fault) -> Result<Explored, String> {
    let budget = Budget { lost: 1, unknown: 1, hangs: 1, leaders_bounds: 1, crashes: 1, foreign: 1 };
    let (create, delete) = (|name| Change { name, creates: true }, |name| Change { name, creates: false });
    let mut all = Explored::default();
    for (refs, changes) in [
        ([true, false, false], [delete(Ref::Folder), create(Ref::Child), create(Ref::Other)]),
        ([false, false, false], [create(Ref::Folder), create(Ref::Other), create(Ref::Child)]),
        ([false, true, true], [create(Ref::Folder), delete(Ref::Child), delete(Ref::Other)]),
        ([false, false, true], [delete(Ref::Other), create(Ref::Child), create(Ref::Other)]),
    ] {
        all += explore(&World::new(refs, changes, budget), fault).map_err(|trace| trace.join("\n  "))?;
    }
    Ok(all)
}

#[test]
fn no_order_of_events_makes_a_member_that_was_not_agreed_or_loses_one_that_was() {
    let all = every_group(Fault::None).unwrap_or_else(|trace| panic!("{trace}"));
    println!("{all:?}");
    // The exploration proves nothing unless it reaches the states that matter.
    assert!(all.states > 100_000, "{all:?}");
    assert!(all.together > 0 && all.partly > 0 && all.late_words > 0 && all.finished > 0 && all.barred > 0, "{all:?}");
}

/// Checks that the planted fault is found because it breaks one of the promises in `broken`.
fn finds(fault: Fault, broken: &[&str]) {
    let trace = every_group(fault).expect_err("the planted fault was not found");
    println!("{fault:?}:\n  {trace}");
    let last = trace.lines().last().unwrap_or_default();
    assert!(broken.iter().any(|broken| last.contains(broken)), "found by another property: {trace}");
}

#[test]
fn a_member_that_is_checked_against_anothers_change_may_stand_where_it_cannot() {
    finds(Fault::CheckedAgainstAnother, &["a folder and a file", "the disk cannot have"]);
}

#[test]
fn a_refused_member_in_the_table_shows_what_etcd_does_not_have() {
    finds(Fault::RefusedInTheTable, &["is on the disk, and etcd did not agree"]);
}

#[test]
fn an_intent_that_goes_before_the_list_loses_an_agreed_member() {
    finds(Fault::IntentGoesBeforeTheList, &["has applied, and no disk has it"]);
}

#[test]
fn an_undecided_member_that_is_made_shows_what_etcd_does_not_have() {
    finds(Fault::UndecidedIsAgreed, &["is on the disk, and etcd did not agree"]);
}

#[test]
fn without_a_bound_one_thread_that_hangs_stops_all() {
    finds(Fault::NoBound, &["waits for ever"]);
}

#[test]
fn a_word_that_comes_too_late_acknowledges_what_is_not_made() {
    finds(Fault::LateWordCounts, &["is acknowledged, and not made"]);
}

#[test]
fn a_member_that_asks_after_its_leader_went_on_asks_for_what_cannot_be() {
    finds(Fault::AsksAfterTheLeader, &["the disk cannot have"]);
}

#[test]
fn an_intent_that_bars_its_names_alone_lets_in_what_it_cannot_stand_beside() {
    finds(Fault::IntentBarsItsNamesAlone, &["the disk cannot have"]);
}
