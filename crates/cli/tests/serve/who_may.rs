//! Tests what each user may see and change: the authorizer, secrets of proxies, links and exports decide.

use crate::support::{Answer, Options, Request, Server, export, exported, packets};
use bstr::ByteSlice;
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::Command,
};

/// A folder with copies of one repository.
struct Root(tempfile::TempDir);

impl Root {
    fn new(names: &[&str]) -> Self {
        let root = Root(tempfile::tempdir().unwrap());
        let repo = exported(RefFormat::Reftable, HashKind::Sha1);
        repo.config("receive.autogc", "false");
        names.iter().for_each(|name| root.put(&repo, name));
        root
    }

    fn put(&self, repo: &Repo, name: &str) {
        let status = Command::new("cp").arg("-a").arg(repo.git_dir()).arg(self.path(name)).status().unwrap();
        assert!(status.success());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// Three requests of a reader, and two of a user who pushes.
fn requests(repository: &str) -> [Request; 5] {
    [
        Request::discovery(repository, "git-upload-pack"),
        Request::discovery(repository, "git-upload-pack").with("Git-Protocol", "version=2"),
        Request::ls_refs(repository),
        Request::discovery(repository, "git-receive-pack"),
        Request::post(repository, "git-receive-pack", "0000"),
    ]
}

fn statuses(server: &Server, user: Option<&str>, repository: &str) -> Vec<u16> {
    requests(repository).iter().map(|request| server.ask_as(user, request).status).collect()
}

/// Returns an answer without its `Date` header.
fn timeless(mut answer: Answer) -> Answer {
    answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("date"));
    answer
}

/// `ann` may do everything, `bob` may read `a`, `eve` may do nothing, and others learn of nothing.
const RULES: &str = r#"read question
case $question in
  *'"user":"ann"'*) verdict=allow ;;
  *'"user":"bob"'*'/a","access":"read"'*) verdict=allow ;;
  *'"user":"eve"'*) verdict=deny ;;
  *) verdict=missing ;;
esac
echo "{\"verdict\":\"$verdict\"}""#;

#[test]
fn users_may_what_the_authorizer_says() {
    let root = Root::new(&["a", "b"]);
    let program = root.program("rules", RULES);
    let server = Options::root(root.0.path()).set("authorize", program.display()).start();
    for repository in ["a", "b"] {
        assert_eq!(statuses(&server, Some("ann"), repository), [200; 5]);
        assert_eq!(statuses(&server, Some("eve"), repository), [403; 5]);
        assert_eq!(statuses(&server, None, repository), [404; 5]);
    }
    assert_eq!(statuses(&server, Some("bob"), "a"), [200, 200, 200, 404, 404]);
    assert_eq!(statuses(&server, Some("bob"), "b"), [404; 5]);
}

#[test]
fn a_hidden_repository_looks_like_one_that_does_not_exist() {
    let root = Root::new(&["a"]);
    let program = root.program("rules", RULES);
    let server = Options::root(root.0.path()).set("authorize", program.display()).start();
    let more = ["HEAD", "git-upload-archive", "objects/info/packs", "nothing", "info/refs"];
    for method in ["GET", "POST"] {
        for ending in more {
            let [hidden, none] = ["a", "c"].map(|name| Request::new(method, &format!("/{name}/{ending}")));
            let answer = |request| timeless(server.ask_as(Some("bad"), request));
            assert_eq!(answer(&hidden), answer(&none), "{method} {ending}");
        }
    }
    for wrong in ["", "text/plain"] {
        let [hidden, none] = ["a", "c"].map(|name| {
            let request = Request::new("POST", &format!("/{name}/git-upload-pack"));
            timeless(server.ask_as(Some("bad"), &request.with("Content-Type", wrong).body("0000")))
        });
        assert_eq!(hidden, none, "{wrong}");
    }
    for (hidden, none) in requests("a").iter().zip(&requests("c")) {
        assert_eq!(timeless(server.ask_as(None, hidden)), timeless(server.ask_as(None, none)));
    }
}

#[test]
fn a_hidden_repository_stays_hidden_if_it_is_broken_or_busy() {
    let root = Root::new(&["a", "b"]);
    fs::write(root.path("b/config"), "[core\n").unwrap();
    let program = root.program("rules", RULES);
    let server = Options::root(root.0.path())
        .set("authorize", program.display())
        .set("maxRequestsPerRepository", 1)
        .set("idleSeconds", 600)
        .start();
    let answer = |name: &str, user| timeless(server.ask_as(Some(user), &Request::ls_refs(name)));
    let none = answer("c", "bad");
    assert_eq!(none.status, 404);
    assert_eq!((answer("b", "bad"), answer("b", "ann").status), (none.clone(), 500));
    // A request of another user is in progress.
    let begun = Request::post("a", "git-upload-pack", "00").with("Git-Protocol", "version=2");
    let begun = begun.with("Content-Length", "1000").with("X-Remote-User", "ann");
    let end = std::time::Instant::now() + refdb_testkit::at_most(std::time::Duration::from_secs(60));
    let mut streams = Vec::new();
    while answer("a", "ann").status != 503 {
        // One that arrived during a question of this loop was refused itself.
        let mut stream = server.connect_as_proxy();
        stream.write_all(&begun.bytes()).unwrap();
        streams.push(stream);
        assert!(std::time::Instant::now() < end, "{}", server.errors());
    }
    assert_eq!(answer("a", "bad"), none);
}

