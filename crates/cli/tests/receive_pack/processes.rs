//! The number of programs, processes and threads that a push starts.

use crate::common::{Client, REFDB, hook, refs};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::{io::Write, os::unix::fs::PermissionsExt, process::Stdio};

const COUNT: usize = 2_000;

/// Pushes 2,000 refs, and returns which git programs the server started.
fn push_many(server: &Repo, set_up: &dyn Fn(&Repo)) -> Vec<String> {
    let client = Client::new(server.hash());
    server.config("receive.autogc", "false");
    set_up(server);
    client.repo.fill(COUNT, &client.commits);
    let (log, git) = (server.scratch().join("started"), server.scratch().join("counting-git"));
    let script =
        format!("#!/bin/sh\necho \"$1\" >>'{}'\nexec '{}' \"$@\"\n", log.display(), Git::find().program().display());
    std::fs::write(&git, script).unwrap();
    std::fs::set_permissions(&git, PermissionsExt::from_mode(0o755)).unwrap();
    let mut push = client.repo.command(Git::find().program());
    push.env("REFDB_GIT", &git).arg("push").arg("--quiet").arg("--mirror");
    push.arg(format!("--receive-pack={}", client.receive_pack.display())).arg(server.dir());
    let output = push.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.refs().len(), client.repo.refs().len());
    std::fs::read_to_string(log).unwrap().lines().map(ToOwned::to_owned).collect()
}

#[test]
fn nothing_is_started_for_a_ref_without_a_hook() {
    let off = |server: &Repo| {
        server.config("hook.x.event", "update");
        server.config("hook.x.command", "false");
        server.config("hook.x.enabled", "false");
    };
    for format in RefFormat::ALL {
        for set_up in [&(|_: &Repo| ()) as &dyn Fn(&Repo), &off] {
            let started = push_many(&Repo::bare(format, HashKind::Sha1), set_up);
            assert_eq!(started, ["unpack-objects"], "{format:?}");
        }
    }
}

#[test]
fn a_hook_is_all_that_is_started_for_a_ref() {
    let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let started = push_many(&server, &|server| hook(server, "update", "echo \"$1\" >>../calls"));
    assert_eq!(started, ["unpack-objects"]);
    let calls = std::fs::read_to_string(server.scratch().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), refs(&server));
}

#[test]
fn refs_to_what_a_ref_has_already_are_let_in_without_a_walk() {
    let (client, server) = (Client::new(HashKind::Sha1), Repo::bare(RefFormat::Reftable, HashKind::Sha1));
    let id = client.commits[4];
    client.push_ok(&server, &[format!("{id}:refs/heads/main")]);
    let refuse = server.scratch().join("no-git");
    std::fs::write(
        &refuse,
        format!("#!/bin/sh\ntest \"$1\" != rev-list && exec '{}' \"$@\"\n", Git::find().program().display()),
    )
    .unwrap();
    std::fs::set_permissions(&refuse, PermissionsExt::from_mode(0o755)).unwrap();
    let push = |source: String, variable: &str| {
        let mut push = client.repo.command(Git::find().program());
        push.env("REFDB_GIT", &refuse).arg("push");
        push.arg(format!("--receive-pack={variable} {}", client.receive_pack.display())).arg(server.dir()).arg(source);
        push.output().unwrap().status.success()
    };
    assert!(push(format!("{id}:refs/heads/again"), ""), "a ref to what main has was not let in");
    assert!(!push(format!("{}:refs/heads/old", client.commits[0]), ""), "git was not asked for what no ref has");
    // Git is asked if history is replaced; a hidden ref counts like any other.
    server.git(["replace", &id.to_string(), &client.commits[5].to_string()]);
    assert!(!push(format!("{id}:refs/heads/more"), ""));
    server.git(["replace", "-d", &id.to_string()]);
    assert!(!push(format!("{id}:refs/heads/more"), "GIT_REPLACE_REF_BASE=refs/elsewhere/"));
    server.config("receive.hideRefs", "refs/heads");
    assert!(push(format!("{id}:refs/tags/more"), ""));
}

