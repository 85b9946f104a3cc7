//! Commands that list refs while another machine replaces the files on a network file system. A planted fault lets a
//! file be lost with its last name, as a server of NFS 3 does.
#![allow(clippy::unwrap_used, reason = "tests")]

use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    io::{Read, Write},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::RecvTimeoutError,
    thread::sleep,
    time::{Duration, Instant},
};

const COUNT: usize = 20_000;

/// A repository whose refs are in one file that is read in many parts.
fn repository(format: RefFormat) -> Repo {
    let repo = Repo::bare(format, HashKind::Sha1);
    let commit = repo.commits(1)[0];
    let names: Vec<String> = (0..COUNT).map(|at| format!("refs/heads/{at:06}")).collect();
    repo.create_refs(names.iter().map(|name| (name, commit)));
    repo.git(["pack-refs", "--all"]);
    repo
}

/// Waits until the process has this file open.
fn await_open(child: &Child, ending: &str) {
    let folder = format!("/proc/{}/fd", child.id());
    let since = Instant::now();
    let is_open = || {
        let links = std::fs::read_dir(&folder).unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.into_iter().any(|link| link.to_string_lossy().ends_with(ending))
    };
    while !is_open() {
        assert!(since.elapsed() < Duration::from_secs(60), "{ending} is not opened");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_list_begins_again_where_none_of_it_is_printed() {
    let repo = repository(RefFormat::Reftable);
    let mut child = Command::new(env!("CARGO_BIN_EXE_refdb"))
        .args(["for-each-ref", "--format=%(refname)", "--stdin"])
        .current_dir(repo.git_dir())
        .env("REFDB_PLANTED_FAULT", "vfs-stale")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The process has its snapshot, and waits for the patterns.
    await_open(&child, ".ref");
    repo.git(["update-ref", "-d", "refs/heads/000000"]);
    repo.git(["pack-refs", "--all"]);
    child.stdin.take().unwrap().write_all(b"refs/heads/").unwrap();
    let mut listed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut listed).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: String = (1..COUNT).map(|at| format!("refs/heads/{at:06}\n")).collect();
    assert!(listed == expected, "the refs of the new state, each once, and not {} bytes", listed.len());
}

/// Runs a command line, whose first large file is lost once if `fault` names such a fault. Its standard input names two
/// refs that exist and one that does not.
fn run(repo: &Repo, fault: &str, words: &[&str]) -> Output {
    repo.run_with_fault_and_input(
        env!("CARGO_BIN_EXE_refdb"),
        fault,
        words,
        b"refs/heads/000900\nrefs/heads/none\nrefs/heads/001000\n",
    )
}

#[test]
fn each_list_begins_again_where_none_of_it_is_shown() {
    let lists: [&[&str]; 8] = [
        &["for-each-ref", "--sort=-refname"],
        &["show-ref"],
        &["branch"],
        &["tag", "--sort=-refname"],
        &["stat", "--json"],
        &["receive-pack", "--http-backend-info-refs", "."],
        &["reflog", "list"],
        &["for-each-ref", "--format=%(refname)", "refs/heads/000*"],
    ];
    for format in RefFormat::ALL {
        let repo = repository(format);
        let commit = repo.commits(1)[0];
        let names: Vec<String> = (0..COUNT).map(|at| format!("refs/tags/{at:06}")).collect();
        repo.create_refs(names.iter().map(|name| (name, commit)));
        repo.git(["pack-refs", "--all"]);
        for words in lists {
            let lost = run(&repo, "vfs-stale-early", words);
            assert!(lost.status.success(), "{words:?}: {}", String::from_utf8_lossy(&lost.stderr));
            assert!(lost.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&lost.stderr));
            let plain = run(&repo, "", words);
            assert!(lost.stdout == plain.stdout, "{words:?}: {} bytes", lost.stdout.len());
        }
    }
}

/// A repository of many branches with reflogs; among files, those of HEAD and of the first branch are long.
fn logged(format: RefFormat) -> Repo {
    const ENTRIES: usize = 4000;
    let repo = Repo::bare(format, HashKind::Sha1);
    let commit = repo.commits(1)[0];
    repo.config("core.logAllRefUpdates", "always");
    let names: Vec<String> = (0..COUNT).map(|at| format!("refs/heads/{at:06}")).collect();
    repo.create_refs(names.iter().map(|name| (name, commit)));
    repo.git(["symbolic-ref", "refs/heads/000900-link", "refs/heads/000901"]);
    repo.git(["symbolic-ref", "HEAD", "refs/heads/000000"]);
    repo.git(["pack-refs", "--all"]);
    if format == RefFormat::Files {
        let line = format!("{commit} {commit} A <a@example.com> 1700000000 +0000\tcheckout: moving from a to b\n");
        std::fs::write(repo.git_dir().join("logs/refs/heads/000000"), line.repeat(ENTRIES)).unwrap();
        std::fs::write(repo.git_dir().join("logs/HEAD"), line.repeat(ENTRIES)).unwrap();
    }
    repo
}

