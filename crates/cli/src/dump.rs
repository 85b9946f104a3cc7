//! `refdb dump`: prints as text the files that hold refs, for people and for tests.

mod packed;
mod table;

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, message, say},
    options::Command,
    output::Output,
    session::Session,
};
use bstr::{BStr, BString, ByteSlice};
use refdb_vfs::{EntryKind, File, Fs, Mapping};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub static COMMAND: Command = Command {
    program: "refdb",
    name: "dump",
    about: "Print reftables, packed-refs and loose references record by record",
    synopsis: &["[<file>|<folder>]..."],
    options: &[],
};

/// Prints files that hold refs.
pub(crate) struct Dumper<'a> {
    pub(crate) fs: &'a Fs,
    pub(crate) output: &'a mut Output,
    /// Whether no file or folder has been passed over so far because it could not be read.
    is_whole: bool,
}

/// The exit code if files or folders of a repository were passed over because they could not be read.
const NOT_WHOLE: u8 = 1;

pub fn run(invocation: &Invocation<'_>) -> Result<u8> {
    let arguments = COMMAND.arguments(invocation.words)?;
    let mut paths: Vec<PathBuf> = arguments.into_iter().map(|path| OsStr::from_bytes(path).into()).collect();
    if paths.is_empty() {
        let session = Session::open(invocation.globals)?;
        paths.push(session.paths.common_dir.clone());
        if session.paths.git_dir != session.paths.common_dir {
            paths.push(session.paths.git_dir.clone());
        }
    }
    let mut output = Output::default();
    output.expect_much();
    let fs = Fs::real();
    let mut dumper = Dumper { fs: &fs, output: &mut output, is_whole: true };
    let result = paths.iter().try_for_each(|path| dumper.path(path));
    let is_whole = dumper.is_whole;
    output.flush()?;
    result.map(|()| if is_whole { 0 } else { NOT_WHOLE })
}

