//! Lists refs for a show-ref without options that change how a ref is shown. There may be millions of refs, so showing
//! one whose object is known to exist costs little more than copying its bytes.

use super::{bad_ref, matches_any};
use crate::{
    failure::Result,
    listing::{Broken, Row, Visitor},
    output::Output,
};
use bstr::{BStr, BString};
use refdb::{RefFormat, Store, objects::Lookups};
use refdb_types::{HashKind, LineStart, Memo, ObjectId};
use std::ops::ControlFlow;

/// Shows each ref that matches the patterns as its full id and its name. A broken ref and a ref whose object is missing
/// are errors.
pub(super) struct PlainLister<'a> {
    patterns: &'a [BString],
    hash: HashKind,
    lookups: Lookups<'a>,
    /// Objects that exist, each with the start of its line.
    starts: Memo<ObjectId, LineStart, OBJECTS_MAX>,
    /// Objects that exist, by their digits in lines of packed-refs. All ids of a repository have one hash function, so
    /// either this cache or `sha256` stays empty.
    sha1: Memo<[u8; 40], (), OBJECTS_MAX>,
    sha256: Memo<[u8; 64], (), OBJECTS_MAX>,
    takes_lines: bool,
    output: &'a mut Output,
    found: bool,
}

/// Number of slots of each cache. A full cache takes up to 1.9 MiB.
const OBJECTS_MAX: usize = 1 << 14;

impl<'a> PlainLister<'a> {
    pub(super) fn new(patterns: &'a [BString], store: &'a Store, output: &'a mut Output) -> Self {
        let (starts, sha1, sha256) = (Memo::default(), Memo::default(), Memo::default());
        let (hash, lookups) = (store.objects().hash(), store.objects().lookups());
        let takes_lines = patterns.is_empty() && store.repository().ref_format() == RefFormat::Files;
        PlainLister { patterns, hash, lookups, starts, sha1, sha256, takes_lines, output, found: false }
    }

    /// Returns whether a ref was shown.
    pub(super) fn found(&self) -> bool {
        self.found
    }

    /// Returns whether these are the lower-case digits of an object that is known to exist.
    #[inline(always)]
    fn have(&mut self, digits: &[u8]) -> bool {
        let is_known = match (<&[u8; 40]>::try_from(digits), <&[u8; 64]>::try_from(digits)) {
            (Ok(digits), _) => self.sha1.get(digits).is_some(),
            (_, Ok(digits)) => self.sha256.get(digits).is_some(),
            _ => false,
        };
        is_known || self.look_for(digits)
    }

    #[inline(never)]
    fn look_for(&mut self, digits: &[u8]) -> bool {
        let Ok(id) = ObjectId::from_hex(self.hash, digits) else { return false };
        let has_upper_case = digits.iter().fold(false, |any, digit| any | digit.is_ascii_uppercase());
        // A line that is refused here is visited as a row or as a broken ref, and then any mistake in it is reported.
        if id.is_null() || has_upper_case || !matches!(self.lookups.exists(&id), Ok(true)) {
            return false;
        }
        match (digits.try_into(), digits.try_into()) {
            (Ok(digits), _) => self.sha1.put(digits, ()),
            (_, Ok(digits)) => self.sha256.put(digits, ()),
            _ => {}
        }
        true
    }

    /// Remembers an object if it exists, and returns whether it does.
    fn learn(&mut self, id: &ObjectId) -> Result<bool> {
        if !self.lookups.exists(id)? {
            return Ok(false);
        }
        self.starts.put(*id, LineStart::new(id));
        Ok(true)
    }
}

impl Visitor for PlainLister<'_> {
    fn takes_lines(&self) -> bool {
        self.takes_lines
    }

    fn wants(&mut self, name: &BStr) -> bool {
        matches_any(self.patterns, name)
    }

    fn row(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>> {
        if !self.learn(row.id)? {
            return bad_ref(row.name, row.id);
        }
        self.output.relieve()?;
        assert!(self.take(row.name, row.id), "the object is known, and there is room");
        Ok(ControlFlow::Continue(()))
    }

    fn broken(&mut self, broken: Broken<'_>) -> Result<()> {
        let (Broken::Content(name) | Broken::Name(name)) = broken;
        bad_ref(name, &ObjectId::null(self.hash))
    }

    /// Shows a ref by copying its line of packed-refs.
    #[inline(always)]
    fn line(&mut self, line: &[u8], digits: usize) -> bool {
        if self.output.is_full() || !self.have(&line[..digits]) {
            return false;
        }
        self.found = true;
        self.output.buffer().extend_from_slice(line);
        true
    }

    const TAKES: bool = true;

    #[inline(always)]
    fn take(&mut self, name: &BStr, id: &ObjectId) -> bool {
        if self.output.is_full() || !matches_any(self.patterns, name) {
            return false;
        }
        let Some(start) = self.starts.get(id) else { return false };
        self.found = true;
        let out = self.output.buffer();
        start.write(out);
        out.extend_from_slice(name);
        out.push(b'\n');
        true
    }
}
