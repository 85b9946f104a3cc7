//! How refdb ends early: when its output pipe is closed, and when a signal comes while refs are locked.

use refdb_testkit::{Git, RefFormat, Repo, at_most};
use refdb_types::HashKind;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const SIGPIPE: i32 = 13;
const SIGTERM: i32 = 15;

fn refdb(repo: &Repo) -> Command {
    repo.command(env!("CARGO_BIN_EXE_refdb"))
}

#[test]
fn a_closed_pipe_ends_a_listing_quietly_as_sigpipe_would() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let commits = repo.commits(1);
    repo.create_refs((0..5000).map(|n| (format!("refs/heads/a-name-of-some-length-{n:05}"), commits[0])));
    let mut child = refdb(&repo)
        .args(["for-each-ref", "--format=%(objectname) %(refname)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(first.starts_with(&commits[0].to_string()));
    assert_eq!(output.status.signal(), Some(SIGPIPE));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_signal_while_waiting_for_input_gives_up_the_locks() {
    for format in RefFormat::ALL {
        let repo = Repo::bare(format, HashKind::Sha1);
        let commits = repo.commits(1);
        repo.create_refs([("refs/heads/main", commits[0])]);
        let mut child =
            refdb(&repo).args(["update-ref", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"start\ncreate refs/heads/new refs/heads/main\nprepare\n").unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "start: ok");
        assert_eq!(lines.next().unwrap().unwrap(), "prepare: ok");
        let lock = repo.git_dir().join(match format {
            RefFormat::Files => "refs/heads/new.lock",
            RefFormat::Reftable => "reftable/tables.list.lock",
        });
        assert!(lock.exists());
        let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert_eq!(child.wait().unwrap().signal(), Some(SIGTERM));
        assert!(!lock.exists());
        drop(stdin);
        assert!(!repo.try_git(["show-ref", "--verify", "-q", "refs/heads/new"], b"").status.success());
        repo.git(["update-ref", "refs/heads/new", "refs/heads/main"]);
    }
}

/// Previously, only a reader ended this wait, so the locks stayed through every SIGTERM, at which git ends at once.
#[test]
fn a_signal_while_waiting_for_a_reader_gives_up_the_locks() {
    for blocks in [true, false] {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        repo.create_refs([("refs/heads/main", repo.commit())]);
        let (reader, writer) = std::io::pipe().unwrap();
        if !blocks {
            rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
        }
        let mut child =
            refdb(&repo).args(["update-ref", "--stdin"]).stdin(Stdio::piped()).stdout(writer).spawn().unwrap();
        // The answers fill the pipe sooner or later, when there is a lock or none.
        let mut stdin = child.stdin.take().unwrap();
        let session = "start\ncreate refs/heads/new refs/heads/main\nprepare\nabort\n".repeat(3000);
        let feeder = std::thread::spawn(move || {
            let _ = stdin.write_all(session.as_bytes());
        });
        let filled = || rustix::io::ioctl_fionread(&reader).unwrap();
        let end = Instant::now() + at_most(Duration::from_secs(60));
        let mut before = 0;
        while before == 0 || filled() != before {
            assert!(Instant::now() < end, "the pipe is full");
            before = filled();
            std::thread::sleep(Duration::from_millis(300));
        }
        let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let end = Instant::now() + at_most(Duration::from_secs(20));
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    panic!("it waits on, blocking: {blocks}");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        assert_eq!(status.signal(), Some(SIGTERM));
        feeder.join().unwrap();
        assert!(!repo.git_dir().join("refs/heads/new.lock").exists());
    }
}

/// Previously, a hook that hung kept the command and its locks alive through every SIGTERM, at which git ends at once.
#[test]
fn a_signal_while_the_reference_transaction_hook_hangs_ends_the_command_and_the_hook() {
    for (format, state) in RefFormat::ALL.into_iter().flat_map(|format| ["preparing", "prepared"].map(|s| (format, s)))
    {
        let repo = Repo::bare(format, HashKind::Sha1);
        let commits = repo.commits(1);
        repo.create_refs([("refs/heads/main", commits[0])]);
        let hook = repo.git_dir().join("hooks/reference-transaction");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        let script = format!(
            "#!/bin/sh\ntest $1 = {state} || exit 0\ntrap 'echo >ended; exit 1' TERM\necho >hangs\nwhile :; do sleep 0.01; done\n"
        );
        std::fs::write(&hook, script).unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut child = refdb(&repo).args(["update-ref", "refs/heads/new", "refs/heads/main"]).spawn().unwrap();
        let wait_for = |name: &str| {
            let end = Instant::now() + at_most(Duration::from_secs(20));
            while !repo.git_dir().join(name).exists() {
                assert!(Instant::now() < end, "{format:?} {state}: {name}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for("hangs");
        let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert_eq!(child.wait().unwrap().signal(), Some(SIGTERM));
        wait_for("ended");
        std::fs::remove_file(&hook).unwrap();
        repo.git(["update-ref", "refs/heads/new", "refs/heads/main", &"0".repeat(40)]);
    }
}

/// Previously, the list ended with an error when the pipe was full. git leaves out the rest, and reports no error.
#[test]
fn a_list_waits_for_the_reader_of_a_pipe_that_does_not_block() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let commit = repo.commit();
    repo.create_refs((0..5000).map(|n| (format!("refs/heads/a-name-of-some-length-{n:05}"), commit)));
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    let mut child = refdb(&repo).arg("for-each-ref").stdout(writer).spawn().unwrap();
    // The pipe is full after that, unless the machine is slow, and then this run shows nothing.
    std::thread::sleep(Duration::from_millis(300));
    let mut listed = String::new();
    reader.read_to_string(&mut listed).unwrap();
    assert_eq!((child.wait().unwrap().code(), listed.lines().count()), (Some(0), 5000));
}

/// Previously, `reflog show` called it standard output, as other commands do.
#[test]
fn output_that_cannot_be_written_ends_each_command_as_in_git() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    repo.config("core.logAllRefUpdates", "always");
    let commit = repo.commit();
    repo.create_refs([("refs/heads/main", commit), ("refs/tags/v1", commit)]);
    let commands: [&[&str]; 6] = [
        &["branch", "--column=always"],
        &["tag", "--column=always"],
        &["for-each-ref"],
        &["show-ref"],
        &["reflog", "show", "main"],
        &["reflog", "show", "--format=%H", "main"],
    ];
    for words in commands {
        let [git, ours] = [Git::find().program(), Path::new(env!("CARGO_BIN_EXE_refdb"))].map(|program| {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let output = repo.command(program).args(words).stdout(full).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        });
        assert_eq!(ours, git, "{words:?}");
    }
}
