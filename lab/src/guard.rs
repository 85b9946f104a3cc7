//! Makes sure that a lab which is stopped leaves nothing behind: signals become errors, and stray processes are ended.

use std::{
    fs,
    io::ErrorKind,
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use refdb_vfs::interrupt;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid},
};

/// Whether all descendants of this process are the lab's.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Does `work` as the only work of this process. SIGINT, SIGTERM and SIGHUP make it fail. Folders go on the way out.
/// Processes that it started end, also those that left their parents. Then the signal ends this process. SIGKILL cannot
/// be caught: it leaves folders called `refdb-lab.*`.
pub fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    interrupt::catch_signals().context("cannot catch signals")?;
    // The system gives us the children of programs that ended before them.
    set_child_subreaper(Some(rustix::process::getpid())).context("cannot adopt processes")?;
    ADOPTS.store(true, Ordering::Relaxed);
    let done = work();
    end_strays()?;
    if done.is_err() {
        interrupt::end_by_signal();
    }
    done
}

/// Ends all processes that descend from this one, if [`guarded`] runs. There must be none that is still wanted. It
/// fails if one does not end within a minute.
pub fn end_strays() -> Result<()> {
    let end = Instant::now() + TIMEOUT;
    while ADOPTS.load(Ordering::Relaxed) {
        let children = children()?;
        for child in &children {
            // It may have ended meanwhile.
            kill_process(*child, Signal::KILL).ok();
        }
        // One that waits for a disk, or that is another user's, may outlive its signal. So nothing here waits in the
        // kernel.
        match waitpid(None, WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => {
                ensure!(Instant::now() < end, "{}", undying(&children));
                sleep(Duration::from_millis(1));
            }
            Err(Errno::CHILD) => break,
            Err(error) => return Err(error).context("cannot wait for a stray process"),
        }
    }
    Ok(())
}

/// How long processes may take to end once they were told to.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The complaint about processes that stay.
fn undying(children: &[Pid]) -> String {
    let numbers: Vec<String> = children.iter().map(|child| child.as_raw_nonzero().to_string()).collect();
    let seconds = TIMEOUT.as_secs();
    format!("stray processes did not end within {seconds} s: see why, and end them by hand: {}", numbers.join(", "))
}

/// The processes that this one is the parent of.
fn children() -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for thread in fs::read_dir("/proc/self/task").context("cannot list threads")? {
        match fs::read_to_string(thread?.path().join("children")) {
            Ok(text) => found.extend(text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).context("cannot list child processes"),
        }
    }
    Ok(found)
}
