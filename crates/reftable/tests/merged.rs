//! Tables on top of one another: the newest record counts, tombstones hide refs, and a sorted batch is a single walk.

#![allow(clippy::unwrap_used, reason = "a test may fail in its helpers too")]

mod common;

use bstr::ByteSlice;
use common::*;
use reftable::{Error, HashKind, Merged, WriteOptions};
use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn name(at: u64) -> String {
    format!("refs/heads/{:02}/{at:04}", at / 50)
}

/// A stack of tables with random refs and logs, together with the records that count.
struct Stack {
    merged: Merged,
    /// All refs, including tombstones.
    refs: BTreeMap<Vec<u8>, OwnRef>,
    logs: BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), OwnLog>,
}

fn stack(seed: u64, tables: usize, names: u64) -> Stack {
    let mut state = seed;
    let (mut refs, mut logs) = (BTreeMap::new(), BTreeMap::new());
    let mut opened = Vec::new();
    for at in 0..tables {
        let share = 1 + random(&mut state) % 20;
        let (mut own_refs, mut own_logs) = (Vec::new(), Vec::new());
        for number in 0..names {
            if random(&mut state) % share != 0 {
                continue;
            }
            let value = match random(&mut state) % 3 {
                0 => OwnValue::Deletion,
                _ => OwnValue::Direct(id(HashKind::Sha1, random(&mut state) % 64)),
            };
            own_refs.push(OwnRef { name: name(number).into(), update_index: 1 + (at as u64) % 7, value });
            let update_index = 1 + random(&mut state) % 7;
            let mut log =
                OwnLog { name: name(number).into(), update_index, ..common::logs(HashKind::Sha1, 1).remove(0) };
            if random(&mut state) % 3 == 0 {
                log.entry = None;
            }
            own_logs.push(log);
        }
        for record in &own_refs {
            refs.insert(record.name.to_vec(), record.clone());
        }
        for record in &own_logs {
            logs.insert((record.name.to_vec(), std::cmp::Reverse(record.update_index)), record.clone());
        }
        let options = WriteOptions::default().block_size(512);
        opened.push(open(&write(options, &own_refs, &own_logs).0).unwrap());
    }
    Stack { merged: Merged::new(opened).unwrap(), refs, logs }
}

#[test]
fn a_walk_gives_the_newest_record_of_each_name() {
    for seed in 0..40 {
        let Stack { merged, refs, logs } = stack(seed, 1 + seed as usize % 7, 400);
        let (mut cursor, mut all) = (merged.refs(), Vec::new());
        while let Some(record) = cursor.next_with_tombstones().unwrap() {
            all.push(OwnRef::of(record));
        }
        assert!(all.iter().eq(refs.values()), "seed {seed}");
        let (mut cursor, mut all) = (merged.refs(), Vec::new());
        while let Some(record) = cursor.next().unwrap() {
            all.push(OwnRef::of(record));
        }
        assert!(all.iter().eq(refs.values().filter(|record| record.value != OwnValue::Deletion)), "seed {seed}");
        let (mut cursor, mut all) = (merged.logs(), Vec::new());
        while let Some(record) = cursor.next_with_tombstones().unwrap() {
            all.push(OwnLog::of(record));
        }
        assert!(all.iter().eq(logs.values()), "seed {seed}");
        let (mut cursor, mut all) = (merged.logs(), Vec::new());
        while let Some(record) = cursor.next().unwrap() {
            all.push(OwnLog::of(record));
        }
        assert!(all.iter().eq(logs.values().filter(|record| record.entry.is_some())), "seed {seed}");
    }
}

