//! Many processes write to one repository at the same time, beside git and JGit, and some of them are killed: none is
//! told of a change that is not there, and each gets its share.
#![allow(clippy::unwrap_used, reason = "tests")]

use refdb_testkit::{ForeignLock, Git, JGit, RefFormat, Repo, Rng, UpdateRefs, await_queue, queued_writers};
use refdb_types::{HashKind, ObjectId};
use std::{
    collections::BTreeSet,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

/// Microseconds of the longest pause before JGit tries again after a failure. Without a pause, JGit leaves git no
/// turns; with 12 ms, JGit hardly ever meets a free lock.
const JGIT_PAUSE_MICROS: usize = 4000;

/// What a writer was told of its transactions.
#[derive(Default, Debug)]
struct Told {
    /// The refs that are created, and not deleted since.
    done: Vec<[String; 2]>,
    /// The refs that are deleted.
    gone: Vec<[String; 2]>,
    /// The number of transactions that have failed, except for those of a writer that was killed.
    failed: usize,
}

/// A race of writers.
struct Race<'r> {
    repo: &'r Repo,
    id: ObjectId,
    settings: &'r [&'r str],
    time: Duration,
    /// How often a writer is killed in a second, on average; 0 for never.
    kills: usize,
    /// Whether each transaction of a program also deletes the refs of the one before, for which refs in files need
    /// packed-refs.lock.
    deletes: bool,
}

