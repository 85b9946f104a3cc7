//! Serves `/metrics`, `/health` and `/status` on an address of their own, and prints the state of a running server.

use crate::http::Server;
use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::{
    convert::Infallible,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};

/// The task that serves `/metrics`, `/health` and `/status`. It is aborted on drop.
#[derive(Debug)]
pub(super) struct Status(JoinHandle<()>);

impl Drop for Status {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The content type of the OpenMetrics text format, which Prometheus reads.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The time that a server has to accept a connection, and to send each part of its state.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most connections that are open at a time, so that they cannot use up the descriptors that requests need. Further
/// ones are closed at once.
const CONNECTIONS_MAX: usize = 32;

/// The time that a connection has for its only request and the answer. Without it, clients that stall would keep all
/// others out.
const LONGEST: Duration = Duration::from_secs(10);

/// Starts to listen and prints the address.
pub(super) fn listen(address: SocketAddr, server: Arc<ArcSwap<Server>>) -> io::Result<Status> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    writeln!(io::stdout(), "metrics on http://{}/metrics", socket.local_addr()?)?;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    Ok(Status(tokio::spawn(attend(socket, LONGEST, move |path: &str| answer(&server.load_full(), path)))))
}

/// Serves one request of each connection to a socket, and at most [`CONNECTIONS_MAX`] connections at a time. A
/// connection that has not ended after the time `longest` is closed. `answer` gets the path of each request.
async fn attend<A>(socket: tokio::net::TcpListener, longest: Duration, answer: A)
where
    A: Fn(&str) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
{
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = socket.accept().await else {
            // Perhaps all descriptors are in use until a connection ends.
            tokio::time::sleep(super::sockets::PAUSE).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
        let answer = answer.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let response = answer(request.uri().path());
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // An error concerns only this client.
            let _ = timeout(longest, connection).await;
            drop(permit);
        });
    }
}

/// Asks a running server for its state, and prints it.
pub(crate) fn show(address: SocketAddr) -> io::Result<()> {
    let state = ask(address)?;
    let mut out = io::stdout();
    let printed = out.write_all(state.as_bytes()).and_then(|()| out.flush());
    printed.map_err(|error| io::Error::new(error.kind(), format!("cannot print the state of the server: {error}")))
}

/// Returns the state of a running server.
fn ask(address: SocketAddr) -> io::Result<String> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WouldBlock};
    let answer = fetch(address).map_err(|error| {
        let why = match error.kind() {
            // A server that has too many connections closes further ones at once.
            BrokenPipe | ConnectionReset | UnexpectedEof => {
                "the connection was closed; perhaps too many are open there".to_owned()
            }
            WouldBlock => format!("nothing came for {} s", PATIENCE.as_secs()),
            _ => error.to_string(),
        };
        io::Error::new(error.kind(), format!("no server answers on {address}: {why}"))
    })?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        _ => Err(io::Error::other(format!("no server answers on {address}: it is not a refdb server"))),
    }
}

/// Returns the whole response to a request for `/status`.
fn fetch(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    match stream.read_to_string(&mut answer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(answer),
    }
}

fn answer(server: &Server, path: &str) -> Response<Full<Bytes>> {
    let (status, kind, text) = match path {
        "/metrics" => (StatusCode::OK, TEXT, server.records.text()),
        "/health" => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/status" => (StatusCode::OK, "application/json", status(server)),
        _ => (StatusCode::NOT_FOUND, "text/plain", String::new()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn status(server: &Server) -> String {
    let (repositories, holdings) = server.repositories.holdings();
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": server.records.uptime().as_secs(),
        "connections": server.records.connections.get(),
        "requests_in_progress": server.records.in_progress.get(),
        "repositories": repositories,
        "ref_cache": {
            "bytes": holdings.bytes,
            "bytes_max": holdings.bytes_max,
            "files": holdings.files,
            "files_max": holdings.files_max,
        },
    });
    format!("{status:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::sleep,
    };

    const LONG: Duration = Duration::from_secs(60);

    /// Starts a server that gives this answer to each request, and returns its address.
    async fn answering(longest: Duration, answer: &'static [u8]) -> (Status, SocketAddr) {
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let task = attend(socket, longest, move |_: &str| Response::new(Full::from(answer)));
        (Status(tokio::spawn(task)), address)
    }

    /// Connects, sends a request, and returns the connection if the server has answered.
    async fn asked(address: SocketAddr) -> Option<tokio::net::TcpStream> {
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        // The connection may be closed already.
        let _ = client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let answered = timeout(LONG, client.read_u8()).await.expect("a connection is answered or closed");
        answered.is_ok().then_some(client)
    }

    /// Returns when a further client gets an answer.
    async fn there_is_room(address: SocketAddr) {
        let again = async {
            while asked(address).await.is_none() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LONG, again).await.expect("there is room for another one");
    }

    /// An answer that no socket takes before the client reads.
    static LARGE: [u8; 64 << 20] = [0; 64 << 20];

    /// Previously, any number of connections could be open.
    #[tokio::test]
    async fn connections_beyond_the_limit_are_closed_until_others_end() {
        let (_task, address) = answering(20 * LONG, &LARGE).await;
        let mut open = Vec::new();
        for _ in 0..10 * CONNECTIONS_MAX {
            open.extend(asked(address).await);
        }
        assert_eq!(open.len(), CONNECTIONS_MAX);
        let refused = tokio::task::spawn_blocking(move || ask(address)).await.unwrap().unwrap_err().to_string();
        assert!(refused.ends_with("the connection was closed; perhaps too many are open there"), "{refused}");
        open.pop();
        there_is_room(address).await;
    }

    /// Previously, they kept all others out for as long as they liked.
    #[tokio::test]
    async fn clients_that_do_not_read_keep_others_out_for_a_bounded_time() {
        let (_task, address) = answering(Duration::from_millis(500), &LARGE).await;
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            open.extend(asked(address).await);
        }
        there_is_room(address).await;
    }
}
