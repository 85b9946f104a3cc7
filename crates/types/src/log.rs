use crate::ObjectId;
use bstr::BString;

/// Who moved a ref and when: the `name <email> seconds offset` of a reflog line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ident {
    /// May be empty.
    pub name: BString,
    /// Without the angle brackets; may be empty.
    pub email: BString,
    /// Seconds since 1970.
    pub time_seconds: u64,
    /// Offset from UTC as git prints it: +0130 is 130, not 90.
    pub offset_decimal: i16,
}

/// One entry of a reflog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// The value before; null where the ref did not exist.
    pub old: ObjectId,
    /// The value after; null where the ref was deleted.
    pub new: ObjectId,
    /// Who and when.
    pub committer: Ident,
    /// One line, without its newline.
    pub message: BString,
}
