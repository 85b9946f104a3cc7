//! Refs in loose files and packed-refs.

use crate::{
    Error, Found, Result, Storage, TrustSettings,
    list::{Listing, OwnRow, OwnRows, Plan, Source},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{RefName, Store, Target, TargetView, backend::Peeled};
use refdb_types::ObjectId;
use refdb_vfs::Fs;

/// Reads refs that are files.
pub(crate) struct FilesReader;

impl FilesReader {
    pub(crate) fn new(_: &Fs, _: &Store, _: TrustSettings) -> Self {
        FilesReader
    }

    pub(crate) fn get(&self, store: &Store, name: &BStr) -> Result<(Option<Found>, bool)> {
        let target = store.get(name)?;
        let found = |target| Found { target, peeled: Peeled::Unknown, storage: Storage::Loose, update_index: 0 };
        let is_doubtful = target.is_none();
        Ok((target.map(found), is_doubtful))
    }

    pub(crate) fn list(&self, store: &Store, plan: Plan) -> Result<Listing> {
        let snapshot = store.snapshot()?;
        let mut cursor = snapshot.cursor(plan.root_refs)?;
        let mut rows = Vec::new();
        for range in &plan.ranges {
            cursor.seek(range.start.as_bstr())?;
            while let Some(view) = cursor.next()? {
                if range.end.as_ref().is_some_and(|end| view.name >= end.as_bstr()) {
                    break;
                }
                let target = match view.target {
                    TargetView::Direct(id) => Target::Direct(id),
                    TargetView::Symbolic(to) => Target::Symbolic(RefName::new_safe(to.to_vec()).ok_or_else(|| {
                        Error::Store(refdb::Error::Refused(format!(
                            "'{}' leads to '{to}', which is no refname",
                            view.name
                        )))
                    })?),
                };
                rows.push(OwnRow { name: view.name.to_owned(), target, peeled: view.peeled, storage: Storage::Loose });
            }
        }
        Ok(Listing::new(plan, Source::Rows(OwnRows::new(rows)), true))
    }

    pub(crate) fn pointing_at(&self, store: &Store, id: &ObjectId) -> Result<Vec<BString>> {
        let mut names = Vec::new();
        store.snapshot()?.pointing_at(id, &mut |view| {
            names.push(view.name.to_owned());
            Ok(())
        })?;
        Ok(names)
    }

    pub(crate) fn sequence(&self) -> u64 {
        0
    }

    pub(crate) fn distrust(&self) {}

    pub(crate) fn bytes(&self) -> u64 {
        0
    }
}
