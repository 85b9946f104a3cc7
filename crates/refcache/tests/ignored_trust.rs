//! The warning about a trust setting that says `always` on a network file system.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::unsynced;
use refdb_refcache::{TrustSettings, View, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo, run_with_fault};
use refdb_types::HashKind;
use std::sync::Arc;

fn open(views: &Views, repo: &Repo, settings: &[(&str, &str)]) -> Arc<View> {
    let get = |key: &str| settings.iter().find(|(known, _)| *known == key).map(|(_, value)| (*value).to_owned());
    views.open(repo.git_dir(), &unsynced(TrustSettings::from_config(&get).unwrap())).unwrap()
}

#[test]
fn always_is_no_fault_on_a_local_file_system() {
    let (views, repo) = (Views::new(&ViewsSettings::default()), Repo::bare(RefFormat::Files, HashKind::Sha1));
    let view = open(&views, &repo, &[("core.trustStat", "always")]);
    assert_eq!((view.stats().ignored_trust, view.unreported(), view.take_ignored_trust()), (0, 0, None));
}

#[test]
fn always_on_a_network_file_system_is_reported_once_for_each_mount() {
    // With this fault no file system counts as local.
    run_with_fault("in_a_process_without_local_file_systems", "vfs-local");
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn in_a_process_without_local_file_systems() {
    let views = Views::new(&ViewsSettings::default());
    let [first, second, default] = [(); 3].map(|()| Repo::bare(RefFormat::Files, HashKind::Sha1));
    let view = open(&views, &first, &[("core.trustLooseRefStat", "always")]);
    assert_eq!((view.stats().ignored_trust, view.unreported()), (1, 1));
    let said = view.take_ignored_trust().unwrap();
    for part in ["core.trustStat", &first.git_dir().display().to_string(), "up to 60 s", "after_open"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!((view.unreported(), view.take_ignored_trust()), (0, None), "once");
    let view = open(&views, &second, &[("core.trustStat", "always")]);
    assert_eq!((view.stats().ignored_trust, view.unreported()), (1, 1));
    assert_eq!((view.take_ignored_trust(), view.unreported()), (None, 0), "this mount was reported");
    let view = open(&views, &default, &[("core.trustStat", "after_open")]);
    assert_eq!((view.stats().ignored_trust, view.unreported()), (0, 0));
}
