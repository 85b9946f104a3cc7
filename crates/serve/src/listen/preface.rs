//! Tells by the first bytes of a connection which version of HTTP it speaks.

use bytes::BufMut;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a client of HTTP/2 sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Maximum number of bytes that are read in order to know the version; most requests without a body have fewer.
const READ_MAX: usize = 2048;

/// How a connection begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Preface {
    pub(super) is_http2: bool,
    /// The bytes that were read, which are the first ones of the connection.
    pub(super) bytes: Box<[u8]>,
}

/// Reads until the version is known, or the client sends no more.
///
/// hyper's own way to tell the version is not used, because it passes the first 24 bytes on before the others: hyper's
/// buffer then grows to 16 KiB, twice as much as it needs, and keeps that size for as long as the connection is open.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Preface> {
    let mut bytes = Vec::with_capacity(READ_MAX);
    loop {
        let room = READ_MAX - bytes.len();
        let is_end = stream.read_buf(&mut (&mut bytes).limit(room)).await? == 0;
        let common = bytes.len().min(PREFACE.len());
        let is_like_http2 = bytes[..common] == PREFACE[..common];
        if is_end || !is_like_http2 || common == PREFACE.len() {
            let is_http2 = is_like_http2 && common == PREFACE.len();
            return Ok(Preface { is_http2, bytes: bytes.into_boxed_slice() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// Reads what a client sends in these pieces, and returns the version with the bytes that were read.
    fn read_of(pieces: &[&[u8]]) -> (bool, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (mut client, mut server) = tokio::io::duplex(64 << 10);
        runtime.block_on(async {
            let send = async {
                for piece in pieces {
                    client.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
                drop(client);
            };
            let (preface, ()) = tokio::join!(read(&mut server), send);
            let preface = preface.unwrap();
            (preface.is_http2, preface.bytes.into_vec())
        })
    }

    #[test]
    fn the_version_is_known_by_the_first_bytes_that_differ() {
        let whole = [PREFACE, b"more"].concat();
        assert_eq!(read_of(&[&whole]), (true, whole.clone()));
        let one_by_one: Vec<&[u8]> = PREFACE.chunks(1).collect();
        assert_eq!(read_of(&one_by_one), (true, PREFACE.to_vec()));
        assert_eq!(read_of(&[b"GET / HTTP/1.1\r\n\r\n"]), (false, b"GET / HTTP/1.1\r\n\r\n".to_vec()));
        assert_eq!(read_of(&[b"P", b"OST"]), (false, b"POST".to_vec()));
        for cut in 0..PREFACE.len() {
            let cut_off = &PREFACE[..cut];
            assert_eq!(read_of(&[cut_off]), (false, cut_off.to_vec()), "a client that sends no more");
        }
        let (is_http2, bytes) = read_of(&[&[b'x'; 10 * READ_MAX]]);
        assert_eq!((is_http2, bytes.len()), (false, READ_MAX));
    }
}