impl Dumper<'_> {
    /// Prints whatever is at a path.
    fn path(&mut self, path: &Path) -> Result<()> {
        let stat = self.fs.stat(path).map_err(cannot)?;
        if !stat.is_dir() {
            return self.file(path);
        }
        if let Ok(text) = self.fs.read(&path.join(".git")) {
            return self.linked(path, &text);
        }
        let git_dir = path.join(".git");
        if self.fs.stat(&git_dir).is_ok_and(|stat| stat.is_dir()) {
            return self.folder(&git_dir);
        }
        self.folder(path)
    }

    /// Prints the refs of a git folder, or the tables in a folder of them.
    fn folder(&mut self, path: &Path) -> Result<()> {
        for stack in [path.join("reftable"), path.to_owned()] {
            if self.fs.stat(&stack.join("tables.list")).is_ok() {
                return self.stack(&stack);
            }
        }
        if ["packed-refs", "HEAD", "refs"].iter().all(|name| self.fs.stat_link(&path.join(name)).is_err()) {
            return fatal!["'", path.as_os_str().as_bytes(), "' has neither tables nor refs in files"];
        }
        self.files(path)
    }

    /// Prints the refs of the repository of a linked worktree or a submodule, and those that the linked worktree has of
    /// its own. `text` is the content of its `.git` file.
    fn linked(&mut self, worktree: &Path, text: &[u8]) -> Result<()> {
        let Some(git_dir) = text.strip_prefix(b"gitdir: ") else {
            return fatal!["invalid gitfile format: ", worktree.join(".git").as_os_str().as_bytes()];
        };
        let git_dir = worktree.join(OsStr::from_bytes(git_dir.trim_ascii_end()));
        if let Ok(common) = self.fs.read(&git_dir.join("commondir")) {
            self.folder(&git_dir.join(OsStr::from_bytes(common.trim_ascii_end())))?;
        }
        self.folder(&git_dir)
    }

    fn file(&mut self, path: &Path) -> Result<()> {
        if path.file_name().is_some_and(|name| name == "tables.list") {
            return self.stack(path.parent().unwrap_or(Path::new(".")));
        }
        self.content(path)
    }

    /// Prints a table, packed-refs or a loose ref.
    fn content(&mut self, path: &Path) -> Result<()> {
        let file = self.fs.open(path).map_err(cannot)?;
        let mut magic = [0; 4];
        let got = file.read_at(&mut magic, 0).map_err(cannot)?;
        if magic[..got] == *b"REFT" { self.table(path, &file) } else { self.text(path, &file) }
    }

    fn table(&mut self, path: &Path, file: &File) -> Result<()> {
        let mapping = Mapping::new(file).map_err(cannot)?;
        table::dump(self, path, mapping)
    }

    /// Prints a file as a loose ref if it has at most one line and 4096 bytes, does not look like a record of
    /// packed-refs and does not begin with `#`, and otherwise as packed-refs.
    fn text(&mut self, path: &Path, file: &File) -> Result<()> {
        let bytes = file.read_to_end().map_err(cannot)?;
        if bytes.starts_with(b"#") || bytes.len() > 4096 || bytes.lines().count() > 1 || has_name(&bytes) {
            return packed::dump(self, path, bytes);
        }
        self.loose(path.as_os_str().as_bytes().as_bstr(), path)
    }

    /// Prints the tables of a stack, oldest first.
    fn stack(&mut self, folder: &Path) -> Result<()> {
        let list = self.fs.read(&folder.join("tables.list")).map_err(cannot)?;
        for name in list.lines().filter(|line| !line.is_empty()) {
            self.content(&folder.join(OsStr::from_bytes(name)))?;
        }
        Ok(())
    }

    /// Prints packed-refs, HEAD and the loose refs below `refs/` of a repository whose refs are files.
    fn files(&mut self, folder: &Path) -> Result<()> {
        let packed = folder.join("packed-refs");
        match self.fs.read(&packed) {
            Ok(bytes) => packed::dump(self, &packed, bytes)?,
            Err(error) if error.is_not_found() => {}
            Err(error) => self.pass_over(&error)?,
        }
        if self.fs.stat_link(&folder.join("HEAD")).is_ok() {
            self.loose("HEAD".into(), &folder.join("HEAD"))?;
        }
        self.loose_below("refs".into(), &folder.join("refs"))
    }

    fn loose_below(&mut self, name: BString, folder: &Path) -> Result<()> {
        let mut entries = match self.fs.read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.pass_over(&error),
        };
        entries.sort_by(|(one, _), (two, _)| one.cmp(two));
        for (entry, kind) in entries {
            let name = message![name, "/", entry];
            let path = folder.join(OsStr::from_bytes(&entry));
            match kind {
                EntryKind::Dir => self.loose_below(name, &path)?,
                EntryKind::File | EntryKind::Symlink => self.loose(name.as_bstr(), &path)?,
                EntryKind::Other => {}
            }
        }
        Ok(())
    }

    fn loose(&mut self, name: &BStr, path: &Path) -> Result<()> {
        // A link to the name of a ref is a symbolic ref for git. A link that leads nowhere has no content to show.
        if let Ok(Some(target)) = self.fs.find_link_content(path)
            && (target.starts_with("refs") || self.fs.stat(path).is_err_and(|error| error.is_not_found()))
        {
            return self.line(&[b"loose ", name, b" -> ", target.as_os_str().as_bytes()]);
        }
        let content = match self.fs.read(path) {
            Ok(content) => content,
            Err(error) => return self.pass_over(&error),
        };
        let content = content.strip_suffix(b"\n").unwrap_or(&content);
        let shown = match content.strip_prefix(b"ref: ") {
            Some(target) => message!["-> ", target],
            None => content.into(),
        };
        self.line(&[b"loose ", name, b" ", &shown])
    }

    /// Reports a file or folder that cannot be read and continues. A file that has disappeared meanwhile is not an
    /// error.
    fn pass_over(&mut self, error: &refdb_vfs::Error) -> Result<()> {
        if error.is_not_found() {
            return Ok(());
        }
        self.is_whole = false;
        self.output.flush()?;
        say("error: ", error.to_string().as_bytes());
        Ok(())
    }

    /// Prints one line.
    pub(crate) fn line(&mut self, parts: &[&[u8]]) -> Result<()> {
        for part in parts {
            self.output.buffer().extend_from_slice(part);
        }
        self.output.buffer().push(b'\n');
        self.output.relieve()
    }
}

/// Returns whether the first line looks like `ID SP NAME`, as in packed-refs.
fn has_name(bytes: &[u8]) -> bool {
    let line = bytes.lines().next().unwrap_or_default();
    line.find_byte(b' ').is_some_and(|space| space >= 40) && !line.starts_with(b"ref:")
}

fn cannot(error: refdb_vfs::Error) -> Failure {
    Failure::Fatal(error.to_string().into())
}

/// Returns the failure for a damaged file.
fn damaged<T>(error: impl std::fmt::Display) -> Result<T> {
    fatal![error.to_string()]
}
