//! What the tests of the files backend share.
#![allow(dead_code, reason = "each test file uses its part")]

use bstr::{BStr, BString, ByteSlice};
use refdb::{
    Cursor, HashKind, ObjectId, Probe, Result, Snapshot, Target, TargetView,
    backend::{Answers, Peeled},
    files::{FilesBackend, FilesOptions, PackedAccess, Peeler, Peeling},
};
use refdb_testkit::Repo;
use refdb_vfs::Fs;
use std::{collections::HashMap, path::Path, sync::Arc};

/// Knows the tags it was told of; everything else is no tag.
#[derive(Default)]
pub(crate) struct KnownTags(pub(crate) HashMap<ObjectId, ObjectId>);

impl Peeler for KnownTags {
    fn peel(&self, id: &ObjectId) -> Result<Peeling> {
        Ok(self.0.get(id).map_or(Peeling::NotTag, |to| Peeling::To(*to)))
    }
}

pub(crate) fn options(fs: Fs, git_dir: &Path, hash: HashKind) -> FilesOptions {
    FilesOptions {
        fs,
        git_dir: git_dir.to_owned(),
        common_dir: git_dir.to_owned(),
        hash,
        access: PackedAccess::Mapped,
        shared_mode: 0,
        ref_patience: None,
        packed_patience: None,
        sync: false,
        peeler: Arc::new(KnownTags::default()),
    }
}

pub(crate) fn backend(repo: &Repo) -> FilesBackend {
    FilesBackend::new(options(Fs::real(), repo.git_dir(), repo.hash()))
}

pub(crate) fn show(target: TargetView<'_>) -> String {
    match target {
        TargetView::Direct(id) => id.to_string(),
        TargetView::Symbolic(name) => format!("-> {name}"),
    }
}

pub(crate) fn show_target(target: &Target) -> String {
    match target {
        Target::Direct(id) => id.to_string(),
        Target::Symbolic(name) => format!("-> {name}"),
    }
}

/// What is left of a cursor, as `NAME VALUE` lines.
pub(crate) fn rest(cursor: &mut dyn Cursor) -> Vec<String> {
    let mut out = Vec::new();
    while let Some(view) = cursor.next().unwrap() {
        out.push(format!("{} {}", view.name, show(view.target)));
    }
    out
}

/// As `rest`, but with what is known of tags.
pub(crate) fn peeled(cursor: &mut dyn Cursor) -> Vec<(BString, Peeled)> {
    let mut out = Vec::new();
    while let Some(view) = cursor.next().unwrap() {
        out.push((view.name.to_owned(), view.peeled));
    }
    out
}

/// All refs as git lists them, symbolic refs as such, root refs included.
pub(crate) fn git_list(repo: &Repo) -> Vec<String> {
    let list = |listed: refdb_testkit::Listed| match listed.symref {
        Some(target) => format!("{} -> {target}", listed.name),
        None => format!("{} {}", listed.name, listed.oid),
    };
    repo.refs().into_iter().map(list).collect()
}

#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Collected {
    pub(crate) values: Vec<Option<String>>,
    pub(crate) broken: Vec<usize>,
    pub(crate) below: Vec<(usize, String)>,
}

impl Answers for Collected {
    fn value(&mut self, probe: usize, value: Option<TargetView<'_>>) -> Result<()> {
        assert_eq!(probe, self.values.len());
        self.values.push(value.map(show));
        Ok(())
    }
    fn broken(&mut self, probe: usize, _error: refdb::Error) -> Result<()> {
        assert_eq!(probe, self.values.len());
        self.values.push(None);
        self.broken.push(probe);
        Ok(())
    }
    fn below(&mut self, probe: usize, child: &BStr) -> Result<()> {
        self.below.push((probe, child.to_string()));
        Ok(())
    }
}

pub(crate) fn probe<'a>(snapshot: &dyn Snapshot, names: impl IntoIterator<Item = &'a str>) -> Collected {
    let mut collected = Collected::default();
    let mut probes = names.into_iter().map(|name| Probe { name: name.as_bytes().as_bstr(), below: true });
    snapshot.probe(&mut probes, &mut collected).unwrap();
    collected
}
