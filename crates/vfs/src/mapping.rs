use crate::{Error, File, Fs, Result};
use std::ops::Deref;

/// A file's bytes, mapped read-only for as long as this value lives, or read into memory.
///
/// Only files on a local file system are mapped. On a network file system another machine can remove the file, and then
/// the kernel ends a process that reads the mapping.
///
/// Use it only in short-lived processes, and only for files that are replaced and never changed in place (reftables,
/// `packed-refs`), because truncating a mapped file kills a process that reads the mapping. A long-lived process should
/// use [`File::read_at`].
pub struct Mapping(Bytes);

enum Bytes {
    Mapped(memmap2::Mmap),
    Read(Vec<u8>),
}

impl Mapping {
    /// Maps the whole file, or reads it if it is not on a local file system. A mapping of an empty file is an empty
    /// slice.
    pub fn new(file: &File) -> Result<Self> {
        if !Fs::real().is_file_local(file)? {
            return Ok(Mapping(Bytes::Read(file.read_all()?)));
        }
        // SAFETY: the mapping is read-only, and nothing in this process writes to the file through another path. A file
        // to which `File` writes is renamed before any mapping, or is never mapped. Another process that truncates the
        // file in place makes the kernel end this process with SIGBUS. No check could turn that into an error; git runs
        // the same risk with the same files. No length or offset read from the mapping is relied on here. The slice is
        // bounded by the file's length at the time of the call.
        #[expect(unsafe_code, reason = "there is no safe way to map a file")]
        let map = unsafe { memmap2::Mmap::map(file.as_std()) };
        map.map(|map| Mapping(Bytes::Mapped(map))).map_err(|source| Error::new("map", file.path(), source))
    }

    /// Releases the memory of all pages that have been read. A page that is read later is loaded again. Does nothing if
    /// the file is not mapped.
    pub fn forget(&self) {
        let Bytes::Mapped(map) = &self.0 else { return };
        // SAFETY: the mapping is of a file and nothing was written to it, so the same bytes are loaded again. An empty
        // mapping has no pages.
        #[expect(unsafe_code, reason = "the advice is unsafe, since it would lose what was written to a mapping")]
        // The call is only advice. If it fails, more memory stays in use.
        let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
    }
}

impl Deref for Mapping {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Mapped(map) => map,
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapping({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGAIN: &str = "REFDB_TEST_SHORTENS";

    #[test]
    fn a_file_of_a_network_file_system_can_be_lost_without_the_end_of_its_reader() {
        if std::env::var_os(AGAIN).is_some() {
            let dir = tempfile::tempdir().expect("there is room");
            let path = dir.path().join("file");
            std::fs::write(&path, vec![7; 1 << 20]).expect("there is room");
            let mapping = Mapping::new(&Fs::real().open(&path).expect("it is there")).expect("it can be read");
            // Truncating the file loses its pages, so the kernel would end a process that reads them in a mapping.
            std::fs::File::create(&path).expect("it can be shortened");
            assert_eq!(mapping.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 7 << 20);
            mapping.forget();
            std::process::exit(0);
        }
        let this = std::env::current_exe().expect("a test is a program");
        let test = "mapping::tests::a_file_of_a_network_file_system_can_be_lost_without_the_end_of_its_reader";
        let mut again = std::process::Command::new(this);
        // With this fault switch, no file system is treated as local.
        again.args(["--exact", test, "--test-threads=1"]).env(AGAIN, "1").env("REFDB_PLANTED_FAULT", "vfs-local");
        assert_eq!(again.status().expect("it can be started again").code(), Some(0));
    }
}
