//! Sends each request to `refdb serve` and to `git http-backend`, whose answers must have the same status, body and
//! five of the headers, except where a case expects another status.

use crate::support::{Answer, Backend, DAMAGED, Options, Request, Server, damaged, export, gzip, masked, packets};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::path::Path;

/// A request, who sends it, and what is expected.
struct Case {
    what: String,
    request: Request,
    user: Option<&'static str>,
    expected: Expected,
}

#[derive(Clone, Copy)]
enum Expected {
    /// What git answers.
    Same,
    /// Another status, for this reason.
    Other(u16, &'static str),
}

use Expected::{Other, Same};

const NO_DUMB_HTTP: &str = "the dumb protocol is out of scope, so it is like git's with http.getanyfile off";
const BROKEN: &str = "git calls a gitfile that leads nowhere an internal error";
const BAD_GZIP: &str = "git has already begun its answer, and ends it without a word";
const BAD_PATH: &str = "a server should not have to interpret such a path";

#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, user: Option<&'static str>, request: Request, expected: Expected) {
        let what = format!("{user:?} {} {} {:?}", request.method, request.target, request.headers);
        self.0.push(Case { what, request, user, expected });
    }

    fn same(&mut self, request: Request) {
        self.add(None, request, Same);
    }

    /// Requests with several methods and endings of paths, and what only clients of the dumb protocol ask for.
    fn routes(&mut self) {
        let endings = [
            "info/refs?service=git-upload-pack",
            "git-upload-pack",
            "git-receive-pack",
            "git-upload-archive",
            "nothing",
            "info",
            "",
        ];
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"] {
            for ending in endings {
                self.same(Request::new(method, &format!("/plain.git/{ending}")));
            }
        }
        for ending in ["HEAD", "info/refs", "objects/info/packs", "objects/info/alternates"] {
            let target = format!("/plain.git/{ending}");
            self.add(None, Request::get(&target), Other(403, NO_DUMB_HTTP));
            self.add(None, Request::new("POST", &target), Same);
            self.add(None, Request::get(&format!("/none.git/{ending}")), Same);
            self.add(None, Request::get(&format!("/unexported.git/{ending}")), Same);
        }
        let id = "0123456789".repeat(4);
        for file in [
            format!("{}/{}", &id[..2], &id[2..]),
            format!("pack/pack-{id}.pack"),
            format!("pack/pack-{id}.idx"),
            "info/http-alternates".to_owned(),
        ] {
            let request = Request::get(&format!("/plain.git/objects/{file}"));
            self.add(None, request, Other(403, NO_DUMB_HTTP));
        }
        for file in ["objects/01/2", "objects/pack/x.pack", "objects/XY/0", "refs/heads/main", "config", "info/refs/"] {
            self.same(Request::get(&format!("/plain.git/{file}")));
        }
    }

    /// Discovery with many ways to name a service, right and wrong.
    fn queries(&mut self) {
        for query in [
            "service=git-receive-pack",
            "service=git-upload-pack&service=git-receive-pack",
            "service=git-receive-pack&service=git-upload-pack",
            "a=b&service=git-upload-pack",
            "service=git-upload-pack&a",
            "service=git%2Dupload%2dpack",
            "ser%76ice=git-upload-pack",
            "&&service=git-upload-pack",
        ] {
            self.same(Request::get(&format!("/plain.git/info/refs?{query}")));
        }
        for query in ["service=git-upload-archive", "service=git-no-pack", "service=", "service", "service=upload-pack"]
        {
            self.same(Request::get(&format!("/plain.git/info/refs?{query}")));
        }
        for query in [
            "",
            "SERVICE=git-upload-pack",
            "x=git-upload-pack",
            // The item after a key without a value is its value.
            "&service=git-upload-pack",
            "a&service=git-upload-pack",
        ] {
            self.add(None, Request::get(&format!("/plain.git/info/refs?{query}")), Other(403, NO_DUMB_HTTP));
        }
    }

    /// Discovery and an empty request for both services of each of these repositories, with and without a user; and
    /// paths that refdb does not interpret.
    fn repositories(&mut self, names: &[&str]) {
        for name in names {
            for user in [None, Some("eve")] {
                for service in ["git-upload-pack", "git-receive-pack"] {
                    let expected = if *name == "broken" { Other(404, BROKEN) } else { Same };
                    self.add(user, Request::discovery(name, service), expected);
                    self.add(user, Request::post(name, service, "0000"), expected);
                }
            }
        }
        for path in ["/plain.git/", "/", "", "//plain.git", "/./plain.git", "/x/../plain.git", "/plain.git/."] {
            let request = Request::discovery(path, "git-upload-pack");
            self.add(None, request, Other(404, BAD_PATH));
        }
    }

    fn versions(&mut self) {
        for version in [
            "version=0",
            "version=1",
            "version=2",
            "version=1:version=2",
            "version=2:version=1",
            "version=3",
            "version=3:version=1",
            "version=02",
            "Version=2",
            "key:version=2:key=value",
            "version",
            ":",
        ] {
            for service in ["git-upload-pack", "git-receive-pack"] {
                self.add(Some("eve"), Request::discovery("plain.git", service).with("Git-Protocol", version), Same);
            }
        }
    }

    fn types(&mut self) {
        for kind in [
            "application/x-git-upload-pack-request; charset=utf-8",
            "Application/X-Git-Upload-Pack-Request",
            "application/x-git-receive-pack-request",
            "text/plain",
            "",
        ] {
            let request = Request::new("POST", "/plain.git/git-upload-pack").with("Content-Type", kind);
            self.same(request.body("0000"));
        }
        self.same(Request::new("POST", "/plain.git/git-upload-pack").body("0000"));
        self.same(Request::new("POST", "/none.git/git-upload-pack").body("0000"));
        self.same(Request::new("POST", "/closed.git/git-upload-pack").body("0000"));
    }

    /// Requests to upload-pack, right and wrong.
    fn fetches(&mut self, tip: &ObjectId, parent: &ObjectId) {
        let unknown = "1".repeat(40);
        let want = |id: &str, more: &str| format!("want {id} no-progress{more}\n");
        let (tip, parent) = (tip.to_string(), parent.to_string());
        for lines in [
            &[&want(&tip, "")[..], "0000", "done\n"][..],
            &[&want(&tip, " side-band-64k ofs-delta"), "0000", &format!("have {parent}\n"), "done\n"],
            &[&want(&tip, " multi_ack_detailed side-band-64k"), "0000", &format!("have {parent}\n"), "0000"],
            &[&want(&tip, " side-band-64k"), "0000"],
            &[&want(&parent, " side-band-64k"), "0000", "done\n"],
            &[&want(&unknown, " side-band-64k"), "0000", "done\n"],
            &[&want(&unknown, ""), "0000", "done\n"],
            &[&want(&tip, " shallow"), "deepen 1\n", "0000", "done\n"],
            &["wont x\n", "0000"],
            &["want x\n", "0000"],
            &["0000"],
            &["0001"],
            &[],
        ] {
            for version in ["version=0", "version=1"] {
                self.same(Request::post("plain.git", "git-upload-pack", packets(lines)).with("Git-Protocol", version));
            }
        }
        let want = |id: &str| format!("want {id}\n");
        for lines in [
            &["command=ls-refs\n", "0001", "peel\n", "symrefs\n", "unborn\n", "0000"][..],
            &["command=ls-refs\n", "0000"],
            &["command=ls-refs", "0001", "ref-prefix refs/tags/", "peel", "0000"],
            &["command=ls-refs\n", "agent=x\n", "object-format=sha1\n", "0001", "0000"],
            &["command=ls-refs\n", "object-format=sha256\n", "0001", "0000"],
            &["command=ls-refs\n", "no-such-capability\n", "0001", "0000"],
            &["command=ls-refs\n", "session-id=x\n", "0001", "0000"],
            &["command=ls-refs\n", "server-option=x\n", "0001", "0000"],
            &["command=ls-refs\n", "0001", "no-such-argument\n", "0000"],
            &["command=ls-refs\n", "0001", "ref-prefix\n", "0000"],
            &["command=ls-refs\n", "0001", "peel", "0001"],
            &["command=ls-refs\n", "0001", "peel"],
            &["command=ls-refs\n", "command=ls-refs\n", "0001", "0000"],
            &["command=ls-refs\n", "0001", "0000", "command=ls-refs\n", "0001", "ref-prefix refs/tags/", "0000"],
            &["agent=x\n", "command=ls-refs\n", "0001", "0000"],
            &["command=no-such-command\n", "0000"],
            &["command=ls-refs=x\n", "0000"],
            &["agent=x\n", "0000"],
            &["ls-refs\n", "0000"],
            &["0000"],
            &["0001"],
            &["0002"],
            &[],
            &["command=fetch\n", "0001", &want(&tip), "no-progress\n", "done\n", "0000"],
            &["command=fetch\n", "0001", &want(&tip), &format!("have {parent}\n"), "no-progress\n", "0000"],
            &["command=fetch\n", "0001", &want(&unknown), "done\n", "0000"],
            &["command=fetch\n", "0001", "want-ref refs/heads/main\n", "done\n", "0000"],
            &["command=object-info\n", "0001", "size\n", "0000"],
            &["command=bundle-uri\n", "0000"],
        ] {
            self.same(v2(packets(lines)));
        }
        for body in ["0003", "00zz", "zzzz", "000", "0", "ffff", "0014command=ls-ref", "0008\0\0\0\0", "GET / HTTP/1.1"]
        {
            self.same(v2(body));
            self.same(Request::post("plain.git", "git-upload-pack", body));
        }
    }

    /// Lists of refs that git refuses, or whose lines git takes to end before they do.
    fn strange_lists(&mut self) {
        for line in ["ref-prefix refs/heads/\0x\n", "peel\0\n", "unborn\0x\n", "nothing\0\n"] {
            self.same(v2(packets(&["command=ls-refs\n", "0001", line, "ref-prefix refs/tags/\n", "0000"])));
            let list = packets(&["command=ls-refs\n", "0001", "symrefs\n", line, "0000"]);
            self.same(Request::post("unborn.git", "git-upload-pack", list).with("Git-Protocol", "version=2"));
        }
        for lines in [&["command=ls-refs\n", "0001", "unborn\n", "0000"][..], &["command=ls-refs\n", "0001", "0000"]] {
            let list = Request::post("unborn.git", "git-upload-pack", packets(lines));
            self.same(list.with("Git-Protocol", "version=2"));
        }
    }

    fn gzipped(&mut self, tip: &ObjectId) {
        let list = gzip(&packets(&["command=ls-refs\n", "0001", "peel\n", "0000"]));
        let want = format!("want {tip} no-progress\n");
        let fetch = packets(&["command=fetch\n", "0001", &format!("want {tip}\n"), "no-progress\n", "done\n", "0000"]);
        let fetch_v0 = packets(&[&want, "0000", "done\n"]);
        for coding in ["gzip", "x-gzip"] {
            self.same(v2(list.clone()).with("Content-Encoding", coding));
            self.same(v2(gzip(&fetch)).with("Content-Encoding", coding));
            let old = Request::post("plain.git", "git-upload-pack", gzip(&fetch_v0));
            self.same(old.with("Content-Encoding", coding));
        }
        self.same(v2(list.clone()).with("Content-Encoding", "identity"));
        for bad in [&list[..list.len() / 2], b"no gzip at all", b""] {
            self.add(None, v2(bad).with("Content-Encoding", "gzip"), Other(400, BAD_GZIP));
            let old = Request::post("plain.git", "git-upload-pack", bad).with("Content-Encoding", "gzip");
            self.add(None, old, Other(400, BAD_GZIP));
        }
        for part in DAMAGED {
            let old = Request::post("plain.git", "git-upload-pack", damaged(gzip(&fetch_v0), part));
            for request in [v2(damaged(list.clone(), part)), v2(damaged(gzip(&fetch), part)), old] {
                self.add(None, request.with("Content-Encoding", "gzip"), Other(400, BAD_GZIP));
            }
        }
    }

    /// Requests to receive-pack, right and wrong.
    fn pushes(&mut self, tip: &ObjectId) {
        let null = "0".repeat(40);
        let command = |name: &str, more: &str| format!("{null} {tip} refs/heads/{name}\0 report-status{more}");
        for (user, repository) in [(Some("eve"), "plain.git"), (None, "open.git"), (None, "plain.git")] {
            let push = |body: Vec<u8>| Request::post(repository, "git-receive-pack", body);
            // An empty pack, which git's client sends too.
            let pack: Vec<u8> = [&b"PACK\0\0\0\x02\0\0\0\0"[..], &EMPTY_PACK_SUM].concat();
            for (name, more) in [("new", ""), ("side", " side-band-64k"), ("bad..name", ""), ("main", "")] {
                let body = [packets(&[&command(name, more), "0000"]), pack.clone()].concat();
                self.add(user, push(body), Same);
            }
            let zipped = [packets(&[&command("zipped", ""), "0000"]), pack.clone()].concat();
            self.add(user, push(gzip(&zipped)).with("Content-Encoding", "gzip"), Same);
            self.add(user, push(packets(&[&command("short", ""), "0000"])), Same);
            self.add(user, push(packets(&["nothing", "0000"])), Same);
            self.add(user, push(b"00zz".to_vec()), Same);
            self.add(user, push(Vec::new()), Same);
            let version = push(packets(&["0000"])).with("Git-Protocol", "version=2");
            self.add(user, version, Same);
        }
    }
}

