//! `refdb check-storage` with two hosts that are one machine: it refuses to draw conclusions, and works when it is made
//! to go on.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

/// Returns an `--ssh` option that starts the peer on this host and pipes its answers through `filter`.
fn ssh(filter: &str) -> String {
    format!("--ssh=there() {{ shift; sh -c \"$*\" | {filter}; }}; there")
}

fn check(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(REFDB);
    command
        .args(["check-storage", "--seconds=2"])
        .arg(format!("--peer=there:{REFDB}"))
        .args(words)
        .arg(folder)
        .stdin(Stdio::null());
    command
}

/// Runs the check to its end although both hosts are one machine.
fn go_on(folder: &Path, words: &[&str]) -> Output {
    check(folder, words).env("REFDB_PLANTED_FAULT", "check-storage-one-kernel").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Prints the output, and returns its last line and the exit code.
fn verdict(output: &Output) -> (String, i32) {
    let said = text(&output.stdout);
    println!("{said}{}", text(&output.stderr));
    (said.lines().last().unwrap_or_default().to_owned(), output.status.code().unwrap())
}

fn is_empty(folder: &Path) -> bool {
    folder.read_dir().unwrap().next().is_none()
}

#[test]
fn two_peers_on_one_kernel_prove_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = check(folder.path(), &[&ssh("cat")]).output().unwrap();
    let (verdict, code) = verdict(&output);
    assert!(
        verdict.starts_with("not tested: ") && verdict.contains(" are one machine, by their boot id "),
        "{verdict}"
    );
    assert_eq!(code, 2);
    let said = text(&output.stdout);
    assert!(said.contains("there: host name ") && said.contains("  mount: ") && said.contains("  flock: "), "{said}");
    assert!(is_empty(folder.path()), "the folder of the run is left");
}

#[test]
fn a_kernel_that_sees_its_own_changes_is_safe() {
    let folder = tempfile::tempdir().unwrap();
    let output = go_on(folder.path(), &[&ssh("cat")]);
    assert_eq!(verdict(&output), ("safe".into(), 0));
    let said = text(&output.stdout);
    for line in ["files: 10 of 10 scenes ended as they must", "reftable: 10 of 10 scenes ended as they must"] {
        assert!(said.contains(line), "{line}");
    }
    assert!(said.contains("files: load of 2 s: ") && said.contains("reftable: safe\n"), "{said}");
    assert!(!said.contains("times an error"), "{said}");
    assert!(is_empty(folder.path()), "the folder of the run is left");
}

/// The peer reports its writes as refused, so that both hosts appear to have written on top of the same value.
#[test]
fn lost_updates_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let lies = ssh("sed -u 's/\\tdone$/\\trefused: not so/'");
    let (verdict, code) = verdict(&go_on(folder.path(), &[&lies, "--format=files"]));
    assert!(verdict.starts_with("unsafe: files: "), "{verdict}");
    assert_eq!(code, 1);
}

/// Previously, everything that was seen before a host fell silent was dropped.
#[test]
fn lost_updates_are_found_although_a_host_falls_silent_later() {
    let (folder, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pid = aside.path().join("pid").display().to_string();
    let peer = format!("sh -c \"echo \\$\\$ >{pid}; exec $*\"");
    let lies_and_dies = format!("{{ sed -u 's/\\tdone$/\\trefused: not so/;200q'; kill -9 $(cat {pid}); }}");
    let option = format!("--ssh=there() {{ shift; {peer} | {lies_and_dies}; }}; there");
    let output = go_on(folder.path(), &[&option, "--format=files", "--seconds=30"]);
    let (verdict, code) = verdict(&output);
    assert!(verdict.starts_with("unsafe: files: ") && code == 1, "{verdict}");
    assert!(text(&output.stdout).contains("the test ended early: the connection to there has ended\n"));
}

/// The peer reports value 1 whatever value it sees.
#[test]
fn a_host_that_shows_old_values_is_late() {
    let folder = tempfile::tempdir().unwrap();
    let late = ssh("sed -u 's/\\tok\\t[0-9][0-9]*$/\\tok\\t1/'");
    let output = go_on(folder.path(), &[&late, "--format=reftable"]);
    let (verdict, code) = verdict(&output);
    assert!(text(&output.stdout).contains("reftable: late: "), "{verdict}");
    assert_ne!(code, 0);
}

#[test]
fn a_peer_that_dies_ends_the_test() {
    let folder = tempfile::tempdir().unwrap();
    let aside = tempfile::tempdir().unwrap();
    let pid = aside.path().join("pid").display().to_string();
    // The peer ends after this many answers.
    for answers in ["0", "30", "200"] {
        // A peer would not notice that the filter has ended if its next answer had already gone into the pipe.
        let peer = format!("sh -c \"echo \\$\\$ >{pid}; exec $*\"");
        let filter = format!("{{ sed -u {answers}q; kill -9 $(cat {pid}); }}");
        let dies = match answers {
            "0" => "--ssh=true".to_owned(),
            _ => format!("--ssh=there() {{ shift; {peer} | {filter}; }}; there"),
        };
        let began = Instant::now();
        let (verdict, code) = verdict(&go_on(folder.path(), &[&dies, "--format=reftable", "--seconds=30"]));
        assert_eq!((verdict.as_str(), code), ("not tested: the connection to there has ended", 2), "{answers}");
        assert!(began.elapsed() < Duration::from_secs(60));
        assert!(is_empty(folder.path()), "the folder of the run is left");
    }
}

#[test]
fn a_signal_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = check(folder.path(), &[&ssh("cat"), "--seconds=60"]);
    command.env("REFDB_PLANTED_FAULT", "check-storage-one-kernel").stdout(Stdio::null());
    let mut process = command.spawn().unwrap();
    while is_empty(folder.path()) {
        std::thread::sleep(Duration::from_millis(10));
    }
    // A second later, a scene is under way.
    std::thread::sleep(Duration::from_secs(1));
    let killed = Command::new("kill").arg(process.id().to_string()).status().unwrap();
    assert!(killed.success());
    assert_eq!(process.wait().unwrap().signal(), Some(15));
    assert!(is_empty(folder.path()), "the folder of the run is left");
}

