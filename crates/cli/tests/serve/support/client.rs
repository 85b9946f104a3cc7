//! As much of an HTTP client as the tests need. It sends what it is told, even if that is wrong.

use flate2::{Compression, write::GzEncoder};
use refdb_types::HashKind;
use std::io::{self, Read, Write};

/// A request, which is the last one on its connection unless a `Connection` header says otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Request { method: method.into(), target: target.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Asks what a service of a repository offers, which is the first request of each client.
    pub(crate) fn discovery(repository: &str, service: &str) -> Self {
        Self::get(&format!("/{repository}/info/refs?service={service}"))
    }

    /// Returns a request to a service, with the right content type.
    pub(crate) fn post(repository: &str, service: &str, body: impl Into<Vec<u8>>) -> Self {
        let request = Self::new("POST", &format!("/{repository}/{service}"));
        request.with("Content-Type", &format!("application/x-{service}-request")).body(body)
    }

    /// Lists the refs of a repository with SHA-1 in version 2.
    pub(crate) fn ls_refs(repository: &str) -> Self {
        Self::ls_refs_in(repository, HashKind::Sha1)
    }

    pub(crate) fn ls_refs_in(repository: &str, hash: HashKind) -> Self {
        let format = format!("object-format={}\n", hash.name());
        let body = super::packets(&["command=ls-refs\n", &format, "0001", "peel\n", "symrefs\n", "0000"]);
        Self::post(repository, "git-upload-pack", body).with("Git-Protocol", "version=2")
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Returns the bytes to send. The length of the body is given unless a test has chosen another framing.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let mut add = |name: &str, value: &str| text.push_str(&format!("{name}: {value}\r\n"));
        self.headers.iter().for_each(|(name, value)| add(name, value));
        let is_framed = ["Content-Length", "Transfer-Encoding"].iter().any(|name| self.header(name).is_some());
        if !is_framed && (!self.body.is_empty() || self.method == "POST") {
            add("Content-Length", &self.body.len().to_string());
        }
        if self.header("Connection").is_none() {
            add("Connection", "close");
        }
        add("Host", "localhost");
        text.push_str("\r\n");
        [text.as_bytes(), &self.body].concat()
    }
}

/// An answer, as far as it came. The status is 0 if its headers did not come in full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether all of the body came that the headers promised.
    pub(crate) is_complete: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Sends a request and reads its answer.
    pub(crate) fn to(request: &Request, mut stream: impl Read + Write) -> Self {
        // A server may answer and close the connection before it has read everything.
        let _ = stream.write_all(&request.bytes());
        Self::read(stream, request.method == "HEAD")
    }

    /// Reads an answer up to the end of the connection.
    pub(crate) fn read(mut stream: impl Read, is_head: bool) -> Self {
        let mut bytes = Vec::new();
        if let Err(error) = stream.read_to_end(&mut bytes) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{}", String::from_utf8_lossy(&bytes));
        }
        Self::parse(&bytes, is_head).0
    }

    /// Parses the first answer in these bytes, and returns the bytes behind it, too.
    pub(crate) fn parse(bytes: &[u8], is_head: bool) -> (Self, &[u8]) {
        let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { return Default::default() };
        let (head, rest) = (String::from_utf8_lossy(&bytes[..end]).into_owned(), &bytes[end + 4..]);
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
        if status == 100 {
            return Self::parse(rest, is_head);
        }
        let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.into(), value.into()));
        let mut answer = Answer { status, headers: headers.collect(), ..Answer::default() };
        let rest = answer.take_body(rest, is_head);
        (answer, rest)
    }

    fn take_body<'b>(&mut self, rest: &'b [u8], is_head: bool) -> &'b [u8] {
        if is_head {
            self.is_complete = true;
            return rest;
        }
        if self.header("Transfer-Encoding") == Some("chunked") {
            return self.take_chunks(rest);
        }
        let length = self.header("Content-Length").map_or(rest.len(), |length| length.parse().unwrap());
        self.is_complete = rest.len() >= length;
        let (body, rest) = rest.split_at(length.min(rest.len()));
        self.body = body.to_vec();
        rest
    }

    fn take_chunks<'b>(&mut self, mut rest: &'b [u8]) -> &'b [u8] {
        while let Some(end) = rest.windows(2).position(|end| end == b"\r\n") {
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
            let chunk = &rest[end + 2..];
            if chunk.len() < length + 2 {
                break;
            }
            self.body.extend_from_slice(&chunk[..length]);
            rest = &chunk[length + 2..];
            if length == 0 {
                self.is_complete = true;
                break;
            }
        }
        rest
    }
}

fn find<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &value[..])
}

pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Where, counted from the end, data in gzip format has its check sum and its length.
pub(crate) const DAMAGED: [usize; 2] = [8, 4];

/// Changes a bit of the byte that is so far from the end.
pub(crate) fn damaged(mut zipped: Vec<u8>, from_end: usize) -> Vec<u8> {
    let at = zipped.len() - from_end;
    zipped[at] ^= 1;
    zipped
}
