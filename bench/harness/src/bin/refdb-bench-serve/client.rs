//! A client that speaks just enough HTTP to send prepared requests, so that it takes little time itself.

use anyhow::{Context, Result, bail, ensure};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// A connection to the server.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// What the server answered to one request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    /// The time from the request to the first byte of the answer.
    pub(crate) first: Duration,
}

const BUFFER_BYTES: usize = 1 << 20;

/// How long a client waits for bytes. With millions of refs some servers list them all for each push, so that the last
/// of 64 pushers waits for minutes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

impl Connection {
    pub(crate) fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, buffer: vec![0; 64 << 10], start: 0, end: 0 })
    }

    /// Sends a request and reads the whole answer. The body is passed to `body` in pieces.
    pub(crate) fn send(&mut self, request: &[u8], mut body: impl FnMut(&[u8])) -> Result<Answer> {
        let began = Instant::now();
        self.stream.write_all(request)?;
        let (head, first) = self.head(began)?;
        let text = str::from_utf8(&head)?.to_ascii_lowercase();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
        let header =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
        let mut answer = Answer { status, bytes: 0, first };
        if header("transfer-encoding:").is_some() {
            self.chunks(&mut |piece| {
                answer.bytes += piece.len() as u64;
                body(piece);
            })?;
        } else {
            let length = header("content-length:").and_then(|value| value.parse().ok()).context("no length")?;
            answer.bytes = length;
            self.take(length, &mut body)?;
        }
        Ok(answer)
    }

    fn head(&mut self, began: Instant) -> Result<(Vec<u8>, Duration)> {
        let (mut head, mut first) = (Vec::new(), None);
        loop {
            let from = head.len().saturating_sub(3);
            head.extend_from_slice(&self.buffer[self.start..self.end]);
            if let Some(at) = head[from..].windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = head.len() - (from + at + 4);
                self.start = self.end - rest;
                head.truncate(from + at + 2);
                return Ok((head, first.unwrap_or_default()));
            }
            self.start = self.end;
            self.fill()?;
            first.get_or_insert_with(|| began.elapsed());
        }
    }

    fn fill(&mut self) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(BUFFER_BYTES.max(2 * self.buffer.len()), 0);
        }
        let count = loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                // A stop and a continuation of the process end a read that has a time limit; see signal(7).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        ensure!(count > 0, "the server has closed the connection");
        self.end += count;
        Ok(())
    }

    fn take(&mut self, mut length: u64, body: &mut impl FnMut(&[u8])) -> Result<()> {
        while length > 0 {
            if self.start == self.end {
                self.fill()?;
            }
            let count = usize::try_from(length).unwrap_or(usize::MAX).min(self.end - self.start);
            body(&self.buffer[self.start..self.start + count]);
            self.start += count;
            length -= count as u64;
        }
        Ok(())
    }

    fn chunks(&mut self, body: &mut impl FnMut(&[u8])) -> Result<()> {
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                self.take(1, &mut |byte| line.extend_from_slice(byte))?;
                if line.len() > 32 {
                    bail!("no chunk");
                }
            }
            let length = u64::from_str_radix(str::from_utf8(&line)?.trim(), 16)?;
            self.take(length, body)?;
            self.take(2, &mut |_| {})?;
            if length == 0 {
                return Ok(());
            }
        }
    }
}

/// Returns the request of discovery: for the refs of a repository, or in version 2 for the capabilities.
pub(crate) fn discovery(host: &str, repository: &str, service: &str, version: u8) -> Vec<u8> {
    format!(
        "GET /{repository}/info/refs?service=git-{service} HTTP/1.1\r\nHost: {host}\r\n\
         Git-Protocol: version={version}\r\n\
         User-Agent: git/2.55.0\r\nAccept: */*\r\nPragma: no-cache\r\n\r\n"
    )
    .into_bytes()
}

/// Returns a request to a service.
pub(crate) fn post(host: &str, repository: &str, service: &str, version: u8, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST /{repository}/git-{service} HTTP/1.1\r\nHost: {host}\r\nGit-Protocol: version={version}\r\n\
         User-Agent: git/2.55.0\r\nContent-Type: application/x-git-{service}-request\r\n\
         Accept: application/x-git-{service}-result\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// Returns the body of the `ls-refs` request that git sends for a ref called `name`.
pub(crate) fn ls_refs(name: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for line in ["command=ls-refs\n", "agent=git/2.55.0\n", "object-format=sha1"] {
        packet(line, &mut body);
    }
    body.extend_from_slice(b"0001");
    for line in ["peel\n", "symrefs\n"] {
        packet(line, &mut body);
    }
    for place in ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"] {
        packet(&format!("ref-prefix {place}{name}\n"), &mut body);
    }
    packet(&format!("ref-prefix refs/remotes/{name}/HEAD\n"), &mut body);
    body.extend_from_slice(b"0000");
    body
}

/// Appends `line` to `out` as a pkt-line.
pub(crate) fn packet(line: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, process::Command, thread};

    #[test]
    fn a_stop_and_a_continuation_of_the_process_do_not_end_a_request() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut connection = Connection::open(&listener.local_addr().unwrap().to_string()).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 2]).unwrap();
            // By the first stop, the client waits for the answer.
            let stops = "for n in 1 2 3; do sleep 0.1; kill -STOP $PPID; sleep 0.1; kill -CONT $PPID; done";
            assert!(Command::new("sh").args(["-c", stops]).status().unwrap().success());
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        });
        assert_eq!(connection.send(b"GO", |_| {}).unwrap().status, 200);
        server.join().unwrap();
    }
}
