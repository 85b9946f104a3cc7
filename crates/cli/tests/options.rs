//! Gives every option of every command, because an option in the table that no match arm reads is a panic.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use refdb_cli::options::{Opt, Value};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

/// Returns the ways to give the option: set, with a value, negated.
fn spellings(opt: &Opt) -> Vec<Vec<String>> {
    let value = if matches!(opt.name, "count" | "limit" | "hash" | "abbrev") { "7" } else { "HEAD" };
    let mut ways = Vec::new();
    if opt.is_long() {
        let takes = opt.value != Value::None;
        ways.push(vec![if takes { format!("--{}={value}", opt.name) } else { format!("--{}", opt.name) }]);
        if matches!(opt.value, Value::Optional(_)) {
            ways.push(vec![format!("--{}", opt.name)]);
        }
        if opt.negatable {
            ways.push(vec![
                opt.name.strip_prefix("no-").map_or(format!("--no-{}", opt.name), |bare| format!("--{bare}")),
            ]);
        }
    }
    if let Some(letter) = opt.short {
        let mut way = vec![format!("-{}", char::from(letter))];
        way.extend((!matches!(opt.value, Value::None | Value::Optional(_))).then(|| value.to_owned()));
        ways.push(way);
    }
    ways
}

#[test]
fn every_option_of_every_command_is_read() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.git(["update-ref", "refs/heads/main", &id.to_string()]);
    let mut given = 0;
    let members = refdb_cli::groups().flat_map(|group| group.members.iter().map(|(command, _)| *command));
    for command in refdb_cli::commands().chain(members) {
        for opt in command.options {
            for way in spellings(opt) {
                let mut process = Command::new(env!("CARGO_BIN_EXE_refdb"));
                process.arg("-C").arg(repo.git_dir()).args(command.words()).args(&way).stdin(Stdio::null());
                let output = process.output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.code() != Some(101) && !said.contains("panicked"),
                    "{} {way:?}: {said}",
                    command.name
                );
                given += 1;
            }
        }
    }
    assert!(given > 60, "{given} were given");
}

#[test]
fn a_push_or_fetch_that_is_left_to_git_keeps_the_global_options() {
    let folder = tempfile::tempdir().unwrap();
    let git = folder.path().join("git");
    fs::write(&git, "#!/bin/sh\necho \"$@\"\n").unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    for command in ["receive-pack", "upload-pack", "branch"] {
        let words = ["--attr-source=x", "--no-lazy-fetch", command, "--no-such-option"];
        let output = Command::new(env!("CARGO_BIN_EXE_refdb")).args(words).env("REFDB_GIT", &git).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", words.join(" ")), "{output:?}");
    }
}
