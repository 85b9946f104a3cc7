//! `refdb upload-pack` and git's own, with pipes, as sshd runs them.

use super::{Server, server::environment};
use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

/// What a program has said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    /// The exit code; if a signal ended the program, 128 plus its number, as in a shell.
    pub(crate) code: i32,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: String,
}

impl Server {
    /// Returns a `refdb upload-pack` that finds this server. Its options, and the repository, are to be added.
    pub(crate) fn shim(&self) -> Command {
        let mut shim = Command::new(env!("CARGO_BIN_EXE_refdb"));
        environment(&mut shim, &self.home);
        shim.arg("upload-pack").env("REFDB_SERVE_SOCKET", &self.shims);
        shim
    }
}

/// Returns git's own upload-pack.
pub(crate) fn plain_upload_pack(git: &Path, home: &Path) -> Command {
    let mut command = Command::new(git);
    environment(&mut command, home);
    command.arg("upload-pack");
    command
}

/// Runs a program with this input.
pub(crate) fn feed(command: &mut Command, input: &[u8]) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    Said {
        code: output.status.code().unwrap_or_else(|| 128 + signal.unwrap()),
        output: output.stdout,
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
