//! A host as the coordinator sees it: questions are sent to it, and it answers.

use super::serve::{Pipe, Sink};
use refdb_vfs::interrupt;
use std::{
    collections::HashMap,
    fmt,
    io::{self, BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// Maximum time to wait for an answer. An NFS server that was restarted lets clients wait for 90 s.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Maximum time that a process may take to end after its input was closed.
const END_MAX: Duration = Duration::from_secs(10);
/// The interval at which a wait checks for signals.
const TICK: Duration = Duration::from_millis(100);

/// Why a question has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// The host answered with an error.
    Said(String),
    /// The host did not answer within [`ANSWER_MAX`].
    Silent,
    /// The host's process or the connection to it has ended, or the question could not be sent.
    Gone,
    /// This process has caught a signal.
    Interrupted,
}

/// Why a test cannot go on.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The coordinator could not make or read a file.
    Here(refdb_vfs::Error),
    /// Something else failed, on any host or between hosts; the text says what.
    Host(String),
    /// A signal was caught.
    Interrupted,
}

impl fmt::Display for Trouble {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Here(error) => error.fmt(to),
            Trouble::Host(text) => text.fmt(to),
            Trouble::Interrupted => "a signal was caught".fmt(to),
        }
    }
}

/// A host, and the connection to it.
pub(super) struct Host {
    pub(super) number: usize,
    /// The name of the host in messages.
    pub(super) label: String,
    sink: Mutex<Option<Box<dyn Sink>>>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicU64,
    child: Option<Mutex<Child>>,
}

#[derive(Default)]
struct Waiting {
    is_closed: bool,
    answers: HashMap<u64, mpsc::Sender<Result<String, Failure>>>,
}

impl Host {
    /// Starts the program that answers for a host.
    pub(super) fn start(number: usize, label: String, mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        // A shell may greet in any encoding.
        let lines = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
        let answers = lines.map(|line| String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned());
        let mut host = Host::new(number, label, Box::new(Pipe(stdin)), answers);
        host.child = Some(Mutex::new(child));
        Ok(host)
    }

    /// Returns a host to which `sink` sends questions and whose answers are the lines of `answers`.
    pub(super) fn new(
        number: usize,
        label: String,
        sink: Box<dyn Sink>,
        answers: impl Iterator<Item = String> + Send + 'static,
    ) -> Self {
        let waiting = Arc::<Mutex<Waiting>>::default();
        let reader = Arc::clone(&waiting);
        thread::spawn(move || receive(answers, &reader));
        Host { number, label, sink: Mutex::new(Some(sink)), waiting, next: AtomicU64::new(1), child: None }
    }

    /// Sends a question to a client of the host, and waits for the answer.
    pub(super) fn ask(&self, client: usize, words: &[&str]) -> Result<String, Failure> {
        let number = self.next.fetch_add(1, Relaxed);
        let (sender, answer) = mpsc::channel();
        {
            let mut waiting = locked(&self.waiting);
            if waiting.is_closed {
                return Err(Failure::Gone);
            }
            waiting.answers.insert(number, sender);
        }
        let line = format!("{number}\t{client}\t{}", words.join("\t"));
        let sent = locked(&self.sink).as_mut().map(|sink| sink.send(&line));
        if !matches!(sent, Some(Ok(()))) {
            return Err(Failure::Gone);
        }
        let end = Instant::now() + ANSWER_MAX;
        loop {
            match answer.recv_timeout(TICK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(Failure::Gone),
                Err(RecvTimeoutError::Timeout) if interrupt::received().is_some() => return Err(Failure::Interrupted),
                Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                    locked(&self.waiting).answers.remove(&number);
                    return Err(Failure::Silent);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns the trouble that a failure of this host means.
    pub(super) fn trouble(&self, failure: Failure) -> Trouble {
        let label = &self.label;
        match failure {
            Failure::Said(text) => Trouble::Host(format!("{label} failed: {text}")),
            Failure::Silent => Trouble::Host(format!(
                "{label} did not answer within {} s; its mount may hang, or show changes late",
                ANSWER_MAX.as_secs()
            )),
            Failure::Gone => Trouble::Host(format!("the connection to {label} has ended")),
            Failure::Interrupted => Trouble::Interrupted,
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        *locked(&self.sink) = None;
        let Some(child) = self.child.take() else { return };
        let mut child = child.into_inner().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + END_MAX;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Passes each answer to the thread that waits for it. Other lines, such as a greeting of a shell, are ignored.
fn receive(answers: impl Iterator<Item = String>, waiting: &Mutex<Waiting>) {
    for line in answers {
        let mut parts = line.splitn(3, '\t');
        let number = parts.next().and_then(|number| number.trim().parse().ok());
        let (Some(number), word, text) = (number, parts.next(), parts.next().unwrap_or_default().to_owned()) else {
            continue;
        };
        let answer = match word {
            Some("ok") => Ok(text),
            Some("error") => Err(Failure::Said(text)),
            _ => continue,
        };
        if let Some(sender) = locked(waiting).answers.remove(&number) {
            // The thread that asked may have stopped waiting.
            let _ = sender.send(answer);
        }
    }
    let mut waiting = locked(waiting);
    waiting.is_closed = true;
    waiting.answers.clear();
}

fn locked<T: ?Sized>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
