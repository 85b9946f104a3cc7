//! The error for a ref whose own file is corrupt or cannot be read. A listing can go on after the ref.

use bstr::{BStr, BString, ByteSlice};
use std::{borrow::Cow, io, os::unix::ffi::OsStrExt, path::PathBuf};

/// A ref whose own file is corrupt or cannot be read, or a folder of refs that may not be read. Such a ref exists, but
/// its value is unknown: an older value in packed-refs is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: reference broken: {why}", path.display())]
pub struct BrokenRef {
    /// The ref, or the folder without a slash at its end.
    pub name: BString,
    /// The path of the file, or of the folder with a slash at its end.
    pub path: PathBuf,
    /// What is wrong with the file or folder.
    pub why: LooseError,
}

impl BrokenRef {
    /// The place of this error in a list of refs: the name and, if it is that of a folder, a slash behind it.
    pub(crate) fn place(&self) -> Cow<'_, BStr> {
        if self.path.as_os_str().as_bytes().ends_with(b"/") {
            Cow::Owned([self.name.as_bytes(), b"/"].concat().into())
        } else {
            Cow::Borrowed(self.name.as_bstr())
        }
    }
}

/// Why a loose ref's file has no valid value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LooseError {
    /// The file is empty, which a crash or an interrupted program can leave behind.
    #[error("the file is empty; restore the ref from its reflog or delete the file")]
    Empty,
    /// The content is neither `ref:` and a name nor an object id of this number of hexadecimal digits.
    #[error("neither 'ref: NAME' nor an object id of {0} digits")]
    Content(usize),
    /// The file is a symbolic ref to this name, which no ref can have.
    #[error("it points at '{0}', which no ref can be called")]
    Target(BString),
    /// The file or folder cannot be read, for this `errno`: for instance because permission is missing, or because
    /// symbolic links form a loop.
    #[error("{}", said(*.0))]
    Unreadable(i32),
}

impl LooseError {
    /// Git's words for the fault.
    pub fn words(&self) -> String {
        match self {
            LooseError::Empty | LooseError::Content(_) | LooseError::Target(_) => "reference broken".into(),
            LooseError::Unreadable(errno) => said(*errno),
        }
    }

    /// The fault of the file, if the error is lasting and about this one file. Returns `None` for an error that
    /// concerns the whole system, such as too many open files.
    pub(crate) fn of_file(error: &refdb_vfs::Error) -> Option<Self> {
        let errno = error.source.raw_os_error()?;
        (error.is_symlink() || error.is_too_long() || error.is_forbidden() || error.is_special())
            .then_some(LooseError::Unreadable(errno))
    }
}

/// The system's text for an `errno`, without the number that Rust adds.
fn said(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split_once(" (os error").map_or(text.clone(), |(text, _)| text.to_owned())
}
