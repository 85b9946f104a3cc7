//! Random records and options: git and JGit list whatever a store can write in the same way. JGit can compact all of
//! it, and git all but messages that deflate does not shrink.

use crate::{
    common::{OwnLog, OwnRef, OwnValue},
    others::{Content, LOCK_TIMEOUT, Others},
};
use bstr::BString;
use refdb_testkit::{Rng, rounds};
use refdb_vfs::Fs;
use reftable::{
    HashKind, LogRecord, LogValue, ObjectId, WriteOptions,
    stack::{Stack, StackError, StackOptions},
};
use std::{collections::BTreeMap, env};

/// The branch that all symbolic refs point to, which always exists.
const MAIN: &str = "refs/heads/main";

/// Block sizes in bytes, from the smallest that has room for the names to the largest in common use.
const BLOCK_SIZES: [u32; 10] = [256, 300, 512, 1000, 1024, 2048, 4096, 5000, 16_384, 65_536];

/// The random parameters of one case, and the stack that results from them.
struct Case<'a> {
    rng: Rng,
    others: &'a Others,
    options: StackOptions,
    content: Content,
    /// The maximum length of names, in bytes.
    name_max: usize,
    /// A part of every name, after the kind.
    shared: String,
    /// The number of different objects that refs point to.
    ids: usize,
    has_logs: bool,
    /// Whether messages may be text that deflate does not shrink. Git cannot read the log blocks that it writes when
    /// it compacts such messages, so these cases are not rewritten with git.
    has_noise: bool,
}

#[test]
fn what_a_store_can_write_git_and_jgit_list_alike_and_compact_without_a_loss() {
    let seed: u64 = env::var("REFDB_SEED").map_or(1, |seed| seed.parse().unwrap());
    for (hash, cases) in [(HashKind::Sha1, rounds(16, 800)), (HashKind::Sha256, rounds(8, 250))] {
        let mut others = Others::new(hash);
        for number in 0..cases as u64 {
            let mut rng = Rng::new(seed + number);
            let write = WriteOptions::new(hash)
                .block_size(*rng.pick(&BLOCK_SIZES))
                .restart_interval(*rng.pick(&[1, 2, 16, 16, 100, 1000]))
                .index_objects(!rng.one_in(3))
                .aligned(!rng.one_in(3));
            let has_noise = rng.one_in(4);
            let (options, content) = written(&others, rng, write, has_noise);
            let what = format!("REFDB_SEED={} of {hash:?} {write:?}", seed + number);
            if has_noise {
                others.list(&options, &content, &what);
                others.rewrite_with_jgit(&options, &content, &what);
            } else {
                others.list_and_rewrite(&options, &content, &what);
            }
        }
    }
}

/// Writes a stack of up to four tables and returns its expected content.
fn written(others: &Others, mut rng: Rng, write: WriteOptions, has_noise: bool) -> (StackOptions, Content) {
    let options = others.begin(write).auto_compact(rng.one_in(2));
    let longest = write.name_max();
    let name_max = *rng.pick(&[40, 40, 80, longest / 2, longest]);
    let shared = if rng.one_in(2) { String::new() } else { "s".repeat(rng.below(name_max.min(longest) - 30)) };
    let (ids, has_logs) = (if rng.one_in(4) { 1 } else { others.commits.len() }, !rng.one_in(3));
    let content = Content::default();
    let name_max = name_max.min(longest);
    let mut case = Case { rng, others, options, content, name_max, shared, ids, has_logs, has_noise };
    let stack = Stack::open(Fs::real(), &others.folder(), case.options.clone()).unwrap();
    for number in 0..1 + case.rng.below(4) {
        case.add(&stack, number == 0);
    }
    (case.options, case.content)
}