impl Race<'_> {
    fn names(who: &str, number: usize) -> [String; 2] {
        ["a", "b"].map(|which| format!("refs/x/{who}/{}/{number}{which}", number % 97))
    }

    /// Writes with a program until the time is over, and starts it again whenever it ends or is killed.
    fn write(&self, who: &str, program: &Path, until: Instant) -> Told {
        let mut told = Told::default();
        let mut rng = Rng::new(u64::from(who.bytes().map(u32::from).sum::<u32>()));
        let mut number = 0;
        while Instant::now() < until {
            let mut writer = UpdateRefs::start(self.repo, program, self.settings);
            let (killed, over) = (AtomicBool::new(false), AtomicBool::new(false));
            let most = 2000usize.checked_div(self.kills);
            let lives = most.map_or(self.time, |most| Duration::from_millis(rng.below(most) as u64));
            let pid = writer.process().to_string();
            thread::scope(|scope| {
                let (killed, over) = (&killed, &over);
                let killer = (self.kills > 0).then(|| {
                    scope.spawn(move || {
                        let end = Instant::now() + lives;
                        while Instant::now() < end && !over.load(Ordering::Relaxed) {
                            thread::sleep(Duration::from_millis(1));
                        }
                        if !over.load(Ordering::Relaxed) {
                            killed.store(true, Ordering::Relaxed);
                            Command::new("kill").args(["-9", &pid]).status().unwrap();
                        }
                    })
                });
                while Instant::now() < until {
                    number += 1;
                    let names = Self::names(who, number);
                    let deleted = if self.deletes { told.done.pop() } else { None };
                    let lines = |verb: &str, names: &[String; 2]| {
                        names.each_ref().map(|name| format!("{verb} {name} {}\n", self.id)).concat()
                    };
                    let deletions = deleted.as_ref().map(|names| lines("delete", names)).unwrap_or_default();
                    if writer.transact(&(lines("create", &names) + &deletions)) {
                        told.gone.extend(deleted);
                        told.done.push(names);
                    } else {
                        // The refs to be deleted may be there or not.
                        told.failed += usize::from(!killed.load(Ordering::Relaxed));
                        break;
                    }
                }
                over.store(true, Ordering::Relaxed);
                if let Some(killer) = killer {
                    killer.join().unwrap();
                }
            });
            writer.end();
        }
        told
    }

    /// Opens the repository in JGit, and creates some refs, because a new virtual machine needs seconds for that if the
    /// machine is busy.
    fn open_jgit(&self) -> JGit {
        let mut jgit = JGit::open(self.repo);
        for number in 0..50 {
            let name = format!("refs/x/warm/{number}");
            jgit.batch(true, &[(&name, ObjectId::null(HashKind::Sha1), self.id)]).unwrap();
        }
        jgit
    }

    /// Writes with JGit, which does not wait for a lock, and tries again after a failure.
    fn write_with_jgit(&self, jgit: &mut JGit, until: Instant) -> Told {
        let mut told = Told::default();
        let mut rng = Rng::new(9);
        let null = ObjectId::null(HashKind::Sha1);
        for number in 0.. {
            if Instant::now() >= until {
                break;
            }
            let names = Self::names("jgit", number);
            let edits = [(names[0].as_str(), null, self.id), (names[1].as_str(), null, self.id)];
            match jgit.batch(true, &edits) {
                Ok(results) if results.iter().all(|result| result == "OK") => told.done.push(names),
                Ok(_) | Err(_) => {
                    told.failed += 1;
                    thread::sleep(Duration::from_micros(rng.below(JGIT_PAUSE_MICROS) as u64));
                }
            }
        }
        told
    }

    /// Runs the race. Requires that the refs are there, or deleted, as each writer was told, and with reftables also
    /// that no transaction is there by half.
    fn run(&self, own: usize, gits: usize, with_jgit: bool) -> Vec<(String, Told)> {
        let mut jgit = with_jgit.then(|| self.open_jgit());
        let until = Instant::now() + self.time;
        let over = AtomicBool::new(false);
        let told = thread::scope(|scope| {
            let admin = (self.kills > 0).then(|| scope.spawn(|| remove_stale_locks(self.repo.git_dir(), &over)));
            let programs = (0..own).map(|at| (format!("own-{at}"), PathBuf::from(REFDB)));
            let gits = (0..gits).map(|at| (format!("git-{at}"), Git::find().program().to_owned()));
            let writers: Vec<_> = programs
                .chain(gits)
                .map(|(who, program)| scope.spawn(move || (who.clone(), self.write(&who, &program, until))))
                .collect();
            let jgit = jgit.as_mut().map(|jgit| ("jgit".to_owned(), self.write_with_jgit(jgit, until)));
            let told: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).chain(jgit).collect();
            over.store(true, Ordering::Relaxed);
            if let Some(admin) = admin {
                admin.join().unwrap();
            }
            told
        });
        self.repo.verify();
        let there: BTreeSet<String> = self.repo.refs().iter().map(|listed| listed.name.to_string()).collect();
        for (who, told) in &told {
            let lost: Vec<_> = told.done.iter().flatten().filter(|name| !there.contains(*name)).collect();
            assert!(lost.is_empty(), "{who} was told that these are created: {lost:?}");
            let back: Vec<_> = told.gone.iter().flatten().filter(|name| there.contains(*name)).collect();
            assert!(back.is_empty(), "{who} was told that these are deleted: {back:?}");
        }
        if self.repo.format() == RefFormat::Files {
            // A kill can leave the first refs of a transaction changed.
            return told;
        }
        let halves = there.iter().filter(|name| name.starts_with("refs/x/") && !name.contains("/warm/"));
        let halves: Vec<_> = halves.filter(|name| !there.contains(&other_of(name))).collect();
        assert!(halves.is_empty(), "halves of transactions: {halves:?}");
        told
    }
}

/// The other ref of the transaction that creates this one.
fn other_of(name: &str) -> String {
    let (rest, last) = name.split_at(name.len() - 1);
    format!("{rest}{}", if last == "a" { "b" } else { "a" })
}

/// Removes, as an administrator does, the lock that a killed writer has left: of the list, or of packed-refs.
fn remove_stale_locks(git_dir: &Path, over: &AtomicBool) {
    let locks = ["reftable/tables.list.lock", "packed-refs.lock"].map(|lock| git_dir.join(lock));
    let [of_tables, of_packed_refs] = locks;
    let lock = if of_tables.parent().is_some_and(Path::exists) { of_tables } else { of_packed_refs };
    // The inode number of a removed lock is soon used for another, so the time of change is compared too.
    let identity = || std::fs::metadata(&lock).ok().map(|found| (found.ino(), found.ctime(), found.ctime_nsec()));
    let mut since = (None, Instant::now());
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
        let now = identity();
        if now.is_none() || now != since.0 {
            since = (now, Instant::now());
        } else if since.1.elapsed() > Duration::from_millis(500) && !is_open_somewhere(&lock) {
            std::fs::remove_file(&lock).unwrap();
        }
    }
}

