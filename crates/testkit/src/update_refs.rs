//! A long-lived `update-ref --stdin`, as the server software of a Git host keeps one open.

use crate::Repo;
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

/// A running `update-ref --stdin`. Its standard error, which says why a transaction failed, is that of the test.
#[derive(Debug)]
pub struct UpdateRefs {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl UpdateRefs {
    /// Starts `program`, which is git or takes git's place, with settings in the form `key=value`.
    pub fn start(repo: &Repo, program: impl AsRef<OsStr>, settings: &[&str]) -> Self {
        let mut command: Command = repo.command(program);
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.args(["update-ref", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdin = child.stdin.take().expect("its input is a pipe");
        let stdout = child.stdout.take().expect("its output is a pipe");
        UpdateRefs { child, stdin, stdout: BufReader::new(stdout) }
    }

    /// The number of the process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Makes a transaction of these commands, each of which ends with a newline. Returns whether the program has
    /// reported the commit.
    pub fn transact(&mut self, commands: &str) -> bool {
        if self.stdin.write_all(format!("start\n{commands}commit\n").as_bytes()).is_err() {
            return false;
        }
        let mut lines = self.stdout.by_ref().lines();
        let mut says = |expected: &str| lines.next().is_some_and(|line| line.is_ok_and(|line| line == expected));
        says("start: ok") && says("commit: ok")
    }

    /// Ends the program's input, and waits until the program has ended.
    pub fn end(mut self) -> ExitStatus {
        drop(self.stdin);
        self.child.wait().expect("the program is a child of this process")
    }
}
