//! Asks the program or Unix socket that `serve.authorize` names whether a client may use a repository.
//!
//! The question is one line of JSON, `{"user":…,"address":…,"repository":…,"access":"read"|"write"}`, where `user` is
//! null for an anonymous client. The reply is one JSON object; see [`Answer`].

use bstr::BString;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    process::Command,
    sync::Semaphore,
    time::timeout,
};

/// What a client wants to do with a repository.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    Read,
    Write,
}

/// Whether a client may read from or write to a repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    Allowed(Grant),
    Denied,
    /// Refuse the client as if the repository did not exist.
    Missing,
}

/// What the authorizer attaches to a request that it allows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Grant {
    /// The value of `GIT_NAMESPACE`, if the client is confined to a namespace.
    pub(crate) namespace: Option<String>,
    /// Values of `transfer.hideRefs` that are added to the configured ones.
    pub(crate) hidden: Vec<BString>,
    /// Environment variables for git and for hooks.
    pub(crate) variables: Vec<(String, String)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
struct Question {
    user: Option<String>,
    address: String,
    repository: String,
    access: Access,
}

/// The reply of the authorizer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// `allow`, `deny`, or `missing` for "no such repository".
    verdict: String,
    /// The number of seconds for which the reply may be cached for the same question.
    #[serde(default)]
    cache_seconds: u32,
    namespace: Option<String>,
    #[serde(default)]
    hide_refs: Vec<String>,
    #[serde(default)]
    environment: HashMap<String, String>,
}

/// The authorizer, with a cache of its replies.
#[derive(Debug)]
pub(crate) struct Authorizer {
    path: PathBuf,
    deadline: Duration,
    /// Limits the questions that are asked at the same time.
    turns: Semaphore,
    known: Mutex<HashMap<Question, (Decision, Instant)>>,
}

/// Maximum number of questions that are asked at the same time. Further questions wait; the wait counts towards
/// `serve.authorizeTimeout`.
const ASKED_MAX: usize = 64;

/// Maximum number of cached replies. A full cache drops the expired ones, and all of them if none has expired.
const KNOWN_MAX: usize = 16_384;

/// The greatest length of a reply in bytes.
const ANSWER_BYTES_MAX: u64 = 256 << 10;

impl Authorizer {
    pub(crate) fn new(path: PathBuf, deadline: Duration) -> Self {
        Authorizer { path, deadline, turns: Semaphore::new(ASKED_MAX), known: Mutex::default() }
    }

    /// Returns whether a client may access a repository. If the authorizer fails or replies too late, access is denied,
    /// and the error is returned for the log.
    pub(crate) async fn ask(
        &self,
        user: Option<&str>,
        address: &str,
        repository: &str,
        access: Access,
    ) -> (Decision, Option<io::Error>) {
        let question = Question {
            user: user.map(str::to_owned),
            address: address.to_owned(),
            repository: repository.to_owned(),
            access,
        };
        if let Some(decision) = self.known(&question) {
            return (decision, None);
        }
        let answered = match timeout(self.deadline, self.answer(&question)).await {
            Ok(answered) => answered.and_then(|text| decide(&text)),
            Err(_) => Err(io::Error::other("no reply within serve.authorizeTimeout")),
        };
        match answered {
            Ok((decision, lasts)) => {
                if !lasts.is_zero() {
                    self.remember(question, &decision, lasts);
                }
                (decision, None)
            }
            Err(error) => {
                let error = io::Error::other(format!("the authorizer {} failed: {error}", self.path.display()));
                (Decision::Denied, Some(error))
            }
        }
    }

    fn known(&self, question: &Question) -> Option<Decision> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(question).filter(|(_, end)| Instant::now() < *end).map(|(decision, _)| decision.clone())
    }

    fn remember(&self, question: Question, decision: &Decision, lasts: Duration) {
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.retain(|_, (_, end)| now < *end);
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(question, (decision.clone(), now + lasts));
    }

    async fn answer(&self, question: &Question) -> io::Result<Vec<u8>> {
        let _turn = self.turns.acquire().await.map_err(io::Error::other)?;
        let mut line = serde_json::to_vec(question)?;
        line.push(b'\n');
        if is_socket(&self.path) {
            let mut socket = UnixStream::connect(&self.path).await?;
            socket.write_all(&line).await?;
            socket.shutdown().await?;
            return read(socket).await;
        }
        let mut command = Command::new(&self.path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(&line).await {
                // The program may reply without reading the question.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                _ => {}
            }
        }
        let Some(stdout) = child.stdout.take() else { return Err(io::Error::other("its output cannot be read")) };
        let text = read(stdout).await?;
        let status = child.wait().await?;
        if status.success() { Ok(text) } else { Err(io::Error::other(format!("the program ended with {status}"))) }
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

async fn read(from: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut text).await?;
    if text.len() as u64 > ANSWER_BYTES_MAX { Err(io::Error::other("its reply is too long")) } else { Ok(text) }
}

