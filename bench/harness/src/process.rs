//! The programs under measurement, and the lines that they are given.

use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use refdb_lab::{
    calls,
    process::{Limits, Usage, clean, finish_within, run_into},
};
use serde::{Deserialize, Serialize};

/// A program under measurement.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in tables.
    pub name: &'static str,
    /// The binary.
    pub path: PathBuf,
    /// The git that the program calls; absent for git itself.
    pub real_git: Option<PathBuf>,
}

/// One command line with its input, the same for every program under measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// The arguments after the program's name.
    pub args: Vec<String>,
    /// The file on standard input, if any.
    pub input: Option<PathBuf>,
}

/// A command that takes more CPU seconds is ended by the kernel: its figures are lower bounds then.
pub const LIMIT: u64 = 30;

/// The limits of a measured command: [`LIMIT`] seconds of CPU time, and an hour of wall time.
pub const LIMITS: Limits = Limits { cpu: LIMIT, wall: HOUR };

/// The limits of a command whose time is not measured: an hour of CPU time, and an hour of wall time.
const UNMEASURED: Limits = Limits { cpu: HOUR, wall: HOUR };

const HOUR: u64 = 3600;

impl Program {
    /// The command `line` in the folder `dir`, in the clean environment.
    pub fn command(&self, dir: &Path, line: &Line) -> Result<Command> {
        self.command_under(&[], dir, line)
    }

    /// The command `line` in the folder `dir`, started by the program and arguments in `before` if there are any.
    fn command_under(&self, before: &[OsString], dir: &Path, line: &Line) -> Result<Command> {
        let mut command = match before {
            [] => Command::new(&self.path),
            [program, words @ ..] => {
                let mut command = Command::new(program);
                command.args(words).arg(&self.path);
                command
            }
        };
        command.args(&line.args).current_dir(dir);
        clean(&mut command, line.input.as_deref())?;
        command.envs(self.real_git.iter().map(|git| ("REFDB_GIT", git)));
        Ok(command)
    }

    /// The output of a command that must succeed.
    pub fn output<S: AsRef<str>>(&self, dir: &Path, args: &[S]) -> Result<Vec<u8>> {
        let args: Vec<String> = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        let mut command = self.command(dir, &Line { args: args.clone(), input: None })?;
        let ended = finish_within(&mut command, HOUR, true)?;
        ensure!(ended.status.success(), "{} {} failed: {}", self.name, args.join(" "), ended.said.trim());
        Ok(ended.output)
    }

    /// Runs `line` in `dir` with its output thrown away; an error tells what the command said.
    pub fn measure(&self, dir: &Path, line: &Line) -> Result<Usage> {
        self.run(&[], Stdio::null(), LIMITS, dir, line)
    }

    /// Runs `line` in `dir` with its output thrown away, under a program that watches it: `before` has that program and
    /// its arguments.
    pub fn watch(&self, before: &[OsString], limits: Limits, dir: &Path, line: &Line) -> Result<Usage> {
        self.run(before, Stdio::null(), limits, dir, line)
    }

    /// Runs `line` in `dir` with its output in `output`. It must end by itself.
    pub fn print(&self, output: File, dir: &Path, line: &Line) -> Result<()> {
        let usage = self.run(&[], output.into(), UNMEASURED, dir, line)?;
        ensure!(!usage.cut, "{} {} did not end", self.name, line.args.join(" "));
        Ok(())
    }

    /// The system calls of `line` in `dir`; the table of strace is in the file `log` meanwhile.
    pub fn calls(&self, log: &Path, dir: &Path, line: &Line) -> Result<u64> {
        self.watch(&calls::words(log), UNMEASURED, dir, line)?;
        calls::take_total(log)
    }

    fn run(&self, before: &[OsString], output: Stdio, limits: Limits, dir: &Path, line: &Line) -> Result<Usage> {
        let command = self.command_under(before, dir, line)?;
        run_into(command, output, limits).with_context(|| format!("{} {}", self.name, line.args.join(" ")))
    }
}
