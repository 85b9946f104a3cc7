//! Short names of refs. See gitrevisions(7), "refname".

use crate::{
    failure::Result,
    listing::{follow, follow_target},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Cursor, SHORT_NAME_RULES as RULES, Snapshot, TargetView};
use refdb_types::RefName;

/// Applies a rule to a short name. Returns `None` if the result cannot be a refname.
fn apply((before, after): (&str, &str), name: &BStr) -> Option<RefName> {
    RefName::new([before.as_bytes(), name, after.as_bytes()].concat()).ok()
}

/// Returns the one ref that a short name means, or the name itself if it means no ref or several.
pub fn expand(snapshot: &dyn Snapshot, short: &BStr) -> BString {
    only(snapshot, short).map_or_else(|| short.to_owned(), Into::into)
}

/// Returns the one ref that a short name means, or `None` if it means no ref or several.
pub fn only(snapshot: &dyn Snapshot, short: &BStr) -> Option<RefName> {
    let exists = |name: &RefName| matches!(snapshot.get(name), Ok(Some(_)));
    let mut found = RULES.into_iter().filter_map(|rule| apply(rule, short)).filter(exists);
    found.next().filter(|_| found.next().is_none())
}

/// Finds short names: the shortest part of a refname from which git finds the same ref again.
///
/// For each rule, a separate walk over the refs answers whether the rule finds another ref. While a walk is asked for
/// names in order, it need not move if no ref lies between one name and the next.
pub struct ShortNames<'s> {
    snapshot: &'s dyn Snapshot,
    /// Whether only one rule may find a ref (`core.warnAmbiguousRefs`). Otherwise it suffices that no earlier rule
    /// finds another one.
    strict: bool,
    walks: [Walk<'s>; RULES.len()],
}

/// A walk over the refs, and what is known of the refs around the name for which it last moved.
#[derive(Default)]
struct Walk<'s> {
    cursor: Option<Box<dyn Cursor + 's>>,
    asked: BString,
    /// The first ref whose name is not less than `asked`, and where it leads. `None` if there is no such ref.
    next: Option<(BString, Leads)>,
}

enum Leads {
    ToObject,
    ToRef(BString),
    Nowhere,
}

impl<'s> ShortNames<'s> {
    /// Finds short names among the refs of `snapshot`.
    pub fn new(snapshot: &'s dyn Snapshot, strict: bool) -> Self {
        ShortNames { snapshot, strict, walks: Default::default() }
    }

    /// Returns the shortest part of a refname from which git finds the same ref.
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

    /// Returns whether a rule turns `short` into the name of a ref that leads to an object.
    fn finds(&mut self, rule: usize, short: &BStr) -> Result<bool> {
        let Some(full) = apply(RULES[rule], short) else { return Ok(false) };
        // Cursors do not visit everything that may be at the root.
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
    /// Returns where the ref leads. After an error, such as a broken ref, the walk starts again the next time.
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
                    // The null id in a broken file is accepted too, because git finds that ref.
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
