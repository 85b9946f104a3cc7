//! One adapter a library.

use std::{ops::ControlFlow, path::Path};

use anyhow::{Context, Result};
use refdb_bench::seed::Format;

/// A library that reads and writes refs.
pub trait Engine {
    /// The package it comes from.
    fn package(&self) -> &'static str;
    /// Whether it knows the format.
    fn reads(&self, format: Format) -> bool;
    /// Opens the repository and meets every ref that has an object id; returns how many there are.
    fn list(&self, dir: &Path) -> Result<usize>;
    /// Opens the repository and looks names up one by one; returns how many exist.
    fn look_up(&self, dir: &Path, names: &[String]) -> Result<usize>;
    /// Opens the repository and creates refs in one transaction; returns how many.
    fn create(&self, dir: &Path, names: &[String], id: &str) -> Result<usize>;
}

/// A library's name and version, as they are compiled in.
pub fn title(engine: &dyn Engine) -> String {
    let package = engine.package();
    let entry = format!("name = \"{package}\"\nversion = \"");
    let lock = include_str!("../Cargo.lock");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
    format!("{package} {version}")
}

/// The adapters of all libraries, refdb's first.
pub fn engines() -> Vec<Box<dyn Engine>> {
    vec![Box::new(Refdb), Box::new(Gitoxide), Box::new(Libgit2), Box::new(Grit)]
}

struct Refdb;

impl Refdb {
    fn open(dir: &Path) -> Result<refdb::Store> {
        Ok(refdb::Store::builder_in(refdb::Environment::empty(dir)).open()?)
    }
}

impl Engine for Refdb {
    fn package(&self) -> &'static str {
        "refdb"
    }
    fn reads(&self, _format: Format) -> bool {
        true
    }
    fn list(&self, dir: &Path) -> Result<usize> {
        let store = Refdb::open(dir)?;
        let snapshot = store.snapshot()?;
        let mut cursor = snapshot.cursor(false)?;
        let mut count = 0;
        let _ = cursor.for_each(&mut |found| {
            count += usize::from(matches!(found.target, refdb::TargetView::Direct(_)));
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }
    fn look_up(&self, dir: &Path, names: &[String]) -> Result<usize> {
        let store = Refdb::open(dir)?;
        let snapshot = store.snapshot()?;
        let mut count = 0;
        for name in names {
            count += usize::from(snapshot.get(name.as_str().into())?.is_some());
        }
        Ok(count)
    }
    fn create(&self, dir: &Path, names: &[String], id: &str) -> Result<usize> {
        let store = Refdb::open(dir)?;
        let id = refdb::ObjectId::from_hex(refdb::HashKind::Sha1, id.as_bytes()).map_err(said)?;
        let mut transaction = store.transaction();
        for name in names {
            let change = refdb::Change::Set(refdb::Target::Direct(id));
            let name = refdb::RefName::new(name.as_bytes())?;
            transaction.add(refdb::Edit::new(name, change, refdb::Precondition::MustNotExist))?;
        }
        transaction.prepare()?.commit()?;
        Ok(names.len())
    }
}

struct Gitoxide;

impl Gitoxide {
    fn open(dir: &Path) -> gix_ref::file::Store {
        let mut store = gix_ref::file::Store::at(dir.to_owned(), gix_hash::Kind::Sha1);
        // As in a bare repository, which the others find out by themselves.
        store.write_reflog = gix_ref::store::WriteReflog::Disable;
        store
    }
}

impl Engine for Gitoxide {
    fn package(&self) -> &'static str {
        "gix-ref"
    }
    fn reads(&self, format: Format) -> bool {
        format == Format::Files
    }
    fn list(&self, dir: &Path) -> Result<usize> {
        let store = Gitoxide::open(dir);
        let mut count = 0;
        for found in store.iter().map_err(said)?.all()? {
            count += usize::from(found.map_err(said)?.target.try_id().is_some());
        }
        Ok(count)
    }
    fn look_up(&self, dir: &Path, names: &[String]) -> Result<usize> {
        let store = Gitoxide::open(dir);
        let mut count = 0;
        for name in names {
            count += usize::from(store.try_find(name.as_str()).map_err(said)?.is_some());
        }
        Ok(count)
    }
    fn create(&self, dir: &Path, names: &[String], id: &str) -> Result<usize> {
        use gix_ref::transaction::{Change, LogChange, PreviousValue, RefEdit};
        let id = gix_hash::ObjectId::from_hex(id.as_bytes()).map_err(said)?;
        let edit = |name: &String| -> Result<RefEdit> {
            let (log, new) = (LogChange::default(), gix_ref::Target::Object(id));
            let change = Change::Update { log, expected: PreviousValue::MustNotExist, new };
            Ok(RefEdit::new(name.as_str().try_into().map_err(said)?, change))
        };
        let edits = names.iter().map(edit).collect::<Result<Vec<_>>>()?;
        let fail = gix_lock::acquire::Fail::Immediately;
        let store = Gitoxide::open(dir);
        store.transaction().prepare(edits, fail, fail).map_err(said)?.commit(None).map_err(said)?;
        Ok(names.len())
    }
}

