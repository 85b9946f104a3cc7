use bstr::{BStr, ByteSlice};
use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The name of a table's file in the folder of its stack.
///
/// Names are opaque, since those of JGit lack the `0x` and older ones end in `.log`. Every name that a file in the
/// folder itself can have is accepted, except one with a newline, and no path that leads elsewhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName(Arc<[u8]>);

impl TableName {
    /// Returns the name with these bytes, or `None` if they do not name a file in the folder itself or contain a
    /// newline.
    pub fn new(name: &[u8]) -> Option<Self> {
        let names_a_file = !matches!(name, b"" | b"." | b"..") && name.find_byteset(b"/\0\n").is_none();
        names_a_file.then(|| TableName(name.into()))
    }

    /// Returns a new name for a table with these update indexes, in the form that git uses. Its random suffix
    /// distinguishes tables of the same range, which compactions can produce one after another. The last two digits of
    /// the suffix are a checksum of the name before them.
    pub fn fresh(min_update_index: u64, max_update_index: u64) -> Self {
        Self::by(0, min_update_index, max_update_index)
    }

    /// As [`fresh`](Self::fresh); the checksum begins with a number by which writers of one queue recognize the tables
    /// that they have made.
    pub(super) fn by(writers: u8, min_update_index: u64, max_update_index: u64) -> Self {
        let mut name = Vec::with_capacity(48);
        for (before, number, digits) in
            [("0x", min_update_index, 12), ("-0x", max_update_index, 12), ("-", u64::from(random() >> 8), 6)]
        {
            name.extend_from_slice(before.as_bytes());
            put_hex(&mut name, number, digits);
        }
        let sum = sum_of(writers, &name);
        put_hex(&mut name, u64::from(sum), 2);
        name.extend_from_slice(b".ref");
        debug_assert!(Self::new(&name).is_some() && is_leftover(&name), "`clean` knows our names: {}", name.as_bstr());
        TableName(name.into())
    }

    /// Returns whether the writers of this number have made the table. One in 256 tables that others have made passes
    /// for one of theirs, so the answer may decide only about pauses.
    pub(super) fn is_by(&self, writers: u8) -> bool {
        let parts = self.0.strip_suffix(b".ref").and_then(|name| name.split_last_chunk::<2>());
        parts.is_some_and(|(rest, digits)| {
            let mut expected = Vec::with_capacity(2);
            put_hex(&mut expected, u64::from(sum_of(writers, rest)), 2);
            expected == digits
        })
    }

    /// The name's bytes.
    pub fn as_bstr(&self) -> &BStr {
        self.0.as_bstr()
    }

    /// The name of the table that a file of this name locks, if it is a lock file.
    pub(super) fn table_of_lock(&self) -> Option<Self> {
        self.0.strip_suffix(b".lock").and_then(Self::new)
    }

    /// Returns the path of the table in the stack's folder.
    pub fn path_in(&self, dir: &Path) -> PathBuf {
        dir.join(std::ffi::OsStr::from_bytes(&self.0))
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_bstr(), f)
    }
}

impl fmt::Debug for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_bstr(), f)
    }
}

/// A checksum of one byte that begins with `seed`.
pub(super) fn sum_of(seed: u8, bytes: &[u8]) -> u8 {
    bytes.iter().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte))
}

/// The suffix of a table that is being written and may not be listed yet.
pub(super) const TEMP_SUFFIX: &str = ".temp";

/// Returns whether a file of this name, if no list mentions it, can have been left behind by a writer. The name is that
/// of a table, of the lock of a table, or of an unfinished table of git (`NAME.temp.XXXXXX`), JGit (`NAME_123.ref`) or
/// refdb (`NAME.ref.temp`).
///
/// `tables.list` and its lock have no such names.
pub(super) fn is_leftover(name: &[u8]) -> bool {
    let of_a_table = |name: &[u8]| name.ends_with(b".ref") || name.ends_with(b".log");
    of_a_table(name)
        || name.strip_suffix(b".lock").is_some_and(of_a_table)
        || name.strip_suffix(TEMP_SUFFIX.as_bytes()).is_some_and(of_a_table)
        || name.rfind(b".temp.").is_some_and(|at| name[at + 6..].len() == 6 && name.starts_with(b"0x"))
}

/// Appends a number in hexadecimal, padded with zeros to `digits`. A small transaction would spend a twentieth of its
/// instructions on the name of its table if the name were made with the standard formatting.
fn put_hex(out: &mut Vec<u8>, number: u64, digits: u32) {
    let needed = (u64::BITS - number.leading_zeros()).div_ceil(4);
    for at in (0..digits.max(needed)).rev() {
        out.push(b"0123456789abcdef"[(number >> (at * 4) & 0xf) as usize]);
    }
}

/// Returns 32 bits that most likely differ between processes, threads and calls, because the standard library seeds its
/// hashers from the system's randomness. Should a name be taken nevertheless, creating the file of an addition fails.
fn random() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_names_are_gits_and_differ() {
        let (a, b) = (TableName::fresh(1, 0x2a), TableName::fresh(1, 0x2a));
        assert!(a.to_string().starts_with("0x000000000001-0x00000000002a-"), "{a}");
        assert!(a.to_string().ends_with(".ref"), "{a}");
        assert_eq!(a.as_bstr().len(), "0x000000000001-0x000000000002-624fa1ae.ref".len());
        assert_ne!(a, b);
        assert!(a.is_by(0) && (1..=255).all(|writers| !a.is_by(writers)), "each number has its own sum: {a}");
        let wide = TableName::fresh(0, u64::MAX).to_string();
        assert!(wide.starts_with("0x000000000000-0xffffffffffffffff-"), "{wide}");
    }

    #[test]
    fn only_what_names_a_file_in_the_folder_is_a_name() {
        for good in ["000000000001-000000000001.ref", "x", "0x1-0x2-3.log", "...", " "] {
            assert!(TableName::new(good.as_bytes()).is_some(), "{good}");
        }
        for bad in ["", ".", "..", "../x.ref", "/etc/passwd", "a/b", "a\0b", "a\nb"] {
            assert!(TableName::new(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn leftovers_are_told_from_the_list_and_from_strangers() {
        for left in [
            "0x000000000001-0x000000000002-624fa1ae.ref",
            "000000000001-000000000001.log",
            "000000000001-000000000001_8123.ref",
            "0x000000000001-0x000000000002-624fa1ae.ref.lock",
            "0x000000000001-0x000000000002-624fa1ae.ref.temp",
            "0x000000000003-0x000000000003-7c3e6d31.temp.EZLwcr",
        ] {
            assert!(is_leftover(left.as_bytes()), "{left}");
        }
        for other in ["tables.list", "tables.list.lock", "README", "x.temp.abcdef", "notes.txt.lock", "a.temp"] {
            assert!(!is_leftover(other.as_bytes()), "{other}");
        }
    }
}
