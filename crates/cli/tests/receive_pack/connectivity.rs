//! Pushes to servers that lack objects. Refdb accepts the same pushes as git, except that a ref whose object is missing
//! does not make it refuse all of them.

use crate::common::REFDB;
use refdb_testkit::{Git, RefFormat, Repo, every};
use refdb_types::HashKind;
use std::{
    fmt::Write,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};

/// A server's repository, which is copied for each push, and the pushes to try.
struct World {
    repo: Repo,
    pushes: Vec<Push>,
}

struct Push {
    what: &'static str,
    request: Vec<u8>,
}

impl World {
    /// Creates a repository of loose objects. `main` has three commits of files in folders and a tag at the last,
    /// `side` starts at the first, and no ref leads to the history that the pushes call lost.
    fn new(format: RefFormat) -> Self {
        let mut world = World { repo: Repo::bare(format, HashKind::Sha1), pushes: Vec::new() };
        world.repo.config("receive.autogc", "false");
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|text| world.blob(&text.repeat(200)));
        let inner = world.tree(&[("blob", &a, "a"), ("blob", &b, "b")]);
        let first_tree = world.tree(&[("blob", &d, "d"), ("tree", &inner, "inner")]);
        let first = world.commit(&first_tree, &[]);
        let second_tree = world.tree(&[("blob", &c, "c"), ("tree", &inner, "inner")]);
        let second = world.commit(&second_tree, &[&first]);
        let top_inner = world.tree(&[("blob", &a, "a"), ("blob", &c, "c")]);
        let top_tree = world.tree(&[("blob", &a, "a"), ("tree", &top_inner, "inner")]);
        let top = world.commit(&top_tree, &[&second]);
        let side = world.commit(&inner, &[&first]);
        let lost_blob = world.blob("lost");
        let lost_inner = world.tree(&[("blob", &lost_blob, "lost")]);
        let lost_tree = world.tree(&[("tree", &lost_inner, "inner")]);
        let lost_first = world.commit(&lost_tree, &[&first]);
        let lost = world.commit(&lost_tree, &[&lost_first]);
        let tag = format!("object {top}\ntype commit\ntag v1\ntagger T <t@x> 1 +0000\n\nv1\n");
        let tag = world.write("tag", &tag);
        for (name, id) in [("heads/main", &top), ("heads/side", &side), ("tags/v1", &tag)] {
            world.repo.git(["update-ref", &format!("refs/{name}"), id]);
        }
        let zero = "0".repeat(40);
        let mut push = |what, old: &str, new: &str, objects: &[&str]| world.push(what, old, new, objects);
        push("a branch at a tip", &zero, &top, &[]);
        push("a branch at what a tag leads to", &zero, &tag, &[]);
        push("a branch at an old commit", &zero, &first, &[]);
        push("a branch at a lost commit", &zero, &lost, &[]);
        push("a tree", &zero, &top_tree, &[]);
        push("a lost tree", &zero, &lost_tree, &[]);
        let new_blob = world.blob(&format!("{}new", "a".repeat(200)));
        let with = |world: &World, more: &[(&str, &str, &str)]| {
            world.tree(&[&[("blob", &*new_blob, "a"), ("tree", &*top_inner, "inner")], more].concat())
        };
        let plain = with(&world, &[]);
        let moved = with(&world, &[("blob", &c, "moved")]);
        let folder = with(&world, &[("tree", &inner, "old")]);
        let reborn = with(&world, &[("blob", &d, "reborn")]);
        let with_lost = with(&world, &[("tree", &lost_inner, "x")]);
        let with_lost_blob = with(&world, &[("blob", &lost_blob, "x")]);
        for (what, tree, parents) in [
            ("a new commit", &plain, vec![&top]),
            ("a new commit by its own tree", &plain, vec![]),
            ("the same tree again", &top_tree, vec![&top]),
            ("an old tree again", &first_tree, vec![&top]),
            ("a merge", &plain, vec![&top, &side]),
            ("a moved file", &moved, vec![&top]),
            ("an older folder", &folder, vec![&top]),
            ("a file of old", &reborn, vec![&top]),
            ("on an old commit", &plain, vec![&second]),
            ("on a lost commit", &plain, vec![&lost]),
            ("a merge with a lost commit", &plain, vec![&top, &lost]),
            ("a lost folder", &with_lost, vec![&top]),
            ("a lost file", &with_lost_blob, vec![&top]),
            ("a lost tree in a commit", &lost_tree, vec![&top]),
        ] {
            let parents: Vec<&str> = parents.into_iter().map(String::as_str).collect();
            let new = world.commit(tree, &parents);
            let came: Vec<&str> = [&*new, tree, &new_blob].into_iter().collect();
            let old = if parents.first() == Some(&&*top) { &top } else { &zero };
            let name_is_main = old == &top;
            // A push brings all that is new. It brings the commit alone if its tree is an existing one, which a copy
            // may lack.
            let came = if [&top_tree, &first_tree, &lost_tree].contains(&tree) { &came[..1] } else { &came[..] };
            world.push_to(what, if name_is_main { "main" } else { "new" }, old, &new, came);
        }
        let new = world.commit(&plain, &[&top]);
        let text = format!("object {new}\ntype commit\ntag v2\ntagger T <t@x> 1 +0000\n\nv2\n");
        let tag = world.write("tag", &text);
        world.push("a tag of a new commit", &zero, &tag, &[&tag, &new, &plain, &new_blob]);
        world.push("a commit without its tree", &zero, &new, &[&new, &new_blob]);
        world.push("a commit without its file", &zero, &new, &[&new, &plain]);
        // A tree that names a new commit as a file. `git mktree` makes such a tree only while the commit does not
        // exist.
        let parent = world.commit(&plain, &[&top]);
        let (folder, file) = parent.split_at(2);
        std::fs::remove_file(world.repo.git_dir().join("objects").join(folder).join(file)).unwrap();
        let lying = with(&world, &[("blob", &parent, "x")]);
        assert_eq!(world.commit(&plain, &[&top]), parent);
        let child = world.commit(&lying, &[&parent]);
        world.push("a commit as a file", &zero, &child, &[&child, &lying, &parent, &plain, &new_blob]);
        let tag = world.write("tag", &text.replace(&*new, &lost));
        world.push("a tag of a lost commit", &zero, &tag, &[&tag]);
        let tag = world.write("tag", &text.replace(&*new, &lost_blob).replace("type commit", "type blob"));
        world.push("a tag of a lost file", &zero, &tag, &[&tag]);
        world.forget_new();
        world
    }

    fn write(&self, kind: &str, content: &str) -> String {
        let output = self.repo.try_git(["hash-object", "-w", "--stdin", "--literally", "-t", kind], content);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn blob(&self, text: &str) -> String {
        self.write("blob", text)
    }

    fn tree(&self, entries: &[(&str, &str, &str)]) -> String {
        let mut lines = String::new();
        for (kind, id, name) in entries {
            let mode = if *kind == "tree" { "040000" } else { "100644" };
            writeln!(lines, "{mode} {kind} {id}\t{name}").unwrap();
        }
        String::from_utf8(self.repo.try_git(["mktree", "--missing"], lines).stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, tree: &str, parents: &[&str]) -> String {
        let mut text = format!("tree {tree}\n");
        parents.iter().for_each(|parent| writeln!(text, "parent {parent}").unwrap());
        // Commits that are made for different pushes have different times, in order.
        let at = 1_700_000_000 + self.pushes.len();
        writeln!(text, "author A <a@x> {at} +0000\ncommitter A <a@x> {at} +0000\n\n{}", self.pushes.len()).unwrap();
        self.write("commit", &text)
    }

    fn push(&mut self, what: &'static str, old: &str, new: &str, objects: &[&str]) {
        self.push_to(what, "new", old, new, objects);
    }

    fn push_to(&mut self, what: &'static str, name: &str, old: &str, new: &str, objects: &[&str]) {
        let line = format!("{old} {new} refs/heads/{name}\0report-status");
        // Branches cannot hold tags and trees.
        let line = if what.contains("tag") || what.contains("tree") && !what.contains("commit") {
            line.replace("heads/new", "tags/new")
        } else {
            line
        };
        let mut request = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
        let pack = self.repo.try_git(
            ["pack-objects", "--stdout", "--quiet"],
            objects.iter().map(|id| format!("{id}\n")).collect::<String>(),
        );
        assert!(pack.status.success(), "{what}: {}", String::from_utf8_lossy(&pack.stderr));
        request.extend(pack.stdout);
        self.pushes.push(Push { what, request });
    }

    /// Removes the objects that the pushes bring: all that no ref leads to, except the lost history.
    fn forget_new(&self) {
        let reachable = self.repo.git(["rev-list", "--objects", "--all"]);
        let kept: Vec<&str> = reachable.lines().filter_map(|line| line.split(' ').next()).collect();
        for file in objects(self.repo.git_dir()) {
            let id = id_of(&file);
            let is_lost = self.lost().contains(&id);
            if !kept.contains(&&*id) && !is_lost {
                fs::remove_file(&file).unwrap();
            }
        }
    }

    /// Returns the objects of the lost history, including those that refs lead to as well.
    fn lost(&self) -> Vec<String> {
        let push = self.pushes.iter().find(|push| push.what == "a branch at a lost commit").unwrap();
        let id = String::from_utf8_lossy(&push.request[45..85]).into_owned();
        let listed = self.repo.try_git(["rev-list", "--objects", &id], "");
        String::from_utf8(listed.stdout).unwrap().lines().map(|line| line[..40].to_owned()).collect()
    }
}

fn objects(git_dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in fs::read_dir(git_dir.join("objects")).unwrap().map(|entry| entry.unwrap().path()) {
        if folder.file_name().unwrap().len() == 2 {
            files.extend(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    files.sort();
    files
}

fn id_of(file: &Path) -> String {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    name(file.parent().unwrap()) + &name(file)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What is missing from a copy of the repository.
#[derive(Clone, Copy)]
struct Missing<'m> {
    object: Option<&'m Path>,
    /// Whether the refs that hold the object are missing too.
    refs_too: bool,
}

fn copy_without(world: &World, missing: Missing<'_>) -> PathBuf {
    let folder = world.repo.scratch().join("copy");
    let _ = fs::remove_dir_all(&folder);
    copy(world.repo.git_dir(), &folder);
    let Some(object) = missing.object else { return folder };
    for listed in world.repo.refs().iter().filter(|_| missing.refs_too) {
        if listed.oid.to_string() == id_of(object) && listed.name.starts_with(b"refs/") {
            let name = String::from_utf8(listed.name.to_vec()).unwrap();
            world.repo.git(["-C", folder.to_str().unwrap(), "--git-dir=.", "update-ref", "-d", &name]);
        }
    }
    fs::remove_file(folder.join(object.strip_prefix(world.repo.git_dir()).unwrap())).unwrap();
    folder
}

/// Whether a program accepts a push to a copy of the repository.
fn lets_in(world: &World, program: &Path, push: &Push, missing: Missing<'_>, limit: &str) -> bool {
    let folder = copy_without(world, missing);
    let mut command = world.repo.command(program);
    let limit = format!("'receive.unpacklimit={limit}'");
    command.env("REFDB_GIT", Git::find().program()).env("GIT_CONFIG_PARAMETERS", limit);
    command.args(["receive-pack", "--stateless-rpc"]).arg(&folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&push.request).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("ok refs/") || said.contains("ng refs/"), "{}: {log}", push.what);
    said.contains("ok refs/")
}

#[test]
fn whatever_is_missing_no_push_is_let_in_that_git_refuses_nor_refused_that_git_lets_in() {
    let mut refused = 0;
    let worlds = [RefFormat::Files, RefFormat::Reftable].map(World::new);
    let files = worlds.each_ref().map(|world| objects(world.repo.git_dir()));
    assert!(files[0].len() > 18, "{} objects", files[0].len());
    // `make test` tries every third object, and the case in which nothing is missing. The formats take turns.
    let (last, stride) = (files[0].len(), every(3));
    for at in (0..=last).filter(|at| at % stride == 0 || *at == last) {
        let world = &worlds[at % 2];
        let object = files[at % 2].get(at).map(PathBuf::as_path);
        for (push, limit) in world.pushes.iter().zip(["1", "100"].into_iter().cycle()) {
            let missing = Missing { object, refs_too: false };
            let git = lets_in(world, Git::find().program(), push, missing, limit);
            let refdb = lets_in(world, Path::new(REFDB), push, missing, limit);
            let what = object.map(|file| world.repo.try_git(["cat-file", "-p", &id_of(file)], "").stdout);
            let what = what.map(|text| String::from_utf8_lossy(&text).into_owned());
            let what = format!("{:?}, limit {limit}, {}, without {object:?}: {what:?}", world.repo.format(), push.what);
            refused += usize::from(!git);
            if git == refdb {
                continue;
            }
            // Git refuses every push if the object of any ref is missing. Refdb treats such a ref as if it did not
            // exist.
            assert!(refdb, "{what}");
            let missing = Missing { refs_too: true, ..missing };
            assert!(lets_in(world, Git::find().program(), push, missing, limit), "{what}");
        }
    }
    assert!(refused > 50, "only {refused} pushes were refused");
}

/// Returns the calls of `git rev-list` that refdb makes for a push.
fn started(world: &World, push: &Push) -> Vec<String> {
    let (log, git) = (world.repo.scratch().join("started"), world.repo.scratch().join("counting-git"));
    let _ = fs::remove_file(&log);
    let real = Git::find().program().display().to_string();
    fs::write(&git, format!("#!/bin/sh\necho \"$*\" >>'{}'\nexec '{real}' \"$@\"\n", log.display())).unwrap();
    fs::set_permissions(&git, PermissionsExt::from_mode(0o755)).unwrap();
    let folder = copy_without(world, Missing { object: None, refs_too: false });
    let mut command = world.repo.command(REFDB);
    command.env("REFDB_GIT", &git).args(["receive-pack", "--stateless-rpc"]).arg(&folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&push.request).unwrap();
    assert!(String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).contains("ok refs/"), "{}", push.what);
    let log = fs::read_to_string(log).unwrap_or_default();
    log.lines().filter(|line| line.starts_with("rev-list")).map(ToOwned::to_owned).collect()
}

#[test]
fn git_is_asked_only_for_what_the_push_and_the_refs_do_not_show() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let world = World::new(format);
        let asked = |what: &str| {
            let push = world.pushes.iter().find(|push| push.what == what).unwrap();
            let mut walks = started(&world, push);
            // A walk that takes long is given up for one against all refs. On a busy machine any walk may take long,
            // but not each time.
            for _ in 0..30 {
                if walks.len() > 1 {
                    walks = started(&world, push);
                }
            }
            walks
        };
        for what in [
            "a branch at a tip",
            "a new commit",
            "a new commit by its own tree",
            "the same tree again",
            "a merge",
            "a moved file",
            "a tag of a new commit",
        ] {
            let alone: &[&str] =
                if what.ends_with("its own tree") { &["rev-list --objects --stdin --quiet"] } else { &[] };
            assert_eq!(asked(what), alone, "{what}");
        }
        // One walk against a few tips is enough for objects that the tips lead to.
        for what in ["a branch at an old commit", "on an old commit", "an old tree again", "a file of old"] {
            assert_eq!(asked(what), ["rev-list --objects --stdin --quiet"], "{what}");
        }
    }
}
