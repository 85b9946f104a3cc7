//! The servers that are measured.

use crate::{
    Options,
    usage::{self, Usage},
};
use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// A server that runs: where it listens, and how much processor time it has taken.
pub(crate) struct Target {
    /// `HOST:PORT`.
    pub(crate) address: String,
    pub(crate) usage: Usage,
}

/// A running `refdb-serve`, which ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) target: Target,
}

impl Server {
    pub(crate) fn start(options: &Options, root: &Path) -> Result<Self> {
        Server::start_with(options, root, |_| ())
    }

    /// Starts a server whose command line `adjust` completes.
    pub(crate) fn start_with(options: &Options, root: &Path, adjust: impl FnOnce(&mut Command)) -> Result<Self> {
        let mut command = Command::new(&options.serve);
        if options.one_core_each {
            command = Command::new("taskset");
            command.args(["-c", "1"]).arg(&options.serve);
        }
        command.arg("--export-all").arg("--root").arg(root).env("REFDB_GIT", &options.git).stdout(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            command.args(["--user", "root"]);
        }
        adjust(&mut command);
        let mut child = command.spawn().context("cannot start the server")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it has no output")?).read_line(&mut line)?;
        let address = line.trim().trim_start_matches("listening on http://").trim_end_matches('/').to_owned();
        let usage = Usage::Process(child.id());
        Ok(Server { child, target: Target { address, usage } })
    }

    /// The processor time that the server has taken, together with that of its programs that have ended.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.target.usage.cpu()
    }

    /// The resident memory in MiB, now and at most.
    pub(crate) fn memory(&self) -> Result<(u64, u64)> {
        usage::memory(self.child.id())
    }

    pub(crate) fn descriptors(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }
}

/// Lets this process and those that it starts run on one processor only.
pub(crate) fn run_on(processor: usize) -> Result<()> {
    let mut processors = CpuSet::new();
    processors.set(processor);
    Ok(sched_setaffinity(None, &processors)?)
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
