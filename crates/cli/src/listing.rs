//! Walks over refs as show-ref and for-each-ref do: symbolic refs are followed, and broken refs are reported
//! separately.

use crate::failure::Result;
use bstr::{BStr, BString, ByteSlice};
use refdb::{
    Cursor, RefView, Snapshot, Target, TargetView,
    backend::{Lines, Peeled},
};
use refdb_types::{FormatOptions, ObjectId, OrderedNames, RefName, SYMREF_DEPTH_MAX, check_format, is_below};
use std::ops::ControlFlow;

/// The part of the refs that has to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ranges {
    /// All refs.
    All,
    /// Refs that begin with one of these prefixes, which are sorted and do not overlap.
    Prefixes(Vec<BString>),
}

/// Where to walk.
#[derive(Debug)]
pub struct Walk<'a> {
    /// The part of the refs to read.
    pub ranges: &'a Ranges,
    /// Whether `HEAD` and other root refs are listed too.
    pub root_refs: bool,
    /// Only refs after this name are listed.
    pub after: Option<&'a BStr>,
}

/// A ref that is shown, with symbolic refs followed.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The refname.
    pub name: &'a BStr,
    /// The object at the end of the chain of symbolic refs.
    pub id: &'a ObjectId,
    /// The ref at the end of the chain, if this ref is symbolic.
    pub symref: Option<&'a BStr>,
    /// What the store knows about the object to which a tag leads.
    pub peeled: &'a Peeled,
}

