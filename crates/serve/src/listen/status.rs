//! Serves `/metrics`, `/health` and `/status` on an address of their own, and prints the state of a running server.

use crate::http::Server;
use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::{
    convert::Infallible,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Semaphore, task::JoinHandle};

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
/// ones are closed at once. A connection that sends no request is closed after 30 s, hyper's default.
const CONNECTIONS_MAX: usize = 32;

/// Starts to listen and prints the address.
pub(super) fn listen(address: SocketAddr, server: Arc<ArcSwap<Server>>) -> io::Result<Status> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    writeln!(io::stdout(), "metrics on http://{}/metrics", socket.local_addr()?)?;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    Ok(Status(tokio::spawn(attend(socket, move |path: &str| answer(&server.load_full(), path)))))
}

/// Serves the connections to a socket, at most [`CONNECTIONS_MAX`] at a time. `answer` gets the path of each request.
async fn attend<A>(socket: tokio::net::TcpListener, answer: A)
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
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new());
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // An error concerns only this client.
            let _ = connection.await;
            drop(permit);
        });
    }
}

/// Asks a running server for its state, and prints it.
pub(crate) fn show(address: SocketAddr) -> io::Result<()> {
    let failed = |error: io::Error| io::Error::new(error.kind(), format!("no server answers on {address}: {error}"));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => io::stdout().write_all(body.as_bytes()),
        _ => Err(failed(io::Error::other("it is not a refdb server"))),
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
        time::{sleep, timeout},
    };

    const LONG: Duration = Duration::from_secs(60);

    /// Connects, sends a request, and returns the connection if the server has answered.
    async fn asked(address: SocketAddr) -> Option<tokio::net::TcpStream> {
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        // The connection may be closed already.
        let _ = client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let answered = timeout(LONG, client.read_u8()).await.expect("a connection is answered or closed");
        answered.is_ok().then_some(client)
    }

    /// Previously, any number of connections could be open.
    #[tokio::test]
    async fn connections_beyond_the_limit_are_closed_until_others_end() {
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let _task = Status(tokio::spawn(attend(socket, |_: &str| Response::new(Full::default()))));
        let mut open = Vec::new();
        for _ in 0..10 * CONNECTIONS_MAX {
            open.extend(asked(address).await);
        }
        assert_eq!(open.len(), CONNECTIONS_MAX);
        open.pop();
        let again = async {
            while asked(address).await.is_none() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LONG, again).await.expect("there is room for another one");
    }
}
