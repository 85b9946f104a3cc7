//! Results as JSON lines, so that runs can be compared later.

use std::{
    fs,
    io::Write,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use refdb_lab::process::output;
use serde_json::{Value, json};

use crate::{instructions::Measure, run::Row, size::Size, writers::Outcome};

/// What was measured, where.
#[derive(Debug)]
pub struct Setting {
    /// git's version.
    pub git: String,
    /// The commit that is checked out in the working directory, which is taken for refdb's.
    pub refdb: String,
    /// The processor.
    pub processor: String,
    /// The kernel.
    pub kernel: String,
    /// How instructions were counted.
    pub measure: Measure,
    /// The size of the jobs.
    pub size: Size,
}

impl Setting {
    /// Finds out the versions, the processor and the kernel.
    pub fn find(git: &Path, measure: Measure, size: Size) -> Setting {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
        Setting {
            git: said(Command::new(git).arg("version")).trim_start_matches("git version ").to_owned(),
            refdb: said(Command::new("git").args(["rev-parse", "--short=12", "HEAD"])),
            processor: model.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown processor").to_owned(),
            kernel: said(Command::new("uname").arg("-r")),
            measure,
            size,
        }
    }
}

/// Appends one line for each row and race to `file`.
pub fn append(file: &Path, setting: &Setting, rows: &[Row], races: &[Outcome]) -> Result<()> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let setting = json!({
        "time": seconds, "size": setting.size.name, "refdb": setting.refdb, "git": setting.git,
        "processor": setting.processor, "kernel": setting.kernel, "measure": format!("{:?}", setting.measure),
    });
    let rows = rows.iter().map(serde_json::to_value);
    let races = races.iter().map(serde_json::to_value);
    let mut out =
        fs::OpenOptions::new().append(true).create(true).open(file).with_context(|| file.display().to_string())?;
    for result in rows.chain(races) {
        let mut line = setting.clone();
        if let (Value::Object(line), Value::Object(result)) = (&mut line, result?) {
            line.extend(result);
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The first line that a helper program prints, or `unknown`.
fn said(command: &mut Command) -> String {
    let said = output(command).unwrap_or_default();
    said.lines().next().unwrap_or("unknown").to_owned()
}
