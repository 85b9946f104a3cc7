//! Checks packed-refs, line by line.

use super::{Check, Looking, Verifier};
use crate::Result;
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, ObjectId, OrderedNames, space::is_space};
use refdb_vfs::Mapping;
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
    let file = match verifier.store.fs().open(&path) {
        Err(error) if error.is_not_found() => return Ok(()),
        file => file?,
    };
    let text = Mapping::new(&file)?;
    if text.is_empty() {
        verifier.fault(place, Check::EmptyPackedRefsFile, "file is empty");
        return Ok(());
    }
    let hash = verifier.store.hash();
    let lines = Lines {
        verifier,
        hash,
        faults: 0,
        may_peel: false,
        names: OrderedNames::default(),
        before: BStr::new(""),
        unsorted: None,
    };
    lines.all(&text)
}

struct Lines<'v, 'a, 't> {
    verifier: &'v mut Verifier<'a>,
    hash: HashKind,
    faults: usize,
    /// Whether the previous line was a ref's, even a faulty one.
    may_peel: bool,
    names: OrderedNames,
    /// The last ref's name.
    before: &'t BStr,
    /// The first line that is out of order: its number, its name, and the name before it.
    unsorted: Option<(u64, &'t BStr, &'t BStr)>,
}

impl<'t> Lines<'_, '_, 't> {
    fn all(mut self, text: &'t [u8]) -> Result<()> {
        let mut promises_order = false;
        for (number, line) in (1u64..).zip(text.lines_with_terminator()) {
            let content = match line.strip_suffix(b"\n") {
                Some(content) => content,
                None => {
                    let what: &[&[u8]] = &[b"'", line, b"' is not terminated with a newline"];
                    self.fault(number, Check::PackedRefEntryNotTerminated, what);
                    line
                }
            };
            if number == 1 && content.starts_with(b"#") {
                promises_order = self.header(content);
                continue;
            }
            match content.strip_prefix(b"^").filter(|_| self.may_peel) {
                Some(peeled) => self.peeled(number, peeled),
                None => self.entry(number, content)?,
            }
        }
        if promises_order
            && self.faults == 0
            && let Some((number, name, before)) = self.unsorted
        {
            let what: &[&[u8]] = &[b"refname '", name, b"' is less than previous refname '", before, b"'"];
            self.fault(number, Check::PackedRefUnsorted, what);
        }
        Ok(())
    }

    #[cold]
    fn fault(&mut self, number: u64, check: Check, what: &[&[u8]]) {
        self.faults += 1;
        self.verifier.fault(format!("packed-refs line {number}").as_str().into(), check, what.concat());
    }

    fn header(&mut self, line: &[u8]) -> bool {
        let Some(traits) = line.strip_prefix(HEADER) else {
            self.faults += 1;
            let what = [b"'", line, b"' does not start with '", HEADER, b"'"].concat();
            self.verifier.fault("packed-refs.header".into(), Check::BadPackedRefHeader, what);
            return false;
        };
        traits.split(|byte| *byte == b' ').any(|word| word == b"sorted")
    }

    fn id(&self, text: &[u8]) -> Option<ObjectId> {
        ObjectId::from_hex(self.hash, text.get(..self.hash.len_hex())?).ok()
    }

    fn peeled(&mut self, number: u64, text: &[u8]) {
        debug_assert!(self.may_peel, "a peeled line follows a ref's");
        self.may_peel = false;
        let Some(_) = self.id(text) else {
            return self.fault(number, Check::BadPackedRefEntry, &[b"'", text, b"' has invalid peeled oid"]);
        };
        let rest = &text[self.hash.len_hex()..];
        if !rest.is_empty() {
            self.fault(number, Check::BadPackedRefEntry, &[b"has trailing garbage after peeled oid '", rest, b"'"]);
        }
    }

    #[inline]
    fn entry(&mut self, number: u64, line: &'t [u8]) -> Result<()> {
        self.may_peel = true;
        let Some(id) = self.id(line) else {
            self.fault(number, Check::BadPackedRefEntry, &[b"'", line, b"' has invalid oid"]);
            return Ok(());
        };
        let (hex, rest) = line.split_at(self.hash.len_hex());
        let name = match rest {
            [space, name @ ..] if is_space(space) => name.as_bstr(),
            _ => {
                let what: &[&[u8]] = &[b"has no space after oid '", hex, b"' but with '", rest, b"'"];
                self.fault(number, Check::BadPackedRefEntry, what);
                return Ok(());
            }
        };
        if !self.names.accept_full(name) {
            self.fault(number, Check::BadRefName, &[b"has bad refname '", name, b"'"]);
            return Ok(());
        }
        if name <= self.before && self.unsorted.is_none() {
            self.unsorted = Some((number, name, self.before));
        }
        self.before = name;
        self.verifier.object(name, name, &id)
    }
}
