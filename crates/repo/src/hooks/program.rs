use bstr::ByteSlice;
use refdb_vfs::interrupt;
use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::AsFd,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A program that runs as a hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HookProgram {
    /// `hook.NAME.command`: the name or path of a program, or a line for the shell.
    Command(OsString),
    /// The file of the event's name in the hooks folder.
    File(PathBuf),
}

/// The shell, by the path that git uses. A bare name would be searched for in each folder of `PATH`.
pub const SHELL: &str = "/bin/sh";

impl HookProgram {
    /// Returns the program as git calls it from `directory`, in which it runs: a file in a subfolder of `directory` by
    /// its relative path.
    #[must_use]
    pub fn called_from(self, directory: &Path) -> Self {
        match self {
            HookProgram::File(path) => match path.strip_prefix(directory) {
                // A name without a slash would be searched for in `PATH`.
                Ok(below) if below.components().count() > 1 => HookProgram::File(below.to_owned()),
                _ => HookProgram::File(path),
            },
            command => command,
        }
    }

    /// Returns the name for messages about a failure: the command, or the path of the file.
    pub fn name(&self) -> &OsStr {
        match self {
            HookProgram::Command(line) => line,
            HookProgram::File(path) => path.as_os_str(),
        }
    }

    /// Returns the name or path of the program to start, and the arguments that precede those of the event. A command
    /// of more than one word, or with special characters, is run by the shell.
    pub fn words(&self) -> (OsString, Vec<OsString>) {
        match self {
            HookProgram::File(path) => (path.clone().into_os_string(), Vec::new()),
            HookProgram::Command(line) if is_plain(line.as_bytes()) => (line.clone(), Vec::new()),
            HookProgram::Command(line) => {
                let mut script = line.clone();
                script.push(" \"$@\"");
                (SHELL.into(), vec!["-c".into(), script, line.clone()])
            }
        }
    }
}

/// The programs of one event, which run one after the other as in `git hook`. Each gets the same input, and one that
/// exits with a failure does not keep the others from running.
#[derive(Clone, Debug)]
pub struct HookPrograms {
    /// The programs, in the order in which they run.
    pub programs: Vec<HookProgram>,
    /// The folder in which the programs run.
    pub directory: PathBuf,
    /// Variables to set, or to unset where the value is `None`.
    pub environment: Vec<(OsString, Option<OsString>)>,
}

/// A hook was not run to its end, for example because it could not be started or a signal to stop was caught.
#[derive(Debug, thiserror::Error)]
#[error("cannot run the reference-transaction hook '{program}': {source}")]
pub struct HookError {
    /// The hook's command, or the path of its file.
    pub program: String,
    /// The system's error.
    pub source: io::Error,
}

impl HookPrograms {
    /// Runs all programs with `argument` as their first argument and `lines` as their standard input, and waits for
    /// them without a time limit. Returns whether all of them succeeded.
    ///
    /// # Errors
    ///
    /// Fails, for example, if a program cannot be started, or if a signal to stop was caught, upon which the program
    /// gets SIGTERM. The remaining programs do not run then.
    pub fn run(&self, argument: &str, lines: &[u8]) -> Result<bool, HookError> {
        let mut all_succeeded = true;
        for program in &self.programs {
            let succeeded = self
                .run_one(program, argument, lines)
                .map_err(|source| HookError { program: program.name().to_string_lossy().into_owned(), source })?;
            all_succeeded &= succeeded;
        }
        Ok(all_succeeded)
    }

    fn run_one(&self, program: &HookProgram, argument: &str, lines: &[u8]) -> io::Result<bool> {
        const EXEC_FORMAT: i32 = 8;
        let mut child = match self.command(program, false, argument)?.spawn() {
            // A script without a `#!` line is run by the shell, as execvp(3) does.
            Err(error) if error.raw_os_error() == Some(EXEC_FORMAT) => {
                self.command(program, true, argument)?.spawn()?
            }
            spawned => spawned?,
        };
        Ok(interrupt::feed_and_wait(&mut child, lines)?.success())
    }

    fn command(&self, program: &HookProgram, by_shell: bool, argument: &str) -> io::Result<Command> {
        let (path, arguments) = program.words();
        let mut command = if by_shell { Command::new(SHELL) } else { Command::new(&path) };
        command.args(by_shell.then_some(&path)).args(arguments);
        // The output of hooks is for the user, not for the program that reads the command's output.
        let stderr = io::stderr().as_fd().try_clone_to_owned()?;
        command.arg(argument).current_dir(&self.directory).stdin(Stdio::piped()).stdout(stderr);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ok(command)
    }
}

/// Returns whether a command can be run without a shell, because it is a single word without special characters.
fn is_plain(command: &[u8]) -> bool {
    command.find_byteset(b"|&;<>()$`\\\"' \t\n*?[#~=%").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(programs: Vec<HookProgram>, directory: &std::path::Path) -> HookPrograms {
        HookPrograms { programs, directory: directory.to_owned(), environment: vec![("X".into(), Some("y".into()))] }
    }

    #[test]
    fn every_hook_runs_with_its_input_and_one_failure_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hook");
        // The script does not read its input, and has no `#!` line unless it runs under an emulator.
        let first = if refdb_testkit::is_emulated() { "#!/bin/sh\n" } else { "" };
        std::fs::write(&file, format!("{first}echo file $1 $X >>out\n")).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let line = |line: &str| HookProgram::Command(line.into());
        let all = vec![line("cat >>out; echo shell"), line("false"), HookProgram::File(file)];
        let lines = b"0 1 refs/heads/x\n".repeat(10_000);
        assert!(!programs(all, dir.path()).run("prepared", &lines).unwrap());
        let out = std::fs::read(dir.path().join("out")).unwrap();
        assert_eq!(out, [&lines[..], b"file prepared y\n"].concat());
        assert!(programs(vec![line("true")], dir.path()).run("aborted", b"").unwrap());
        let missing = programs(vec![line("/nonexistent/hook")], dir.path()).run("aborted", b"");
        assert!(refdb_testkit::is_emulated() || missing.unwrap_err().to_string().contains("/nonexistent/hook"));
    }
}
