//! Refs in listings.

use crate::Storage;
use bstr::{BStr, BString, ByteSlice};
use refdb::{TargetView, backend::Peeled};

/// A ref in a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// Its full name.
    pub name: &'a BStr,
    /// What it holds.
    pub target: TargetView<'a>,
    /// What the store knows of the object behind an annotated tag.
    pub peeled: Peeled,
    /// Where it is kept.
    pub storage: Storage,
    /// The update index of the transaction that wrote it; 0 where the format has none.
    pub update_index: u64,
}

/// A row with memory of its own.
#[derive(Clone)]
pub(crate) struct OwnRow {
    pub(crate) name: BString,
    /// `None` if its file is no good, or it was not there before a batch that is under way. Such a row is not shown, and
    /// hides what packed-refs says of the ref.
    pub(crate) target: Option<refdb::Target>,
    pub(crate) peeled: Peeled,
    pub(crate) storage: Storage,
}

impl OwnRow {
    /// Of a file, or a folder, that is no good.
    pub(crate) fn broken(name: BString) -> Self {
        OwnRow { name, target: None, peeled: Peeled::Unknown, storage: Storage::Loose }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.target.is_none()
    }

    /// How it is shown; `None` if it is not.
    pub(crate) fn row(&self) -> Option<Row<'_>> {
        debug_assert!(!self.name.is_empty(), "a ref has a name");
        let target = TargetView::from(self.target.as_ref()?);
        Some(Row { name: self.name.as_bstr(), target, peeled: self.peeled, storage: self.storage, update_index: 0 })
    }
}
