//! The answers of git to the requests of the tests.

use super::{Answer, Request, server::environment};
use bstr::{BString, ByteSlice};
use refdb_testkit::Git;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// `git http-backend` for the repositories below a folder.
pub(crate) struct Backend {
    root: PathBuf,
    home: PathBuf,
}

impl Backend {
    pub(crate) fn new(root: &Path, home: &Path) -> Self {
        Backend { root: root.to_owned(), home: home.to_owned() }
    }

    /// Answers a request as a web server does that calls `git http-backend`.
    pub(crate) fn ask(&self, user: Option<&str>, request: &Request) -> Answer {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let mut command = Command::new(Git::find().program());
        environment(&mut command, &self.home);
        command.arg("http-backend").env("GIT_PROJECT_ROOT", &self.root);
        command.env("REQUEST_METHOD", &request.method).env("PATH_INFO", path).env("QUERY_STRING", query);
        command.env("SERVER_PROTOCOL", "HTTP/1.1").env("REMOTE_ADDR", "").envs(user.map(|user| ("REMOTE_USER", user)));
        command.envs(request.header("Content-Type").map(|kind| ("CONTENT_TYPE", kind)));
        command.env("CONTENT_LENGTH", request.body.len().to_string());
        command.envs(request.header("Content-Encoding").map(|coding| ("HTTP_CONTENT_ENCODING", coding)));
        command.envs(request.header("Git-Protocol").map(|version| ("GIT_PROTOCOL", version)));
        parse(&run(command, &request.body), request.method == "HEAD")
    }
}

/// Runs a program that may fail, and returns its output.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Vec<u8> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap().stdout
    })
}

/// Parses the output of a CGI program.
fn parse(output: &[u8], is_head: bool) -> Answer {
    let end = output.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(output.len());
    let (head, body) = output.split_at(end);
    let head = String::from_utf8_lossy(head);
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let mut answer = Answer { status: 200, is_complete: true, ..Answer::default() };
    for (name, value) in headers {
        match name {
            "Status" => answer.status = value[..3].parse().unwrap(),
            _ => answer.headers.push((name.into(), value.into())),
        }
    }
    if !is_head {
        answer.body = body.get(4..).unwrap_or_default().to_vec();
    }
    answer
}

/// The first byte of packets with parts of a pack. Where the pack is cut depends on how fast git makes it.
const PACK_BAND: u8 = 1;

/// Returns an answer with `agent` and `session-id` masked, which are git's or refdb's own. The length of a packet with
/// one of them is masked, too, and parts of a pack are joined. What is not made of packets is left as it is.
pub(crate) fn masked(body: &[u8]) -> BString {
    let mut text = BString::default();
    let mut rest = body;
    while let Some((length, after)) = rest.split_at_checked(4) {
        let Some(length) = std::str::from_utf8(length).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok()) else {
            break;
        };
        if length < 4 {
            text.extend_from_slice(&rest[..4]);
            rest = after;
            continue;
        }
        let Some((line, after)) = after.split_at_checked(length - 4) else { break };
        match line.strip_prefix(&[PACK_BAND]) {
            Some(part) => text.extend_from_slice(part),
            None => text.extend_from_slice(&masked_line(&rest[..4], line)),
        }
        rest = after;
    }
    text.extend_from_slice(rest);
    text
}

fn masked_line(length: &[u8], line: &[u8]) -> Vec<u8> {
    let Some(at) = ["agent=", "session-id="].iter().filter_map(|name| line.find(name)).min() else {
        return [length, line].concat();
    };
    let is_end = |byte: u8| byte == b' ' || byte == b'\n';
    let words = line[at..].split_inclusive(|byte| is_end(*byte)).map(|word| {
        let end = word.last().copied().filter(|byte| is_end(*byte));
        match ["agent=", "session-id="].into_iter().find(|name| word.starts_with(name.as_bytes())) {
            Some(name) => [name.as_bytes(), b"?", end.as_slice()].concat(),
            None => word.to_vec(),
        }
    });
    [b"????", &line[..at], &words.collect::<Vec<_>>().concat()].concat()
}

/// Returns what `git upload-pack` says about a repository: its offer, or its answer to the body of a request.
pub(crate) fn upload_pack(git: &Path, git_dir: &Path, home: &Path, version: &str, body: Option<&[u8]>) -> Vec<u8> {
    let mut command = Command::new(git);
    environment(&mut command, home);
    command.arg("upload-pack").env("GIT_PROTOCOL", version);
    command.arg(if body.is_some() { "--stateless-rpc" } else { "--http-backend-info-refs" }).arg(git_dir);
    run(command, body.unwrap_or_default())
}
