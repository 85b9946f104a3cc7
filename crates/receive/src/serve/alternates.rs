//! The objects that the refs of other repositories lead to, where their objects are used here. A client that has such
//! an object need not send the objects it leads to. git-config(1), "core.alternateRefsCommand".

use super::ServeError;
use bstr::{BStr, ByteSlice};
use refdb::Store;
use refdb_types::ObjectId;
use std::{
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Command, Stdio},
};

/// Variables that are about one repository, and must not reach a program that works in another.
const OF_ONE_REPOSITORY: [&str; 14] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
];

/// The objects of the refs of all alternates, in their order. One that cannot be asked has none, as for git.
///
/// `None` if there are no alternates.
pub(super) fn tips(store: &Store, git: &OsStr) -> Result<Option<Vec<ObjectId>>, ServeError> {
    let folders = store.objects().alternates().unwrap_or_default();
    if folders.is_empty() {
        return Ok(None);
    }
    let mut tips = Vec::new();
    for objects in folders {
        let Ok(objects) = std::fs::canonicalize(objects) else { continue };
        let Some(repository) = objects.parent().filter(|_| objects.ends_with("objects")) else { continue };
        if !repository.join("refs").is_dir() {
            continue;
        }
        let mut command = asking(store, git, repository);
        let Ok(mut child) = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() else { continue };
        let lines = child.stdout.take().map(BufReader::new);
        for line in lines.into_iter().flat_map(BufRead::lines) {
            let Ok(id) = ObjectId::from_hex(store.hash(), line?.as_bytes()) else { break };
            tips.push(id);
        }
        child.wait()?;
    }
    Ok(Some(tips))
}

/// The program that lists them: the one that is configured, else git.
fn asking(store: &Store, git: &OsStr, repository: &Path) -> Command {
    let text = |key: &str| store.config().last(key).and_then(|value| value.raw.map(BStr::to_owned));
    let mut command = match text("core.alternaterefscommand") {
        Some(words) => {
            let mut shell = Command::new("sh");
            let line = [&words[..], b" \"$@\""].concat();
            shell.arg("-c").arg(OsStr::from_bytes(&line)).arg(OsStr::from_bytes(&words)).arg(repository);
            shell
        }
        None => {
            let mut git = Command::new(git);
            let mut folder = OsString::from("--git-dir=");
            folder.push(repository);
            git.arg(folder).args(["for-each-ref", "--format=%(objectname)"]);
            if let Some(prefixes) = text("core.alternaterefsprefixes") {
                git.arg("--").args(prefixes.split_str(" ").filter(|word| !word.is_empty()).map(OsStr::from_bytes));
            }
            git
        }
    };
    let folder = store.repository().git_dir();
    if !folder.as_os_str().is_empty() {
        command.current_dir(folder);
    }
    for name in OF_ONE_REPOSITORY {
        command.env_remove(name);
    }
    command
}
