//! Tests `refdb-lab gate` with a real program that becomes slower, and a real history of commits.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{
    fs,
    process::{Command, Output},
};

use common::{Synthetic, finish};

/// A repository that contains a build, and a scenario that runs its program.
struct Gate {
    synthetic: Synthetic,
}

impl Gate {
    /// Writes a program that counts to `turns`.
    fn program(&self, turns: u32) {
        let text = format!("#!/bin/sh\ni=0; while [ $i -lt {turns} ]; do i=$((i+1)); done\n");
        fs::write(self.synthetic.repository().join("program"), text).unwrap();
    }

    fn run(&self, more: &[&str]) -> Output {
        let folder = self.synthetic.repository();
        let mut gate = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
        gate.arg("gate").arg(self.synthetic.scenario()).arg("--build").arg(&folder);
        finish(gate.arg("--history").arg(folder.join("gate.jsonl")).args(more))
    }

    fn passes(&self, more: &[&str]) -> String {
        let output = self.run(more);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self) -> String {
        let output = self.run(&[]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("say worse, and no commit accepts it"), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn commit(&self, message: &str) -> String {
        self.synthetic.commit_all(message)[..12].to_owned()
    }
}

#[test]
fn a_planted_slowdown_fails_until_a_commit_accepts_it() {
    let gate = Gate { synthetic: Synthetic::new("exec sh \"$BUILD/program\"", "") };
    gate.program(1000);
    let first = gate.commit("A program");
    let said = gate.passes(&["--record"]);
    assert!(said.starts_with("cannot tell: nothing is recorded yet\nrecorded in '"), "{said}");
    gate.commit("Record");
    assert_eq!(
        gate.passes(&[]),
        format!("1 of 1 jobs are within 1.03 of {first}; the largest ratio is 1.0000, in planted\n")
    );

    gate.program(1100);
    gate.commit("Count further");
    let said = gate.fails();
    assert!(
        said.starts_with("worse: ") && said.contains(&format!(" times the instructions of {first} in plan")),
        "{said}"
    );
    assert!(said.contains("\n  a commit accepts it by a last line \"Slower: planted: REASON\"\n"), "{said}");
    let other = gate.passes(&["--with", "rustc=another"]);
    assert!(
        other.starts_with("cannot tell: ") && other.contains("rustc was 'nothing', now it is 'another'"),
        "{other}"
    );

    // Recording the slowdown does not hide it.
    gate.passes(&["--record"]);
    gate.commit("Record");
    assert!(gate.fails().starts_with("worse: "));
    gate.commit("Say why\n\nSlower: planted: it counts further");
    assert!(gate.passes(&[]).contains(", which is accepted: it counts further\n"));

    gate.program(900);
    assert!(gate.passes(&[]).contains("\nbetter: "), "and no failure");
}

#[test]
fn small_steps_since_a_release_add_up() {
    let gate = Gate { synthetic: Synthetic::new("exec sh \"$BUILD/program\"", "") };
    gate.program(1000);
    gate.passes(&["--record", "--release", "v1"]);
    gate.program(1026);
    gate.passes(&["--record"]);
    gate.program(1052);
    gate.passes(&["--record"]);
    let said = gate.fails();
    assert!(said.contains(" times the instructions of v1 in planted (limit: 1.05)\n"), "{said}");
}

#[test]
fn a_job_keeps_its_name_when_one_value_of_its_parameter_is_chosen() {
    let more = "[parameters]\nturns = ['1000', '2000']\nkind = ['x']";
    let gate = Gate { synthetic: Synthetic::new("exec sh \"$BUILD/program\"", more) };
    let program = |factor: u32| {
        let text = format!("#!/bin/sh\ni=0; while [ $i -lt $((turns * {factor})) ]; do i=$((i+1)); done\n");
        fs::write(gate.synthetic.repository().join("program"), text).unwrap();
    };
    program(1);
    gate.commit("A program");
    gate.passes(&["--record"]);
    program(2);
    let output = gate.run(&["--parameter-list", "turns", "2000"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("a last line \"Slower: 2000: REASON\""), "{output:?}");
}
