//! What the server does when it is told to end, to read its settings again, or when it is killed.

use crate::support::{Answer, Options, Request, Server, exported, packets};
use refdb_testkit::{RefFormat, Repo, at_most};
use refdb_types::{HashKind, ObjectId};
use std::{
    fs,
    io::Write,
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

fn served(options: impl FnOnce(Options) -> Options) -> (Repo, Server) {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    repo.config("http.receivepack", "true");
    let server = options(Options::root(repo.scratch()).with_metrics()).start();
    (repo, server)
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + at_most(Duration::from_secs(60));
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a request without the last four bytes of its body, which are returned, and waits until so many requests are in
/// progress.
fn begin(server: &Server, request: &Request, in_progress: usize) -> (TcpStream, Vec<u8>) {
    let mut bytes = request.bytes();
    let rest = bytes.split_off(bytes.len() - 4);
    let mut stream = server.connect();
    stream.write_all(&bytes).unwrap();
    server.await_in_progress(in_progress);
    (stream, rest)
}

#[test]
fn after_sigterm_requests_are_completed_and_no_others_are_taken() {
    let (_repo, mut server) = served(|options| options);
    let (mut stream, rest) = begin(&server, &Request::ls_refs("repo"), 1);
    server.signal("TERM");
    wait_for("the server listens no more", || TcpStream::connect(server.address).is_err());
    stream.write_all(&rest).unwrap();
    let answer = Answer::read(stream, false);
    assert!(answer.status == 200 && answer.is_complete, "{answer:?}");
    assert_eq!(server.wait(Duration::from_secs(20)), Some(0));
}

#[test]
fn a_request_that_does_not_end_delays_the_end_no_longer_than_it_may() {
    let (_repo, mut server) = served(|options| options.set("drainSeconds", 1));
    let _held = begin(&server, &Request::ls_refs("repo"), 1);
    let start = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait(Duration::from_secs(20)), Some(0));
    assert!(start.elapsed() >= Duration::from_millis(900));
    assert!(server.errors().contains("serve.drainSeconds"), "{}", server.errors());
}

#[test]
fn sighup_reads_settings_again_and_keeps_them_if_they_are_wrong() {
    let (_repo, server) = served(|options| options);
    let log = server.scratch().join("log");
    let forged = Request::discovery("repo", "git-upload-pack")
        .with("X-Remote-User", "ann")
        .with("X-Refdb-Secret", "sesame")
        .with("Authorization", "Basic c2VzYW1l");
    assert_eq!(server.ask(&forged).status, 200);
    fs::write(server.settings(), format!("[serve]\nproxySecret = sesame\naccessLog = {}\n", log.display())).unwrap();
    server.signal("HUP");
    wait_for("the log is opened", || log.exists());
    wait_for("the user is believed", || {
        server.ask(&forged);
        fs::read_to_string(&log).unwrap().contains("\"user\":\"ann\"")
    });
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.contains("sesame") && !text.contains("c2VzYW1l"), "{text}");
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["operation"], "discovery");
    }
    // Rotating the log.
    let old = log.with_extension("old");
    fs::rename(&log, &old).unwrap();
    server.signal("HUP");
    wait_for("the log is opened again", || log.exists());
    fs::write(server.settings(), "[serve]\nnoSuchSetting = 1\n").unwrap();
    server.signal("HUP");
    wait_for("the error is reported", || server.errors().contains("nosuchsetting"));
    wait_for("requests are still logged", || {
        server.ask(&forged);
        fs::read_to_string(&log).unwrap().contains("\"user\":\"ann\"")
    });
}

/// Previously, a reload opened the new access log before the new settings were refused, and forgot the requests in
/// progress.
#[test]
fn a_reload_that_is_refused_changes_nothing_and_one_that_is_not_counts_the_requests_in_progress() {
    let (_repo, server) = served(|options| options.set("maxRequests", 2));
    let held = [1, 2].map(|count| begin(&server, &Request::ls_refs("repo"), count));
    assert_eq!(server.ask(&Request::ls_refs("repo")).status, 503);
    let logs = ["refused", "used"].map(|name| server.scratch().join(name));
    let write = |max: usize, log: &Path, more: &str| {
        let text = format!("[serve]\nmaxRequests = {max}\naccessLog = {}\n{more}", log.display());
        fs::write(server.settings(), text).unwrap();
        server.signal("HUP");
    };
    write(100, &logs[0], "allowTarget = /nonexistent\n");
    wait_for("the error is reported", || server.errors().contains("/nonexistent"));
    assert!(!logs[0].exists(), "{}", server.errors());
    write(2, &logs[1], "");
    wait_for("the log is opened", || logs[1].exists());
    for _ in 0..20 {
        assert_eq!(server.ask(&Request::ls_refs("repo")).status, 503);
    }
    for (mut stream, rest) in held {
        stream.write_all(&rest).unwrap();
        assert_eq!(Answer::read(stream, false).status, 200);
    }
    wait_for("there is room", || server.ask(&Request::ls_refs("repo")).status == 200);
}

