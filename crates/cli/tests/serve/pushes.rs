//! Pushes that threads of the server receive: each has its own verdict, its hooks see what those of a process see, and
//! a server that is killed or told to end has lost nothing.

use crate::support::{Answer, Options, Request, Server, environment, exported, packets};
use refdb_testkit::{Git, RefFormat, Repo, at_most};
use refdb_types::{HashKind, ObjectId};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

/// Returns a request to push an object that the server already has.
fn request(name: &str, old: ObjectId, new: ObjectId) -> Request {
    let command = format!("{old} {new} {name}\0 report-status");
    let pack =
        b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";
    Request::post("repo", "git-receive-pack", [&packets(&[&command, "0000"])[..], pack].concat())
}

fn served(format: RefFormat) -> (Repo, Server) {
    let repo = exported(format, HashKind::Sha1);
    repo.config("http.receivepack", "true");
    let server = Options::root(repo.scratch()).start();
    (repo, server)
}

fn hook(repo: &Repo, name: &str, script: &str) {
    let path = repo.git_dir().join("hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + at_most(Duration::from_secs(60));
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const NULL: ObjectId = ObjectId::null(HashKind::Sha1);

#[test]
fn pushes_at_the_same_time_have_a_verdict_each() {
    const PUSHERS: usize = 24;
    for format in RefFormat::ALL {
        let (repo, server) = served(format);
        let (old, main) = (repo.rev_parse("refs/heads/old"), repo.rev_parse("refs/heads/main"));
        hook(&repo, "update", "case $1 in */no) echo not this one; exit 1;; esac");
        std::thread::scope(|scope| {
            for pusher in 0..PUSHERS {
                let server = &server;
                scope.spawn(move || {
                    for round in 0..3 {
                        let (name, push, verdict) = match (pusher + round) % 4 {
                            0 => ("no", request("refs/heads/no", NULL, main), "ng refs/heads/no hook declined"),
                            // The ref has another value.
                            1 => ("old", request("refs/heads/old", main, old), "ng refs/heads/old "),
                            // There is a branch `main`.
                            2 => ("main/x", request("refs/heads/main/x", NULL, main), "ng refs/heads/main/x "),
                            _ => ("", request(&format!("refs/heads/p{pusher}-{round}"), NULL, main), "ok refs/heads/p"),
                        };
                        let text = server.ask(&push).text();
                        assert!(text.contains(verdict), "{name}: {text}");
                    }
                });
            }
        });
        let names = repo.git(["for-each-ref", "--format=%(refname)", "refs/heads/p*"]);
        let wanted = (0..PUSHERS).flat_map(|pusher| (0..3).map(move |round| (pusher, round)));
        let wanted = wanted.filter(|(pusher, round)| (pusher + round) % 4 == 3).count();
        assert_eq!(names.lines().count(), wanted);
        assert_eq!(repo.rev_parse("refs/heads/old"), old);
        repo.git(["fsck", "--strict"]);
        repo.verify();
    }
}

/// A hook that adds what it sees (arguments, folder, variables, descriptors, and the input if it gets any) to the file
/// `$SEEN`.
const SHOWS_ALL: &str = r#"
{
echo "== $0 $*"
pwd
umask
env | sort
for at in 0 1 2; do test -p /proc/self/fd/$at && echo "$at is a pipe"; done
ls /proc/self/fd | wc -l
case $0 in */pre-receive | */post-receive | */reference-transaction) cat;; esac
} >>"$SEEN"
echo told by "$0"
echo warned by "$0" >&2
"#;

const HOOKS: [&str; 5] = ["pre-receive", "update", "reference-transaction", "post-receive", "post-update"];

/// Returns what hooks have written, and removes the file. The names of quarantines are masked, because they are random.
fn seen(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    fs::remove_file(path).unwrap();
    let mask = |line: &str| match line.split_once("tmp_objdir-incoming-") {
        Some((before, _)) => format!("{before}tmp_objdir-incoming-?"),
        None => line.to_owned(),
    };
    text.lines().map(mask).collect()
}

/// Returns what came in each side band, joined, because where the packets are cut depends on time.
fn bands(mut packets: &[u8]) -> BTreeMap<u8, String> {
    let mut bands = BTreeMap::<u8, String>::new();
    while let Some((length, rest)) = packets.split_at_checked(4) {
        let length = usize::from_str_radix(std::str::from_utf8(length).unwrap(), 16).unwrap();
        let (packet, rest) = rest.split_at(length.saturating_sub(4));
        if let [band, text @ ..] = packet {
            bands.entry(*band).or_default().push_str(&String::from_utf8_lossy(text));
        }
        packets = rest;
    }
    bands
}

#[test]
fn hooks_see_what_those_of_a_process_see() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    let seen_at = repo.scratch().join("seen");
    let answers = repo.scratch().join("authorize");
    let verdict = r#"{"verdict":"allow","environment":{"TEAM":"a"},"hide_refs":["refs/secret"]}"#;
    fs::write(&answers, format!("#!/bin/sh\nread question\necho '{verdict}'\n")).unwrap();
    fs::set_permissions(&answers, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Options::root(repo.scratch())
        .set("authorize", answers.display())
        .variable("SEEN", &seen_at)
        .variable("GIT_INDEX_FILE", "not for hooks")
        .variable("GIT_COMMITTER_DATE", "1700000000 +0000");
    let server = server.start();
    HOOKS.iter().for_each(|name| hook(&repo, name, SHOWS_ALL));
    let main = repo.rev_parse("refs/heads/main");
    let command = format!("{NULL} {main} refs/heads/new\0 report-status side-band-64k push-options");
    let pack = &request("", NULL, main).body[..];
    let pack = &pack[pack.windows(4).position(|at| at == b"PACK").unwrap()..];
    repo.config("receive.advertisePushOptions", "true");
    let body = [&packets(&[&command, "0000", "an option", "0000"])[..], pack].concat();
    let push = Request::post("repo", "git-receive-pack", body);
    let push = push.with("X-Remote-Addr", "2001:db8::7").with("Git-Protocol", "version=1");
    let answer = server.ask_as(Some("ann"), &push);
    assert!(answer.text().contains("ok refs/heads/new"), "{answer:?}");
    let ours = seen(&seen_at);
    assert!(ours.iter().any(|line| line == "REMOTE_USER=ann") && ours.iter().any(|line| line == "TEAM=a"), "{ours:#?}");
    repo.git(["update-ref", "-d", "refs/heads/new"]);

    // The command, with the variables that `git http-backend` sets and passes on.
    let mut program = Command::new(env!("CARGO_BIN_EXE_refdb"));
    environment(&mut program, &server.home);
    program.env("REFDB_GIT", Git::find().program()).env("SEEN", &seen_at).env("TEAM", "a");
    program.env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_USER", "ann").env("REMOTE_ADDR", "2001:db8::7");
    program.env("GIT_COMMITTER_NAME", "ann").env("GIT_COMMITTER_EMAIL", "ann@http.2001:db8::7");
    program.env("GIT_PROTOCOL", "version=1").env("GIT_COMMITTER_DATE", "1700000000 +0000");
    program.arg("-C").arg(repo.git_dir()).args(["-c", "transfer.hideRefs=refs/secret", "receive-pack"]);
    program.args(["--stateless-rpc", "."]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let errors = repo.scratch().join("errors");
    program.stderr(fs::File::create(&errors).unwrap());
    let mut child = program.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&push.body).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(bands(&answer.body), bands(&output.stdout));
    assert_eq!(ours, seen(&seen_at));
    let errors = fs::read_to_string(&errors).unwrap();
    server.await_errors(&errors);
    assert_eq!(server.errors(), errors);
}

#[test]
fn a_killed_server_loses_no_push_that_it_has_acknowledged() {
    const PUSHERS: usize = 8;
    for format in RefFormat::ALL {
        let repo = exported(format, HashKind::Sha1);
        repo.config("http.receivepack", "true");
        let main = repo.rev_parse("refs/heads/main");
        let acknowledged = Mutex::new(BTreeSet::new());
        let count = || acknowledged.lock().unwrap().len();
        for round in 0..4_u64 {
            let mut server = Options::root(repo.scratch()).start();
            std::thread::scope(|scope| {
                for pusher in 0..PUSHERS {
                    let (address, acknowledged) = (server.address, &acknowledged);
                    scope.spawn(move || {
                        for at in 0.. {
                            let name = format!("refs/heads/p{round}-{pusher}-{at}");
                            let Ok(stream) = std::net::TcpStream::connect(address) else { return };
                            let text = Answer::to(&request(&name, NULL, main), stream).text();
                            if !text.contains(&format!("ok {name}")) {
                                return;
                            }
                            acknowledged.lock().unwrap().insert(name);
                        }
                    });
                }
                let before = count();
                wait_for("a push is acknowledged", || count() > before);
                std::thread::sleep(Duration::from_millis(37 * round));
                server.signal("KILL");
                server.wait(Duration::from_secs(20));
            });
            let names = repo.git(["for-each-ref", "--format=%(refname)"]);
            let lost: Vec<_> = {
                let names: BTreeSet<_> = names.lines().collect();
                acknowledged.lock().unwrap().iter().filter(|name| !names.contains(&name[..])).cloned().collect()
            };
            assert_eq!(lost, [] as [String; 0]);
            repo.git(["fsck", "--strict"]);
        }
        // Locks of the killed server hold up nobody.
        let server = Options::root(repo.scratch()).start();
        let text = server.ask(&request("refs/heads/after", NULL, main)).text();
        assert!(text.contains("ok refs/heads/after"), "{text}");
        repo.verify();
    }
}

#[test]
fn a_push_in_progress_is_completed_after_sigterm() {
    let (repo, mut server) = served(RefFormat::Reftable);
    hook(&repo, "pre-receive", "touch ../in-hook; while ! test -e ../go; do sleep 0.01; done");
    let mut stream = server.connect();
    let main = repo.rev_parse("refs/heads/main");
    stream.write_all(&request("refs/heads/pushed", NULL, main).bytes()).unwrap();
    wait_for("the hook runs", || repo.scratch().join("in-hook").exists());
    server.signal("TERM");
    wait_for("the server listens no more", || std::net::TcpStream::connect(server.address).is_err());
    fs::write(repo.scratch().join("go"), "").unwrap();
    assert!(Answer::read(stream, false).text().contains("ok refs/heads/pushed"));
    assert_eq!(server.wait(Duration::from_secs(20)), Some(0));
    assert_eq!(repo.rev_parse("refs/heads/pushed"), main);
}

#[test]
fn a_hook_that_hangs_is_ended_with_the_server_and_leaves_no_locks() {
    for name in ["pre-receive", "reference-transaction", "post-receive"] {
        let repo = exported(RefFormat::Files, HashKind::Sha1);
        repo.config("http.receivepack", "true");
        let mut server = Options::root(repo.scratch()).set("drainSeconds", 1).start();
        hook(&repo, name, "trap 'touch ../ended; exit 1' TERM; touch ../in-hook; while :; do sleep 0.01; done");
        let mut stream = server.connect();
        let main = repo.rev_parse("refs/heads/main");
        stream.write_all(&request("refs/heads/pushed", NULL, main).bytes()).unwrap();
        wait_for("the hook runs", || repo.scratch().join("in-hook").exists());
        server.signal("TERM");
        assert_eq!(server.wait(Duration::from_secs(20)), Some(0));
        wait_for("the hook ends", || repo.scratch().join("ended").exists());
        let left =
            repo.command("find").arg(repo.git_dir()).args(["-name", "*.lock", "-o", "-name", "tmp_objdir*"]).output();
        assert_eq!(String::from_utf8(left.unwrap().stdout).unwrap(), "");
        assert_eq!(repo.git(["for-each-ref", "refs/heads/pushed"]).is_empty(), name != "post-receive");
    }
}

/// Previously, hooks that hang in one repository held all of `serve.maxPushes`.
#[test]
fn hooks_that_hang_in_one_repository_stop_no_push_to_another() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    repo.config("http.receivepack", "true");
    let copied = Command::new("cp").arg("-a").arg(repo.git_dir()).arg(repo.scratch().join("other")).status().unwrap();
    assert!(copied.success());
    hook(&repo, "pre-receive", "echo >>../hanging; while ! test -e ../go; do sleep 0.01; done");
    let server = Options::root(repo.scratch()).set("maxPushes", 6).set("queueSeconds", 60).start();
    let main = repo.rev_parse("refs/heads/main");
    let hanging = || fs::read_to_string(repo.scratch().join("hanging")).unwrap_or_default().len();
    std::thread::scope(|scope| {
        // Ten times as many as `serve.maxPushes`.
        for at in 0..60 {
            let server = &server;
            scope.spawn(move || {
                let answer = server.ask(&request(&format!("refs/heads/hang/{at}"), NULL, main));
                assert!(answer.text().contains("ok refs"), "{}", answer.text());
            });
        }
        wait_for("the hooks hang", || hanging() == 4);
        for at in 0..20 {
            let mut request = request(&format!("refs/heads/free/{at}"), NULL, main);
            request.target = "/other/git-receive-pack".into();
            assert!(server.ask(&request).text().contains("ok refs"));
        }
        assert_eq!(hanging(), 4);
        fs::write(repo.scratch().join("go"), "").unwrap();
    });
    assert_eq!(hanging(), 60);
}

