//! Additions of several writers that become one: each writer is told the truth about its own, whatever happens to the
//! one that writes for all.

#![allow(clippy::unwrap_used, reason = "a test that fails shall panic")]

mod stack_support;

use refdb_testkit::{
    ForeignLock, await_queue,
    crash::{Disk, lose_power_everywhere, refuse_everywhere},
    queued_writers,
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
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Much longer than any machine stands still.
const LONG: Duration = Duration::from_secs(60);

/// How often a group is formed before the test fails, because on a busy machine a leader leaves out members that are
/// slow, and takes none if it is slow itself.
const ATTEMPTS: usize = 20;

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
        await_queue(dir, 1);
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
            let before = queued_writers(dir);
            let writer = scope.spawn(move || join(&stack, &format!("refs/heads/{name}"), Duration::ZERO));
            // A writer that fails before it has to wait never enters the queue.
            while queued_writers(dir) == before && !writer.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            writer
        });
        let writers: Vec<_> = writers.collect();
        drop(holder);
        Ok(writers.into_iter().map(|writer| writer.join().unwrap()).collect())
    })
}

fn has(dir: &Path, name: &str) -> bool {
    refs(&open(dir).snapshot()).contains_key(&format!("refs/heads/{name}"))
}

/// Requires that a writer's ref exists if the writer was told of success, be it one that may not last, and that the ref
/// does not exist if the writer was told of any other error.
fn assert_told_the_truth(dir: &Path, told: &[(&str, Result<(), StackError>)]) {
    for (name, told) in told {
        match told {
            Ok(()) | Err(StackError::NotDurable(_)) => assert!(has(dir, name), "{name} was told that it is done"),
            Err(error) => assert!(!has(dir, name), "{name} was told that nothing is done: {error}"),
        }
    }
}

/// Counts how often a list is put in place, and makes syncs slow, so that groups are worth it.
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
    for _ in 0..ATTEMPTS {
        let dir = tempfile::tempdir().unwrap();
        write(&stack(&fs, dir.path()).unwrap(), &[("refs/heads/main", Some(oid(0)))]);
        count.0.store(0, Ordering::Relaxed);
        let told = group(&fs, dir.path()).unwrap();
        assert!(told.iter().all(|told| matches!(told, Ok(()) | Err(StackError::GroupGivenUp))), "{told:?}");
        if told.iter().all(Result::is_ok) && count.0.load(Ordering::Relaxed) == 1 {
            let snapshot = open(dir.path()).snapshot();
            assert_eq!((refs(&snapshot).len(), snapshot.next_update_index()), (4, 5), "each has its own update index");
            return;
        }
    }
    panic!("the three never share a list");
}

