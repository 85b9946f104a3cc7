//! Additions of several writers that become one: each writer is told the truth about its own, whatever happens to the
//! one that writes for all.

#![allow(clippy::unwrap_used, reason = "a test that fails shall panic")]

mod stack_support;

use refdb_testkit::{
    ForeignLock,
    crash::{Disk, lose_power_everywhere, refuse_everywhere},
};
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use reftable::stack::{Addition, Stack, StackError};
use stack_support::{LOCK_TIMEOUT, add, add_expecting, oid, open, refs, synced, write};
use std::{
    env, fs,
    os::unix::{fs::MetadataExt, process::ExitStatusExt},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// Long enough for a thread to come to where it waits.
const MOMENT: Duration = Duration::from_millis(40);

fn stack(fs: &Fs, dir: &Path) -> Result<Stack, StackError> {
    Stack::open(fs.clone(), dir, synced())
}

/// Joins, adds one ref, waits, and commits.
fn join(stack: &Stack, name: &str, delay: Duration) -> Result<(), StackError> {
    let mut addition = stack.join(LOCK_TIMEOUT)?;
    add_expecting(&mut addition, 0, &[(name, Some(oid(1)))])?;
    thread::sleep(delay);
    addition.commit().map(drop)
}

/// Locks the list for a writer behind whom others can queue.
fn holder(dir: &Path) -> Addition {
    let (foreign, stack) = (ForeignLock::of(&dir.join("tables.list")), open(dir));
    thread::scope(|scope| {
        let holder = scope.spawn(move || Stack::open(Fs::real(), stack.dir(), synced()).unwrap().lock(LOCK_TIMEOUT));
        thread::sleep(MOMENT);
        drop(foreign);
        holder.join().unwrap().unwrap()
    })
}

/// Lets a leader and two members commit together through `fs`. Returns what each of them was told.
fn group(fs: &Fs, dir: &Path) -> Result<Vec<Result<(), StackError>>, StackError> {
    let holder = holder(dir);
    let stacks = (0..3).map(|_| stack(fs, dir)).collect::<Result<Vec<_>, _>>();
    thread::scope(|scope| {
        let stacks = stacks?;
        let writers = stacks.into_iter().zip(["leader", "member-1", "member-2"]).map(|(stack, name)| {
            let writer = scope.spawn(move || join(&stack, &format!("refs/heads/{name}"), Duration::ZERO));
            thread::sleep(MOMENT);
            writer
        });
        let writers: Vec<_> = writers.collect();
        drop(holder);
        Ok(writers.into_iter().map(|writer| writer.join().unwrap()).collect())
    })
}

/// Repeats a group until no member was so slow, on a busy machine, that the leader left it out.
fn whole_group(fs: &Fs, dir: impl Fn() -> TempDir) -> TempDir {
    for _ in 0..20 {
        let dir = dir();
        let told = group(fs, dir.path()).unwrap();
        if !told.iter().any(|told| matches!(told, Err(StackError::GroupGivenUp))) {
            assert!(told.iter().all(Result::is_ok), "{told:?}");
            return dir;
        }
    }
    panic!("members are always left out");
}

fn has(dir: &Path, name: &str) -> bool {
    refs(&open(dir).snapshot()).contains_key(&format!("refs/heads/{name}"))
}

/// Requires that those that were told of success find their refs, and those that were told of none do not.
fn assert_told_the_truth(dir: &Path, told: &[(&str, Result<(), StackError>)]) {
    for (name, told) in told {
        match told {
            Ok(()) | Err(StackError::NotDurable(_)) => assert!(has(dir, name), "{name} was told that it is done"),
            Err(error) => assert!(!has(dir, name), "{name} was told that nothing is done: {error}"),
        }
    }
}

/// Counts the lists that replace another one, and makes syncs slow, so that groups are worth it.
#[derive(Default)]
struct Counting(AtomicUsize);

impl IoHook for Counting {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Rename(_, to) if to.ends_with("tables.list") => drop(self.0.fetch_add(1, Ordering::Relaxed)),
            Op::Sync(_) => thread::sleep(Duration::from_micros(200)),
            _ => {}
        }
        Verdict::Proceed
    }
}

