//! Finds the objects to which the refs of alternates point. A client that has such an object need not send what is
//! reachable from it; see `core.alternateRefsCommand` in git-config(1).

use super::{ServeError, child::pid};
use crate::{
    ending::Ending,
    watch::{self, Watch, WorkLimits},
};
use bstr::{BStr, ByteSlice};
use refdb::{Store, hooks::SHELL, messages::say};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::interrupt;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::fd::BorrowedFd,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Environment variables that describe one repository, and must not reach a program that works in another.
const REPOSITORY_VARIABLES: [&str; 15] = [
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
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
];

/// Returns the objects to which the refs of all alternates point, in the order of the alternates. Like git, this treats
/// an alternate that is not the object folder of a repository, or whose program cannot be run, as one without refs.
///
/// Returns `None` if there are no alternates, or if refdb cannot use `objects/info/alternates`.
///
/// Fails, for example, if the client disconnects or a signal arrives meanwhile. If the program of an alternate exceeds
/// a limit or prints anything other than ids, the objects that the program listed before that are used.
pub(super) fn tips(
    store: &Store,
    git: &OsStr,
    limits: WorkLimits,
    client: BorrowedFd<'_>,
) -> Result<Option<Vec<ObjectId>>, ServeError> {
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
        let mut command = listing_command(store, git, repository);
        let Ok(mut child) = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() else { continue };
        limits.set_backstop(pid(&child)?);
        let heard = hear(&mut child, store.hash(), limits, client, &mut tips);
        if !matches!(heard, Ok(Heard::All)) {
            // The rest of the program's output is not needed.
            watch::end(pid(&child)?);
        }
        child.wait()?;
        heard?;
    }
    Ok(Some(tips))
}

/// How much of a program's output was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    All,
    Part,
}

/// Reads ids, one on each line, until the program ends, prints something else or exceeds a limit.
fn hear(
    child: &mut Child,
    hash: HashKind,
    limits: WorkLimits,
    client: BorrowedFd<'_>,
    tips: &mut Vec<ObjectId>,
) -> io::Result<Heard> {
    let Some(mut lines) = child.stdout.take() else { return Ok(Heard::All) };
    let pid = pid(child)?;
    let mut watch = Watch::new(limits);
    let mut bytes = Vec::new();
    let mut buffer = [0; 8 << 10];
    let ending = Ending::of(pid);
    let mut is_open = true;
    loop {
        interrupt::check()?;
        if !is_open && ending.has_come()? {
            return Ok(Heard::All);
        }
        if watch.is_due()
            && let Some(excess) = watch.excess(pid)
        {
            // Only the log gets the message, because the client expects the refs first.
            say("error: ", format!("the program that lists the refs of an alternate {excess}").as_bytes());
            return Ok(Heard::Part);
        }
        // poll(2) reports a closed pipe or connection even if no events are requested.
        let mut ends = vec![PollFd::new(&client, PollFlags::empty())];
        if is_open {
            ends.push(PollFd::new(&lines, PollFlags::IN));
        } else {
            ends.extend(ending.fd().map(|fd| PollFd::new(fd, PollFlags::IN)));
        }
        match poll(&mut ends, Some(&ending.pause(Watch::PAUSE))) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if !ends[0].revents().is_empty() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if !is_open {
            continue;
        }
        match lines.read(&mut buffer) {
            Ok(0) => is_open = false,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let whole = bytes.rfind_byte(b'\n').map_or(0, |end| end + 1);
        for line in bytes[..whole].lines() {
            let Ok(id) = ObjectId::from_hex(hash, line) else { return Ok(Heard::Part) };
            tips.push(id);
        }
        bytes.drain(..whole);
        if bytes.len() > hash.len_hex() {
            return Ok(Heard::Part);
        }
    }
}

/// Returns the program that lists the refs of an alternate: the configured one, or else git.
fn listing_command(store: &Store, git: &OsStr, repository: &Path) -> Command {
    let text = |key: &str| store.config().last(key).and_then(|value| value.raw.map(BStr::to_owned));
    let mut command = match text("core.alternaterefscommand") {
        Some(words) => {
            let mut shell = Command::new(SHELL);
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
    store.environment().give_to(&mut command);
    for name in REPOSITORY_VARIABLES {
        command.env_remove(name);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_testkit::Git;
    use std::{
        os::fd::AsFd,
        time::{Duration, Instant},
    };

    /// Previously, a shallow boundary of the pushing repository applied to its alternates.
    #[test]
    fn the_variables_of_one_repository_are_those_of_git() {
        let listed = Command::new(Git::find().program()).args(["rev-parse", "--local-env-vars"]).output().unwrap();
        let gits: Vec<_> = listed.stdout.lines().collect();
        assert!(gits.len() > 10, "{gits:?}");
        let ours = REPOSITORY_VARIABLES.map(str::as_bytes);
        assert!(gits.iter().all(|name| ours.contains(name)), "{:?}", listed.stdout.as_bstr());
    }

    /// Previously, a program that closed its output and went on held up the push of a client that was gone.
    #[test]
    fn a_program_that_goes_on_without_output_is_not_waited_for_without_a_client() {
        let (ours, client) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut child = Command::new(SHELL).args(["-c", "exec sleep 60 >&-"]).stdout(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        let limits = WorkLimits { memory_bytes: 0, seconds: 0 };
        let gone = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(client);
        });
        let heard = hear(&mut child, HashKind::Sha1, limits, ours.as_fd(), &mut Vec::new());
        gone.join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(heard.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
