//! Converts records to the values of the backend interface.

use crate::{Error, RefView, Result, TargetView, backend::Peeled};
use bstr::BStr;
use refdb_types::{RefName, Target};
use reftable::{RefRecord, RefValue};

/// Converts a record to a view; `None` for a tombstone.
#[inline]
pub(super) fn view<'a>(record: &RefRecord<'a>) -> Option<RefView<'a>> {
    let (target, peeled) = match record.value {
        RefValue::Deletion => return None,
        RefValue::Direct(id) => (TargetView::Direct(id), Peeled::NotTag),
        RefValue::Peeled { target, peeled } => (TargetView::Direct(target), Peeled::To(peeled)),
        RefValue::Symbolic(target) => (TargetView::Symbolic(target), Peeled::NotTag),
    };
    Some(RefView { name: record.name, target, peeled })
}

/// Converts a record, which must not be a tombstone, to the target of the ref.
pub(super) fn owned(name: &BStr, record: &RefRecord<'_>) -> Result<Target> {
    match record.value {
        RefValue::Symbolic(target) => match RefName::new_safe(target.to_vec()) {
            Some(target) => Ok(Target::Symbolic(target)),
            None => Err(Error::BadTarget { name: name.to_owned(), target: target.to_owned() }),
        },
        RefValue::Direct(id) | RefValue::Peeled { target: id, .. } => Ok(Target::Direct(id)),
        RefValue::Deletion => unreachable!("'{name}' was read although it is deleted"),
    }
}