/// Returns how many processes and threads the server asks the kernel for while it creates `count` refs.
fn starts(server: &Repo, count: usize) -> usize {
    let commit = server.commit();
    let zero = "0".repeat(40);
    let mut request = Vec::new();
    for at in 0..count {
        let line = format!("{zero} {commit} refs/heads/{at:05}\0report-status side-band-64k");
        write!(request, "{:04x}{line}", line.len() + 4).unwrap();
    }
    request.extend_from_slice(b"0000");
    request.extend(server.try_git(["pack-objects", "--stdout", "--quiet"], "").stdout);
    // A ref leads to the commit, so that nothing needs to be walked.
    server.git(["update-ref", "refs/tags/there", &commit.to_string()]);
    let log = server.scratch().join("starts");
    let mut command = server.command("strace");
    command.args(["-f", "-qq", "--seccomp-bpf", "-e", "trace=clone,clone3,fork,vfork", "-e", "signal=none", "-o"]);
    command.arg(&log).arg(REFDB).args(["receive-pack", "--stateless-rpc"]).arg(server.dir());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&request).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(refs(server), count + 1);
    let calls = std::fs::read_to_string(log).unwrap();
    // A call that is interrupted has two lines, of which only the first has the name with a bracket.
    let words = ["clone(", "clone3(", "fork("];
    let started: Vec<_> = calls.lines().filter(|line| words.iter().any(|word| line.contains(word))).collect();
    // No memory of refdb is copied, as with posix_spawn(3).
    let copied = started.iter().find(|line| !line.contains("CLONE_VM|CLONE_VFORK") && !line.contains("vfork("));
    assert_eq!(copied, None, "a hook begins as a copy");
    started.len()
}

#[test]
fn no_process_and_no_thread_is_started_for_a_ref_but_its_hook() {
    for format in RefFormat::ALL {
        let make = || {
            let server = Repo::bare(format, HashKind::Sha1);
            server.config("receive.autogc", "false");
            server
        };
        assert_eq!(starts(&make(), COUNT), 0, "{format:?}, no hook");
        let server = make();
        for (key, value) in [("event", "update"), ("command", "exit 0;"), ("enabled", "false")] {
            server.config(&format!("hook.x.{key}"), value);
        }
        assert_eq!(starts(&server, COUNT), 0, "{format:?}, a hook that is off");
        let server = make();
        for (key, value) in [("event", "update"), ("command", "exit 0;")] {
            server.config(&format!("hook.x.{key}"), value);
        }
        assert_eq!(starts(&server, 50), 50, "{format:?}, a configured hook");
        let server = make();
        hook(&server, "update", "exit 0");
        assert_eq!(starts(&server, 50), 50, "{format:?}, a hook in a file");
    }
}

#[test]
fn no_program_is_started_to_see_that_a_ref_goes_forward() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    server.config("receive.denyNonFastForwards", "true");
    let names: Vec<_> = (0..300).map(|at| format!("refs/heads/{at}")).collect();
    let push = |from: usize, more: &str| {
        let words: Vec<_> = names.iter().map(|name| format!("{more}{}:{name}", client.commits[from])).collect();
        let git = server.scratch().join("no-merge-base");
        let real = Git::find().program().display();
        std::fs::write(&git, format!("#!/bin/sh\ntest \"$1\" != merge-base && exec '{real}' \"$@\"\n")).unwrap();
        std::fs::set_permissions(&git, PermissionsExt::from_mode(0o755)).unwrap();
        let mut push = client.repo.command(Git::find().program());
        push.env("REFDB_GIT", &git).arg("push").arg("--porcelain");
        push.arg(format!("--receive-pack={}", client.receive_pack.display())).arg(server.dir()).args(words);
        let output = push.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    push(1, "");
    assert!(!push(4, "").contains('!'), "a ref that goes forward was refused");
    assert_eq!(push(2, "+").matches("(non-fast-forward)").count(), 300);
    assert_eq!(server.rev_parse("refs/heads/7"), client.commits[4]);
    // Git is asked if history is replaced.
    server.git(["replace", &client.commits[1].to_string(), &client.commits[0].to_string()]);
    assert_eq!(push(2, "+").matches("(non-fast-forward)").count(), 300);
}
