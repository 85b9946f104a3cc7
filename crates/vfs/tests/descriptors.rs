//! Whatever opens a file has others closed if the process has no descriptor left.
//!
//! The only test limits the descriptors of the whole process.

#![allow(clippy::unwrap_used, reason = "tests")]

use refdb_testkit::nfs_client::Network;
use refdb_vfs::{Descriptors, Fs};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::sync::{Arc, Mutex};

/// Previously, these operations failed on a network file system although idle files could have been closed.
#[test]
fn every_operation_has_idle_files_closed_for_want_of_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
    let idle = Arc::new(Mutex::new(Vec::new()));
    let descriptors = Arc::<Descriptors>::default();
    descriptors.ask_when_short({
        let idle = Arc::clone(&idle);
        move || idle.lock().unwrap().pop().is_some()
    });
    let fs = Fs::with_hook(Arc::new(Network)).counting(&descriptors).at(dir.path()).unwrap();
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = Some(64);
    setrlimit(Resource::Nofile, limits).unwrap();
    let use_up = || idle.lock().unwrap().extend(std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()));
    let file = fs.create_new(&one, 0o666).unwrap();
    use_up();
    assert!(fs.identify(&one).unwrap().is_some());
    use_up();
    fs.hard_link(&one, &other).unwrap();
    use_up();
    fs.rename(&other, &dir.path().join("renamed")).unwrap();
    use_up();
    let _copy = file.duplicate().unwrap();
}
