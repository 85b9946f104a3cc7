//! `extensions.refStorage` and `GIT_REFERENCE_BACKEND`: git-config(1), "extensions.refStorage".

use crate::environment::os;
use bstr::{BStr, ByteSlice};
use std::path::{Path, PathBuf};

/// The format in which refs are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RefFormat {
    /// One file for each ref, and packed-refs.
    #[default]
    Files,
    /// A stack of reftables.
    Reftable,
}

/// The format in which refs are stored, and the folder that holds them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RefStorage {
    /// The format.
    pub format: RefFormat,
    /// The folder that is used instead of the common folder; `None` for the common folder itself.
    pub location: Option<PathBuf>,
}

impl RefFormat {
    /// Returns git's name for the format.
    pub fn name(self) -> &'static str {
        match self {
            RefFormat::Files => "files",
            RefFormat::Reftable => "reftable",
        }
    }

    fn from_name(name: &[u8]) -> Option<Self> {
        [RefFormat::Files, RefFormat::Reftable].into_iter().find(|format| format.name().as_bytes() == name)
    }
}

impl RefStorage {
    /// Parses `FORMAT` or `FORMAT://PATH`. A relative path is resolved against the common folder.
    ///
    /// # Errors
    ///
    /// Returns the name of the format if it is unknown.
    pub(super) fn parse<'a>(value: &'a BStr, common_dir: &Path) -> Result<Self, &'a BStr> {
        let (name, path) = match value.find("://") {
            Some(at) => (value[..at].as_bytes(), value[at + 3..].as_bytes()),
            None => (value.as_bytes(), &b""[..]),
        };
        let format = RefFormat::from_name(name).ok_or(name.as_bstr())?;
        let location = (!path.is_empty()).then(|| common_dir.join(os(path)));
        Ok(RefStorage { format, location })
    }
}
