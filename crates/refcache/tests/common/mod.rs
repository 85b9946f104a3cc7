//! Helpers that the tests of views share.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod projects;

use bstr::{BStr, BString};
use refdb::{Change, Edit, Precondition, RefName, Target};
use refdb_refcache::{Batch, ListOptions, TrustSettings, View, ViewSettings, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::{HashKind, ObjectId};
use std::{path::Path, sync::Arc, time::Duration};

/// Runs a test on an empty bare repository of each format.
pub(crate) fn each(test: impl Fn(&Repo)) {
    for format in RefFormat::ALL {
        test(&Repo::bare(format, HashKind::Sha1));
    }
}

pub(crate) fn open_at(git_dir: &Path) -> Arc<View> {
    Views::new(&ViewsSettings::default()).open(git_dir, &unsynced(TrustSettings::default())).expect("the view answers")
}

pub(crate) fn open(repo: &Repo) -> Arc<View> {
    open_at(repo.git_dir())
}

/// Opens a view that would believe for an hour what it has looked at once.
pub(crate) fn believing(repo: &Repo) -> Arc<View> {
    let trust = TrustSettings::new().believe(Some(Duration::from_secs(3600)));
    Views::new(&ViewsSettings::default()).open(repo.git_dir(), &unsynced(trust)).expect("the view answers")
}

/// Returns settings without syncs, because tests need not survive a loss of power.
pub(crate) fn unsynced(trust: TrustSettings) -> ViewSettings {
    ViewSettings::new().trust(trust).sync(Some(false))
}

pub(crate) fn direct(view: &View, name: &str) -> Option<ObjectId> {
    view.get(BStr::new(name)).expect("the view answers").and_then(|found| found.target.id())
}

pub(crate) fn listed(view: &View, options: &ListOptions) -> Vec<(BString, Target)> {
    let mut listing = view.list(options).expect("the view answers");
    let mut refs = Vec::new();
    while let Some(row) = listing.next().expect("the view answers") {
        let target = match row.target {
            refdb::TargetView::Direct(id) => Target::Direct(id),
            refdb::TargetView::Symbolic(name) => {
                Target::Symbolic(RefName::new_safe(name.to_vec()).expect("the view answers"))
            }
        };
        refs.push((row.name.to_owned(), target));
    }
    refs
}

pub(crate) fn names(view: &View, options: &ListOptions) -> Vec<String> {
    listed(view, options).into_iter().map(|(name, _)| name.to_string()).collect()
}

pub(crate) fn prefixed(prefixes: &[&str]) -> ListOptions {
    ListOptions::new().prefixes(prefixes.iter().map(|prefix| BString::from(*prefix)).collect())
}

pub(crate) fn edit(name: &str, change: Change, expected: Precondition) -> Edit {
    Edit::new(RefName::new(name).expect("the view answers"), change, expected)
}

pub(crate) fn set(name: &str, id: ObjectId, expected: Precondition) -> Edit {
    edit(name, Change::Set(Target::Direct(id)), expected)
}

pub(crate) fn delete(name: &str) -> Edit {
    edit(name, Change::Delete, Precondition::Any)
}

pub(crate) fn commit(view: &View, edits: Vec<Edit>) {
    view.commit(&Batch::atomic(edits)).expect("the view answers");
}
