//! The side of a host that answers questions: one line for each question and each answer.
//!
//! `NUMBER CLIENT VERB ARGUMENT...`, separated by tabs, is a question. Each client has a thread and views of its own.
//! The answer is `NUMBER ok TEXT` or `NUMBER error TEXT`.

use super::{
    client::{Answer, Client},
    facts,
};
use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

/// Sends lines to the other side.
pub(super) trait Sink: Send {
    /// Sends a line.
    fn send(&mut self, line: &str) -> io::Result<()>;
}

/// A pipe, which is flushed after each line.
pub(super) struct Pipe<W>(pub(super) W);

impl<W: Write + Send> Sink for Pipe<W> {
    fn send(&mut self, line: &str) -> io::Result<()> {
        self.0.write_all(format!("{line}\n").as_bytes())?;
        self.0.flush()
    }
}

/// Answers questions from standard input on standard output, until the input ends.
pub(super) fn on_stdio() {
    // An error of reading ends the session, as the end of the input does.
    serve(io::stdin().lock().lines().map_while(Result::ok), Output(Pipe(io::stdout())));
}

/// Standard output. If it cannot be written, the process ends at once: nobody reads the answers to open questions any
/// more, and the other end of the connection waits for the process.
struct Output(Pipe<io::Stdout>);

impl Sink for Output {
    fn send(&mut self, line: &str) -> io::Result<()> {
        self.0.send(line).inspect_err(|_| std::process::exit(1))
    }
}

/// Answers questions until there are no more.
pub(super) fn serve(questions: impl Iterator<Item = String>, sink: impl Sink) {
    let sink = Arc::new(Mutex::new(sink));
    let mut clients = HashMap::new();
    thread::scope(|scope| {
        for line in questions {
            let mut words = line.split('\t').map(str::to_owned);
            let (Some(number), Some(client)) = (words.next(), words.next()) else { continue };
            let sender = clients.entry(client).or_insert_with(|| {
                let (sender, questions) = mpsc::channel::<(String, Vec<String>)>();
                let sink = Arc::clone(&sink);
                scope.spawn(move || {
                    let mut client = Client::default();
                    for (number, words) in questions {
                        let line = line_of(&number, answer(&mut client, &words));
                        // If the answer cannot be sent, the coordinator notices that it does not arrive.
                        let _ = sink.lock().unwrap_or_else(PoisonError::into_inner).send(&line);
                    }
                });
                sender
            });
            // A client whose thread has panicked leaves its questions without an answer.
            let _ = sender.send((number, words.collect()));
        }
        clients.clear();
    });
}

fn answer(client: &mut Client, words: &[String]) -> Answer {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["version"] => Ok(env!("CARGO_PKG_VERSION").into()),
        ["facts", dir] => Ok(facts::own(Path::new(dir))),
        ["see", path] => std::fs::read_to_string(path).map_err(|error| crate::failure::system_text(&error)),
        _ => client.answer(&words),
    }
}

fn line_of(number: &str, answer: Answer) -> String {
    let (word, text) = match answer {
        Ok(text) => ("ok", text),
        Err(text) => ("error", text),
    };
    format!("{number}\t{word}\t{}", text.trim_end().replace('\n', " | "))
}
