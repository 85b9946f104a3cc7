//! The examples do what they say.

#![allow(dead_code, unreachable_pub, reason = "each example is a program of its own")]

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

#[path = "../examples/get_or_insert_with.rs"]
mod get_or_insert_with;
#[path = "../examples/secrets.rs"]
mod secrets;
#[path = "../examples/web_cache.rs"]
mod web_cache;

#[test]
fn a_second_run_computes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(get_or_insert_with::run(dir.path()).unwrap(), 20);
    assert_eq!(get_or_insert_with::run(dir.path()).unwrap(), 0);
}

#[test]
fn sessions_are_secret_and_end() {
    let dir = tempfile::tempdir().unwrap();
    secrets::run(dir.path()).unwrap();
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"cookie"), "a key stands in the clear");
    }
}

#[test]
fn pages_are_served_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("localhost", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(("localhost", port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    thread::scope(|scope| {
        let server = scope.spawn(|| web_cache::serve(&listener, dir.path(), 5).map_err(|error| error.to_string()));
        assert!(ask("GET /a HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nthe page /a\n"));
        assert!(ask("GET /a HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nthe page /a\n"));
        assert!(ask("DELETE /a HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nremoved\n"));
        assert!(ask("DELETE /a HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nnot there\n"));
        assert!(ask("BREW /a HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 400"));
        server.join().unwrap().unwrap();
    });
}
