//! Limits on memory and processor time of the programs that a push starts.

use crate::{
    common::{Client, REFDB, hook, quarantines},
    crafted::{Kind, Pack, request, tree},
    trouble,
    unusual_objects::{circle, with_side_band},
};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const HOG: &str = "exec tail /dev/zero";
const SPINNER: &str = "while :; do :; done";

/// Writes a git that logs its process id and runs `instead` before one command, which begins only if `instead` ends,
/// and returns the path of that git.
fn git_with(server: &Repo, command: &str, instead: &str) -> PathBuf {
    let (file, notes) = (server.scratch().join("odd-git"), server.scratch().join("pids"));
    let git = Git::find().program().display();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' {command} '*) echo $$ >>'{}'; {instead};; esac\nexec '{git}' \"$@\"\n",
        notes.display()
    );
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    file
}

/// Whether a program has logged itself and is limited in its processor time by the kernel.
fn is_limited(notes: &Path) -> bool {
    let notes = std::fs::read_to_string(notes).unwrap_or_default();
    let limits = |pid: &str| std::fs::read_to_string(Path::new("/proc").join(pid).join("limits"));
    let has_limit = |limits: &str| {
        let mut lines = limits.lines().filter_map(|line| line.strip_prefix("Max cpu time"));
        lines.any(|values| !values.contains("unlimited"))
    };
    notes.lines().any(|pid| limits(pid).is_ok_and(|limits| has_limit(&limits)))
}

/// The longest time that a program may take to end. It is long, because a program on a busy machine needs long to use
/// up the processor time of the limit, but a program that nobody ends runs far longer.
const ENDED_MAX: Duration = Duration::from_secs(120);