fn hook(repo: &Repo, name: &str, script: &str) {
    let path = repo.git_dir().join("hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn push(name: &str, new: ObjectId) -> Request {
    let command = format!("{} {new} {name}\0 report-status", ObjectId::null(new.kind()));
    let pack =
        b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";
    Request::post("repo", "git-receive-pack", [&packets(&[&command, "0000"])[..], pack].concat())
}

fn assert_usable(repo: &Repo, path: &Path) {
    let server = Options::root(path).start();
    let commit = repo.rev_parse("refs/heads/main");
    for name in ["refs/heads/again", "refs/heads/other"] {
        let text = server.ask(&push(name, commit)).text();
        assert!(text.contains(&format!("ok {name}")), "{text}");
    }
    repo.git(["fsck", "--strict"]);
    repo.verify();
}

#[test]
fn a_server_that_is_killed_in_a_push_leaves_a_repository_that_can_be_used() {
    // Before any ref is changed, and after all are.
    for (at, name) in ["pre-receive", "post-receive"].into_iter().enumerate() {
        let (repo, mut server) = served(|options| options);
        hook(&repo, name, "touch ../in-hook; while ! test -e ../go; do sleep 0.01; done; touch ../ended");
        let commit = repo.rev_parse("refs/heads/old");
        let request = push("refs/heads/pushed", commit);
        let mut stream = server.connect();
        stream.write_all(&request.bytes()).unwrap();
        wait_for("the hook runs", || repo.scratch().join("in-hook").exists());
        server.signal("KILL");
        assert_eq!(server.wait(Duration::from_secs(20)), None);
        fs::write(repo.scratch().join("go"), "").unwrap();
        wait_for("the hook ends", || repo.scratch().join("ended").exists());
        assert!(at == 0 || repo.rev_parse("refs/heads/pushed") == commit);
        fs::remove_file(repo.git_dir().join("hooks").join(name)).unwrap();
        assert_usable(&repo, repo.scratch());
    }
}

/// Previously, each message held up a worker until somebody read the standard error, and with the last worker the whole
/// server.
#[test]
fn a_standard_error_that_nobody_reads_holds_up_neither_requests_nor_the_end() {
    for log in [None, Some("-")] {
        let (unread, mut errors) = UnixStream::pair().unwrap();
        errors.set_nonblocking(true).unwrap();
        while errors.write(&[b'\n'; 4096]).is_ok() {}
        errors.set_nonblocking(false).unwrap();
        let (repo, mut server) = served(|options| {
            let options = options.set("drainSeconds", 1).errors_to(errors.into());
            log.into_iter().fold(options, |options, log| options.set("accessLog", log))
        });
        // Git warns of such a hook.
        hook(&repo, "update", "");
        fs::set_permissions(repo.git_dir().join("hooks/update"), fs::Permissions::from_mode(0o644)).unwrap();
        let bad = repo.scratch().join("bad");
        assert!(Command::new("cp").arg("-a").args([repo.git_dir(), &bad]).status().unwrap().success());
        fs::write(bad.join("config"), "[transfer").unwrap();
        for number in 0..20 {
            assert_eq!(server.ask(&Request::ls_refs("bad")).status, 500);
            let name = format!("refs/heads/pushed-{number}");
            let answer = server.ask(&push(&name, repo.rev_parse("refs/heads/main"))).text();
            assert!(answer.contains(&format!("ok {name}")), "{answer}");
        }
        assert_eq!(server.ask(&Request::ls_refs("repo")).status, 200);
        let _held = begin(&server, &Request::ls_refs("repo"), 1);
        server.signal("TERM");
        assert_eq!(server.wait(Duration::from_secs(20)), Some(0));
        drop(unread);
    }
}
