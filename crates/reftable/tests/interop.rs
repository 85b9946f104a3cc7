//! Git reads what this crate writes, and the other way round.

#![allow(clippy::unwrap_used, reason = "a test may fail in its helpers too")]

mod common;

use bstr::{BString, ByteSlice};
use common::*;
use refdb_testkit::{RefFormat, Repo, rounds};
use refdb_vfs::{Fs, Mapping};
use reftable::{HashKind, LogValue, Merged, ObjectId, Source, Table, WriteOptions};
use std::{collections::BTreeMap, sync::Arc};

/// Opens the stack that git has in a repository, with mapped tables.
fn stack(repo: &Repo) -> Merged {
    let dir = repo.git_dir().join("reftable");
    let tables: Vec<Arc<Table>> = std::fs::read_to_string(dir.join("tables.list"))
        .unwrap()
        .lines()
        .map(|name| {
            let file = Fs::real().open(&dir.join(name)).unwrap();
            Table::open(Source::Mapped(Arc::new(Mapping::new(&file).unwrap())), name).unwrap()
        })
        .collect();
    Merged::new(tables).unwrap()
}

/// Replaces everything that a repository has by these records.
fn replace(repo: &Repo, options: WriteOptions, refs: &[OwnRef], logs: &[OwnLog]) {
    let dir = repo.git_dir().join("reftable");
    let name = "0x000000000001-0x000000000007-0123abcd.ref";
    std::fs::write(dir.join(name), write(options, refs, logs).0).unwrap();
    std::fs::write(dir.join("tables.list"), format!("{name}\n")).unwrap();
}

/// Returns the refs as git lists them: name, object id or symbolic target, and the object to which a tag leads. Git
/// leaves out symbolic refs that lead nowhere, with a warning.
fn listed_by_git(repo: &Repo) -> Vec<(BString, String, String)> {
    let format = "--format=%(refname) %(if)%(symref)%(then)%(symref)%(else)%(objectname)%(end) %(*objectname)";
    repo.git(["for-each-ref", "--include-root-refs", format])
        .lines()
        .map(|line| {
            let mut fields = line.splitn(3, ' ').map(str::to_owned);
            let mut field = || fields.next().unwrap_or_default();
            (field().into(), field(), field())
        })
        .collect()
}

/// Returns the refs that this crate reads, in the form of [`listed_by_git`].
fn listed_by_us(merged: &Merged) -> Vec<(BString, String, String)> {
    let (mut cursor, mut all) = (merged.refs(), Vec::new());
    while let Some(record) = cursor.next().unwrap() {
        let (value, peeled) = match OwnRef::of(record).value {
            OwnValue::Direct(id) => (id.to_string(), String::new()),
            OwnValue::Peeled(target, peeled) => (target.to_string(), peeled.to_string()),
            OwnValue::Symbolic(target) => (target.to_string(), String::new()),
            OwnValue::Deletion => unreachable!("tombstones are hidden"),
        };
        all.push((record.name.to_owned(), value, peeled));
    }
    all
}

