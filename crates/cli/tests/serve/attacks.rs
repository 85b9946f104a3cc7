//! Clients that send nonsense, too much, or nothing: they get an error or the end of their connection, and others are
//! served as before.

use crate::support::{Answer, DAMAGED, Options, Request, Server, damaged, exported, gzip, packets};
use refdb_testkit::{RefFormat, Repo, at_most};
use refdb_types::HashKind;
use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    time::{Duration, Instant},
};

/// Much longer than anything here takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// Less than the defaults of `serve.queueSeconds`, `serve.idleSeconds`, `serve.requestSeconds` and
/// `serve.drainSeconds`, which are 30 seconds or more.
pub(crate) const BELOW_DEFAULT: Duration = Duration::from_secs(25);

pub(crate) fn served(options: impl FnOnce(Options) -> Options) -> (Repo, Server) {
    let repo = exported(RefFormat::Reftable, HashKind::Sha1);
    repo.config("http.receivepack", "true");
    let server = options(Options::root(repo.scratch())).start();
    (repo, server)
}

pub(crate) fn assert_alive(server: &Server) {
    let answer = server.ask(&Request::ls_refs("repo"));
    assert!(answer.status == 200 && answer.text().contains("refs/heads/main"), "{answer:?} {}", server.errors());
}

/// Sends bytes, and returns everything that comes back up to the end of the connection.
fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut stream = server.connect();
    let _ = stream.write_all(bytes);
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the statuses of all answers in a text.
fn statuses(text: &str) -> Vec<u16> {
    text.split("HTTP/1.1 ").skip(1).map(|part| part[..3].parse().unwrap()).collect()
}

/// Begins a fetch that remains in progress, because most of its body does not come.
fn hanging(server: &Server, version: &str) -> TcpStream {
    let request = Request::post("repo", "git-upload-pack", "00").with("Git-Protocol", version);
    let mut stream = server.connect();
    stream.write_all(&request.with("Content-Length", "1000").bytes()).unwrap();
    stream
}

/// Begins a fetch of which so much comes that the server starts git, which then waits for the end of the request.
fn hanging_in_git(server: &Server, repo: &Repo) -> TcpStream {
    let id = repo.rev_parse("refs/heads/main");
    let mut body = packets(&[&format!("want {id}\n"), "0000"]);
    // One packet is 50 bytes.
    (0..6000).for_each(|_| body.extend_from_slice(&packets(&[&format!("have {id}\n")])));
    let length = (body.len() + 1000).to_string();
    let mut stream = server.connect();
    let request = Request::post("repo", "git-upload-pack", body).with("Content-Length", &length);
    stream.write_all(&request.bytes()).unwrap();
    stream
}

