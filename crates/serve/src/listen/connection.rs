//! Connections: each is served by a task of its own, until it is idle while the server ends.

use super::sockets::{Stream, client_at, proxy};
use crate::{
    http::{Peer, Server},
    settings::Limits,
    shim,
};
use arc_swap::ArcSwap;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use prometheus_client::metrics::gauge::Gauge;
use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{OwnedSemaphorePermit, watch},
    time::timeout,
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::task::TaskTracker;

/// The room for the header of a request.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// How many headers a request may have.
const HEADERS_MAX: usize = 100;

/// How many requests a client may have in progress on one connection of HTTP/2.
const STREAMS_MAX: u32 = 100;

/// How long the first request of a connection may take to arrive while the server ends.
const FIRST_REQUEST: Duration = Duration::from_secs(2);

/// The open connections.
#[derive(Debug)]
pub(super) struct Connections {
    server: Arc<ArcSwap<Server>>,
    tasks: TaskTracker,
    is_ending: watch::Sender<bool>,
}

impl Connections {
    pub(super) fn new(server: Arc<ArcSwap<Server>>) -> Self {
        Connections { server, tasks: TaskTracker::new(), is_ending: watch::Sender::new(false) }
    }

    /// Serves the requests of a connection.
    pub(super) fn attend(&self, stream: Stream, permit: OwnedSemaphorePermit) {
        let (server, is_ending) = (Arc::clone(&self.server), self.is_ending.subscribe());
        match stream {
            Stream::Tcp(stream, from) => {
                // Each piece is complete when it is written. A socket without the option is a slower one.
                let _ = stream.set_nodelay(true);
                self.spawn(serve(stream, client_at(from), server, is_ending), permit);
            }
            Stream::Unix(stream) => self.spawn(serve(stream, proxy(), server, is_ending), permit),
            Stream::Shim(stream) => self.spawn(shim::attend(stream, server, is_ending), permit),
        }
    }

    fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static, permit: OwnedSemaphorePermit) {
        let gauge = self.server.load().records.connections.clone();
        self.tasks.spawn(async move {
            gauge.inc();
            let _counted = (Counted(gauge), permit);
            connection.await;
        });
    }

    /// Waits until the requests in progress have ended. No connection gets another one.
    pub(super) async fn drain(self) {
        self.is_ending.send_replace(true);
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .keep_alive_interval(limits.idle)
        .keep_alive_timeout(limits.idle);
    builder
}

/// Waits until a connection has been without a first request for too long; for ever if there was one.
async fn too_late(mut begun: watch::Receiver<bool>, idle: Duration) {
    if timeout(idle, begun.wait_for(|begun| *begun)).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Counts a connection until this is dropped.
struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

async fn serve<S>(stream: S, peer: Peer, server: Arc<ArcSwap<Server>>, mut is_ending: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Sync + 'static,
{
    let (limits, peer) = (server.load().settings.limits.clone(), Arc::new(peer));
    let mut timed = TimeoutStream::new(stream);
    // A client that reads nothing is left. Waiting for a request has a limit of its own.
    timed.set_write_timeout(Some(limits.idle));
    let has_begun = Arc::new(watch::Sender::new(false));
    let mut begun = has_begun.subscribe();
    let service = service_fn(move |request: Request<Incoming>| {
        has_begun.send_if_modified(|has_begun| !std::mem::replace(has_begun, true));
        let (server, peer) = (server.load_full(), Arc::clone(&peer));
        async move { Ok::<_, Infallible>(server.handle(&peer, request).await) }
    });
    let builder = builder(&limits);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Box::pin(timed)), service));
    // A client that disconnects, or does not speak HTTP, needs no answer. hyper's limit on the time of a header begins
    // with the first bytes, and there may be none.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = is_ending.wait_for(|is_ending| *is_ending) => {}
        () = too_late(begun.clone(), limits.idle) => return,
    }
    // A connection that was just accepted has its first request on the way, which closing it would lose.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = timeout(FIRST_REQUEST, begun.wait_for(|begun| *begun)) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