/// Parses a reply into the decision and the time for which it may be cached.
fn decide(text: &[u8]) -> io::Result<(Decision, Duration)> {
    let answer: Answer = serde_json::from_slice(text)?;
    if let Some(name) = answer.environment.iter().find_map(|(name, value)| bad_variable(name, value).then_some(name)) {
        return Err(io::Error::other(format!("its reply sets the variable '{name}', which is not allowed")));
    }
    let decision = match &answer.verdict[..] {
        "allow" => Decision::Allowed(Grant {
            namespace: answer.namespace.filter(|namespace| !namespace.is_empty()),
            hidden: answer.hide_refs.into_iter().map(BString::from).collect(),
            variables: answer.environment.into_iter().collect(),
        }),
        "deny" => Decision::Denied,
        "missing" => Decision::Missing,
        other => return Err(io::Error::other(format!("its reply has the unknown verdict '{other}'"))),
    };
    Ok((decision, Duration::from_secs(answer.cache_seconds.into())))
}

/// Returns whether a variable must be refused: it cannot be set, or it could make git use other refs or another
/// configuration than the server. Such are `HOME`, `XDG_CONFIG_HOME`, and those whose names begin with `GIT_`, except
/// for tracing and for the names and addresses of committer and author.
fn bad_variable(name: &str, value: &str) -> bool {
    const OF_GIT: [&str; 4] = ["GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"];
    let is_of_git = name.starts_with("GIT_") && !name.starts_with("GIT_TRACE") && !OF_GIT.contains(&name);
    let is_of_git = is_of_git || ["HOME", "XDG_CONFIG_HOME"].contains(&name);
    name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') || is_of_git
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn program(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("authorize");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    async fn ask(authorizer: &Authorizer, user: &str) -> Decision {
        authorizer.ask(Some(user), "::1", "/srv/a.git", Access::Read).await.0
    }

    #[tokio::test]
    async fn whatever_is_no_answer_denies() {
        for text in [
            "exit 1",
            "echo '{\"verdict\":\"allow\"}'; exit 1",
            "echo",
            "echo '{\"verdict\":\"yes\"}'",
            "echo '{\"verdict\":\"allow\",\"hide_ref\":[]}'",
            "echo '{}'",
            "echo '{\"verdict\":\"allow\",\"environment\":{\"GIT_CONFIG_COUNT\":\"1\"}}'",
            "echo '{\"verdict\":\"allow\",\"environment\":{\"HOME\":\"/tmp\"}}'",
            "echo '{\"verdict\":\"allow\",\"environment\":{\"XDG_CONFIG_HOME\":\"/tmp\"}}'",
            "echo '{\"verdict\":\"allow\",\"environment\":{\"A=B\":\"1\"}}'",
            "echo '{\"verdict\":\"allow\",\"environment\":{\"A\":\"1\\u0000\"}}'",
            "sleep 10",
            "yes | head -c 10000000",
            "kill -9 $$",
        ] {
            let temp = tempfile::tempdir().unwrap();
            let authorizer = Authorizer::new(program(temp.path(), text), Duration::from_millis(500));
            let (decision, error) = authorizer.ask(None, "::1", "/srv/a.git", Access::Write).await;
            assert_eq!(decision, Decision::Denied, "{text}");
            assert!(error.unwrap().to_string().contains("authorize"), "{text}");
        }
        let none = Authorizer::new("/nowhere/at/all".into(), Duration::from_secs(1));
        assert_eq!(ask(&none, "a").await, Decision::Denied);
    }

    #[tokio::test]
    async fn an_answer_is_remembered_as_long_as_it_says() {
        let temp = tempfile::tempdir().unwrap();
        let count = temp.path().join("count");
        let text = format!(
            "read question; echo \"$question\" >>{}\n\
             case $question in *'\"user\":\"a\"'*) echo '{{\"verdict\":\"allow\",\"cache_seconds\":60}}' ;;\n\
             *) echo '{{\"verdict\":\"missing\",\"cache_seconds\":0}}' ;; esac",
            count.display()
        );
        let authorizer = Authorizer::new(program(temp.path(), &text), Duration::from_secs(10));
        for _ in 0..3 {
            assert_eq!(ask(&authorizer, "a").await, Decision::Allowed(Grant::default()));
            assert_eq!(ask(&authorizer, "b").await, Decision::Missing);
        }
        let asked = std::fs::read_to_string(&count).unwrap();
        assert_eq!(asked.lines().count(), 4, "{asked}");
        let question = r#"{"user":"a","address":"::1","repository":"/srv/a.git","access":"read"}"#;
        assert_eq!(asked.lines().next(), Some(question));
    }
}