struct Libgit2;

impl Engine for Libgit2 {
    fn package(&self) -> &'static str {
        "libgit2-sys"
    }
    fn reads(&self, format: Format) -> bool {
        format == Format::Files
    }
    fn list(&self, dir: &Path) -> Result<usize> {
        let repository = git2::Repository::open_bare(dir)?;
        let mut count = 0;
        for found in repository.references()? {
            count += usize::from(found?.target().is_some());
        }
        Ok(count)
    }
    fn look_up(&self, dir: &Path, names: &[String]) -> Result<usize> {
        let repository = git2::Repository::open_bare(dir)?;
        Ok(names.iter().filter(|name| repository.refname_to_id(name).is_ok()).count())
    }
    fn create(&self, dir: &Path, names: &[String], id: &str) -> Result<usize> {
        let repository = git2::Repository::open_bare(dir)?;
        let id = git2::Oid::from_str(id)?;
        let mut transaction = repository.transaction()?;
        for name in names {
            transaction.lock_ref(name)?;
            transaction.set_target(name, id, None, "")?;
        }
        transaction.commit()?;
        Ok(names.len())
    }
}

struct Grit;

impl Engine for Grit {
    fn package(&self) -> &'static str {
        "grit-lib"
    }
    fn reads(&self, format: Format) -> bool {
        format == Format::Reftable
    }
    fn list(&self, dir: &Path) -> Result<usize> {
        let stack = grit_lib::refs::reftable::ReftableStack::open(dir).map_err(said)?;
        Ok(stack.list_refs_under_prefix(dir, "").map_err(said)?.len())
    }
    fn look_up(&self, dir: &Path, names: &[String]) -> Result<usize> {
        let stack = grit_lib::refs::reftable::ReftableStack::open(dir).map_err(said)?;
        let mut count = 0;
        for name in names {
            count += usize::from(stack.lookup_ref_oid(name).map_err(said)?.is_some());
        }
        Ok(count)
    }
    fn create(&self, dir: &Path, names: &[String], id: &str) -> Result<usize> {
        use grit_lib::{
            refs::RefBatchItem,
            refs::reftable::{
                RefValue, ReftableTransactionUpdate, reftable_write_transaction, verify_ref_transaction_batch_reftable,
            },
        };
        let id: grit_lib::objects::ObjectId = id.parse().map_err(said)?;
        // In this library, a call of its own checks for names that conflict with each other.
        let items: Vec<_> = names.iter().map(|name| RefBatchItem { name: name.clone(), new_oid: Some(id) }).collect();
        verify_ref_transaction_batch_reftable(dir, &items).ok().context("a name is in another's way")?;
        let update = |name: &String| ReftableTransactionUpdate {
            refname: name.clone(),
            value: Some(RefValue::Val1(id)),
            log: None,
            expected_old: None,
        };
        reftable_write_transaction(dir, names.iter().map(update).collect()).map_err(said)?;
        Ok(names.len())
    }
}

/// Errors of libraries that do not all implement what `?` needs.
fn said(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow::anyhow!("{error:?}")
}
