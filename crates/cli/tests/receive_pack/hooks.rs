//! Hooks that cannot run or are configured badly: git's messages about them, and the steps that then do not happen.

use crate::{
    common::{Client, REFDB, Servers, assert_untouched, hook, shown},
    raw::{Asked, KINDS, NONE},
    trouble::feed,
};
use bstr::ByteSlice;
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::{os::unix::fs::PermissionsExt, path::Path};

const EVENTS: [&str; 4] = ["pre-receive", "update", "post-receive", "post-update"];

#[test]
fn after_a_hook_that_cannot_be_started_no_other_runs_as_with_git() {
    for (format, hash) in KINDS {
        let asked = Asked::of(format, hash);
        let all = asked.servers.all();
        let mut at = 0;
        for event in EVENTS {
            for bad in ["/nonexistent/hook", "./config", "/", "nonexistent-hook", "", "exit 3", "kill -9 $$"] {
                for server in all {
                    for (key, value) in [
                        ("hook.bad.event", event),
                        ("hook.bad.command", bad),
                        ("hook.next.event", event),
                        ("hook.next.command", "echo next $# >>../calls; echo hook ran"),
                    ] {
                        server.config(key, value);
                    }
                }
                at += 1;
                let [one, other] = ["one", "other"].map(|name| format!("refs/heads/{at}/{name}"));
                asked.same(&[(NONE, Some(1), &one), (NONE, Some(2), &other)], at % 2 == 0);
            }
            for server in all {
                server.git(["config", "remove-section", "hook.bad"]);
                std::fs::create_dir_all(server.git_dir().join("hooks").join(event)).unwrap();
            }
            at += 1;
            asked.same(&[(NONE, Some(1), &format!("refs/heads/{at}"))], false);
            for server in all {
                std::fs::remove_dir(server.git_dir().join("hooks").join(event)).unwrap();
            }
        }
        asked.servers.assert_same(&format!("{format:?}, {hash:?}"));
        let calls = std::fs::read_to_string(asked.servers.refdb.scratch().join("calls")).unwrap();
        assert!(calls.lines().count() >= 8, "{calls}");
    }
}

#[test]
fn a_hook_without_a_command_ends_a_push_before_its_objects_are_let_in() {
    let client = Client::new(HashKind::Sha1);
    for format in RefFormat::ALL {
        for event in EVENTS.into_iter().chain(["reference-transaction", "pre-commit", "unknown"]) {
            for limit in ["1", "100"] {
                let make = || Repo::bare(format, HashKind::Sha1);
                let servers = Servers { git: make(), refdb: make() };
                let said = [(&servers.git, false), (&servers.refdb, true)].map(|(server, by_refdb)| {
                    server.config("hook.a.event", event);
                    server.config("receive.unpackLimit", limit);
                    shown(server, &client.push(server, by_refdb, &[format!("{}:refs/heads/main", client.commits[1])]))
                });
                assert!(said[0].contains("'hook.a.command' must be configured"), "{}", said[0]);
                assert_eq!(said[1], said[0], "{format:?}, {event}");
                servers.assert_same(event);
                assert_untouched(&servers.refdb, event);
            }
        }
    }
}

#[test]
fn a_hook_that_is_not_executable_is_skipped_with_gits_hint() {
    for (format, hash) in KINDS {
        let asked = Asked::of(format, hash);
        for server in asked.servers.all() {
            for event in EVENTS.into_iter().chain(["reference-transaction"]) {
                hook(server, event, "exit 1");
                let file = server.git_dir().join("hooks").join(event);
                std::fs::set_permissions(file, PermissionsExt::from_mode(0o644)).unwrap();
            }
        }
        for (at, (key, value)) in
            [("x.y", "z"), ("core.hooksPath", "hooks"), ("core.hooksPath", "./hooks/"), ("advice.ignoredHook", "false")]
                .into_iter()
                .enumerate()
        {
            asked.servers.all().iter().for_each(|server| server.config(key, value));
            // The lines are sorted, because git reports the reference-transaction hook before the hooks that follow a
            // push, and refdb before the update hook.
            let lines = |server: &Repo, program: &Path| {
                let bytes = asked.bytes(&[(NONE, Some(1), &format!("refs/heads/{at}"))], false);
                let output = feed(server, program, &bytes);
                let mut lines: Vec<_> = output.stderr.lines().map(|line| line.to_str_lossy().into_owned()).collect();
                lines.sort();
                lines
            };
            let git = lines(&asked.servers.git, Git::find().program());
            assert_eq!(lines(&asked.servers.refdb, REFDB.as_ref()), git, "{key}={value}");
            assert_eq!(git.is_empty(), key == "advice.ignoredHook", "{git:?}");
        }
        asked.servers.assert_same("hooks that are not executable");
    }
}

#[test]
fn settings_of_hooks_that_git_warns_of_are_warned_of_once_in_a_push() {
    for (format, hash) in KINDS {
        let asked = Asked::of(format, hash);
        for server in asked.servers.all() {
            server.config("hook.off.event", "update");
            server.config("hook.off.enabled", "false");
            server.config("hook.jobs", "many");
        }
        for (at, refs) in [1, 2].into_iter().enumerate() {
            let names: Vec<String> = (0..refs).map(|of| format!("refs/heads/{at}/{of}")).collect();
            let changes: Vec<_> = names.iter().map(|name| (NONE, Some(1), name.as_str())).collect();
            let said = |server: &Repo, program: &Path| {
                let output = feed(server, program, &asked.bytes(&changes, false));
                output.stderr.to_str_lossy().into_owned()
            };
            let git = said(&asked.servers.git, Git::find().program());
            assert_eq!(git.matches("disabled hook 'off' has no command configured").count(), 1, "{git}");
            assert_eq!(said(&asked.servers.refdb, REFDB.as_ref()), git);
        }
        asked.servers.assert_same("hooks that are disabled");
    }
}