#[test]
fn a_repository_whose_path_the_authorizer_cannot_be_told_is_not_shown() {
    let root = Root::new(&["a"]);
    let odd = root.0.path().join(std::ffi::OsStr::from_bytes(b"a\xff"));
    fs::rename(root.path("a"), &odd).unwrap();
    let program = root.program("rules", "echo '{\"verdict\":\"allow\"}'");
    let server = Options::root(root.0.path()).set("authorize", program.display()).start();
    assert_eq!(server.ask(&Request::ls_refs("a%ff")).status, 404);
    let server = Options::root(root.0.path()).start();
    assert_eq!(server.ask(&Request::ls_refs("a%ff")).status, 200);
}

#[test]
fn headers_of_a_proxy_with_control_characters_are_refused() {
    let root = Root::new(&["a"]);
    let server = Options::root(root.0.path()).start();
    let discovery = Request::discovery("a", "git-receive-pack");
    for value in ["a\tb", "a\u{9b}2J", "a\u{85}"] {
        for name in ["X-Remote-User", "X-Remote-Addr"] {
            let answer = server.ask_as(None, &discovery.clone().with(name, value));
            assert_eq!(answer.status, 400, "{name} {value:?}");
        }
    }
}

#[test]
fn the_authorizer_may_be_a_socket_and_hide_refs_and_choose_a_namespace() {
    let root = Root::new(&["a"]);
    let repo = root.path("a");
    let hook = repo.join("hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nenv >../seen\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let socket = root.path("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut question = String::new();
            BufReader::new(&stream).read_line(&mut question).unwrap();
            let answer = match question.contains("\"user\":\"ann\"") {
                true => {
                    r#"{"verdict":"allow","hide_refs":["refs/heads/old"],"environment":{"GL_USER":"ann s","GIT_COMMITTER_NAME":"A N N"}}"#
                }
                false => r#"{"verdict":"allow","namespace":"team"}"#,
            };
            writeln!(&stream, "{answer}").unwrap();
        }
    });
    let server = Options::root(root.0.path()).set("authorize", socket.display()).start();
    for request in [Request::ls_refs("a"), Request::discovery("a", "git-upload-pack")] {
        let text = server.ask_as(Some("ann"), &request).text();
        assert!(text.contains("refs/heads/main") && !text.contains("refs/heads/old"), "{text}");
        let text = server.ask_as(Some("bob"), &request).text();
        assert!(!text.contains("refs/heads/main"), "the namespace is empty: {text}");
    }
    let push = |name: &str| {
        let (null, id) = ("0".repeat(40), head(&repo));
        let command = format!("{null} {id} refs/heads/{name}\0 report-status");
        let pack =
            b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";
        Request::post("a", "git-receive-pack", [&packets(&[&command, "0000"])[..], pack].concat())
    };
    let answer = server.ask_as(Some("ann"), &push("by-ann").with("X-Remote-Addr", "2001:db8::7"));
    assert!(answer.text().contains("ok refs/heads/by-ann"), "{answer:?}");
    let seen = fs::read_to_string(root.path("seen")).unwrap();
    for variable in [
        "GL_USER=ann s",
        "REMOTE_USER=ann",
        "REMOTE_ADDR=2001:db8::7",
        "GIT_COMMITTER_NAME=A N N",
        "GIT_COMMITTER_EMAIL=ann@http.2001:db8::7",
    ] {
        assert!(seen.lines().any(|line| line == variable), "{variable}: {seen}");
    }
    let text = server.ask_as(Some("bob"), &push("by-bob")).text();
    assert!(text.contains("ok refs/heads/by-bob"), "{text}");
    let text = server.ask_as(Some("bob"), &Request::ls_refs("a")).text();
    assert!(text.contains("refs/heads/by-bob"), "{text}");
    let text = server.ask_as(Some("ann"), &Request::ls_refs("a")).text();
    assert!(text.contains("refs/namespaces/team/refs/heads/by-bob"), "{text}");
}

fn head(repo: &Path) -> String {
    let output = refdb_testkit::Git::find().command(repo).args(["rev-parse", "refs/heads/main"]).output().unwrap();
    output.stdout.trim().to_str().unwrap().to_owned()
}

