//! Git and clients of other projects push to refdb over SSH, HTTP, git's own protocol and on the same machine, as far
//! as each of them can.

use super::{
    plugged_in::old_git,
    servers::{Hosted, Server},
};
use crate::common::{Client, quarantines, refs};
use refdb_testkit::{Git, JGit, RefFormat};
use refdb_types::HashKind;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Pushes each `SOURCE:REF` from the client's repository, and returns the client's own messages.
type Push<'a> = dyn FnMut(&Client, &Server, &[String]) -> String + 'a;

/// Creates, changes and deletes branches, and tries a push that a hook refuses. One pack is unpacked, and one is kept.
fn push_all(what: &str, start: impl Fn(&Hosted) -> Server, push: &mut Push<'_>) {
    let (client, hosted) = (Client::new(HashKind::Sha1), Hosted::new(RefFormat::Reftable));
    let server = start(&hosted);
    for (at, commit) in client.commits.iter().enumerate() {
        // Not every client can push an id, so each commit gets a branch.
        client.repo.git(["update-ref", &format!("refs/heads/c{at}"), &commit.to_string()]);
    }
    let spec = |at: usize, name: &str| format!("refs/heads/c{at}:refs/heads/{name}");
    let what = format!("{what} to {}", server.url);
    let said = push(&client, &server, &[spec(1, "main"), spec(2, "other")]);
    hosted.assert_received(1, &format!("{what}: {said}"));
    hosted.repo.config("receive.unpackLimit", "1");
    let said = push(&client, &server, &[spec(4, "main")]);
    hosted.assert_received(2, &format!("{what}: {said}"));
    assert_eq!(hosted.repo.rev_parse("refs/heads/main"), client.commits[4], "{what}: {said}");
    let said = push(&client, &server, &[":refs/heads/other".into()]);
    assert_eq!(refs(&hosted.repo), 1, "{what}: {said}");
    let said = push(&client, &server, &[spec(5, "no")]);
    assert!(said.contains("pre-receive hook declined"), "{what}: {said}");
    assert!(said.contains("hooks say no"), "{what}: {said}");
    assert_eq!(refs(&hosted.repo), 1, "{what}");
    hosted.repo.git(["fsck", "--strict"]);
    assert!(quarantines(&hosted.repo).is_empty(), "{what}");
}

fn ssh(hosted: &Hosted) -> Server {
    let path = format!("{}:/usr/bin:/bin", hosted.links.display());
    hosted.sshd(&format!("SetEnv \"PATH={path}\" \"REFDB_GIT={}\"", Git::find().program().display()))
}

/// Runs a program, with the server's address between the words before and after it.
fn run(client: &Client, server: &Server, program: &Path, before: &[&str], words: &[String]) -> String {
    let mut command = client.repo.command(program);
    command.envs(server.ssh.iter().map(|ssh| ("GIT_SSH_COMMAND", ssh)));
    if let Some(folder) = &server.exec_path {
        command.env("GIT_EXEC_PATH", folder).env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    }
    command.envs(server.ssh_key.iter().map(|key| ("SSH_KEY", key)));
    let output = command.args(before).arg(&server.url).args(words).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn git_of_two_ages() {
    for (git, reaches_http) in [(Git::find().program().to_owned(), false), (old_git(), true)] {
        let mut push = |client: &Client, server: &Server, words: &[String]| {
            run(client, server, &git, &["push", "--porcelain"], words)
        };
        let what = git.display().to_string();
        push_all(&what, ssh, &mut push);
        push_all(&what, Hosted::daemon, &mut push);
        if reaches_http {
            push_all(&what, Hosted::http, &mut push);
        } else {
            // Not for Debian's git, because the programs in the folder belong to the git that it was made from.
            push_all(&what, Server::local, &mut push);
        }
    }
}

/// Returns the words for a client of `tests/clients` that pushes from a repository.
fn in_repo(client: &Client, words: &[String]) -> Vec<String> {
    [&[client.repo.git_dir().to_str().unwrap().to_owned()], words].concat()
}

fn python(script: &str) -> impl FnMut(&Client, &Server, &[String]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    move |client, server, words| {
        // The libraries are Debian's, so the test needs Debian's Python.
        let python = PathBuf::from("/usr/bin/python3");
        run(client, server, &python, &[script.to_str().unwrap(), "push"], &in_repo(client, words))
    }
}

#[test]
fn libgit2() {
    let mut push = python("libgit2.py");
    push_all("libgit2", ssh, &mut push);
    push_all("libgit2", Hosted::http, &mut push);
}

#[test]
fn dulwich() {
    let mut python = python("dulwich_client.py");
    let mut push = |client: &Client, server: &Server, words: &[String]| {
        let by_id = words.iter().map(|word| {
            let (source, name) = word.split_once(':').unwrap();
            let id = if source.is_empty() { String::new() } else { client.repo.rev_parse(source).to_string() };
            format!("{id}:{name}")
        });
        python(client, server, &by_id.collect::<Vec<_>>())
    };
    push_all("dulwich", Server::local, &mut push);
    push_all("dulwich", ssh, &mut push);
    push_all("dulwich", Hosted::daemon, &mut push);
    push_all("dulwich", Hosted::http, &mut push);
}

#[test]
fn jgit() {
    for start in [ssh as fn(&Hosted) -> Server, Hosted::daemon, Hosted::http] {
        let mut jgit = None;
        let mut push = |client: &Client, server: &Server, words: &[String]| {
            // One process makes all pushes to a server. JGit needs a single word as the program that runs ssh.
            let ssh = server.ssh_program(client.repo.scratch());
            let jgit = jgit.get_or_insert_with(|| JGit::open_with_ssh(&client.repo, ssh.as_deref()));
            format!("{:?}", jgit.push(&server.url, words))
        };
        push_all("JGit", start, &mut push);
    }
}

#[test]
#[ignore = "needs Go, and downloads modules: `make test-long` runs it"]
fn go_git() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-git-pushes");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/go-git");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(".").current_dir(source);
    assert!(build.status().unwrap().success());
    let mut push = |client: &Client, server: &Server, words: &[String]| {
        run(client, server, &program, &["push"], &in_repo(client, words))
    };
    push_all("go-git", Server::local, &mut push);
    push_all("go-git", ssh, &mut push);
    push_all("go-git", Hosted::daemon, &mut push);
    push_all("go-git", Hosted::http, &mut push);
}
