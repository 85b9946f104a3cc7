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
use tokio::task::JoinHandle;

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

/// Starts to listen and prints the address.
pub(super) fn listen(address: SocketAddr, server: Arc<ArcSwap<Server>>) -> io::Result<Status> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    writeln!(io::stdout(), "metrics on http://{}/metrics", socket.local_addr()?)?;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    Ok(Status(tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = socket.accept().await else {
                // Perhaps all descriptors are in use until a connection ends.
                tokio::time::sleep(super::sockets::PAUSE).await;
                continue;
            };
            let server = Arc::clone(&server);
            let service = service_fn(move |request: Request<Incoming>| {
                let server = server.load_full();
                async move { Ok::<_, Infallible>(answer(&server, request.uri().path())) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new());
            tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
        }
    })))
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