/// Reads the whole stack and looks up every name, in several ways, and compares the results with git's.
fn assert_read_as_git_does(repo: &Repo) {
    let merged = stack(repo);
    for table in merged.tables() {
        let bytes = std::fs::read(repo.git_dir().join("reftable").join(table.name().to_string())).unwrap();
        assert_eq!(reftable::check(Source::Memory(bytes.into()), table.name()).unwrap(), []);
    }
    let listed = listed_by_us(&merged);
    assert_eq!(listed.len(), listed_by_git(repo).len());
    assert!(listed == listed_by_git(repo));
    let mut batch = merged.refs();
    // The slow look-up starts anew each time, so it is tried with only some of very many names.
    let stride = 1 + listed.len() / 20_000;
    for (at, (name, value, peeled)) in listed.iter().enumerate() {
        let check = |record: reftable::RefRecord<'_>| match OwnRef::of(record).value {
            OwnValue::Direct(id) => id.to_string() == *value,
            OwnValue::Peeled(target, to) => target.to_string() == *value && to.to_string() == *peeled,
            OwnValue::Symbolic(target) => target == value.as_bytes().as_bstr(),
            OwnValue::Deletion => false,
        };
        if at % stride == 0 {
            assert_eq!(merged.get(name, check).unwrap(), Some(true), "{name}");
        }
        assert_eq!(batch.lookup(name).unwrap().map(check), Some(true), "{name}");
        let mut missing = name.clone();
        missing.push(b'0');
        if listed.binary_search_by(|(name, ..)| name.cmp(&missing)).is_err() {
            assert_eq!(batch.lookup(&missing).unwrap(), None, "{missing}");
        }
    }
    // Refs are found through the object index where git has written one.
    let mut by_object: BTreeMap<&str, Vec<&BString>> = BTreeMap::new();
    for (name, value, peeled) in &listed {
        for id in [value, peeled] {
            by_object.entry(id).or_default().push(name);
        }
    }
    for (hex, names) in by_object.iter().filter(|(hex, _)| ObjectId::from_hex(repo.hash(), hex.as_bytes()).is_ok()) {
        let id = ObjectId::from_hex(repo.hash(), hex.as_bytes()).unwrap();
        let found = merged.refs_pointing_at(&id).unwrap();
        assert!(found.iter().map(|found| &found.name).eq(names.iter().copied()), "{hex}");
    }
}

#[test]
fn what_git_writes_is_read_at_every_size() {
    let (middle, most) = (rounds(20_000, 45_000), rounds(45_000, 100_000));
    for (hash, counts) in [(HashKind::Sha1, &[1, 10, 200, middle, most][..]), (HashKind::Sha256, &[1, 10, middle])] {
        for &count in counts {
            let repo = Repo::bare(RefFormat::Reftable, hash);
            let commits = repo.commits(if count > 1000 { 300 } else { 5 });
            repo.fill(count, &commits);
            repo.git(["pack-refs", "--all"]);
            repo.create_refs([("refs/heads/main", commits[0])]);
            assert_read_as_git_does(&repo);
        }
    }
}

#[test]
fn several_root_blocks_of_an_index_are_read_as_git_leaves_them() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let commits = repo.commits(1);
    repo.fill(80_000, &commits);
    repo.create_refs([("refs/heads/main", commits[0])]);
    repo.git(["pack-refs", "--all"]);
    let list = std::fs::read_to_string(repo.git_dir().join("reftable/tables.list")).unwrap();
    let bytes = std::fs::read(repo.git_dir().join("reftable").join(list.trim())).unwrap();
    let footer = bytes.len() - 68;
    let index = u64::from_be_bytes(bytes[footer + 24..footer + 32].try_into().unwrap()) as usize;
    assert_eq!((bytes[index], bytes[index + 4096]), (b'i', b'i'), "git left one root block: the test proves nothing");
    assert_read_as_git_does(&repo);
}

#[test]
fn other_block_sizes_of_git_are_read() {
    for (key, value) in [
        ("reftable.blockSize", "256"),
        ("reftable.blockSize", "1000"),
        ("reftable.blockSize", "65536"),
        ("reftable.restartInterval", "1"),
        ("reftable.restartInterval", "100"),
        ("reftable.indexObjects", "false"),
    ] {
        let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
        repo.config(key, value);
        let commits = repo.commits(50);
        repo.fill(5000, &commits);
        repo.create_refs([("refs/heads/main", commits[0])]);
        assert_read_as_git_does(&repo);
    }
}

