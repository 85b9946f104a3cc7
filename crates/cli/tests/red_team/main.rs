//! Crafted packs and requests, each fed to git's receive-pack and to refdb's: what each push costs, and what is
//! accepted.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

mod cases;
mod cost;
#[path = "../receive_pack/crafted.rs"]
mod crafted;
mod honest;

use cases::{Case, cases};
use cost::{Cost, run};
use refdb_testkit::{Git, RefFormat, Repo, every, rounds};
use refdb_types::HashKind;
use std::path::Path;

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

/// How many milliseconds of processor time a push may take beyond git's, even if that is more than three times as much
/// as git's, because a small push is mostly the start of programs. The next two are the same for memory and disk, and
/// for processes.
const MORE_MILLIS: u64 = 50;
const MORE_KIB: u64 = 20 << 10;
const MORE_PROCESSES: usize = 4;

/// The factor by which refdb may be slower if the compiler does not optimise it.
const SLOWER: u64 = if cfg!(debug_assertions) { 5 } else { 1 };

/// Returns the limit in seconds that refdb puts on the processor time of each of git's programs. The large cases of the
/// long run need more of it.
fn time_limit() -> u64 {
    rounds(1, 10) as u64
}

/// Lets a program receive the push of a case in a new repository, and returns the repository and the cost.
fn receive(case: &Case, program: &Path, format: RefFormat, unpack_limit: &str) -> (Repo, Cost) {
    let server = Repo::bare(format, HashKind::Sha1);
    for (key, value) in [("receive.autogc", "false"), ("receive.unpackLimit", unpack_limit)] {
        server.config(key, value);
    }
    server.config("receive.advertisePushOptions", "true");
    server.config("refdb.receiveTimeLimit", &time_limit().to_string());
    // A push is taken for endless after more processor time than all programs that refdb starts for it may take.
    let cost = run(&server, program, &case.bytes, 5 * time_limit());
    (server, cost)
}

/// Compares refdb with git in one case, and returns what is wrong.
fn faults(case: &Case, format: RefFormat, unpack_limit: &str) -> Vec<String> {
    let (gits, git) = receive(case, Git::find().program(), format, unpack_limit);
    let (ours, refdb) = receive(case, Path::new(REFDB), format, unpack_limit);
    let mut faults = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            let name = case.name;
            faults.push(format!(
                "{name}, {format:?}, unpackLimit {unpack_limit}: {what}\n  git   {git:?}\n  refdb {refdb:?}"
            ));
        }
    };
    expect(!refdb.is_endless, "refdb does not end");
    let git_has = gits.refs();
    expect(git.is_endless || ours.refs().iter().all(|one| git_has.contains(one)), "refdb accepts what git refuses");
    if git.is_endless {
        return faults;
    }
    expect(refdb.millis <= SLOWER * (3 * git.millis).max(git.millis + MORE_MILLIS), "processor time");
    expect(refdb.memory_kib <= (3 * git.memory_kib).max(git.memory_kib + MORE_KIB), "memory");
    expect(refdb.disk_kib <= (3 * git.disk_kib).max(git.disk_kib + MORE_KIB), "disk");
    expect(refdb.processes <= (3 * git.processes).max(git.processes + MORE_PROCESSES), "processes at a time");
    faults
}

#[test]
fn no_crafted_push_costs_much_more_than_with_git_or_is_accepted_where_git_refuses_it() {
    let size = rounds(200, 10_000);
    let mut found = Vec::new();
    for (at, case) in cases(size).iter().enumerate() {
        for (format, unpack_limit) in [(RefFormat::Files, "1"), (RefFormat::Reftable, "100000")] {
            // In `make test` each case is tried in one of the two ways.
            if (at + usize::from(format == RefFormat::Files)).is_multiple_of(every(2)) {
                let mut faults = faults(case, format, unpack_limit);
                if !faults.is_empty() {
                    // A case that fails is measured again, because other work on the machine disturbs the figures.
                    faults = self::faults(case, format, unpack_limit);
                }
                found.extend(faults);
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
