//! Clients of HTTP/2 that send nonsense or stay for no reason.

use crate::{
    attacks::{BELOW_DEFAULT, assert_alive, served},
    support::Server,
};
use refdb_testkit::at_most;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

/// Sends bytes, and nothing after them.
fn send_only(server: &Server, bytes: &[u8]) {
    let mut stream = server.connect();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn nonsense_in_http_2_ends_the_connection_alone() {
    let (_repo, server) = served(|options| options);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    // A header that goes on for megabytes: HEADERS without its end, and CONTINUATION again and again.
    let mut flood = b"\0\0\x01\x01\0\0\0\0\x01\x82".to_vec();
    (0..3000).for_each(|_| flood.extend_from_slice(&[&b"\0\x04\0\x09\0\0\0\0\x01"[..], &[0x40; 1024]].concat()));
    // Streams that are opened and reset at once.
    let reset = (0..20_000_u32).flat_map(|at| {
        let id = (2 * at + 1).to_be_bytes();
        [&b"\0\0\x03\x01\x05"[..], &id, b"\x82\x84\x86\0\0\x04\x03\0", &id, b"\0\0\0\x08"].concat()
    });
    for rest in [vec![0xff; 100_000], b"GET / HTTP/1.1\r\n\r\n".to_vec(), flood, reset.collect()] {
        send_only(&server, &[&preface[..], settings, &rest].concat());
        assert_alive(&server);
    }
    for garbage in [&b"\0\0\0"[..], b"\x16\x03\x01\x02\0\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", &preface[..7]]
    {
        send_only(&server, garbage);
        assert_alive(&server);
    }
}

/// Answers all pings of the server, and returns how long it takes until the server closes the connection.
fn answering_pings_until_the_end(mut stream: TcpStream) -> Duration {
    let start = Instant::now();
    let mut header = [0; 9];
    while start.elapsed() < at_most(BELOW_DEFAULT) && stream.read_exact(&mut header).is_ok() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let mut content = vec![0; length];
        stream.read_exact(&mut content).unwrap();
        let (kind, is_acknowledgement) = (header[3], header[4] & 1 != 0);
        match kind {
            4 if !is_acknowledgement => stream.write_all(b"\0\0\0\x04\x01\0\0\0\0").unwrap(),
            6 if !is_acknowledgement => {
                stream.write_all(&[&b"\0\0\x08\x06\x01\0\0\0\0"[..], &content].concat()).unwrap();
            }
            _ => {}
        }
    }
    start.elapsed()
}

/// Previously, a client of HTTP/2 that had sent one request could keep its connection for ever.
#[test]
fn a_client_that_only_answers_pings_is_left() {
    let (_repo, server) = served(|options| options.set("idleSeconds", 1));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // GET / over http, without a body.
    let request = b"\0\0\x03\x01\x05\0\0\0\x01\x82\x84\x86";
    for begin in [&preface[..], &[&preface[..], request].concat()] {
        let mut stream = server.connect();
        stream.write_all(begin).unwrap();
        let took = answering_pings_until_the_end(stream);
        assert!((Duration::from_millis(900)..at_most(BELOW_DEFAULT)).contains(&took), "{took:?}");
    }
    assert_alive(&server);
}
