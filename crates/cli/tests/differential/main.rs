//! Compares commands about refs with git's on random repositories; docs/testing.md says how to do so for hours.
//!
//! `REFDB_DIFFERENTIAL_SECONDS=3600` tries random plans for an hour in each test, and `REFDB_DIFFERENTIAL_SEED=N` alone
//! runs a single plan. A difference is minimized and printed at once, the remaining plans follow unless there are
//! [`DIFFERENCES_MAX`] differences, and the test fails at the end.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

mod differences;
mod lists_and_logs;
mod logs;
mod mistakes;
mod packed_order;
mod surroundings;
mod unify;
mod warnings;

use bstr::{BString, ByteSlice};
use differences::DIFFERENCES;
use logs::ref_of;
use refdb_testkit::{
    Git, RefFormat,
    differential::{Areas, Bench, Part, Place, Plan, Ran, State, Step, minimise},
    rounds,
};
use refdb_types::HashKind;
use std::{
    env,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Number of steps in a plan.
const STEPS: usize = 30;

/// Number of plans that each test tries by default, in `make test` and in `make test-long`.
const PLANS: (usize, usize) = (60, 100);

/// Number of differences that ends a run, because minimizing each takes as long as dozens of plans.
const DIFFERENCES_MAX: usize = 30;

fn new_bench() -> Bench {
    Bench::new(env!("CARGO_BIN_EXE_refdb"), DIFFERENCES).ending_at(has_symbolic_pseudo_ref)
}

/// Returns whether `FETCH_HEAD` or `MERGE_HEAD` is symbolic, as a change through a symbolic ref can make it among
/// files. The comparison ends there, because git takes the line feed after the target for a part of the name, and so it
/// can read neither this file nor any ref that leads to it, while refdb can.
fn has_symbolic_pseudo_ref(state: &State) -> bool {
    let is_symbolic = |name: &BString| {
        let is_one = ["FETCH_HEAD", "MERGE_HEAD"].iter().any(|one| ref_of(name) == one);
        let value = state.get(name.as_bstr());
        is_one && value.is_some_and(|value| value.starts_with(b"ref:") && value.ends_with(b"\n"))
    };
    state.names().any(is_symbolic)
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap())
}

#[test]
fn random_commands_on_random_repositories_end_as_in_git() {
    try_plans(Areas::ALL);
}

#[test]
fn random_reflogs_lists_and_migrations_end_as_in_git() {
    try_plans(Areas::LISTS_AND_LOGS);
}

#[test]
fn random_commands_among_odd_settings_hooks_objects_and_long_names_end_as_in_git() {
    try_plans(Areas::SURROUNDINGS);
}

/// Git 2.55 crashes at a batch in which `HEAD` leads to a ref that cannot exist, and leaves the locks of the other
/// refs.
#[test]
fn locks_that_a_crashed_git_left_are_in_the_way_of_no_step() {
    let bench = new_bench();
    let empty_tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let made = |name: &str| Part::Ref(name.into(), empty_tree.into());
    let locked = Step {
        place: Place::Top,
        environment: Vec::new(),
        globals: Vec::new(),
        command: "update-ref",
        words: ["refs/x/v1", empty_tree].map(Into::into).into(),
        input: Vec::new(),
    };
    let plan = Plan {
        format: RefFormat::Files,
        hash: HashKind::Sha1,
        bare: true,
        parts: vec![
            made("refs/x/a/b"),
            Part::Symbolic("HEAD".into(), "refs/x/a".into()),
            made("refs/x/a"),
            made("refs/x/v1"),
        ],
        steps: vec![locked],
    };
    let ran = bench.run(&plan);
    assert!(ran.divergence.is_none(), "{}", ran.divergence.unwrap());
    assert_eq!(ran.succeeded, 1);
}

fn try_plans(areas: Areas) {
    let seconds = number("REFDB_DIFFERENTIAL_SECONDS");
    let first = number("REFDB_DIFFERENTIAL_SEED").unwrap_or_else(|| match seconds {
        Some(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs()) << 20,
        None => 1,
    });
    let count = match (seconds, env::var_os("REFDB_DIFFERENTIAL_SEED")) {
        (Some(_), _) => u64::MAX,
        (None, Some(_)) => 1,
        (None, None) => rounds(PLANS.0, PLANS.1) as u64,
    };
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let next = AtomicU64::new(0);
    let (steps, succeeded) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let differ = Mutex::new(Vec::new());
    let work = || {
        let bench = new_bench();
        while until.is_none_or(|until| Instant::now() < until) && differ.lock().unwrap().len() < DIFFERENCES_MAX {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= count {
                break;
            }
            let seed = first + turn;
            let plan = Plan::random(seed, STEPS, areas, &bench);
            let ran = bench.run(&plan);
            steps.fetch_add(ran.steps, Ordering::Relaxed);
            succeeded.fetch_add(ran.succeeded, Ordering::Relaxed);
            if ran.divergence.is_some() {
                println!("{}", story(seed, &plan, &ran, &bench));
                differ.lock().unwrap().push(seed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (steps, succeeded) = (steps.into_inner(), succeeded.into_inner());
    let (major, minor) = Git::find().version();
    println!("from seed {first}: {steps} steps, of which git {major}.{minor} did {succeeded} with success");
    let differ = differ.into_inner().unwrap();
    assert!(differ.is_empty(), "git and refdb differ, as told above: seeds {differ:?}");
    assert!(count == 1 || succeeded * 4 > steps, "most steps only fail: the generator is of little use");
}

/// Describes a difference by the shortest plan that still shows it. One that does not recur is described as it was
/// first seen.
fn story(seed: u64, plan: &Plan, ran: &Ran, bench: &Bench) -> String {
    let cut = Plan { steps: plan.steps[..ran.steps].to_vec(), ..plan.clone() };
    let least = minimise(&cut, &mut |plan| bench.run(plan).divergence.is_some());
    let again = bench.run(&least).divergence;
    let divergence = again.as_ref().or(ran.divergence.as_ref()).map(ToString::to_string).unwrap_or_default();
    let how = if again.is_some() { "cut down" } else { "seen once" };
    format!("seed {seed}, {how}:\n{least}{divergence}")
}
