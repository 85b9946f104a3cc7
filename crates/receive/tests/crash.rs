//! A push that is stopped, or refused, at every operation that changes the disk leaves no ref without its objects, and
//! nothing in the way of the next push. Git's programs write on their own, and are not stopped.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use refdb::{Store, Target};
use refdb_receive::{Call, Facts, Settings, delegation_reason, serve};
use refdb_testkit::{
    Git, RefFormat, Repo,
    crash::{Crash, kill_everywhere, refuse_everywhere},
};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    fmt::Write as _,
    fs::File,
    io::Write as _,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// A server without refs, and a client that pushes two commits to it.
struct Scene {
    server: Repo,
    client: Repo,
    commits: Vec<ObjectId>,
}

impl Scene {
    /// Creates both repositories. The server keeps packs of at least `limit` objects as they are.
    fn new(format: RefFormat, limit: &str) -> Self {
        let (server, client) = (Repo::bare(format, HashKind::Sha1), Repo::bare(format, HashKind::Sha1));
        server.config("receive.unpackLimit", limit);
        server.config("receive.autogc", "false");
        let commits = client.commits(2);
        Scene { server, client, commits }
    }

    /// Pushes a new ref, and returns the server's answer.
    fn push(&self, fs: &Fs, dir: &Path, name: &str, sync: bool) -> Result<String, String> {
        let tip = self.commits[1];
        let line = format!("{} {tip} {name}\0report-status", "0".repeat(40));
        let mut request = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
        request.extend(self.client.try_git(["pack-objects", "--revs", "--stdout", "-q"], format!("{tip}\n")).stdout);
        // Outside the repository, so that nobody takes the files for a part of it.
        let file = |name: &str| dir.parent().unwrap().join(name);
        File::create(file("request")).unwrap().write_all(&request).unwrap();
        let (input, output) = (File::open(file("request")).unwrap(), File::create(file("answer")).unwrap());
        let store =
            Store::builder(dir).fs(fs.clone().signing_locks()).sync(sync).open().map_err(|error| error.to_string())?;
        let settings = Settings::of(store.config()).unwrap();
        let facts = Facts::of(store.fs(), store.repository(), store.environment()).unwrap();
        assert_eq!(delegation_reason(&settings, &facts), None);
        let mut call = Call::new(Git::find().program().into(), "test/1".into());
        call.stateless = true;
        let served = serve(&store, &settings, &call, input.as_fd(), output.as_fd());
        served.map_err(|error| error.to_string())?;
        Ok(std::fs::read_to_string(file("answer")).unwrap())
    }

    /// Pushes to `main`, and counts the push as successful only if the server says so.
    fn push_main(&self, fs: &Fs, dir: &Path) -> Result<(), String> {
        let answer = self.push(fs, dir, "refs/heads/main", true)?;
        if answer.contains("ok refs/heads/main\n") { Ok(()) } else { Err(answer) }
    }

    /// Checks what is there after a crash, or after a failure for which the push has cleaned up.
    fn check(&self, dir: &Path, crash: &Crash, cleans_up: bool) {
        let store = Store::open(dir).unwrap();
        let main = store.find("refs/heads/main").unwrap();
        if crash.claimed {
            assert!(main.is_some(), "the client was told that the ref is there");
        }
        if let Some(main) = main {
            assert_eq!(main.target, Target::Direct(self.commits[1]));
            for id in &self.commits {
                assert!(store.objects().exists(id).unwrap(), "the ref is there, its object {id} is not");
            }
        }
        let refused_removal = crash.next.starts_with("remove");
        let left = quarantines(dir);
        assert!(!cleans_up || refused_removal || left.is_empty(), "{left:?}");
        // A quarantine that has no lock yet may be another process's, so that a push leaves it to `git prune`. A
        // program that another test starts shares all open files of this process until it is executed. A lock may seem
        // to be held meanwhile, and then only a later push removes its quarantine.
        let is_cleared = |number: usize| {
            let name = format!("refs/heads/next-{number}");
            let answer = self.push(&Fs::real(), dir, &name, false).unwrap();
            assert!(answer.contains(&format!("ok {name}\n")), "{answer}");
            quarantines(dir).iter().all(|folder| !folder.join("refdb.lock").exists())
        };
        assert!((0..5).any(is_cleared), "{:?}", quarantines(dir));
    }
}

fn quarantines(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join("objects")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("tmp_objdir")).collect()
}

const SCENES: [(RefFormat, &str); 2] = [(RefFormat::Files, "1"), (RefFormat::Reftable, "100")];

#[test]
fn a_push_killed_at_any_step_leaves_no_ref_without_its_objects() {
    for (format, limit) in SCENES {
        let scene = Scene::new(format, limit);
        let push = |fs: &Fs, dir: &Path| scene.push_main(fs, dir);
        kill_everywhere(scene.server.git_dir(), push, |dir, crash| scene.check(dir, crash, false));
    }
}

#[test]
fn a_disk_that_is_full_at_any_step_refuses_the_push_and_nothing_is_left_of_it() {
    for (format, limit) in SCENES {
        let scene = Scene::new(format, limit);
        let push = |fs: &Fs, dir: &Path| scene.push_main(fs, dir);
        refuse_everywhere(scene.server.git_dir(), push, |dir, crash| scene.check(dir, crash, true));
    }
}

/// Records the files and folders that are synced.
#[derive(Default)]
struct Synced(Mutex<Vec<PathBuf>>);

impl IoHook for Synced {
    fn before(&self, op: Op<'_>) -> Verdict {
        if let Op::Sync(path) | Op::SyncDir(path) = op {
            self.0.lock().unwrap().push(path.to_owned());
        }
        Verdict::Proceed
    }
}

#[test]
fn objects_are_synced_where_the_store_syncs_refs() {
    for (format, limit) in SCENES {
        for sync in [false, true] {
            let scene = Scene::new(format, limit);
            let synced = Arc::new(Synced::default());
            let dir = scene.server.git_dir();
            let answer = scene.push(&Fs::with_hook(synced.clone()), dir, "refs/heads/main", sync).unwrap();
            assert!(answer.contains("ok refs/heads/main\n"), "{answer}");
            let mut said = String::new();
            for path in synced.0.lock().unwrap().iter() {
                writeln!(said, "{}", path.strip_prefix(dir).unwrap().display()).unwrap();
            }
            let is_object = |line: &str| line.starts_with("objects/");
            assert_eq!(said.lines().any(is_object), sync, "{format:?}, sync {sync}:\n{said}");
            assert_eq!(said.lines().any(|line| !is_object(line)), sync, "{format:?}, sync {sync}:\n{said}");
            if sync {
                let (last_object, first_ref) = (
                    said.lines().filter(|line| line.starts_with("objects")).count(),
                    said.lines().position(|line| !line.starts_with("objects")),
                );
                assert!(first_ref >= Some(last_object), "refs were synced before objects:\n{said}");
                assert!(said.lines().any(|line| line == "objects"), "the folders' names are not safe:\n{said}");
            }
        }
    }
}
