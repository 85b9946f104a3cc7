//! Tests that a power loss at any moment of a push leaves no ref without its objects. The tests play the part of git's
//! programs, which sync nothing.

use super::quarantine::Quarantine;
use refdb::{Store, config::SharedRepository};
use refdb_testkit::{
    RefFormat, Repo,
    crash::{Crash, Disk, lose_power_everywhere},
};
use refdb_types::HashKind;
use refdb_vfs::Fs;
use std::path::Path;

/// A pack with its index, and a loose object.
const FILES: [&str; 3] = ["pack/pack-1.pack", "pack/pack-1.idx", "ab/cdef"];

fn write(fs: &Fs, path: &Path) -> refdb_vfs::Result<()> {
    match fs.create_dir(path.parent().unwrap(), 0o777) {
        Err(error) if !error.is_exists() => return Err(error),
        _ => {}
    }
    fs.create_new(path, 0o444)?.write_all(path.file_name().unwrap().as_encoded_bytes())
}

#[test]
fn after_a_loss_of_power_no_ref_is_without_its_objects() {
    for (format, disk) in [(RefFormat::Files, Disk::Unordered), (RefFormat::Reftable, Disk::Journaled)] {
        let server = Repo::bare(format, HashKind::Sha1);
        let id = server.commit();
        let workload = |fs: &Fs, dir: &Path| {
            let objects = dir.join("objects");
            let quarantine = Quarantine::make(fs, &objects)?;
            for file in FILES {
                write(fs, &quarantine.folder().join(file))?;
            }
            quarantine.release(true, SharedRepository::Umask)?;
            let store = Store::builder(dir).fs(fs.clone()).sync(true).open()?;
            let mut transaction = store.transaction();
            transaction.create("refs/heads/main", id);
            transaction.commit().map(drop)
        };
        lose_power_everywhere(server.git_dir(), disk, workload, |dir: &Path, crash: &Crash| {
            // A store that cannot be opened or read counts as one without the ref, because the tests of the engine
            // cover that case.
            let is_there = Store::open(dir).is_ok_and(|store| matches!(store.find("refs/heads/main"), Ok(Some(_))));
            assert!(is_there || !crash.claimed, "the ref that was promised is gone");
            for file in FILES {
                let content = std::fs::read(dir.join("objects").join(file)).unwrap_or_default();
                let is_whole = content == Path::new(file).file_name().unwrap().as_encoded_bytes();
                assert!(is_whole || !is_there, "the ref is there, {file} is not");
            }
        });
    }
}
