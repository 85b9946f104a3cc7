use super::{Dumper, damaged};
use crate::failure::Result;
use bstr::ByteSlice;
use refdb::{backend::Peeled, files::Packed};
use refdb_types::HashKind;
use std::{os::unix::ffi::OsStrExt, path::Path};

/// Prints packed-refs.
pub(super) fn dump(dumper: &mut Dumper<'_>, path: &Path, bytes: Vec<u8>) -> Result<()> {
    let header = bytes.lines().next().filter(|line| line.starts_with(b"#")).unwrap_or(b"(no header)").to_vec();
    let hash = hash_of(&bytes);
    let size = bytes.len().to_string();
    dumper.line(&[b"packed ", path.as_os_str().as_bytes(), b": ", size.as_bytes(), b" bytes, ", &header])?;
    let packed = match Packed::parse(path, hash, bytes) {
        Ok(packed) => packed,
        Err(error) => return damaged(error),
    };
    let mut at = packed.start();
    while at < packed.end() {
        let record = match packed.record(at) {
            Ok(record) => record,
            Err(error) => return damaged(error),
        };
        let id = record.id.to_string();
        match record.peeled {
            Peeled::To(peeled) => {
                dumper.line(&[
                    b"ref ",
                    record.name,
                    b" ",
                    id.as_bytes(),
                    b" peeled ",
                    peeled.to_string().as_bytes(),
                ])?;
            }
            Peeled::NotTag | Peeled::Unknown => dumper.line(&[b"ref ", record.name, b" ", id.as_bytes()])?,
        }
        at = record.next;
    }
    Ok(())
}

/// Returns the hash function, which only the length of the ids reveals.
fn hash_of(bytes: &[u8]) -> HashKind {
    let record = bytes.lines().find(|line| line.first().is_some_and(u8::is_ascii_hexdigit)).unwrap_or_default();
    match record.find_byte(b' ') {
        Some(len) if len == HashKind::Sha256.len_hex() => HashKind::Sha256,
        _ => HashKind::Sha1,
    }
}
