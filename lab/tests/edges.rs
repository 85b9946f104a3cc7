//! Tests programs that hang or stay behind, labs that are stopped, and builds that are no longer needed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use common::{Synthetic, end, finish};

const REPORT: &str = "cat \"$BUILD/cost\" >\"$COST\"";

/// Returns a number of seconds that no other process sleeps, so that it identifies a process.
fn name(number: u32) -> String {
    format!("{}.{number}", 100_000 + std::process::id())
}

/// Returns whether a process sleeps for this number of seconds.
fn sleeps(name: &str) -> bool {
    let wanted = format!("sleep\0{name}\0");
    fs::read_dir("/proc").unwrap().any(|entry| {
        let command = fs::read(entry.unwrap().path().join("cmdline"));
        command.is_ok_and(|command| command == wanted.as_bytes())
    })
}

/// Waits until `holds` returns true, for at most a minute. On a loaded machine, a killed process may take time to end.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_a_setup_and_a_build_that_hang_end_at_their_limits() {
    let hang = format!("sleep {}", name(1));
    for (command, more, complaint) in [
        (hang.as_str(), String::new(), "'command' failed: it did not end within 1 s"),
        // The command writes messages faster than the lab reads them.
        ("exec yes >&2", String::new(), "'command' failed: it did not end within 1 s"),
        ("true", format!("setup = '{hang}'"), "'setup' failed: it did not end within 1 s"),
        ("true", format!("check = 'setsid {hang} & {hang}'"), "'check' does not hold: it did not end within 1 s"),
    ] {
        let planted = Synthetic::new(command, &format!("wall-limit = 1\n{more}"));
        planted.commit("cost", "1");
        let said = planted.complaint("run", "HEAD,HEAD", &[]);
        assert_eq!(said, format!("refdb-lab: HEAD: {complaint}"));
    }
    let planted = Synthetic::new("true", "build-limit = 1");
    planted.build_more(&format!("echo linking\n{hang}\n"));
    planted.commit("cost", "1");
    let said = planted.complaint("run", "HEAD,HEAD", &[]);
    assert!(said.contains(") does not build: linking (it did not end within 1 s; all of it is in '"), "{said}");
    eventually("all of them were ended", || !sleeps(&name(1)));
}

#[test]
fn what_a_run_leaves_in_the_background_neither_delays_it_nor_lives_on() {
    // The program holds standard error open, has left its parent, and is in a session of its own.
    let command = format!("(setsid sleep {} &); {REPORT}", name(2));
    let planted = Synthetic::new(&command, "judge = 'reported'\nwall-limit = 1");
    planted.commit("cost", "10");
    planted.commit("cost", "20");
    let start = Instant::now();
    let said = planted.said("run", "HEAD~1,HEAD", &[]);
    assert!(said.contains("worse"), "{said}");
    assert!(said.contains("same work: not compared: 'command' failed: it did not end within 3 s\n"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(50));
    eventually("it was ended", || !sleeps(&name(2)));
}

/// Returns a lab that runs in the folder `place`.
fn lab(planted: &Synthetic, place: &Path) -> Command {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
    lab.arg("run").arg(planted.scenario()).arg("--revisions").arg(planted.repository()).arg("HEAD,HEAD");
    lab.arg("--cache").arg(planted.cache()).arg("--place").arg(place);
    lab
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_lab_that_is_stopped_leaves_no_folder_and_no_process() {
    let (here, apart) = (name(3), name(4));
    let hang = format!("(setsid sleep {apart} &); sleep {here}");
    for (in_build, signal) in [(false, 15), (false, 2), (true, 15), (true, 1)] {
        let planted = Synthetic::new(if in_build { "true" } else { &hang }, "");
        if in_build {
            planted.build_more(&format!("{hang}\n"));
        }
        planted.commit("cost", "1");
        let place = tempfile::tempdir().unwrap();
        let lab = lab(&planted, place.path()).spawn().unwrap();
        eventually("it runs", || sleeps(&here) && sleeps(&apart));
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(lab.id().to_string()).status().unwrap();
        assert!(sent.success());
        assert_eq!(end(lab).signal(), Some(signal), "it ends by the signal");
        eventually("the processes were ended", || !sleeps(&here) && !sleeps(&apart));
        assert_eq!(entries(place.path()), Vec::<PathBuf>::new(), "{in_build}, {signal}");
        assert_eq!(planted.git(&["worktree", "list"]).lines().count(), 1);
        assert_eq!(entries(&planted.cache()).len(), usize::from(!in_build), "half a build is none");
    }
}

#[test]
fn a_lab_that_waits_for_the_lock_of_a_hung_one_can_be_stopped() {
    let planted = Synthetic::new("true", "");
    planted.commit("cost", "1");
    planted.said("run", "HEAD,HEAD", &["--false-alarms", "0.5"]);
    let held = fs::File::open(entries(&planted.cache())[0].join("lock")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (place, err) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let lab = lab(&planted, place.path()).stderr(err.reopen().unwrap()).spawn().unwrap();
    let waits = || fs::read_to_string(err.path()).unwrap().contains("waiting for another lab, which has locked '");
    eventually("it waits", waits);
    assert!(Command::new("kill").arg(lab.id().to_string()).status().unwrap().success());
    assert_eq!(end(lab).signal(), Some(15), "it ends by the signal");
}

#[test]
fn builds_are_listed_and_go_when_nobody_used_them_for_long() {
    let planted = Synthetic::new(REPORT, "judge = 'reported'");
    planted.commit("cost", "10");
    planted.commit("cost", "20");
    planted.said("run", "HEAD~1,HEAD", &["--false-alarms", "0.5"]);
    let builds = entries(&planted.cache());
    let lab = |more: &[&str]| {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
        let output = finish(lab.arg("cache").arg("--cache").arg(planted.cache()).args(more));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let age = |build: &Path, days: u64| {
        let lock = fs::File::options().append(true).open(build.join("lock")).unwrap();
        lock.set_modified(std::time::SystemTime::now() - Duration::from_secs(days * 24 * 3600 + 60)).unwrap();
        lock
    };
    age(&builds[0], 40);
    let said = lab(&["--remove-unused", "30"]);
    assert!(said.contains(" MB, unused for 40 days, removed: "), "{said}");
    assert!(said.contains(" MB, unused for 0 days, kept: "), "{said}");
    assert!(said.lines().last().unwrap().starts_with("1 builds of "), "{said}");
    assert_eq!(entries(&planted.cache()), [builds[1].clone()]);
    let lock = age(&builds[1], 40);
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
    assert!(lab(&["--remove-unused", "0"]).contains("unused for 40 days, in use: "));
    drop(lock);
    assert!(lab(&["--remove-unused", "0"]).contains("removed: "));
    assert_eq!(lab(&[]), format!("0 builds of 0.0 MB in '{}'\n", planted.cache().display()));
}
