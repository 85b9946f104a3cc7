//! The access log, and the messages on standard error. Each has a thread that writes it, so that no request waits for a
//! disk, or for a reader of standard error, that does not respond.

use prometheus_client::metrics::counter::Counter;
use refdb::messages::{pass_to, say};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    mem, panic,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The most bytes of lines of the access log that wait to be written. Lines beyond are lost.
const WAITING_MAX: usize = 16 << 20;

/// The most bytes of messages that wait to be written. Messages beyond are lost.
const MESSAGES_MAX: usize = 1 << 20;

/// The number of bytes from which on no further line is added to a batch, which is written at once.
const BATCH_MAX: usize = 64 << 10;

/// How long the thread sleeps after a batch of fewer than [`BATCH_MAX`] bytes. Meanwhile lines gather, and none of them
/// wakes the thread.
const PAUSE: Duration = Duration::from_millis(20);

/// The most logs that may be written at once: the present one, and earlier ones whose lines still wait for their disk.
pub(super) const LOGS_MAX: usize = 8;

/// The time after which a failed write is reported again.
const REPORT_AGAIN: Duration = Duration::from_secs(10);

/// An open log: the access log, or the messages on standard error.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Sender<Vec<u8>>,
    counts: Arc<Counts>,
    waiting_max: usize,
}

#[derive(Debug, Default)]
struct Counts {
    /// The bytes of lines that are not written yet.
    waiting: AtomicUsize,
    /// The lines that were lost and not reported yet.
    unreported: AtomicU64,
    /// All lines that were lost, those of earlier logs included.
    lost: Counter,
}

impl Counts {
    /// Counts lost lines, whose text this is.
    fn lose(&self, text: &[u8]) {
        let count = text.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.unreported.fetch_add(count, Relaxed);
        self.lost.inc_by(count);
    }
}

impl Log {
    /// Opens the access log at this path, to whose end lines are added; `-` means standard error. Lost lines are added
    /// to `lost`. Fails if [`LOGS_MAX`] logs that were opened with the same `writers` are still being written.
    pub(super) fn open(path: &Path, writers: &Arc<()>, lost: &Counter) -> io::Result<Self> {
        let name = format!("the access log {}", path.display());
        let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot open {name}: {error}"));
        // The caller has one reference, and each thread that writes a log another.
        if Arc::strong_count(writers) > LOGS_MAX {
            return Err(named(io::Error::other("too many earlier ones are not written yet")));
        }
        let out: Box<dyn Write + Send> = if path == Path::new("-") {
            Box::new(io::stderr())
        } else {
            Box::<File>::new(OpenOptions::new().append(true).create(true).open(path).map_err(named)?)
        };
        Log::to(out, name.clone(), WAITING_MAX, Arc::clone(writers), lost.clone()).map_err(named)
    }

    /// Makes a thread write the messages of the process, and those of panics, to standard error from now on, because
    /// a write to standard error blocks for as long as nobody reads it. Threads that write logs, which nobody waits for
    /// without a limit, must then be the only ones that use [`io::stderr`], whose lock they hold meanwhile.
    /// Lost lines are added to `lost`.
    pub(crate) fn of_messages(lost: Counter) -> io::Result<Arc<Self>> {
        let out = Box::new(io::stderr());
        let log = Log::to(out, "standard error".into(), MESSAGES_MAX, Arc::default(), lost)?;
        let log = Arc::new(log);
        let taker = Arc::clone(&log);
        pass_to(move |message| taker.add(message));
        panic::set_hook(Box::new(|panicked| say("fatal: ", panicked.to_string().as_bytes())));
        Ok(log)
    }

    fn to(
        out: Box<dyn Write + Send>,
        name: String,
        waiting_max: usize,
        writer_lives: Arc<()>,
        lost: Counter,
    ) -> io::Result<Self> {
        let (lines, waiting) = channel();
        let counts = Arc::new(Counts { lost, ..Counts::default() });
        let writer = Writer { out, name, counts: Arc::clone(&counts), begun: Vec::new(), last_report: None };
        thread::Builder::new().name("log".into()).spawn(move || {
            writer.run(&waiting);
            drop(writer_lives);
        })?;
        Ok(Log { lines, counts, waiting_max })
    }

