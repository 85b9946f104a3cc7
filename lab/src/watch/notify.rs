//! Calls the user's command for an alert, and only once, no matter when a watch is killed.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

/// Maximum duration of the user's command.
const LIMIT: Duration = Duration::from_secs(600);

/// The script of the process that becomes the command. It claims the alert itself, just before it becomes the command.
/// If a watch is killed, either the command has not begun, and the next watch starts it, or the command goes on by
/// itself, in its own group of processes. If two processes claim an alert, only one of them becomes the command.
const CLAIM: &str = "mkdir \"$CLAIM\" 2>/dev/null || { test -d \"$CLAIM\"; exit; }\nunset CLAIM\nexec sh -c \"$0\"\n";

/// Calls the shell command `command` for the alert `id` in the history `folder`, unless it was called before.
///
/// # Errors
///
/// Fails if the command cannot be started, fails or exceeds ten minutes, or if a file of the history cannot be read or
/// made. A command that could not be started is started by the next call; one that failed is not called again.
pub fn notify(command: &str, folder: &Path, id: &str) -> Result<()> {
    let claims = folder.join("notified");
    fs::create_dir_all(&claims).with_context(|| format!("cannot make '{}'", claims.display()))?;
    let claim = claims.join(id);
    if claim.exists() {
        return Ok(());
    }
    let alerts = fs::canonicalize(folder.join("alerts")).context("there are no alerts")?;
    let [json, markdown] = ["json", "md"].map(|ending| alerts.join(format!("{id}.{ending}")));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", CLAIM, command])
        .env("CLAIM", fs::canonicalize(&claims)?.join(id))
        .env("ALERT", id)
        .env("ALERT_JSON", json)
        .env("ALERT_MARKDOWN", &markdown)
        .stdin(File::open(&markdown).with_context(|| format!("cannot read '{}'", markdown.display()))?)
        .process_group(0);
    let mut child = shell.spawn().context("cannot run the command of --notify")?;
    let status = wait(&mut child)?;
    ensure!(status.success(), "the command of --notify failed for {id}: {status}");
    Ok(())
}

/// Waits for the command, and after [`LIMIT`] kills its group of processes. A signal to the watch does not end the
/// command, because a command that was ended is not called again.
fn wait(child: &mut Child) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > LIMIT {
            kill_process_group(Pid::from_child(child), Signal::KILL)?;
            child.wait()?;
            bail!("the command of --notify took more than {} s and was ended", LIMIT.as_secs());
        }
        sleep(Duration::from_millis(20));
    }
}
