//! JGit reads this crate's tables, by walking and by look-up, and this crate reads those of JGit.

#![allow(clippy::unwrap_used, reason = "a test may fail in its helpers too")]

mod common;

use common::*;
use refdb_testkit::{JGit, RefFormat, Repo, rounds};
use refdb_vfs::Fs;
use reftable::{HashKind, LogValue, Merged, Source, Table, WriteOptions};

fn replace(repo: &Repo, options: WriteOptions, refs: &[OwnRef], logs: &[OwnLog]) {
    let dir = repo.git_dir().join("reftable");
    let name = format!("0x000000000001-0x000000000007-{:08x}.ref", options.block_size ^ refs.len() as u32);
    std::fs::write(dir.join(&name), write(options, refs, logs).0).unwrap();
    std::fs::write(dir.join("tables.list"), format!("{name}\n")).unwrap();
}

fn stack(repo: &Repo) -> Merged {
    let dir = repo.git_dir().join("reftable");
    let list = std::fs::read_to_string(dir.join("tables.list")).unwrap();
    let open = |name: &str| {
        let bytes = Fs::real().read(&dir.join(name)).unwrap();
        Table::open(Source::Memory(bytes.into()), name).unwrap()
    };
    Merged::new(list.lines().map(open).collect::<Vec<_>>()).unwrap()
}

#[test]
fn jgit_lists_and_looks_up_what_is_written_here() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let commits = repo.commits(400);
    let rare = commits[0];
    // Up to so many refs that the index has two levels, where git would leave several root blocks and JGit would miss
    // refs.
    for (count, block_size, aligned) in [
        (3, 4096, true),
        (400, 4096, true),
        (400, 4096, false),
        (3000, 256, true),
        (3000, 256, false),
        (100_000, 4096, true),
    ] {
        let refs: Vec<OwnRef> = (0..count)
            .map(|at: usize| OwnRef {
                name: format!("refs/heads/load/{at:07}").into(),
                update_index: 1,
                value: OwnValue::Direct(if at % 997 == 0 { rare } else { commits[1 + at % 399] }),
            })
            .collect();
        replace(&repo, WriteOptions::default().block_size(block_size).aligned(aligned), &refs, &[]);
        let mut jgit = JGit::open(&repo);
        let listed = jgit.list("refs/heads/").unwrap();
        assert!(listed.iter().map(|listed| &listed.name).eq(refs.iter().map(|record| &record.name)), "{count}");
        for record in refs.iter().step_by(1 + count / 500).chain(refs.last()) {
            let found = jgit.get(&record.name.to_string()).unwrap();
            assert_eq!(found.map(|found| OwnValue::Direct(found.oid)), Some(record.value.clone()), "{}", record.name);
        }
        assert!(jgit.get("refs/heads/load/none").unwrap().is_none());
        let pointing: Vec<_> = refs
            .iter()
            .filter(|record| record.value == OwnValue::Direct(rare))
            .map(|record| record.name.clone())
            .collect();
        assert_eq!(jgit.points_at(rare).unwrap(), pointing, "{count} refs, blocks of {block_size}");
    }
}

#[test]
fn jgit_reads_reflogs_written_here_with_refs_and_without() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let commit = repo.commit();
    for (with_ref, count) in [(true, 1), (true, 300), (false, 10), (false, 3000)] {
        let name = "refs/heads/topic/0000000";
        let main = OwnRef { name: name.into(), update_index: 1, value: OwnValue::Direct(commit) };
        let mut logs: Vec<OwnLog> =
            common::logs(HashKind::Sha1, count).into_iter().filter(|log| log.entry.is_some()).collect();
        for entry in logs.iter_mut().filter_map(|log| log.entry.as_mut()) {
            // JGit returns a message as it is stored, and a newline would end the line that the driver prints.
            entry.6.retain(|byte| *byte != b'\n');
        }
        let refs = if with_ref { std::slice::from_ref(&main) } else { &[] };
        replace(&repo, WriteOptions::default().block_size(4096 + count as u32), refs, &logs);
        let by_jgit = JGit::open(&repo).reflog(name).unwrap();
        assert_eq!(by_jgit.len(), logs.iter().filter(|log| log.name == name).count(), "{with_ref} {count}");
    }
}

