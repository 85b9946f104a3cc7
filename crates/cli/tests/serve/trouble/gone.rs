//! Repositories that are replaced, deleted or made unreadable while they are used, and hooks that hang meanwhile.

use super::{NULL, Push, Refs, assert_whole, listed, refs_of};
use crate::support::{Answer, Options, Request, Server, exported, packets};
use refdb_testkit::{RefFormat, Repo, at_most};
use refdb_types::HashKind;
use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + at_most(Duration::from_secs(60));
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// How a repository goes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Moved,
    Replaced,
    Deleted,
}

const FATES: [Fate; 3] = [Fate::Moved, Fate::Replaced, Fate::Deleted];

/// A repository at `repo` below the served root, and another one that may take its place.
struct Place {
    root: tempfile::TempDir,
    server: Server,
    original: Repo,
    other: Repo,
}

impl Place {
    fn new(format: RefFormat) -> Self {
        let (original, other) = (exported(format, HashKind::Sha1), exported(format, HashKind::Sha1));
        other.create_refs([("refs/heads/of-the-other", other.rev_parse("refs/heads/main"))]);
        for repo in [&original, &other] {
            repo.config("http.receivepack", "true");
            repo.config("receive.autogc", "false");
        }
        let root = tempfile::tempdir().unwrap();
        let server = Options::root(root.path()).start();
        Place { root, server, original, other }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    fn aside(&self) -> PathBuf {
        self.root.path().join("aside")
    }

    fn befall(&self, fate: Fate) {
        match fate {
            Fate::Deleted => fs::remove_dir_all(self.folder()).unwrap(),
            Fate::Moved | Fate::Replaced => fs::rename(self.folder(), self.aside()).unwrap(),
        }
        if fate == Fate::Replaced {
            copy(self.other.git_dir(), &self.folder());
        }
    }

    /// Asserts that a list shows what is at `repo` now, and removes what is left of both repositories.
    fn assert_seen(&self, fate: Fate) {
        let answer = self.server.ask(&Request::ls_refs("repo"));
        match fate {
            Fate::Replaced => {
                assert_eq!(listed(&answer), refs_of(&self.folder()));
                assert_whole(&self.folder());
                fs::remove_dir_all(self.folder()).unwrap();
            }
            Fate::Moved | Fate::Deleted => assert_eq!(answer.status, 404, "{answer:?}"),
        }
        if fate != Fate::Deleted {
            assert_whole(&self.aside());
            fs::remove_dir_all(self.aside()).unwrap();
        }
    }
}

#[test]
fn a_list_that_has_begun_is_of_one_repository_or_breaks_off() {
    for format in RefFormat::ALL {
        let place = Place::new(format);
        // More than the buffers of a connection hold.
        place.original.fill(150_000, &place.original.commits(3));
        for fate in FATES {
            copy(place.original.git_dir(), &place.folder());
            let refs = refs_of(&place.folder());
            let mut stream = place.server.connect();
            stream.write_all(&Request::ls_refs("repo").bytes()).unwrap();
            let mut bytes = vec![0; 4096];
            stream.read_exact(&mut bytes).unwrap();
            place.befall(fate);
            let answer = place.server.ask(&Request::ls_refs("repo"));
            assert_eq!(answer.status, if fate == Fate::Replaced { 200 } else { 404 });
            let _ = stream.read_to_end(&mut bytes);
            let (answer, _) = Answer::parse(&bytes, false);
            assert_eq!(answer.status, 200);
            if answer.is_complete {
                assert_eq!(listed(&answer), refs, "{fate:?}");
            }
            place.assert_seen(fate);
        }
    }
}

#[test]
fn a_push_is_never_acknowledged_for_one_repository_and_done_in_another() {
    for format in RefFormat::ALL {
        let place = Place::new(format);
        let client = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let commit = client.commits(1)[0];
        let push = Push::new(&client, "refs/heads/pushed", NULL, commit);
        for (fate, name) in FATES.iter().flat_map(|fate| [(*fate, "pre-receive"), (*fate, "update")]) {
            copy(place.original.git_dir(), &place.folder());
            let [waiting, go] = ["waiting", "go"].map(|name| place.server.scratch().join(name));
            let script = format!(
                "#!/bin/sh\ntouch {0}\nwhile ! test -e {1}; do sleep 0.01; done\n",
                waiting.display(),
                go.display()
            );
            fs::create_dir_all(place.folder().join("hooks")).unwrap();
            fs::write(place.folder().join("hooks").join(name), script).unwrap();
            set_mode(&place.folder().join("hooks").join(name), 0o755);
            let mut stream = place.server.connect();
            stream.write_all(&push.request("repo").bytes()).unwrap();
            wait_for("the hook runs", || waiting.exists());
            place.befall(fate);
            fs::write(&go, "").unwrap();
            let answer = Answer::read(stream, false);
            assert!([200, 500].contains(&answer.status), "{answer:?}");
            let is_done = answer.text().contains("ok refs/heads/pushed");
            let has = |folder: &Path| folder.join("HEAD").exists() && refs_of(folder).contains_key(&push.name);
            // The repository that is at `repo` now must not have the ref.
            assert!(!has(&place.folder()), "{fate:?} {name}: {}", answer.text());
            assert!(!is_done || has(&place.aside()), "{fate:?} {name}: {}", answer.text());
            place.assert_seen(fate);
            [waiting, go].iter().for_each(|file| fs::remove_file(file).unwrap());
        }
    }
}

/// A push that is not atomic deletes refs before it asks the update hook about the others.
#[test]
fn deletions_that_were_done_before_a_repository_was_moved_are_reported_as_done() {
    let place = Place::new(RefFormat::Files);
    let id = place.original.rev_parse("refs/heads/old");
    copy(place.original.git_dir(), &place.folder());
    let hooks = place.folder().join("hooks");
    fs::create_dir_all(&hooks).unwrap();
    let script =
        format!("#!/bin/sh\ntest $1 = refs/heads/old || mv {} {}\n", place.folder().display(), place.aside().display());
    fs::write(hooks.join("update"), script).unwrap();
    set_mode(&hooks.join("update"), 0o755);
    let commands = [format!("{id} {NULL} refs/heads/old\0 report-status"), format!("{NULL} {id} refs/heads/new")];
    let push = Push::new(&place.original, "refs/heads/new", id, id);
    let body = [packets(&[&commands[0], &commands[1], "0000"]), push.pack].concat();
    let report = place.server.ask(&Request::post("repo", "git-receive-pack", body)).text();
    assert!(report.contains("ng refs/heads/new repository moved or deleted"), "{report}");
    assert!(report.contains("ok refs/heads/old\n"), "{report}");
    let refs = refs_of(&place.aside());
    assert!(!refs.contains_key("refs/heads/old") && !refs.contains_key("refs/heads/new"), "{refs:?}");
}

#[test]
fn a_repository_that_cannot_be_read_is_never_shown_with_fewer_refs() {
    for format in RefFormat::ALL {
        let repo = exported(format, HashKind::Sha1);
        repo.config("http.receivepack", "true");
        repo.config("receive.autogc", "false");
        if format == RefFormat::Files {
            repo.git(["pack-refs", "--all"]);
            repo.create_refs([("refs/heads/loose", repo.rev_parse("refs/heads/main"))]);
        }
        let server = Options::root(repo.scratch()).bound_by_permissions().start();
        let refs = refs_of(repo.git_dir());
        assert_eq!(listed(&server.ask(&Request::ls_refs("repo"))), refs);
        let push = Push { pack: Vec::new(), ..Push::new(&repo, "refs/heads/old", refs["refs/heads/old"], NULL) };
        let tables = fs::read_dir(repo.git_dir().join("reftable"));
        let tables = tables.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let tables = tables.map(|name| format!("reftable/{name}"));
        let places =
            ["", "HEAD", "config", "refs", "refs/heads", "refs/heads/loose", "packed-refs", "reftable", "objects"];
        for name in places.into_iter().map(ToOwned::to_owned).chain(tables) {
            let path = repo.git_dir().join(&name);
            let Ok(found) = fs::metadata(&path) else { continue };
            set_mode(&path, 0);
            // The deletion of `refs/heads/old` needs none of these. With reftables, `refs/heads` is a file that keeps
            // old gits away.
            let is_needed =
                !(["objects", "refs/heads/loose"].contains(&&name[..]) || name == "refs/heads" && found.is_file());
            assert_guarded(&server, &refs, is_needed.then_some(&push), &name);
            set_mode(&path, found.permissions().mode());
            assert_eq!(refs_of(repo.git_dir()), refs, "{name}");
            assert_eq!(listed(&server.ask(&Request::ls_refs("repo"))), refs, "{name}");
        }
        let answer = server.ask(&push.request("repo"));
        assert!(answer.text().contains("ok refs/heads/old"), "{answer:?}");
        assert_whole(repo.git_dir());
    }
}

/// Regression: the folder was listed as if it were a ref.
#[test]
fn a_list_of_a_folder_that_cannot_be_read_fails_and_lists_of_others_do_not() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    repo.create_refs([("refs/tags/loose", repo.rev_parse("refs/heads/main"))]);
    let server = Options::root(repo.scratch()).bound_by_permissions().start();
    let list = |prefix: &str| {
        let lines = ["command=ls-refs\n", "0001", &format!("ref-prefix {prefix}\n"), "0000"];
        let request = Request::post("repo", "git-upload-pack", packets(&lines)).with("Git-Protocol", "version=2");
        server.ask(&request)
    };
    let heads = repo.git_dir().join("refs/heads");
    let mode = fs::metadata(&heads).unwrap().permissions().mode();
    for closed in [0o000, 0o111] {
        set_mode(&heads, closed);
        let discovery = server.ask(&Request::discovery("repo", "git-upload-pack"));
        let statuses = ["refs/", "refs/heads/", "refs/heads/ma", "refs/tags/"].map(|prefix| list(prefix).status);
        let tags = list("refs/tags/").text();
        set_mode(&heads, mode);
        assert_eq!((discovery.status, statuses), (500, [500, 500, 500, 200]), "{closed:o}");
        assert!(tags.contains(" refs/tags/loose\n"), "{tags}");
        assert_eq!(list("refs/heads/").status, 200);
    }
    assert!(server.errors().contains("refs/heads"), "{}", server.errors());
}

