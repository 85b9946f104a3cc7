//! Cleans up after a lab that SIGINT, SIGTERM, SIGHUP, SIGQUIT or SIGXCPU stops: these signals become errors, so that
//! temporary folders are removed, and then all processes that descend from the lab are ended.

use std::{
    fs,
    io::ErrorKind,
    path::Path,
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

/// Whether all descendants of this process belong to the lab.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Runs `work` as the only task of this process. SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU make `work` fail, so that
/// its folders are removed on the way out. Then all processes that it started are ended, including those that have left
/// their parents, and the signal ends this process. SIGKILL cannot be caught, and leaves folders called `refdb-lab.*`.
pub fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    interrupt::catch_signals().context("cannot catch signals")?;
    // The system makes this process the parent of the children of programs that have ended.
    set_child_subreaper(Some(rustix::process::getpid())).context("cannot adopt processes")?;
    ADOPTS.store(true, Ordering::Relaxed);
    let done = work();
    end_strays()?;
    if done.is_err() {
        interrupt::end_by_signal();
    }
    done
}

/// Ends all descendants of this process, if [`guarded`] was called. None of them may still be needed.
///
/// # Errors
///
/// Fails if one of them does not end within a minute, or if they cannot be listed or waited for.
pub fn end_strays() -> Result<()> {
    let end = Instant::now() + TIMEOUT;
    while ADOPTS.load(Ordering::Relaxed) {
        let children = children()?;
        for child in &children {
            // The process may have ended in the meantime.
            kill_process(*child, Signal::KILL).ok();
        }
        // The loop does not wait in the kernel, because a process that waits for a disk, or that belongs to another
        // user, may outlive its signal.
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

/// Removes a folder, if it exists. Begins again if a file was made in it meanwhile.
pub fn remove_folder(folder: &Path) -> Result<()> {
    let end = Instant::now() + TIMEOUT;
    loop {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && Instant::now() < end => {
                sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove '{}'", folder.display()));
            }
            _ => return Ok(()),
        }
    }
}

/// Maximum time that processes may take to end after they were killed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the error message about processes that did not end.
fn undying(children: &[Pid]) -> String {
    let numbers: Vec<String> = children.iter().map(|child| child.as_raw_nonzero().to_string()).collect();
    let seconds = TIMEOUT.as_secs();
    format!("stray processes did not end within {seconds} s: see why, and end them by hand: {}", numbers.join(", "))
}

/// Returns the children of this process.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_though_files_are_still_made_in_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        for round in 0..20 {
            fs::create_dir(&folder).unwrap();
            let maker = std::thread::spawn({
                let folder = folder.clone();
                move || (0..500).for_each(|number| drop(fs::write(folder.join(number.to_string()), "")))
            });
            while !folder.join("1").exists() && !maker.is_finished() {}
            remove_folder(&folder).unwrap();
            maker.join().unwrap();
            assert!(!folder.exists(), "{round}");
        }
    }
}