#[test]
fn each_question_is_answered_from_the_state_that_replaced_the_lost_one() {
    let questions: [&[&str]; 13] = [
        &["show-ref", "--verify", "refs/heads/000900", "refs/heads/001000"],
        &["show-ref", "--exists", "refs/heads/000900"],
        &["show-ref", "--exclude-existing"],
        &["symbolic-ref", "refs/heads/000900-link"],
        &["symbolic-ref", "--short", "refs/heads/000900-link"],
        &["reflog", "exists", "refs/heads/012000"],
        &["reflog", "show", "refs/heads/012000"],
        &["reflog", "show", "refs/heads/000000"],
        &["reflog", "expire", "--dry-run", "--all"],
        &["reflog", "expire", "--dry-run", "refs/heads/000900"],
        &["for-each-ref", "--count=1", "--points-at=000900"],
        &["for-each-ref", "--count=1", "--points-at=012000@{0}"],
        &["refs", "rename", "refs/heads/00091%", "refs/heads/last-%"],
    ];
    let mut broken = Vec::new();
    for format in RefFormat::ALL {
        let repo = logged(format);
        for words in questions {
            // Each run changes other refs.
            let run = |digit, fault| {
                let words: Vec<String> = words.iter().map(|word| word.replace('%', digit)).collect();
                run(&repo, fault, &words.iter().map(String::as_str).collect::<Vec<_>>())
            };
            let plain = run("0", "");
            assert_eq!(plain.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&plain.stderr));
            for (digit, fault) in [("1", "vfs-stale-early"), ("2", "vfs-stale-late")] {
                let lost = run(digit, fault);
                if lost != plain {
                    broken.push(format!("{words:?}, {format:?}, {fault}: {}", String::from_utf8_lossy(&lost.stderr)));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_list_that_was_shown_in_part_ends_with_an_error_and_does_not_mix_two_states() {
    let repo = repository(RefFormat::Reftable);
    for words in [&["for-each-ref"][..], &["show-ref"], &["receive-pack", "--http-backend-info-refs", "."]] {
        let lost = run(&repo, "vfs-stale-late", words);
        let said = String::from_utf8_lossy(&lost.stderr);
        assert_eq!(lost.status.code(), Some(128), "{words:?}: {said}");
        assert!(said.contains("meanwhile: try again"), "{words:?}: {said}");
        let plain = run(&repo, "", words);
        assert!(plain.stdout.starts_with(&lost.stdout) && !lost.stdout.is_empty(), "{words:?}");
    }
}

/// Previously, up to 128 KiB of what had been read of the log were not shown.
#[test]
fn a_log_that_is_lost_after_some_of_it_was_shown_is_shown_up_to_there() {
    const ENTRIES: usize = 46_000;
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let commit = repo.commits(1)[0];
    repo.create_refs([("refs/heads/main", commit)]);
    let line = format!("{commit} {commit} A <a@example.com> 1700000000 +0000\tcheckout: moving from a to b\n");
    let log = repo.git_dir().join("logs/refs/heads/main");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(log, line.repeat(ENTRIES)).unwrap();
    // The log is lost when an eighth of it, from its end on, has been read.
    let lost = run(&repo, "vfs-stale-late", &["reflog", "show", "--format=%H", "main"]);
    let said = String::from_utf8_lossy(&lost.stderr);
    assert_eq!(lost.status.code(), Some(128), "{said}");
    assert!(said.contains("meanwhile: try again"), "{said}");
    let shown = String::from_utf8(lost.stdout).unwrap();
    let count = shown.lines().count();
    assert_eq!(shown, format!("{commit}\n").repeat(count));
    assert!((ENTRIES / 9..ENTRIES / 7).contains(&count), "{count}");
}

#[test]
fn a_list_of_files_shows_each_ref_once_beside_a_writer_that_packs() {
    let repo = repository(RefFormat::Files);
    let packed = &repo.git_dir().join("packed-refs");
    let content = &std::fs::read(packed).unwrap();
    let (running, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // This goes on until the other end is dropped, which a panic does too.
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_millis(15)) {
                std::fs::write(packed.with_extension("new"), content).unwrap();
                std::fs::rename(packed.with_extension("new"), packed).unwrap();
            }
        });
        let _running = running;
        for words in [&["show-ref"][..], &["for-each-ref", "--format=%(refname)"]] {
            for _ in 0..10 {
                let output = Command::new(env!("CARGO_BIN_EXE_refdb"))
                    .args(words)
                    .current_dir(repo.git_dir())
                    .env("REFDB_PLANTED_FAULT", "vfs-stale")
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), COUNT, "{words:?}");
            }
        }
    });
}
