//! Broken histories, concurrent work in the repository, and hooks that die leave nothing half-applied.

use crate::{
    common::{Client, REFDB, assert_untouched, hook, quarantines, refs},
    trouble::{request, send},
};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, LockTimeout};
use reftable::{
    RefRecord, RefValue,
    stack::{Stack, StackError, StackOptions},
};
use std::{
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Returns the path of a loose object.
fn object(server: &Repo, id: &ObjectId) -> std::path::PathBuf {
    let id = id.to_string();
    server.git_dir().join("objects").join(&id[..2]).join(&id[2..])
}

#[test]
fn a_tip_whose_history_is_broken_lets_in_and_refuses_what_git_does() {
    let client = Client::new(HashKind::Sha1);
    let commits = &client.commits;
    // The commit in the history of `main`, which is at the fourth commit, that the server has lost.
    for lost in 0..4 {
        let servers = [false, true].map(|by_refdb| {
            let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
            client.push(&server, false, &[format!("{}:refs/heads/main", commits[3])]);
            std::fs::remove_file(object(&server, &commits[lost])).unwrap();
            (server, by_refdb)
        });
        // A new commit on top; an old commit; what main has; an older commit; a history of its own.
        for (name, at) in [("top", 4), ("old", 1), ("same", 3), ("older", 0), ("other", 5)] {
            let said = servers.each_ref().map(|(server, by_refdb)| {
                let output = client.push(server, *by_refdb, &[format!("{}:refs/heads/{name}", commits[at])]);
                let listed = server.git(["for-each-ref", "--format=%(refname) %(objectname)"]);
                assert!(quarantines(server).is_empty());
                (output.status.success(), listed)
            });
            assert_eq!(said[1], said[0], "without commit {lost}, {name}");
        }
    }
}

/// Makes HEAD lead to a name that no ref can have, which no program would write.
fn lead_head_astray(server: &Repo, format: RefFormat) {
    let target = "refs/../outside";
    if format == RefFormat::Files {
        return std::fs::write(server.git_dir().join("HEAD"), format!("ref: {target}\n")).unwrap();
    }
    let options = StackOptions::new(reftable::WriteOptions::new(server.hash()));
    let stack = Stack::open(Fs::real(), &server.git_dir().join("reftable"), options).unwrap();
    let mut addition = stack.lock(LockTimeout::None).unwrap();
    let index = addition.next_update_index();
    let value = RefValue::Symbolic(target.into());
    let head = RefRecord { name: "HEAD".into(), update_index: index, value };
    addition.add_table::<StackError>(index..=index, 0, |writer| writer.add_ref(&head)).unwrap();
    drop(addition.commit().unwrap());
}

#[test]
fn a_head_that_leads_to_no_possible_ref_stops_no_push() {
    let client = Client::new(HashKind::Sha1);
    for format in RefFormat::ALL {
        let servers = [false, true].map(|by_refdb| (Repo::bare(format, HashKind::Sha1), by_refdb));
        for (at, command) in ["0:refs/heads/main", "1:refs/heads/main", ":refs/heads/main"].iter().enumerate() {
            let said = servers.each_ref().map(|(server, by_refdb)| {
                lead_head_astray(server, format);
                let (commit, name) = command.split_once(':').unwrap();
                let commit = commit.parse().map_or(String::new(), |at: usize| client.commits[at].to_string());
                let output = client.push(server, *by_refdb, &[format!("{commit}:{name}")]);
                (output.status.success(), refs(server))
            });
            assert_eq!(said[1], said[0], "{format:?}, push {at}");
            assert!(said[1].0, "{format:?}, push {at}");
        }
    }
}

/// Git refuses such pushes, because its check of the new objects ends at the broken ref.
#[test]
fn a_broken_ref_stops_no_push_to_another() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    server.config("receive.denyNonFastForwards", "true");
    std::fs::write(server.git_dir().join("refs/tags/v1"), "").unwrap();
    for at in [0, 1] {
        let output = client.push(&server, true, &[format!("{}:refs/heads/main", client.commits[at])]);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_hook_that_is_killed_refuses_and_one_that_writes_a_gigabyte_costs_no_memory() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    hook(&server, "pre-receive", "kill -9 $$");
    let output = client.push(&server, true, &[format!("{}:refs/heads/main", client.commits[0])]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("pre-receive hook declined"));
    assert_untouched(&server, "a killed hook");
    hook(&server, "pre-receive", "head -c 1073741824 /dev/zero");
    let (bytes, _) = request(&client, "report-status side-band-64k");
    let mut command = server.command("sh");
    // The limit on the address space is 300,000 KiB.
    command.args(["-c", "ulimit -v 300000; exec \"$0\" receive-pack --stateless-rpc \"$1\"", REFDB]).arg(server.dir());
    command.env("REFDB_GIT", Git::find().program()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let (mut answer, mut buffer, mut count) = (child.stdout.take().unwrap(), vec![0; 1 << 20], 0);
    let mut last = Vec::new();
    while let Ok(read @ 1..) = answer.read(&mut buffer) {
        count += read;
        last.extend_from_slice(&buffer[..read]);
        last.drain(..last.len().saturating_sub(200));
    }
    assert!(child.wait().unwrap().success());
    assert!(count > 1 << 30, "{count} bytes");
    assert!(String::from_utf8_lossy(&last).contains("ok refs/heads/main\n"));
}

#[test]
fn of_pushes_to_one_ref_at_once_one_is_taken() {
    let client = Client::new(HashKind::Sha1);
    for format in RefFormat::ALL {
        let server = Repo::bare(format, HashKind::Sha1);
        // The hook makes each push wait until all of them have seen that the ref does not exist.
        hook(&server, "pre-receive", "echo . >>../here; while [ $(wc -l <../here) -lt 4 ]; do sleep 0.01; done");
        let outputs = std::thread::scope(|scope| {
            let pushes: Vec<_> = [0, 1, 4, 5]
                .map(|at| {
                    let words = [format!("{}:refs/heads/main", client.commits[at])];
                    let (client, server) = (&client, &server);
                    (at, scope.spawn(move || client.push(server, true, &words)))
                })
                .into_iter()
                .collect();
            pushes.into_iter().map(|(at, push)| (at, push.join().unwrap())).collect::<Vec<_>>()
        });
        let taken: Vec<_> = outputs.iter().filter(|(_, output)| output.status.success()).collect();
        let [(at, _)] = taken[..] else { panic!("{outputs:?}") };
        assert_eq!(server.rev_parse("refs/heads/main"), client.commits[*at]);
        for (_, output) in outputs.iter().filter(|(_, output)| !output.status.success()) {
            let said = [&output.stdout[..], &output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains("[remote rejected]") && said.contains("main"), "{said}");
        }
        assert!(quarantines(&server).is_empty());
        server.git(["fsck", "--strict"]);
    }
}

/// Pushes while `others` run in the repository again and again.
fn push_beside(format: RefFormat, others: &[&[&str]]) {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(format, HashKind::Sha1);
    server.config("receive.autogc", "false");
    let commits = client.repo.commits(40);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for words in others {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    // The command may fail because another one is at work.
                    server.try_git(*words, "");
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
        let _over = Over(&is_over);
        for (at, pair) in commits.chunks(2).enumerate() {
            if at == 10 {
                server.config("receive.unpackLimit", "1");
            }
            client
                .push_ok(&server, &[format!("{}:refs/heads/n{at}", pair[0]), format!("+{}:refs/heads/main", pair[1])]);
        }
    });
    assert_eq!(refs(&server), commits.len() / 2 + 1);
    for (at, pair) in commits.chunks(2).enumerate() {
        assert_eq!(server.rev_parse(&format!("refs/heads/n{at}")), pair[0]);
    }
    assert_eq!(server.rev_parse("refs/heads/main"), commits[39]);
    server.git(["fsck", "--strict"]);
    assert!(quarantines(&server).is_empty());
}

#[test]
fn pushes_beside_gc_and_packing_lose_nothing() {
    // `gc` and `repack -ad` do not run at once, because one removes what the other has taken for unreachable and
    // packed.
    for format in RefFormat::ALL {
        push_beside(format, &[&["pack-refs", "--all", "--prune"], &["gc", "--quiet"]]);
        push_beside(format, &[&["pack-refs", "--all", "--prune"], &["repack", "-adq"]]);
    }
}

/// Sets the flag when it is dropped, so that the other threads end even if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A small file system that can be filled like a disk. `mount` returns `None` if this user may not mount one.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(folder: &'a Path, kib: u32) -> Option<Self> {
        let size = format!("size={kib}k");
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // A lazy unmount succeeds even if a test has failed and its server still has files open.
        let _ = std::process::Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_under_git_s_programs_too_leaves_nothing_and_the_client_hears_of_it() {
    let client = Client::new(HashKind::Sha1);
    let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
    // Hexadecimal digits of 320 kB, which compression can at best halve.
    let noise: String =
        (0..20_000u64).map(|at| format!("{:x}", (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let blob = client.repo.blob(&noise);
    let tree = client.repo.git_with_input(["mktree"], format!("100644 blob {blob}\tnoise\n"));
    let commit = client.repo.git(["commit-tree", "-m", "noise", &tree]);
    let objects = server.git_dir().join("objects");
    for limit in ["1", "100"] {
        server.config("receive.unpackLimit", limit);
        let mut was_refused = false;
        let mut was_taken = false;
        for kib in (4..64).step_by(12).chain((64..640).step_by(64)) {
            let Some(_disk) = SmallDisk::mount(&objects, kib) else {
                println!("NOT RUN: only root can mount a small disk");
                return;
            };
            std::fs::create_dir(objects.join("pack")).unwrap();
            let output = client.push(&server, true, &[format!("{commit}:refs/heads/main")]);
            let said = [&output.stdout[..], &output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert_eq!(quarantines(&server), [] as [std::path::PathBuf; 0], "{kib} KiB");
            if output.status.success() {
                was_taken = true;
                server.git(["fsck", "--strict"]);
                server.git(["update-ref", "-d", "refs/heads/main"]);
            } else {
                was_refused = true;
                assert_eq!(server.refs(), [], "{kib} KiB: {said}");
                assert!(
                    said.contains("No space left on device") || said.contains("no storage space"),
                    "{kib} KiB: {said}"
                );
            }
        }
        assert!(was_refused && was_taken, "limit {limit}");
    }
}

/// Starts a server in a process group of its own, and sends it the whole request.
fn started(server: &Repo, bytes: &[u8]) -> std::process::Child {
    let mut command = server.command(REFDB);
    command.env("REFDB_GIT", Git::find().program()).args(["receive-pack", "--stateless-rpc"]).arg(server.dir());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    child
}

#[test]
fn kills_at_any_moment_of_refdb_alone_or_with_the_programs_it_runs_leave_no_ref_without_its_objects() {
    const KILLS: u32 = 16;
    let client = Client::new(HashKind::Sha1);
    let (bytes, _) = request(&client, "report-status");
    for (format, limit) in [(RefFormat::Files, "1"), (RefFormat::Reftable, "100")] {
        let make = || {
            let server = Repo::bare(format, HashKind::Sha1);
            server.config("receive.unpackLimit", limit);
            server.config("receive.autogc", "false");
            server
        };
        let server = make();
        let begun = Instant::now();
        assert!(started(&server, &bytes).wait().unwrap().success());
        let whole = begun.elapsed();
        let mut was_early = false;
        for at in 0..KILLS {
            let server = make();
            let mut child = started(&server, &bytes);
            std::thread::sleep(whole * at / KILLS);
            // Kills either the whole process group, or only refdb, whose programs then continue for a while.
            let target = if at % 2 == 0 { format!("-{}", child.id()) } else { child.id().to_string() };
            let _ = std::process::Command::new("kill").args(["-KILL", "--", &target]).stderr(Stdio::null()).status();
            child.wait().unwrap();
            was_early |= refs(&server) == 0;
            server.git(["fsck", "--strict", "--connectivity-only"]);
            client.push_ok(&server, &[format!("{}:refs/heads/next", client.commits[4])]);
            server.git(["fsck", "--strict"]);
            let left = quarantines(&server);
            assert!(left.iter().all(|folder| !folder.join("refdb.lock").exists()), "{left:?}");
        }
        assert!(was_early, "no kill was early enough");
    }
}

#[test]
fn a_client_is_told_that_a_slow_hook_is_still_at_work() {
    let client = Client::new(HashKind::Sha1);
    for (seconds, is_told) in [("1", true), ("0", false)] {
        let server = Repo::bare(RefFormat::Files, HashKind::Sha1);
        server.config("receive.keepAlive", seconds);
        hook(&server, "pre-receive", "sleep 2.5");
        let (bytes, _) = request(&client, "report-status side-band-64k");
        let begun = Instant::now();
        let output = send(&server, &bytes).stdout;
        let took = begun.elapsed();
        let told = output.windows(5).filter(|packet| packet == b"0005\x01").count() as u64;
        assert_eq!(told > 0, is_told, "{}", String::from_utf8_lossy(&output));
        assert!(told <= took.as_secs(), "{told} times in {took:?}, not once a second");
        assert!(String::from_utf8_lossy(&output).contains("ok refs/heads/main\n"));
    }
}

#[test]
fn a_client_that_leaves_while_it_is_answered_leaves_all_or_nothing() {
    let client = Client::new(HashKind::Sha1);
    let (bytes, _) = request(&client, "report-status side-band-64k");
    for (name, count) in [("pre-receive", 0), ("post-receive", 2)] {
        let server = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
        hook(&server, name, "head -c 3000000 /dev/zero; touch ../to-the-end");
        let mut command = server.command(REFDB);
        command.env("REFDB_GIT", Git::find().program()).args(["receive-pack", "--stateless-rpc"]).arg(server.dir());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let mut answer = child.stdout.take().unwrap();
        answer.read_exact(&mut [0; 1000]).unwrap();
        drop(answer);
        child.wait().unwrap();
        assert_eq!(refs(&server), count, "{name}");
        assert!(quarantines(&server).is_empty());
        // The post-receive hook is told what has changed, whether the client hears of it or not.
        assert_eq!(server.scratch().join("to-the-end").exists(), name == "post-receive");
    }
}