#[test]
fn seeks_steps_and_look_ups_in_any_order_agree_with_a_sorted_map() {
    for seed in 0..40 {
        let Stack { merged, refs, .. } = stack(seed, 1 + seed as usize % 7, 300);
        let exists = |record: &&OwnRef| record.value != OwnValue::Deletion;
        let mut cursor = merged.refs();
        let mut state = seed + 1000;
        // The cursor stands before the first ref whose name is `from` or sorts after it.
        let mut from = Vec::new();
        let mut last = 0;
        for turn in 0..1500 {
            // Mostly forward, as in a batch, but sometimes anywhere.
            last = if random(&mut state) % 8 == 0 {
                random(&mut state) % 310
            } else {
                (last + random(&mut state) % 4) % 310
            };
            let mut wanted = name(last).into_bytes();
            if random(&mut state) % 4 == 0 {
                wanted.push(b'/');
            }
            match random(&mut state) % 4 {
                0 => {
                    let found = cursor.lookup(&wanted).unwrap().map(OwnRef::of);
                    assert_eq!(found.as_ref(), refs.get(&wanted).filter(exists), "seed {seed} turn {turn}");
                    continue;
                }
                1 => {
                    cursor.seek(&wanted).unwrap();
                    from = wanted;
                    if random(&mut state) % 4 == 0 {
                        continue;
                    }
                }
                2 => {
                    // `for_each` visits what a loop of `next` returns, and can be broken off at any record.
                    let mut left = random(&mut state) % 40;
                    let mut expected = refs.range(from.clone()..).map(|(_, record)| record).filter(exists);
                    let flow = cursor.for_each(|entry| {
                        let found = OwnRef::of(entry.record());
                        let direct = match found.value {
                            OwnValue::Direct(id) => Some(id),
                            _ => None,
                        };
                        assert_eq!((entry.name(), entry.direct()), (found.name.as_bstr(), direct));
                        assert_eq!(Some(&found), expected.next(), "seed {seed} turn {turn}");
                        from = [&found.name[..], &[0]].concat();
                        left = left.saturating_sub(1);
                        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    });
                    if flow.unwrap().is_continue() {
                        assert_eq!(expected.next(), None, "seed {seed} turn {turn}");
                        from = vec![0xff];
                    }
                    continue;
                }
                _ => {}
            }
            let tombstones = random(&mut state) % 5 == 0;
            let expected =
                refs.range(from.clone()..).map(|(_, record)| record).find(|record| tombstones || exists(record));
            let found = if tombstones { cursor.next_with_tombstones() } else { cursor.next() }.unwrap().map(OwnRef::of);
            assert_eq!(found.as_ref(), expected, "seed {seed} turn {turn} from {:?}", String::from_utf8_lossy(&from));
            match found {
                Some(found) => {
                    from = found.name.to_vec();
                    from.push(0);
                }
                None => from = vec![0xff],
            }
        }
    }
}

#[test]
fn log_seeks_agree_with_a_sorted_map() {
    for seed in 0..30 {
        let Stack { merged, logs, .. } = stack(seed, 1 + seed as usize % 7, 200);
        let mut cursor = merged.logs();
        let mut state = seed;
        for _ in 0..1000 {
            let (wanted, update_index) = (name(random(&mut state) % 210), random(&mut state) % 9);
            cursor.seek_log(wanted.as_bytes(), update_index).unwrap();
            let key = (wanted.clone().into_bytes(), std::cmp::Reverse(update_index));
            let expected = logs.range(key..).map(|(_, record)| record).find(|record| record.entry.is_some());
            assert_eq!(
                cursor.next().unwrap().map(OwnLog::of).as_ref(),
                expected,
                "seed {seed} {wanted} {update_index}"
            );
        }
    }
}

#[test]
fn one_ref_is_got_and_a_tombstone_hides_it() {
    for seed in 0..20 {
        let Stack { merged, refs, .. } = stack(seed, 1 + seed as usize % 7, 100);
        for number in 0..110 {
            let wanted = name(number);
            let got = merged.get(wanted.as_bytes(), OwnRef::of).unwrap();
            let expected = refs.get(wanted.as_bytes()).filter(|record| record.value != OwnValue::Deletion);
            assert_eq!(got.as_ref(), expected);
        }
    }
}

