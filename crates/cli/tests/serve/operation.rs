//! What an operator sees: the state of a running server, its metrics, and the board that shows them.

use crate::support::{Answer, Options, Request, exported, packets};
use refdb_testkit::{RefFormat, at_most};
use refdb_types::HashKind;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
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

/// Waits for the next line of an access log.
fn next_line(log: &Path, lines: &mut usize) -> serde_json::Value {
    let end = Instant::now() + at_most(Duration::from_secs(60));
    loop {
        let text = std::fs::read_to_string(log).unwrap();
        if let Some(line) = text.lines().nth(*lines).filter(|_| text.ends_with('\n')) {
            *lines += 1;
            return serde_json::from_str(line).unwrap();
        }
        assert!(Instant::now() < end, "no line {lines}: {text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_access_log_says_why_a_request_was_refused_and_who_has_left() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    // A list of these refs is longer than a pipe holds.
    repo.fill(20_000, &repo.commits(3));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let server = Options::root(repo.scratch()).set("accessLog", log.display()).start();
    let mut lines = 0;
    let post = Request::new("POST", "/repo/git-upload-pack").with("Content-Type", "text/plain").body("0000");
    let method = Request::new("PUT", "/repo/info/refs?service=git-upload-pack");
    for (request, status, word) in [(method, 405, "method"), (post, 415, "text/plain")] {
        assert_eq!(server.ask(&request).status, status);
        let line = next_line(&log, &mut lines);
        assert_eq!(line["status"], status);
        assert!(line["error"].as_str().unwrap().contains(word), "{line}");
    }
    let shim = |closes: bool| {
        let mut shim = server.shim();
        shim.arg(repo.git_dir()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shim = shim.spawn().unwrap();
        if closes {
            drop(shim.stdout.take());
        }
        drop(shim.stdin.take());
        shim.wait_with_output().unwrap();
    };
    shim(true);
    let line = next_line(&log, &mut lines);
    assert_eq!((&line["operation"], &line["status"], &line["error"]), (&"discovery".into(), &499.into(), &Value::Null));
    shim(false);
    let line = next_line(&log, &mut lines);
    assert_eq!((&line["operation"], &line["status"]), (&"discovery".into(), &200.into()));
    let takes_time = |line: &Value| line["cpu_ms"].as_f64().unwrap() > 0.01;
    assert!(takes_time(&line), "{line}");
    // The processor time is spent in different places: that of a list mostly before its status is sent, that of
    // receive-pack in a thread, and that of a fetch in another process.
    repo.config("http.receivepack", "true");
    let main = repo.rev_parse("refs/heads/main");
    let fetch = [&format!("want {main}\n"), "0000", "done\n"];
    for (request, operation) in [
        (Request::ls_refs("repo"), "ls-refs"),
        (Request::discovery("repo", "git-receive-pack"), "discovery"),
        (Request::post("repo", "git-upload-pack", packets(&fetch)), "fetch"),
    ] {
        assert_eq!(server.ask(&request).status, 200);
        let line = next_line(&log, &mut lines);
        assert!(line["operation"] == operation && takes_time(&line), "{line}");
    }
}

/// Regression: the status was 200, and the body ended before it had begun.
#[test]
fn a_list_whose_first_piece_fails_is_an_error_for_the_client_and_in_the_access_log() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    repo.git(["pack-refs", "--all"]);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let server = Options::root(repo.scratch()).set("accessLog", log.display()).start();
    let packed = repo.git_dir().join("packed-refs");
    let whole = std::fs::read_to_string(&packed).unwrap();
    let mut lines = 0;
    for (text, status) in [(whole.replace("refs/heads/old", ""), 500), (whole.clone(), 200)] {
        std::fs::write(&packed, text).unwrap();
        for request in [Request::ls_refs("repo"), Request::discovery("repo", "git-upload-pack")] {
            let answer = server.ask(&request);
            assert_eq!((answer.status, answer.is_complete), (status, true), "{answer:?}");
            let line = next_line(&log, &mut lines);
            assert_eq!((&line["status"], line["error"].is_string()), (&status.into(), status == 500), "{line}");
        }
    }
}

#[test]
fn a_client_of_http_that_leaves_is_told_from_one_that_is_served() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    // A list of these refs is longer than the buffers of a connection hold.
    repo.fill(150_000, &repo.commits(3));
    let folder = tempfile::tempdir().unwrap();
    let [log, program] = ["log", "authorizer"].map(|name| folder.path().join(name));
    std::fs::write(
        &program,
        "#!/bin/sh\ngrep -q '\"user\":\"ann\"' || exec sleep 600\necho '{\"verdict\":\"allow\"}'\n",
    )
    .unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let server = Options::root(repo.scratch())
        .set("accessLog", log.display())
        .set("authorize", program.display())
        .set("authorizeTimeout", 600_000)
        .start();
    let mut lines = 0;
    let mut assert_logged = |operation: &str, status: u16| {
        let line = next_line(&log, &mut lines);
        assert_eq!((&line["operation"], &line["status"]), (&operation.into(), &status.into()), "{line}");
    };
    // One client leaves while the authorizer is asked, another one while it is sent a list.
    let mut stream = server.connect_as_proxy();
    stream.write_all(&Request::ls_refs("repo").bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    drop(stream);
    assert_logged("other", 499);
    let mut stream = server.connect_as_proxy();
    stream.write_all(&Request::ls_refs("repo").with("X-Remote-User", "ann").bytes()).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    assert_logged("ls-refs", 499);
    for (method, operation) in [("GET", "discovery"), ("HEAD", "discovery")] {
        let request = Request { method: method.into(), ..Request::discovery("repo", "git-upload-pack") };
        assert_eq!(server.ask_as(Some("ann"), &request).status, 200);
        assert_logged(operation, 200);
    }
    assert_eq!(server.ask_as(Some("ann"), &Request::ls_refs("repo")).status, 200);
    assert_logged("ls-refs", 200);
}