/// Returns whether a process has this file open, such as a writer that was only stopped while it holds the lock, or
/// whether the file is gone.
fn is_open_somewhere(path: &Path) -> bool {
    let Ok(file) = std::fs::metadata(path) else { return true };
    let list = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut open = list("/proc".into()).flat_map(|process| list(process.join("fd")));
    open.any(|open| std::fs::metadata(open).is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino())))
}

fn repository(format: RefFormat) -> (Repo, ObjectId) {
    let repo = Repo::bare(format, HashKind::Sha1);
    let id = repo.commit();
    (repo, id)
}

const SYNCED: &[&str] = &["core.fsync=reference"];

/// Runs a race up to five times, until one ends as expected. A busy machine can stop the holder of the lock for longer
/// than the others wait for it, but hardly in five races.
fn in_one_of_five(race: impl Fn() -> Result<(), String>) {
    let mut spoiled = Vec::new();
    for _ in 0..5 {
        match race() {
            Ok(()) => return,
            Err(reason) => spoiled.push(reason),
        }
    }
    panic!("five races: {spoiled:#?}");
}

/// Returns the reason as an error unless the condition holds.
fn expect(holds: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason()) }
}

/// Expects that each writer has got a turn, and that no transaction has failed.
fn expect_none_failed(told: &[(String, Told)]) -> Result<(), String> {
    if let Some((who, _)) = told.iter().find(|(_, told)| told.done.is_empty() && told.gone.is_empty()) {
        return Err(format!("{who} has got no turn"));
    }
    let failed = || told.iter().map(|(who, told)| (who, told.failed)).filter(|(_, failed)| *failed > 0);
    expect(failed().next().is_none(), || format!("failed transactions: {:?}", failed().collect::<Vec<_>>()))
}

#[test]
fn eight_processes_share_the_lock_and_none_fails() {
    for settings in [SYNCED, &["core.fsync=none"]] {
        in_one_of_five(|| {
            let (repo, id) = repository(RefFormat::Reftable);
            let race = Race { repo: &repo, id, settings, time: Duration::from_secs(2), kills: 0, deletes: false };
            let told = race.run(8, 0, false);
            expect_none_failed(&told)?;
            let most_to_fewest = most_to_fewest(&told);
            expect(most_to_fewest < 4.0, || format!("a writer is left behind: {most_to_fewest}"))
        });
    }
}

#[test]
#[ignore = "takes half a minute, and needs an idle machine: scripts/test-long \"writers beside git and JGit\""]
fn on_an_idle_machine_eight_processes_get_the_same_within_a_third() {
    for settings in [SYNCED, &["core.fsync=none"]] {
        let (repo, id) = repository(RefFormat::Reftable);
        let race = Race { repo: &repo, id, settings, time: Duration::from_secs(15), kills: 0, deletes: false };
        let most_to_fewest = most_to_fewest(&race.run(8, 0, false));
        assert!(most_to_fewest < 1.3, "{most_to_fewest}");
    }
}

/// How many times as many transactions the busiest writer has made as the one with the fewest.
fn most_to_fewest(told: &[(String, Told)]) -> f64 {
    let counts = || told.iter().map(|(_, told)| told.done.len());
    counts().max().unwrap() as f64 / counts().min().unwrap() as f64
}

