//! Where memory ends the process does, and leaves no lock.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

const SIGABRT: i32 = 6;

/// How many lock files are in the folder; none if the folder is not there.
fn locks(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "lock")).count()
}

/// `refdb update-ref --stdin` with so much memory and no more.
fn update_ref(repo: &Repo, kibibytes: u32, commands: &str) -> Child {
    let mut shell = repo.command(Path::new("sh"));
    let script = format!("ulimit -c 0; ulimit -v {kibibytes}; exec \"$0\" update-ref --stdin");
    // Another user may not be let into the folder where it was built.
    let program = std::env::var_os("REFDB_TEST_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_refdb").into());
    let mut child = start(shell.args(["-c", &script]).arg(program));
    // It may end before it has read all.
    let _ = child.stdin.take().unwrap().write_all(commands.as_bytes());
    child
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The most locks that were seen while it ran, the signal that ended it, and what it said.
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
    // Names as long as can be need memory that is not there before they do.
    let name = |at: usize| format!("refs/heads/x/{}{at:05}", "n".repeat(200));
    let commands: String = (0..COUNT).map(|at| format!("create {} {id}\n", name(at))).collect();
    let mut locked_and_aborted = 0;
    for kibibytes in (16 << 10..).step_by(1 << 10) {
        let (most, signal, said) = end(update_ref(&repo, kibibytes, &commands), &folder);
        assert_eq!((locks(&folder), locks(&folder.join(".."))), (0, 0), "{kibibytes} KiB: {said}");
        assert!(!repo.git_dir().join("packed-refs.lock").exists(), "{kibibytes} KiB");
        match signal {
            Some(SIGABRT) => {
                assert!(said.contains("memory allocation"), "{said}");
                locked_and_aborted += usize::from(most > 0);
                assert_eq!(repo.refs().len(), 0);
            }
            // Too little for the program itself, or enough.
            _ if said.is_empty() => break,
            _ => {}
        }
    }
    assert!(locked_and_aborted > 0, "no run had locks when its memory ended");
    assert_eq!(repo.refs().len(), COUNT);
}
