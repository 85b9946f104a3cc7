//! Where a packed-refs file is not sorted although its header says so.

use bstr::BString;
use std::{fmt, path::PathBuf};

/// A ref out of order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disorder {
    /// The file.
    pub path: PathBuf,
    /// Where in it the ref's line begins.
    pub offset: u64,
    /// The ref's name.
    pub name: BString,
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Disorder { path, offset, name } = self;
        let path = path.display();
        write!(f, "{path} says that it is sorted, but {name} at byte {offset} is out of order; run `refdb pack-refs`")
    }
}
