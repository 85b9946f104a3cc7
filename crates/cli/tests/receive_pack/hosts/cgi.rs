//! As much of a web server as `git http-backend` needs: RFC 3875, one program, one process for each request.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// A web server on loopback, which stops when it is dropped.
pub(super) struct Cgi {
    port: u16,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Cgi {
    pub(super) fn serve(program: Command) -> Self {
        let listener = TcpListener::bind("localhost:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, program) = (Arc::clone(&is_over), Arc::new(Mutex::new(program)));
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let program = Arc::clone(&program);
                // The server ignores a client that leaves in the middle.
                std::thread::spawn(move || stream.and_then(|stream| answer(&stream, &program)));
            }
        });
        Cgi { port, is_over, accepting: Some(accepting) }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Cgi {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("localhost", self.port));
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

/// What the first line and the headers of a request say, as far as this server needs it.
#[derive(Default)]
struct Head {
    variables: Vec<(String, String)>,
    length: usize,
    is_chunked: bool,
    is_expecting: bool,
}

fn answer(stream: &TcpStream, program: &Mutex<Command>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader)?;
    if head.is_expecting {
        (&*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = read_body(&mut reader, &head)?;
    let mut child = {
        let mut program = program.lock().unwrap();
        for name in ["CONTENT_TYPE", "HTTP_CONTENT_ENCODING", "HTTP_GIT_PROTOCOL", "GIT_PROTOCOL"] {
            program.env_remove(name);
        }
        program.envs(head.variables).env("CONTENT_LENGTH", body.len().to_string());
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?
    };
    let mut input = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || input.write_all(&body));
    let output = child.wait_with_output()?.stdout;
    let _ = feeding.join();
    let end = output.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(0);
    let (headers, body) = output.split_at(end);
    let headers = String::from_utf8_lossy(headers);
    let status = headers.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    write!(&*stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}")?;
    (&*stream).write_all(body)
}

fn read_head(reader: &mut impl BufRead) -> io::Result<Head> {
    let mut head = Head::default();
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    for (name, value) in [("REQUEST_METHOD", method), ("PATH_INFO", path), ("QUERY_STRING", query)] {
        head.variables.push((name.into(), value.into()));
    }
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Ok(head) };
        let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
        match &name[..] {
            "content-length" => head.length = value.parse().unwrap_or(0),
            "transfer-encoding" => head.is_chunked = value == "chunked",
            "expect" => head.is_expecting = true,
            "content-type" => head.variables.push(("CONTENT_TYPE".into(), value)),
            "git-protocol" => head.variables.push(("GIT_PROTOCOL".into(), value)),
            "content-encoding" => head.variables.push(("HTTP_CONTENT_ENCODING".into(), value)),
            _ => {}
        }
    }
}

fn read_body(reader: &mut impl BufRead, head: &Head) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if !head.is_chunked {
        body.resize(head.length, 0);
        reader.read_exact(&mut body)?;
        return Ok(body);
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim_end(), 16).unwrap_or(0);
        let start = body.len();
        body.resize(start + length, 0);
        reader.read_exact(&mut body[start..])?;
        reader.read_line(&mut String::new())?;
        if length == 0 {
            return Ok(body);
        }
    }
}
