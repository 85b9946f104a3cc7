//! Runs the test's own program again as a process that can be killed or limited, and scales the time that a test waits
//! under an emulator.

use std::{process::Command, time::Duration};

/// The environment variable with the emulator for test programs of another processor, which
/// `scripts/build/for-aarch64` sets.
const RUNNER: &str = "REFDB_TEST_RUNNER";

/// The factor by which time limits grow under an emulator, which takes about ten times as long and may share the
/// machine with other programs.
const EMULATED_SLOWNESS: u32 = 20;

/// Returns a command that runs this test program again. The caller adds the test to run and the environment.
pub fn this_program() -> Command {
    let program = std::env::current_exe().expect("a test knows its path");
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(program) };
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

/// Runs an ignored test of this program again, in a process with a planted fault.
///
/// # Panics
///
/// If the test fails, or there is no such test.
pub fn run_with_fault(test: &str, fault: &str) {
    let mut again = this_program();
    again.args(["--exact", test, "--ignored", "--nocapture"]).env("REFDB_PLANTED_FAULT", fault);
    let output = again.output().expect("this program can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns whether these tests run under an emulator. There, no test can expect an error from starting a program that
/// cannot run, because the emulator's `posix_spawn` does not report it.
pub fn is_emulated() -> bool {
    std::env::var(RUNNER).is_ok_and(|runner| !runner.trim().is_empty())
}

/// Returns the longest time that an operation may take: `time` without an emulator, and twenty times that under one.
pub fn at_most(time: Duration) -> Duration {
    if is_emulated() { time * EMULATED_SLOWNESS } else { time }
}