#[test]
fn a_host_with_another_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    // Falsifies the second answer, which is the content of the run's file.
    for answer in ["ok\\tanother", "error\\tNo such file or directory"] {
        let other = ssh(&format!("sed -u 's/^2\\tok.*/2\\t{answer}/'"));
        let (verdict, code) = verdict(&go_on(folder.path(), &[&other]));
        assert!(verdict.starts_with("not tested: ") && verdict.ends_with(" on there is not the folder of this host"));
        assert_eq!(code, 2);
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let failed = |path: &Path| {
        let output = check(path, &[&ssh("cat")]).output().unwrap();
        assert_eq!(output.status.code(), Some(128));
        text(&output.stderr)
    };
    assert!(failed(&folder.path().join("missing")).contains("No such file or directory"));
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(failed(&file).contains("is not a folder"));
    // Nobody, not even root, can create a folder there.
    assert!(failed(Path::new("/proc/self/fd")).contains("fatal: "));
}

#[test]
fn hosts_can_join_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let start = |words: &[&str]| {
        let mut command = Command::new(REFDB);
        command.arg("check-storage").args(words).arg(folder.path()).stdin(Stdio::null());
        command.env("REFDB_PLANTED_FAULT", "check-storage-one-kernel").stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut peer = start(&["--join"]);
    let output = start(&["--wait=1", "--seconds=2"]).wait_with_output().unwrap();
    assert_eq!(verdict(&output), ("safe".into(), 0));
    assert!(peer.wait().unwrap().success());
    assert!(is_empty(folder.path()), "the folder of the run is left");
}

#[test]
fn wrong_command_lines_are_refused() {
    for words in
        [&["."][..], &["--peer=a"], &["--wait=0", "."], &["--join", "--wait=1", "."], &["--format=x", "--peer=a", "."]]
    {
        let output = Command::new(REFDB).arg("check-storage").args(words).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(129), "{words:?}");
    }
}

/// `refdb stat --storage` in a new repository, with a planted fault.
fn stat_storage(words: &[&str], fault: &str) -> String {
    let repo = refdb_testkit::Repo::bare(refdb_testkit::RefFormat::Files, refdb_types::HashKind::Sha1);
    let output = Command::new(REFDB)
        .args(["stat", "--storage"])
        .args(words)
        .current_dir(repo.git_dir())
        .env("REFDB_PLANTED_FAULT", fault)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn stat_says_without_a_trial_what_the_mount_means() {
    let local = stat_storage(&[], "");
    assert!(local.contains("  mount: ") && local.ends_with("  safe: the file system is local\n"), "{local}");
    // With this fault no file system counts as local.
    let unknown = stat_storage(&[], "vfs-local");
    assert!(unknown.contains("\n  flock: not known, since this is not NFS: "), "{unknown}");
    assert!(unknown.contains("\n  not tested: ") && unknown.ends_with("`refdb check-storage`\n"), "{unknown}");
    assert!(!unknown.contains("refs"), "no ref is counted: {unknown}");
    let json: serde_json::Value = serde_json::from_str(&stat_storage(&["--json"], "vfs-local")).unwrap();
    assert_eq!(json["local"], false);
    assert!(json["conclusions"][0].as_str().unwrap().starts_with("not tested: "), "{json}");
}

#[test]
fn three_hosts_play_every_scene_with_each_other_host() {
    let folder = tempfile::tempdir().unwrap();
    let output = go_on(folder.path(), &[&ssh("cat"), &format!("--peer=third:{REFDB}")]);
    assert_eq!(verdict(&output), ("safe".into(), 0));
    let said = text(&output.stdout);
    for line in ["files: 20 of 20 scenes ended as they must", "reftable: 20 of 20 scenes ended as they must"] {
        assert!(said.contains(line), "{line}");
    }
}
