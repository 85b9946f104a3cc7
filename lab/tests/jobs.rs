//! Runs each job of the scenario `jobs` at a tiny size with git, and its check, so that no job stops working
//! unnoticed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use std::{os::unix::fs::symlink, path::Path};

use refdb_lab::{
    counter::Counter,
    scenario::{Scenario, describe},
    stage::Stage,
};
use refdb_testkit::Git;

#[test]
fn git_does_every_job_and_leaves_as_many_refs_as_expected() {
    let build = tempfile::tempdir().unwrap();
    for name in ["git", "program"] {
        symlink(Git::find().program(), build.path().join(name)).unwrap();
    }
    let mut scenario = Scenario::find("jobs").unwrap();
    scenario.choose("refcount", vec!["300".to_owned()]).unwrap();
    scenario.choose("editcount", vec!["60".to_owned()]).unwrap();
    let combinations = scenario.combinations();
    assert!(combinations.len() > 50, "each job in both formats");
    for values in &combinations {
        let done = Stage::new(&scenario, values, build.path(), Path::new("/dev/shm"), Counter::Nothing)
            .and_then(|stage| stage.sample());
        assert!(done.is_ok(), "{}: {:#}", describe(values), done.unwrap_err());
    }
}
