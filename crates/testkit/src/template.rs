//! What nearly every test needs from git: an empty repository and commits. Each kind of repository and each number of
//! commits is made once in each process and copied from memory for each repository, so that tests start fewer
//! processes.

use crate::{Git, git};
use bstr::ByteSlice;
use refdb_types::HashKind;
use std::{
    collections::HashMap,
    fmt::Write as _,
    fs,
    hash::Hash,
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// The content of a folder in memory.
struct Tree {
    /// Relative paths, each folder before what is in it.
    folders: Vec<PathBuf>,
    /// Relative paths with content and permissions.
    files: Vec<(PathBuf, Vec<u8>, u32)>,
    /// Relative paths of symbolic links, with what they lead to.
    links: Vec<(PathBuf, PathBuf)>,
    /// Whether there is also something that cannot be copied, such as a pipe.
    has_others: bool,
}

impl Tree {
    fn read(top: &Path) -> io::Result<Self> {
        let (files, links) = (Vec::new(), Vec::new());
        let mut tree = Tree { folders: vec![PathBuf::new()], files, links, has_others: false };
        let mut next = 0;
        while next < tree.folders.len() {
            for entry in fs::read_dir(top.join(&tree.folders[next]))? {
                let path = entry?.path();
                let relative = path.strip_prefix(top).expect("it lies below").to_owned();
                let metadata = fs::symlink_metadata(&path)?;
                if metadata.is_dir() {
                    tree.folders.push(relative);
                } else if metadata.is_symlink() {
                    tree.links.push((relative, fs::read_link(&path)?));
                } else if metadata.is_file() {
                    tree.files.push((relative, fs::read(&path)?, metadata.permissions().mode()));
                } else {
                    tree.has_others = true;
                }
            }
            next += 1;
        }
        Ok(tree)
    }

    /// Returns whether a symbolic link leads to `folder` or below it, or a file outside of folders `objects` contains
    /// its path.
    fn names(&self, folder: &Path) -> bool {
        let name = folder.as_os_str().as_bytes();
        let is_object = |path: &Path| path.components().any(|part| part.as_os_str() == "objects");
        self.links.iter().any(|(_, target)| target.starts_with(folder))
            || self.files.iter().any(|(path, content, _)| !is_object(path) && content.contains_str(name))
    }

    /// Writes what `to` does not have yet.
    fn write(&self, to: &Path) -> io::Result<()> {
        for folder in &self.folders {
            fs::create_dir_all(to.join(folder))?;
        }
        for (path, content, mode) in &self.files {
            unless_there(fs::OpenOptions::new().write(true).create_new(true).open(to.join(path)), |mut file| {
                io::Write::write_all(&mut file, content)?;
                file.set_permissions(fs::Permissions::from_mode(*mode))
            })?;
        }
        for (path, target) in &self.links {
            unless_there(symlink(target, to.join(path)), Ok)?;
        }
        Ok(())
    }
}

/// Goes on with what was created, unless something of its name existed before.
fn unless_there<T>(made: io::Result<T>, go_on: impl FnOnce(T) -> io::Result<()>) -> io::Result<()> {
    match made {
        Ok(made) => go_on(made),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Copies everything below a folder into an empty one. Returns `false`, and copies nothing, if a symbolic link or a
/// file outside of folders `objects` names the folder, because the copy would lead back to the original, or if there is
/// something that cannot be copied, such as a pipe.
pub(crate) fn copy_unless_it_leads_back(from: &Path, to: &Path) -> io::Result<bool> {
    let tree = Tree::read(from)?;
    let is_whole = !tree.has_others && !tree.names(from);
    if is_whole {
        tree.write(to)?;
    }
    Ok(is_whole)
}

/// Values that are made once in this process.
struct Once<K, V>(Mutex<Option<HashMap<K, Arc<V>>>>);

impl<K: Eq + Hash, V> Once<K, V> {
    const fn new() -> Self {
        Once(Mutex::new(None))
    }

    fn get(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.get_or_insert_default().entry(key).or_insert_with(|| Arc::new(make())).clone()
    }
}

/// Creates an empty repository as `git init` does, whose ref format has this name.
///
/// # Panics
///
/// If that is not possible.
pub(crate) fn init(dir: &Path, format: &'static str, hash: HashKind, bare: bool) {
    static EMPTY: Once<(&'static str, HashKind, bool), Tree> = Once::new();
    let empty = EMPTY.get((format, hash, bare), || {
        let temp = tempfile::tempdir().expect("a temporary folder can be made");
        let mut command = Git::find().command(temp.path());
        command.args(["init", "--quiet", "--template=", "--initial-branch=main"]);
        command.arg(format!("--ref-format={format}")).arg(format!("--object-format={}", hash.name()));
        command.args(bare.then_some("--bare")).arg("made");
        git::run_ok(command, b"");
        Tree::read(&temp.path().join("made")).expect("what git has made can be read")
    });
    empty.write(dir).unwrap_or_else(|error| panic!("cannot make '{}': {error}", dir.display()));
}

/// Writes `count` commits, each the parent of the next, below a folder of objects. Returns their ids as git prints
/// them.
///
/// # Panics
///
/// If that is not possible.
pub(crate) fn commits(objects: &Path, hash: HashKind, count: usize) -> Vec<String> {
    static MADE: Once<(HashKind, usize), (Vec<String>, Tree)> = Once::new();
    let made = MADE.get((hash, count), || {
        let temp = tempfile::tempdir().expect("a temporary folder can be made");
        init(temp.path(), "files", hash, true);
        let mut command = Git::find().command(temp.path());
        command.args(["fast-import", "--quiet", "--done", "--force"]);
        let ids = git::run_ok(command, script(count).as_bytes());
        let ids = String::from_utf8(ids).expect("ids are text").lines().map(Into::into).collect();
        (ids, Tree::read(&temp.path().join("objects")).expect("what git has made can be read"))
    });
    let (ids, tree) = &*made;
    tree.write(objects).unwrap_or_else(|error| panic!("cannot write to '{}': {error}", objects.display()));
    ids.clone()
}

/// What `git fast-import` is told to make the commits and to print their ids.
fn script(count: usize) -> String {
    let mut script = String::from("feature done\n");
    for mark in 1..=count {
        let _ = write!(script, "commit refs/made/by-testkit\nmark :{mark}\n");
        let _ = writeln!(script, "committer C O Mitter <committer@example.com> {} +0000", 1_700_000_000 + mark);
        let message = format!("commit {mark}\n");
        let _ = write!(script, "data {}\n{message}", message.len());
    }
    for mark in 1..=count {
        let _ = writeln!(script, "get-mark :{mark}");
    }
    script.push_str("done\n");
    script
}
