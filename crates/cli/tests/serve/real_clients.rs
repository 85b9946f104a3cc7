//! Two versions of git clone, fetch and push, JGit pushes, and many clients do so at once.

use crate::support::{Options, Request, Server, exported, packets};
use refdb_testkit::{Git, JGit, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// Returns the paths of two gits: Debian's, and the one that is the oracle, built with HTTP.
fn gits() -> &'static [PathBuf; 2] {
    static FOUND: OnceLock<[PathBuf; 2]> = OnceLock::new();
    FOUND.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup/install-git");
        let output = Command::new(script).arg("--curl").output().unwrap();
        let folder = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        [PathBuf::from("/usr/bin/git"), folder.join("built/bin/git")]
    })
}

/// A server of one repository to which everyone may push, and a client.
struct Pair {
    hosted: Repo,
    server: Server,
    client: Repo,
    url: String,
}

impl Pair {
    fn new(format: RefFormat) -> Self {
        let hosted = exported(format, HashKind::Sha1);
        for (key, value) in [
            ("http.receivepack", "true"),
            ("receive.autogc", "false"),
            ("receive.advertisePushOptions", "true"),
            ("uploadpack.allowFilter", "true"),
        ] {
            hosted.config(key, value);
        }
        let server = Options::root(hosted.scratch()).start();
        let url = server.url("repo");
        Pair { hosted, server, client: Repo::bare(RefFormat::Files, HashKind::Sha1), url }
    }

    fn try_run(&self, git: &Path, words: &[&str]) -> Output {
        self.client.try_run(git, words, "")
    }