#[test]
fn whoever_sends_slowly_keeps_no_git_from_others() {
    let (repo, server) = served(|options| options.set("maxFetches", 1).set("queueSeconds", 5));
    let want = format!("want {}\n", repo.rev_parse("refs/heads/main"));
    let begin = packets(&[&want, "0000"]);
    let held: Vec<_> = (0..20)
        .map(|_| {
            let request = Request::post("repo", "git-upload-pack", begin.clone()).with("Content-Length", "1000");
            let mut stream = server.connect();
            stream.write_all(&request.bytes()).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let whole = packets(&[&want, "0000", "done\n"]);
    assert_eq!(server.ask(&Request::post("repo", "git-upload-pack", whole)).status, 200);
    drop(held);
}

/// Waits until the server closes a connection, and returns how long that took.
fn end_of(mut stream: TcpStream) -> Duration {
    let start = Instant::now();
    let _ = stream.read_to_end(&mut Vec::new());
    start.elapsed()
}

#[test]
fn whoever_says_nothing_is_left() {
    let (_repo, server) = served(|options| options.set("idleSeconds", 1));
    let mut streams: Vec<_> = (0..20).map(|_| server.connect()).collect();
    // One byte does not tell which version of HTTP it is.
    streams.iter_mut().take(10).for_each(|stream| stream.write_all(b"P").unwrap());
    assert!(streams.into_iter().all(|stream| end_of(stream) < at_most(BELOW_DEFAULT)));
    assert_alive(&server);
}

#[test]
fn whoever_sends_slowly_is_left() {
    let (_repo, server) = served(|options| options.set("idleSeconds", 1));
    let mut streams: Vec<_> = (0..50).map(|_| server.connect()).collect();
    // A header that never ends, one byte after the other.
    for byte in b"GET /repo/info/refs HTTP/1.1\r\nX: y" {
        streams.iter_mut().for_each(|stream| drop(stream.write_all(&[*byte])));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_alive(&server);
    let bodies = ["version=0", "version=2"].map(|version| hanging(&server, version));
    assert_alive(&server);
    for stream in streams.into_iter().chain(bodies) {
        assert!(end_of(stream) < at_most(BELOW_DEFAULT));
    }
    assert_alive(&server);
    let late = Answer::read(hanging(&server, "version=2"), false);
    assert_eq!(late.status, 408);
}

/// Previously, a client that sent a byte now and then kept its turn for as long as it liked.
#[test]
fn whoever_keeps_sending_slowly_is_left_too() {
    let (repo, server) = served(|options| options.set("requestSeconds", 2).set("maxPushes", 3).with_metrics());
    let line = format!("{0} {0} refs/heads/slow\0 report-status", repo.rev_parse("refs/heads/main"));
    let body = packets(&[&line, "0000"]);
    // Ten times as many as may push at a time, each about to send for a minute.
    let mut streams: Vec<_> = (0..30)
        .map(|_| {
            let request = Request::post("repo", "git-receive-pack", "").with("Content-Length", &body.len().to_string());
            let mut stream = server.connect();
            stream.write_all(&request.bytes()).unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    for byte in &body {
        streams.iter_mut().for_each(|stream| drop(stream.write_all(&[*byte])));
        std::thread::sleep(Duration::from_millis(500));
        if start.elapsed() > Duration::from_secs(3) {
            break;
        }
    }
    let first = Answer::read(streams.swap_remove(0), false);
    assert!(start.elapsed() < at_most(BELOW_DEFAULT), "{:?}", start.elapsed());
    assert_eq!(first.status, 408);
    drop(streams);
    let mut push = packets(&[&line, "0000"]);
    push.extend_from_slice(EMPTY_PACK);
    assert_eq!(server.ask(&Request::post("repo", "git-receive-pack", push)).status, 200);
    let metrics = server.metrics();
    assert!(metrics.contains("requests_total{operation=\"push\",status=\"408\"}"), "{metrics}");
}

/// A pack without objects.
const EMPTY_PACK: &[u8] =
    b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

#[test]
fn connections_beyond_the_limit_wait_for_their_turn() {
    let (_repo, server) = served(|options| options.set("maxConnections", 4).set("idleSeconds", 2));
    let idle: Vec<_> = (0..40).map(|_| server.connect()).collect();
    let mut asking = server.connect();
    asking.write_all(&Request::ls_refs("repo").bytes()).unwrap();
    asking.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(asking.read(&mut [0; 1]).is_err(), "there is no room for it yet");
    drop(idle);
    asking.set_read_timeout(Some(at_most(Duration::from_secs(60)))).unwrap();
    assert_eq!(Answer::read(asking, false).status, 200);
}

#[test]
fn requests_beyond_a_limit_are_told_to_come_again() {
    let limits = ["maxRequests", "maxRequestsPerClient", "maxRequestsPerRepository"];
    for limit in limits {
        let (_repo, server) = served(|options| options.set(limit, 3).with_metrics());
        let held: Vec<_> = (0..3).map(|_| hanging(&server, "version=2")).collect();
        server.await_in_progress(3);
        // A request counts as in progress a little before it takes its place.
        let end = Instant::now() + at_most(LONG);
        while server.ask(&Request::ls_refs("repo")).status != 503 {
            assert!(Instant::now() < end, "{limit} limits nothing");
        }
        for _ in 0..30 {
            let answer = server.ask(&Request::ls_refs("repo"));
            assert_eq!((answer.status, answer.header("Retry-After")), (503, Some("1")), "{limit}");
        }
        let other = server.ask_as(Some("ann"), &Request::ls_refs("repo")).status;
        assert_eq!(other, if limit == "maxRequestsPerClient" { 200 } else { 503 }, "{limit}");
        drop(held);
        assert_alive_soon(&server);
    }
}

/// Asserts that the server soon serves requests again. It notices a little later that clients have closed their
/// connections.
fn assert_alive_soon(server: &Server) {
    let end = Instant::now() + at_most(LONG);
    while server.ask(&Request::ls_refs("repo")).status != 200 {
        assert!(Instant::now() < end, "{}", server.errors());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn fetches_and_pushes_beyond_a_limit_wait_and_then_give_up() {
    let options = |options: Options| options.set("maxFetches", 1).set("maxPushes", 1).set("queueSeconds", 1);
    let (repo, server) = served(options);
    let held = hanging_in_git(&server, &repo);
    await_children(&server, 1);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let fetch = || server.ask(&Request::post("repo", "git-upload-pack", "0000"));
        let waiting: Vec<_> = (0..10).map(|_| scope.spawn(fetch)).collect();
        // What needs no git is answered meanwhile, and pushes have a queue of their own.
        assert_alive(&server);
        assert_eq!(server.ask(&Request::post("repo", "git-receive-pack", "0000")).status, 200);
        for answer in waiting.into_iter().map(|thread| thread.join().unwrap()) {
            assert_eq!((answer.status, answer.header("Retry-After")), (503, Some("1")));
        }
    });
    let within = Duration::from_millis(900)..at_most(BELOW_DEFAULT);
    assert!(within.contains(&start.elapsed()), "{:?}", start.elapsed());
    drop(held);
    // On a busy machine the end of the client may be noticed after a second.
    let (fetch, end) = (Request::post("repo", "git-upload-pack", "0000"), Instant::now() + at_most(LONG));
    while server.ask(&fetch).status != 200 {
        assert!(Instant::now() < end, "the place of a client that has left stays taken");
    }
}

#[test]
fn a_client_whose_fetches_never_end_leaves_places_to_others() {
    let options = |options: Options| options.set("maxFetches", 3).set("maxFetchesPerClient", 2).set("queueSeconds", 2);
    let (repo, server) = served(options);
    let copied =
        std::process::Command::new("cp").arg("-a").arg(repo.git_dir()).arg(repo.scratch().join("other")).status();
    assert!(copied.unwrap().success());
    let held: Vec<_> = (0..6).map(|_| hanging_in_git(&server, &repo)).collect();
    await_children(&server, 2);
    let fetch = Request::post("other", "git-upload-pack", "0000");
    assert_eq!(server.ask_as(Some("ann"), &fetch).status, 200);
    assert_eq!(server.ask(&fetch).status, 503);
    assert_eq!(children(&server), 2);
    drop(held);
}

#[test]
fn long_requests_that_wait_for_git_take_bounded_memory() {
    let (repo, server) = served(|options| options.set("maxFetches", 1).set("queueSeconds", 4));
    let held = hanging_in_git(&server, &repo);
    await_children(&server, 1);
    let want = format!("want {}\n", repo.rev_parse("refs/heads/main"));
    let long = format!("shallow {}\n", "x".repeat(60_000));
    let body = gzip(&[packets(&[&want]), packets(&vec![&long[..]; 125]), b"0000".to_vec()].concat());
    let request = Request::post("repo", "git-upload-pack", body).with("Content-Encoding", "gzip");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..80).map(|_| scope.spawn(|| server.ask(&request).status)).collect();
        assert!(waiting.into_iter().all(|thread| thread.join().unwrap() == 503));
    });
    drop(held);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 450 << 10, "{peak}");
}

#[test]
fn whoever_asks_too_often_is_told_when_to_come_again() {
    let (_repo, server) = served(|options| options.set("rate", 1).set("burst", 5));
    let start = Instant::now();
    let answers: Vec<_> = (0..50).map(|_| server.ask(&Request::ls_refs("repo"))).collect();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    // The requests of the burst, and one for each second that all requests have taken, the last, partial one included.
    let most_taken = 5 + 1 + start.elapsed().as_secs() as usize;
    let taken = answers.len() - refused.len();
    assert!((5..=most_taken).contains(&taken), "{taken} were taken in {:?}", start.elapsed());
    assert!(refused.iter().all(|answer| answer.header("Retry-After").is_some()));
    assert_eq!(server.ask_as(Some("ann"), &Request::ls_refs("repo")).status, 200);
}

#[test]
fn headers_are_bounded() {
    let (_repo, server) = served(|options| options);
    let discovery = || Request::discovery("repo", "git-upload-pack");
    let huge = discovery().with("X-Huge", &"x".repeat(1 << 20));
    let many = (0..1000).fold(discovery(), |request, at| request.with(&format!("X-{at}"), "x"));
    let long = Request::get(&format!("/repo/{}/info/refs?service=git-upload-pack", "a".repeat(1 << 20)));
    for (request, wanted) in [(huge, [431, 0]), (many, [431, 0]), (long, [414, 431])] {
        let status = server.ask(&request).status;
        assert!(wanted.contains(&status), "{status}");
    }
    assert_eq!(server.ask(&discovery().with("X-Large", &"x".repeat(30 << 10))).status, 200);
    assert_alive(&server);
}

#[test]
fn requests_on_one_connection_are_answered_in_their_order() {
    let (_repo, server) = served(|options| options);
    let keep = |request: Request| request.with("Connection", "keep-alive").bytes();
    let missing = keep(Request::discovery("none", "git-upload-pack"));
    let bytes = [keep(Request::ls_refs("repo")), missing, Request::discovery("repo", "git-upload-pack").bytes()];
    assert_eq!(statuses(&exchange(&server, &bytes.concat())), [200, 404, 200]);
    // A body that is not read must not be taken for the next request.
    let refused = keep(Request::post("none", "git-upload-pack", Request::ls_refs("repo").bytes()));
    let text = exchange(&server, &[refused, Request::ls_refs("repo").bytes()].concat());
    assert!(!text.contains("refs/heads/main") || statuses(&text) == [404, 200], "{text}");
    assert_eq!(statuses(&text)[0], 404);
}

#[test]
fn a_request_cannot_be_hidden_in_another() {
    let (_repo, server) = served(|options| options.set("idleSeconds", 1));
    let hidden = "GET /repo/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let start = "POST /repo/git-upload-pack HTTP/1.1\r\nHost: x\r\nGit-Protocol: version=2\r\n";
    let length = hidden.len() + 5;
    let framings = [
        format!("Content-Length: 5\r\nContent-Length: {length}"),
        format!("Content-Length: {length}, 5"),
        format!("Content-Length: +{length}"),
        "Content-Length: -1".to_owned(),
        "Content-Length: 99999999999999999999999".to_owned(),
        format!("Content-Length : {length}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"),
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"),
        format!("Transfer-Encoding: xchunked\r\nContent-Length: {length}"),
        "Transfer-Encoding: chunked, identity".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity".to_owned(),
        "Transfer-Encoding\r\n : chunked".to_owned(),
    ];
    let framed = framings.map(|framing| format!("{start}{framing}\r\n\r\n0\r\n\r\n{hidden}"));
    let sizes = ["5;\0\r\n", "fffffffffffffffff\r\n", "-5\r\n", "0x5\r\n", "5 5\r\n", " 5\r\n", "5\n"];
    let chunks = sizes.map(|size| format!("{start}Transfer-Encoding: chunked\r\n\r\n{size}hello{hidden}"));
    std::thread::scope(|scope| {
        for request in framed.iter().chain(&chunks) {
            let server = &server;
            scope.spawn(move || {
                let text = exchange(server, request.as_bytes());
                assert!(statuses(&text).len() <= 1, "{request}: {text}");
            });
        }
    });
    assert_alive(&server);
}

/// Previously, such a list was sent and such a push could be done, because nobody waited for the end of the request.
#[test]
fn a_request_whose_check_sum_is_wrong_has_no_effect() {
    let (repo, server) = served(|options| options.set("maxPushes", 1));
    let tip = repo.rev_parse("refs/heads/main");
    let zipped = |service, body| Request::post("repo", service, body).with("Content-Encoding", "gzip");
    let list = gzip(&packets(&["command=ls-refs\n", "0001", "0000"]));
    for (number, part) in DAMAGED.into_iter().enumerate() {
        let request = zipped("git-upload-pack", damaged(list.clone(), part));
        let listed = server.ask(&request.with("Git-Protocol", "version=2"));
        let name = format!("refs/heads/new-{number}");
        let commands = packets(&[&format!("{} {tip} {name}\0 report-status", "0".repeat(40)), "0000"]);
        let push = gzip(&[&commands, EMPTY_PACK].concat());
        let bytes = zipped("git-receive-pack", damaged(push.clone(), part)).bytes();
        let (begin, end) = bytes.split_at(bytes.len() - 8);
        let mut stream = server.connect();
        stream.write_all(begin).unwrap();
        // Previously, the push was done by then.
        std::thread::sleep(Duration::from_millis(500));
        let _ = stream.write_all(end);
        Answer::read(stream, false);
        // This push waits until the one before it has ended, and is refused if that has created the ref.
        let report = server.ask(&zipped("git-receive-pack", push)).text();
        assert!(report.contains(&format!("ok {name}\n")), "{report}");
        assert_eq!(listed.status, 400);
    }
}

#[test]
fn a_body_that_grows_is_cut() {
    let (repo, server) = served(|options| options.set("maxRequestBytes", "1m"));
    let line = format!("ref-prefix {}\n", "x".repeat(1000));
    let bomb = gzip(&[packets(&["command=ls-refs\n", "0001"]), packets(&[&line[..]; 32_000])].concat());
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    let request = |version| {
        let request = Request::post("repo", "git-upload-pack", bomb.clone()).with("Content-Encoding", "gzip");
        server.ask(&request.with("Git-Protocol", version))
    };
    assert_eq!(request("version=2").status, 413);
    assert!(request("version=0").body.len() < 1000);
    // These are sound requests, of which git has read a part when the limit is reached or the data ends in the middle.
    let id = repo.git(["rev-parse", "HEAD"]);
    let haves = packets(&["have 1111111111111111111111111111111111111111\n"; 30_000]);
    let sound = gzip(&[packets(&[&format!("want {id} no-done\n")]), b"0000".to_vec(), haves].concat());
    let asking = |body: &[u8]| {
        let request = Request::post("repo", "git-upload-pack", body.to_vec()).with("Content-Encoding", "gzip");
        server.ask(&request).status
    };
    assert_eq!(asking(&sound), 413);
    assert_eq!(asking(&sound[..sound.len() / 2]), 400);
    let plain = packets(&[&line[..]; 2000]);
    let plain = [packets(&["command=ls-refs\n", "0001"]), plain].concat();
    let request = Request::post("repo", "git-upload-pack", plain).with("Git-Protocol", "version=2");
    assert!([413, 0].contains(&server.ask(&request).status));
    assert_alive(&server);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 200 << 10, "{peak}");
}