impl Case<'_> {
    /// Commits one transaction: a table with refs and log entries, which may absorb older tables.
    fn add(&mut self, stack: &Stack, is_first: bool) {
        let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
        let first = addition.next_update_index();
        let last = first + self.rng.below(3) as u64;
        let (refs, logs) = self.records(first, last, is_first);
        let expected_bytes = *self.rng.pick(&[0, 1000, 1 << 20]);
        addition
            .add_table::<StackError>(first..=last, expected_bytes, |writer| {
                refs.values().try_for_each(|record| writer.add_ref(&record.record()))?;
                logs.values().try_for_each(|record| writer.add_log(&record.record()))
            })
            .unwrap();
        let committed = addition.commit().unwrap();
        if let Some(compaction) = committed.compaction.filter(|_| !self.rng.one_in(3)) {
            compaction.run(LOCK_TIMEOUT).unwrap();
        }
        for (name, record) in refs {
            match record.value {
                OwnValue::Deletion => drop(self.content.refs.remove(&name)),
                value => drop(self.content.refs.insert(name, value)),
            }
        }
        for log in logs.into_values() {
            let key = (log.name.clone(), log.update_index);
            if log.entry.is_some() {
                self.content.logs.insert(key, log)
            } else {
                self.content.logs.remove(&key)
            };
        }
    }

    /// Returns random refs by name, and random log entries in the order of a table.
    fn records(
        &mut self,
        first: u64,
        last: u64,
        is_first: bool,
    ) -> (BTreeMap<BString, OwnRef>, BTreeMap<(BString, u64), OwnLog>) {
        let (mut refs, mut logs) = (BTreeMap::new(), BTreeMap::new());
        if is_first {
            for (name, value) in [("HEAD", OwnValue::Symbolic(MAIN.into())), (MAIN, self.direct())] {
                refs.insert(name.into(), OwnRef { name: name.into(), update_index: first, value });
            }
        }
        let write = self.options.write;
        for _ in 0..*self.rng.pick(&[1, 3, 20, 60, 200]) {
            let update_index = first + self.rng.below((last - first + 1) as usize) as u64;
            let record = self.edit(update_index);
            if write.check_ref(&record.record()).is_ok() {
                let name = record.name.clone();
                if self.has_logs && !matches!(record.value, OwnValue::Symbolic(_)) {
                    let log = OwnLog { name: name.clone(), update_index, entry: Some(self.entry()) };
                    if write.check_log(&log.record(), false).is_ok() {
                        logs.insert((name.clone(), u64::MAX - update_index), log);
                    }
                }
                refs.insert(name, record);
            }
        }
        let hidden: Vec<_> = self.content.logs.keys().filter(|_| self.rng.one_in(10)).cloned().collect();
        for (name, update_index) in hidden {
            let deletion = LogRecord { name: name.as_ref(), update_index, value: LogValue::Deletion };
            logs.insert((name.clone(), u64::MAX - update_index), OwnLog::of(deletion));
        }
        (refs, logs)
    }

    fn edit(&mut self, update_index: u64) -> OwnRef {
        if self.rng.one_in(5) && self.content.refs.len() > 2 {
            let names: Vec<_> = self.content.refs.keys().filter(|name| *name != MAIN && *name != "HEAD").collect();
            let name = (**self.rng.pick(&names)).clone();
            return OwnRef { name, update_index, value: OwnValue::Deletion };
        }
        let (kind, value) = match self.rng.below(12) {
            0 => ("heads", OwnValue::Symbolic(MAIN.into())),
            1 => {
                let (tag, commit) = *self.rng.pick(&self.others.tags);
                ("tags", OwnValue::Peeled(tag, commit))
            }
            _ => ("heads", self.direct()),
        };
        OwnRef { name: self.name(kind), update_index, value }
    }

    fn direct(&mut self) -> OwnValue {
        OwnValue::Direct(self.others.commits[self.rng.below(self.ids)])
    }

    /// Returns a random name: the shared part, a number of four digits, and letters up to a random length. No such name
    /// is a folder of another one.
    fn name(&mut self, kind: &str) -> BString {
        let mut name = format!("refs/{kind}/{}{:04}", self.shared, self.rng.below(3000));
        let len = match self.rng.below(3) {
            0 => self.name_max,
            1 => self.name_max.saturating_sub(self.rng.below(4)),
            _ => self.rng.below(self.name_max),
        };
        // The number determines the letter, so that the same name can come up again.
        let letter = name.as_bytes()[name.len() - 1] - b'0' + b'a';
        name.extend(std::iter::repeat_n(char::from(letter), len.saturating_sub(name.len())));
        name.into()
    }

    fn entry(&mut self) -> (ObjectId, ObjectId, BString, BString, u64, i16, BString) {
        let mut id = || *self.rng.pick(&self.others.commits);
        let (old, new) = (id(), id());
        let name = *self.rng.pick(&["A U Thor", "Jörg Müller", "x"]);
        let email = *self.rng.pick(&["a@example.com", "b"]);
        let seconds = 1_700_000_000 + self.rng.below(1 << 33) as u64;
        let offset = *self.rng.pick(&[0, 100, -130, 530, -800, 1000]);
        (old, new, name.into(), email.into(), seconds, offset, self.message())
    }

    fn message(&mut self) -> BString {
        let max = self.options.write.log_message_max();
        let len = *self.rng.pick(&[0, 10, 60, max / 2, max]);
        let mut message: Vec<u8> = match self.rng.below(3) {
            0 => vec![b'm'; len],
            1 if self.has_noise => (0..len).map(|_| b'!' + self.rng.below(90) as u8).collect(),
            _ => (0..len).map(|_| *self.rng.pick(b"abc ")).collect(),
        };
        message.push(b'\n');
        message.into()
    }
}
