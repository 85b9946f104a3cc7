//! The programs under measurement, and the lines that they are given.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use refdb_lab::process::{Limits, Usage, clean, run};
use serde::{Deserialize, Serialize};

/// A program under measurement.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in tables.
    pub name: &'static str,
    /// The binary.
    pub path: PathBuf,
    /// The git that it calls.
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

/// The same, and an hour for one that waits.
const LIMITS: Limits = Limits { cpu: LIMIT, wall: 3600 };

impl Program {
    /// The command `line` in the folder `dir`, in the clean environment.
    pub fn command(&self, dir: &Path, line: &Line) -> Result<Command> {
        let mut command = Command::new(&self.path);
        command.args(&line.args);
        self.prepare(&mut command, dir, line.input.as_deref())?;
        Ok(command)
    }

    /// Gives `command`, which runs this program, the clean environment, the folder and the input.
    pub fn prepare(&self, command: &mut Command, dir: &Path, input: Option<&Path>) -> Result<()> {
        command.current_dir(dir);
        clean(command, input)?;
        command.envs(self.real_git.iter().map(|git| ("REFDB_GIT", git)));
        Ok(())
    }

    /// The output of a command that must succeed.
    pub fn output<S: AsRef<str>>(&self, dir: &Path, args: &[S]) -> Result<Vec<u8>> {
        let args: Vec<String> = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        let output = self.command(dir, &Line { args: args.clone(), input: None })?.output()?;
        anyhow::ensure!(
            output.status.success(),
            "{} {} failed: {}",
            self.name,
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(output.stdout)
    }

    /// Runs `line` in `dir` with its output thrown away; an error tells what the command said.
    pub fn measure(&self, dir: &Path, line: &Line) -> Result<Usage> {
        run(self.command(dir, line)?, LIMITS).with_context(|| format!("{} {}", self.name, line.args.join(" ")))
    }
}
