//! Runs the test's own program again as a process that can be killed or limited, and scales the time that a test waits
//! under an emulator.

use std::{process::Command, time::Duration};

/// What runs programs of another processor, if these tests are such: `scripts/build/for-aarch64` names it.
const RUNNER: &str = "REFDB_TEST_RUNNER";

/// An emulator needs some ten times as long, and other programs may run beside it.
const EMULATED_SLOWNESS: u32 = 20;

/// This program again. The test that it is to run, and its environment, are for the caller to add.
pub fn this_program() -> Command {
    let program = std::env::current_exe().expect("a test knows its path");
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(program) };
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

/// Whether these tests are another processor's. The emulator's `posix_spawn` then does not tell that a program did not
/// start.
pub fn is_emulated() -> bool {
    std::env::var(RUNNER).is_ok_and(|runner| !runner.trim().is_empty())
}

/// The longest time that something may take: `time` on a processor, more under an emulator.
pub fn at_most(time: Duration) -> Duration {
    if is_emulated() { time * EMULATED_SLOWNESS } else { time }
}
