use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

pub(crate) const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

/// A client with a few commits, each but the first with the one before as its parent, and one aside.
pub(crate) struct Client {
    pub(crate) repo: Repo,
    pub(crate) commits: Vec<ObjectId>,
    /// git-receive-pack, a link to refdb.
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

    /// `git push` to a server: git's own, or ours.
    pub(crate) fn push(&self, server: &Repo, by_refdb: bool, words: &[String]) -> Output {
        let mut push = self.repo.command(Git::find().program());
        push.env("REFDB_GIT", Git::find().program()).arg("push").arg("--porcelain");
        if by_refdb {
            push.arg(format!("--receive-pack={}", self.receive_pack.display()));
        }
        push.arg(server.dir()).args(words).output().unwrap()
    }

    /// The same with refdb, which must succeed.
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

/// How many refs a server has, besides HEAD.
pub(crate) fn refs(server: &Repo) -> usize {
    server.refs().iter().filter(|listed| listed.name.starts_with(b"refs/")).count()
}

/// The quarantines in a server.
pub(crate) fn quarantines(server: &Repo) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(server.git_dir().join("objects")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| is_quarantine(path)).collect()
}

fn is_quarantine(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("tmp_objdir")
}

/// Nothing is left of a push that changed nothing: no ref, no object, no quarantine, and git finds no fault.
pub(crate) fn assert_untouched(server: &Repo, what: &str) {
    assert_eq!(server.refs(), [], "{what}");
    assert_eq!(server.git(["cat-file", "--batch-all-objects", "--batch-check"]), "", "{what}");
    assert_eq!(quarantines(server), [] as [PathBuf; 0], "{what}");
}

/// A git without receive-pack.
pub(crate) fn guard(server: &Repo) -> PathBuf {
    let file = server.scratch().join("guard");
    let git = Git::find().program().display();
    std::fs::write(&file, format!("#!/bin/sh\ntest \"$1\" != receive-pack && exec '{git}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    file
}
