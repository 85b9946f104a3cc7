//! [`Store::refs`] reads refs as its iterator advances, not all of them at first.

use refdb::{BlockCache, HashKind, PageBudget, Reading, Store};
use refdb_testkit::{RefFormat, Repo};
use std::{fmt::Write, fs, sync::Arc};

const COUNT: usize = 300_000;

#[test]
fn the_first_of_very_many_refs_is_listed_without_reading_the_rest() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let repo = Repo::bare(format, HashKind::Sha1);
        let id = repo.commit();
        let names = (0..COUNT).map(|n| format!("refs/changes/{n:07}"));
        match format {
            RefFormat::Reftable => repo.create_refs(names.map(|name| (name, id))),
            RefFormat::Files => {
                let mut packed = String::from("# pack-refs with: peeled fully-peeled sorted \n");
                names.for_each(|name| writeln!(packed, "{id} {name}").unwrap());
                fs::write(repo.git_dir().join("packed-refs"), packed).unwrap();
            }
        }
        let (blocks, pages) = (BlockCache::new(1 << 30), Arc::<PageBudget>::default());
        let reading = Reading::Shared(Arc::clone(&blocks), Arc::clone(&pages));
        let store = Store::builder(repo.git_dir()).reading(reading).open().unwrap();
        let bytes_read = || blocks.held_bytes() + pages.used_bytes();

        let mut refs = store.refs("refs/").unwrap();
        assert_eq!(refs.next().unwrap().unwrap().name.to_string(), "refs/changes/0000000");
        let read_for_one = bytes_read();
        assert!((1..500_000).contains(&read_for_one), "{format:?}: {read_for_one} bytes");

        let mut last = 0;
        for found in refs {
            let number: usize = found.unwrap().name.to_string()["refs/changes/".len()..].parse().unwrap();
            assert_eq!(number, last + 1, "{format:?}: each ref once, in order, across portions");
            last = number;
        }
        assert_eq!(last, COUNT - 1);
        assert!(bytes_read() > 10 * read_for_one, "{format:?}: what is not read is not counted");
    }
}
