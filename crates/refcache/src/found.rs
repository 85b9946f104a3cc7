use bstr::BString;
use refdb::{RefName, Target, backend::Peeled};
use refdb_types::ObjectId;
use std::collections::BTreeMap;

/// A ref as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// What it holds. A symbolic ref is not followed.
    pub target: Target,
    /// What the store knows of the object behind an annotated tag.
    pub peeled: Peeled,
    /// Where it is kept.
    pub storage: Storage,
    /// The update index of the transaction that wrote it; 0 where the format has none.
    pub update_index: u64,
}

/// Where a ref is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// In a file of its own.
    Loose,
    /// In packed-refs.
    Packed,
    /// In a reftable.
    Table,
}

/// A ref with the symbolic refs that were followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// The symbolic refs on the way, the one that was asked for first.
    pub links: Vec<RefName>,
    /// The last name: the ref that was asked for if it is not symbolic.
    pub name: BString,
    /// What it holds; `None` if it does not exist (an unborn branch, if there are links). A chain without an end counts
    /// as one that leads to nothing.
    pub found: Option<Found>,
}

impl Found {
    pub(crate) fn loose(target: Target) -> Self {
        Found { target, peeled: Peeled::Unknown, storage: Storage::Loose, update_index: 0 }
    }

    /// A ref of another worktree, or a file that is no ref proper, which is read afresh each time.
    pub(crate) fn of_other_place(target: Target) -> Self {
        Self::loose(target)
    }
}

/// For each object the names, in order, of the refs that hold it or a tag that leads to it.
pub(crate) type Pointing = BTreeMap<ObjectId, Vec<BString>>;
