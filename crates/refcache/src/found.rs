use bstr::BString;
use refdb::{RefName, Target, backend::Peeled};
use refdb_types::ObjectId;
use std::collections::BTreeMap;

/// A ref that was found, and where it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The ref's value. A symbolic ref is not followed.
    pub target: Target,
    /// The peeled object of an annotated tag, as far as it is recorded with the ref.
    pub peeled: Peeled,
    /// Where the value is stored. [`Storage::Loose`] also stands for a pseudo-ref such as `FETCH_HEAD`, and for a ref
    /// that an in-flight batch is changing.
    pub storage: Storage,
    /// The update index of the transaction that wrote the value; 0 if the value is not known to be in a table.
    pub update_index: u64,
}

/// Where the value of a ref is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// In a loose file.
    Loose,
    /// In packed-refs.
    Packed,
    /// In a reftable.
    Table,
}

/// A ref, and the symbolic refs that were followed to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// The symbolic refs that were followed, in order, the requested one first.
    pub links: Vec<RefName>,
    /// The name with which the chain ends, or at which a chain that is too long was given up. It is the requested name
    /// if that is not a symbolic ref.
    pub name: BString,
    /// The ref of that name; `None` if it does not exist (an unborn branch, if `links` is not empty) or is broken, or
    /// if the chain has more than five symbolic refs.
    pub found: Option<Found>,
}

impl Found {
    pub(crate) fn loose(target: Target) -> Self {
        Found { target, peeled: Peeled::Unknown, storage: Storage::Loose, update_index: 0 }
    }

    /// Returns a pseudo-ref such as `FETCH_HEAD`, which is a file in every format and is read from disk each time.
    pub(crate) fn of_other_place(target: Target) -> Self {
        Self::loose(target)
    }
}

/// For each object, the sorted names of the refs that point at it, directly or through an annotated tag.
pub(crate) type Pointing = BTreeMap<ObjectId, Vec<BString>>;
