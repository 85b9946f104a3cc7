//! Clients of other projects list, clone and fetch, and push if they can: see `tests/clients/README.md`.

use crate::support::{Options, Server, exported};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A client of another project.
struct OtherClient {
    /// The program with its first arguments.
    words: Vec<PathBuf>,
    /// Whether its pushes name the ids of new values instead of refs.
    pushes_ids: bool,
}

impl OtherClient {
    fn new<const N: usize>(words: [PathBuf; N]) -> Self {
        OtherClient { words: words.into(), pushes_ids: false }
    }

    fn try_run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(words).env("GIT_CONFIG_NOSYSTEM", "1");
        command.output().unwrap()
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.try_run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {} {said}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the refs below `refs/` that the client shows of a server, in order.
    fn list(&self, url: &str) -> Vec<String> {
        let refs = self.run(&["list", url]);
        let is_ref = |line: &&str| line.contains("\trefs/") && !line.ends_with("^{}");
        let mut lines: Vec<String> = refs.lines().filter(is_ref).map(String::from).collect();
        lines.sort_by(|a, b| a.split('\t').nth(1).cmp(&b.split('\t').nth(1)));
        lines
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Returns the server's refs as [`OtherClient::list`] returns them.
fn refs_of(repo: &Repo) -> Vec<String> {
    let refs = repo.refs().into_iter().filter(|listed| listed.name != "HEAD");
    refs.map(|listed| format!("{}\t{}", listed.oid, listed.name)).collect()
}

/// Lists, clones and fetches with a client from a server in each format, and pushes to it if the client can.
fn use_all(client: &OtherClient, can_push: bool) {
    for format in RefFormat::ALL {
        let hosted = exported(format, HashKind::Sha1);
        hosted.config("http.receivepack", "true");
        let server = Options::root(hosted.scratch()).start();
        let url = server.url("repo");
        assert_eq!(client.list(&url), refs_of(&hosted), "{format:?}");

        let folder = hosted.scratch().join("cloned");
        let to = folder.to_str().unwrap();
        client.run(&["clone", &url, to]);
        let fsck = Git::find().command(&folder).args(["fsck", "--strict"]).output().unwrap();
        assert!(fsck.status.success(), "{fsck:?}");
        let cloned = |name: &str| {
            let output = Git::find().command(&folder).args(["rev-parse", name]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        assert_eq!(cloned("HEAD"), hosted.rev_parse("refs/heads/main").to_string());

        // The next poll and the next fetch see what another writer has done.
        let newer = hosted.commits(5)[4];
        hosted.git(["update-ref", "refs/heads/main", &newer.to_string()]);
        assert_eq!(client.list(&url), refs_of(&hosted), "{format:?}");
        client.run(&["fetch", &url, to]);
        assert_eq!(cloned("refs/from/main"), newer.to_string());
        if can_push {
            push(client, &server, &hosted, &folder);
        }
        assert_eq!(server.errors(), "");
    }
}

/// Creates, changes and deletes a branch, and tries a push that a hook refuses.
fn push(client: &OtherClient, server: &Server, hosted: &Repo, folder: &Path) {
    let (url, git) = (server.url("repo"), Git::find());
    let in_clone = |words: &[&str]| {
        let output = git.command(folder).args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let push = |id: &str, name: &str| {
        let source = match id {
            "" => String::new(),
            id if client.pushes_ids => id.to_owned(),
            id => {
                in_clone(&["update-ref", "refs/heads/source", id]);
                "refs/heads/source".to_owned()
            }
        };
        let output = client.try_run(&["push", &url, folder.to_str().unwrap(), &format!("{source}:{name}")]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let hosted_ref =
        |name: &str| hosted.refs().into_iter().find(|listed| listed.name == name).map(|found| found.oid.to_string());
    let tree = in_clone(&["rev-parse", "HEAD^{tree}"]);
    let commit = |message: &str| {
        in_clone(&["-c", "user.name=A", "-c", "user.email=a@x", "commit-tree", "-p", "HEAD", "-m", message, &tree])
    };
    let (first, id) = (commit("first"), commit("second"));
    let second = in_clone(&[
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@x",
        "commit-tree",
        "-p",
        &first,
        "-p",
        &id,
        "-m",
        "third",
        &tree,
    ]);
    let said = push(&first, "refs/heads/mine");
    assert_eq!(hosted_ref("refs/heads/mine"), Some(first), "{said}");
    let said = push(&second, "refs/heads/mine");
    assert_eq!(hosted_ref("refs/heads/mine"), Some(second), "{said}");
    let said = push("", "refs/heads/mine");
    assert_eq!(hosted_ref("refs/heads/mine"), None, "{said}");

    let hook = hosted.git_dir().join("hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho hooks say no >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let said = push(&id, "refs/heads/no");
    assert!(said.contains("hook declined"), "{said}");
    assert_eq!(hosted_ref("refs/heads/no"), None);
    hosted.git(["fsck", "--strict"]);
}

#[test]
fn libgit2() {
    use_all(&OtherClient::new(["/usr/bin/python3".into(), source("libgit2.py")]), true);
}

#[test]
fn dulwich() {
    let client = OtherClient::new(["/usr/bin/python3".into(), source("dulwich_client.py")]);
    use_all(&OtherClient { pushes_ids: true, ..client }, true);
}

fn succeed(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

#[test]
#[ignore = "needs Go, and downloads modules: `make test-long` runs it"]
fn go_git() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-git-client");
    succeed(Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(source("go-git")));
    use_all(&OtherClient::new([program]), true);
}

#[test]
#[ignore = "needs Node.js, and downloads packages: `make test-long` runs it"]
fn isomorphic_git() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("isomorphic-git");
    fs::create_dir_all(&folder).unwrap();
    for name in ["main.js", "package.json", "package-lock.json"] {
        fs::copy(source("isomorphic-git").join(name), folder.join(name)).unwrap();
    }
    succeed(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit"]).current_dir(&folder));
    use_all(&OtherClient::new(["node".into(), folder.join("main.js")]), true);
}

#[test]
#[ignore = "compiles all of gitoxide: `make test-long` runs it"]
fn gitoxide() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gitoxide");
    let mut build = Command::new("cargo");
    build.args(["build", "--locked", "--target-dir"]).arg(&target).current_dir(source("gitoxide"));
    succeed(&mut build);
    use_all(&OtherClient::new([target.join("debug/gitoxide-client")]), false);
}
