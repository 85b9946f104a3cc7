use crate::{Error, File, Result};
use std::ops::Deref;

/// A file's bytes, mapped read-only for as long as this value lives.
///
/// For the command line only, and for files that are replaced and never changed in place (reftables, `packed-refs`).
/// Truncating a mapped file kills the process that maps it. Long-lived processes use [`File::read_at`].
pub struct Mapping(memmap2::Mmap);

impl Mapping {
    /// Maps the whole file. A mapping of an empty file is an empty slice.
    pub fn new(file: &File) -> Result<Self> {
        // SAFETY: the mapping is private and read-only, and nothing in this process writes to the file through another
        // path. `File` only appends to files it created, which are renamed before any mapping. Another process that
        // truncates the file in place makes the kernel end this process with SIGBUS. No check could turn that into an
        // error; git runs the same risk with the same files. No length or offset read from the mapping is relied on
        // here. The slice is bounded by the file's length at the time of the call.
        #[expect(unsafe_code, reason = "there is no safe way to map a file")]
        let map = unsafe { memmap2::Mmap::map(file.as_std()) };
        map.map(Mapping).map_err(|source| Error::new("map", file.path(), source))
    }

    /// Gives back the memory of all that was touched. A part that is touched later is read again.
    pub fn forget(&self) {
        // SAFETY: the mapping is of a file and nothing was written to it, so that the same bytes come back. An empty
        // one has no pages.
        #[expect(unsafe_code, reason = "the advice is unsafe, since it would lose what was written to a mapping")]
        // It is an advice: without it more memory is taken.
        let _ = unsafe { self.0.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
    }
}

impl Deref for Mapping {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapping({} bytes)", self.0.len())
    }
}
