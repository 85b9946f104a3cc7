//! A fault in a stack's folder gives an error that names the file, and nothing is lost. Also the edge cases of
//! additions, compactions and clean-ups.

#![allow(clippy::unwrap_used, reason = "a test that fails shall panic")]

mod stack_support;

use refdb_types::HashKind;
use refdb_vfs::{Fs, IoHook, LockError, LockTimeout, Op, Verdict};
use reftable::{
    TableWriter, WriteOptions,
    stack::{Compacted, Durability, LEFTOVER_AGE, ListFault, LogExpiry, Scope, Stack, StackError, StackOptions},
};
use stack_support::{
    LOCK_TIMEOUT, add, add_expecting, files, files_of, log, logs, oid, open, options, refs, try_write, write,
};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

fn without_compaction(dir: &Path) -> Stack {
    Stack::open(Fs::real(), dir, options(HashKind::Sha1).auto_compact(false)).unwrap()
}

/// Refuses all changes, as a read-only folder does, or all writes, as a full disk does, while the flag for it is set.
#[derive(Default)]
struct Refusing {
    changes: AtomicBool,
    writes: AtomicBool,
}

impl IoHook for Refusing {
    fn before(&self, op: Op<'_>) -> Verdict {
        if self.changes.load(Ordering::Relaxed) {
            return Verdict::Fail(io::ErrorKind::PermissionDenied.into());
        }
        match op {
            Op::Write(..) if self.writes.load(Ordering::Relaxed) => Verdict::Fail(io::ErrorKind::StorageFull.into()),
            _ => Verdict::Proceed,
        }
    }
}

#[test]
fn a_full_disk_fails_the_addition_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let refusing = Arc::new(Refusing::default());
    let stack = Stack::open(Fs::with_hook(refusing.clone()), dir.path(), options(HashKind::Sha1)).unwrap();
    write(&stack, &[("refs/heads/a", Some(oid(1)))]);
    let before = files(dir.path());
    refusing.writes.store(true, Ordering::Relaxed);
    let error = try_write(&stack, &[("refs/heads/b", Some(oid(2)))]).unwrap_err();
    assert!(error.to_string().contains(".ref'"), "{error}");
    assert_eq!(files(dir.path()), before);
    refusing.writes.store(false, Ordering::Relaxed);
    write(&stack, &[("refs/heads/b", Some(oid(2)))]);
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), 2);
}

/// A disk that has room for no file of more than `room` bytes, and says so to the write that finds no room, or only to
/// the sync of the file.
struct Nearly {
    room: AtomicUsize,
    says_when_synced: bool,
}

impl IoHook for Nearly {
    fn before(&self, op: Op<'_>) -> Verdict {
        let room = self.room.load(Ordering::Relaxed);
        match op {
            Op::Write(_, bytes) if bytes.len() > room && !self.says_when_synced => {
                Verdict::Tear(1, io::ErrorKind::StorageFull.into())
            }
            Op::Sync(file) if self.says_when_synced && fs::metadata(file).unwrap().len() as usize > room => {
                Verdict::Fail(io::ErrorKind::QuotaExceeded.into())
            }
            _ => Verdict::Proceed,
        }
    }
}

/// Previously, a new table was refused for which there was room, because there was none for the table that merges it
/// with older ones. Later, it was still refused if only the sync of that table failed, as it does on NFS.
#[test]
fn a_small_addition_succeeds_where_only_the_table_merged_with_older_ones_has_no_room() {
    // Without an estimate the tables are merged when the addition is committed, and otherwise while it is written.
    for (expected_bytes, says_when_synced) in [(0, false), (150, false), (0, true), (150, true)] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Nearly { room: usize::MAX.into(), says_when_synced });
        let durability = if says_when_synced { Durability::Sync } else { Durability::None };
        let options = options(HashKind::Sha1).durability(durability);
        let stack = Stack::open(Fs::with_hook(disk.clone()), dir.path(), options).unwrap();
        let mut expected = std::collections::BTreeMap::new();
        let put = |at: u64| {
            let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
            add_expecting(&mut addition, expected_bytes, &[(&format!("refs/heads/{at}"), Some(oid(at)))]).unwrap();
            drop(addition.commit().unwrap());
            stack.snapshot().tables().len()
        };
        write(&stack, &[("refs/heads/first", Some(oid(0)))]);
        let one = fs::metadata(stack.snapshot().tables()[0].name.path_in(dir.path())).unwrap().len() as usize;
        assert_eq!(put(1), 1, "it takes in the older one");
        disk.room.store(one, Ordering::Relaxed);
        assert_eq!([put(2), put(3)], [2, 3], "{expected_bytes} {says_when_synced}");
        disk.room.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(put(4), 1, "with room again it makes up for it");
        expected.insert("refs/heads/first".to_owned(), oid(0));
        expected.extend((1..5).map(|at| (format!("refs/heads/{at}"), oid(at))));
        assert_eq!(refs(&stack.snapshot()), expected);
        assert_eq!(files(dir.path()), files_of(&stack.snapshot()));
    }
}

