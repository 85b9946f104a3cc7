use bstr::{BStr, ByteSlice};
use std::{
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
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

    /// A name of our own for a table of these update indexes, as git makes them: the suffix tells tables of the same
    /// range apart, which compaction leaves behind one another.
    pub fn fresh(min_update_index: u64, max_update_index: u64) -> Self {
        let name = format!("0x{min_update_index:012x}-0x{max_update_index:012x}-{:08x}.ref", random());
        TableName(name.into_bytes().into())
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

/// Whether a file of this name, if no list names it, is what a writer left behind: a table, the lock of a table, or
/// an unfinished table of git's (`NAME.temp.XXXXXX`), JGit's (`NAME_123.ref`) or ours (`NAME.ref.temp`).
///
/// `tables.list` and its lock are none of these.
pub(super) fn is_leftover(name: &[u8]) -> bool {
    let of_a_table = |name: &[u8]| name.ends_with(b".ref") || name.ends_with(b".log");
    of_a_table(name)
        || name.strip_suffix(b".lock").is_some_and(of_a_table)
        || name.strip_suffix(TEMP_SUFFIX.as_bytes()).is_some_and(of_a_table)
        || name.rfind(b".temp.").is_some_and(|at| name[at + 6..].len() == 6 && name.starts_with(b"0x"))
}

/// 32 bits that differ between processes, threads and calls. Names need no better: a name that is taken is an error,
/// never a file overwritten.
fn random() -> u32 {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    // The finaliser of splitmix64 spreads what little differs over all bits.
    let mut mixed = now ^ u64::from(std::process::id()).rotate_left(40) ^ count.rotate_left(20);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 32) as u32
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