/// A ref that cannot be used.
#[derive(Clone, Copy, Debug)]
pub enum Broken<'a> {
    /// The content of this ref is the null id or not a valid value, or the ref, or a folder of refs of this name,
    /// cannot be read.
    Content(&'a BStr),
    /// Git would not create a ref of this name.
    Name(&'a BStr),
}

/// Receives the refs of a listing one by one.
pub trait Visitor {
    /// Returns whether the ref is wanted. It is called before a symbolic ref is followed.
    fn wants(&mut self, name: &BStr) -> bool;

    /// Returns whether an unusable ref should be reported.
    fn wants_broken(&mut self, name: &BStr) -> bool {
        self.wants(name)
    }

    /// Receives a ref that leads to an object. Dangling symbolic refs are skipped.
    fn row(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>>;

    /// Receives a ref that cannot be used.
    fn broken(&mut self, broken: Broken<'_>) -> Result<()>;

    /// Returns whether the visitor accepts lines of packed-refs, if the whole list is read.
    fn takes_lines(&self) -> bool {
        false
    }

    /// Accepts a line of packed-refs that starts with `digits` digits and has a valid name, or returns `false`. The ref
    /// of a line that is not accepted is treated like one that was not read from a line.
    fn line(&mut self, _line: &[u8], _digits: usize) -> bool {
        false
    }

    /// Whether [`Visitor::take`] may accept a ref.
    const TAKES: bool = false;

    /// Accepts a ref with a valid name that holds this object, or returns `false`, for example because something has to
    /// be looked up for the ref. For a ref that is not accepted, [`Visitor::wants`] is called next. The result has no
    /// room for an error, because that is cheaper for millions of refs.
    fn take(&mut self, _name: &BStr, _id: &ObjectId) -> bool {
        false
    }
}

/// Visits the refs of a walk in order of name.
pub fn walk(snapshot: &dyn Snapshot, walk: &Walk<'_>, visitor: &mut impl Visitor) -> Result<()> {
    let mut cursor = snapshot.cursor(walk.root_refs)?;
    let all = [BString::default()];
    let mut prefixes = match walk.ranges {
        Ranges::All => &all[..],
        Ranges::Prefixes(prefixes) => prefixes,
    };
    let mut above = None;
    while let [prefix, rest @ ..] = prefixes {
        let start = walk.after.map_or(prefix.as_bstr(), |after| after.max(prefix.as_bstr()));
        if !start.is_empty() {
            cursor.seek(start)?;
        }
        if stretch(snapshot, &mut *cursor, &mut prefixes, walk.after, &mut above, visitor)?.is_break() {
            break;
        }
        // Each round drops at least one prefix, so the walk ends even if an unsorted packed-refs leads backwards.
        if prefixes.len() > rest.len() {
            prefixes = rest;
        }
    }
    Ok(())
}

/// Visits the refs that begin with the first of the prefixes, at which the cursor stands. Continues with the next
/// prefix if the next ref begins with it, and leaves prefixes that are further ahead to the caller. `above` is the
/// unreadable folder above a prefix that the visitor was last told of. The cursor names it again after each seek.
fn stretch<V: Visitor>(
    snapshot: &dyn Snapshot,
    cursor: &mut dyn Cursor,
    prefixes: &mut &[BString],
    after: Option<&BStr>,
    above: &mut Option<BString>,
    visitor: &mut V,
) -> Result<ControlFlow<()>> {
    let is_bounded = after.is_some() || prefixes.iter().any(|prefix| !prefix.is_empty());
    let names = OrderedNames::default();
    let mut showing = Showing { snapshot, names, visitor, stopped: Ok(ControlFlow::Continue(())) };
    loop {
        let walked = if is_bounded {
            cursor.for_each(&mut |view| {
                if !hold(prefixes, view.name) {
                    return ControlFlow::Break(());
                }
                if after == Some(view.name) { ControlFlow::Continue(()) } else { showing.view(view) }
            })
        } else if showing.visitor.takes_lines() {
            cursor.for_each_line(&mut showing)
        } else {
            cursor.for_each(&mut |view| showing.view(view))
        };
        match walked {
            Ok(flow) => {
                if flow.is_continue() {
                    // No ref follows the last one.
                    *prefixes = &[];
                }
                return showing.stopped;
            }
            Err(refdb::Error::BrokenRef(broken)) => {
                let name = broken.name.as_bstr();
                if after == Some(name) {
                    continue;
                }
                // A folder that may not be read is named before the refs in it.
                if is_bounded && prefixes.first().is_some_and(|prefix| is_below(prefix, name)) {
                    if above.as_ref().is_some_and(|above| above == name) {
                        continue;
                    }
                    *above = Some(name.to_owned());
                } else if is_bounded && !hold(prefixes, name) {
                    return Ok(ControlFlow::Continue(()));
                }
                let visitor = &mut *showing.visitor;
                if visitor.wants_broken(name) {
                    let any_level = FormatOptions { allow_onelevel: true, refspec_pattern: false };
                    let is_valid = check_format(name, any_level).is_ok();
                    visitor.broken(if is_valid { Broken::Content(name) } else { Broken::Name(name) })?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Drops the prefixes of which no further name can follow, as the walk has reached `name`, and returns whether `name`
/// begins with the first of the remaining ones.
fn hold(prefixes: &mut &[BString], name: &BStr) -> bool {
    while let [prefix, rest @ ..] = *prefixes {
        if name.starts_with(prefix) {
            return true;
        }
        if name < prefix.as_bstr() {
            return false;
        }
        *prefixes = rest;
    }
    false
}

/// A run of refs that is being visited.
struct Showing<'a, V> {
    snapshot: &'a dyn Snapshot,
    names: OrderedNames,
    visitor: &'a mut V,
    /// The error, or the visitor's `Break`, that ended the run before its last ref.
    stopped: Result<ControlFlow<()>>,
}

impl<V: Visitor> Lines for Showing<'_, V> {
    fn line(&mut self, line: &[u8], digits: usize) -> bool {
        self.visitor.line(line, digits)
    }

    #[inline(always)]
    fn view(&mut self, view: &RefView<'_>) -> ControlFlow<()> {
        if !V::TAKES {
            return self.show(view);
        }
        match &view.target {
            TargetView::Direct(id) if self.names.accept(view.name) && self.visitor.take(view.name, id) => {
                ControlFlow::Continue(())
            }
            _ => self.show_at_length(view),
        }
    }
}

impl<V: Visitor> Showing<'_, V> {
    #[inline(never)]
    fn show_at_length(&mut self, view: &RefView<'_>) -> ControlFlow<()> {
        self.show(view)
    }

    #[inline(always)]
    fn show(&mut self, view: &RefView<'_>) -> ControlFlow<()> {
        let shown = show(self.snapshot, view, &mut self.names, self.visitor);
        if matches!(shown, Ok(ControlFlow::Continue(()))) {
            return ControlFlow::Continue(());
        }
        self.stopped = shown;
        ControlFlow::Break(())
    }
}

#[inline(always)]
fn show(
    snapshot: &dyn Snapshot,
    view: &RefView<'_>,
    names: &mut OrderedNames,
    visitor: &mut impl Visitor,
) -> Result<ControlFlow<()>> {
    let is_wanted = visitor.wants(view.name);
    if !is_wanted && !visitor.wants_broken(view.name) {
        return Ok(ControlFlow::Continue(()));
    }
    if !names.accept(view.name) {
        visitor.broken(Broken::Name(view.name))?;
        return Ok(ControlFlow::Continue(()));
    }
    match &view.target {
        TargetView::Direct(id) if id.is_null() => visitor.broken(Broken::Content(view.name))?,
        _ if !is_wanted => {}
        TargetView::Direct(id) => {
            return visitor.row(&Row { name: view.name, id, symref: None, peeled: &view.peeled });
        }
        TargetView::Symbolic(target) => {
            if let Some((end, id)) = follow_target(snapshot, target)? {
                let row = Row { name: view.name, id: &id, symref: Some(end.as_bstr()), peeled: &Peeled::Unknown };
                return visitor.row(&row);
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Follows a ref, symbolic or not, and returns the ref at the end of the chain and its object, if it leads to one.
pub fn follow(snapshot: &dyn Snapshot, name: &BStr) -> Result<Option<(RefName, ObjectId)>> {
    Ok(follow_to_null(snapshot, name)?.filter(|(_, id)| !id.is_null()))
}

/// Follows a ref as [`follow`] does, but also returns the end of a chain that holds the null id.
pub fn follow_to_null(snapshot: &dyn Snapshot, name: &BStr) -> Result<Option<(RefName, ObjectId)>> {
    follow_at_most(SYMREF_DEPTH_MAX, snapshot, name)
}

/// Follows a symbolic ref whose `target` is known already, so that one step less is left.
pub fn follow_target(snapshot: &dyn Snapshot, target: &BStr) -> Result<Option<(RefName, ObjectId)>> {
    Ok(follow_at_most(SYMREF_DEPTH_MAX - 1, snapshot, target)?.filter(|(_, id)| !id.is_null()))
}

fn follow_at_most(refs_max: usize, snapshot: &dyn Snapshot, name: &BStr) -> Result<Option<(RefName, ObjectId)>> {
    let mut name = match RefName::new(name.to_vec()) {
        Ok(name) => name,
        Err(_) => return Ok(None),
    };
    for _ in 0..refs_max {
        match snapshot.get(name.as_bstr()) {
            Ok(Some(Target::Direct(id))) => return Ok(Some((name, id))),
            Ok(Some(Target::Symbolic(next))) => name = next,
            // A ref that is missing or cannot be read leads nowhere.
            Ok(None) => return Ok(None),
            Err(error) if error.is_broken_ref() => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_dropped_once_all_their_names_are_behind() {
        let all: Vec<BString> = ["a/1", "a/2", "b/", "c"].map(BString::from).into();
        let mut prefixes = &all[..];
        for (name, expected, left) in [
            ("a/0", false, 4),
            ("a/1", true, 4),
            ("a/1x", true, 4),
            ("a/2", true, 3),
            ("a/3", false, 2),
            ("b", false, 2),
            ("b0", false, 1),
            ("cc", true, 1),
            ("d", false, 0),
            ("e", false, 0),
        ] {
            assert_eq!((hold(&mut prefixes, name.into()), prefixes.len()), (expected, left), "{name}");
        }
    }
}
