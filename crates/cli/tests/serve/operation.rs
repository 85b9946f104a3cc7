//! What an operator sees: the state of a running server, its metrics, and the board that shows them.

use crate::support::{Answer, Options, Request, exported};
use refdb_testkit::RefFormat;
use refdb_types::HashKind;
use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::Command,
};

/// Returns an address on which nothing listens.
fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_refdb"))
}

#[test]
fn status_and_metrics_tell_what_was_served_and_the_board_asks_for_what_is_there() {
    let repo = exported(RefFormat::Reftable, HashKind::Sha1);
    let address = free_address();
    let server = Options::root(repo.scratch()).word("--metrics").word(address.to_string()).start();
    for _ in 0..3 {
        assert_eq!(server.ask(&Request::ls_refs("repo")).status, 200);
    }
    assert_eq!(server.ask(&Request::discovery("none", "git-upload-pack")).status, 404);
    let ask = |path: &str| Answer::to(&Request::get(path), TcpStream::connect(address).unwrap());
    assert_eq!((ask("/health").status, ask("/health").text()), (200, "ok\n".to_owned()));
    assert_eq!(ask("/nothing").status, 404);
    let metrics = ask("/metrics").text();
    for line in [
        "refdb_serve_requests_total{operation=\"ls-refs\",status=\"200\"} 3",
        "refdb_serve_requests_total{operation=\"other\",status=\"404\"} 1",
        "refdb_serve_requests_in_progress 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let board = include_str!("../../../../docs/operating/grafana/refdb-serve.json");
    let named: BTreeSet<&str> = board
        .match_indices("refdb_serve_")
        .map(|(at, _)| board[at..].split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap())
        .collect();
    assert!(named.len() >= 5);
    named.iter().for_each(|name| assert!(metrics.contains(name), "the server has no {name}: {metrics}"));

    let shown = program().args(["serve", "status", "--metrics", &address.to_string()]).output().unwrap();
    let state: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&state["repositories"], &state["requests_in_progress"]), (&1.into(), &0.into()));
    drop(server);
    let shown = program().args(["serve", "status", "--metrics", &address.to_string()]).output().unwrap();
    assert_eq!(shown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&shown.stderr).contains(&address.to_string()));
}
