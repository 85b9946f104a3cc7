//! Clients that leave or lie, hooks that hang, and kills leave nothing half-applied.

use crate::common::{Client, REFDB, assert_untouched, hook, quarantines, refs};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    io::Write,
    path::Path,
    process::{Child, Output, Stdio},
    time::{Duration, Instant},
};

/// Returns a request that creates `refs/heads/main` and `refs/heads/other`, and the offsets where its packets and its
/// pack begin.
pub(crate) fn request(client: &Client, capabilities: &str) -> (Vec<u8>, Vec<usize>) {
    let id = client.commits[4];
    let zero = "0".repeat(40);
    let mut bytes = Vec::new();
    let mut starts = vec![0];
    for name in ["main", "other"] {
        let line = format!("{zero} {id} refs/heads/{name}\0{capabilities}");
        write!(bytes, "{:04x}{line}", line.len() + 4).unwrap();
        starts.push(bytes.len());
    }
    bytes.extend_from_slice(b"0000");
    starts.push(bytes.len());
    let words = ["pack-objects", "--revs", "--stdout", "--quiet"];
    bytes.extend(client.repo.try_git(words, format!("{id}\n")).stdout);
    (bytes, starts)
}

pub(crate) fn start(server: &Repo) -> Child {
    start_program(server, Path::new(REFDB))
}

fn start_program(server: &Repo, program: &Path) -> Child {
    let mut command = server.command(program);
    command.env("REFDB_GIT", Git::find().program()).args(["receive-pack", "--stateless-rpc"]).arg(server.dir());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn send(server: &Repo, bytes: &[u8]) -> Output {
    feed(server, Path::new(REFDB), bytes)
}

/// Sends these bytes to a receive-pack, git's or refdb's, and returns its output.
pub(crate) fn feed(server: &Repo, program: &Path, bytes: &[u8]) -> Output {
    let mut child = start_program(server, program);
    // The write fails if the program ends before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    child.wait_with_output().unwrap()
}

#[test]
fn a_client_that_leaves_changes_nothing() {
    let client = Client::new(HashKind::Sha1);
    for limit in ["1", "100"] {
        let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
        server.config("receive.unpackLimit", limit);
        let (bytes, starts) = request(&client, "report-status side-band-64k");
        let pack = *starts.last().unwrap();
        // The client leaves at every packet, within each, and within the pack.
        let ends = starts.iter().flat_map(|at| [*at, at + 2, at + 9]).chain([pack + 12, pack + 40, bytes.len() - 1]);
        for end in ends.filter(|end| *end < bytes.len()) {
            let output = send(&server, &bytes[..end]);
            assert!(!output.stdout.windows(3).any(|word| word == b"ok "), "left at {end}");
            assert_untouched(&server, &format!("left at {end}, limit {limit}"));
        }
        assert!(send(&server, &bytes).status.success());
        assert_eq!(refs(&server), 2);
    }
}

#[test]
fn a_pack_that_is_no_good_changes_nothing() {
    let client = Client::new(HashKind::Sha1);
    for limit in ["1", "100"] {
        let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
        server.config("receive.unpackLimit", limit);
        let (bytes, starts) = request(&client, "report-status");
        let mut torn = bytes.clone();
        *torn.last_mut().unwrap() ^= 1;
        let output = send(&server, &torn);
        let said = String::from_utf8_lossy(&output.stdout);
        let program = if limit == "1" { "index-pack" } else { "unpack-objects" };
        assert!(said.contains(&format!("unpack {program} abnormal exit\n")), "{said}");
        assert!(said.contains("ng refs/heads/main unpacker error\n"), "{said}");
        assert_untouched(&server, "a bad checksum");
        // A pack without the objects that the commands name.
        let empty = client.repo.try_git(["pack-objects", "--stdout", "--quiet"], "").stdout;
        let said = send(&server, &[&bytes[..*starts.last().unwrap()], &empty].concat()).stdout;
        let said = String::from_utf8_lossy(&said);
        assert!(
            said.contains("unpack ok\n") && said.contains("ng refs/heads/main missing necessary objects\n"),
            "{said}"
        );
        assert_untouched(&server, "missing objects");
        // A pack that is larger than the server accepts: a negative limit accepts none.
        for limit in ["50", "-1", "-1g"] {
            server.config("receive.maxInputSize", limit);
            let said = String::from_utf8_lossy(&send(&server, &bytes).stdout).into_owned();
            assert!(said.contains("abnormal exit\n"), "{limit}: {said}");
            assert_untouched(&server, "too much");
        }
    }
}

/// Waits until `is_so` holds, and returns whether it did within 120 seconds, more than even a busy machine needs.
fn comes(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn wait_for(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes(is_so), "{what}: never");
}

#[test]
fn a_signal_ends_a_push_whose_hook_hangs_and_a_kill_leaves_a_quarantine_for_the_next() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let waiting = server.scratch().join("waiting");
    hook(&server, "pre-receive", "echo $$ >../waiting.new; mv ../waiting.new ../waiting; exec sleep 600");
    let (bytes, _) = request(&client, "report-status");
    for (signal, is_left) in [("TERM", false), ("KILL", true)] {
        let _ = std::fs::remove_file(&waiting);
        let mut child = start(&server);
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        wait_for("the hook", || waiting.exists());
        assert_eq!(quarantines(&server).len(), 1);
        let kill = |signal: &str, process: &str| {
            assert!(
                std::process::Command::new("kill").args([&format!("-{signal}"), process]).status().unwrap().success()
            );
        };
        kill(signal, &child.id().to_string());
        assert!(!child.wait().unwrap().success());
        let hook = std::fs::read_to_string(&waiting).unwrap();
        if is_left {
            kill("KILL", hook.trim());
        } else {
            wait_for("the hook's end", || !std::path::Path::new(&format!("/proc/{}", hook.trim())).exists());
        }
        assert_eq!(server.refs(), []);
        assert_eq!(quarantines(&server).len(), usize::from(is_left), "{signal}");
    }
    // The next push removes the quarantine that the killed one has left.
    std::fs::remove_file(server.git_dir().join("hooks/pre-receive")).unwrap();
    client.push_ok(&server, &[format!("{}:refs/heads/main", client.commits[1])]);
    assert!(quarantines(&server).is_empty());
    assert_eq!(refs(&server), 1);
}

