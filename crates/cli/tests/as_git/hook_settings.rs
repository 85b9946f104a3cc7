//! Odd values of `hook.*` settings: the messages about them, and the hooks that run.

use crate::common::Twins;
use refdb_testkit::{RefFormat, Repo};
use std::{fs, os::unix::fs::PermissionsExt};

/// Groups of settings. The test changes a ref under each group.
const SETTINGS: &[&[&str]] = &[
    &["hook.a.event=reference-transaction", "hook.a.enabled=false"],
    &["hook.a.event=pre-commit", "hook.a.event=reference-transaction", "hook.a.enabled=false"],
    &["hook.a.event=reference-transaction", "hook.a.enabled=false", "hook.a.enabled=x"],
    &["hook.a.event=reference-transaction", "hook.a.enabled=false", "hook.a.enabled=true"],
    &["hook.a.event=reference-transaction", "hook.a.enabled=false", "hook.a.event="],
    &["hook.a.event=reference-transaction", "hook.a.enabled=false", "hook.b.event=reference-transaction"],
    &["hook.jobs=x"],
    &["hook.jobs="],
    &["hook.jobs"],
    &["hook.jobs=0"],
    &["hook.jobs=-2", "hook.jobs=99999999999", "hook.jobs=-1", "hook.jobs=1k"],
    &["hook.a.jobs=x", "hook.a.jobs=0"],
    &["hook.update.jobs=2"],
    &["hook.a.jobs=2", "hook.a.command=true"],
    &["hook.a.jobs=2", "hook.a.jobs=x", "hook.a.event=update", "hook.a.command=true"],
    &["hook.a.jobs=2", "hook.a.parallel=true", "hook.a.parallel=x"],
    &["hook.a.jobs=2", "hook.a.parallel=true", "hook.a.parallel=false"],
    &["hook.a.parallel="],
    &["hook.a.event=a", "hook.a.command=true", "hook.jobs=x"],
    &["hook.jobs=x", "hook.a.enabled", "hook.jobs=y"],
    &["hook.pre-commit.event=update", "hook.pre-commit.command=true"],
    &["hook.update.event=update", "hook.update.event="],
    &["hook.update.event="],
    &["hook.a.event=reference-transaction", "hook.a.command=echo ran >&2", "hook.reference-transaction.enabled=no"],
    &[
        "hook.a.event=reference-transaction",
        "hook.a.command=echo ran >&2",
        "hook.reference-transaction.enabled=no",
        "hook.reference-transaction.command=true",
    ],
];

#[test]
fn git_s_warnings_about_settings_of_hooks_are_given_and_the_same_hooks_run() {
    let twins = Twins::new(RefFormat::Files, &|repo| {
        repo.create_refs([("refs/heads/main", repo.commit())]);
        file_hook(repo, "echo file >&2\n");
    });
    let id = twins.git.rev_parse("main").to_string();
    for (turn, settings) in SETTINGS.iter().enumerate() {
        let name = format!("refs/heads/new{turn}");
        let words = settings.iter().flat_map(|setting| ["-c", setting]).chain(["update-ref", &name, &id]);
        twins.same(&words.collect::<Vec<_>>(), b"");
    }
}

#[test]
fn each_warning_about_settings_of_hooks_is_given_once_and_only_where_hooks_are_looked_for() {
    for format in RefFormat::ALL {
        let twins = Twins::new(format, &|repo| repo.create_refs([("refs/heads/main", repo.commit())]));
        let id = twins.git.rev_parse("main").to_string();
        let set = |words: &[&str], input: &str| {
            let settings = ["-c", "hook.a.event=update", "-c", "hook.a.enabled=false", "-c", "hook.jobs=x"];
            twins.same(&[&settings, words].concat(), input.as_bytes());
        };
        set(&["update-ref", "refs/heads/new", "nothing"], "");
        set(&["update-ref", "--stdin"], &format!("start\ncreate refs/heads/b {id}\ncommit\nstart\ncommit\n"));
        set(&["update-ref", "--stdin"], "start\nabort\n");
        set(&["update-ref", "--stdin"], "start\n");
        set(&["symbolic-ref", "refs/heads/s", "refs/heads/b"], "");
        set(&["update-ref", "-d", "refs/heads/b"], "");
        set(&["reflog", "write", "refs/heads/main", &id, &id, "m"], "");
        set(&["show-ref"], "");
        set(&["for-each-ref"], "");
        set(&["symbolic-ref", "HEAD"], "");
        set(&["reflog", "exists", "HEAD"], "");
    }
}

fn file_hook(repo: &Repo, text: &str) {
    let hook = repo.git_dir().join("hooks/reference-transaction");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
}
