//! Limits on a push: the size of files and the length of refnames. Also, the permissions of files that a group shares.

use crate::{
    common::{REFDB, quarantines, refs},
    raw::{Asked, KINDS, NONE, Wish},
    trouble::{feed, send},
};
use refdb_testkit::{RefFormat, Repo, files_below};
use std::{os::unix::fs::PermissionsExt, path::Path, process::Output};

/// Runs receive-pack in a shell that executes `words` first.
fn feed_after(server: &Repo, words: &str, bytes: &[u8]) -> Output {
    let script = server.scratch().join("limited");
    std::fs::write(&script, format!("#!/bin/sh\n{words}\nexec '{REFDB}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    feed(server, &script, bytes)
}

#[test]
fn a_limit_on_the_size_of_files_refuses_a_push_and_leaves_no_lock() {
    for (format, hash) in KINDS {
        let asked = Asked::of(format, hash);
        let server = &asked.servers.refdb;
        let names: Vec<_> = (0..200).map(|at| format!("refs/heads/with-a-long-name-{at}")).collect();
        let wishes: Vec<Wish<'_>> = names.iter().map(|name| (NONE, Some(1), &name[..])).collect();
        let before = refs(server);
        for (wishes, atomic) in [(&wishes[..], false), (&wishes, true), (&wishes[..1], false)] {
            let output = feed_after(server, "ulimit -f 0", &asked.bytes(wishes, atomic));
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(
                output.status.success() && said.contains("ng refs/heads/with-a-long-name-0 "),
                "{format:?}: {said}"
            );
            assert!(said.contains("File too large"), "{format:?}: {said}");
            assert_eq!(refs(server), before, "{format:?}");
            let left = files_below(server.git_dir());
            let left: Vec<_> = left.iter().filter(|path| path.contains(".lock")).collect();
            assert!(left.is_empty() && quarantines(server).is_empty(), "{format:?}: {left:?}");
        }
        assert!(send(server, &asked.bytes(&wishes, false)).status.success());
        assert_eq!(refs(server), before + names.len());
    }
}

#[test]
fn one_push_of_long_names_may_not_hide_all_refs_of_a_reftable_repository_from_git() {
    for (format, hash) in KINDS.into_iter().filter(|(format, _)| *format == RefFormat::Reftable) {
        let asked = Asked::of(format, hash);
        let server = &asked.servers.refdb;
        let names: Vec<_> = (0..8).map(|at| format!("refs/heads/{at}{}", "n".repeat(2100 + at))).collect();
        let mut wishes: Vec<Wish<'_>> = names.iter().map(|name| (NONE, Some(1), &name[..])).collect();
        wishes.push((NONE, Some(1), "refs/heads/short"));
        let before = refs(server);
        let output = send(server, &asked.bytes(&wishes, true));
        assert!(output.status.success() && refs(server) == before, "{output:?}");
        let output = send(server, &asked.bytes(&wishes, false));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        for name in &names {
            assert!(said.contains(&format!("ng {name} entry too large")), "{said}");
        }
        assert!(said.contains("ok refs/heads/short"), "{said}");
        assert_eq!(refs(server), before + 1);
    }
}

/// Returns the permissions of the files in the repository and of the folders that contain them. Names of tables are cut
/// before their first number, because they have random parts.
fn modes(server: &Repo) -> Vec<String> {
    let folder = server.git_dir();
    let files = files_below(folder);
    let paths = files.iter().flat_map(|file| Path::new(file).ancestors()).filter(|path| !path.as_os_str().is_empty());
    let mut modes: Vec<_> = paths
        .map(|path| {
            let mode = std::fs::metadata(folder.join(path)).unwrap().permissions().mode();
            let name = path.to_string_lossy();
            format!("{mode:o} {}", name.split("0x").next().unwrap_or_default())
        })
        .collect();
    modes.sort();
    modes
}

#[test]
fn files_that_were_there_before_core_shared_repository_get_the_permissions_that_git_gives_them() {
    for (format, hash) in KINDS {
        for value in ["group", "all", "0640", "0600", "umask"] {
            let asked = Asked::of(format, hash);
            asked.create("refs/heads/a", 0);
            for server in asked.servers.all() {
                server.config("core.sharedRepository", value);
            }
            asked.same(
                &[
                    (Some(0), Some(1), "refs/heads/a"),
                    (NONE, Some(1), "refs/heads/new/b"),
                    (Some(3), NONE, "refs/keep/all"),
                ],
                false,
            );
            let [git, refdb] = asked.servers.all().map(modes);
            assert_eq!(refdb, git, "{format:?}, {value}");
        }
    }
}