#[test]
fn what_jgit_writes_is_read() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    repo.config("core.logAllRefUpdates", "true");
    let commits = repo.commits(50);
    let null = reftable::ObjectId::null(HashKind::Sha1);
    let mut jgit = JGit::open(&repo);
    let names: Vec<String> = (0..2000).map(|at| format!("refs/heads/load/{at:05}")).collect();
    let edits: Vec<_> = names.iter().enumerate().map(|(at, name)| (name.as_str(), null, commits[at % 50])).collect();
    jgit.batch(true, &edits).unwrap();
    for name in names.iter().step_by(100) {
        jgit.delete(name).unwrap();
    }
    jgit.update("refs/heads/load/00001", commits[7], None, "moved").unwrap();
    let compare = |jgit: &mut JGit| {
        let merged = stack(&repo);
        let (mut cursor, mut at) = (merged.refs(), 0);
        let listed = jgit.list("refs/heads/").unwrap();
        cursor.seek(b"refs/heads/").unwrap();
        while let Some(record) = cursor.next().unwrap() {
            assert_eq!(record.name, listed[at].name);
            assert_eq!(OwnRef::of(record).value, OwnValue::Direct(listed[at].oid));
            at += 1;
        }
        assert_eq!(at, listed.len());
        for table in merged.tables() {
            let bytes = std::fs::read(repo.git_dir().join("reftable").join(table.name().to_string())).unwrap();
            assert_eq!(reftable::check(Source::Memory(bytes.into()), table.name()).unwrap(), []);
        }
        let mut logs = merged.logs();
        logs.seek(b"refs/heads/load/00001").unwrap();
        let newest = logs.next().unwrap().unwrap();
        let LogValue::Update { new, message, .. } = newest.value else { panic!("an entry") };
        assert_eq!((new, message.to_string().trim_end()), (commits[7], "moved"));
    };
    compare(&mut jgit);
    jgit.compact().unwrap();
    assert_eq!(stack(&repo).tables().len(), 1);
    compare(&mut jgit);
}

#[test]
fn jgit_and_git_list_names_of_every_length_around_the_limit_of_an_index() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let commit = repo.commit();
    let sizes = [(4096, 200), (256, 60), (512, 60), (65_536, 12)];
    for (block_size, count) in sizes.into_iter().take(rounds(1, 4)) {
        let options = WriteOptions::default().block_size(block_size);
        let max = options.name_max();
        // Names of the two greatest lengths do not fit into an index, so that their tables have none.
        for (len, shared) in [(max - 1, 0), (max, 0), (max, max / 2), (max + 20, 0), (max * 3 / 2, 0)] {
            let refs: Vec<OwnRef> = (0..count)
                .map(|at: usize| {
                    let start = format!("refs/heads/{}{at:03}", "s".repeat(shared.min(max - 40)));
                    let name = format!("{start}{}", "n".repeat(len - start.len()));
                    OwnRef { name: name.into(), update_index: 1, value: OwnValue::Direct(commit) }
                })
                .collect();
            replace(&repo, options, &refs, &[]);
            let what = format!("{count} names of {len} bytes in blocks of {block_size}");
            let mut jgit = JGit::open(&repo);
            let listed = jgit.list("refs/heads/").unwrap();
            assert!(listed.iter().map(|listed| &listed.name).eq(refs.iter().map(|record| &record.name)), "{what}");
            for record in refs.iter().step_by(7) {
                assert!(jgit.get(&record.name.to_string()).unwrap().is_some(), "{what}");
            }
            let by_git = repo.git(["for-each-ref", "--format=%(refname)"]);
            assert!(by_git.lines().eq(refs.iter().map(|record| record.name.to_string())), "{what}");
        }
    }
}