#[test]
fn refs_that_fit_into_no_packet_are_left_out_of_lists() {
    let repo = exported(RefFormat::Reftable, HashKind::Sha1);
    repo.config("reftable.blockSize", "400000");
    // The components are long, because git compares each part of a name with other names.
    let name = |start: &str, length: usize| {
        let part = format!("/{}", "x".repeat(199));
        let name = format!("refs/{start}{}", part.repeat(length / 200 - 1));
        format!("{name}{}", "x".repeat(length - name.len()))
    };
    let [long, too_long] = [name("long", 40_000), name("too-long", 70_000)];
    // Without the id to which the tag leads, the line would fit.
    let barely_too_long = name("barely", 65_460);
    let [main, tag] = ["refs/heads/main", "refs/tags/v1"].map(|name| repo.rev_parse(name));
    let names = [(&barely_too_long, tag), (&long, main), (&too_long, main)];
    let creations: String = names.iter().map(|(name, id)| format!("create {name} {id}\n")).collect();
    let links = ["refs/heads/link", &name("link", 30_000)].map(|link| format!("symref-update {link} {long}\n"));
    repo.git_with_input(["update-ref", "--stdin"], creations + &links.concat());
    let server = Options::root(repo.scratch()).start();
    let assert_shown = |request: &Request| {
        let answer = server.ask(request);
        assert!(answer.status == 200 && answer.is_complete && answer.body.ends_with(b"0000"), "{}", server.errors());
        for (name, is_shown) in [
            ("refs/heads/main", true),
            ("refs/heads/link", true),
            ("refs/link/", request.method == "GET"),
            (&long, true),
            (&barely_too_long, false),
            (&too_long, false),
        ] {
            let found = answer.text().contains(&format!(" {name}"));
            assert_eq!(found, is_shown, "{} {}", &name[..name.len().min(20)], name.len());
        }
    };
    for head in ["refs/heads/main", &long, &too_long] {
        repo.git(["symbolic-ref", "HEAD", head]);
        assert_shown(&Request::ls_refs("repo"));
        assert_shown(&Request::discovery("repo", "git-upload-pack"));
    }
    server.await_errors("too long");
    let said = server.errors();
    assert!(said.lines().all(|line| line.len() < 300), "{said}");
}

