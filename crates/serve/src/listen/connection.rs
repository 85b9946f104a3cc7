//! Serves each connection in a task of its own. While the server shuts down, a connection is closed once it is idle.

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

/// The greatest size of the header of a request, in bytes.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Maximum number of header lines of an HTTP/1 request.
const HEADERS_MAX: usize = 100;

/// Maximum number of concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 100;

/// The time that a new connection has for its first request while the server shuts down.
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

    /// Starts to serve the requests of a connection.
    pub(super) fn attend(&self, stream: Stream, permit: OwnedSemaphorePermit) {
        let (server, is_ending) = (Arc::clone(&self.server), self.is_ending.subscribe());
        match stream {
            Stream::Tcp(stream, from) => {
                // Each write is a complete piece, so delaying it gains nothing. The socket also works without the
                // option.
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

    /// Waits until all requests in progress have ended. Idle connections are closed, but an HTTP connection that has
    /// had no request yet first waits up to [`FIRST_REQUEST`] for one.
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

/// Returns if no first request arrives within the time `idle`. Once one has arrived, never returns.
async fn too_late(mut begun: watch::Receiver<bool>, idle: Duration) {
    if timeout(idle, begun.wait_for(|begun| *begun)).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// A connection that the metric counts until this value is dropped.
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
    // The connection is closed if the client takes no bytes for this long. In HTTP/2, a client that takes only pings
    // and none of its response stays. Waiting for a request has its own limit.
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
    // The connection fails if its client disconnects or does not speak HTTP, which concerns nobody else. `too_late` is
    // needed because hyper's timeout for the first header starts only when the first bytes have shown the version.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = is_ending.wait_for(|is_ending| *is_ending) => {}
        () = too_late(begun.clone(), limits.idle) => return,
    }
    // The first request of a connection that was just accepted may be on its way; closing now would lose it.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = timeout(FIRST_REQUEST, begun.wait_for(|begun| *begun)) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
