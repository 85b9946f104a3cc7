//! Names of lengths around the limits of an index, in blocks of the common sizes, and log entries of lengths around the
//! limit of what git reads.

use crate::{
    common::{OwnLog, OwnRef, OwnValue, write},
    others::{Content, LOCK_TIMEOUT, Others, replace},
};
use bstr::BString;
use refdb_testkit::{Rng, every};
use refdb_vfs::Fs;
use reftable::{
    Error, HashKind, RefRecord, RefValue, WriteOptions,
    stack::{Stack, StackError, StackOptions},
};

const BLOCK_SIZES: [u32; 8] = [256, 512, 1024, 2048, 4096, 8192, 16_384, 65_536];
const COUNTS: [usize; 9] = [1, 2, 3, 4, 5, 8, 54, 100, 200];
const SHARED: [usize; 3] = [0, 50, 100];

/// One combination of parameters. The names are filled up with letters to the length `len`; `shared` percent of these
/// letters stand before the number of the name, and thus belong to the prefix that all names share.
#[derive(Clone, Copy, Debug)]
struct Case {
    write: WriteOptions,
    len: usize,
    shared: usize,
    count: usize,
    has_logs: bool,
}

impl Case {
    fn names(&self) -> impl Iterator<Item = BString> {
        let room = self.len - "refs/heads/000".len();
        let shared = "s".repeat(room * self.shared / 100);
        let rest = "n".repeat(room - shared.len());
        (0..self.count).map(move |at| format!("refs/heads/{shared}{at:03}{rest}").into())
    }

    fn content(&self, others: &Others) -> Content {
        let mut content = Content::default();
        for (at, name) in self.names().enumerate() {
            let id = others.commits[at % others.commits.len()];
            content.refs.insert(name.clone(), OwnValue::Direct(id));
            if self.has_logs {
                let entry = (id, others.commits[0], "A".into(), "a@b".into(), 1 << 30, 100, "made\n".into());
                let log = OwnLog { name: name.clone(), update_index: 1, entry: Some(entry) };
                content.logs.insert((name, 1), log);
            }
        }
        content
    }
}

/// A factor of the strides of some samples. Strides have no common factor with the numbers of choices, so that a sample
/// contains some of each choice.
const STRIDE: usize = 23;

/// Returns every combination, or a sample of them, with the lengths that `lens` gives for a block size.
fn cases(hash: HashKind, stride: usize, lens: fn(&WriteOptions) -> Vec<usize>) -> Vec<Case> {
    let mut all = Vec::new();
    for block_size in BLOCK_SIZES {
        let write = WriteOptions::new(hash).block_size(block_size);
        for len in lens(&write) {
            for count in COUNTS {
                for shared in SHARED {
                    for has_logs in [false, true] {
                        all.push(Case { write, len, shared, count, has_logs });
                    }
                }
            }
        }
    }
    all.into_iter().step_by(every(stride)).collect()
}

#[test]
fn names_up_to_the_limit_git_and_jgit_list_and_rewrite_without_a_loss() {
    for (hash, stride) in [(HashKind::Sha1, 67), (HashKind::Sha256, STRIDE * 5)] {
        let mut others = Others::new(hash);
        for case in cases(hash, stride, |write| [2, 1, 0].map(|less| write.name_max() - less).to_vec()) {
            let options = others.begin(case.write);
            let content = case.content(&others);
            add(&others, &options, &content).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            others.list_and_rewrite(&options, &content, &format!("{case:?}"));
        }
    }
}

/// Adds a table with all these records to the stack.
fn add(others: &Others, options: &StackOptions, content: &Content) -> Result<(), StackError> {
    let stack = Stack::open(Fs::real(), &others.folder(), options.clone()).unwrap();
    let mut addition = stack.lock(LOCK_TIMEOUT).unwrap();
    addition.add_table::<StackError>(1..=1, 0, |writer| {
        for (name, value) in &content.refs {
            let OwnValue::Direct(id) = value else { panic!("{value:?}") };
            writer.add_ref(&RefRecord { name: name.as_ref(), update_index: 1, value: RefValue::Direct(*id) })?;
        }
        content.logs.values().try_for_each(|log| writer.add_log(&log.record()))
    })?;
    drop(addition.commit()?);
    Ok(())
}

/// Older versions and other programs have written longer names. Git is asked only to read them, because its writer
/// fills the disk.
#[test]
fn names_beyond_the_limit_of_an_index_git_and_jgit_list() {
    let mut others = Others::new(HashKind::Sha1);
    let lens = |write: &WriteOptions| {
        let (max, block) = (write.name_max(), write.block_size as usize);
        vec![max + 1, max + 8, max + 9, max + 10, block / 2, block / 2 + 40, block * 3 / 4, block - 130]
    };
    for (number, case) in cases(HashKind::Sha1, STRIDE * 7, lens).into_iter().enumerate() {
        let options = others.begin(case.write);
        let content = case.content(&others);
        let refs: Vec<OwnRef> = content
            .refs
            .iter()
            .map(|(name, value)| OwnRef { name: name.clone(), update_index: 1, value: value.clone() })
            .collect();
        let logs: Vec<OwnLog> = content.logs.values().cloned().collect();
        // Each table has a new name, because JGit keeps a table open as long as the list has its name.
        let table = format!("0x000000000001-0x000000000007-{number:08x}.ref");
        let list = format!("{table}\n").into_bytes();
        let bytes = write(case.write, &refs, &logs).0;
        replace(&others.folder(), &[(table.clone().into(), bytes), ("tables.list".into(), list)]);
        others.list(&options, &content, &format!("{case:?}"));
    }
}

#[test]
fn a_log_entry_that_deflate_cannot_shrink_is_written_only_where_git_can_read_and_rewrite_it() {
    let (mut refused, mut written) = (0, 0);
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let mut others = Others::new(hash);
        let mut rng = Rng::new(1);
        for (block_size, aligned) in [(256, true), (4096, true), (4096, false), (16_384, true), (16_384, false)] {
            let write = WriteOptions::new(hash).block_size(block_size).aligned(aligned);
            let read_max = if aligned { block_size } else { 4096 };
            // Tries lengths around the one at which the entry fills what git reads, with a ref before it or, in aligned
            // tables, without.
            let overhead = 2 * hash.len_bytes() + 60;
            for len in (read_max as usize - overhead - 70..read_max as usize - overhead + 40).step_by(every(9)) {
                let options = others.begin(write);
                let message: BString =
                    (0..len).map(|_| b'!' + rng.below(90) as u8).chain([b'\n']).collect::<Vec<_>>().into();
                let (name, id) = (BString::from("refs/heads/main"), others.commits[0]);
                let entry = (id, others.commits[1], "A".into(), "a@b".into(), 1 << 30, 0, message);
                let log = OwnLog { name: name.clone(), update_index: 1, entry: Some(entry) };
                let mut content = Content::default();
                content.logs.insert((name.clone(), 1), log);
                // JGit lists no refs of an unaligned table that begins with a log block which deflate does not shrink.
                if !aligned || rng.one_in(2) {
                    content.refs.insert(name, OwnValue::Direct(id));
                }
                match add(&others, &options, &content) {
                    Ok(()) => {
                        written += 1;
                        let what = format!("{write:?} {len}");
                        others.list_and_rewrite(&options, &content, &what);
                    }
                    Err(StackError::Table(Error::TooLarge { .. })) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    assert!(refused > 9 && written > 9, "lengths around the limit: {refused} refused, {written} written");
}
