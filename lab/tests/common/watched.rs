//! A repository that `refdb-lab watch` watches.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use super::{Synthetic, finish};

pub(crate) const COST: &str = "cat \"$BUILD/cost\" >\"$COST\"";

/// A repository that is watched from its first commit on.
pub(crate) struct Watched {
    pub(crate) planted: Synthetic,
    pub(crate) first: String,
    /// The folder of the runs, in memory if there is such a file system.
    pub(crate) place: TempDir,
}

impl Watched {
    pub(crate) fn new() -> Watched {
        let planted = Synthetic::new(COST, "judge = 'reported'");
        let first = planted.commit("cost", "1000");
        Watched::of(planted, first)
    }

    pub(crate) fn of(planted: Synthetic, first: String) -> Watched {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Watched { planted, first, place: place.unwrap() }
    }

    pub(crate) fn history(&self) -> PathBuf {
        self.planted.cache().with_file_name("history")
    }

    /// Returns a watch that begins after the first commit, and records each call of `--notify` in a line, unless `more`
    /// has another `--reference` or `--notify`.
    pub(crate) fn command(&self, more: &[&str]) -> Command {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
        let calls = self.calls();
        let notify = format!("cat >>'{0}.text'; printf '%s\\n' \"$ALERT\" >>'{0}'", calls.display());
        lab.arg("watch").arg(self.planted.repository()).args(["--branch", "main"]);
        if !more.contains(&"--reference") {
            lab.args(["--reference", &self.first]);
        }
        lab.arg("--history").arg(self.history()).arg("--scenario").arg(self.planted.scenario());
        lab.arg("--cache").arg(self.planted.cache()).args(more);
        if !more.contains(&"--notify") {
            lab.args(["--notify", &notify]);
        }
        lab.arg("--place").arg(self.place.path());
        lab
    }

    /// Runs a watch to its end, which has this exit status. Returns its output.
    pub(crate) fn watch(&self, status: i32, more: &[&str]) -> String {
        let output = finish(&mut self.command(more));
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn calls(&self) -> PathBuf {
        self.planted.cache().with_file_name("calls")
    }

    /// Returns the names of the alerts of which the user was told, in order.
    pub(crate) fn told(&self) -> Vec<String> {
        fs::read_to_string(self.calls()).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.history().join("planted.jsonl")).unwrap();
        // A watch that is running may not have finished the last line.
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let records = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        records.filter(|record| record["kind"] == kind).collect()
    }

    /// Returns the measured commits, in order.
    pub(crate) fn measured(&self) -> Vec<String> {
        self.records("point").iter().map(|point| point["b"]["commit"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn alert(&self, number: u32) -> Value {
        let path = self.history().join(format!("alerts/planted-{number}.json"));
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Adds commits that cost the same as the last one.
    pub(crate) fn idle(&self, count: usize) -> Vec<String> {
        (0..count).map(|number| self.planted.commit("other", &format!("{number}-{}", self.head()))).collect()
    }

    pub(crate) fn head(&self) -> String {
        self.planted.git(&["rev-parse", "HEAD"])
    }
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Adds a topic of three commits, the second of which raises the cost to 1100, and merges it. Returns the second
/// commit.
pub(crate) fn merge_a_slow_topic(watched: &Watched) -> String {
    let planted = &watched.planted;
    planted.git(&["checkout", "-q", "-b", "topic"]);
    planted.commit("one", "");
    let slow = planted.commit("cost", "1100");
    planted.commit("three", "");
    planted.git(&["checkout", "-q", "main"]);
    planted.commit("four", "");
    planted.git(&["merge", "-q", "--no-ff", "-m", "merge the topic", "topic"]);
    slow
}
