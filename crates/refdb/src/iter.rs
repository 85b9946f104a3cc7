//! Views of a [`Cursor`](crate::Cursor) that are cursors again: refs below a prefix, without some subtrees, in a
//! namespace.
//!
//! A view seeks where it can: an excluded subtree of a million refs costs one seek, whichever view is outermost.

mod exclude;
mod namespace;
mod prefix;

pub use exclude::Excluding;
pub use namespace::InNamespace;
pub use prefix::WithPrefix;

use bstr::BString;

// A walk that begins after a certain ref is a seek of the outermost view. Root refs are requested where the first
// cursor is created ([`Snapshot::cursor`](crate::Snapshot::cursor)).

/// The first name that does not begin with `prefix` and sorts after those that do; `None` if there is none.
fn end_of(prefix: &[u8]) -> Option<BString> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = BString::from(&prefix[..=last]);
    end[last] += 1;
    debug_assert!(end.as_slice() > prefix && !end.starts_with(prefix), "it is behind all that begin with the prefix");
    Some(end)
}

#[cfg(test)]
mod tests;