#[test]
fn a_large_table_on_a_full_disk_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let refusing = Arc::new(Refusing::default());
    let stack = Stack::open(Fs::with_hook(refusing.clone()), dir.path(), options(HashKind::Sha1)).unwrap();
    refusing.writes.store(true, Ordering::Relaxed);
    let names: Vec<_> = (0..30_000).map(|number| format!("refs/heads/{number:06}")).collect();
    let edits: Vec<_> = names.iter().map(|name| (name.as_str(), Some(oid(7)))).collect();
    assert!(try_write(&stack, &edits).is_err());
    assert!(files(dir.path()).is_empty());
    refusing.writes.store(false, Ordering::Relaxed);
    write(&stack, &edits);
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), 30_000);
}

#[test]
fn a_folder_that_may_not_be_written_can_be_read_and_says_so_to_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    write(&open(dir.path()), &[("refs/heads/a", Some(oid(1)))]);
    let refusing = Arc::new(Refusing::default());
    refusing.changes.store(true, Ordering::Relaxed);
    let stack = Stack::open(Fs::with_hook(refusing), dir.path(), options(HashKind::Sha1)).unwrap();
    assert_eq!(refs(&stack.snapshot()).len(), 1);
    let error = stack.lock(LOCK_TIMEOUT).unwrap_err();
    assert!(error.to_string().contains("tables.list.lock"), "{error}");
}

#[test]
fn a_table_that_is_listed_but_missing_is_named_with_its_list() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    write(&stack, &[("refs/heads/a", Some(oid(1)))]);
    let table = stack.snapshot().tables()[0].name.to_string();
    fs::remove_file(dir.path().join(&table)).unwrap();
    let error = Stack::open(Fs::real(), dir.path(), options(HashKind::Sha1)).unwrap_err();
    assert!(matches!(error, StackError::MissingTable { .. }));
    let text = error.to_string();
    assert!(text.contains("tables.list") && text.contains(&table), "{text}");
    assert_eq!(refs(&stack.snapshot()).len(), 1, "who has it open keeps it");
}

#[test]
fn an_empty_list_and_no_list_are_empty_stacks() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(&dir.path().join("not-there"));
    assert!(stack.snapshot().tables().is_empty() && stack.is_fresh().unwrap());
    fs::write(dir.path().join("tables.list"), "").unwrap();
    let stack = open(dir.path());
    assert!(refs(&stack.snapshot()).is_empty());
    write(&stack, &[("refs/heads/a", Some(oid(1)))]);
    assert_eq!(refs(&stack.snapshot()).len(), 1);
}

#[test]
fn a_line_that_is_no_name_is_given_with_its_number() {
    let dir = tempfile::tempdir().unwrap();
    for (content, expected) in [
        ("../../etc/passwd\n", ListFault::Name(1)),
        ("a.ref\nb.ref\na.ref\n", ListFault::Repeated(3)),
        ("0x000000000001-0x0000", ListFault::Cut(1)),
    ] {
        fs::write(dir.path().join("tables.list"), content).unwrap();
        let error = Stack::open(Fs::real(), dir.path(), options(HashKind::Sha1)).unwrap_err();
        assert!(matches!(&error, StackError::List { fault, .. } if *fault == expected), "{error}");
        assert!(error.to_string().contains("tables.list' is invalid: line"), "{error}");
    }
}

#[test]
fn a_table_that_is_damaged_or_of_another_hash_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    write(&stack, &[("refs/heads/a", Some(oid(1)))]);
    let error = Stack::open(Fs::real(), dir.path(), options(HashKind::Sha256)).unwrap_err();
    let table = stack.snapshot().tables()[0].name.to_string();
    assert!(error.to_string().contains(&table) && error.to_string().contains("sha256"), "{error}");
    fs::write(dir.path().join(&table), "REFT").unwrap();
    let error = Stack::open(Fs::real(), dir.path(), options(HashKind::Sha1)).unwrap_err();
    assert!(error.to_string().contains(&table), "{error}");
}

