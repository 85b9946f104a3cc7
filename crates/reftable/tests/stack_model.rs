//! Random additions, rollbacks, compactions and reloads, through several open stacks of one folder, compared with a
//! plain map.

#![allow(clippy::unwrap_used, reason = "a test that fails shall panic")]

mod stack_support;

use refdb_testkit::Rng;
use reftable::{
    LogRecord, LogValue, RefRecord, RefValue,
    stack::{Compacted, Scope, Snapshot, Stack, StackError},
};
use stack_support::{LOCK_TIMEOUT, Refs, files, files_of, log, logs, oid, open, refs};
use std::{collections::BTreeMap, path::Path};

type Logs = BTreeMap<(String, u64), String>;

#[derive(Clone, Default)]
struct Model {
    refs: Refs,
    logs: Logs,
}

struct Run {
    rng: Rng,
    stacks: Vec<Stack>,
    model: Model,
    /// Snapshots taken during the run, with what they must show for ever.
    kept: Vec<(Snapshot, Model)>,
    next_oid: u64,
}

impl Run {
    fn new(dir: &Path, seed: u64) -> Self {
        let stacks = (0..3).map(|_| open(dir)).collect();
        Run { rng: Rng::new(seed), stacks, model: Model::default(), kept: Vec::new(), next_oid: 0 }
    }

    fn names(&mut self) -> Vec<String> {
        let count = if self.rng.one_in(20) { 200 } else { self.rng.below(6) };
        let mut names: Vec<_> = (0..count).map(|_| format!("refs/heads/{:03}", self.rng.below(300))).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Makes a transaction of one or two tables, with or without log entries, and commits it or not.
    fn add(&mut self, stack: &Stack) {
        let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
        let mut model = self.model.clone();
        assert_eq!(refs(addition.snapshot()), model.refs, "under the lock the stack is as the last writer left it");
        for _ in 0..=self.rng.below(2) {
            let index = addition.next_update_index();
            let mut edits = BTreeMap::new();
            for name in self.names() {
                self.next_oid += 1;
                let value = if self.rng.one_in(3) { None } else { Some(oid(self.next_oid)) };
                edits.insert(name, value);
            }
            let with_logs = self.rng.one_in(2);
            let forgotten = model.logs.keys().next().filter(|_| self.rng.one_in(4)).cloned();
            let entry = |name: &String| ((name.clone(), index), format!("to {index}\n"));
            let mut entries: BTreeMap<_, _> =
                if with_logs { edits.keys().map(entry).collect() } else { BTreeMap::new() };
            // The estimate is missing, about right, or quite wrong.
            let expected_bytes = match self.rng.below(4) {
                0 => 0,
                1 => 1 << 20,
                _ => edits.len() as u64 * 24,
            };
            addition
                .add_table(index..=index, expected_bytes, |writer| {
                    for (name, value) in &edits {
                        let value = value.map_or(RefValue::Deletion, RefValue::Direct);
                        writer.add_ref(&RefRecord { name: name.as_str().into(), update_index: index, value })?;
                    }
                    let mut records: Vec<LogRecord<'_>> = entries.iter().map(|((n, i), m)| log(n, *i, m)).collect();
                    if let Some((name, update_index)) = &forgotten {
                        let (name, update_index) = (name.as_str().into(), *update_index);
                        records.push(LogRecord { name, update_index, value: LogValue::Deletion });
                    }
                    records.sort_by(|a, b| a.name.cmp(b.name).then(b.update_index.cmp(&a.update_index)));
                    records.iter().try_for_each(|record| writer.add_log(record))?;
                    Ok::<_, StackError>(())
                })
                .unwrap();
            for (name, value) in edits {
                match value {
                    Some(value) => model.refs.insert(name, value),
                    None => model.refs.remove(&name),
                };
            }
            model.logs.append(&mut entries);
            forgotten.map(|key| model.logs.remove(&key));
        }
        if self.rng.one_in(5) {
            drop(addition);
            return;
        }
        let committed = addition.commit().unwrap();
        self.model = model;
        self.check(&stack.snapshot());
        if let Some(compaction) = committed.compaction {
            if self.rng.one_in(5) {
                drop(compaction);
            } else {
                assert!(matches!(compaction.run(LOCK_TIMEOUT).unwrap(), Compacted::Done(2..)));
            }
        }
    }

    fn step(&mut self) {
        let stack = self.rng.pick(&self.stacks).clone();
        match self.rng.below(12) {
            0 => drop(stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap()),
            1 => drop(stack.compact(Scope::Geometric, LOCK_TIMEOUT).unwrap()),
            2 => assert_eq!(stack.clean(LOCK_TIMEOUT).unwrap(), []),
            3 => {
                let before = stack.snapshot();
                let after = stack.reload().unwrap();
                assert!(stack.is_fresh().unwrap());
                assert!(after.sequence() >= before.sequence());
            }
            _ => self.add(&stack),
        }
        let snapshot = stack.refresh().unwrap();
        self.check(&snapshot);
        assert_eq!(files(stack.dir()), files_of(&snapshot), "there is nothing but what the list names");
        self.kept.push((snapshot, self.model.clone()));
        if self.kept.len() > 6 {
            let at = self.rng.below(self.kept.len());
            self.kept.swap_remove(at);
        }
        if self.rng.one_in(10) {
            let (snapshot, model) = self.rng.pick(&self.kept);
            assert_eq!((refs(snapshot), logs(snapshot)), (model.refs.clone(), model.logs.clone()));
        }
    }

    fn check(&self, snapshot: &Snapshot) {
        assert_eq!(refs(snapshot), self.model.refs);
        assert_eq!(logs(snapshot), self.model.logs);
    }
}

#[test]
fn any_sequence_of_operations_shows_what_a_map_shows() {
    for seed in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Run::new(dir.path(), seed);
        // The first addition that adds something creates the list; before that there is no file at all.
        assert!(files(dir.path()).is_empty());
        drop(run.stacks[0].lock(LOCK_TIMEOUT).unwrap().commit().unwrap());
        assert!(files(dir.path()).is_empty());
        stack_support::write(&run.stacks[0], &[("refs/heads/000", Some(oid(1)))]);
        run.model.refs.insert("refs/heads/000".into(), oid(1));
        for step in 0..120 {
            eprintln!("seed {seed}, step {step}");
            run.step();
        }
    }
}

#[test]
fn many_small_additions_leave_few_tables() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    for number in 0..1_500u64 {
        stack_support::write(&stack, &[(format!("refs/heads/{number:05}").as_str(), Some(oid(number)))]);
        let tables = stack.snapshot().tables().len();
        assert!(tables <= 2 + (number + 1).ilog2() as usize, "{tables} tables after {number} additions");
    }
    assert_eq!(refs(&stack.snapshot()).len(), 1_500);
    assert_eq!(stack.snapshot().next_update_index(), 1_501);
}

#[test]
fn a_stack_whose_refs_are_all_deleted_compacts_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let stack = open(dir.path());
    stack_support::write(&stack, &[("refs/heads/a", Some(oid(1))), ("refs/heads/b", Some(oid(2)))]);
    stack_support::write(&stack, &[("refs/heads/a", None), ("refs/heads/b", None)]);
    stack.compact(Scope::All(None), LOCK_TIMEOUT).unwrap();
    assert_eq!(files(dir.path()), ["tables.list"]);
    assert_eq!(std::fs::read(stack.list_path()).unwrap(), b"");
    assert_eq!(stack.snapshot().next_update_index(), 1, "as in git, whose update indexes start anew");
}
