//! Symbolic links in a push's quarantine or in its place: no file behind a link is moved into the repository or
//! removed.
//!
//! The links lead only below a folder that the test has made. The test does nothing as root; scripts/tests/test-as-user
//! runs it as another user.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    ffi::OsString,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

const FILES: [&str; 4] = ["ab/cdef", "pack/pack-1.pack", "pack/pack-1.idx", "refdb.lock"];

/// Returns the path of refdb, or of a copy, because another user may not be let into the folder where refdb was built.
fn program() -> OsString {
    std::env::var_os("REFDB_TEST_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_refdb").into())
}

struct Scene {
    client: Repo,
    server: Repo,
    target: PathBuf,
}

impl Scene {
    /// Creates a server whose hook `event` runs `script`, beside a folder `target` with files that look like objects.
    fn new(event: &str, script: &str, unpack_limit: &str) -> Self {
        let make = || Repo::bare(RefFormat::Files, HashKind::Sha1);
        let (client, server) = (make(), make());
        let target = server.scratch().join("target");
        for file in FILES {
            std::fs::create_dir_all(target.join(file).parent().unwrap()).unwrap();
            std::fs::write(target.join(file), "target").unwrap();
        }
        server.config("receive.unpackLimit", unpack_limit);
        server.config("receive.autogc", "false");
        let hook = server.git_dir().join("hooks").join(event);
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
        Scene { client, server, target }
    }

    fn push(&self) -> Output {
        let receive_pack = self.client.scratch().join("git-receive-pack");
        if !receive_pack.exists() {
            std::os::unix::fs::symlink(program(), &receive_pack).unwrap();
        }
        let commit = self.client.commits(1)[0];
        let mut push = self.client.command(Git::find().program());
        push.env("REFDB_GIT", Git::find().program()).args(["push", "--porcelain"]);
        push.arg(format!("--receive-pack={}", receive_pack.display())).arg(self.server.dir());
        push.arg(format!("{commit}:refs/heads/main")).output().unwrap()
    }

    fn assert_target_is_whole(&self, what: &str) {
        for file in FILES {
            assert_eq!(std::fs::read(self.target.join(file)).unwrap_or_default(), b"target", "{what}: {file}");
        }
        assert!(!self.server.git_dir().join("objects/ab").exists(), "{what}");
        assert!(!self.server.git_dir().join("objects/pack/pack-1.pack").exists(), "{what}");
    }
}

fn is_root() -> bool {
    refdb_vfs::effective_user() == 0
}

#[test]
fn a_hook_that_replaces_the_quarantine_by_a_link_moves_and_deletes_nothing_behind_it() {
    if is_root() {
        return;
    }
    for limit in ["1", "100"] {
        for (event, end) in [("pre-receive", "exit 0"), ("pre-receive", "exit 1"), ("update", "exit 0")] {
            // The script finds the quarantine by its name, because the update hook has no variable for it.
            let script = format!(
                "mkdir -p ../kept; q=$(ls -d $PWD/objects/tmp_objdir-incoming-*); mv $q ../kept; \
                 ln -s $PWD/../target $q; {end}"
            );
            let scene = Scene::new(event, &script, limit);
            let output = scene.push();
            let what = format!("{event}, {end}, {limit}: {}", String::from_utf8_lossy(&output.stderr));
            scene.assert_target_is_whole(&what);
            assert_eq!(output.status.success(), end == "exit 0", "{what}");
            if output.status.success() {
                scene.server.git(["fsck", "--strict"]);
            }
            let kept = scene.server.dir().join("../kept");
            let kept: Vec<_> = kept.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(kept.iter().all(|folder| folder.read_dir().unwrap().next().is_none()), "{what}");
            // The next push finds the link, and in its target a lock that nobody holds.
            scene.push();
            scene.assert_target_is_whole(&what);
        }
    }
}

#[test]
fn a_link_in_the_quarantine_is_not_taken_for_objects() {
    if is_root() {
        return;
    }
    for limit in ["1", "100"] {
        for (link, leads_to) in [("ab", "ab"), ("ab", "nowhere"), ("xy", "ab/cdef"), ("12/x", "ab")] {
            let script = format!(
                "mkdir -p $(dirname $GIT_QUARANTINE_PATH/{link}); ln -s $PWD/../target/{leads_to} $GIT_QUARANTINE_PATH/{link}"
            );
            let scene = Scene::new("pre-receive", &script, limit);
            let output = scene.push();
            let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
            assert!(said.contains("unable to migrate objects to permanent storage"), "{link}: {said}");
            scene.assert_target_is_whole(&said);
            assert!(!scene.server.git_dir().join("objects").join(link).is_symlink(), "{link}: {said}");
        }
    }
}

#[test]
fn what_a_dead_push_left_is_removed_without_what_its_links_lead_to() {
    if is_root() {
        return;
    }
    let scene = Scene::new("update", "exit 0", "100");
    let objects = scene.server.git_dir().join("objects");
    let dead = objects.join("tmp_objdir-incoming-dead");
    std::fs::create_dir_all(dead.join("pack")).unwrap();
    std::fs::write(dead.join("refdb.lock"), "").unwrap();
    link(&scene.target, &dead.join("ab"));
    link(&scene.target.join("pack/pack-1.pack"), &dead.join("pack/pack-1.pack"));
    link(&scene.target, &objects.join("tmp_objdir-incoming-link"));
    // A lock that is a symbolic link may be free, but that says nothing about its folder.
    let young = objects.join("tmp_objdir-incoming-young");
    std::fs::create_dir(&young).unwrap();
    link(&scene.target.join("refdb.lock"), &young.join("refdb.lock"));
    assert!(scene.push().status.success());
    scene.assert_target_is_whole("dead");
    assert!(!dead.exists() && young.exists());
}

fn link(target: &Path, path: &Path) {
    std::os::unix::fs::symlink(target, path).unwrap();
}