#[test]
fn a_lock_left_behind_is_reported_with_its_age_and_owner_and_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    let lock = dir.path().join("tables.list.lock");
    fs::write(&lock, "").unwrap();
    let old = SystemTime::now() - Duration::from_secs(100);
    fs::File::options().write(true).open(&lock).unwrap().set_modified(old).unwrap();
    for lock_timeout in [LockTimeout::None, LockTimeout::For(Duration::from_millis(30))] {
        let error = stack.lock(lock_timeout).unwrap_err();
        assert!(matches!(&error, StackError::Lock(LockError::Held { age_seconds: 100..1000, .. })), "{error}");
        assert!(error.to_string().contains("tables.list.lock' is held by someone else (user "), "{error}");
    }
    assert!(lock.exists());
}

#[test]
fn a_table_locked_by_another_compactor_is_left_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    write(&stack, &[("refs/heads/a", Some(oid(1)))]);
    let first = stack.snapshot().tables()[0].name.to_string();
    let lock = dir.path().join(format!("{first}.lock"));
    fs::write(&lock, "").unwrap();
    for number in 0..20 {
        write(&stack, &[(format!("refs/heads/{number:02}").as_str(), Some(oid(number)))]);
        let tables = stack.snapshot().tables().len();
        assert!(tables <= 3, "the younger {tables} tables are compacted without it");
    }
    assert_eq!(stack.snapshot().tables()[0].name.to_string(), first);
    let error = stack.compact(Scope::All(None), LockTimeout::For(Duration::from_millis(50))).unwrap_err();
    assert!(error.to_string().contains(&first), "{error}");
    assert!(!dir.path().join("tables.list.lock").exists());
    fs::remove_file(&lock).unwrap();
    assert!(matches!(stack.compact(Scope::All(None), LockTimeout::None).unwrap(), Compacted::Done(_)));
    assert_eq!(files(dir.path()), files_of(&stack.snapshot()));
    assert_eq!(refs(&stack.snapshot()).len(), 21);
}

#[test]
fn an_addition_that_outgrows_older_tables_takes_them_in_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    write(&stack, &[("refs/heads/a", Some(oid(1))), ("refs/heads/b", Some(oid(1))), ("refs/heads/d", Some(oid(1)))]);
    write(&stack, &[("refs/heads/b", None)]);
    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    let edits = [("refs/heads/a", None), ("refs/heads/c", Some(oid(2))), ("refs/heads/d", Some(oid(2)))];
    let summary = add_expecting(&mut addition, 10_000, &edits).unwrap();
    assert_eq!(summary.refs, 2, "a deleted ref leaves no trace at the bottom of the stack");
    let committed = addition.commit().unwrap();
    assert!(committed.compaction.is_none());
    let snapshot = stack.snapshot();
    let tables = snapshot.tables();
    let limits: Vec<_> = tables.iter().map(|listed| &listed.table).collect();
    assert_eq!((limits[0].min_update_index(), limits[0].max_update_index(), limits.len()), (1, 3, 1));
    assert_eq!(refs(&snapshot), [("refs/heads/c", 2), ("refs/heads/d", 2)].map(|(n, i)| (n.into(), oid(i))).into());
    // If nothing is left there is no table, and the update indexes start anew.
    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    add_expecting(&mut addition, 10_000, &[("refs/heads/c", None), ("refs/heads/d", None)]).unwrap();
    assert!(addition.commit().unwrap().compaction.is_none());
    assert_eq!((files(dir.path()), stack.snapshot().next_update_index()), (vec!["tables.list".to_owned()], 1));
}

/// Previously, the commit panicked where only the last two of three new tables were due to be merged.
#[test]
fn an_addition_of_several_tables_is_merged_whole_even_if_only_the_last_ones_are_due() {
    for older in [0, 1] {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..200).map(|number| format!("refs/heads/{number:03}")).collect();
        let edits: Vec<_> = names.iter().map(|name| (name.as_str(), Some(oid(1)))).collect();
        let stack = open(dir.path());
        (0..older).for_each(|_| write(&stack, &edits));
        let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
        add(&mut addition, &edits[..60]);
        add(&mut addition, &[("refs/tags/a", Some(oid(2)))]);
        add(&mut addition, &[("refs/tags/b", Some(oid(2)))]);
        assert!(addition.commit().unwrap().compaction.is_none(), "{older}");
        let snapshot = stack.snapshot();
        let expected = if older == 0 { 62 } else { 202 };
        assert_eq!((snapshot.tables().len(), refs(&snapshot).len()), (older + 1, expected));
        assert_eq!(files(dir.path()), files_of(&snapshot));
    }
}

