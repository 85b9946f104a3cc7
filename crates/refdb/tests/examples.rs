//! Runs the example for first steps, and checks that it does what it says.

#![allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]

#[path = "../examples/first_steps.rs"]
mod first_steps;

#[test]
fn the_first_steps_make_a_branch_that_moved_and_a_tag() {
    let store = first_steps::in_memory().unwrap();
    let refs: Vec<_> = store.refs("refs/").unwrap().map(|found| found.unwrap()).collect();
    let names: Vec<_> = refs.iter().map(|found| found.name.to_string()).collect();
    assert_eq!(names, ["refs/heads/main", "refs/tags/v1"]);
    assert_ne!(refs[0].target, refs[1].target);
}
