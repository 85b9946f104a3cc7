//! Runs git's maintenance after pushes.
//!
//! `git receive-pack` by default runs `git maintenance run --auto` after each push. It nearly always finds nothing to
//! do, but finding that out takes more processor time than the rest of a small push, and the time grows with the number
//! of refs. One run after several pushes does what is due after all of them. This module therefore delays the run until
//! no push has arrived for [`QUIET`], or until the first push was [`DELAY_MAX`] ago. It also bounds the number of runs
//! at a time and the share of time that they take, which may delay a run further.

use refdb_receive::Maintenance;
use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
    system::uname,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The time without a push after which a run begins.
const QUIET: Duration = Duration::from_secs(1);

/// The time after the first push from which further pushes do not delay a run any more.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// The denominator of the share of time for which a repository is maintained: at most a tenth, unless a run takes so
/// long that [`PAUSE_MAX`] shortens the pause after it.
const SHARE: u32 = 10;

/// Maximum pause after a run has ended, in the background too, and between two checks whether it has, even if a lock
/// that a dead process has left makes the run seem to take days.
const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// Maximum number of repositories that are maintained at a time, not counting runs that git has put in the background.
const RUNS_MAX: usize = 8;

/// The interval of the first checks whether git has finished in the background. See [`next_look`].
const LOOK: Duration = Duration::from_millis(200);

/// Runs git's maintenance in the repositories that received pushes. Clones of this value share their state.
#[derive(Clone, Debug)]
pub(crate) struct Upkeep(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    runtime: Handle,
    runs: Semaphore,
    /// The repositories for which a task is running.
    due: Mutex<HashMap<PathBuf, Due>>,
    tasks: TaskTracker,
    is_ending: CancellationToken,
}

/// The maintenance that is due in a repository.
#[derive(Debug)]
struct Due {
    /// The commands of the last push. `None` once they have been taken to be run.
    commands: Option<Vec<Command>>,
    first_push: Instant,
    last_push: Instant,
}

impl Due {
    fn of(commands: Vec<Command>) -> Self {
        let now = Instant::now();
        Due { commands: Some(commands), first_push: now, last_push: now }
    }

    /// Returns when a run should begin.
    fn at(&self) -> Instant {
        (self.last_push + QUIET).min(self.first_push + DELAY_MAX)
    }
}

impl Upkeep {
    /// Creates the state. Tasks run in this runtime.
    pub(crate) fn new(runtime: Handle) -> Self {
        let (runs, tasks) = (Semaphore::new(RUNS_MAX), TaskTracker::new());
        let is_ending = CancellationToken::new();
        Upkeep(Arc::new(Shared { runtime, runs, due: Mutex::default(), tasks, is_ending }))
    }

