use bstr::{BStr, ByteSlice};
use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The name of a table's file in its stack's folder.
///
/// A name that is read is opaque: JGit's lack the `0x`, older ones end in `.log`. Whatever can name a file directly
/// in the folder is accepted, and nothing else.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName(Arc<[u8]>);

impl TableName {
    /// The name with these bytes, unless they cannot name a file in the stack's own folder.
    pub fn new(name: &[u8]) -> Option<Self> {
        let names_a_file = !matches!(name, b"" | b"." | b"..") && name.find_byteset(b"/\0\n").is_none();
        names_a_file.then(|| TableName(name.into()))
    }

    /// A name of our own for a table of these update indexes, as git makes them. The suffix tells tables of the same
    /// range apart, which compaction leaves behind one another.
    pub fn fresh(min_update_index: u64, max_update_index: u64) -> Self {
        let mut name = Vec::with_capacity(48);
        for (before, number, digits) in
            [("0x", min_update_index, 12), ("-0x", max_update_index, 12), ("-", u64::from(random()), 8)]
        {
            name.extend_from_slice(before.as_bytes());
            put_hex(&mut name, number, digits);
        }
        name.extend_from_slice(b".ref");
        debug_assert!(Self::new(&name).is_some() && is_leftover(&name), "`clean` knows our names: {}", name.as_bstr());
        TableName(name.into())
    }

    /// The name's bytes.
    pub fn as_bstr(&self) -> &BStr {
        self.0.as_bstr()
    }

    /// The table that a file of this name locks, if it is a lock file's.
    pub(super) fn table_of_lock(&self) -> Option<Self> {
        self.0.strip_suffix(b".lock").and_then(Self::new)
    }

    /// The table's path in the stack's folder.
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

/// Ends the name of a table that is being written and may not be listed yet.
pub(super) const TEMP_SUFFIX: &str = ".temp";

/// Whether a writer left a file of this name behind, if no list names it. Such names are a table's, a table lock's, or
/// an unfinished table's. An unfinished table is git's (`NAME.temp.XXXXXX`), JGit's (`NAME_123.ref`) or ours
/// (`NAME.ref.temp`).
///
/// `tables.list` and its lock are none of these.
pub(super) fn is_leftover(name: &[u8]) -> bool {
    let of_a_table = |name: &[u8]| name.ends_with(b".ref") || name.ends_with(b".log");
    of_a_table(name)
        || name.strip_suffix(b".lock").is_some_and(of_a_table)
        || name.strip_suffix(TEMP_SUFFIX.as_bytes()).is_some_and(of_a_table)
        || name.rfind(b".temp.").is_some_and(|at| name[at + 6..].len() == 6 && name.starts_with(b"0x"))
}

/// Appends a number in hexadecimal, with zeros before it up to `digits`. Every small transaction makes a name, and the
/// standard formatting would be a twentieth of its instructions.
fn put_hex(out: &mut Vec<u8>, number: u64, digits: u32) {
    let needed = (u64::BITS - number.leading_zeros()).div_ceil(4);
    for at in (0..digits.max(needed)).rev() {
        out.push(b"0123456789abcdef"[(number >> (at * 4) & 0xf) as usize]);
    }
}

/// 32 bits that differ between processes, threads and calls: the standard library's hashers start from the system's
/// randomness. A name that is taken all the same is an error, never a file overwritten.
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
