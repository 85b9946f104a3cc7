//! A server on the loopback that keeps rendered pages over a restart, with an age limit. A `DELETE` removes one.
//!
//! ```text
//! cargo run --release -p refdb-kvcache --example web_cache -- FOLDER 8080
//! curl http://localhost:8080/page        # rendered, then served from the cache for a minute
//! curl -X DELETE http://localhost:8080/page
//! ```

use refdb_kvcache::{Cache, Durability, Options};
use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    thread,
    time::Duration,
};

const REQUEST_LINE_BYTES_MAX: u64 = 8 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    let (folder, port) = args.next().zip(args.next()).ok_or("usage: web_cache FOLDER PORT")?;
    let port = port.to_str().and_then(|port| port.parse::<u16>().ok()).ok_or("PORT is a number")?;
    serve(&TcpListener::bind(("localhost", port))?, Path::new(&folder), usize::MAX)
}

/// Answers this many requests, each in a thread of its own.
pub fn serve(listener: &TcpListener, folder: &Path, requests: usize) -> Result<(), Box<dyn Error>> {
    let cache = Cache::open(folder, Options::new(256 << 20).max_age(Duration::from_secs(60)))?;
    thread::scope(|scope| {
        for stream in listener.incoming().take(requests) {
            let cache = &cache;
            scope.spawn(move || {
                if let Err(error) = stream.map_err(Into::into).and_then(|stream| answer(cache, stream)) {
                    eprintln!("a request failed: {error}");
                }
            });
        }
    });
    Ok(cache.close()?)
}

fn answer(cache: &Cache, mut stream: TcpStream) -> Result<(), Box<dyn Error>> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut line = String::new();
    BufReader::new(std::io::Read::take(&stream, REQUEST_LINE_BYTES_MAX)).read_line(&mut line)?;
    let mut words = line.split_ascii_whitespace();
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some(path)) => ("200 OK", cache.get_or_insert_with(path.as_bytes(), || render(path))?),
        (Some("DELETE"), Some(path)) => {
            // Once this returns, the page is not served again before it is rendered anew, even if the process is killed
            // next.
            let was_there = cache.remove_with(path.as_bytes(), Durability::Written)?;
            ("200 OK", if was_there { b"removed\n".to_vec() } else { b"not there\n".to_vec() })
        }
        _ => ("400 Bad Request", b"GET or DELETE a path\n".to_vec()),
    };
    write!(stream, "HTTP/1.0 {status}\r\nContent-Length: {}\r\n\r\n", body.len())?;
    Ok(stream.write_all(&body)?)
}

/// Stands for a slow template.
fn render(path: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    thread::sleep(Duration::from_millis(50));
    Ok(format!("the page {path}\n").into_bytes())
}
