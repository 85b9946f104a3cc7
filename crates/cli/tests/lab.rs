//! `refdb lab` starts the program `refdb-lab` beside refdb or in `PATH`, and reports if there is none.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

/// Writes a program that prints `says` and its arguments, and exits with code 3.
fn plant(folder: &Path, says: &str) {
    fs::create_dir_all(folder).unwrap();
    let program = folder.join("refdb-lab");
    fs::write(&program, format!("#!/bin/sh\necho {says} \"$@\"\nexit 3\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `refdb lab -h run` from a copy of refdb in `folder`, with this `PATH`.
fn lab(folder: &Path, path: &Path) -> Output {
    let refdb = folder.join("refdb");
    if !refdb.exists() {
        fs::copy(env!("CARGO_BIN_EXE_refdb"), &refdb).unwrap();
    }
    Command::new(refdb).args(["lab", "-h", "run"]).env("PATH", path).output().unwrap()
}

#[test]
fn the_program_beside_comes_first_then_path_then_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let (beside, other) = (folder.path(), folder.path().join("other"));
    let none = lab(beside, &other);
    assert_eq!(none.status.code(), Some(128));
    assert_eq!(
        String::from_utf8(none.stderr).unwrap(),
        "fatal: there is no 'refdb-lab', neither beside refdb nor in PATH: 'make dist' builds it\n"
    );
    plant(&other, "in PATH:");
    let found = lab(beside, &other);
    assert_eq!(
        (found.status.code(), String::from_utf8(found.stdout).unwrap().as_str()),
        (Some(3), "in PATH: -h run\n")
    );
    plant(beside, "beside:");
    assert_eq!(lab(beside, &other).stdout, b"beside: -h run\n");
    fs::set_permissions(beside.join("refdb-lab"), fs::Permissions::from_mode(0o644)).unwrap();
    let said = String::from_utf8(lab(beside, &other).stderr).unwrap();
    assert_eq!(said, "fatal: cannot run 'refdb-lab': Permission denied\n");
}
