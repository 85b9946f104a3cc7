//! Each server starts refdb when it is set up as docs/operating/receive-pack.md says.

use super::servers::{Hosted, Server};
use crate::common::{Client, quarantines, refs};
use refdb_testkit::{Git, RefFormat};
use refdb_types::HashKind;
use std::path::{Path, PathBuf};

/// Returns the path of Debian's own git, which can push over HTTP.
pub(super) fn old_git() -> PathBuf {
    let git = PathBuf::from("/usr/bin/git");
    assert!(git.is_file(), "no git of Debian's: run scripts/setup/install-packages git");
    git
}

/// Makes pushes that create, change and delete a branch, and one that a hook refuses.
fn push_all(client: &Client, git: &Path, server: &Server, hosted: &Hosted, options: &[String]) {
    let push = |words: &[String]| {
        let mut push = client.repo.command(git);
        // The git that is called finds its own programs.
        push.env_remove("GIT_EXEC_PATH").envs(server.ssh.iter().map(|ssh| ("GIT_SSH_COMMAND", ssh)));
        push.args(["push", "--porcelain"]).args(options).arg(&server.url).args(words).output().unwrap()
    };
    let commits = &client.commits;
    let refspec = |source: &str, name: &str| format!("{source}:refs/heads/{name}");
    for (at, words) in [
        vec![refspec(&commits[1].to_string(), "main"), refspec(&commits[2].to_string(), "other")],
        vec![refspec(&commits[4].to_string(), "main")],
        vec![refspec("", "other")],
    ]
    .iter()
    .enumerate()
    {
        let output = push(words);
        assert!(output.status.success(), "{}: {}", server.url, String::from_utf8_lossy(&output.stderr));
        hosted.assert_received(at + 1, &server.url);
    }
    let output = push(&[refspec(&commits[5].to_string(), "no")]);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(!output.status.success() && said.contains("pre-receive hook declined"), "{said}");
    assert!(said.contains("remote: hooks say no"), "{said}");
    assert_eq!(refs(&hosted.repo), 1);
    assert_eq!(hosted.repo.rev_parse("refs/heads/main"), commits[4]);
    assert!(quarantines(&hosted.repo).is_empty());
}

/// Starts a server, and pushes to it from a new client.
fn try_server(format: RefFormat, git: &Path, start: impl Fn(&Hosted) -> Server) {
    let (client, hosted) = (Client::new(HashKind::Sha1), Hosted::new(format));
    let server = start(&hosted);
    push_all(&client, git, &server, &hosted, &[]);
}

fn variable(name: &str, value: &Path) -> String {
    format!("SetEnv \"{name}={}\"", value.display())
}

#[test]
fn sshd_finds_the_link_in_its_path() {
    try_server(RefFormat::Reftable, Git::find().program(), |hosted| {
        let path = format!("{}:/usr/bin:/bin", hosted.links.display());
        let git = Git::find().program().display();
        hosted.sshd(&format!("SetEnv \"PATH={path}\" \"REFDB_GIT={git}\""))
    });
}

#[test]
fn sshd_runs_a_forced_command() {
    try_server(RefFormat::Files, &old_git(), |hosted| {
        let (git, repo) = (Git::find().program().display(), hosted.repo.dir().display());
        let link = hosted.links.join("git-receive-pack");
        hosted.sshd(&format!("SetEnv REFDB_GIT={git}\nForceCommand {} '{repo}'", link.display()))
    });
}

#[test]
fn git_shell_finds_it_in_git_s_folder() {
    try_server(RefFormat::Reftable, Git::find().program(), |hosted| {
        let shell = hosted.exec_path.join("git-shell");
        let settings = variable("GIT_EXEC_PATH", &hosted.exec_path);
        hosted.sshd(&format!("{settings}\nForceCommand '{}' -c \"$SSH_ORIGINAL_COMMAND\"", shell.display()))
    });
}

#[test]
fn git_daemon_finds_it_in_git_s_folder() {
    try_server(RefFormat::Files, Git::find().program(), Hosted::daemon);
}

#[test]
fn http_backend_finds_it_in_git_s_folder() {
    for format in RefFormat::ALL {
        try_server(format, &old_git(), Hosted::http);
    }
}

#[test]
fn a_client_names_it_in_its_settings() {
    let (client, hosted) = (Client::new(HashKind::Sha1), Hosted::new(RefFormat::Files));
    let link = hosted.links.join("git-receive-pack");
    // The client's setting is a command for the shell.
    client.repo.config(
        "remote.there.receivepack",
        &format!("REFDB_GIT={} {}", Git::find().program().display(), link.display()),
    );
    client.repo.config("remote.there.url", hosted.repo.dir().to_str().unwrap());
    client.repo.git(["push", "--quiet", "there", &format!("{}:refs/heads/main", client.commits[1])]);
    hosted.assert_received(1, "remote.there.receivepack");
}

#[test]
fn the_folder_is_made_again_and_nothing_else_is_overwritten() {
    let hosted = Hosted::new(RefFormat::Files);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build/refdb-exec-path");
    let make = |folder: &Path, git: &Path| {
        let mut command = hosted.repo.command(&script);
        command.env("REFDB", crate::common::REFDB).arg(folder).arg(git);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let git = Git::find().program();
    // The link for a program that git no longer has is removed.
    std::os::unix::fs::symlink("/nonexistent", hosted.exec_path.join("git-gone")).unwrap();
    assert_eq!(make(&hosted.exec_path, git), (true, String::new()));
    assert!(std::fs::symlink_metadata(hosted.exec_path.join("git-gone")).is_err());
    let (done, said) = make(&hosted.exec_path, &hosted.exec_path.join("git"));
    assert!(!done && said.contains("name the real git"), "{said}");
    let (done, said) = make(hosted.repo.dir(), git);
    assert!(!done && said.contains("is in the way"), "{said}");
    let mut command = hosted.repo.command(hosted.exec_path.join("git"));
    let version = command.env("GIT_EXEC_PATH", &hosted.exec_path).args(["-c", "a.b=receive-pack", "version"]).output();
    assert_eq!(version.unwrap().stdout, hosted.repo.try_git(["version"], "").stdout);
}
