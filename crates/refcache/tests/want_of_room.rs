//! Behaviour on a full disk. This test has a process of its own, because the resource limit that simulates the full
//! disk applies to the whole process.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{set, unsynced};
use refdb::Precondition;
use refdb_refcache::{Batch, TrustSettings, View, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

fn write(view: &View, at: usize, id: ObjectId) -> refdb_refcache::Result<()> {
    let names = ["1", "meta"].map(|last| format!("refs/changes/{at}/{last}"));
    let mut batch = Batch::atomic(names.map(|name| set(&name, id, Precondition::MustNotExist)).into());
    batch.options.atomic_visibility = true;
    view.commit(&batch).map(drop)
}

#[test]
fn a_batch_that_finds_no_room_has_the_few_loose_refs_folded() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let lines: String = (0..20_000).map(|at| format!("{id} refs/old/{at:06}\n")).collect();
    fs::write(repo.git_dir().join("packed-refs"), format!("# pack-refs with: peeled fully-peeled sorted \n{lines}"))
        .unwrap();
    let config = vec!["refdb.smallBatches=loose".into(), "refdb.looseRefs=1000".into()];
    let settings = unsynced(TrustSettings::default()).config(config);
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(repo.git_dir(), &settings).unwrap();
    (0..5).for_each(|at| write(&view, at, id).unwrap());
    // A write beyond the limit must fail, but not end the process.
    refdb_vfs::interrupt::catch_signals().unwrap();
    let limit = getrlimit(Resource::Fsize);
    let until = Instant::now() + Duration::from_secs(60);
    while views.holdings().background_packs == 0 {
        assert!(Instant::now() < until, "{:?}", views.holdings());
        setrlimit(Resource::Fsize, Rlimit { current: Some(1), ..limit }).unwrap();
        assert!(write(&view, 9, id).is_err());
        setrlimit(Resource::Fsize, limit).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!repo.git_dir().join("refs/changes/4").exists());
    write(&view, 9, id).unwrap();
}