/// The SHA-1 at the end of a pack without objects.
const EMPTY_PACK_SUM: [u8; 20] = [
    0x02, 0x9d, 0x08, 0x82, 0x3b, 0xd8, 0xa8, 0xea, 0xb5, 0x10, 0xad, 0x6a, 0xc7, 0x5c, 0x82, 0x3c, 0xfd, 0x3e, 0xd3,
    0x1e,
];

fn v2(body: impl Into<Vec<u8>>) -> Request {
    Request::post("plain.git", "git-upload-pack", body).with("Git-Protocol", "version=2")
}

/// Creates the repositories that requests name below a folder, most of them copies of one, and returns its commits.
fn fill(root: &Path, format: RefFormat) -> Vec<ObjectId> {
    let repo = Repo::bare(format, HashKind::Sha1);
    let commits = repo.commits(4);
    let tag = repo.tag_object(commits[1], "v1");
    let tag_of_tag = repo.tag_object(tag, "v2");
    repo.create_refs([("refs/heads/main", commits[3]), ("refs/heads/old", commits[1])]);
    repo.create_refs([("refs/tags/v1", tag), ("refs/tags/v2", tag_of_tag)]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/old"]);
    repo.config("receive.autogc", "false");
    let copy = |name: &str| {
        let status = std::process::Command::new("cp").arg("-a").arg(repo.git_dir()).arg(root.join(name)).status();
        assert!(status.unwrap().success());
        root.join(name)
    };
    let set = |folder: &Path, key: &str, value: &str| {
        let status = Git::find().command(folder).args(["config", key, value]).status();
        assert!(status.unwrap().success());
    };
    for name in ["plain.git", "suffix", "open.git", "closed.git", "both.git", "false.git", "unborn.git"] {
        export(&copy(name));
    }
    copy("unexported.git");
    set(&root.join("open.git"), "http.receivepack", "true");
    set(&root.join("closed.git"), "http.uploadpack", "false");
    set(&root.join("false.git"), "http.receivepack", "false");
    set(&root.join("both.git"), "http.uploadpack", "true");
    set(&root.join("unborn.git"), "lsrefs.unborn", "no such value");
    std::fs::create_dir(root.join("tree")).unwrap();
    export(&copy("tree/.git"));
    std::fs::create_dir(root.join("file")).unwrap();
    std::fs::write(root.join("file/.git"), "gitdir: ../plain.git\n").unwrap();
    std::fs::write(root.join("broken"), "gitdir: ../nowhere\n").unwrap();
    std::fs::create_dir(root.join("folder.git")).unwrap();
    export(&root.join("folder.git"));
    commits
}

/// The repositories that are asked for, by the names in requests.
const NAMES: [&str; 14] = [
    "plain",
    "suffix",
    "open.git",
    "closed.git",
    "both.git",
    "false.git",
    "unexported.git",
    "tree",
    "tree/.git",
    "file",
    "broken",
    "folder.git",
    "none.git",
    "%70lain.git",
];

fn differs(case: &Case, ours: &Answer, gits: &Answer) -> Option<String> {
    if let Other(status, why) = case.expected {
        if gits.status == status {
            return Some(format!("{}: git agrees, so this is no exception: {why}", case.what));
        }
        return (ours.status != status).then(|| format!("{}: {} instead of {status}: {why}", case.what, ours.status));
    }
    let headers = ["Content-Type", "Expires", "Pragma", "Cache-Control", "Allow"];
    let shown = |answer: &Answer| {
        let headers = headers.map(|name| format!("{name}: {:?}", answer.header(name)));
        format!("{} {headers:?} {}", answer.status, masked(&answer.body))
    };
    let (ours, gits) = (shown(ours), shown(gits));
    (ours != gits).then(|| format!("{}\n  ours: {ours:?}\n  git:  {gits:?}", case.what))
}

fn all_cases(commits: &[ObjectId]) -> Vec<Case> {
    let mut cases = Cases::default();
    cases.routes();
    cases.queries();
    cases.repositories(&NAMES);
    cases.versions();
    cases.types();
    cases.fetches(&commits[3], &commits[1]);
    cases.strange_lists();
    cases.gzipped(&commits[3]);
    cases.pushes(&commits[2]);
    cases.0
}

fn compare(server: &Server, backend: &Backend, cases: &[Case]) -> Vec<String> {
    let compared = cases.iter().map(|case| {
        let mut decoded = case.request.clone();
        decoded.target = decoded.target.replacen("%70", "p", 1);
        let (ours, gits) = (server.ask_as(case.user, &case.request), backend.ask(case.user, &decoded));
        differs(case, &ours, &gits)
    });
    compared.flatten().collect()
}

#[test]
fn every_request_is_answered_as_by_http_backend() {
    for format in RefFormat::ALL {
        let temp = tempfile::tempdir().unwrap();
        let roots = ["ours", "gits"].map(|name| temp.path().join(name));
        let commits = roots.each_ref().map(|root| {
            std::fs::create_dir(root).unwrap();
            fill(root, format)
        });
        let server = Options::root(&roots[0]).start();
        let backend = Backend::new(&roots[1], &server.home);
        let cases = all_cases(&commits[0]);
        assert!(cases.len() > 200, "{}", cases.len());
        // Pushes change the repositories, so the cases stay in their order. Few cases depend on the format of refs, so
        // every third suffices for reftables.
        let cases: Vec<_> = cases.into_iter().step_by(if format == RefFormat::Files { 1 } else { 3 }).collect();
        let different = compare(&server, &backend, &cases);
        assert!(different.is_empty(), "{} of {}:\n{}", different.len(), cases.len(), different.join("\n"));
    }
}
