//! A ref whose own file is no good, as a value that lists pass over.

use bstr::BString;
use std::{io, path::PathBuf};

/// A ref whose own file is no good. It exists, but nobody knows what it holds; a value beneath it in packed-refs is not its
/// value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: reference broken: {why}", path.display())]
pub struct BrokenRef {
    /// The ref.
    pub name: BString,
    /// Its file.
    pub path: PathBuf,
    /// The fault of the file.
    pub why: LooseError,
}

/// Why the content of a loose ref's file is no good.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LooseError {
    /// Nothing is in it: a crash, or an interrupted program.
    #[error("the file is empty; restore the ref from its reflog or delete the file")]
    Empty,
    /// It begins with neither an object id nor `ref:`.
    #[error("neither 'ref: NAME' nor an object id of {0} digits")]
    Content(usize),
    /// It is a symbolic ref to a name that no ref can have.
    #[error("it points at '{0}', which no ref can be called")]
    Target(BString),
    /// The system does not let us read it, and says so with this number. Causes are a symbolic link without an end, or
    /// no permission.
    #[error("{}", said(*.0))]
    Unreadable(i32),
}

impl LooseError {
    /// Git's words.
    pub fn words(&self) -> String {
        match self {
            LooseError::Empty | LooseError::Content(_) | LooseError::Target(_) => "reference broken".into(),
            LooseError::Unreadable(errno) => said(*errno),
        }
    }

    /// If the error is about this one file, and lasts. What the whole system suffers from is another matter.
    pub(crate) fn of_file(error: &refdb_vfs::Error) -> Option<Self> {
        let errno = error.source.raw_os_error()?;
        (error.is_symlink() || error.is_too_long() || error.is_forbidden() || error.is_special())
            .then_some(LooseError::Unreadable(errno))
    }
}

/// What the system says of an error, without the number that Rust adds.
pub(crate) fn said(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split_once(" (os error").map_or(text.clone(), |(text, _)| text.to_owned())
}
