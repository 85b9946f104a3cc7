//! Answers: their headers, and bodies that are made while the client reads them.

use crate::{gate::Turn, program::Running, record::Record, upload::rows::Rows};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{
    Response, StatusCode,
    header::{self, HeaderValue},
};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

/// The body of an answer, and what is released when it was sent or the client has left.
pub(crate) struct Body {
    /// What comes before the source's bytes.
    pub(super) begin: Bytes,
    pub(super) source: Source,
    /// Whether each look at the disk may take long.
    pub(super) is_remote: bool,
    pub(super) record: Record,
    /// The turns that the request holds until its answer is complete.
    #[expect(dead_code, reason = "dropping them is their use")]
    pub(super) turns: Vec<Turn>,
}

/// Where the bytes of a body come from.
pub(super) enum Source {
    Nothing,
    Refs(Box<Rows>),
    Program(Box<Running>),
}

impl Body {
    /// Returns a body that is known as a whole.
    pub(super) fn bytes(bytes: impl Into<Bytes>, record: Record) -> Self {
        Body { begin: bytes.into(), source: Source::Nothing, is_remote: false, record, turns: Vec::new() }
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
                let piece = at_disk(is_remote, || rows.next_piece());
                body.record.refs(rows.refs);
                if piece.as_ref().is_ok_and(Vec::is_empty) && !rows.has_ended() {
                    // Other requests have their turn before the next refs are looked at.
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

/// Reads from a disk. If that may take long, other requests of this thread go on elsewhere.
pub(crate) fn at_disk<T>(may_take_long: bool, read: impl FnOnce() -> T) -> T {
    if may_take_long { tokio::task::block_in_place(read) } else { read() }
}

/// Returns an answer with this status and nothing else that may be cached.
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

/// Adds the type of the content.
pub(super) fn of_type(mut response: Response<Body>, content: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(content) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}
