//! Values that refdb does not determine itself but asks the installed git for: how objects are stored and what the mail
//! map says, with one process each for all refs; names and signatures, with a new process for each question that
//! differs from the one before.

use super::atom::SignaturePart;
use crate::{
    failure::{Failure, Result, message, system_text},
    real_git,
};
use bstr::{BString, ByteSlice};
use refdb::Environment;
use refdb_types::ObjectId;
use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A question for a program of git.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// How an object is stored: its size on disk and its delta base, separated by a blank. git-cat-file(1).
    Stored(ObjectId),
    /// The name and address of a person by the mail map. git-check-mailmap(1).
    Contact(BString),
    /// The name of an object by tags, with options; empty if it has none. git-describe(1).
    Name(ObjectId, Vec<BString>),
    /// The verdict about a commit's signature, whose parts are separated by NUL; see [`Question::part`].
    /// git-rev-list(1).
    Signature(ObjectId),
}

/// All parts of the verdict about a signature, in their order.
const SIGNATURE_PARTS: [SignaturePart; 7] = [
    SignaturePart::Grade,
    SignaturePart::Signer,
    SignaturePart::Key,
    SignaturePart::Fingerprint,
    SignaturePart::PrimaryKeyFingerprint,
    SignaturePart::TrustLevel,
    SignaturePart::Bare,
];
const SIGNATURE_FORMAT: &str = "--format=%G?%x00%GS%x00%GK%x00%GF%x00%GP%x00%GT%x00%GG";

impl Question {
    /// Returns one part of the verdict about a signature.
    pub fn part(answer: &[u8], part: SignaturePart) -> &[u8] {
        let at = SIGNATURE_PARTS.iter().position(|known| *known == part).unwrap_or_default();
        answer.splitn(SIGNATURE_PARTS.len(), |byte| *byte == 0).nth(at).unwrap_or_default()
    }

    /// Returns the name of the command that answers, for messages.
    fn command(&self) -> &'static str {
        match self {
            Question::Stored(_) => "cat-file",
            Question::Contact(_) => "check-mailmap",
            Question::Name(..) => "describe",
            Question::Signature(_) => "rev-list",
        }
    }
}

/// Runs programs of git that answer questions. Two of them are started once and answer line by line.
pub struct Answers<'a> {
    environment: &'a Environment,
    stored: Option<Conversation>,
    mail_map: Option<Conversation>,
    /// The answers about people, without a bound, because there are few people, however many refs there are.
    contacts: HashMap<BString, BString>,
    /// The last answer, because adjacent fields often ask the same question.
    last: Option<(Question, BString)>,
}

impl<'a> Answers<'a> {
    /// Returns answers for the repository of the environment. Programs are started when they are first asked.
    pub fn new(environment: &'a Environment) -> Self {
        Answers { environment, stored: None, mail_map: None, contacts: HashMap::new(), last: None }
    }

    /// Returns the answer to a question, which is empty if git-describe or git-rev-list has run without output. Fails
    /// if a program cannot be started, or if git-cat-file or git-check-mailmap does not answer.
    pub fn ask(&mut self, question: &Question) -> Result<BString> {
        if let Some((_, answer)) = self.last.as_ref().filter(|(last, _)| last == question) {
            return Ok(answer.clone());
        }
        let answer = match question {
            Question::Contact(contact) => match self.contacts.get(contact) {
                Some(known) => known.clone(),
                None => {
                    let answer = self.converse(question, contact)?;
                    self.contacts.insert(contact.clone(), answer.clone());
                    answer
                }
            },
            Question::Stored(id) => self.converse(question, id.to_string().as_bytes())?,
            Question::Name(id, options) => {
                let mut command = command(self.environment, question);
                command.args(options.iter().map(|option| option.to_os_str_lossy())).arg(id.to_string());
                // The reason why an object has no name does not matter.
                self.output(question, command.stderr(Stdio::null()))?
            }
            Question::Signature(id) => {
                let mut command = command(self.environment, question);
                command.args(["--no-walk", "--no-commit-header", SIGNATURE_FORMAT]).arg(id.to_string());
                self.output(question, &mut command)?
            }
        };
        self.last = Some((question.clone(), answer.clone()));
        Ok(answer)
    }

    /// Returns the output of a program without its last line feed.
    fn output(&self, question: &Question, command: &mut Command) -> Result<BString> {
        match command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().and_then(|child| child.wait_with_output()) {
            Ok(output) => Ok(output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout).into()),
            Err(error) => Err(not_run(self.environment, question, &error)),
        }
    }

    /// Asks a program that keeps running.
    fn converse(&mut self, question: &Question, line: &[u8]) -> Result<BString> {
        let (place, argument) = match question {
            Question::Stored(_) => (&mut self.stored, "--batch-check=%(objectsize:disk) %(deltabase)"),
            _ => (&mut self.mail_map, "--stdin"),
        };
        if place.is_none() {
            let mut command = command(self.environment, question);
            let started = Conversation::start(command.arg(argument));
            *place = Some(started.map_err(|error| not_run(self.environment, question, &error))?);
        }
        let conversation = place.as_mut().expect("it was started above");
        let failed = |error| message!["'git ", question.command(), "' does not answer: ", system_text(&error)];
        conversation.ask(line).map_err(|error| Failure::Fatal(failed(error)))
    }
}

fn command(environment: &Environment, question: &Question) -> Command {
    let mut command = real_git::command(environment);
    command.arg(question.command());
    command
}

fn not_run(environment: &Environment, question: &Question, error: &io::Error) -> Failure {
    real_git::not_run(&real_git::program(environment), question.command(), "a field of the format", error)
}

/// A program that answers each line with one line.
struct Conversation {
    child: Child,
    /// The program's standard input. The program ends when this is closed.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Conversation {
    fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Conversation { child, input: Some(input), output: BufReader::new(output) })
            }
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn ask(&mut self, line: &[u8]) -> io::Result<BString> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(&[line, b"\n"].concat())?;
        let mut answer = Vec::new();
        self.output.read_until(b'\n', &mut answer)?;
        match answer.pop() {
            Some(b'\n') => Ok(answer.into()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.input = None;
        // The exit status says nothing about answers that were given.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_about_a_signature_falls_into_its_parts() {
        let answer = b"G\0A B\0K\0F\0P\0ultimate\0gpg: said\ngpg: so\n";
        assert_eq!(Question::part(answer, SignaturePart::Grade), b"G");
        assert_eq!(Question::part(answer, SignaturePart::TrustLevel), b"ultimate");
        assert_eq!(Question::part(answer, SignaturePart::Bare), b"gpg: said\ngpg: so\n");
        assert_eq!(Question::part(b"", SignaturePart::Bare), b"");
    }
}