#[test]
fn those_that_wait_in_a_queue_fail_when_their_lock_timeout_has_passed() {
    let change: &[&str] = &["update-ref", "refs/heads/main"];
    let delete: &[&str] = &["update-ref", "-d", "refs/heads/packed"];
    for (format, locked, setting, words) in [
        (RefFormat::Reftable, "reftable/tables.list", "reftable.lockTimeout", change),
        (RefFormat::Files, "refs/heads/main", "core.filesRefLockTimeout", change),
        (RefFormat::Files, "packed-refs", "core.packedRefsTimeout", delete),
    ] {
        let (repo, id) = repository(format);
        repo.create_refs([("refs/heads/packed", id)]);
        repo.git(["pack-refs", "--all"]);
        repo.create_refs([("refs/heads/main", id)]);
        let locked = repo.git_dir().join(locked);
        let folder = locked.parent().unwrap();
        let foreign = ForeignLock::of(&locked);
        let next = repo.commits(2)[1].to_string();
        let words = || words.iter().copied().chain((words.len() == 2).then_some(next.as_str()));
        let start = |millis: i32| {
            let mut command = repo.command(REFDB);
            command.args(["-c", &format!("{setting}={millis}")]).args(words()).stderr(Stdio::piped()).spawn().unwrap()
        };
        // One that waits for packed-refs now and then releases its other locks, and leaves the queue meanwhile.
        let await_queue = |count| {
            if !locked.ends_with("packed-refs") {
                await_queue(folder, count)
            }
        };
        let mut head = start(-1);
        await_queue(1);
        let begun = Instant::now();
        let behind = start(1500);
        await_queue(2);
        let told = behind.wait_with_output().unwrap();
        let took = begun.elapsed();
        assert!(!told.status.success() && took >= Duration::from_millis(1500), "{setting}: {took:?}");
        assert!(took < Duration::from_secs(50), "it does not wait for the head: {took:?}");
        let told = String::from_utf8(told.stderr).unwrap();
        assert!(told.contains(&format!("{}.lock", locked.file_name().unwrap().display())), "{told}");
        assert!(!start(0).wait_with_output().unwrap().status.success(), "{setting}=0 does not wait");
        assert!(head.try_wait().unwrap().is_none(), "{setting}=-1 has no end");
        drop(foreign);
        assert!(head.wait().unwrap().success(), "{setting}");
        assert_eq!(queued_writers(folder), 0, "the queue ends with its last writer");
    }
}

#[test]
fn processes_that_are_killed_cost_the_others_nothing() {
    while_processes_are_killed(RefFormat::Reftable, false);
}

#[test]
fn processes_that_are_killed_while_they_delete_files_cost_the_others_nothing() {
    while_processes_are_killed(RefFormat::Files, true);
}

fn while_processes_are_killed(format: RefFormat, deletes: bool) {
    in_one_of_five(|| {
        let (repo, id) = repository(format);
        let race = Race { repo: &repo, id, settings: SYNCED, time: Duration::from_secs(4), kills: 20, deletes };
        expect_none_failed(&race.run(6, 0, false))
    });
}

#[test]
fn git_and_jgit_get_their_part_among_many_processes() {
    in_one_of_five(|| beside_git_and_jgit(Duration::from_secs(3), 0.1));
}

#[test]
#[ignore = "takes a minute, and needs an idle machine: scripts/test-long \"writers beside git and JGit\""]
fn git_and_jgit_get_half_of_their_share_for_a_minute() {
    beside_git_and_jgit(Duration::from_mins(1), 0.5).unwrap();
}

/// Seven writers of refdb, one git and one JGit, with their default timeouts. The last two must each get at least
/// `part` of what each would get if all got the same.
fn beside_git_and_jgit(time: Duration, part: f64) -> Result<(), String> {
    let (repo, id) = repository(RefFormat::Reftable);
    // Without this, JGit may drop tables that git has just added (tests/slow_jgit.rs).
    repo.config("core.trustTablesListStat", "never");
    let race = Race { repo: &repo, id, settings: SYNCED, time, kills: 0, deletes: false };
    let told = race.run(7, 1, true);
    let share = told.iter().map(|(_, told)| told.done.len()).sum::<usize>() as f64 / told.len() as f64;
    let (own, others): (Vec<_>, Vec<_>) = told.into_iter().partition(|(who, _)| who.starts_with("own"));
    for (who, told) in own.iter().chain(&others) {
        println!("{who}: {} done, {} failed", told.done.len(), told.failed);
    }
    expect_none_failed(&own)?;
    for (who, Told { done, failed, .. }) in others {
        let done = done.len();
        expect(done as f64 >= share * part, || format!("{who}: {done} done, an equal share is {share:.0}"))?;
        // JGit does not wait for the lock at all.
        expect(who == "jgit" || failed * 10 <= done, || format!("{who}: {failed} failed, {done} done"))?;
    }
    Ok(())
}
