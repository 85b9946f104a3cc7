//! `refdb serve` on a node, for an agent that polls it and pushes to it over HTTP as git does.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// A running server of all repositories on the share, which ends when this is dropped.
pub(crate) struct Served {
    child: Child,
    address: String,
}

/// A pack without objects.
const EMPTY_PACK: &[u8] = b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82;\xd8\xa8\xea\xb5\x10\xadj\xc7\\\x82<\xfd>\xd3\x1e";

impl Served {
    pub(crate) fn start() -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let program = std::env::current_exe().map_err(text)?.with_file_name("refdb-serve");
        // If the agent is killed, so is the server.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        // The user of a push is the server's, which may push if the repository says so.
        command.args(["--root", "/mnt/share", "--export-all", "--http", "127.0.0.1:0", "--user", "root"]);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(text)?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("it has no output")?).read_line(&mut line).map_err(text)?;
        let address = line.trim().trim_start_matches("listening on http://").trim_end_matches('/').to_owned();
        Ok(Served { child, address })
    }

    /// Returns the refs whose names begin with `prefix`, with their ids.
    pub(crate) fn refs(&self, git_dir: &str, prefix: &str) -> Result<Vec<(String, String)>, String> {
        let mut request = lines(["command=ls-refs\n", "object-format=sha1"]);
        request.extend(b"0001");
        request.extend(lines([format!("ref-prefix {prefix}\n")]));
        request.extend(b"0000");
        let answer = self.post(git_dir, "upload-pack", &request)?;
        let row = |line: &str| line.trim_end().split_once(' ').map(|(id, name)| (name.to_owned(), id.to_owned()));
        Ok(packets(&answer)?.iter().filter_map(|line| row(line)).collect())
    }

    /// Pushes all of these swaps (name, old id, new id) or none. Returns the lines of the server's report.
    pub(crate) fn push(&self, git_dir: &str, swaps: &[&str]) -> Result<Vec<String>, String> {
        let mut request = Vec::new();
        // The report on an atomic push does not say why a ref was refused.
        let atomic = if swaps.len() > 3 { " atomic" } else { "" };
        for (at, swap) in swaps.chunks(3).enumerate() {
            let abilities = if at == 0 { format!("\0report-status object-format=sha1{atomic}") } else { String::new() };
            request.extend(lines([format!("{} {} {}{abilities}", swap[1], swap[2], swap[0])]));
        }
        request.extend(b"0000");
        if swaps.chunks(3).any(|swap| swap[2].bytes().any(|byte| byte != b'0')) {
            request.extend(EMPTY_PACK);
        }
        packets(&self.post(git_dir, "receive-pack", &request)?)
    }

    fn post(&self, git_dir: &str, service: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        let text = |error: std::io::Error| format!("the server of refdb: {error}");
        let path = git_dir.strip_prefix("/mnt/share/").ok_or("not on the share")?;
        // The answer to a request of HTTP 1.0 has no chunks.
        let head = format!(
            "POST /{path}/git-{service} HTTP/1.0\r\nHost: node\r\nGit-Protocol: version=2\r\n\
             Content-Type: application/x-git-{service}-request\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).map_err(text)?;
        stream.set_read_timeout(Some(Duration::from_secs(600))).map_err(text)?;
        stream.write_all(&[head.as_bytes(), body].concat()).map_err(text)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map_err(text)?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("the server of refdb: no answer")?;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        if head.split(' ').nth(1) != Some("200") {
            return Err(format!("the server of refdb: {}", head.lines().next().unwrap_or_default()));
        }
        Ok(answer.split_off(end + 4))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes pkt-lines.
fn lines<L: AsRef<str>>(lines: impl IntoIterator<Item = L>) -> Vec<u8> {
    lines
        .into_iter()
        .flat_map(|line| format!("{:04x}{}", line.as_ref().len() + 4, line.as_ref()).into_bytes())
        .collect()
}

/// Reads pkt-lines to the flush packet.
fn packets(mut bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    loop {
        let length = bytes.get(..4).and_then(|hex| usize::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
        let length = length.ok_or("the server of refdb: the answer is cut off")?;
        if length == 0 {
            return Ok(found);
        }
        let line = bytes.get(4..length).ok_or("the server of refdb: the answer is cut off")?;
        found.push(String::from_utf8_lossy(line).into_owned());
        bytes = &bytes[length..];
    }
}