#[test]
fn refs_by_object_are_checked_against_newer_tables() {
    for seed in 0..20 {
        let Stack { merged, refs, .. } = stack(seed, 1 + seed as usize % 7, 300);
        for number in 0..66 {
            let wanted = id(HashKind::Sha1, number);
            let found: Vec<_> =
                merged.refs_pointing_at(&wanted).unwrap().into_iter().map(|found| found.name.to_vec()).collect();
            let expected: Vec<_> = refs
                .iter()
                .filter(|(_, record)| record.value == OwnValue::Direct(wanted))
                .map(|(name, _)| name.clone())
                .collect();
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}

#[test]
fn a_stack_of_no_table_has_no_ref() {
    let merged = Merged::new(Vec::new()).unwrap();
    assert_eq!((merged.hash(), merged.max_update_index()), (None, 0));
    let mut cursor = merged.refs();
    assert_eq!(cursor.next().unwrap(), None);
    cursor.seek(b"refs/").unwrap();
    assert_eq!(cursor.next().unwrap(), None);
    assert_eq!(cursor.lookup(b"HEAD").unwrap(), None);
    assert_eq!(merged.logs().next().unwrap(), None);
}

#[test]
fn tables_of_different_hashes_do_not_stack() {
    let sha1 = open(&write(WriteOptions::default(), &[], &[]).0).unwrap();
    let options = WriteOptions::new(HashKind::Sha256);
    let sha256 = open(&write(options, &[], &[]).0).unwrap();
    assert!(matches!(Merged::new(vec![sha1, sha256]), Err(Error::Hash { .. })));
}

#[test]
fn an_error_in_one_table_ends_a_walk_and_is_met_again_by_a_seek() {
    let all = refs(HashKind::Sha1, 300);
    let (mut bytes, _) = write(WriteOptions::default(), &all, &[]);
    // Damages the type of the second block.
    bytes[4096] = b'x';
    let damaged = open(&bytes).unwrap();
    let sound = open(&write(WriteOptions::default(), &all[250..], &[]).0).unwrap();
    let both = [damaged, sound];
    let mut cursor = Merged::new(both.to_vec()).unwrap().refs();
    let error = std::iter::from_fn(|| cursor.next().map(|record| record.map(OwnRef::of)).transpose())
        .find_map(Result::err)
        .expect("the damage is met");
    assert!(matches!(&error, Error::Corrupt(corruption) if corruption.offset == 4096), "{error}");
    assert_eq!(cursor.next().unwrap(), None);
    // `for_each` meets the damage as well, after it has visited the same names.
    for tables in [&[0, 1][..], &[0]] {
        let merged = Merged::new(tables.iter().map(|at| both[*at].clone()).collect::<Vec<_>>()).unwrap();
        let (mut one, mut loops, mut names) = (merged.refs(), merged.refs(), Vec::new());
        let walked = loops.for_each(|entry| {
            names.push(entry.name().to_owned());
            ControlFlow::Continue(())
        });
        assert_eq!(walked.unwrap_err().to_string(), error.to_string());
        for name in names {
            assert_eq!(one.next().unwrap().map(|record| record.name.to_owned()), Some(name));
        }
        assert!(one.next().is_err());
        assert_eq!(loops.for_each(|_| ControlFlow::Break(())).unwrap(), ControlFlow::Continue(()));
    }
    assert!(cursor.seek(&all[299].name).is_err());
}

#[test]
fn that_nothing_lies_below_a_name_is_said_only_where_it_is_so() {
    let (mut said_none, mut said_some) = (0, 0);
    for seed in 0..60u64 {
        let mut state = seed;
        // Names of slashes and of a few characters that sort before or after the slash, so that many names lie below or
        // beside each other.
        let word = |state: &mut u64| -> String {
            let len = 1 + random(state) % 5;
            (0..len).map(|_| ['!', '-', '/', '0', 'a'][random(state) as usize % 5]).collect()
        };
        let mut tables = Vec::new();
        let mut there = BTreeMap::new();
        for _ in 0..1 + seed % 4 {
            let names: std::collections::BTreeSet<_> = (0..random(&mut state) % 60).map(|_| word(&mut state)).collect();
            let mut refs = Vec::new();
            for name in names {
                let value = match random(&mut state) % 3 {
                    0 => OwnValue::Deletion,
                    _ => OwnValue::Direct(id(HashKind::Sha1, random(&mut state))),
                };
                refs.push(OwnRef { name: name.into(), update_index: 1, value });
            }
            there.extend(refs.iter().map(|record| (record.name.to_vec(), record.clone())));
            let options = WriteOptions::default().block_size(256);
            tables.push(open(&write(options, &refs, &[]).0).unwrap());
        }
        let mut cursor = Merged::new(tables).unwrap().refs();
        let asked: std::collections::BTreeSet<_> = (0..80).map(|_| word(&mut state).into_bytes()).collect();
        for name in asked {
            let found = cursor.lookup(&name).unwrap().map(OwnRef::of);
            let expected = there.get(&name).filter(|record| record.value != OwnValue::Deletion);
            assert_eq!(found.as_ref(), expected, "seed {seed}");
            let may_have = cursor.may_have_below(&name).unwrap();
            let below = [&name, &b"/"[..]].concat();
            assert!(may_have || !there.keys().any(|other| other.starts_with(&below)), "seed {seed} {name:?}");
            *if may_have { &mut said_some } else { &mut said_none } += 1;
        }
    }
    assert!(said_none > 500 && said_some > 500, "{said_none} and {said_some}");
}

#[test]
fn a_batch_over_a_hundred_thousand_tombstones_is_one_walk() {
    // Every ref was created and deleted. Each name, and what lies below it, is then looked up, as when it is created
    // again. If each look-up walked to the next ref that exists, this would take hours.
    let dead = |value: fn(u64) -> OwnValue| -> Vec<OwnRef> {
        (0..100_000u64)
            .map(|at| OwnRef { name: format!("refs/heads/{at:06}").into(), update_index: 1, value: value(at) })
            .collect()
    };
    let tables = vec![
        open(&write(WriteOptions::default(), &dead(|at| OwnValue::Direct(id(HashKind::Sha1, at))), &[]).0).unwrap(),
        open(&write(WriteOptions::default(), &dead(|_| OwnValue::Deletion), &[]).0).unwrap(),
    ];
    let merged = Merged::new(Arc::from(tables)).unwrap();
    let started = std::time::Instant::now();
    let mut cursor = merged.refs();
    for at in 0..100_000u64 {
        let wanted = format!("refs/heads/{at:06}/");
        cursor.seek(wanted.as_bytes()).unwrap();
        assert_eq!(cursor.next().unwrap(), None);
        assert_eq!(cursor.lookup(&wanted.as_bytes()[..17]).unwrap(), None);
    }
    assert!(started.elapsed().as_secs() < 300, "it took {:?}", started.elapsed());
}
