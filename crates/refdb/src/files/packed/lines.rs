//! A walk over packed-refs that offers whole lines, so that a caller that lists refs as `DIGITS SP NAME LF` can copy
//! them.

use crate::files::{Packed, packed::read::PackedWalk};
use crate::{Result, backend::Lines};
use bstr::ByteSlice;
use refdb_types::{HashKind, OrderedNames};
use std::ops::ControlFlow;

impl Packed {
    /// Visits the same records as [`Packed::for_each`]: most of those without a peeled line as whole lines, if their
    /// names are certain to be well-formed and the visitor takes the line, and all others as refs.
    pub(crate) fn for_each_line(
        &self,
        walk: &mut PackedWalk,
        limit: usize,
        lines: &mut dyn Lines,
    ) -> Result<ControlFlow<()>> {
        let mut names = OrderedNames::default();
        loop {
            match self.hash {
                HashKind::Sha1 => self.offer_lines::<40>(walk, limit, &names, lines)?,
                HashKind::Sha256 => self.offer_lines::<64>(walk, limit, &names, lines)?,
            }
            // Any other line is parsed as a record, so that its faults are found.
            let (mut flow, mut name) = (ControlFlow::Continue(()), Vec::new());
            let walked = self.for_each(walk, limit, &mut |view| {
                name.extend_from_slice(view.name);
                flow = lines.view(view);
                ControlFlow::Break(())
            })?;
            if walked.is_continue() || flow.is_break() {
                return Ok(flow);
            }
            names.accept(&name);
            walk.before = name.into();
        }
    }

    /// Offers lines up to the first whose name is out of order or not certain to be well-formed, that is followed by a
    /// peeled line, or that the visitor does not take, but at most up to `limit` or the end of a page.
    fn offer_lines<const LEN_HEX: usize>(
        &self,
        walk: &mut PackedWalk,
        limit: usize,
        names: &OrderedNames,
        lines: &mut dyn Lines,
    ) -> Result<()> {
        if walk.next >= limit {
            return Ok(());
        }
        let (bytes, base) = self.bytes.around(walk.next)?;
        let end = limit.min(base + bytes.len());
        let (mut last, mut next) = (walk.last, walk.next);
        let mut before = walk.before.as_bstr();
        while next < end {
            let text = &bytes[next - base..];
            let Some((_, [b' ', rest @ ..])) = text.split_first_chunk::<LEN_HEX>() else { break };
            let Some(name_len) = names.accepted_line(rest) else { break };
            let (name, len) = (rest[..name_len].as_bstr(), LEN_HEX + 1 + name_len + 1);
            if name <= before || text.get(len) == Some(&b'^') || !lines.line(&text[..len], LEN_HEX) {
                break;
            }
            debug_assert!(next + len <= end, "a record ends before the limit, or at it: {next}");
            (before, last, next) = (name, Some(next), next + len);
        }
        (walk.before, walk.last, walk.next) = (before.to_owned(), last, next);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
