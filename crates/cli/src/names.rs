//! Short names of refs. See gitrevisions(7), "refname".

use crate::{
    failure::Result,
    listing::{follow, follow_target},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Cursor, SHORT_NAME_RULES as RULES, Snapshot, Store, TargetView};
use refdb_types::RefName;

/// The name that a rule makes; `None` if it cannot be a ref's.
fn apply((before, after): (&str, &str), name: &BStr) -> Option<RefName> {
    RefName::new([before.as_bytes(), name, after.as_bytes()].concat()).ok()
}

/// The one ref that a short name means; the name itself if there is none, or several.
pub fn expand(snapshot: &dyn Snapshot, short: &BStr) -> BString {
    only(snapshot, short).map_or_else(|| short.to_owned(), Into::into)
}

/// The one ref that a short name means; `None` if there is none, or several.
pub fn only(snapshot: &dyn Snapshot, short: &BStr) -> Option<RefName> {
    let exists = |name: &RefName| matches!(snapshot.get(name), Ok(Some(_)));
    let mut found = RULES.into_iter().filter_map(|rule| apply(rule, short)).filter(exists);
    found.next().filter(|_| found.next().is_none())
}

/// Finds the shortest parts of refnames from which git finds the same refs again.
///
/// Whether a rule finds another ref is answered by a walk of its own for each rule. Names that come in order make these
/// walks go forward. As long as no ref lies between two names there is nothing to do.
pub struct ShortNames<'s> {
    snapshot: &'s dyn Snapshot,
    /// `core.warnAmbiguousRefs`: a short name is found by one rule only; otherwise it suffices that no earlier rule finds
    /// another ref.
    strict: bool,
    walks: [Walk<'s>; RULES.len()],
}

/// Knowledge of the refs around the name that was asked for last.
#[derive(Default)]
struct Walk<'s> {
    cursor: Option<Box<dyn Cursor + 's>>,
    asked: BString,
    /// The first ref that is not less than the wanted name, and whether it leads to an object. `None` if there is none.
    next: Option<(BString, Leads)>,
}

enum Leads {
    ToObject,
    ToRef(BString),
    Nowhere,
}

impl<'s> ShortNames<'s> {
    /// Short names among the refs of `snapshot`.
    pub fn new(snapshot: &'s dyn Snapshot, strict: bool) -> Self {
        ShortNames { snapshot, strict, walks: Default::default() }
    }

    /// The shortest part of a refname.
    pub fn shorten<'n>(&mut self, name: &'n BStr) -> Result<&'n BStr> {
        for (turn, (before, after)) in RULES.into_iter().enumerate().skip(1).rev() {
            let part = name.strip_prefix(before.as_bytes()).and_then(|rest| rest.strip_suffix(after.as_bytes()));
            let Some(short) = part.filter(|short| !short.is_empty()) else { continue };
            let rivals = if self.strict { RULES.len() } else { turn };
            let mut clash = false;
            for other in (0..rivals).filter(|other| *other != turn) {
                clash = clash || self.finds(other, short.as_bstr())?;
            }
            if !clash {
                return Ok(short.as_bstr());
            }
        }
        Ok(name)
    }

    /// Whether a rule makes a name of `short` that leads to an object.
    fn finds(&mut self, rule: usize, short: &BStr) -> Result<bool> {
        let Some(full) = apply(RULES[rule], short) else { return Ok(false) };
        // Cursors do not show all that may lie at the root.
        if full.starts_with(b"refs/")
            && let Ok(leads) = self.walks[rule].find(self.snapshot, full.as_bstr())
        {
            return match leads {
                Leads::ToObject => Ok(true),
                Leads::Nowhere => Ok(false),
                Leads::ToRef(next) => Ok(follow_target(self.snapshot, next.as_bstr())?.is_some()),
            };
        }
        Ok(follow(self.snapshot, full.as_bstr())?.is_some())
    }
}

impl<'s> Walk<'s> {
    /// Where the ref leads. After an error, a broken ref's for instance, the walk begins anew the next time.
    fn find(&mut self, snapshot: &'s dyn Snapshot, name: &BStr) -> refdb::Result<&Leads> {
        let is_between = self.cursor.is_some()
            && self.asked <= name
            && self.next.as_ref().is_none_or(|(next, _)| name <= next.as_bstr());
        if !is_between {
            let mut cursor = match self.cursor.take() {
                Some(cursor) => cursor,
                None => snapshot.cursor(false)?,
            };
            cursor.seek(name)?;
            self.next = cursor.next()?.map(|view| {
                let leads = match view.target {
                    // Also to the null id, which a broken file holds: git finds that ref.
                    TargetView::Direct(_) => Leads::ToObject,
                    TargetView::Symbolic(target) => Leads::ToRef(target.to_owned()),
                };
                (view.name.to_owned(), leads)
            });
            self.cursor = Some(cursor);
            self.asked = name.to_owned();
        }
        Ok(match &self.next {
            Some((next, leads)) if next == name => leads,
            _ => &Leads::Nowhere,
        })
    }
}

/// The branch or commit checked out before the last `nth` checkouts, by HEAD's reflog. `None` if it does not reach back
/// that far.
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
