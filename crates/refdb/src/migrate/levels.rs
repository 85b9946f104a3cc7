//! Finds refs that lie below other refs, such as `a/b` below `a`, which cannot exist at the same time. A repository
//! that other programs wrote may have both.

use bstr::{BStr, BString, ByteSlice};

/// The state of a walk over names in order.
#[derive(Default)]
pub(super) struct Levels {
    last: BString,
    /// The lengths of earlier names with which `last` begins.
    starts: Vec<usize>,
}

impl Levels {
    /// Takes the next name. Returns the ref below which this name lies, if any.
    #[inline]
    pub(super) fn pass<'n>(&mut self, name: &'n BStr) -> Option<&'n BStr> {
        let Levels { last, starts } = self;
        // Most names are as long as the previous one, and therefore do not begin with it.
        if name.len() > last.len() && !last.is_empty() && name.starts_with(last) {
            starts.push(last.len());
        } else if !starts.is_empty() {
            starts.retain(|end| name.starts_with(&last[..*end]));
        }
        if last.len() == name.len() {
            last.copy_from_slice(name);
        } else {
            last.clear();
            last.extend_from_slice(name);
        }
        debug_assert!(starts.is_sorted(), "each of them begins the next: {starts:?}");
        let above = starts.iter().find(|end| name.get(**end) == Some(&b'/'));
        above.map(|end| name[..*end].as_bstr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_below_another_is_found_though_others_come_between() {
        let mut levels = Levels::default();
        let names = ["a", "a-b", "a-b/c", "a/b", "a/b.c", "a/b/c", "ab", "ab.c", "b", "b.x", "b.x.y", "b/x"];
        let found: Vec<_> =
            names.iter().filter_map(|name| Some((*name, levels.pass(BStr::new(*name))?.to_string()))).collect();
        let expected = [("a-b/c", "a-b"), ("a/b", "a"), ("a/b.c", "a"), ("a/b/c", "a"), ("b/x", "b")];
        assert_eq!(found, expected.map(|(name, above)| (name, above.to_owned())));
    }
}