/// Requires that all logged programs have ended.
fn assert_all_ended(server: &Repo, what: &str) {
    let pids = std::fs::read_to_string(server.scratch().join("pids")).unwrap();
    assert!(!pids.is_empty(), "{what}: the program did not run");
    let deadline = Instant::now() + ENDED_MAX;
    for pid in pids.lines() {
        while Path::new("/proc").join(pid).exists() {
            assert!(Instant::now() < deadline, "{what}: process {pid} is left");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn server() -> Repo {
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    server.config("receive.autogc", "false");
    server.config("receive.fsckObjects", "false");
    server.config("refdb.receiveMemoryLimit", "64m");
    server.config("refdb.receiveTimeLimit", "1");
    server
}

fn receive_pack(server: &Repo, git: &Path) -> Command {
    let mut command = server.command(REFDB);
    command.env("REFDB_GIT", git).args(["receive-pack", "--stateless-rpc"]).arg(server.dir());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_program_that_takes_memory_or_time_without_end_is_ended_and_the_push_refused() {
    let client = Client::new(HashKind::Sha1);
    for command in ["index-pack", "unpack-objects", "rev-list"] {
        for (instead, limit) in [(HOG, "refdb.receiveMemoryLimit"), (SPINNER, "refdb.receiveTimeLimit")] {
            for stays in [true, false] {
                let what = format!("{command}, {limit}, stays: {stays}");
                let server = server();
                server.config("receive.unpackLimit", if command == "index-pack" { "1" } else { "100" });
                let git = git_with(&server, command, instead);
                let (bytes, _) = trouble::request(&client, "report-status side-band-64k");
                if command == "rev-list" {
                    // With this limit refdb's own walk gives up, so that git is asked.
                    server.config("refdb.receiveReadLimit", "1");
                }
                let started = Instant::now();
                let mut child = receive_pack(&server, &git).spawn().unwrap();
                let mut stdin = child.stdin.take().unwrap();
                let _ = stdin.write_all(&bytes);
                let mut said = String::new();
                if stays {
                    let mut raw = Vec::new();
                    child.stdout.take().unwrap().read_to_end(&mut raw).unwrap();
                    said = String::from_utf8_lossy(&raw).into_owned();
                } else {
                    // A client that has left before would be noticed before the program is started.
                    while started.elapsed() < ENDED_MAX && !server.scratch().join("pids").exists() {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    drop((stdin, child.stdout.take()));
                }
                let output = child.wait_with_output().unwrap();
                let log = String::from_utf8_lossy(&output.stderr);
                assert!(started.elapsed() < ENDED_MAX, "{what}: {:?}", started.elapsed());
                if stays {
                    assert!(said.contains(limit) && log.contains(limit), "{what}: {said} {log}");
                    assert!(said.contains("ng refs/heads/main"), "{what}: {said}");
                }
                assert_all_ended(&server, &what);
                assert_eq!(server.refs(), [], "{what}");
                assert!(quarantines(&server).is_empty(), "{what}");
            }
        }
    }
}

#[test]
fn an_atomic_push_changes_nothing_if_a_limit_ends_the_check_of_one_of_its_commands() {
    let client = Client::new(HashKind::Sha1);
    for (capabilities, deletes) in [("report-status", true), ("report-status atomic", false)] {
        let server = server();
        let old = server.commit();
        server.create_refs([("refs/heads/old", old)]);
        server.config("refdb.receiveReadLimit", "1");
        let git = git_with(&server, "rev-list", SPINNER);
        let line = format!("{old} {} refs/heads/old\0{capabilities}", "0".repeat(40));
        let (creations, _) = trouble::request(&client, capabilities);
        let bytes = [format!("{:04x}{line}", line.len() + 4).as_bytes(), &creations].concat();
        let mut child = receive_pack(&server, &git).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("ng refs/heads/main the check of its objects exceeded a limit"), "{said}");
        let answer = if deletes { "ok refs/heads/old" } else { "ng refs/heads/old atomic push failure" };
        assert!(said.contains(answer), "{capabilities}: {said}");
        assert_eq!(server.refs().is_empty(), deletes, "{capabilities}");
    }
}

#[test]
fn a_program_that_lists_an_alternate_is_ended_at_a_limit_and_when_the_client_leaves() {
    for instead in [HOG, SPINNER, "exec cat /dev/zero"] {
        let (pool, fork) = (server(), server());
        std::fs::create_dir_all(fork.git_dir().join("objects/info")).unwrap();
        std::fs::write(
            fork.git_dir().join("objects/info/alternates"),
            format!("{}/objects\n", pool.git_dir().display()),
        )
        .unwrap();
        let git = git_with(&fork, "for-each-ref", instead);
        let mut command = fork.command(REFDB);
        command.env("REFDB_GIT", &git).args(["receive-pack", "--http-backend-info-refs"]).arg(fork.dir());
        let started = Instant::now();
        assert!(command.output().unwrap().status.success(), "{instead}");
        assert_all_ended(&fork, instead);
        fork.config("refdb.receiveTimeLimit", "0");
        fork.config("refdb.receiveMemoryLimit", "0");
        let git = git_with(&fork, "for-each-ref", "exec sleep 1000");
        let mut command = fork.command(REFDB);
        command.env("REFDB_GIT", &git).arg("receive-pack").arg(fork.dir()).stderr(Stdio::null());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        drop((child.stdin.take(), child.stdout.take()));
        child.wait().unwrap();
        assert_all_ended(&fork, "the client left");
        assert!(started.elapsed() < ENDED_MAX, "{instead}: {:?}", started.elapsed());
    }
}

#[test]
fn a_push_that_is_left_to_git_is_limited_but_its_hooks_are_not() {
    let (pack, new) = circle();
    let bytes = request(&[("refs/heads/main", new)], pack);
    let server = server();
    server.config("receive.unpackLimit", "1");
    server.config("receive.certNonceSeed", "seed");
    let started = Instant::now();
    let output = trouble::send(&server, &bytes);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("ng refs/heads/main") && said.contains("git rev-list was ended"), "{said}");
    assert!(started.elapsed() < ENDED_MAX, "{:?}", started.elapsed());
    assert_eq!(server.refs(), []);
    // A client with a side band gets the message as well.
    let output = trouble::send(&server, &with_side_band(&bytes));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\u{2}error: git rev-list was ended") && said.contains("refdb.receive"), "{said}");
    // A hook, including what it starts, may take as long as it likes.
    hook(
        &server,
        "pre-receive",
        "i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done; git rev-parse HEAD >/dev/null; :",
    );
    let client = Client::new(HashKind::Sha1);
    let (bytes, _) = trouble::request(&client, "report-status");
    let output = trouble::send(&server, &bytes);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("ok refs/heads/main"), "{said}");
}

/// Returns a request whose first line says that the client is a shallow clone, so that refdb leaves the push to git.
fn shallow_request(name: &str, content: &[u8]) -> Vec<u8> {
    let mut pack = Pack::default();
    let blob = pack.whole(Kind::Blob, content);
    let line = format!("shallow {}", "5".repeat(40));
    [format!("{:04x}{line}", line.len() + 4).as_bytes(), &request(&[(name, blob)], pack.finish())].concat()
}

/// Git starts these programs with `--shallow-file` before the command.
#[test]
fn a_push_of_a_shallow_clone_is_limited_as_any_other() {
    let bytes = shallow_request("refs/tags/big", &vec![0; 150 << 20]);
    for (command, limit) in [("unpack-objects", "100"), ("index-pack", "1")] {
        let server = server();
        server.config("receive.unpackLimit", limit);
        let output = trouble::send(&server, &bytes);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(
            said.contains(&format!("git {command} was ended")) && said.contains("MemoryLimit"),
            "{command}: {said}"
        );
        assert_eq!(server.refs(), [], "{command}");
    }
}

#[test]
fn a_git_that_does_not_read_the_push_that_is_left_to_it_is_limited_too() {
    let mut content = vec![0; 1 << 20];
    let mut random = refdb_testkit::Rng::new(1);
    content.iter_mut().for_each(|byte| *byte = random.bits() as u8);
    // More than a pipe holds.
    let bytes = shallow_request("refs/tags/random", &content);
    let server = server();
    let git = git_with(&server, "receive-pack", SPINNER);
    let mut child = receive_pack(&server, &git).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || _ = input.write_all(&bytes));
        let deadline = Instant::now() + ENDED_MAX;
        while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        // Without a reader, the thread that writes ends too.
        _ = child.kill();
        let pids = std::fs::read_to_string(server.scratch().join("pids")).unwrap();
        for pid in pids.lines() {
            _ = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status();
        }
    });
    let log = String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned();
    assert!(log.contains("git receive-pack was ended") && log.contains("TimeLimit"), "{log}");
}

