//! Reads the body of a request, decompresses it if it is in gzip format, and enforces limits on its size and on the
//! time that it takes.

use crate::settings::Limits;
use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Buf, Bytes};
use hyper::{HeaderMap, body::Incoming, header};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, BufReader, ReadBuf},
    time::{Instant, timeout_at},
};
use tokio_io_timeout::TimeoutReader;

/// The body of a request as a stream of decompressed bytes.
pub(crate) struct Inflow {
    bytes: Pin<Box<dyn AsyncRead + Send>>,
    longest: Duration,
    /// When the body must have been read. `None` until reading begins.
    end: Option<Instant>,
}

impl Inflow {
    /// Returns the body of a request. Reading fails with `TimedOut` if the client sends nothing for the time
    /// `limits.idle`, or if the whole body takes longer than `limits.request_time` from the first read on, with
    /// `FileTooLarge` if the body has more than `bytes_max` bytes after decompression, and with another error if the
    /// body cannot be received or decompressed.
    pub(crate) fn new(headers: &HeaderMap, body: Incoming, limits: &Limits, bytes_max: Option<u64>) -> Self {
        let mut timed = TimeoutReader::new(Pieces { body, piece: Bytes::new() });
        timed.set_timeout(Some(limits.idle));
        let timed = Box::pin(timed);
        let is_gzip =
            headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding == "gzip" || coding == "x-gzip");
        let plain: Pin<Box<dyn AsyncRead + Send>> =
            if is_gzip { Box::pin(Checked::new(GzipDecoder::new(BufReader::new(timed)))) } else { timed };
        let bytes = match bytes_max {
            None => plain,
            Some(max) => Box::pin(Limited { inner: plain, left: max }),
        };
        Inflow { bytes, longest: limits.request_time, end: None }
    }

    /// Reads some bytes and returns their number, which is 0 at the end.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = *self.end.get_or_insert_with(|| Instant::now() + self.longest);
        timeout_at(end, self.bytes.read(buffer)).await.unwrap_or_else(|_| {
            let text = "the client has not sent its request within serve.requestSeconds";
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }
}

/// Reads the data frames of a body as one stream of bytes.
struct Pieces {
    body: Incoming,
    piece: Bytes,
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        use http_body::Body;
        while self.piece.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(io::Error::other(error))),
                Poll::Ready(Some(Ok(frame))) => self.piece = frame.into_data().unwrap_or_default(),
            }
        }
        let count = out.remaining().min(self.piece.len());
        out.put_slice(&self.piece[..count]);
        self.piece.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// Decompressed bytes, the last of which is held back until the check sum at the end of the compressed ones was found
/// right. What reads them would otherwise act on a complete request before it gets to the error at the end.
struct Checked<R> {
    inner: R,
    held: Option<u8>,
}

impl<R> Checked<R> {
    fn new(inner: R) -> Self {
        Checked { inner, held: None }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Checked<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        while out.filled().len() == before && out.remaining() > 0 {
            ready!(Pin::new(&mut self.inner).poll_read(context, out))?;
            let Some(&last) = out.filled()[before..].last() else {
                // The end.
                if let Some(last) = self.held.take() {
                    out.put_slice(&[last]);
                }
                break;
            };
            match self.held.replace(last) {
                None => out.set_filled(out.filled().len() - 1),
                Some(first) => {
                    let piece = &mut out.filled_mut()[before..];
                    piece.rotate_right(1);
                    piece[0] = first;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// A reader that fails once more bytes arrive than are allowed.
struct Limited {
    inner: Pin<Box<dyn AsyncRead + Send>>,
    left: u64,
}

impl AsyncRead for Limited {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let polled = self.inner.as_mut().poll_read(context, out);
        let count = (out.filled().len() - before) as u64;
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => {
                let text = "the request is larger than serve.maxRequestBytes allows";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::FileTooLarge, text)));
            }
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_compression::tokio::bufread::GzipEncoder;

    /// Reads up to `size` bytes at a time. Returns what was read, and whether that ended without an error.
    async fn read(zipped: &[u8], size: usize) -> (Vec<u8>, bool) {
        let (mut reader, mut all) = (Checked::new(GzipDecoder::new(zipped)), Vec::new());
        let mut buffer = vec![0; size];
        loop {
            match reader.read(&mut buffer).await {
                Ok(0) => return (all, true),
                Ok(count) => all.extend_from_slice(&buffer[..count]),
                Err(_) => return (all, false),
            }
        }
    }

    #[tokio::test]
    async fn the_last_byte_is_read_only_if_the_check_sum_is_right() {
        for length in [0, 1, 2, 3, 1000, 100_000] {
            let plain: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[at as usize % 3]).collect();
            let mut zipped = Vec::new();
            GzipEncoder::new(&plain[..]).read_to_end(&mut zipped).await.unwrap();
            for size in [1, 2, 64 << 10] {
                assert_eq!(read(&zipped, size).await, (plain.clone(), true), "{length}, {size}");
                for from_end in 1..=8 {
                    let at = zipped.len() - from_end;
                    let mut damaged = zipped.clone();
                    damaged[at] ^= 1;
                    for bad in [&damaged[..], &zipped[..at]] {
                        let (got, has_ended) = read(bad, size).await;
                        assert!(!has_ended && got.len() < plain.len().max(1), "{length}, {size}, {from_end}");
                        assert!(plain.starts_with(&got));
                    }
                }
            }
        }
    }
}
