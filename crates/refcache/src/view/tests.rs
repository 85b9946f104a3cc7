use super::{Arc, Cell, Opened, View, ViewSettings};
use crate::{Views, ViewsSettings, group::Groups};
use bstr::ByteSlice;
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};

pub(crate) fn groups_of(view: &View) -> Arc<Groups> {
    Arc::clone(&opened_of(view).groups)
}

pub(crate) fn opened_of(view: &View) -> Arc<Opened> {
    view.opened().unwrap()
}

/// Previously, the successor could show a later state under the number of one that its predecessor had found.
#[test]
fn no_two_states_have_one_version_though_a_query_finds_a_change_while_the_repository_is_reopened() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let ids = repo.commits(3);
    let set = |id: &ObjectId| repo.git(["update-ref", "refs/heads/x", &id.to_string()]);
    set(&ids[0]);
    let view = Views::new(&ViewsSettings::default()).open(repo.git_dir(), &ViewSettings::default()).unwrap();
    let found = || view.get(b"refs/heads/x".as_bstr()).unwrap().and_then(|found| found.target.id());
    assert_eq!(found(), Some(ids[0]));
    let (old, between) = (opened_of(&view), Cell::new(0));
    let reopened = view.replace(Some(&old), |fresh| {
        fresh.follow(&old);
        set(&ids[1]);
        assert_eq!(found(), Some(ids[1]));
        between.set(view.version());
    });
    assert!(reopened.is_ok());
    set(&ids[2]);
    assert_eq!(found(), Some(ids[2]));
    assert!(view.version() > between.get(), "{} after {}", view.version(), between.get());
}