#[test]
fn three_writers_replace_the_list_once() {
    let count = Arc::new(Counting::default());
    let fs = Fs::with_hook(count.clone());
    let dir = whole_group(&fs, || {
        let dir = tempfile::tempdir().unwrap();
        count.0.store(0, Ordering::Relaxed);
        write(&stack(&fs, dir.path()).unwrap(), &[("refs/heads/main", Some(oid(0)))]);
        dir
    });
    assert_eq!(count.0.load(Ordering::Relaxed), 2, "one list of the first writer, and one of the three");
    let snapshot = open(dir.path()).snapshot();
    assert_eq!((refs(&snapshot).len(), snapshot.next_update_index()), (4, 5), "each has its own update index");
}

#[test]
fn each_member_is_checked_against_those_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = ForeignLock::of(&dir.path().join("tables.list"));
    let seen = AtomicUsize::new(0);
    thread::scope(|scope| {
        for writer in 0..5 {
            let (seen, dir) = (&seen, dir.path());
            scope.spawn(move || {
                let name = format!("refs/heads/{writer}");
                let mut addition = open(dir).join(LOCK_TIMEOUT).unwrap();
                let before = refs(addition.snapshot()).len();
                add(&mut addition, &[(&name, Some(oid(1)))]);
                match addition.commit() {
                    Ok(_) => drop(seen.fetch_add(before, Ordering::Relaxed)),
                    // A leader leaves out a member that is slow on a busy machine.
                    Err(error) => {
                        assert!(matches!(error, StackError::GroupGivenUp), "{error}");
                        let mut addition = open(dir).lock(LOCK_TIMEOUT).unwrap();
                        seen.fetch_add(refs(addition.snapshot()).len(), Ordering::Relaxed);
                        add(&mut addition, &[(&name, Some(oid(1)))]);
                        drop(addition.commit().unwrap());
                    }
                }
            });
            thread::sleep(MOMENT);
        }
        drop(foreign);
    });
    assert_eq!(seen.into_inner(), 1 + 2 + 3 + 4);
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), 5);
}

#[test]
fn many_writers_lose_nothing_and_share_most_lists() {
    const WRITERS: usize = 8;
    const EACH: usize = 60;
    let dir = tempfile::tempdir().unwrap();
    let count = Arc::new(Counting::default());
    let given_up = AtomicUsize::new(0);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (fs, dir, given_up) = (Fs::with_hook(count.clone()), dir.path(), &given_up);
            scope.spawn(move || {
                let stack = stack(&fs, dir).unwrap();
                for number in 0..EACH {
                    let name = format!("refs/heads/{writer}/{number}");
                    // Every sixteenth is slower than a leader waits on a busy machine, or nearly so.
                    let delay = Duration::from_millis(if number % 16 == 15 { 60 } else { 0 });
                    if let Err(error) = join(&stack, &name, delay) {
                        assert!(matches!(error, StackError::GroupGivenUp), "{error}");
                        assert!(!refs(&open(dir).snapshot()).contains_key(&name), "{name} is not there");
                        given_up.fetch_add(1, Ordering::Relaxed);
                        let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
                        add(&mut addition, &[(&name, Some(oid(1)))]);
                        drop(addition.commit().unwrap());
                    }
                }
            });
        }
    });
    let snapshot = open(dir.path()).snapshot();
    assert_eq!(refs(&snapshot).len(), WRITERS * EACH);
    let lists = count.0.load(Ordering::Relaxed);
    // On a busy machine most writers may meet nobody.
    assert!(lists < WRITERS * EACH, "{lists} lists for {} transactions", WRITERS * EACH);
    assert!(given_up.into_inner() > 0, "a slow member is left out");
}

#[test]
fn a_member_that_takes_too_long_is_left_out_and_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = ForeignLock::of(&dir.path().join("tables.list"));
    thread::scope(|scope| {
        let spawn = |name: &'static str, delay| {
            let stack = open(dir.path());
            let writer = scope.spawn(move || join(&stack, name, delay));
            thread::sleep(MOMENT);
            writer
        };
        let leader = spawn("refs/heads/leader", Duration::ZERO);
        let slow = spawn("refs/heads/slow", MOMENT * 3);
        let quick = spawn("refs/heads/quick", Duration::ZERO);
        drop(foreign);
        assert!(matches!(slow.join().unwrap(), Err(StackError::GroupGivenUp)));
        leader.join().unwrap().unwrap();
        // This one may be slow, too, on a busy machine.
        let quick = quick.join().unwrap();
        assert_eq!(quick.is_ok(), has(dir.path(), "quick"));
    });
    assert!(has(dir.path(), "leader") && !has(dir.path(), "slow"));
}

