//! Metrics for Prometheus, and the access log with a line for each request.

mod log;

use crate::cpu::Cpu;
pub(crate) use log::Log;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use serde::Serialize;
use std::{
    fmt, io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// The metrics and the access log of the server.
#[derive(Debug)]
pub(crate) struct Records {
    registry: Registry,
    requests: Family<Labels, Counter>,
    seconds: Family<Operation, Histogram>,
    sent: Family<Operation, Counter>,
    shims: Family<Shim, Counter>,
    pub(crate) in_progress: Gauge,
    pub(crate) connections: Gauge,
    lines_lost: Counter,
    log: Mutex<Option<Log>>,
    /// Shared with the threads that write the present log and earlier ones.
    log_writers: Arc<()>,
    /// Whether there is a log, kept here so that reading it needs no lock.
    is_logging: AtomicBool,
    ids: AtomicU64,
    started: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    operation: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Shim {
    result: &'static str,
}

/// The upper bounds of the buckets of the histogram of durations, in seconds.
const SECONDS: [f64; 10] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0, 10.0, 100.0];

impl Records {
    /// Creates the metrics. `messages_lost` counts the lines of messages that are lost.
    pub(crate) fn new(messages_lost: Counter) -> Arc<Self> {
        let mut registry = Registry::with_prefix("refdb_serve");
        let requests = Family::<Labels, Counter>::default();
        let seconds = Family::<Operation, Histogram>::new_with_constructor(|| Histogram::new(SECONDS));
        let sent = Family::<Operation, Counter>::default();
        let shims = Family::<Shim, Counter>::default();
        let [in_progress, connections] = [(); 2].map(|()| Gauge::default());
        let lines_lost = Counter::default();
        registry.register("requests", "Requests that have ended", requests.clone());
        registry.register_with_unit(
            "request",
            "Time from the start of a request to the end of its response",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register_with_unit("sent", "Bytes of response bodies", Unit::Bytes, sent.clone());
        registry.register("shims", "Connections to the socket for shims, by how they ended", shims.clone());
        registry.register("requests_in_progress", "Requests in progress", in_progress.clone());
        registry.register("connections", "Open connections", connections.clone());
        registry.register(
            "log_lines_lost",
            "Lines that the access log lacks, because they could not be written, or not in time",
            lines_lost.clone(),
        );
        registry.register(
            "message_lines_lost",
            "Lines of messages that standard error lacks, because they could not be written, or not in time",
            messages_lost,
        );
        Arc::new(Records {
            registry,
            requests,
            seconds,
            sent,
            shims,
            in_progress,
            connections,
            lines_lost,
            log: Mutex::default(),
            log_writers: Arc::default(),
            is_logging: AtomicBool::new(false),
            ids: AtomicU64::new(1),
            started: Instant::now(),
        })
    }

    /// Opens the access log, or opens it again after a rotation. The path `-` means standard error, and `None` closes
    /// the log. Fails, and keeps the present log, if the new one cannot be opened or too many earlier ones are not
    /// written yet, because each of them has a thread that may wait for its disk for ever.
    pub(crate) fn open_log(&self, path: Option<&Path>) -> io::Result<()> {
        let log = path.map(|path| Log::open(path, &self.log_writers, &self.lines_lost)).transpose()?;
        self.is_logging.store(log.is_some(), Relaxed);
        *self.log() = log;
        Ok(())
    }

    /// Closes the access log once it is written and its lost lines are reported, or after `limit`.
    pub(crate) fn close_log(&self, limit: Duration) {
        let began = Instant::now();
        let log = self.log().take();
        if let Some(log) = log {
            log.await_written(limit);
            drop(log);
            // The thread of a log reports the last lost lines when it ends.
            while Arc::strong_count(&self.log_writers) > 1 && began.elapsed() < limit {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Begins the record of a request. Its status is [`STATUS_LEFT`] until another one is set, because the work for a
    /// client that disconnects is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Record {
        self.in_progress.inc();
        Record {
            records: Arc::clone(self),
            start: Instant::now(),
            cpu: Cpu::new(self.is_logging.load(Relaxed)),
            line: Line {
                id: self.ids.fetch_add(1, Relaxed),
                operation: "other",
                status: STATUS_LEFT,
                ..Line::default()
            },
        }
    }

    /// Counts a connection to the socket for shims. `result` says how it ended.
    pub(crate) fn shim(&self, result: &'static str) {
        self.shims.get_or_create(&Shim { result }).inc();
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Returns how long the server has been running.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn log(&self) -> MutexGuard<'_, Option<Log>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The status in the access log of a client that did not wait for the response, as in nginx.
pub(crate) const STATUS_LEFT: u16 = 499;

/// The record of one request. On drop, the request is counted, and logged if there is an access log.
pub(crate) struct Record {
    records: Arc<Records>,
    start: Instant,
    /// The processor time that the request takes, which is measured only for the access log.
    pub(crate) cpu: Cpu,
    line: Line,
}

/// A line of the access log.
#[derive(Default, Serialize)]
struct Line {
    time: String,
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<String>,
    operation: &'static str,
    version: u8,
    status: u16,
    refs: u64,
    bytes: u64,
    queued_ms: f64,
    served_ms: f64,
    cpu_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("id", &self.line.id).finish_non_exhaustive()
    }
}

impl Record {
    pub(crate) fn client(&mut self, user: Option<&str>, address: &str) {
        (self.line.user, self.line.address) = (user.map(str::to_owned), address.to_owned());
    }

    pub(crate) fn repository(&mut self, repository: &str) {
        self.line.repository = Some(repository.to_owned());
    }

    pub(crate) fn operation(&mut self, operation: &'static str, version: u8) {
        (self.line.operation, self.line.version) = (operation, version);
    }

    pub(crate) fn status(&mut self, status: u16) {
        self.line.status = status;
    }

    /// Records how long the request waited because of the limits on fetches or pushes.
    pub(crate) fn queued(&mut self, duration: Duration) {
        self.line.queued_ms = milliseconds(duration);
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.line.bytes += bytes as u64;
    }

    pub(crate) fn refs(&mut self, refs: u64) {
        self.line.refs = refs;
    }

    pub(crate) fn failed(&mut self, error: &dyn fmt::Display) {
        self.line.error = Some(error.to_string());
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let Record { records, start, cpu, line } = self;
        records.in_progress.dec();
        let duration = start.elapsed();
        let operation = Operation { operation: line.operation };
        records.seconds.get_or_create(&operation).observe(duration.as_secs_f64());
        records.sent.get_or_create(&operation).inc_by(line.bytes);
        records.requests.get_or_create(&Labels { operation: line.operation, status: line.status }).inc();
        if !records.is_logging.load(Relaxed) {
            return;
        }
        let now = refdb_vfs::now_nanos();
        line.time = format!("{}.{:03}", now / 1_000_000_000, now / 1_000_000 % 1000);
        line.served_ms = milliseconds(duration);
        line.cpu_ms = milliseconds(cpu.spent().unwrap_or_default());
        let Ok(text) = serde_json::to_string(line) else { return };
        let text = escaped(text) + "\n";
        if let Some(log) = &*records.log() {
            log.add(text.into_bytes());
        }
    }
}

/// Escapes the control characters that JSON allows in strings, DEL and U+0080 to U+009F, because terminals obey them.
fn escaped(json: String) -> String {
    if !json.contains(char::is_control) {
        return json;
    }
    let escape = |c: char| if c.is_control() { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    json.chars().map(escape).collect()
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use log::LOGS_MAX;
    use std::{io::Read, os::fd::AsRawFd, thread};

    #[test]
    fn a_request_is_counted_and_logged_on_one_line() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        let records = Records::new(Counter::default());
        records.open_log(Some(&path)).unwrap();
        let mut record = records.begin();
        record.client(Some("eve\n\u{1b}[2J\"\u{2028}\u{9b}2J\u{7f}"), "::1");
        record.operation("ls-refs", 2);
        record.status(200);
        record.sent(7);
        drop(record);
        records.close_log(Duration::from_secs(60));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(!text.trim_end().chars().any(char::is_control), "{text:?}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["user"], "eve\n\u{1b}[2J\"\u{2028}\u{9b}2J\u{7f}");
        assert_eq!((&line["operation"], &line["bytes"]), (&"ls-refs".into(), &7.into()));
        let metrics = records.text();
        let count = "refdb_serve_requests_total{operation=\"ls-refs\",status=\"200\"} 1";
        assert!(metrics.contains(count), "{metrics}");
        assert!(metrics.contains("refdb_serve_requests_in_progress 0"), "{metrics}");
    }

    /// Previously, each rotation left one more thread and its lines behind for as long as nobody read the log.
    #[test]
    fn rotations_of_a_log_that_is_not_written_are_refused_once_many_wait() {
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let records = Records::new(Counter::default());
        let open = || records.open_log(Some(Path::new(&path)));
        let mut opened = 0;
        let refused = loop {
            match open() {
                Ok(()) => opened += 1,
                Err(error) => break error.to_string(),
            }
            assert!(opened <= LOGS_MAX, "there is no end");
            // A pipe takes less.
            records.log().as_ref().unwrap().add(vec![b'x'; 1 << 20]);
        };
        assert_eq!(opened, LOGS_MAX);
        assert!(refused.contains("not written yet"), "{refused}");
        io::copy(&mut (&mut reader).take((LOGS_MAX << 20) as u64), &mut io::sink()).unwrap();
        let began = Instant::now();
        while open().is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "the earlier ones are written");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
