//! The access log. A thread of its own writes it, so that no request waits for a disk, or for a reader of standard
//! error, that does not respond.

use refdb::messages::say;
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The most bytes of lines that wait to be written. Lines beyond are lost.
const WAITING_MAX: usize = 16 << 20;

/// The most bytes that are written at once.
const BATCH_MAX: usize = 64 << 10;

/// How long the thread sleeps after a batch. Meanwhile lines gather, and none of them wakes the thread.
const PAUSE: Duration = Duration::from_millis(20);

/// The most logs that may be written at once: the present one, and earlier ones whose lines still wait for their disk.
pub(super) const LOGS_MAX: usize = 8;

/// The time after which a failed write is reported again.
const REPORT_AGAIN: Duration = Duration::from_secs(10);

/// An open access log.
#[derive(Debug)]
pub(super) struct Log {
    lines: Sender<String>,
    counts: Arc<Counts>,
    /// Disconnected once the thread has written all lines.
    ended: Receiver<()>,
}

#[derive(Debug, Default)]
struct Counts {
    /// The bytes of lines that are not written yet.
    waiting: AtomicUsize,
    /// The lines that were lost and not reported yet.
    lost: AtomicU64,
}

impl Log {
    /// Opens the log at this path, to whose end lines are added; `-` means standard error. Fails if [`LOGS_MAX`] logs
    /// that were opened with the same `writers` are still being written.
    pub(super) fn open(path: &Path, writers: &Arc<()>) -> io::Result<Self> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot open the access log {}: {error}", path.display()))
        };
        // The caller has one reference, and each thread that writes a log another.
        if Arc::strong_count(writers) > LOGS_MAX {
            return Err(named(io::Error::other("too many earlier ones are not written yet")));
        }
        let out: Box<dyn Write + Send> = if path == Path::new("-") {
            Box::new(io::stderr())
        } else {
            Box::<File>::new(OpenOptions::new().append(true).create(true).open(path).map_err(named)?)
        };
        Log::to(out, path, Arc::clone(writers)).map_err(named)
    }

    fn to(out: Box<dyn Write + Send>, path: &Path, writer_lives: Arc<()>) -> io::Result<Self> {
        let (lines, waiting) = channel();
        let (ends, ended) = channel();
        let counts = Arc::new(Counts::default());
        let writer = Writer { out, path: path.to_owned(), counts: Arc::clone(&counts), last_report: None };
        thread::Builder::new().name("access log".into()).spawn(move || {
            writer.run(&waiting);
            drop((writer_lives, ends));
        })?;
        Ok(Log { lines, counts, ended })
    }

    /// Adds a line. Returns `false` if the line is lost because too many wait.
    pub(super) fn add(&self, line: String) -> bool {
        let length = line.len();
        let is_kept = self.counts.waiting.fetch_add(length, Relaxed) + length <= WAITING_MAX;
        if is_kept && self.lines.send(line).is_ok() {
            return true;
        }
        self.counts.waiting.fetch_sub(length, Relaxed);
        self.counts.lost.fetch_add(1, Relaxed);
        false
    }

    /// Waits until all lines are written, for `limit` at most.
    pub(super) fn close(self, limit: Duration) {
        drop(self.lines);
        let _ = self.ended.recv_timeout(limit);
    }
}

/// The thread that writes the log.
struct Writer {
    out: Box<dyn Write + Send>,
    path: PathBuf,
    counts: Arc<Counts>,
    last_report: Option<Instant>,
}

impl Writer {
    /// Writes lines until no more can come.
    fn run(mut self, lines: &Receiver<String>) {
        while let Ok(mut batch) = lines.recv() {
            while batch.len() < BATCH_MAX
                && let Ok(line) = lines.try_recv()
            {
                batch.push_str(&line);
            }
            let length = batch.len();
            let written = self.out.write_all(batch.as_bytes());
            self.counts.waiting.fetch_sub(length, Relaxed);
            self.report(written);
            if length < BATCH_MAX {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Reports a failed write, and lines that were lost.
    fn report(&mut self, written: io::Result<()>) {
        let path = self.path.display();
        let lost = self.counts.lost.swap(0, Relaxed);
        if lost > 0 {
            let text = format!("{lost} lines of the access log {path} are lost, because it was not written in time");
            say("warning: ", text.as_bytes());
        }
        let Err(error) = written else { return };
        if self.last_report.is_none_or(|last| last.elapsed() >= REPORT_AGAIN) {
            self.last_report = Some(Instant::now());
            say("warning: ", format!("cannot write to the access log {path}: {error}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, os::unix::net::UnixStream};

    /// Previously, each request waited for the log to be written.
    #[test]
    fn a_log_that_is_not_written_holds_nobody_up_and_loses_what_is_too_much() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        let log = Log::to(Box::new(writer), Path::new("log"), Arc::default()).unwrap();
        let line = |number: usize| format!("{number:0>99}\n");
        // Ten times as much as may wait.
        let count = 10 * WAITING_MAX / 100;
        let began = Instant::now();
        let kept = (0..count).filter(|number| log.add(line(*number))).count();
        assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
        // What the socket has taken waits no longer.
        assert!((WAITING_MAX / 100..WAITING_MAX / 50).contains(&kept), "{kept} of {count} lines are kept");
        let reading = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        log.close(Duration::from_secs(60));
        let text = reading.join().unwrap();
        assert_eq!(text.lines().count(), kept);
        assert!(text.starts_with(&line(0)) && text.lines().is_sorted());
    }

    #[test]
    fn a_log_that_cannot_be_written_goes_on() {
        let log = Log::open(Path::new("/dev/full"), &Arc::default()).unwrap();
        for _ in 0..1000 {
            assert!(log.add("line\n".into()));
        }
        let counts = Arc::clone(&log.counts);
        log.close(Duration::from_secs(60));
        assert_eq!(counts.waiting.load(Relaxed), 0);
    }
}