#[test]
fn a_member_that_gives_up_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = ForeignLock::of(&dir.path().join("tables.list"));
    thread::scope(|scope| {
        let stack = open(dir.path());
        let leader = scope.spawn(move || join(&stack, "refs/heads/leader", Duration::ZERO));
        thread::sleep(MOMENT);
        let stack = open(dir.path());
        let member = scope.spawn(move || {
            let mut addition = stack.join(LOCK_TIMEOUT).unwrap();
            add(&mut addition, &[("refs/heads/dropped", Some(oid(1)))]);
        });
        thread::sleep(MOMENT);
        drop(foreign);
        leader.join().unwrap().unwrap();
        member.join().unwrap();
    });
    assert!(has(dir.path(), "leader") && !has(dir.path(), "dropped"));
}

#[test]
fn a_table_that_is_too_large_for_a_group_is_written_alone() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = ForeignLock::of(&dir.path().join("tables.list"));
    let names: Vec<String> = (0..3000).map(|number| format!("refs/heads/{number:0200}")).collect();
    thread::scope(|scope| {
        for prefix in ["a", "b", "c"] {
            let (dir, names) = (dir.path(), &names);
            scope.spawn(move || {
                let names: Vec<String> = names.iter().map(|name| format!("{name}{prefix}")).collect();
                let edits: Vec<_> = names.iter().map(|name| (name.as_str(), Some(oid(1)))).collect();
                let stack = open(dir);
                let mut addition = stack.join(LOCK_TIMEOUT).unwrap();
                add(&mut addition, &edits);
                if let Err(error) = addition.commit() {
                    assert!(matches!(error, StackError::GroupGivenUp), "{error}");
                    write(&stack, &edits);
                }
            });
        }
        thread::sleep(MOMENT);
        drop(foreign);
    });
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), 9000);
}

#[test]
fn if_an_operation_is_refused_all_writers_are_told_the_truth() {
    let dir = tempfile::tempdir().unwrap();
    write(&open(dir.path()), &[("refs/heads/main", Some(oid(0)))]);
    let told = std::sync::Mutex::new(Vec::new());
    refuse_everywhere(
        dir.path(),
        |fs, dir| {
            let all = group(fs, dir)?;
            let failed = all.iter().any(Result::is_err);
            *told.lock().unwrap() = all;
            if failed { Err(StackError::GroupGivenUp) } else { Ok(()) }
        },
        |dir, _| {
            let told = std::mem::take(&mut *told.lock().unwrap());
            assert_told_the_truth(dir, &["leader", "member-1", "member-2"].into_iter().zip(told).collect::<Vec<_>>());
        },
    );
}

#[test]
fn a_group_survives_a_loss_of_power_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    write(&stack(&Fs::real(), dir.path()).unwrap(), &[("refs/heads/main", Some(oid(0)))]);
    for disk in [Disk::Journaled, Disk::Unordered] {
        lose_power_everywhere(
            dir.path(),
            disk,
            |fs, dir| {
                for (told, name) in group(fs, dir)?.into_iter().zip(["leader", "member-1", "member-2"]) {
                    match told {
                        // A leader leaves out a member that is slow on a busy machine.
                        Err(StackError::GroupGivenUp) => {
                            let mut addition = stack(fs, dir)?.lock(LOCK_TIMEOUT)?;
                            add(&mut addition, &[(&format!("refs/heads/{name}"), Some(oid(1)))]);
                            drop(addition.commit()?);
                        }
                        told => told?,
                    }
                }
                Ok::<_, StackError>(())
            },
            |dir, crash| {
                let found = ["leader", "member-1", "member-2"].map(|name| has(dir, name));
                assert!(!crash.claimed || found == [true; 3], "success was claimed: {found:?}");
            },
        );
    }
}

/// Kills the process at an operation.
struct KilledAt(AtomicUsize);