#[test]
fn each_member_is_checked_against_those_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = ForeignLock::of(&dir.path().join("tables.list"));
    let seen = AtomicUsize::new(0);
    thread::scope(|scope| {
        let dir = dir.path();
        for writer in 0..5 {
            let seen = &seen;
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
            await_queue(dir, writer + 1);
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
    let (given_up, made, begun) = (AtomicUsize::new(0), AtomicUsize::new(0), Instant::now());
    // On a busy machine most writers may meet nobody for a while.
    let is_met = |made| count.0.load(Ordering::Relaxed) < made && given_up.load(Ordering::Relaxed) > 0;
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (fs, dir, given_up, made) = (Fs::with_hook(count.clone()), dir.path(), &given_up, &made);
            let is_met = &is_met;
            scope.spawn(move || {
                let stack = stack(&fs, dir).unwrap();
                for number in 0.. {
                    if number >= EACH && (is_met(made.load(Ordering::Relaxed)) || begun.elapsed() > LONG) {
                        break;
                    }
                    let name = format!("refs/heads/{writer}/{number}");
                    // Every sixteenth is slower than a leader waits for a member, which is 50 ms.
                    let delay = Duration::from_millis(match number % 32 {
                        15 => 60,
                        31 => 150,
                        _ => 0,
                    });
                    if let Err(error) = join(&stack, &name, delay) {
                        assert!(matches!(error, StackError::GroupGivenUp), "{error}");
                        assert!(!refs(&open(dir).snapshot()).contains_key(&name), "{name} is not there");
                        given_up.fetch_add(1, Ordering::Relaxed);
                        let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
                        add(&mut addition, &[(&name, Some(oid(1)))]);
                        drop(addition.commit().unwrap());
                    }
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let made_in_all = made.load(Ordering::Relaxed);
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), made_in_all);
    let lists = count.0.load(Ordering::Relaxed);
    assert!(lists < made_in_all, "{lists} lists for {made_in_all} transactions");
    assert!(given_up.into_inner() > 0, "a slow member is left out");
}

#[test]
fn a_member_that_takes_too_long_is_left_out_and_told_so() {
    for _ in 0..ATTEMPTS {
        let dir = tempfile::tempdir().unwrap();
        let foreign = ForeignLock::of(&dir.path().join("tables.list"));
        let (done, leader_is_done) = mpsc::channel();
        let told = thread::scope(|scope| {
            let leader = open(dir.path());
            let leader = scope.spawn(move || join(&leader, "refs/heads/leader", Duration::ZERO));
            await_queue(dir.path(), 1);
            let slow = open(dir.path());
            let slow = scope.spawn(move || {
                let mut addition = slow.join(LOCK_TIMEOUT)?;
                add(&mut addition, &[("refs/heads/slow", Some(oid(1)))]);
                leader_is_done.recv_timeout(LONG).expect("the leader waits for nobody");
                addition.commit().map(drop)
            });
            await_queue(dir.path(), 2);
            let quick = open(dir.path());
            let quick = scope.spawn(move || join(&quick, "refs/heads/quick", Duration::ZERO));
            await_queue(dir.path(), 3);
            drop(foreign);
            leader.join().unwrap().unwrap();
            done.send(()).unwrap();
            [("slow", slow.join().unwrap()), ("quick", quick.join().unwrap())]
        });
        // Either member may be left out of the group, or get no turn in it and then write alone.
        assert!(has(dir.path(), "leader"));
        assert_told_the_truth(dir.path(), &told);
        match &told[0].1 {
            Err(StackError::GroupGivenUp) => return,
            told => assert!(told.is_ok(), "{told:?}"),
        }
    }
    panic!("the slow one is never left out");
}

#[test]
fn a_member_that_gives_up_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = ForeignLock::of(&dir.path().join("tables.list"));
    thread::scope(|scope| {
        let stack = open(dir.path());
        let leader = scope.spawn(move || join(&stack, "refs/heads/leader", Duration::ZERO));
        await_queue(dir.path(), 1);
        let stack = open(dir.path());
        let member = scope.spawn(move || {
            let mut addition = stack.join(LOCK_TIMEOUT).unwrap();
            add(&mut addition, &[("refs/heads/dropped", Some(oid(1)))]);
        });
        await_queue(dir.path(), 2);
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
        await_queue(dir.path(), 3);
        drop(foreign);
    });
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), 9000);
}

