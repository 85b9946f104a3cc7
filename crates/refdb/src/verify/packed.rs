//! packed-refs, line by line.

use super::{Check, Looking, Verifier};
use crate::Result;
use bstr::{BStr, ByteSlice};
use refdb_types::{FormatOptions, HashKind, ObjectId, check_format};
use std::path::Path;

const HEADER: &[u8] = b"# pack-refs with: ";

pub(super) fn verify(verifier: &mut Verifier<'_>, folder: &Path) -> Result<()> {
    let path = folder.join("packed-refs");
    verifier.looking(Looking::Packed(path.clone()));
    let place = BStr::new("packed-refs");
    let stat = match verifier.store.fs().find_link(&path)? {
        None => return Ok(()),
        Some(stat) => stat,
    };
    if !stat.is_file() {
        let what = if stat.is_symlink() { "not a regular file but a symlink" } else { "not a regular file" };
        verifier.fault(place, Check::BadRefFiletype, what);
        return Ok(());
    }
    let text = match verifier.store.fs().read(&path) {
        Err(error) if error.is_not_found() => return Ok(()),
        text => text?,
    };
    if text.is_empty() {
        verifier.fault(place, Check::EmptyPackedRefsFile, "file is empty");
        return Ok(());
    }
    let mut lines = Lines { verifier, faults: 0, may_peel: false };
    let promises_order = lines.all(&text)?;
    if promises_order && lines.faults == 0 {
        verify_order(verifier, &text);
    }
    Ok(())
}

struct Lines<'v, 'a> {
    verifier: &'v mut Verifier<'a>,
    faults: usize,
    /// Whether the line before was a ref's.
    may_peel: bool,
}

impl Lines<'_, '_> {
    /// All lines; returns whether the header promises that they are sorted.
    fn all(&mut self, text: &[u8]) -> Result<bool> {
        let mut promises_order = false;
        for (number, line) in (1u64..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            let place = format!("packed-refs line {number}");
            let place = BStr::new(&place);
            let content = line.strip_suffix(b"\n").unwrap_or_else(|| {
                self.fault(
                    place,
                    Check::PackedRefEntryNotTerminated,
                    &[b"'", line, b"' is not terminated with a newline"],
                );
                line
            });
            if number == 1 && content.starts_with(b"#") {
                promises_order = self.header(content);
                continue;
            }
            match content.strip_prefix(b"^").filter(|_| self.may_peel) {
                Some(peeled) => self.peeled(place, peeled),
                None => self.entry(place, content)?,
            }
        }
        Ok(promises_order)
    }

    fn fault(&mut self, place: &BStr, check: Check, what: &[&[u8]]) {
        self.faults += 1;
        self.verifier.fault(place, check, what.concat());
    }

    fn header(&mut self, line: &[u8]) -> bool {
        let Some(traits) = line.strip_prefix(HEADER) else {
            let place = BStr::new("packed-refs.header");
            self.fault(place, Check::BadPackedRefHeader, &[b"'", line, b"' does not start with '", HEADER, b"'"]);
            return false;
        };
        traits.split(|byte| *byte == b' ').any(|word| word == b"sorted")
    }

    fn hash(&self) -> HashKind {
        self.verifier.store.hash()
    }

    fn id(&self, text: &[u8]) -> Option<ObjectId> {
        ObjectId::from_hex(self.hash(), text.get(..self.hash().len_hex())?).ok()
    }

    fn peeled(&mut self, place: &BStr, text: &[u8]) {
        debug_assert!(self.may_peel, "a peeled line follows a ref's");
        self.may_peel = false;
        let Some(_) = self.id(text) else {
            return self.fault(place, Check::BadPackedRefEntry, &[b"'", text, b"' has invalid peeled oid"]);
        };
        let rest = &text[self.hash().len_hex()..];
        if !rest.is_empty() {
            self.fault(place, Check::BadPackedRefEntry, &[b"has trailing garbage after peeled oid '", rest, b"'"]);
        }
    }

    fn entry(&mut self, place: &BStr, line: &[u8]) -> Result<()> {
        self.may_peel = true;
        let Some(id) = self.id(line) else {
            self.fault(place, Check::BadPackedRefEntry, &[b"'", line, b"' has invalid oid"]);
            return Ok(());
        };
        let (hex, rest) = line.split_at(self.hash().len_hex());
        let Some(name) = rest.split_first().filter(|(space, _)| space.is_ascii_whitespace()).map(|(_, name)| name)
        else {
            let what: &[&[u8]] = &[b"has no space after oid '", hex, b"' but with '", rest, b"'"];
            self.fault(place, Check::BadPackedRefEntry, what);
            return Ok(());
        };
        if check_format(name, FormatOptions::default()).is_err() {
            self.fault(place, Check::BadRefName, &[b"has bad refname '", name, b"'"]);
            return Ok(());
        }
        self.verifier.object(name.as_bstr(), name.as_bstr(), &id)
    }
}

/// Reports the first line that is out of order. All lines are well formed.
fn verify_order(verifier: &mut Verifier<'_>, text: &[u8]) {
    let start = verifier.store.hash().len_hex() + 1;
    let mut before: &[u8] = b"";
    for (number, line) in (1u64..).zip(text.lines()) {
        if line.starts_with(b"#") || line.starts_with(b"^") {
            continue;
        }
        debug_assert!(line.len() > start, "a line without a name is a fault, and faults leave the order alone");
        let name = line.get(start..).unwrap_or_default();
        if name <= before {
            let what = [b"refname '", name, b"' is less than previous refname '", before, b"'"].concat();
            let place = format!("packed-refs line {number}");
            return verifier.fault(place.as_str().into(), Check::PackedRefUnsorted, what);
        }
        before = name;
    }
}