impl IoHook for KilledAt {
    fn before(&self, _: Op<'_>) -> Verdict {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 0 {
            // No handler is installed, so nothing runs after this.
            std::process::abort();
        }
        Verdict::Proceed
    }
}

const STEP: &str = "REFTABLE_TEST_KILLED_AT";
const DIR: &str = "REFTABLE_TEST_DIR";
/// Set if the leader signs its locks, as servers do.
const SIGNED: &str = "REFTABLE_TEST_SIGNED";

/// The leader of the next test, in a process of its own.
#[test]
fn a_leader_that_is_killed() {
    let (Some(step), Some(dir)) = (env::var_os(STEP), env::var_os(DIR)) else { return };
    let step = step.to_str().unwrap().parse().unwrap();
    let fs = Fs::with_hook(Arc::new(KilledAt(AtomicUsize::new(step))));
    let fs = if env::var_os(SIGNED).is_some() { fs.signing_locks() } else { fs };
    join(&stack(&fs, Path::new(&dir)).unwrap(), "refs/heads/leader", Duration::ZERO).unwrap();
}

fn spawn_leader(dir: &Path, step: usize, signed: bool) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "a_leader_that_is_killed", "--test-threads=1"]).env(STEP, step.to_string()).env(DIR, dir);
    if signed {
        command.env(SIGNED, "");
    }
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// Removes the lock of a killed leader as an administrator does, if it stays.
fn remove_stale(dir: &Path) {
    let lock = dir.join("tables.list.lock");
    // The inode of one lock is soon that of another.
    let identity = || fs::metadata(&lock).ok().map(|found| (found.ino(), found.ctime(), found.ctime_nsec()));
    let before = identity();
    thread::sleep(MOMENT * 3);
    if before.is_some() && identity() == before {
        fs::remove_file(&lock).unwrap();
    }
}

#[test]
fn the_members_of_a_leader_that_is_killed_at_any_step_find_out_what_it_did() {
    kill_leaders(false);
}

#[test]
fn the_members_of_a_server_that_is_killed_at_any_step_find_out_what_it_did() {
    kill_leaders(true);
}

/// Kills a leader at each of its steps. Two members wait behind it.
fn kill_leaders(signed: bool) {
    let (mut is_over, mut step, mut found_done, mut found_undone) = (false, 0, 0, 0);
    while !is_over {
        let dir = tempfile::tempdir().unwrap();
        write(&open(dir.path()), &[("refs/heads/main", Some(oid(0)))]);
        let holder = holder(dir.path());
        let mut leader = spawn_leader(dir.path(), step, signed);
        thread::sleep(MOMENT * 3);
        thread::scope(|scope| {
            let names = ["member-1", "member-2"];
            let members = names.map(|name| {
                let fs = if signed { Fs::real().signing_locks() } else { Fs::real() };
                let stack = stack(&fs, dir.path()).unwrap();
                let member = scope.spawn(move || join(&stack, &format!("refs/heads/{name}"), Duration::ZERO));
                thread::sleep(MOMENT);
                member
            });
            drop(holder);
            is_over = leader.wait().unwrap().signal().is_none();
            if !signed {
                remove_stale(dir.path());
            }
            let told: Vec<_> = names.into_iter().zip(members.map(|member| member.join().unwrap())).collect();
            assert_told_the_truth(dir.path(), &told);
            for (_, told) in &told {
                match told {
                    Ok(()) => found_done += usize::from(!is_over && has(dir.path(), "leader")),
                    Err(StackError::GroupGivenUp) => found_undone += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        // Whatever happened, the stack can be written to.
        write(&stack(&Fs::real().signing_locks(), dir.path()).unwrap(), &[("refs/heads/later", Some(oid(2)))]);
        step += 1;
        assert!(step < 40, "a leader takes fewer steps");
    }
    assert!(found_done >= 2, "members find out that the list was replaced by a leader that is dead: {found_done}");
    assert!(found_undone >= 2, "and that it was not: {found_undone}");
}

#[test]
fn an_error_says_what_to_do() {
    let error = StackError::GroupGivenUp.to_string();
    assert!(error.contains("try again"), "{error}");
    let error = StackError::OutcomeUnknown.to_string();
    assert!(error.contains("not known"), "{error}");
}
