use refdb_testkit::{Git, RefFormat, Repo, files_below};
use refdb_types::{HashKind, ObjectId};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

pub(crate) const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

/// A client with five commits in a row, and one commit aside.
pub(crate) struct Client {
    pub(crate) repo: Repo,
    pub(crate) commits: Vec<ObjectId>,
    /// The path of `git-receive-pack`, a symbolic link to refdb.
    pub(crate) receive_pack: PathBuf,
}

impl Client {
    pub(crate) fn new(hash: HashKind) -> Self {
        let repo = Repo::bare(RefFormat::Files, hash);
        let mut commits = repo.commits(5);
        commits.push(repo.commit());
        let receive_pack = repo.scratch().join("git-receive-pack");
        std::os::unix::fs::symlink(REFDB, &receive_pack).unwrap();
        Client { repo, commits, receive_pack }
    }

    /// Runs `git push` to a server that answers with git's receive-pack or with refdb's.
    pub(crate) fn push(&self, server: &Repo, by_refdb: bool, words: &[String]) -> Output {
        let mut push = self.repo.command(Git::find().program());
        push.env("REFDB_GIT", Git::find().program()).arg("push").arg("--porcelain");
        if by_refdb {
            push.arg(format!("--receive-pack={}", self.receive_pack.display()));
        }
        push.arg(server.dir()).args(words).output().unwrap()
    }

    /// Pushes to refdb, which must succeed.
    pub(crate) fn push_ok(&self, server: &Repo, words: &[String]) -> Output {
        let output = self.push(server, true, words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

pub(crate) fn hook(server: &Repo, name: &str, script: &str) {
    let folder = server.git_dir().join("hooks");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Returns the number of refs of a server, besides HEAD.
pub(crate) fn refs(server: &Repo) -> usize {
    server.refs().iter().filter(|listed| listed.name.starts_with(b"refs/")).count()
}

/// Returns the quarantine folders in a server.
pub(crate) fn quarantines(server: &Repo) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(server.git_dir().join("objects")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| is_quarantine(path)).collect()
}

fn is_quarantine(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("tmp_objdir")
}

/// Requires that a push has left no ref, no object, no quarantine, no file with the reflog of a ref, and no lock
/// outside of `objects/`.
pub(crate) fn assert_untouched(server: &Repo, what: &str) {
    assert_eq!(server.refs(), [], "{what}");
    assert_eq!(server.git(["cat-file", "--batch-all-objects", "--batch-check"]), "", "{what}");
    assert_eq!(quarantines(server), [] as [PathBuf; 0], "{what}");
    let mut left = files_below(server.git_dir());
    // Git's maintenance, which a push may start, has a lock among the objects.
    let is_lock = |file: &str| file.ends_with(".lock") && !file.starts_with("objects/");
    left.retain(|file| is_lock(file) || file.starts_with("logs/refs/") || file.contains("/tmp_"));
    assert_eq!(left, [] as [String; 0], "{what}");
}

/// Writes a git that refuses receive-pack and runs every other command, and returns its path.
pub(crate) fn guard(server: &Repo) -> PathBuf {
    let file = server.scratch().join("guard");
    let git = Git::find().program().display();
    std::fs::write(&file, format!("#!/bin/sh\ntest \"$1\" != receive-pack && exec '{git}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    file
}

/// Names of the refs in the pushes that are compared with git's.
pub(crate) const NAMES: [&str; 10] = [
    "refs/heads/main",
    "refs/heads/a",
    "refs/heads/a/b",
    "refs/heads/a-b",
    "refs/heads/no",
    "refs/tags/v1",
    "refs/tags/a",
    "refs/hidden/x",
    "refs/changes/01/1/1",
    "refs/heads/link",
];

/// Two servers with the same content, one for git's receive-pack and one for refdb's.
pub(crate) struct Servers {
    pub(crate) git: Repo,
    pub(crate) refdb: Repo,
}

impl Servers {
    pub(crate) fn all(&self) -> [&Repo; 2] {
        [&self.git, &self.refdb]
    }

    pub(crate) fn assert_same(&self, what: &str) {
        let same = |words: &[&str]| {
            let [git, refdb] = self.all().map(|server| shown(server, &server.try_git(words, "")));
            assert_eq!(refdb, git, "{what}: {words:?}");
            git
        };
        let refs = same(&["for-each-ref", "--format=%(refname) %(objectname) %(symref)"]);
        same(&["cat-file", "--batch-all-objects", "--batch-check"]);
        same(&["fsck", "--strict", "--no-dangling"]);
        // Git shows a reflog only under the name of a ref that exists.
        let there = |name: &&str| refs.lines().any(|line| line.split(' ').next() == Some(*name));
        for name in NAMES.into_iter().filter(there).chain(["HEAD"]) {
            same(&["reflog", "show", "--format=%H %gs %ge", name, "--"]);
        }
        let [git, refdb] =
            self.all().map(|server| std::fs::read_to_string(server.scratch().join("calls")).unwrap_or_default());
        assert_eq!(refdb, git, "{what}: calls of hooks");
        assert!(quarantines(&self.refdb).is_empty(), "{what}");
    }
}

/// Returns what a program printed and how it ended, without the server's place, and of the `remote:` lines only those
/// of hooks and those with warnings and errors.
pub(crate) fn shown(server: &Repo, output: &Output) -> String {
    let text = [&output.stdout[..], b"--\n", &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).replace(server.dir().to_str().unwrap(), "SERVER");
    // Refdb adds where in the request an error is, and has its own words for the advice to users who have set nothing.
    let lines = text.lines().map(|line| line.split_once(" (in the packet at byte ").map_or(line, |(start, _)| start));
    let lines: Vec<_> = lines.filter(|line| !line.starts_with("remote: ") || is_no_advice(line)).collect();
    format!("{}\n{}", lines.join("\n"), output.status)
}

fn is_no_advice(line: &str) -> bool {
    let advice = ["By default, ", "The branch is checked out on", "Without the branch that"];
    let said = ["remote: hook ", "remote: warning: ", "remote: error: ", "remote: fatal: "];
    said.iter().any(|start| line.starts_with(start)) && !advice.iter().any(|words| line.contains(words))
}

/// Shell commands that log how a hook is called, and print it.
pub(crate) const NOTE: &str =
    "{ echo \"$0 $*\" | sed 's|.*/||'; env | grep ^GIT_PUSH_OPTION | sort; } >>../calls; echo \"hook $*\"";