/// Asserts that, while something cannot be read, a client gets all refs or an error, and that a push, if there is one,
/// is refused.
fn assert_guarded(server: &Server, refs: &Refs, push: Option<&Push>, what: &str) {
    let answer = server.ask(&Request::ls_refs("repo"));
    match answer.status {
        404 | 500 => {}
        _ if !answer.is_complete => {}
        _ => {
            let mut shown = listed(&answer);
            // A ref that cannot be read is listed with an id of zeros, at which git's client fails.
            let has_failed = shown.values().any(|id| *id == NULL);
            shown.retain(|_, id| *id != NULL);
            assert!(has_failed || shown == *refs, "{what}: {}", answer.text());
        }
    }
    if let Some(push) = push {
        let answer = server.ask(&push.request("repo"));
        assert!(!answer.text().contains("ok refs/"), "{what}: {answer:?}");
    }
}

#[test]
fn a_push_whose_hook_hangs_changes_nothing_once_its_client_has_left() {
    let place = Place::new(RefFormat::Reftable);
    copy(place.original.git_dir(), &place.folder());
    let [waiting, go] = ["waiting", "go"].map(|name| place.server.scratch().join(name));
    let script =
        format!("#!/bin/sh\ntouch {0}\nwhile ! test -e {1}; do sleep 0.01; done\n", waiting.display(), go.display());
    fs::create_dir_all(place.folder().join("hooks")).unwrap();
    let hook = place.folder().join("hooks/pre-receive");
    fs::write(&hook, script).unwrap();
    set_mode(&hook, 0o755);
    let client = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let push = Push::new(&client, "refs/heads/pushed", NULL, client.commits(1)[0]);
    let mut stream = place.server.connect();
    stream.write_all(&push.request("repo").bytes()).unwrap();
    wait_for("the hook runs", || waiting.exists());
    drop(stream);
    // Lists are served while the hook hangs.
    let before = refs_of(&place.folder());
    assert_eq!(listed(&place.server.ask(&Request::ls_refs("repo"))), before);
    fs::write(&go, "").unwrap();
    let answer = place.server.ask(&push.to("refs/heads/next").request("repo"));
    assert!(answer.text().contains("ok refs/heads/next"), "{answer:?}");
    wait_for("the quarantine of the first push goes", || {
        let entries = fs::read_dir(place.folder().join("objects")).unwrap();
        entries.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with("tmp_objdir"))
    });
    assert!(!refs_of(&place.folder()).contains_key("refs/heads/pushed"));
    assert_whole(&place.folder());
}
