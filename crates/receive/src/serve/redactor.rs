//! Rewrites the engine's error messages for clients, which must not learn where the server keeps its repositories.

use bstr::{BStr, BString, ByteSlice};
use std::{os::unix::ffi::OsStrExt, path::Path};

/// Removes the paths of one repository's folders from messages.
pub(super) struct Redactor {
    /// The absolute paths of the folders, each without a slash at its end.
    folders: Vec<BString>,
}

impl Redactor {
    /// Returns a redactor for a repository with these folders, which are absolute paths.
    pub(super) fn of<'p>(folders: impl IntoIterator<Item = &'p Path>) -> Self {
        let trimmed = |folder: &Path| folder.as_os_str().as_bytes().trim_end_with(|slash| slash == '/').into();
        Redactor { folders: folders.into_iter().map(trimmed).filter(|folder: &BString| !folder.is_empty()).collect() }
    }

    /// Makes paths below a folder of the repository relative to it, as they are in git's messages, and restores the
    /// bytes of `names` that are not UTF-8, which the engine's text has replaced by U+FFFD.
    ///
    /// A signed lock keeps the new content of a ref in a second file, `NAME.lock.lock`. The message names the lock
    /// instead, because clients know no other file.
    pub(super) fn redact<'n>(&self, message: &[u8], names: impl Iterator<Item = &'n BStr>) -> BString {
        let mut shown = BString::from(message.trim_end());
        for folder in &self.folders {
            // The engine's text has U+FFFD for bytes that are not UTF-8; git's messages have the bytes.
            for path in [&folder[..], folder.to_str_lossy().as_bytes()] {
                for (end, short) in [("/", "./"), ("'", ".'")] {
                    shown = shown.replace([path, end.as_bytes()].concat(), short).into();
                }
            }
        }
        let mut names: Vec<_> = names.filter(|name| name.to_str().is_err()).collect();
        // Longer names come first, because a name may be the beginning of another one.
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        for name in names {
            shown = shown.replace(name.to_str_lossy().as_bytes(), name).into();
        }
        shown.replace(".lock.lock'", ".lock'").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_shows_neither_where_the_repository_is_nor_other_bytes_than_the_clients() {
        let redactor = Redactor::of(["/srv/git/x.git", "/srv/refs/x/", "/"].map(Path::new));
        let names = [&b"refs/heads/\xff"[..], b"refs/heads/\xffa", b"refs/heads/plain"].map(BStr::new);
        for (message, shown) in [
            (&b"cannot open '/srv/git/x.git/objects/pack': no\n"[..], &b"cannot open './objects/pack': no"[..]),
            (b"cannot sync '/srv/git/x.git': no", b"cannot sync '.': no"),
            (b"'/srv/refs/x/reftable/tables.list.lock' is held", b"'./reftable/tables.list.lock' is held"),
            (b"cannot open '/srv/git/x.git2/objects'", b"cannot open '/srv/git/x.git2/objects'"),
            (b"cannot write './refs/heads/x.lock.lock': full", b"cannot write './refs/heads/x.lock': full"),
            ("refs/heads/\u{fffd}a, 'refs/heads/\u{fffd}'".as_bytes(), b"refs/heads/\xffa, 'refs/heads/\xff'"),
        ] {
            assert_eq!(redactor.redact(message, names.into_iter()), shown);
        }
    }

    /// Previously, such a message showed the whole path.
    #[test]
    fn a_path_that_is_not_utf_8_is_not_shown_either() {
        let redactor = Redactor::of([Path::new(std::ffi::OsStr::from_bytes(b"/srv/\xff.git"))]);
        for message in ["cannot open '/srv/\u{fffd}.git/objects'".as_bytes(), b"cannot open '/srv/\xff.git/objects'"] {
            assert_eq!(redactor.redact(message, std::iter::empty()), "cannot open './objects'");
        }
    }
}