#[test]
fn headers_of_a_user_are_believed_only_from_a_proxy() {
    let root = Root::new(&["a"]);
    let server = Options::root(root.0.path()).start();
    let discovery = Request::discovery("a", "git-receive-pack");
    let forged = discovery.clone().with("X-Remote-User", "ann").with("X-Remote-Addr", "2001:db8::7");
    assert_eq!(server.ask(&forged).status, 403);
    assert_eq!(server.ask(&forged.clone().with("Remote-User", "ann").with("Authorization", "Basic YTpi")).status, 403);
    assert_eq!(server.ask_as(Some("ann"), &discovery).status, 200);
    assert_eq!(server.ask_as(None, &discovery).status, 403);
    assert_eq!(server.ask_as(Some(""), &discovery).status, 403);
    for name in ["X-Remote-User", "x-remote-user", "X-REMOTE-ADDR"] {
        let twice = discovery.clone().with(name, "ann").with(name, "ann");
        assert_eq!(server.ask_as(None, &twice).status, 400, "{name}");
        let one_empty = discovery.clone().with(name, "").with(name, "ann");
        assert_eq!(server.ask_as(None, &one_empty).status, 400, "{name}");
        assert_eq!(server.ask(&twice).status, 403, "a TCP client's header is ignored, even if it occurs twice");
    }
    // As with git, a user may have any name that is text.
    assert_eq!(server.ask_as(Some("a\u{e9}"), &discovery).status, 200);
}

#[test]
fn a_proxy_may_prove_itself_by_a_secret() {
    let root = Root::new(&["a"]);
    let server = Options::root(root.0.path()).set("proxySecret", "open sesame").start();
    let forged = Request::discovery("a", "git-receive-pack").with("X-Remote-User", "ann");
    assert_eq!(server.ask(&forged).status, 403);
    for wrong in ["", "open", "open sesame!", "Open sesame"] {
        assert_eq!(server.ask(&forged.clone().with("X-Refdb-Secret", wrong)).status, 403, "{wrong:?}");
    }
    let proxy = forged.with("X-Refdb-Secret", "open sesame");
    assert_eq!(server.ask(&proxy).status, 200);
    assert_eq!(server.ask(&proxy.clone().with("X-Remote-User", "bob")).status, 400);
    let twice = proxy.with("X-Refdb-Secret", "open sesame");
    assert_eq!(server.ask(&twice).status, 400, "two secrets prove nothing");
}

#[test]
fn links_lead_out_of_the_roots_only_if_that_is_allowed() {
    let (root, outside) = (Root::new(&["a"]), Root::new(&["x", "y"]));
    symlink(outside.path("x"), root.path("link")).unwrap();
    symlink(outside.0.path(), root.path("folder")).unwrap();
    fs::write(root.path("file"), format!("gitdir: {}\n", outside.path("y").display())).unwrap();
    symlink("a", root.path("inside")).unwrap();
    let status = |server: &Server, name: &str| server.ask(&Request::ls_refs(name)).status;
    let server = Options::root(root.0.path()).start();
    for (name, wanted) in [("link", 404), ("folder/x", 404), ("file", 404), ("inside", 200), ("a", 200)] {
        assert_eq!(status(&server, name), wanted, "{name}");
    }
    let server = Options::root(root.0.path()).set("allowTarget", outside.path("x").display()).start();
    for (name, wanted) in [("link", 200), ("folder/x", 200), ("file", 404), ("folder/y", 404)] {
        assert_eq!(status(&server, name), wanted, "{name}");
    }
    // A link that is turned while the server runs.
    fs::remove_file(root.path("link")).unwrap();
    symlink(outside.path("y"), root.path("link")).unwrap();
    assert_eq!(status(&server, "link"), 404);
}

#[test]
fn only_exported_repositories_are_served_unless_all_are() {
    let root = Root::new(&["a", "b"]);
    fs::remove_file(root.path("a/git-daemon-export-ok")).unwrap();
    let status = |server: &Server, name: &str| server.ask(&Request::ls_refs(name)).status;
    let server = Options::root(root.0.path()).start();
    assert_eq!((status(&server, "a"), status(&server, "b")), (404, 200));
    export(&root.path("a"));
    assert_eq!(status(&server, "a"), 200);
    fs::remove_file(root.path("a/git-daemon-export-ok")).unwrap();
    let all = Options::root(root.0.path()).word("--export-all").start();
    assert_eq!((status(&server, "a"), status(&all, "a")), (404, 200));
}

#[test]
fn roots_with_prefixes_do_not_mix() {
    let (one, other) = (Root::new(&["a"]), Root::new(&["b"]));
    let prefixed = format!("team={}", other.0.path().display());
    let server = Options::root(one.0.path()).word("--root").word(prefixed).start();
    for (name, wanted) in [("a", 200), ("team/b", 200), ("b", 404), ("team/a", 404), ("team", 404), ("teamb", 404)] {
        assert_eq!(server.ask(&Request::ls_refs(name)).status, wanted, "{name}");
    }
}
