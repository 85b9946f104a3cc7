//! `/etc/passwd`, read directly, because a static program cannot load the C library's other sources of users.

use bstr::{BStr, BString, ByteSlice};
use std::path::PathBuf;

/// An entry of `/etc/passwd`.
pub(crate) struct Entry {
    pub(crate) login: BString,
    /// The comment field, whose first part is the full name.
    pub(crate) gecos: BString,
    pub(crate) home: PathBuf,
}

/// Finds the user with this login name.
pub(crate) fn by_name(login: &BStr) -> Option<Entry> {
    find(|fields| fields[0] == login.as_bytes())
}

/// Finds the user with this number.
pub(crate) fn by_uid(uid: u32) -> Option<Entry> {
    let uid = uid.to_string();
    find(|fields| fields[2] == uid.as_bytes())
}

fn find(wanted: impl Fn(&[&[u8]]) -> bool) -> Option<Entry> {
    let text = std::fs::read("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        (fields.len() >= 7 && wanted(&fields)).then(|| Entry {
            login: fields[0].into(),
            gecos: fields[4].into(),
            home: fields[5].to_path_lossy().into_owned(),
        })
    })
}