#[test]
fn tags_symbolic_refs_and_deletions_of_git_are_read() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = Repo::bare(RefFormat::Reftable, hash);
        let commits = repo.commits(20);
        repo.config("reftable.geometricFactor", "0");
        let names = repo.fill(400, &commits);
        for (at, commit) in commits.iter().enumerate() {
            let tag = repo.tag_object(*commit, &format!("v{at}"));
            repo.create_refs([(format!("refs/tags/v{at}"), tag)]);
        }
        repo.git(["symbolic-ref", "refs/heads/alias", &names[3].to_string()]);
        repo.git(["symbolic-ref", "HEAD", &names[7].to_string()]);
        let deletions: String = names.iter().step_by(3).skip(3).map(|name| format!("delete {name}\n")).collect();
        repo.git_with_input(["update-ref", "--stdin"], deletions);
        assert!(stack(&repo).tables().len() > 1, "deletions are tombstones of a newer table");
        assert_read_as_git_does(&repo);
        repo.git(["pack-refs", "--all"]);
        assert_read_as_git_does(&repo);
    }
}

/// Returns a ref's log as git's test helper prints it, oldest entry first.
fn reflog_by_us(merged: &Merged, name: &str) -> Vec<BString> {
    let (mut cursor, mut lines) = (merged.logs(), Vec::new());
    cursor.seek(name.as_bytes()).unwrap();
    while let Some(record) = cursor.next().unwrap().filter(|record| record.name == name) {
        let LogValue::Update { old, new, name, email, time_seconds, tz_offset, message } = record.value else {
            unreachable!("deletions are hidden")
        };
        let message = message.trim_end_with(|c| c == '\n').as_bstr();
        let sign = if tz_offset < 0 { '-' } else { '+' };
        let zone = tz_offset.unsigned_abs();
        lines.push(format!("{old} {new} {name} <{email}> {time_seconds} {sign}{zone:04}\t{message}").into());
    }
    lines.reverse();
    lines
}

#[test]
fn reflogs_of_git_are_read() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = Repo::with_worktree(RefFormat::Reftable, hash);
        let commits = repo.commits(2000);
        // Each turn adds a table, and git compacts the tables now and then.
        for turn in 0..40 {
            let input: String =
                (0..50).map(|at| format!("update refs/heads/b{at} {}\n", commits[turn * 50 + at])).collect();
            let mut command = repo.command(refdb_testkit::Git::find().program());
            command.args(["update-ref", "--create-reflog", "-m", &format!("turn {turn}"), "--stdin"]);
            command.env("GIT_COMMITTER_DATE", format!("{} -0130", 1_700_000_000 + turn));
            command.stdin(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
            assert!(child.wait().unwrap().success());
        }
        let before = stack(&repo);
        for at in [0, 7, 49] {
            let name = format!("refs/heads/b{at}");
            assert_eq!(repo.reflog(&name).len(), 40);
            assert_eq!(reflog_by_us(&before, &name), repo.reflog(&name));
        }
        repo.git(["reflog", "delete", "refs/heads/b7@{5}"]);
        repo.git(["pack-refs", "--all"]);
        assert_eq!(reflog_by_us(&stack(&repo), "refs/heads/b7").len(), 39);
        assert_eq!(reflog_by_us(&stack(&repo), "refs/heads/b7"), repo.reflog("refs/heads/b7"));
    }
}

/// Returns refs that a repository can have: they have existing objects only, and no tombstones.
fn real_refs(repo: &Repo, count: usize) -> Vec<OwnRef> {
    let commits = repo.commits(200);
    let tags: Vec<ObjectId> = commits.iter().take(20).map(|commit| repo.tag_object(*commit, "v")).collect();
    let mut refs: Vec<OwnRef> = (0..count)
        .map(|at| {
            let value = match at % 50 {
                7 => OwnValue::Peeled(tags[at % 20], commits[at % 20]),
                11 => OwnValue::Symbolic("refs/heads/load/0000000".into()),
                _ => OwnValue::Direct(commits[at % 200]),
            };
            OwnRef { name: format!("refs/heads/load/{at:07}").into(), update_index: 1 + at as u64 % 7, value }
        })
        .collect();
    for tag in refs.iter_mut().filter(|record| matches!(record.value, OwnValue::Peeled(..))) {
        // Branches must be commits; tags may be tags.
        tag.name = tag.name.replacen("refs/heads/", "refs/tags/", 1).into();
    }
    refs.push(OwnRef {
        name: "HEAD".into(),
        update_index: 1,
        value: OwnValue::Symbolic("refs/heads/load/0000000".into()),
    });
    refs.sort_by(|a, b| a.name.cmp(&b.name));
    refs
}