#[test]
fn encoded_paths_lead_nowhere() {
    let (repo, server) = served(|options| options);
    std::fs::create_dir(repo.scratch().join("a")).unwrap();
    for path in [
        "a/../repo",
        "a/%2e%2e/repo",
        "a/.%2E/repo",
        "a%2f..%2frepo",
        "%2frepo",
        "repo%00",
        "repo%00.git",
        "./repo",
        "%2e/repo",
        "a//../repo",
        "repo/",
        "/repo",
        "%252e%252e/repo",
        "repo%2",
        "repo%zz",
        "~root/repo",
        "repo/.",
        "repo/objects/..",
        "..%c0%af",
        "repo\\",
    ] {
        let status = server.ask(&Request::discovery(path, "git-upload-pack")).status;
        assert!([404, 400].contains(&status), "{path}: {status}");
    }
    for target in
        ["*", "http://localhost/../repo/info/refs", "repo/info/refs", "/repo/info/refs#x", "/repo\t/info/refs"]
    {
        let status = server.ask(&Request::get(target)).status;
        assert!([400, 403, 404, 0].contains(&status), "{target}: {status}");
    }
    assert_alive(&server);
}

/// Returns the number of programs that the server has started and that still run. A program that has ended does not
/// count, even if the server has yet to wait for it.
fn children(server: &Server) -> usize {
    let folder = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    let lists = folder.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let ids: Vec<String> =
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let runs = |id: &&String| {
        let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    ids.iter().filter(runs).count()
}

/// Waits until the server has started git for so many clients.
fn await_children(server: &Server, count: usize) {
    let end = Instant::now() + at_most(LONG);
    while children(server) < count {
        assert!(Instant::now() < end, "git is not started for each fetch");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn git_ends_when_its_client_leaves() {
    let (repo, server) = served(|options| options);
    let held: Vec<_> = (0..10).map(|_| hanging_in_git(&server, &repo)).collect();
    await_children(&server, held.len());
    drop(held);
    let end = Instant::now() + at_most(LONG);
    while children(&server) > 0 {
        assert!(Instant::now() < end, "git has no client left");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_body_is_invited_only_if_it_is_wanted() {
    let (_repo, server) = served(|options| options);
    let missing = Request::post("none", "git-upload-pack", "0000").with("Expect", "100-continue");
    assert_eq!(statuses(&exchange(&server, &missing.bytes())), [404]);
    let wanted = Request::post("repo", "git-upload-pack", "0000").with("Expect", "100-continue").bytes();
    let (head, body) = wanted.split_at(wanted.len() - 4);
    let mut stream = server.connect();
    stream.write_all(head).unwrap();
    let mut invitation = [0; 25];
    stream.read_exact(&mut invitation).unwrap();
    assert_eq!(invitation, *b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body).unwrap();
    assert_eq!(Answer::read(stream, false).status, 200);
}

#[test]
fn a_list_of_a_partial_clone_runs_nothing_that_the_repository_configures() {
    for format in RefFormat::ALL {
        let repo = exported(format, HashKind::Sha1);
        let mark = repo.scratch().join("mark");
        repo.config("core.repositoryFormatVersion", "1");
        repo.config("extensions.partialClone", "origin");
        repo.config("remote.origin.promisor", "true");
        repo.config("remote.origin.url", repo.scratch().join("nowhere").to_str().unwrap());
        repo.config("remote.origin.uploadpack", &format!("touch {};", mark.display()));
        // The tag is lost only after its ref is created, because git creates no ref to a missing object.
        let tag = repo.tag_object(repo.commit(), "lost");
        repo.create_refs([("refs/tags/lost", tag)]);
        let hex = tag.to_string();
        std::fs::remove_file(repo.git_dir().join("objects").join(&hex[..2]).join(&hex[2..])).unwrap();
        let server = Options::root(repo.scratch()).start();
        let body = packets(&["command=ls-refs\n", "0001", "peel\n", "0000"]);
        let request = Request::post("repo", "git-upload-pack", body).with("Git-Protocol", "version=2");
        assert!(server.ask(&request).text().contains("refs/tags/lost"), "{format:?}");
        assert!(!mark.exists(), "{format:?}");
    }
}

/// Previously, each request for such a repository kept a thread of the server for ever.
#[test]
fn a_pipe_in_the_place_of_a_file_holds_up_no_request() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    let server = Options::root(repo.scratch()).start();
    repo.git(["pack-refs", "--all"]);
    repo.git(["update-ref", "refs/heads/loose", "refs/heads/main"]);
    assert_alive(&server);
    for name in ["config", "HEAD", "commondir", "packed-refs", "refs/heads/loose"] {
        let (path, away) = (repo.git_dir().join(name), repo.scratch().join("away"));
        let is_there = path.exists();
        if is_there {
            std::fs::rename(&path, &away).unwrap();
        }
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let begun = Instant::now();
        let answer = server.ask(&Request::ls_refs("repo"));
        assert!(begun.elapsed() < BELOW_DEFAULT, "{name}: {answer:?}");
        std::fs::remove_file(&path).unwrap();
        if is_there {
            std::fs::rename(&away, &path).unwrap();
        }
        assert_alive(&server);
    }
}
