//! Reads the whole state of a repository, and migrates it.

use refdb::{MigrateError, MigrateOptions, Migrated, RefFormat, Store, TargetView};
use refdb_testkit::Repo;
use refdb_vfs::Fs;
use std::{collections::BTreeMap, ops::ControlFlow, path::Path};

/// Refs by name, and reflogs by name; the names of those that a linked worktree sees, shared ones too, have `ID:`
/// before them.
pub(crate) type State = (BTreeMap<String, String>, BTreeMap<String, Vec<String>>);

pub(crate) fn other(format: RefFormat) -> RefFormat {
    match format {
        RefFormat::Files => RefFormat::Reftable,
        RefFormat::Reftable => RefFormat::Files,
    }
}

pub(crate) fn format_of(dir: &Path) -> RefFormat {
    Store::open(dir).unwrap().repository().ref_format()
}

pub(crate) fn testkit_format(format: RefFormat) -> refdb_testkit::RefFormat {
    match format {
        RefFormat::Files => refdb_testkit::RefFormat::Files,
        RefFormat::Reftable => refdb_testkit::RefFormat::Reftable,
    }
}

/// Migrates the repository in this folder, through `fs`.
pub(crate) fn migrate(fs: &Fs, dir: &Path, to: RefFormat) -> Result<Migrated, MigrateError> {
    let options = MigrateOptions::new(to);
    Store::builder(dir).fs(fs.clone()).open()?.migrate(&options, &mut |_| {})
}

/// Returns all refs and reflogs of all worktrees.
pub(crate) fn state(dir: &Path) -> State {
    let mut state = State::default();
    add(dir, "", &mut state);
    let store = Store::open(dir).unwrap();
    for worktree in store.repository().worktrees(store.fs()).unwrap() {
        add(&worktree.git_dir, &format!("{}:", worktree.id), &mut state);
    }
    state
}

fn add(dir: &Path, prefix: &str, state: &mut State) {
    let store = Store::open(dir).unwrap();
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.cursor(true).unwrap();
    while let Some(view) = cursor.next().unwrap() {
        let target = match view.target {
            TargetView::Direct(id) => id.to_string(),
            TargetView::Symbolic(name) => format!("-> {name}"),
        };
        state.0.insert(format!("{prefix}{}", view.name), target);
    }
    for name in snapshot.log_names().unwrap() {
        let mut lines = Vec::new();
        let mut add = |entry: &refdb::LogEntry| {
            lines.push(format!("{entry:?}"));
            ControlFlow::Continue(())
        };
        assert!(snapshot.log(name.as_bstr(), &mut add).unwrap());
        state.1.insert(format!("{prefix}{name}"), lines);
    }
}

/// Requires that a finished migration has left nothing behind.
pub(crate) fn assert_clean(dir: &Path) {
    let left: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("ref_migration") || name.ends_with(".lock"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(Store::open(dir).unwrap().strays().unwrap(), Vec::<bstr::BString>::new());
    let is_reftable = format_of(dir) == RefFormat::Reftable;
    assert_eq!(dir.join("reftable").exists(), is_reftable);
    assert_eq!(dir.join("refs/heads").is_file(), is_reftable);
}

/// Creates a repository with refs (in files packed ones, loose ones and both), symbolic refs, root refs, a tag, reflogs
/// including an empty one, and a worktree.
pub(crate) fn scene(format: RefFormat, hash: refdb::HashKind) -> Repo {
    let repo = Repo::bare(testkit_format(format), hash);
    repo.config("core.logAllRefUpdates", "true");
    let ids = repo.commits(3);
    let tag = repo.tag_object(ids[1], "v1");
    repo.create_refs([("refs/heads/main", ids[0]), ("refs/heads/a/b", ids[1]), ("refs/tags/v1", tag)]);
    if format == RefFormat::Files {
        repo.git(["pack-refs", "--all"]);
    }
    repo.git(["update-ref", "-m", "second", "refs/heads/main", &ids[2].to_string()]);
    repo.git(["update-ref", "refs/heads/loose", &ids[2].to_string()]);
    repo.git(["update-ref", "refs/worktree/own", &ids[0].to_string()]);
    repo.git(["update-ref", "ORIG_HEAD", &ids[0].to_string()]);
    repo.git(["symbolic-ref", "refs/heads/link", "refs/heads/main"]);
    repo.git(["symbolic-ref", "refs/heads/dangling", "refs/heads/none"]);
    let mut command = repo.command(refdb_testkit::Git::find().test_tool());
    command.args(["ref-store", "main", "create-reflog", "refs/heads/empty"]);
    assert!(command.output().unwrap().status.success());
    let tree = repo.scratch().join("tree");
    repo.git(["worktree", "add", "--quiet", "--no-checkout", "--detach", tree.to_str().unwrap(), "main"]);
    repo.git(["-C", tree.to_str().unwrap(), "update-ref", "refs/bisect/bad", &ids[0].to_string()]);
    repo
}
