use crate::ObjectId;
use bstr::{BStr, BString, ByteSlice};

/// The person who changed a ref, and the time: `name <email> seconds offset` in a reflog line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ident {
    /// The name, which may be empty.
    pub name: BString,
    /// The address without angle brackets, which may be empty.
    pub email: BString,
    /// Seconds since 1970-01-01 00:00 UTC.
    pub time_seconds: u64,
    /// The offset from UTC in hours and minutes as one decimal number, the way git prints it: +0130 is 130, not 90.
    pub offset_decimal: i16,
}

/// One entry of a reflog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// The object before the change; null if there was none, for example because the ref did not exist.
    pub old: ObjectId,
    /// The object after the change; null if there is none, for example because the ref was deleted.
    pub new: ObjectId,
    /// The person who made the change, and the time.
    pub committer: Ident,
    /// The message, without the newline at its end. Git and refdb write a single line.
    pub message: BString,
}

impl LogEntry {
    /// Returns the names in the message of a checkout: of what it left, and of what it checked out. A branch has its
    /// short name; a detached HEAD has its id, or the name by which the user checked it out. `None` if the message is
    /// not that of a checkout.
    pub fn checkout(&self) -> Option<(&BStr, &BStr)> {
        let (from, to) = self.message.strip_prefix(b"checkout: moving from ")?.split_once_str(" to ")?;
        Some((from.into(), to.into()))
    }
}
