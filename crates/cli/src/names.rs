//! Short names of refs. See gitrevisions(7), "refname".

use crate::failure::Result;
use bstr::{BStr, BString, ByteSlice};
use refdb::{Resolved, Store, objects::SHORT_NAME_RULES as RULES};
use refdb_types::{ObjectId, RefName};

/// The name that a rule makes; `None` if it cannot be a ref's.
fn apply((before, after): (&str, &str), name: &BStr) -> Option<RefName> {
    RefName::new([before.as_bytes(), name, after.as_bytes()].concat()).ok()
}

/// The object that a ref leads to. At the root any file of the repository may have the name: what holds no ref is none.
fn object(store: &Store, name: &RefName) -> Result<Option<ObjectId>> {
    match store.resolve(name) {
        Ok(Resolved::Object { id, .. }) => Ok(Some(id)),
        Ok(Resolved::Missing(_)) | Err(refdb::Error::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The shortest part of a refname from which git finds the same ref again.
///
/// A strict short name is found by one rule only (`core.warnAmbiguousRefs`); otherwise it suffices that no earlier rule
/// finds another ref.
pub fn shorten<'n>(store: &Store, name: &'n BStr, strict: bool) -> Result<&'n BStr> {
    for (turn, (before, after)) in RULES.into_iter().enumerate().skip(1).rev() {
        let part = name.strip_prefix(before.as_bytes()).and_then(|rest| rest.strip_suffix(after.as_bytes()));
        let Some(short) = part.filter(|short| !short.is_empty()) else { continue };
        let mut clash = false;
        for (other, rule) in RULES.into_iter().enumerate().take(if strict { RULES.len() } else { turn }) {
            if other == turn || clash {
                continue;
            }
            if let Some(full) = apply(rule, short.as_bstr()) {
                clash = object(store, &full)?.is_some();
            }
        }
        if !clash {
            return Ok(short.as_bstr());
        }
    }
    Ok(name)
}

/// What was checked out before the last `nth` checkouts, by HEAD's reflog; `None` if it does not reach back so far.
pub fn previous_checkout(store: &Store, nth: u64) -> Result<Option<BString>> {
    let mut left = nth;
    let mut found = None;
    store.snapshot()?.log("HEAD".into(), &mut |entry| {
        let Some(moved) = entry.message.strip_prefix(b"checkout: moving from ") else {
            return std::ops::ControlFlow::Continue(());
        };
        left -= 1;
        if left > 0 {
            return std::ops::ControlFlow::Continue(());
        }
        found = moved.find(b" to ").map(|end| BString::from(&moved[..end]));
        std::ops::ControlFlow::Break(())
    })?;
    Ok(found)
}
