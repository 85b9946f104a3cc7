//! HTTP responses: their headers, and bodies that are produced while the client reads them.

use super::begin::Room;
use crate::{
    gate::Turn,
    program::Running,
    record::{Record, STATUS_LEFT},
    upload::rows::Rows,
};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{
    Response, StatusCode,
    header::{self, HeaderValue},
};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// The body of a response, with the resources that are released once it has been sent or the client has disconnected.
pub(crate) struct Body {
    /// The bytes that precede those of `source`.
    pub(super) begin: Bytes,
    pub(super) source: Source,
    /// Whether a read from the repository may block for long, for example because it is on a network file system.
    pub(super) is_remote: bool,
    pub(super) record: Record,
    /// Whether the client need not read on: the response has no body, or has failed.
    pub(super) is_over: bool,
    /// The request's turns, held until the response is complete or the client has disconnected.
    #[expect(dead_code, reason = "the turns are given back when they are dropped")]
    pub(super) turns: Vec<Turn>,
    /// The room of the request, held as long as the turns.
    #[expect(dead_code, reason = "the room is given back when it is dropped")]
    pub(super) room: Room,
}

/// Where the bytes of a body come from.
pub(super) enum Source {
    Nothing,
    Refs(Box<Rows>),
    Program(Box<Running>),
}

impl Body {
    /// Returns a body that consists of these bytes.
    pub(super) fn bytes(bytes: impl Into<Bytes>, record: Record) -> Self {
        let (source, is_remote, is_over, turns, room) = (Source::Nothing, false, false, Vec::new(), Room::default());
        Body { begin: bytes.into(), source, is_remote, record, is_over, turns, room }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let has_ended = match &self.source {
            Source::Nothing => self.begin.is_empty(),
            Source::Refs(rows) => rows.has_ended(),
            Source::Program(_) => false,
        };
        if !self.is_over && !has_ended {
            self.record.status(STATUS_LEFT);
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let body = &mut *self;
        if !body.begin.is_empty() {
            let begin = std::mem::take(&mut body.begin);
            body.record.sent(begin.len());
            return Poll::Ready(Some(Ok(Frame::data(begin))));
        }
        let piece = match &mut body.source {
            Source::Nothing => return Poll::Ready(None),
            Source::Refs(rows) if rows.has_ended() => return Poll::Ready(None),
            Source::Refs(rows) => {
                let is_remote = body.is_remote;
                let _turn = ready!(rows.poll_turn(context));
                let piece = body.record.cpu.of(|| at_disk(is_remote, || rows.next_piece()));
                body.record.refs(rows.refs);
                if piece.as_ref().is_ok_and(|piece| piece.as_ref().is_empty()) && !rows.has_ended() {
                    // No ref of this piece is shown. Let other requests run before the next piece is read.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                piece.map(Bytes::from)
            }
            Source::Program(running) => match running.poll_piece(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(piece) => piece,
            },
        };
        match piece {
            Ok(piece) if piece.is_empty() => {
                body.source = Source::Nothing;
                Poll::Ready(None)
            }
            Ok(piece) => {
                body.record.sent(piece.len());
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Err(error) => {
                body.record.failed(&error);
                body.is_over = true;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.begin.is_empty() && matches!(self.source, Source::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        match self.source {
            Source::Nothing => SizeHint::with_exact(self.begin.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// Calls `read`, which reads from a disk. If `may_take_long`, the runtime first moves the other tasks of this thread to
/// another thread.
pub(crate) fn at_disk<T>(may_take_long: bool, read: impl FnOnce() -> T) -> T {
    if may_take_long { tokio::task::block_in_place(read) } else { read() }
}

/// Returns a response with this status, and with headers that forbid caching.
pub(super) fn answer(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.body_mut().record.status(status.as_u16());
    let headers = response.headers_mut();
    headers.insert(header::EXPIRES, HeaderValue::from_static("Fri, 01 Jan 1980 00:00:00 GMT"));
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
    response
}

/// Sets the header `Content-Type`.
pub(super) fn of_type(mut response: Response<Body>, content: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(content) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}
