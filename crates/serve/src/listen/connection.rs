//! Serves each connection in a task of its own. While the server shuts down, a connection is closed once it is idle.

use super::{
    preface::{self, Preface},
    sockets::{Stream, client_at, proxy},
    wakes::sparing,
};
use crate::{
    http::{Peer, Server},
    settings::Limits,
    shim,
};
use arc_swap::ArcSwap;
use hyper::{
    Request,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use prometheus_client::metrics::gauge::Gauge;
use std::{
    convert::Infallible,
    future::pending,
    io::Cursor,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split},
    sync::{Notify, OwnedSemaphorePermit, watch},
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::task::TaskTracker;

/// The greatest size of the header of a request, in bytes.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Maximum number of header lines of an HTTP/1 request.
const HEADERS_MAX: usize = 100;

/// Maximum number of concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 100;

/// The time that a new connection has for the first bytes of its first request while the server shuts down, and again
/// for the rest of that request's header.
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
    /// had no request yet first waits up to [`FIRST_REQUEST`] for its first bytes, and as long again for the rest.
    pub(super) async fn drain(self) {
        self.is_ending.send_replace(true);
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The requests of a connection.
#[derive(Default)]
struct Requests {
    started: AtomicUsize,
    running: AtomicUsize,
    first: Notify,
}

impl Requests {
    fn start(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Relaxed);
        if self.started.fetch_add(1, Relaxed) == 0 {
            self.first.notify_one();
        }
        Running(Arc::clone(self))
    }

    /// Returns when the connection was idle for the time `idle`, or up to twice as long: no request began in that time,
    /// and none is being handled. Sending a response does not count as handling.
    async fn wait_until_idle(&self, idle: Duration) {
        let mut known = 0;
        loop {
            sleep(idle).await;
            let started = self.started.load(Relaxed);
            if started == known && self.running.load(Relaxed) == 0 {
                return;
            }
            known = started;
        }
    }

    /// Returns when the first request has begun, at once if that was before.
    async fn wait_for_first(&self) {
        if self.started.load(Relaxed) == 0 {
            self.first.notified().await;
        }
    }
}

/// A request that counts as one that is being handled until this value is dropped.
struct Running(Arc<Requests>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
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
    let mut timed = Box::pin(TimeoutStream::new(stream));
    // The connection is closed if the client takes no bytes for this long. In HTTP/2, a client that takes only pings
    // and none of its response stays. Waiting for a request has its own limit.
    timed.as_mut().set_write_timeout_pinned(Some(limits.idle));
    let Some(preface) = begin(&mut timed, limits.idle, &mut is_ending).await else { return };
    let (rest, output) = split(timed);
    let stream = TokioIo::new(join(Cursor::new(preface.bytes).chain(rest), output));
    let requests = Arc::new(Requests::default());
    let counted = Arc::clone(&requests);
    let service = service_fn(move |request: Request<Incoming>| {
        let (running, server, peer) = (counted.start(), server.load_full(), Arc::clone(&peer));
        // hyper keeps the memory of this future for as long as the connection is open, so only a pointer is in it.
        Box::pin(async move {
            let _running = running;
            Ok::<_, Infallible>(server.handle(&peer, request).await)
        })
    });
    if preface.is_http2 {
        let connection = http2(&limits).serve_connection(stream, service);
        let idle = requests.wait_until_idle(limits.idle);
        Box::pin(attend(connection, &requests, idle, is_ending)).await;
    } else {
        // hyper itself closes the connection if no request comes within `limits.idle` after a response.
        let connection = http1(&limits).serve_connection(stream, service);
        sparing(attend(connection, &requests, pending(), is_ending)).await;
    }
}

/// Reads how a connection begins. Returns `None` if that takes too long, or the connection fails.
async fn begin<S>(stream: &mut S, idle: Duration, is_ending: &mut watch::Receiver<bool>) -> Option<Preface>
where
    S: AsyncRead + Unpin,
{
    let mut first = pin!(timeout(idle, preface::read(stream)));
    let read = tokio::select! {
        read = first.as_mut() => read,
        // The first request may be on its way; closing now would lose it.
        () = ending(is_ending) => timeout(FIRST_REQUEST, first).await.ok()?,
    };
    read.ok()?.ok()
}

/// Returns when the server begins to shut down.
async fn ending(is_ending: &mut watch::Receiver<bool>) {
    let _ = is_ending.wait_for(|is_ending| *is_ending).await;
}

fn http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX);
    builder
}

fn http2(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .keep_alive_interval(limits.idle)
        .keep_alive_timeout(limits.idle);
    builder
}

/// Serves a connection until its client leaves, `idle` returns, or the server shuts down. That a client disconnects or
/// does not speak HTTP concerns nobody else, and is not reported.
async fn attend<C: GracefulConnection>(
    connection: C,
    requests: &Requests,
    idle: impl Future<Output = ()>,
    mut is_ending: watch::Receiver<bool>,
) {
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = idle => {}
        () = ending(&mut is_ending) => {
            // The rest of the first request may be on its way; closing now would lose it.
            tokio::select! {
                _ = connection.as_mut() => return,
                _ = timeout(FIRST_REQUEST, requests.wait_for_first()) => {}
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
