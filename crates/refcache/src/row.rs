//! Refs in listings.

use crate::Storage;
use bstr::{BStr, BString, ByteSlice};
use refdb::{TargetView, backend::Peeled};

/// A ref in a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// The full name of the ref.
    pub name: &'a BStr,
    /// The ref's value. A symbolic ref is not followed.
    pub target: TargetView<'a>,
    /// What is recorded of the object that an annotated tag leads to.
    pub peeled: Peeled,
    /// Where the value is stored, as in [`Found::storage`](crate::Found::storage).
    pub storage: Storage,
    /// The update index of the transaction that wrote the value; 0 where the format has none.
    pub update_index: u64,
}

/// A row that owns its memory.
#[derive(Clone)]
pub(crate) struct OwnRow {
    pub(crate) name: BString,
    /// `None` if `is_corrupt`, if the ref is symbolic and no ref can have the name of its target, or if the ref was
    /// created by a batch that the listing does not show. Such a row is not shown, but it hides the ref's value in
    /// packed-refs.
    pub(crate) target: Option<refdb::Target>,
    pub(crate) peeled: Peeled,
    pub(crate) storage: Storage,
    /// Whether the ref's file is corrupt or cannot be read, or this is a folder that cannot be read; its name then ends
    /// with a slash.
    pub(crate) is_corrupt: bool,
}

impl OwnRow {
    /// The row of a broken ref, or of a folder that cannot be read.
    pub(crate) fn broken(name: BString) -> Self {
        OwnRow { name, target: None, peeled: Peeled::Unknown, storage: Storage::Loose, is_corrupt: true }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.target.is_none()
    }

    /// The row as listings show it; `None` if they do not show it.
    pub(crate) fn row(&self) -> Option<Row<'_>> {
        debug_assert!(!self.name.is_empty(), "a ref has a name");
        let target = TargetView::from(self.target.as_ref()?);
        Some(Row { name: self.name.as_bstr(), target, peeled: self.peeled, storage: self.storage, update_index: 0 })
    }
}