#[test]
fn an_addition_takes_in_no_table_that_another_compactor_has_and_none_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let stack = without_compaction(dir.path());
    for number in 0..4 {
        write(&stack, &[(format!("refs/heads/{number}").as_str(), Some(oid(number)))]);
    }
    let stack = open(dir.path());
    let names = || stack.snapshot().tables().iter().map(|listed| listed.name.to_string()).collect::<Vec<_>>();
    let before = names();
    fs::write(dir.path().join(format!("{}.lock", before[1])), "").unwrap();
    // An addition that adds nothing, is dropped, or is refused merges no older table.
    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    add_expecting(&mut addition, 10_000, &[]).unwrap();
    drop(addition.commit().unwrap());
    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    add_expecting(&mut addition, 10_000, &[("refs/heads/x", Some(oid(9)))]).unwrap();
    drop(addition);
    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    add_expecting(&mut addition, 10_000, &[("refs/heads/y", None), ("refs/heads/x", None)]).unwrap_err();
    drop(addition);
    assert_eq!(names(), before);
    assert_eq!(files(dir.path()).len(), files_of(&stack.snapshot()).len() + 1, "but the lock that was put there");

    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    add_expecting(&mut addition, 10_000, &[("refs/heads/2", None)]).unwrap();
    drop(addition.commit().unwrap());
    assert_eq!(names()[..2], before[..2]);
    assert_eq!(names().len(), 3);
    let left: Vec<_> = refs(&stack.snapshot()).into_keys().collect();
    assert_eq!(left, ["refs/heads/0", "refs/heads/1", "refs/heads/3"], "the tombstone still hides nothing else");
}

#[test]
fn a_compaction_holds_no_writer_back_and_finds_its_tables_again() {
    let dir = tempfile::tempdir().unwrap();
    let stack = without_compaction(dir.path());
    let large: Vec<_> = (0..2_000).map(|number| format!("refs/heads/{number:06}")).collect();
    let edits: Vec<_> = large.iter().map(|name| (name.as_str(), Some(oid(7)))).collect();
    for _ in 0..2 {
        write(&stack, &edits);
    }
    let compacting = open(dir.path());
    let mut addition = compacting.lock(LOCK_TIMEOUT).unwrap();
    add(&mut addition, &[("refs/heads/x", Some(oid(1)))]);
    let compaction = addition.commit().unwrap().compaction.expect("two tables of one size are to become one");
    write(&open(dir.path()), &[("refs/heads/y", Some(oid(2)))]);
    assert!(matches!(compaction.run(LockTimeout::None).unwrap(), Compacted::Done(2..)));
    let snapshot = stack.reload().unwrap();
    assert_eq!(refs(&snapshot).len(), 2_002);
    assert_eq!(files(dir.path()), files_of(&snapshot));
}

#[test]
fn clean_up_takes_old_leftovers_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    write(&stack, &[("refs/heads/a", Some(oid(1)))]);
    let listed = stack.snapshot().tables()[0].name.to_string();
    let old = ["0x000000000009-0x000000000009-00000001.ref", "000000000001-000000000001_77.ref", "x.ref.lock", "x.log"];
    let kept = ["0x000000000009-0x000000000009-00000002.ref", "notes.txt", "notes.txt.lock"];
    let lock_of_listed = format!("{listed}.lock");
    for name in old.iter().chain(&kept).copied().chain([lock_of_listed.as_str()]) {
        fs::write(dir.path().join(name), "").unwrap();
        if name != kept[0] {
            let file = fs::File::options().write(true).open(dir.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - LEFTOVER_AGE - Duration::from_secs(5)).unwrap();
        }
    }
    assert_eq!(stack.leftovers().unwrap().len(), 5);
    let mut removed: Vec<_> =
        stack.clean(LOCK_TIMEOUT).unwrap().into_iter().map(|left| left.name.to_string()).collect();
    removed.sort();
    let mut expected = old.map(String::from);
    expected.sort();
    assert_eq!(removed, expected);
    let mut left = files_of(&stack.snapshot());
    left.extend(kept.map(String::from).into_iter().chain([lock_of_listed]));
    left.sort();
    assert_eq!(files(dir.path()), left);
}

