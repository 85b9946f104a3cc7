//! The serial lines on which this machine talks with the agents of the nodes.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The time after which nobody waits for an answer any more. It is longer than the faults of a load usually take.
const ANSWER_MAX: Duration = Duration::from_secs(180);

/// What an agent says when it starts.
pub(crate) const HELLO: &str = "hello";

/// Why a question was not answered.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The agent could not do what it was asked for, or did not answer in time.
    Failed(String),
    /// The agent was killed, or its node. What it was asked for may have been done, or may still be.
    Killed,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(said) => f.write_str(said),
            Failure::Killed => f.write_str("the agent was killed"),
        }
    }
}

/// A line, which stays when its node is booted again. One question is asked at a time.
pub(crate) struct Line {
    asking: Mutex<Asking>,
    /// Ends a question from the thread that kills the node.
    interrupt: Sender<Said>,
    /// How many agents have started.
    started: Arc<AtomicUsize>,
}

struct Asking {
    to: File,
    said: Receiver<Said>,
    /// The number of the latest question. An answer with another one came too late.
    number: u64,
}

enum Said {
    Line(String),
    /// The node was killed.
    Interrupt,
}

impl Line {
    /// Makes the fifos that lead to line `number` of a node with this folder.
    pub(crate) fn make(folder: &Path, number: usize) -> Self {
        let open = |end: &str| {
            let fifo = folder.join(format!("line{number}.{end}"));
            assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
            // Opened for reading and writing, so that neither side waits until the other opens the fifo, and an agent
            // that ends is no end of file.
            OpenOptions::new().read(true).write(true).open(fifo).expect("a fifo")
        };
        let (to, from) = (open("in"), BufReader::new(open("out")));
        let (sender, said) = channel();
        let interrupt = sender.clone();
        let started = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&started);
        thread::spawn(move || {
            for line in from.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                counted.fetch_add(usize::from(line == HELLO), SeqCst);
                if sender.send(Said::Line(line)).is_err() {
                    break;
                }
            }
        });
        Line { asking: Mutex::new(Asking { to, said, number: 0 }), interrupt, started }
    }

    /// How many agents have started on this line.
    pub(crate) fn started(&self) -> usize {
        self.started.load(SeqCst)
    }

    /// Waits until more than `before` agents have started on this line. Returns `false` if they have not by `end`.
    pub(crate) fn wait_for_agent(&self, before: usize, end: Instant) -> bool {
        while self.started() <= before && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        self.started() > before
    }

    /// Ends the present question, if there is one, because nobody will answer it.
    pub(crate) fn interrupt(&self) {
        let _ = self.interrupt.send(Said::Interrupt);
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, Failure> {
        self.asking().ask(words)
    }

    fn asking(&self) -> MutexGuard<'_, Asking> {
        self.asking.lock().expect("no thread panicked with the line")
    }
}

impl Asking {
    fn ask(&mut self, words: &[&str]) -> Result<String, Failure> {
        let text = words.join("\t");
        assert!(!text.contains('\n'), "a line at a time");
        // What was said before does not belong to this question.
        while self.said.try_recv().is_ok() {}
        self.number += 1;
        writeln!(self.to, "{}\t{text}", self.number).expect("the agent reads");
        let end = Instant::now() + ANSWER_MAX;
        loop {
            let line = match self.said.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Said::Line(line)) if line == HELLO => return Err(Failure::Killed),
                Ok(Said::Line(line)) => line,
                Ok(Said::Interrupt) => return Err(Failure::Killed),
                Err(RecvTimeoutError::Timeout) => return Err(Failure::Failed("no answer".into())),
                Err(RecvTimeoutError::Disconnected) => panic!("the thread that reads the line ended"),
            };
            let mut parts = line.splitn(3, '\t');
            let (number, word, said) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
            // Anything else is an echo of the line, or an answer to an earlier question.
            if number.and_then(|number| number.parse().ok()) == Some(self.number) {
                match word {
                    Some("ok") => return Ok(said.to_owned()),
                    Some("error") => return Err(Failure::Failed(said.to_owned())),
                    _ => {}
                }
            }
        }
    }
}