    /// Adds a line, or a message of several lines. It is lost if too many bytes wait.
    pub(super) fn add(&self, line: Vec<u8>) {
        let length = line.len();
        let is_kept = self.counts.waiting.fetch_add(length, Relaxed) + length <= self.waiting_max;
        let lost = match is_kept {
            true => self.lines.send(line).err().map(|failed| failed.0),
            false => Some(line),
        };
        if let Some(line) = lost {
            self.counts.waiting.fetch_sub(length, Relaxed);
            self.counts.lose(&line);
        }
    }

    /// Waits until the thread has written, or failed to write, all lines that were added, for `limit` at most.
    pub(crate) fn await_written(&self, limit: Duration) {
        let began = Instant::now();
        while self.counts.waiting.load(Relaxed) > 0 && began.elapsed() < limit {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The thread that writes a log.
struct Writer {
    out: Box<dyn Write + Send>,
    name: String,
    counts: Arc<Counts>,
    /// The rest of a line that was written in part before a write failed. It is written first when writing is possible
    /// again, so that each line is whole.
    begun: Vec<u8>,
    last_report: Option<Instant>,
}

impl Writer {
    /// Writes lines until no more can come.
    fn run(mut self, lines: &Receiver<Vec<u8>>) {
        while let Ok(line) = lines.recv() {
            let mut length = line.len();
            let mut batch = mem::take(&mut self.begun);
            let is_within_line = !batch.is_empty();
            batch.extend(line);
            while batch.len() < BATCH_MAX
                && let Ok(line) = lines.try_recv()
            {
                length += line.len();
                batch.extend(line);
            }
            let written = self.write(&batch, is_within_line);
            self.report(written);
            self.counts.waiting.fetch_sub(length, Relaxed);
            if length < BATCH_MAX {
                thread::sleep(PAUSE);
            }
        }
        let begun = mem::take(&mut self.begun);
        let written = self.write(&begun, true);
        self.counts.lose(&mem::take(&mut self.begun));
        // Later there is nobody to report the lost lines.
        self.last_report = None;
        self.report(written);
    }

    /// Writes whole lines, the first of which may have been begun already. If that fails, keeps the rest of a line that
    /// is written in part, and counts the lines after it as lost.
    fn write(&mut self, batch: &[u8], mut is_within_line: bool) -> io::Result<()> {
        let mut rest = batch;
        while !rest.is_empty() {
            let error = match self.out.write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    is_within_line = rest[count - 1] != b'\n';
                    rest = &rest[count..];
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            let line_end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
            let (begun, lost) = rest.split_at(if is_within_line { line_end } else { 0 });
            self.begun = begun.to_vec();
            self.counts.lose(lost);
            return Err(error);
        }
        Ok(())
    }

    /// Reports a failed write and the number of lost lines. Reports nothing if the write failed within
    /// [`REPORT_AGAIN`] of the last reported failure.
    fn report(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            if self.last_report.is_some_and(|last| last.elapsed() < REPORT_AGAIN) {
                return;
            }
            self.last_report = Some(Instant::now());
            say("warning: ", format!("cannot write to {}: {error}", self.name).as_bytes());
        }
        let lost = self.counts.unreported.swap(0, Relaxed);
        if lost > 0 {
            let text =
                format!("{lost} lines of {} are lost, because they could not be written, or not in time", self.name);
            say("warning: ", text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Read,
        os::unix::net::UnixStream,
        sync::{Mutex, PoisonError},
    };

    fn log(out: impl Write + Send + 'static) -> Log {
        Log::to(Box::new(out), "log".into(), WAITING_MAX, Arc::default(), Counter::default()).unwrap()
    }

    /// Previously, each request waited for the log to be written.
    #[test]
    fn a_log_that_is_not_written_holds_nobody_up_and_loses_what_is_too_much() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        let log = log(writer);
        let line = |number: u64| format!("{number:0>99}\n");
        // Ten times as much as may wait.
        let max = WAITING_MAX as u64 / 100;
        let count = 10 * max;
        let began = Instant::now();
        (0..count).for_each(|number| log.add(line(number).into()));
        let kept = count - log.counts.lost.get();
        assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
        // What the socket has taken waits no longer.
        assert!((max..2 * max).contains(&kept), "{kept} of {count} lines are kept");
        let reading = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        log.await_written(Duration::from_secs(60));
        drop(log);
        let text = reading.join().unwrap();
        assert_eq!(text.lines().count() as u64, kept);
        assert!(text.starts_with(&line(0)) && text.lines().is_sorted());
    }

    #[test]
    fn a_log_that_cannot_be_written_goes_on_and_counts_what_is_lost() {
        let lost = Counter::default();
        let log = Log::open(Path::new("/dev/full"), &Arc::default(), &lost).unwrap();
        (0..1000).for_each(|_| log.add("line\n".into()));
        log.await_written(Duration::from_secs(60));
        assert_eq!((log.counts.waiting.load(Relaxed), lost.get()), (0, 1000));
    }

    /// A disk of which so many bytes are free.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Disk {
        fn of<T>(&self, act: impl FnOnce(&mut usize, &mut Vec<u8>) -> T) -> T {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (free, text) = &mut *state;
            act(free, text)
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.of(|free, text| {
                let count = bytes.len().min(*free);
                *free -= count;
                text.extend(&bytes[..count]);
                if count > 0 { Ok(count) } else { Err(io::ErrorKind::StorageFull.into()) }
            })
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Previously, no metric counted them.
    #[test]
    fn lost_lines_of_messages_are_counted_in_the_metrics() {
        let lost = Counter::default();
        let out = Box::new(Disk::default());
        let log = Log::to(out, "standard error".into(), MESSAGES_MAX, Arc::default(), lost.clone()).unwrap();
        log.add("one\ntwo\n".into());
        log.await_written(Duration::from_secs(60));
        let text = super::super::Records::new(lost).text();
        assert!(text.contains("\nrefdb_serve_message_lines_lost_total 2\n"), "{text}");
    }

    /// Previously, lines that were lost after the last report were never reported.
    #[test]
    fn lost_lines_are_reported_at_the_latest_when_the_log_is_closed() {
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        pass_to(move |message| {
            let mut said = heard.lock().unwrap_or_else(PoisonError::into_inner);
            said.push_str(&String::from_utf8_lossy(&message));
        });
        let (out, name, writers) = (Box::new(Disk::default()), "the disk", Arc::new(()));
        let log = Log::to(out, name.into(), WAITING_MAX, Arc::clone(&writers), Counter::default()).unwrap();
        for _ in 0..2 {
            log.add("line\n".into());
            log.await_written(Duration::from_secs(60));
        }
        drop(log);
        let began = Instant::now();
        while Arc::strong_count(&writers) > 1 && began.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        // The second loss is not reported at once, because the first one has just been.
        assert_eq!(said.matches("1 lines of the disk are lost").count(), 2, "{said}");
    }

    /// Previously, a line that was written in part was continued by another one, and none was counted.
    #[test]
    fn after_a_full_disk_each_line_is_whole_or_counted_as_lost() {
        for free in 0..100 {
            let disk = Disk::default();
            let log = log(disk.clone());
            for more in [free, 1, 1000] {
                disk.of(|room, _| *room += more);
                (0..10).for_each(|number| log.add(format!("{number} line\n").into()));
                log.await_written(Duration::from_secs(60));
            }
            let text = disk.of(|_, text| String::from_utf8(text.clone()).unwrap());
            assert!(text.lines().all(|line| line.len() == 6 && line.ends_with(" line")), "{free}: {text}");
            assert_eq!(text.lines().count() as u64 + log.counts.lost.get(), 30, "{free}: {text}");
        }
    }
}
