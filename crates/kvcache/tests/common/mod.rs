//! Helpers that the tests of caches share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use refdb_kvcache::{Cache, Options};
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// How long a machine may stand still before a test takes that for a fault.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(120);

/// Returns options with which no put is refused because the machine stands still for a while. A put that finds no room
/// for longer than [`STANDSTILL`] is refused all the same, so that the test fails.
pub(crate) fn patient(limit_bytes: u64) -> Options {
    Options::new(limit_bytes).put_timeout(STANDSTILL)
}

pub(crate) fn open(dir: &Path, limit_bytes: u64) -> Cache {
    Cache::open(dir, patient(limit_bytes)).expect("it opens")
}

/// Waits until `is_so` holds, and panics with `state` if it does not within [`STANDSTILL`].
pub(crate) fn eventually(mut is_so: impl FnMut() -> bool, state: impl Fn() -> String) {
    let end = Instant::now() + STANDSTILL;
    while !is_so() {
        assert!(Instant::now() < end, "never: {}", state());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `count` has stayed the same for `time`, and panics with `state` if it does not within [`STANDSTILL`].
pub(crate) fn at_rest(time: Duration, count: impl Fn() -> u64, state: impl Fn() -> String) {
    let (mut before, mut since) = (count(), Instant::now());
    eventually(
        || {
            let now = count();
            if now != before {
                (before, since) = (now, Instant::now());
            }
            since.elapsed() >= time
        },
        state,
    );
}
