//! Finds what others did to the refs between their copy and the moment when the old files were moved away.

use super::{Result, to_reftable::Base};
use crate::{
    Backend, Error, TargetView,
    files::{FilesBackend, Walked},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{RefName, Target};
use reftable::{Merged, RefRecord, RefValue};

/// A change of one ref. Tags are peeled again when the change is written.
pub(super) struct LateRef {
    pub(super) name: BString,
    pub(super) was: Option<Target>,
    pub(super) now: Option<Target>,
    pub(super) is_broken: bool,
}

impl LateRef {
    /// Creates the change of a ref that the files have, where `now` is `None` if the ref cannot be read.
    fn new(name: &BStr, was: Option<Target>, now: Option<TargetView<'_>>) -> Self {
        let now = now.and_then(TargetView::to_target);
        let is_broken = now.is_none() || RefName::new_safe(name.to_vec()).is_none();
        LateRef { name: name.to_owned(), was, now, is_broken }
    }

    /// Creates the change of a ref that the files no longer have.
    fn gone(name: &BStr, was: Option<Target>) -> Self {
        LateRef { name: name.to_owned(), was, now: None, is_broken: false }
    }
}

/// Returns the refs in which the old files differ from the copy, in order of name.
pub(super) fn late_refs(old: &FilesBackend, base: &Base<'_>) -> Result<Vec<LateRef>> {
    let late = match base.copied.and_then(|copied| copied.refs.as_ref()) {
        Some(walked) if old.has_packed_of(walked)? => among_loose(old, base.merged, walked)?,
        _ => among_all(old, base.merged)?,
    };
    debug_assert!(late.is_sorted_by(|a: &LateRef, b| a.name < b.name), "records are added in order");
    Ok(late)
}

/// Finds late refs in the case that packed-refs has not changed, where only refs that were or are loose can differ.
fn among_loose(old: &FilesBackend, base: &Merged, walked: &Walked) -> Result<Vec<LateRef>> {
    let (snapshot, mut late) = (old.snapshot()?, Vec::new());
    let mut before = walked.loose.iter().peekable();
    // A ref that is no longer loose may be packed.
    let look_behind = |name: &BString| match snapshot.get(name.as_bstr()) {
        Ok(packed) => late_ref(base, name.as_bstr(), packed.as_ref().map(TargetView::from)),
        Err(error) => Err(error),
    };
    old.for_each_loose(&mut |found| {
        let (name, target) = match &found {
            Ok(view) => (view.name, Some(view.target)),
            Err(broken) => (broken.name.as_bstr(), None),
        };
        while let Some(gone) = before.next_if(|before| before.as_bstr() < name) {
            late.extend(look_behind(gone)?);
        }
        before.next_if(|before| before.as_bstr() == name);
        late.extend(match target {
            Some(target) => late_ref(base, name, Some(target))?,
            None => Some(LateRef::new(name, in_copy(base, name)?, None)),
        });
        Ok(())
    })?;
    for gone in before {
        late.extend(look_behind(gone)?);
    }
    Ok(late)
}

/// Returns the change of a ref, if its current value differs from that in the copy.
fn late_ref(base: &Merged, name: &BStr, now: Option<TargetView<'_>>) -> Result<Option<LateRef>, Error> {
    let was = in_copy(base, name)?;
    Ok(match now {
        Some(now) if was.as_ref().map(TargetView::from) == Some(now) => None,
        Some(now) => Some(LateRef::new(name, was, Some(now))),
        None => was.map(|was| LateRef::gone(name, Some(was))),
    })
}

fn in_copy(base: &Merged, name: &BStr) -> Result<Option<Target>, Error> {
    Ok(base.get(name, |record| target_of(&record))?.flatten())
}

/// Finds late refs by walking over the files and the copy side by side, since both are sorted.
fn among_all(old: &FilesBackend, base: &Merged) -> Result<Vec<LateRef>> {
    let mut late = Vec::new();
    let mut cursor = base.refs();
    cursor.advance()?;
    old.for_each_own(&mut |found| {
        let (name, target) = match &found {
            Ok(view) => (view.name, Some(view.target)),
            Err(broken) => (broken.name.as_bstr(), None),
        };
        let mut was = None;
        while let Some(record) = cursor.current() {
            let order = record.name.cmp(name);
            if order.is_gt() {
                break;
            }
            if order.is_eq() && target.is_some_and(|target| is_same(&record, target)) {
                cursor.advance()?;
                return Ok(());
            }
            let value = target_of(&record);
            if order.is_lt() {
                late.push(LateRef::gone(record.name, value));
            } else {
                was = value;
            }
            cursor.advance()?;
        }
        late.push(LateRef::new(name, was, target));
        Ok(())
    })?;
    while let Some(record) = cursor.current() {
        late.push(LateRef::gone(record.name, target_of(&record)));
        cursor.advance()?;
    }
    Ok(late)
}

fn is_same(record: &RefRecord<'_>, target: TargetView<'_>) -> bool {
    match (record.value, target) {
        (RefValue::Direct(id) | RefValue::Peeled { target: id, .. }, TargetView::Direct(now)) => id == now,
        (RefValue::Symbolic(name), TargetView::Symbolic(now)) => name == now,
        _ => false,
    }
}

pub(super) fn target_of(record: &RefRecord<'_>) -> Option<Target> {
    match record.value {
        RefValue::Deletion => None,
        RefValue::Direct(id) | RefValue::Peeled { target: id, .. } => Some(Target::Direct(id)),
        RefValue::Symbolic(name) => RefName::new_safe(name.to_vec()).map(Target::Symbolic),
    }
}