#[test]
fn new_files_have_exactly_the_mode_that_was_asked_for() {
    for durability in [Durability::None, Durability::Sync] {
        let dir = tempfile::tempdir().unwrap();
        let options = options(HashKind::Sha1).file_mode(Some(0o664)).durability(durability);
        let stack = Stack::open(Fs::real(), dir.path(), options).unwrap();
        for number in 0..3 {
            write(&stack, &[(format!("refs/heads/{number}").as_str(), Some(oid(1)))]);
        }
        stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap();
        for name in files(dir.path()) {
            let mode = fs::metadata(dir.path().join(&name)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o664, "{name}");
        }
    }
}

#[test]
fn a_used_update_index_is_refused_and_the_addition_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    write(&stack, &[("refs/heads/a", Some(oid(1)))]);
    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    assert_eq!(addition.next_update_index(), 2);
    for (min, max) in [(1, 2), (3, 2)] {
        let error = addition.add_table(min..=max, 0, |_| Ok::<_, StackError>(())).unwrap_err();
        assert!(matches!(error, StackError::UpdateIndex { next: 2, .. }), "{error}");
    }
    add(&mut addition, &[("refs/heads/b", Some(oid(2)))]);
    assert_eq!(addition.next_update_index(), 3);
    drop(addition.commit().unwrap());
    assert_eq!(refs(&stack.snapshot()).len(), 2);
}

#[test]
fn an_addition_without_records_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    write(&stack, &[("refs/heads/a", Some(oid(1)))]);
    let before = fs::metadata(stack.list_path()).unwrap().modified().unwrap();
    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    add(&mut addition, &[]);
    assert!(addition.commit().unwrap().compaction.is_none());
    assert_eq!(fs::metadata(stack.list_path()).unwrap().modified().unwrap(), before);
    assert_eq!(files(dir.path()), files_of(&stack.snapshot()));
}

#[test]
fn compacting_everything_can_expire_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let stack = Stack::open(Fs::real(), dir.path(), StackOptions::new(WriteOptions::default())).unwrap();
    for index in 1..=4 {
        let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
        let written = addition.add_table(index..=index, 0, |w| w.add_log(&log("refs/heads/a", index, "m\n")));
        written.unwrap();
        drop(addition.commit().unwrap());
    }
    let kept = |stack: &Stack| logs(&stack.snapshot()).into_keys().map(|(_, index)| index).collect::<Vec<_>>();
    assert_eq!(kept(&stack), [1, 2, 3, 4]);
    let expiry = LogExpiry { before_seconds: 1_700_000_002, below_update_index: 0 };
    stack.compact(Scope::All(Some(expiry)), LOCK_TIMEOUT).unwrap();
    assert_eq!(kept(&stack), [2, 3, 4]);
    let expiry = LogExpiry { before_seconds: 0, below_update_index: 4 };
    stack.compact(Scope::All(Some(expiry)), LOCK_TIMEOUT).unwrap();
    assert_eq!(kept(&stack), [4]);
}

/// Adds a youngest table with an entry that is larger than git's blocks.
fn leave_too_large(stack: &Stack, dir: &Path, name: &str, message: &str) {
    let update_index = stack.reload().unwrap().next_update_index();
    let mut bytes = Vec::new();
    let mut writer = TableWriter::new(WriteOptions::default(), update_index, update_index, &mut bytes).unwrap();
    writer.add_log(&log(name, update_index, message)).unwrap();
    writer.finish().unwrap();
    let table = format!("0x{update_index:012x}-0x{update_index:012x}-0123abcd.ref");
    fs::write(dir.join(&table), bytes).unwrap();
    let list = fs::read_to_string(dir.join("tables.list")).unwrap();
    fs::write(dir.join("tables.list"), format!("{list}{table}\n")).unwrap();
    stack.reload().unwrap();
}