#[test]
fn one_bad_id_among_many_is_found_with_few_programs() {
    let server = server();
    let git = git_with(&server, "rev-list", ":");
    let blob = server.blob("lost");
    let lost = server
        .git_with_input(["hash-object", "-w", "-t", "tree", "--stdin", "--literally"], tree(&[("100644", "f", blob)]));
    let lost = ObjectId::from_hex(HashKind::Sha1, lost.trim().as_bytes()).unwrap();
    let (folder, file) = (&blob.to_string()[..2], &blob.to_string()[2..]);
    std::fs::remove_file(server.git_dir().join("objects").join(folder).join(file)).unwrap();
    let blobs: Vec<ObjectId> = (0..300).map(|at| server.blob(&format!("{at}"))).collect();
    let names: Vec<String> = (0..=blobs.len()).map(|at| format!("refs/tags/{at}")).collect();
    let ids = blobs.iter().copied().chain([lost]);
    let refs: Vec<_> = names.iter().map(|name| &name[..]).zip(ids).collect();
    let empty = Pack::default().finish();
    let mut child = receive_pack(&server, &git).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&request(&refs, empty)).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.matches("ok refs/tags/").count(), 300, "{said}");
    assert!(said.contains("ng refs/tags/300 missing necessary objects"), "{said}");
    let started = std::fs::read_to_string(server.scratch().join("pids")).unwrap().lines().count();
    assert!(started <= 25, "{started} programs");
}

#[test]
fn a_program_ends_at_a_limit_even_if_refdb_was_killed() {
    for instead in [SPINNER, HOG] {
        let client = Client::new(HashKind::Sha1);
        let server = server();
        server.config("refdb.receiveReadLimit", "1");
        let git = git_with(&server, "rev-list", instead);
        // With a lower limit the program would be ended before refdb is killed.
        let memory = if instead == HOG { "1g" } else { "0" };
        server.config("refdb.receiveMemoryLimit", memory);
        let (bytes, _) = trouble::request(&client, "report-status");
        let mut child = receive_pack(&server, &git).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let notes = server.scratch().join("pids");
        let deadline = Instant::now() + ENDED_MAX;
        // Refdb limits a program right after starting it.
        while !is_limited(&notes) {
            assert!(Instant::now() < deadline, "{instead}: rev-list was not started and limited");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_all_ended(&server, instead);
        assert_eq!(server.refs(), []);
    }
}
