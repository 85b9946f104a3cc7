//! Adapters of a [`Cursor`](crate::Cursor), which are cursors themselves: refs below a prefix, without some subtrees,
//! in a namespace.
//!
//! An adapter seeks where it can: an excluded subtree of a million refs costs one seek, whichever adapter is
//! outermost. Errors are passed on as they are, with full names, even those about refs that the adapter leaves out.

mod exclude;
mod namespace;
mod prefix;

pub use exclude::Excluding;
pub use namespace::InNamespace;
pub use prefix::WithPrefix;

use bstr::BString;

// To begin a walk after a certain ref, seek in the outermost adapter. Root refs are requested where the first cursor
// is created ([`Snapshot::cursor`](crate::Snapshot::cursor)).

/// Returns the least name that sorts after all names with this prefix; `None` if there is none.
fn end_of(prefix: &[u8]) -> Option<BString> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = BString::from(&prefix[..=last]);
    end[last] += 1;
    debug_assert!(end.as_slice() > prefix && !end.starts_with(prefix), "it is behind all that begin with the prefix");
    Some(end)
}

#[cfg(test)]
mod tests;