    fn run(&self, git: &Path, words: &[&str]) {
        let output = self.try_run(git, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {words:?}: {said}\n{}", git.display(), self.server.errors());
    }

    fn hook(&self, name: &str, script: &str) {
        let path = self.hosted.git_dir().join("hooks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns what the server has under a name, and `None` if there is no such ref.
    fn hosted(&self, name: &str) -> Option<ObjectId> {
        self.hosted.refs().into_iter().find(|listed| listed.name == name).map(|listed| listed.oid)
    }
}

fn refs_of(git_dir: &Path) -> String {
    let words = ["for-each-ref", "--format=%(refname) %(objectname)"];
    String::from_utf8(Git::find().command(git_dir).args(words).output().unwrap().stdout).unwrap()
}

#[test]
fn git_clones_and_fetches_in_every_way() {
    for format in RefFormat::ALL {
        let pair = Pair::new(format);
        let tip = pair.hosted.rev_parse("refs/heads/main");
        for (at, git) in gits().iter().enumerate() {
            for (version, kind) in [("0", "--mirror"), ("1", "--bare"), ("2", "--mirror"), ("2", "--filter=blob:none")]
            {
                let to = pair.client.scratch().join(format!("{at}{version}{kind}"));
                let version = format!("protocol.version={version}");
                pair.run(git, &["-c", &version, "clone", "-q", "--bare", kind, &pair.url, to.to_str().unwrap()]);
                if kind == "--mirror" {
                    assert_eq!(refs_of(&to), refs_of(pair.hosted.git_dir()), "{} {version}", git.display());
                }
                let fsck = Git::find().command(&to).args(["fsck", "--strict"]).output().unwrap();
                assert!(fsck.status.success(), "{fsck:?}");
            }
            let to = pair.client.scratch().join(format!("{at}-shallow"));
            pair.run(git, &["clone", "-q", "--bare", "--depth=1", &pair.url, to.to_str().unwrap()]);
            assert_eq!(fs::read_to_string(to.join("shallow")).unwrap().trim(), tip.to_string());
        }
    }
}

/// Regression: Debian's git, which needs the server's refs to deepen a history, deepened nothing when all refs were
/// hidden from it.
#[test]
fn a_shallow_clone_is_deepened_in_every_version() {
    for (at, git) in gits().iter().enumerate() {
        let mut pair = Pair::new(RefFormat::Files);
        pair.server = Options::root(pair.hosted.scratch()).variable("REFDB_GIT", git).start();
        pair.url = pair.server.url("repo");
        for version in ["0", "1", "2"] {
            let to = pair.client.scratch().join(format!("{at}-{version}"));
            let (to, version) = (to.to_str().unwrap(), format!("protocol.version={version}"));
            let count = || {
                let words = ["rev-list", "--count", "refs/heads/main"];
                let output = Git::find().command(Path::new(to)).args(words).output().unwrap();
                String::from_utf8(output.stdout).unwrap().trim().to_owned()
            };
            pair.run(git, &["-c", &version, "clone", "-q", "--bare", "--depth=1", &pair.url, to]);
            assert_eq!(count(), "1", "{} {version}", git.display());
            for commits in ["2", "3"] {
                pair.run(git, &["-C", to, "-c", &version, "fetch", "-q", "--deepen=1", "origin", "main"]);
                assert_eq!(count(), commits, "{} {version}", git.display());
            }
            pair.run(git, &["-C", to, "-c", &version, "fetch", "-q", "--shallow-exclude=old", "origin", "main"]);
            assert_eq!(count(), "1", "{} {version}", git.display());
        }
    }
}

#[test]
fn a_fetch_with_many_haves_is_compressed() {
    let pair = Pair::new(RefFormat::Reftable);
    let own = pair.client.commits(90);
    // Commits of the client that the server does not have.
    let script = format!("tree {}\ncommitter", pair.client.rev_parse(&format!("{}^{{tree}}", own[0])));
    let other: Vec<_> = (0..90)
        .map(|at| {
            let text =
                script.replace("committer", &format!("author A <a> {at} +0000\ncommitter C <c> {at} +0000\n\n{at}"));
            pair.client.git_with_input(["hash-object", "-t", "commit", "-w", "--stdin", "--literally"], text)
        })
        .collect();
    let updates: String = other.iter().map(|id| format!("create refs/heads/own/{id} {id}\n")).collect();
    pair.client.git_with_input(["update-ref", "--stdin"], updates);
    for git in gits() {
        for version in ["protocol.version=0", "protocol.version=2"] {
            pair.run(git, &["-c", version, "fetch", "-q", &pair.url, "+refs/*:refs/from/*"]);
            assert_eq!(pair.client.rev_parse("refs/from/heads/main"), pair.hosted.rev_parse("refs/heads/main"));
            pair.client.git(["update-ref", "-d", "refs/from/heads/main"]);
        }
    }
}

/// A ref that the server left out would look deleted.
#[test]
fn a_mirror_that_prunes_keeps_its_copies_of_refs_that_are_corrupt_on_the_server() {
    let pair = Pair::new(RefFormat::Files);
    let git = &gits()[1];
    // Previously, the server showed only the first thousand corrupt refs.
    let many: Vec<String> = (0..1_200).map(|at| format!("refs/heads/many/{at:04}")).collect();
    let [main, old] = ["main", "old"].map(|name| pair.hosted.rev_parse(&format!("refs/heads/{name}")));
    pair.hosted.create_refs(many.iter().map(|name| (&name[..], main)));
    let mirror = pair.client.scratch().join("mirror");
    let mirror = mirror.to_str().unwrap();
    pair.run(git, &["clone", "-q", "--mirror", &pair.url, mirror]);
    let before = refs_of(Path::new(mirror));
    let names: Vec<&str> = many.iter().map(|name| &name[..]).chain(["refs/heads/old"]).collect();
    let write = |name: &str, text: &str| {
        let file = pair.hosted.git_dir().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    names.iter().for_each(|name| write(name, "no id\n"));
    let zeros = format!("{} refs/heads/", ObjectId::null(HashKind::Sha1));
    assert_eq!(pair.server.ask(&Request::ls_refs("repo")).text().matches(&zeros).count(), names.len());
    for version in ["protocol.version=0", "protocol.version=2"] {
        let fetched = pair.try_run(git, &["--git-dir", mirror, "-c", version, "fetch", "-q", "--prune"]);
        assert!(!fetched.status.success(), "{fetched:?}");
        assert_eq!(refs_of(Path::new(mirror)), before);
    }
    for name in names {
        let id = if name == "refs/heads/old" { old } else { main };
        write(name, &format!("{id}\n"));
    }
    pair.run(git, &["--git-dir", mirror, "fetch", "-q", "--prune"]);
    assert_eq!(refs_of(Path::new(mirror)), before);
}

#[test]
fn git_pushes_in_every_way() {
    for (git, format) in gits().iter().zip(RefFormat::ALL) {
        let pair = Pair::new(format);
        let commits = pair.client.commits(6);
        let (url, refused) = (&pair.url[..], "echo said no; exit 1");
        let spec = |at: usize, name: &str| format!("{}:refs/heads/{name}", commits[at]);
        let push =
            |words: &[&str]| pair.try_run(git, &[&["push", "--porcelain", url], words].concat()).status.success();
        assert!(push(&[&spec(3, "new"), &spec(2, "other")]));
        assert_eq!(pair.hosted("refs/heads/new"), Some(commits[3]));
        assert!(push(&[&spec(5, "new")]) && !push(&[&spec(0, "new")]) && push(&["--force", &spec(0, "new")]));
        assert_eq!(pair.hosted("refs/heads/new"), Some(commits[0]));
        assert!(push(&[":refs/heads/other"]));
        assert_eq!(pair.hosted("refs/heads/other"), None);
        pair.hook("update", "case $1 in *no) exit 1 ;; esac");
        assert!(!push(&["--atomic", &spec(1, "yes"), &spec(1, "no")]));
        assert_eq!(pair.hosted("refs/heads/yes"), None);
        assert!(!push(&[&spec(1, "yes"), &spec(1, "no")]));
        assert_eq!((pair.hosted("refs/heads/yes"), pair.hosted("refs/heads/no")), (Some(commits[1]), None));
        pair.hook("pre-receive", "echo $GIT_PUSH_OPTION_0 >../option");
        assert!(push(&["--push-option=a b", &spec(2, "yes")]));
        assert_eq!(fs::read_to_string(pair.hosted.scratch().join("option")).unwrap(), "a b\n");
        pair.hook("pre-receive", refused);
        let output = pair.try_run(git, &["push", url, &spec(3, "yes")]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("remote: said no") && said.contains("pre-receive hook declined"), "{said}");
        assert_eq!(pair.hosted("refs/heads/yes"), Some(commits[2]));
        pair.hosted.git(["fsck", "--strict"]);
    }
}

#[test]
fn a_pack_larger_than_the_clients_buffer_comes_in_chunks() {
    let pair = Pair::new(RefFormat::Reftable);
    let mut random = refdb_testkit::Rng::new(1);
    let mut text = String::new();
    (0..60_000).for_each(|_| text.push_str(&format!("{:016x}", random.bits())));
    let blob = pair.client.blob(&text);
    for git in gits() {
        let name = format!("refs/tags/big-{}", git.to_str().unwrap().len());
        pair.run(git, &["-c", "http.postBuffer=1000", "push", "-q", &pair.url, &format!("{blob}:{name}")]);
        assert_eq!(pair.hosted(&name), Some(blob));
    }
    pair.hosted.git(["fsck", "--strict"]);
}

#[test]
fn jgit_pushes() {
    for format in RefFormat::ALL {
        let pair = Pair::new(format);
        let commits = pair.client.commits(3);
        for (at, commit) in commits.iter().enumerate() {
            pair.client.git(["update-ref", &format!("refs/heads/c{at}"), &commit.to_string()]);
        }
        let mut jgit = JGit::open(&pair.client);
        let said = jgit.push(&pair.url, &["refs/heads/c1:refs/heads/j1".into(), "refs/heads/c2:refs/heads/j2".into()]);
        assert_eq!(pair.hosted("refs/heads/j1"), Some(commits[1]), "{said:?}");
        let said = jgit.push(&pair.url, &[":refs/heads/j2".into()]);
        assert_eq!(pair.hosted("refs/heads/j2"), None, "{said:?}");
    }
}

/// Returns a request to receive-pack that creates a ref, or moves one, without new objects.
fn push_request(name: &str, old: Option<ObjectId>, new: ObjectId) -> Request {
    let old = old.unwrap_or(ObjectId::null(new.kind()));
    let command = format!("{old} {new} {name}\0 report-status");
    let pack =
        b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";
    Request::post("repo", "git-receive-pack", [&packets(&[&command, "0000"])[..], pack].concat())
}

/// Creates refs that no other thread writes, one after the other, and notes each that the server has acknowledged.
fn push_some(pair: &Pair, thread: usize, commits: &[ObjectId], acknowledged: &Mutex<Vec<String>>) {
    for round in 0..6 {
        let name = format!("refs/heads/by/{thread}/{round}");
        let new = commits[(thread + round) % commits.len()];
        let text = pair.server.ask(&push_request(&name, None, new)).text();
        assert!(text.contains(&format!("ok {name}")), "{text} {}", pair.server.errors());
        acknowledged.lock().unwrap().push(format!("{new} {name}"));
    }
}

/// Lists refs again and again. Each list has every ref that was acknowledged before it was asked for.
fn watch(pair: &Pair, acknowledged: &Mutex<Vec<String>>, is_over: &AtomicBool) {
    while !is_over.load(SeqCst) {
        let known = acknowledged.lock().unwrap().clone();
        for request in [Request::ls_refs("repo"), Request::discovery("repo", "git-upload-pack")] {
            let text = pair.server.ask(&request).text();
            let lost: Vec<_> = known.iter().filter(|line| !text.contains(&line[..])).collect();
            assert!(lost.is_empty(), "{lost:?}");
        }
    }
}

#[test]
fn many_clients_at_once_lose_nothing_and_see_everything() {
    for format in RefFormat::ALL {
        let pair = Pair::new(format);
        let commits = pair.hosted.commits(3);
        let (acknowledged, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let pushers: Vec<_> = (0..8)
                .map(|thread| {
                    let (pair, commits, acknowledged) = (&pair, &commits, &acknowledged);
                    scope.spawn(move || push_some(pair, thread, commits, acknowledged))
                })
                .collect();
            let cloner = scope.spawn(|| {
                let to = pair.client.scratch().join("clone");
                pair.run(&gits()[1], &["clone", "-q", "--mirror", &pair.url, to.to_str().unwrap()]);
            });
            (0..2).for_each(|_| drop(scope.spawn(|| watch(&pair, &acknowledged, &is_over))));
            let ended: Vec<_> = pushers.into_iter().chain([cloner]).map(|thread| thread.join()).collect();
            is_over.store(true, SeqCst);
            assert!(ended.iter().all(Result::is_ok), "{format:?}");
        });
        let refs = refs_of(pair.hosted.git_dir());
        let acknowledged = acknowledged.into_inner().unwrap();
        assert_eq!(acknowledged.len(), 48);
        for line in acknowledged {
            let (id, name) = line.split_once(' ').unwrap();
            assert!(refs.contains(&format!("{name} {id}")), "{line}: {refs}");
        }
        pair.hosted.verify();
    }
}

#[test]
fn of_many_pushes_of_one_ref_from_one_value_one_wins() {
    for format in RefFormat::ALL {
        let pair = Pair::new(format);
        let commits = pair.hosted.commits(2);
        for round in 0..3 {
            let name = format!("refs/heads/one-{round}");
            let texts: Vec<String> = std::thread::scope(|scope| {
                let send = || pair.server.ask(&push_request(&name, None, commits[0])).text();
                let threads: Vec<_> = (0..6).map(|_| scope.spawn(send)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let won = texts.iter().filter(|text| text.contains(&format!("ok {name}"))).count();
            assert_eq!(won, 1, "{texts:?}");
        }
    }
}