#[test]
fn a_hook_that_writes_much_or_reads_nothing_is_no_trouble() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    hook(&server, "pre-receive", "yes hello | head -c 20000000");
    hook(&server, "post-receive", "exit 1");
    let commit = client.commits[2];
    let words: Vec<_> = (0..2000).map(|at| format!("{commit}:refs/heads/b{at}")).collect();
    let output = client.push_ok(&server, &words);
    assert_eq!(refs(&server), words.len());
    let hello = output.stderr.windows(13).filter(|line| line == b"remote: hello").count();
    assert_eq!(hello, 20_000_000 / 6);
}

#[test]
fn names_that_lead_out_of_the_repository_are_refused() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let (bytes, starts) = request(&client, "report-status");
    for name in
        ["refs/heads/../../../x", "HEAD", "refs/", "config", "refs/heads/x.lock", "refs/heads/a b", "../../x", "refs/x"]
    {
        for id in [client.commits[4].to_string(), "0".repeat(40)] {
            let line = format!("{} {id} {name}\0report-status", client.commits[0]);
            let commands = format!("{:04x}{line}0000", line.len() + 4);
            let pack = if id.starts_with("000") { &[][..] } else { &bytes[*starts.last().unwrap()..] };
            let said = send(&server, &[commands.as_bytes(), pack].concat());
            let (said, log) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
            let reason = if name == "refs/x" { "" } else { "funny refname" };
            assert!(said.contains(&format!("ng {name} {reason}")), "{name}: {said} {log}");
            assert_eq!(server.refs(), []);
        }
    }
    assert!(!server.scratch().join("x").exists());
}

#[test]
fn a_signal_at_any_moment_ends_a_push_whose_client_says_nothing_more() {
    // When `git http-backend` cannot read from the client, it sends receive-pack a signal, and waits for receive-pack
    // to end while the pipe to it is still open.
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    for step in 0..120 {
        let mut child = start(&server);
        std::thread::sleep(Duration::from_micros(250 * step));
        assert!(std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        if !comes(|| child.try_wait().unwrap().is_some()) {
            child.kill().unwrap();
            panic!("a signal in step {step} did not end it");
        }
    }
}

#[test]
fn what_follows_a_small_pack_and_a_second_zero_byte_are_passed_over() {
    let client = Client::new(HashKind::Sha1);
    for limit in ["1", "100"] {
        let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
        server.config("receive.unpackLimit", limit);
        let (mut bytes, _) = request(&client, "report-status side-band-64k\0 atomic object-format=none");
        // Only the small pack is followed by something, because index-pack refuses data behind a pack.
        if limit == "100" {
            bytes.extend_from_slice(b"something that nobody asked for");
        }
        let output = send(&server, &bytes);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("ok refs/heads/main\n") && said.contains("ok refs/heads/other\n"), "{limit}: {said}");
        assert!(!said.contains("something that"), "{limit}: {said}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("something that"));
        let packs = server.git_dir().join("objects/pack");
        let kept = std::fs::read_dir(packs)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "keep"));
        assert_eq!(kept.count(), 0, "{limit}: a keep file stays");
    }
}

#[test]
fn a_signal_ends_a_push_whose_client_reads_nothing() {
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = server.commit();
    server.create_refs((0..20_000).map(|at| (format!("refs/heads/{at:05}"), id)));
    for by_socket in [false, true] {
        let mut command = server.command(REFDB);
        command.arg("receive-pack").arg(server.dir()).stdin(Stdio::piped()).stderr(Stdio::null());
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let theirs = if by_socket { std::os::fd::OwnedFd::from(theirs).into() } else { Stdio::piped() };
        let mut child = command.stdout(theirs).spawn().unwrap();
        // By then the server is sending more than any buffer holds.
        std::thread::sleep(Duration::from_millis(500));
        assert!(child.try_wait().unwrap().is_none(), "it has not shown everything to a client who reads nothing");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let asked = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(asked.elapsed() < Duration::from_secs(20), "by socket: {by_socket}");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(ours);
    }
}