#[test]
fn if_an_operation_is_refused_all_writers_are_told_the_truth() {
    let dir = tempfile::tempdir().unwrap();
    write(&open(dir.path()), &[("refs/heads/main", Some(oid(0)))]);
    let told = Mutex::new(Vec::new());
    refuse_everywhere(
        dir.path(),
        |fs, dir| {
            let all = group(fs, dir)?;
            // A leader leaves out a member that is slow on a busy machine, even if nothing is refused.
            let failed =
                all[0].is_err() || all.iter().any(|told| !matches!(told, Ok(()) | Err(StackError::GroupGivenUp)));
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

/// Kills the process at the operation of this number, counted from 0.
struct KilledAt(AtomicUsize);

impl IoHook for KilledAt {
    fn before(&self, _: Op<'_>) -> Verdict {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 0 {
            let (dir, note) = (env::var_os(DIR).unwrap(), env::var_os(NOTE).unwrap());
            fs::write(note, format!("{:?}", lock_of(Path::new(&dir)))).unwrap();
            // No handler is installed, so nothing runs after this.
            std::process::abort();
        }
        Verdict::Proceed
    }
}

const STEP: &str = "REFTABLE_TEST_KILLED_AT";
const DIR: &str = "REFTABLE_TEST_DIR";
/// Names the file in which the leader, when it dies, records which lock file exists.
const NOTE: &str = "REFTABLE_TEST_NOTE";
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

fn spawn_leader(dir: &Path, note: &Path, step: usize, signed: bool) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "a_leader_that_is_killed", "--test-threads=1"]).env(STEP, step.to_string()).env(DIR, dir);
    command.env(NOTE, note);
    if signed {
        command.env(SIGNED, "");
    }
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// Identifies the present lock file by its inode and the time of its last change, because a later lock file may get the
/// same inode.
fn lock_of(dir: &Path) -> Option<(u64, i64, i64)> {
    let found = fs::metadata(dir.join("tables.list.lock")).ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

/// Removes the lock of a killed leader as an administrator does, if it stays. A member that has it open still finds out
/// what became of the group, and then removes the lock itself.
fn remove_stale(dir: &Path, note: &Path) {
    let Ok(left) = fs::read_to_string(note) else { return };
    let is_left = || lock_of(dir).is_some_and(|lock| format!("{:?}", Some(lock)) == left);
    while let Some((inode, ..)) = lock_of(dir).filter(|_| is_left()) {
        let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::metadata(entry.ok()?.path()).ok());
        let is_open = open.into_iter().any(|file| file.ino() == inode);
        if !is_open && is_left() {
            return fs::remove_file(dir.join("tables.list.lock")).unwrap();
        }
        thread::sleep(Duration::from_millis(1));
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

fn kill_leaders(signed: bool) {
    let mut found = (0, 0);
    for _ in 0..ATTEMPTS {
        kill_leader_at_each_step(signed, &mut found);
        if found.0 >= 2 && found.1 >= 2 {
            return;
        }
    }
    panic!(
        "members find out whether the list was replaced by a leader that is dead: {found:?} times that it was or not"
    );
}

/// Kills a leader at each of its steps, while two members wait behind it. Counts the members that found out that the
/// killed leader's list had replaced the stack's, and those that were told that their own change was not made.
fn kill_leader_at_each_step(signed: bool, (found_done, found_undone): &mut (usize, usize)) {
    let (mut is_over, mut step) = (false, 0);
    while !is_over {
        let (dir, notes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (dir, note) = (dir.path(), notes.path().join("note"));
        write(&open(dir), &[("refs/heads/main", Some(oid(0)))]);
        let holder = holder(dir);
        let mut leader = spawn_leader(dir, &note, step, signed);
        while queued_writers(dir) < 2 && leader.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let queued = queued_writers(dir);
        thread::scope(|scope| {
            let names = [("member-1", 1), ("member-2", 2)];
            let members = names.map(|(name, at)| {
                let fs = if signed { Fs::real().signing_locks() } else { Fs::real() };
                let stack = stack(&fs, dir).unwrap();
                let member = scope.spawn(move || join(&stack, &format!("refs/heads/{name}"), Duration::ZERO));
                await_queue(dir, queued + at);
                (name, member)
            });
            drop(holder);
            is_over = leader.wait().unwrap().signal().is_none();
            if !signed {
                remove_stale(dir, &note);
            }
            let told = members.map(|(name, member)| (name, member.join().unwrap()));
            assert_told_the_truth(dir, &told);
            for (_, told) in &told {
                match told {
                    Ok(()) => *found_done += usize::from(!is_over && has(dir, "leader")),
                    Err(StackError::GroupGivenUp) => *found_undone += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        // Whatever happened, the stack can be written to.
        write(&stack(&Fs::real().signing_locks(), dir).unwrap(), &[("refs/heads/later", Some(oid(2)))]);
        step += 1;
        assert!(step < 40, "a leader takes fewer steps");
    }
}

/// Stands still before it writes the new list, like a process that is stopped.
struct StoppedAtTheList(mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>);

impl IoHook for StoppedAtTheList {
    fn before(&self, op: Op<'_>) -> Verdict {
        if matches!(op, Op::Write(path, _) if path.ends_with("tables.list.lock")) {
            self.0.send(()).unwrap();
            self.1.lock().unwrap().recv_timeout(LONG).unwrap();
        }
        Verdict::Proceed
    }
}

/// A member that is told to end, in a process of its own.
#[test]
fn a_member_that_is_told_to_end() {
    let Some(dir) = env::var_os(DIR).filter(|_| env::var_os(STEP).is_none()) else { return };
    refdb_vfs::interrupt::catch_signals().unwrap();
    let told = join(&stack(&Fs::real(), Path::new(&dir)).unwrap(), "refs/heads/member", Duration::ZERO);
    assert!(matches!(told, Err(StackError::OutcomeUnknown)), "{told:?}");
}

#[test]
fn a_member_of_a_leader_that_is_stopped_ends_when_it_is_told_to() {
    // The leader may leave the member out on a busy machine.
    let is_told = (0..ATTEMPTS).any(|_| {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(&open(dir), &[("refs/heads/main", Some(oid(0)))]);
        let ((stopped, is_stopped), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
        let fs = Fs::with_hook(Arc::new(StoppedAtTheList(stopped, Mutex::new(goes_on))));
        let holder = holder(dir);
        thread::scope(|scope| {
            let leader = stack(&fs, dir).unwrap();
            let leader = scope.spawn(move || join(&leader, "refs/heads/leader", Duration::ZERO));
            await_queue(dir, 2);
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", "a_member_that_is_told_to_end", "--test-threads=1"]).env(DIR, dir);
            let mut member = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            await_queue(dir, 3);
            drop(holder);
            is_stopped.recv_timeout(LONG).unwrap();
            let pid = member.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            let begun = Instant::now();
            let ended = loop {
                match member.try_wait().unwrap() {
                    Some(ended) => break ended,
                    None if begun.elapsed() > LONG / 2 => {
                        member.kill().unwrap();
                        panic!("the member waits in spite of the signal");
                    }
                    None => thread::sleep(Duration::from_millis(5)),
                }
            };
            go_on.send(()).unwrap();
            leader.join().unwrap().unwrap();
            ended.success() && has(dir, "member")
        })
    });
    assert!(is_told, "no member was in the group");
}

/// Previously, a leader that left no tables wrote an empty file as the new list. Once that file had lost its name, the
/// members of a leader that was killed took it for a list that was never written.
#[test]
fn the_list_of_a_leader_is_never_an_empty_file() {
    let dir = tempfile::tempdir().unwrap();
    write(&open(dir.path()), &[("refs/heads/main", Some(oid(0)))]);
    let mut holder = holder(dir.path());
    add(&mut holder, &[("refs/heads/main", None)]);
    assert!(holder.commit().unwrap().compaction.is_none());
    assert_eq!(fs::read(dir.path().join("tables.list")).unwrap(), b"\n");
    let stack = open(dir.path());
    assert!(stack.snapshot().tables().is_empty());
    write(&stack, &[("refs/heads/next", Some(oid(1)))]);
    assert!(has(dir.path(), "next"));
}

#[test]
fn an_error_says_what_to_do() {
    let error = StackError::GroupGivenUp.to_string();
    assert!(error.contains("try again"), "{error}");
    let error = StackError::OutcomeUnknown.to_string();
    assert!(error.contains("not known"), "{error}");
}
