//! Pushes to a disk that is full, over HTTP and through a `refdb receive-pack` that runs beside the server, as under
//! sshd.

use super::{NULL, Push, Refs, assert_whole, listed, refs_of};
use crate::support::{Answer, Options, Request, Server, exported};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use rustix::process::Resource;
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A small file system, which is unmounted when this is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a small file system at a new folder. Returns `None` if this user may not do that.
    fn mount(folder: PathBuf) -> Option<Self> {
        fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(&folder).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(folder))
    }

    /// Fills the disk except for so many bytes.
    fn fill(&self, free: u64) {
        let mut file = File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(free)).unwrap();
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A lazy unmount succeeds even if a test has failed and its server still has files open.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// A served repository, the commits that are pushed to it, and the refs that it must have.
struct Pushing {
    server: Server,
    folder: PathBuf,
    client: Repo,
    commits: Vec<ObjectId>,
    refs: Refs,
    pushes: usize,
    refused: usize,
}

impl Pushing {
    /// Serves a copy of a repository in the folder `root`.
    fn new(format: RefFormat, root: &Path) -> Self {
        let repo = exported(format, HashKind::Sha1);
        repo.config("http.receivepack", "true");
        repo.config("receive.autogc", "false");
        repo.config("core.logAllRefUpdates", "true");
        let folder = root.join("repo");
        assert!(Command::new("cp").arg("-a").arg(repo.git_dir()).arg(&folder).status().unwrap().success());
        let client = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let commits = client.commits(3);
        let refs = refs_of(&folder);
        Pushing { server: Options::root(root).start(), folder, client, commits, refs, pushes: 0, refused: 0 }
    }

    /// Creates, changes and deletes a ref by pushes, and after each push looks at the refs, by git and through the
    /// server.
    fn push_all(&mut self, is_ssh_tried: bool) {
        let [first, second] = [0, 1].map(|at| self.commits[at]);
        let fresh = format!("refs/heads/n{}", self.pushes);
        let created = Push::new(&self.client, &fresh, NULL, first);
        self.push(&created, false);
        if let Some(old) = self.refs.get(&fresh).copied() {
            self.push(&Push::new(&self.client, &fresh, old, second), false);
        }
        if is_ssh_tried {
            self.push(&created.to(&format!("{fresh}-ssh")), true);
        }
        if let Some(old) = self.refs.get(&fresh).copied() {
            self.push(&Push::new(&self.client, &fresh, old, NULL), false);
        }
    }

    fn push(&mut self, push: &Push, is_ssh: bool) {
        self.pushes += 1;
        let report = if is_ssh { self.over_ssh(push) } else { self.over_http(push) };
        let found = refs_of(&self.folder);
        let before = self.refs.clone();
        push.note(&report, &mut self.refs, &found);
        assert_eq!(found, self.refs, "{}", String::from_utf8_lossy(&report));
        self.refused += usize::from(before == self.refs);
        assert_eq!(listed(&self.server.ask(&Request::ls_refs("repo"))), self.refs);
    }

    fn over_http(&self, push: &Push) -> Vec<u8> {
        let Answer { status, body, is_complete, .. } = self.server.ask(&push.request("repo"));
        assert!(is_complete && [200, 500].contains(&status), "{status}");
        // An answer with status 200 is a whole report, even if the push is refused while its pack is unpacked.
        assert!(status == 500 || body.ends_with(b"0000"), "{}", String::from_utf8_lossy(&body));
        body
    }

    fn over_ssh(&self, push: &Push) -> Vec<u8> {
        let mut command = self.server.shim();
        // A shim already has the argument `upload-pack`, so only its program and its environment are of use.
        let program = command.get_program().to_owned();
        let mut receive = Command::new(program);
        receive.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        receive.env("REFDB_GIT", Git::find().program()).args(["receive-pack", "--stateless-rpc"]).arg(&self.folder);
        command = receive;
        crate::support::feed(&mut command, &push.body()).output
    }

    /// Asserts that all is well now that there is room again.
    fn assert_well(mut self) {
        assert!(self.refused > 0, "there was always room");
        let before = self.refused;
        self.push_all(true);
        assert_eq!(self.refused, before, "{}", self.server.errors());
        assert_whole(&self.folder);
    }
}

#[test]
fn on_a_full_disk_each_push_is_done_or_refused_and_lists_are_right() {
    for format in RefFormat::ALL {
        let temp = tempfile::tempdir().unwrap();
        let Some(disk) = SmallDisk::mount(temp.path().join("disk")) else {
            println!("NOT RUN: only root can mount a small disk");
            return;
        };
        let mut pushing = Pushing::new(format, &disk.0);
        for pages in [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32] {
            disk.fill(pages * 4096);
            pushing.push_all(true);
            disk.empty();
        }
        pushing.assert_well();
    }
}

/// A limit on the size of files stands for a disk that becomes full in the middle of a file. Any user can set it.
#[test]
fn where_files_cannot_grow_each_push_is_done_or_refused_and_lists_are_right() {
    for format in RefFormat::ALL {
        let temp = tempfile::tempdir().unwrap();
        let mut pushing = Pushing::new(format, temp.path());
        for bytes in [0, 1, 20, 40, 41, 60, 80, 100, 150, 200, 300, 400, 600, 1000, 2000] {
            pushing.server.limit(Resource::Fsize, Some(bytes));
            pushing.push_all(false);
            pushing.server.limit(Resource::Fsize, None);
        }
        pushing.assert_well();
    }
}
