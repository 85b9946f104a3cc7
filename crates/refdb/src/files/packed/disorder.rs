//! The place at which a packed-refs file is not sorted although its header says so.

use bstr::BString;
use std::{fmt, path::PathBuf};

/// A ref that is out of order in a packed-refs file that claims to be sorted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disorder {
    /// The path of packed-refs.
    pub path: PathBuf,
    /// The byte offset of the ref's line.
    pub offset: u64,
    /// The name of the misplaced ref.
    pub name: BString,
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Disorder { path, offset, name } = self;
        let path = path.display();
        write!(f, "{path} says that it is sorted, but {name} at byte {offset} is out of order; run `refdb pack-refs`")
    }
}