#[test]
fn additions_and_compactions_cut_the_entries_that_git_could_not_rewrite() {
    // The message is random, so that the table is large too: once larger than what is merged at once, and once smaller.
    let long: String =
        (0..200_000u32).map(|at| char::from(b'a' + (at.wrapping_mul(2_654_435_761) >> 28) as u8)).collect();
    for len in [5000, long.len()] {
        let message = format!("{}\n", &long[..len]);
        type Way<'w> = &'w dyn Fn(&Stack);
        let add_expecting_much = |stack: &Stack| {
            let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
            add_expecting(&mut addition, 10 << 20, &[("refs/heads/b", Some(oid(2)))]).unwrap();
            drop(addition.commit().unwrap());
        };
        let add_many = |stack: &Stack| {
            let names: Vec<_> = (0..4000).map(|at| format!("refs/heads/{at:04}")).collect();
            for part in names.chunks(200) {
                let edits: Vec<_> = part.iter().map(|name| (name.as_str(), Some(oid(1)))).collect();
                write(stack, &edits);
            }
        };
        let compact_all = |stack: &Stack| {
            assert_eq!(stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap(), Compacted::Done(2));
        };
        let ways: [(&str, Way<'_>); 3] =
            [("merged while written", &add_expecting_much), ("additions", &add_many), ("compaction", &compact_all)];
        for (way, run) in ways {
            let dir = tempfile::tempdir().unwrap();
            let stack = open(dir.path());
            write(&stack, &[("refs/heads/a", Some(oid(1)))]);
            leave_too_large(&stack, dir.path(), "refs/heads/long", &message);
            run(&stack);
            let snapshot = stack.reload().unwrap();
            let mut found = logs(&snapshot).into_values();
            let stored = found.next().unwrap();
            assert!(
                found.next().is_none() && stored == format!("{}\n", &long[..2048]),
                "{len}, {way}: {}",
                stored.len()
            );
        }
    }
}

#[test]
fn an_older_ref_that_no_longer_fits_into_a_block_stops_no_addition() {
    let dir = tempfile::tempdir().unwrap();
    let with_blocks = |block_size| {
        let options = StackOptions::new(WriteOptions::default().block_size(block_size));
        Stack::open(Fs::real(), dir.path(), options).unwrap()
    };
    let long = format!("refs/heads/{}", "m".repeat(3000));
    write(&with_blocks(1 << 16), &[(long.as_str(), Some(oid(1)))]);
    // With small blocks the new table cannot take in the long name, whether the writer meets that name before the last
    // new ref (`z`), behind the last new ref (`a`), or when the tables are merged at the end.
    let stack = with_blocks(256);
    let mut names = vec![long];
    for (name, expected_bytes) in [("refs/heads/z", 10 << 20), ("refs/heads/a", 10 << 20), ("refs/heads/b", 0)] {
        let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
        add_expecting(&mut addition, expected_bytes, &[(name, Some(oid(2)))]).unwrap();
        drop(addition.commit().unwrap());
        names.push(name.into());
    }
    names.sort();
    assert_eq!(refs(&stack.reload().unwrap()).into_keys().collect::<Vec<_>>(), names);
}

/// A client of a network file system that gives up the replacement of the list, which its server carries out later.
struct GivesUp(PathBuf);

impl IoHook for GivesUp {
    fn before(&self, op: Op<'_>) -> Verdict {
        match op {
            Op::Rename(from, to) if to.ends_with("tables.list") => {
                fs::copy(from, &self.0).unwrap();
                Verdict::Fail(io::ErrorKind::TimedOut.into())
            }
            _ => Verdict::Proceed,
        }
    }

    fn is_network(&self) -> bool {
        true
    }
}

#[test]
fn a_list_that_is_replaced_after_its_writer_has_given_up_names_no_missing_table() {
    let (dir, late) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let late = late.path().join("list");
    let plain = without_compaction(dir.path());
    let fs = Fs::with_hook(Arc::new(GivesUp(late.clone()))).at(dir.path()).unwrap();
    let giving_up = Stack::open(fs, dir.path(), options(HashKind::Sha1).auto_compact(false)).unwrap();
    for name in ["refs/heads/a", "refs/heads/b"] {
        write(&plain, &[(name, Some(oid(1)))]);
    }
    try_write(&giving_up, &[("refs/heads/c", Some(oid(2)))]).unwrap_err();
    fs::rename(&late, dir.path().join("tables.list")).unwrap();
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), 3);
    giving_up.compact(Scope::All(None), LOCK_TIMEOUT).unwrap_err();
    fs::rename(&late, dir.path().join("tables.list")).unwrap();
    assert_eq!(refs(&open(dir.path()).snapshot()).len(), 3);
}