#[test]
fn what_is_written_here_git_lists_and_looks_up_and_verifies() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = Repo::bare(RefFormat::Reftable, hash);
        let all = real_refs(&repo, 20_000);
        for (block_size, aligned) in [(4096, true), (4096, false), (256, true), (256, false), (65_536, true)] {
            for count in [2, 60, 400, all.len()] {
                let mut refs: Vec<OwnRef> = all[..count - 1].to_vec();
                if !refs.iter().any(|record| record.name == "refs/heads/load/0000000") {
                    refs.push(all[1].clone());
                }
                replace(&repo, WriteOptions::new(hash).block_size(block_size).aligned(aligned), &refs, &[]);
                let listed = listed_by_us(&stack(&repo));
                assert_eq!(listed.len(), refs.len());
                assert!(listed == listed_by_git(&repo), "{hash:?} {block_size} {aligned} {count}");
                repo.verify();
                // Git seeks each ref that is not symbolic.
                let script: String = listed
                    .iter()
                    .filter(|(_, value, _)| !value.starts_with("refs/"))
                    .map(|(name, value, _)| format!("verify {name} {value}\n"))
                    .collect();
                repo.git_with_input(["update-ref", "--no-deref", "--stdin"], script);
            }
        }
    }
}

#[test]
fn reflogs_written_here_git_reads_with_refs_and_without() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = Repo::bare(RefFormat::Reftable, hash);
        let head = OwnRef {
            name: "HEAD".into(),
            update_index: 1,
            value: OwnValue::Symbolic("refs/heads/topic/0000000".into()),
        };
        for (refs, count) in [(true, 1), (false, 1), (true, 10), (false, 10), (true, 3000), (false, 3000)] {
            for aligned in [true, false] {
                let logs: Vec<OwnLog> =
                    common::logs(hash, count).into_iter().filter(|log| log.entry.is_some()).collect();
                let refs = if refs { std::slice::from_ref(&head) } else { &[] };
                replace(&repo, WriteOptions::new(hash).aligned(aligned), refs, &logs);
                let merged = stack(&repo);
                for number in [0, 1, 500, 999] {
                    let name = format!("refs/heads/topic/{number:07}");
                    let expected = logs.iter().filter(|log| log.name == name).count();
                    let by_git = repo.reflog(&name);
                    assert_eq!(by_git.len(), expected, "{hash:?} {name} of {count}");
                    assert_eq!(reflog_by_us(&merged, &name), by_git);
                }
            }
        }
    }
}

#[test]
fn tables_are_the_same_bytes_as_gits_where_git_leaves_one_root_block() {
    for (hash, count) in [(HashKind::Sha1, 10), (HashKind::Sha1, 10_000), (HashKind::Sha256, 10_000)] {
        let repo = Repo::bare(RefFormat::Reftable, hash);
        let commits = repo.commits(30);
        repo.fill(count, &commits);
        repo.git(["pack-refs", "--all"]);
        let merged = stack(&repo);
        let [table] = merged.tables() else { panic!("one table after pack-refs") };
        let (mut cursor, mut written) = (merged.refs(), Vec::new());
        let options = WriteOptions::new(hash);
        let mut writer =
            reftable::TableWriter::new(options, table.min_update_index(), table.max_update_index(), &mut written)
                .unwrap();
        while let Some(record) = cursor.next().unwrap() {
            writer.add_ref(&record).unwrap();
        }
        writer.finish().unwrap();
        let path = repo.git_dir().join("reftable").join(table.name().to_string());
        assert!(written == std::fs::read(path).unwrap(), "{hash:?} {count}");
    }
}
