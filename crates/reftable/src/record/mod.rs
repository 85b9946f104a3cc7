//! What blocks hold. Each record is a key, compressed against the key before it, and a value.

use bstr::BStr;
use refdb_types::ObjectId;

/// What a ref record says of its ref.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefValue<'a> {
    /// The ref does not exist, whatever older tables say: a tombstone.
    Deletion,
    /// The ref points at this object, which is no tag.
    Direct(ObjectId),
    /// The ref points at an annotated tag.
    Peeled {
        /// The tag.
        target: ObjectId,
        /// What the tag, or a chain of tags, leads to.
        peeled: ObjectId,
    },
    /// The ref names another ref.
    Symbolic(&'a BStr),
}

/// A ref in a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefRecord<'a> {
    /// Its full name.
    pub name: &'a BStr,
    /// The transaction that gave it this value.
    pub update_index: u64,
    /// Its value.
    pub value: RefValue<'a>,
}

impl RefRecord<'_> {
    /// Whether this is a tombstone.
    pub fn is_deletion(&self) -> bool {
        self.value == RefValue::Deletion
    }
}

/// What a log record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogValue<'a> {
    /// There is no such entry, whatever older tables say.
    Deletion,
    /// An entry of a ref's log.
    Update {
        /// The value before; null where the ref was created.
        old: ObjectId,
        /// The value after; null where the ref was deleted.
        new: ObjectId,
        /// Who did it.
        name: &'a BStr,
        /// Without the angle brackets.
        email: &'a BStr,
        /// When, in seconds since 1970.
        time_seconds: u64,
        /// The offset from UTC as the file has it. git stores it as it prints it (-0130 is -130), against the format's
        /// document; JGit stores minutes (-0130 is -90), and nothing in the file tells which of them wrote it.
        tz_offset: i16,
        /// The message as the file has it: git always ends it with a newline.
        message: &'a BStr,
    },
}

/// An entry of a ref's log in a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRecord<'a> {
    /// The ref's full name.
    pub name: &'a BStr,
    /// The transaction that made the entry.
    pub update_index: u64,
    /// What was logged.
    pub value: LogValue<'a>,
}

impl LogRecord<'_> {
    /// Whether this hides an entry of an older table.
    pub fn is_deletion(&self) -> bool {
        self.value == LogValue::Deletion
    }
}
