//! Resource limits: a process that runs out of memory aborts and leaves no lock, and commands on many worktrees or
//! reflogs open few files at a time.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    ffi::OsString,
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

const SIGABRT: i32 = 6;

/// Counts the lock files in `folder`, which need not exist.
fn locks(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "lock")).count()
}

/// Returns the path of refdb, or of a copy, because another user may not be let into the folder where refdb was built.
fn program() -> OsString {
    std::env::var_os("REFDB_TEST_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_refdb").into())
}

/// Starts `refdb update-ref --stdin` with a limit on its address space, and writes `commands` to it.
fn update_ref(repo: &Repo, kibibytes: u32, commands: &str) -> Child {
    let mut shell = repo.command(Path::new("sh"));
    let script = format!("ulimit -c 0; ulimit -v {kibibytes}; exec \"$0\" update-ref --stdin");
    let mut child = start(shell.args(["-c", &script]).arg(program()));
    // The write fails if the process ends before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(commands.as_bytes());
    child
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the process, and returns the most locks seen meanwhile, the signal that ended it, and its stderr.
fn end(mut child: Child, folder: &Path) -> (usize, Option<i32>, String) {
    let mut most = 0;
    let status = loop {
        most = most.max(locks(folder));
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (most, status.signal(), said)
}

#[test]
fn a_transaction_that_runs_out_of_memory_leaves_no_lock() {
    const COUNT: usize = 6_000;
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let folder = repo.git_dir().join("refs/heads/x");
    // Very long names make the memory run out while refs are being locked.
    let name = |at: usize| format!("refs/heads/x/{}{at:05}", "n".repeat(200));
    let commands: String = (0..COUNT).map(|at| format!("create {} {id}\n", name(at))).collect();
    let mut locked_and_aborted = 0;
    for kibibytes in (16 << 10..).step_by(1 << 10) {
        let (most, signal, said) = end(update_ref(&repo, kibibytes, &commands), &folder);
        assert_eq!((locks(&folder), locks(&folder.join(".."))), (0, 0), "{kibibytes} KiB: {said}");
        assert!(!repo.git_dir().join("packed-refs.lock").exists(), "{kibibytes} KiB");
        match signal {
            // The memory was not enough for the start of the program.
            Some(SIGABRT) if said.contains("alternative stack") => assert_eq!(most, 0),
            Some(SIGABRT) => {
                assert!(said.contains("memory allocation"), "{said}");
                locked_and_aborted += usize::from(most > 0);
                assert_eq!(repo.refs().len(), 0);
            }
            // The limit was high enough.
            None if said.is_empty() => break,
            // The limit was too low for the program itself.
            _ => {}
        }
    }
    assert!(locked_and_aborted > 0, "no run had locks when its memory ended");
    assert_eq!(repo.refs().len(), COUNT);
}

/// Migration locks the stack of each worktree while it carries the refs over, and previously kept two files open for
/// each.
#[test]
fn as_many_worktrees_as_there_are_need_no_more_open_files() {
    const WORKTREES: usize = 120;
    const LIMITED: &str = "ulimit -n 24; exec \"$0\" refs migrate --ref-format=\"$1\"";
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let ids = repo.commits(1);
    repo.create_refs([("refs/heads/main", ids[0])]);
    for at in 0..WORKTREES {
        let dir = repo.git_dir().join(format!("worktrees/w{at}"));
        std::fs::create_dir_all(&dir).unwrap();
        for (name, content) in [("HEAD", "ref: refs/heads/main"), ("commondir", "../.."), ("gitdir", "/nowhere/.git")] {
            std::fs::write(dir.join(name), format!("{content}\n")).unwrap();
        }
    }
    for to in [RefFormat::Reftable, RefFormat::Files] {
        let output =
            repo.command(Path::new("sh")).args(["-c", LIMITED]).arg(program()).arg(to.name()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(repo.rev_parse("refs/heads/main"), ids[0]);
        for at in [0, WORKTREES - 1] {
            assert_eq!(repo.git(["symbolic-ref", &format!("worktrees/w{at}/HEAD")]), "refs/heads/main");
        }
        assert!(refdb_testkit::files_below(repo.git_dir()).iter().all(|path| !path.contains(".lock")));
    }
}

#[test]
fn few_files_may_be_open_while_many_logs_expire() {
    const LIMITED: &str = "ulimit -n 24; exec \"$0\" reflog expire --expire=now --all";
    for format in RefFormat::ALL {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        let id = repo.commit();
        let names: Vec<String> = (0..240).map(|number| format!("refs/heads/many/{number}")).collect();
        let lines: String = names.iter().map(|name| format!("create {name} {id}\n")).collect();
        repo.git_with_input(["update-ref", "--stdin", "-m", "made"], &lines);
        let log = |name: &String| repo.git(["reflog", "show", name]);
        assert!(names.iter().all(|name| log(name).contains("made")));
        let output = repo.command(Path::new("sh")).args(["-c", LIMITED]).arg(program()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert!(names.iter().all(|name| log(name).is_empty()));
    }
}
