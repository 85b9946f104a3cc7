//! Walking over refs as show-ref and for-each-ref do: symbolic refs followed, broken refs told apart.

use crate::{
    failure::Result,
    for_each_ref::{patterns::Ranges, render::Row},
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Cursor, RefView, Snapshot, Target, TargetView, backend::Peeled};
use refdb_types::{FormatOptions, ObjectId, RefName, SYMREF_DEPTH_MAX, check_format};
use std::ops::ControlFlow;

/// Where to walk.
#[derive(Debug)]
pub struct Walk<'a> {
    /// The parts of the list.
    pub ranges: &'a Ranges,
    /// Also `HEAD` and its kin.
    pub root_refs: bool,
    /// Only what comes after this name.
    pub after: Option<&'a BStr>,
}

/// A ref that cannot be used.
#[derive(Clone, Copy, Debug)]
pub enum Broken<'a> {
    /// Its content is no value, or the null id.
    Content(&'a BStr),
    /// Its name is none that git would make.
    Name(&'a BStr),
}

/// Whoever is shown the refs.
pub trait Visitor {
    /// Whether the ref is wanted: asked before a symbolic ref is followed.
    fn wants(&mut self, name: &BStr) -> bool;

    /// A ref that leads to an object. Dangling symbolic refs are passed over.
    fn row(&mut self, row: &Row<'_>) -> Result<ControlFlow<()>>;

    /// A ref that cannot be used.
    fn broken(&mut self, broken: Broken<'_>) -> Result<()>;

    /// The name of the ref that an error of the store is about, if the walk can go on without it.
    fn name_of(&self, error: &refdb::Error) -> Option<BString>;
}

/// Shows all refs of a walk in order of name.
pub fn walk(snapshot: &dyn Snapshot, walk: &Walk<'_>, visitor: &mut dyn Visitor) -> Result<()> {
    let mut cursor = snapshot.cursor(walk.root_refs)?;
    let mut names = Names::default();
    let all = [BString::default()];
    let prefixes = match walk.ranges {
        Ranges::All => &all[..],
        Ranges::Prefixes(prefixes) => prefixes,
    };
    for prefix in prefixes {
        let start = walk.after.map_or(prefix.as_bstr(), |after| after.max(prefix.as_bstr()));
        if !start.is_empty() {
            cursor.seek(start)?;
        }
        if range(snapshot, &mut *cursor, prefix.as_bstr(), walk, &mut names, visitor)?.is_break() {
            break;
        }
    }
    Ok(())
}

fn range(
    snapshot: &dyn Snapshot,
    cursor: &mut dyn Cursor,
    prefix: &BStr,
    walk: &Walk<'_>,
    names: &mut Names,
    visitor: &mut dyn Visitor,
) -> Result<ControlFlow<()>> {
    loop {
        let view = match cursor.next() {
            Ok(Some(view)) => view,
            Ok(None) => return Ok(ControlFlow::Continue(())),
            Err(error) => match visitor.name_of(&error) {
                Some(name) => {
                    if visitor.wants(name.as_bstr()) {
                        visitor.broken(Broken::Content(name.as_bstr()))?;
                    }
                    continue;
                }
                None => return Err(error.into()),
            },
        };
        if !view.name.starts_with(prefix) {
            return Ok(ControlFlow::Continue(()));
        }
        if walk.after == Some(view.name) || !visitor.wants(view.name) {
            continue;
        }
        if !names.is_well_formed(view.name) {
            visitor.broken(Broken::Name(view.name))?;
        } else if show(snapshot, &view, visitor)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
}

fn show(snapshot: &dyn Snapshot, view: &RefView<'_>, visitor: &mut dyn Visitor) -> Result<ControlFlow<()>> {
    match view.target {
        TargetView::Direct(id) if id.is_null() => visitor.broken(Broken::Content(view.name))?,
        TargetView::Direct(id) => {
            return visitor.row(&Row { name: view.name, id, symref: None, peeled: view.peeled });
        }
        TargetView::Symbolic(target) => {
            if let Some((end, id)) = follow(snapshot, target)? {
                let row = Row { name: view.name, id, symref: Some(end.as_bstr()), peeled: Peeled::Unknown };
                return visitor.row(&row);
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Checks the format of names that come in order, and so mostly differ from the one before in their last bytes.
#[derive(Default)]
struct Names {
    /// The last name that was well formed.
    before: Vec<u8>,
}

impl Names {
    fn is_well_formed(&mut self, name: &[u8]) -> bool {
        let common = common_prefix_len(&self.before, name);
        let rest = &name[common..];
        // Bytes that no rule speaks of cannot spoil what was good without them, unless they complete ".lock".
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let good = (common > 0 && !rest.is_empty() && rest.iter().all(plain) && !name.ends_with(b".lock"))
            || check_format(name, FormatOptions { allow_onelevel: true, refspec_pattern: false }).is_ok();
        if good {
            self.before.truncate(common);
            self.before.extend_from_slice(rest);
        }
        good
    }
}

fn common_prefix_len(one: &[u8], two: &[u8]) -> usize {
    let chunks = one.as_chunks::<8>().0.iter().zip(two.as_chunks::<8>().0).take_while(|(one, two)| one == two).count();
    let start = chunks * 8;
    start + one[start..].iter().zip(&two[start..]).take_while(|(one, two)| one == two).count()
}

/// The end of a chain of symbolic refs, if it leads to an object.
pub fn follow(snapshot: &dyn Snapshot, target: &BStr) -> Result<Option<(RefName, ObjectId)>> {
    let mut name = match RefName::new(target.to_vec()) {
        Ok(name) => name,
        Err(_) => return Ok(None),
    };
    for _ in 0..SYMREF_DEPTH_MAX {
        match snapshot.get(name.as_bstr()) {
            Ok(Some(Target::Direct(id))) => return Ok((!id.is_null()).then_some((name, id))),
            Ok(Some(Target::Symbolic(next))) => name = next,
            // What cannot be read leads nowhere.
            Ok(None) | Err(refdb::Error::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_judged_alike_whatever_came_before_it() {
        let parts =
            ["a", "b", ".", "/", "@", "{", "lock", ".loc", "k", "-", "_", "*", " ", "refs/heads/", "feature", "\u{e9}"];
        let any_level = FormatOptions { allow_onelevel: true, refspec_pattern: false };
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..2000 {
            let mut names: Vec<String> = Vec::new();
            for _ in 0..30 {
                let mut name = String::new();
                for _ in 0..=random % 6 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    name.push_str(parts[(random >> 32) as usize % parts.len()]);
                }
                names.push(name);
            }
            names.sort();
            let mut checker = Names::default();
            for name in &names {
                let expected = check_format(name.as_bytes(), any_level).is_ok();
                assert_eq!(checker.is_well_formed(name.as_bytes()), expected, "{name} of {names:?}");
            }
        }
    }
}
