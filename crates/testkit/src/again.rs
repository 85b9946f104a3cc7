//! A test's own program, run once more as a process that may be killed or limited.

use std::process::Command;

/// What runs programs of another processor, if these tests are such: `scripts/build/for-aarch64` names it.
const RUNNER: &str = "REFDB_TEST_RUNNER";

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