    /// Runs what is due without further delay, and waits for that, except for what git does in the background.
    pub(crate) async fn ended(&self) {
        self.0.is_ending.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl Maintenance for Upkeep {
    fn is_due(&self, folder: &Path, commands: Vec<Command>) {
        let mut due = self.0.due();
        match due.get_mut(folder) {
            Some(Due { commands: waiting @ Some(_), last_push, .. }) => {
                (*waiting, *last_push) = (Some(commands), Instant::now());
            }
            Some(done) => *done = Due::of(commands),
            None => {
                due.insert(folder.to_owned(), Due::of(commands));
                self.0.tasks.spawn_on(Arc::clone(&self.0).maintain(folder.to_owned()), &self.0.runtime);
            }
        }
    }
}

impl Shared {
    /// Maintains a repository until nothing is due in it.
    async fn maintain(self: Arc<Self>, folder: PathBuf) {
        while let Some(at) = self.next(&folder) {
            self.pause(at).await;
            let Some(commands) = self.take(&folder) else { continue };
            // The wait for a turn costs nothing, so it does not count.
            let Ok(turn) = self.runs.acquire().await else { return };
            let began = Instant::now();
            let is_old_git = run(commands).await > 0;
            drop(turn);
            if is_old_git {
                // Its gc may have detached itself just now, and not have its file yet.
                self.pause(Instant::now() + LOOK).await;
            }
            self.background_ended(&folder, began).await;
            let pause = began.elapsed().saturating_mul(SHARE - 1).min(PAUSE_MAX);
            self.pause(Instant::now() + pause).await;
        }
    }

    /// Waits until git has finished what it does in the background of this run, or until the server shuts down.
    async fn background_ended(&self, folder: &Path, began: Instant) {
        while goes_on(folder.to_owned()).await && !self.is_ending.is_cancelled() {
            self.pause(Instant::now() + next_look(began.elapsed())).await;
        }
    }

    /// Returns when the next run should begin. Returns `None` and forgets the repository if nothing is due.
    fn next(&self, folder: &Path) -> Option<Instant> {
        let mut due = self.due();
        let at = due.get(folder).filter(|due| due.commands.is_some()).map(Due::at);
        if at.is_none() {
            due.remove(folder);
        }
        at
    }

    /// Takes the commands if the run should begin now, or if the server shuts down.
    fn take(&self, folder: &Path) -> Option<Vec<Command>> {
        let mut due = self.due();
        let due = due.get_mut(folder)?;
        if due.at() <= Instant::now() || self.is_ending.is_cancelled() { due.commands.take() } else { None }
    }

    /// Waits until this time, or until the server shuts down.
    async fn pause(&self, until: Instant) {
        // An error only means that the time is over.
        let _ = timeout_at(until, self.is_ending.cancelled()).await;
    }

    fn due(&self) -> MutexGuard<'_, HashMap<PathBuf, Due>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pause until the next check whether git, which has been running for this time, has finished: a tenth of the time,
/// but at least [`LOOK`] and at most [`PAUSE_MAX`]. A lock that a dead process has left may stay for days, but once it
/// is removed, that must be noticed soon.
fn next_look(passed: Duration) -> Duration {
    (passed / SHARE).clamp(LOOK, PAUSE_MAX)
}

/// Returns whether git maintains a repository in the background. The look may take long on a network file system, so it
/// has a thread of its own.
async fn goes_on(folder: PathBuf) -> bool {
    let look = move || folder.join("objects/maintenance.lock").exists() || gc_runs(&folder.join("gc.pid"));
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}

/// Returns whether the `gc` lives that has written this file, which begins with its process id and the name of its
/// machine. The gc of git before 2.47 detaches itself, and then holds no other lock. A file of another machine does not
/// count, because the gc that is waited for was started on this one. A file older than 12 hours does not count either,
/// because its number may be another process's.
fn gc_runs(file: &Path) -> bool {
    const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
    let Ok(text) = std::fs::read_to_string(file) else { return false };
    let written = std::fs::metadata(file).and_then(|found| found.modified());
    let is_recent = written.is_ok_and(|time| time.elapsed().map_or(true, |age| age < AGE_MAX));
    let mut words = text.split_whitespace();
    let process = words.next().and_then(|word| word.parse().ok()).and_then(Pid::from_raw);
    let is_local = words.next().is_some_and(|host| host.as_bytes() == uname().nodename().to_bytes());
    // The process may be another user's.
    is_recent && is_local && process.is_some_and(|process| test_kill_process(process) != Err(Errno::SRCH))
}

/// Runs the commands one after another until one succeeds, and returns the number of those that failed. As in git, a
/// push does not depend on whether one succeeds.
async fn run(commands: Vec<Command>) -> usize {
    let count = commands.len();
    for (at, mut command) in commands.into_iter().enumerate() {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if tokio::process::Command::from(command).status().await.is_ok_and(|status| status.success()) {
            return at;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appends(file: &Path) -> Vec<Command> {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ran >>\"$0\""]).arg(file);
        vec![Command::new("false"), command, Command::new("/nonexistent/program")]
    }

    #[tokio::test]
    async fn one_run_follows_many_pushes_and_what_is_due_at_the_end_is_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("runs");
        let runs = || std::fs::read_to_string(&file).unwrap_or_default();
        let upkeep = Upkeep::new(Handle::current());
        for _ in 0..50 {
            upkeep.is_due(dir.path(), appends(&file));
        }
        assert_eq!(runs(), "");
        tokio::time::sleep(QUIET * 2).await;
        assert_eq!(runs(), "ran\n");
        upkeep.is_due(dir.path(), appends(&file));
        upkeep.ended().await;
        assert_eq!(runs(), "ran\nran\n");
        assert!(upkeep.0.due().is_empty());
    }

    /// Previously, such a run counted as ended at once.
    #[tokio::test]
    async fn a_gc_that_has_detached_itself_is_waited_for_while_it_lives() {
        let dir = tempfile::tempdir().unwrap();
        let upkeep = Upkeep::new(Handle::current());
        let began = Instant::now();
        let mut gc = tokio::process::Command::new("sleep").arg("3").spawn().unwrap();
        let pid = gc.id().unwrap();
        let lives = tokio::spawn(async move { gc.wait().await.unwrap() });
        let machine = uname();
        let text = |host: &str| std::fs::write(dir.path().join("gc.pid"), format!("{pid} {host}")).unwrap();
        text("another.machine.invalid");
        assert!(!goes_on(dir.path().to_owned()).await);
        text(machine.nodename().to_str().unwrap());
        assert!(goes_on(dir.path().to_owned()).await);
        upkeep.0.background_ended(dir.path(), began).await;
        assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
        lives.await.unwrap();
        assert!(!goes_on(dir.path().to_owned()).await, "the file of a dead gc does not count");
    }

    #[test]
    fn a_lock_that_stayed_for_days_is_looked_at_every_hour() {
        let second = Duration::from_secs(1);
        assert_eq!(
            [0, 1, 3600, 864_000].map(|passed| next_look(second * passed)),
            [LOOK, LOOK, second * 360, PAUSE_MAX]
        );
    }

    #[tokio::test]
    async fn pushes_that_do_not_end_delay_a_run_no_longer_than_they_may() {
        let due = Due { first_push: Instant::now() - DELAY_MAX, ..Due::of(Vec::new()) };
        assert!(due.at() <= Instant::now());
        assert!(Due::of(Vec::new()).at() > Instant::now());
    }
}