/// Previously, the 512 threads that the runtime has by default bounded the pushes.
#[test]
fn as_many_pushes_are_received_at_a_time_as_the_setting_says() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    repo.config("http.receivepack", "true");
    let mut options = Options::root(repo.scratch()).set("queueSeconds", 5).descriptors(16_384);
    for name in ["maxPushes", "maxPushesPerClient", "maxPushesPerRepository"] {
        options = options.set(name, 600);
    }
    let server = options.start();
    let main = repo.rev_parse("refs/heads/main");
    let begun = Request::post("repo", "git-receive-pack", "00").with("Content-Length", "1000").bytes();
    let held: Vec<_> = (0..530)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(&begun).unwrap();
            stream
        })
        .collect();
    let threads = || fs::read_dir(format!("/proc/{}/task", server.id())).unwrap().count();
    wait_for("each push has a thread", || threads() > held.len());
    let answer = server.ask(&request("refs/heads/pushed", NULL, main));
    assert!(answer.text().contains("ok refs/heads/pushed"), "{answer:?}");
    drop(held);
}

#[test]
fn a_client_that_leaves_before_its_request_is_complete_has_changed_nothing() {
    let (repo, server) = served(RefFormat::Files);
    let main = repo.rev_parse("refs/heads/main");
    let whole = request("refs/heads/pushed", NULL, main).bytes();
    for cut in [whole.len() - 1, whole.len() - 30, whole.len() - 60] {
        let mut stream = server.connect();
        stream.write_all(&whole[..cut]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(repo.git(["for-each-ref", "refs/heads/pushed"]), "");
    assert!(server.ask(&request("refs/heads/pushed", NULL, main)).text().contains("ok refs/heads/pushed"));
}

#[test]
fn what_receive_pack_leaves_to_git_is_still_left_to_git() {
    let (repo, server) = served(RefFormat::Files);
    let main = repo.rev_parse("refs/heads/main");
    hook(&repo, "post-receive", "tr '\\0' ' ' </proc/$PPID/cmdline >>../receivers; echo >>../receivers");
    // The first push is left to git because of a setting, before its request is read; the second one after its first
    // lines were read, because the client is shallow.
    repo.config("receive.certNonceSeed", "seed");
    assert!(server.ask(&request("refs/heads/one", NULL, main)).text().contains("ok refs/heads/one"));
    let advertised = server.ask(&Request::discovery("repo", "git-receive-pack")).text();
    assert!(advertised.contains("push-cert="), "{advertised}");
    repo.git(["config", "--unset", "receive.certNonceSeed"]);
    let shallow = format!("shallow {main}");
    let command = format!("{NULL} {main} refs/heads/two\0 report-status");
    let mut push = request("refs/heads/two", NULL, main);
    let pack = push.body.split_off(push.body.windows(4).position(|at| at == b"PACK").unwrap());
    push.body = [packets(&[&shallow, &command, "0000"]), pack].concat();
    assert!(server.ask(&push).text().contains("ok refs/heads/two"));
    let receivers = fs::read_to_string(repo.scratch().join("receivers")).unwrap();
    assert_eq!(receivers.lines().count(), 2);
    assert!(receivers.lines().all(|line| line.contains(" receive-pack ")), "{receivers}");
}
