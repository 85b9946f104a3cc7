//! Checks a stack of reftables: the names of its tables, and the refs in it.

use super::{Check, Looking, Verified, Verifier, Worktree, content::verify_target};
use crate::Result;
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{FormatOptions, OrderedNames, check_format, is_root_syntax};
use reftable::{
    RefEntry, RefRecord, RefValue,
    stack::{Snapshot, Stack, StackOptions},
};
use std::ops::ControlFlow;

pub(super) fn verify(verifier: &mut Verifier<'_>, worktree: &Worktree) -> Result<()> {
    let folder = worktree.folder.join("reftable");
    let write = reftable::WriteOptions::new(verifier.store.hash());
    let stack = Stack::open(verifier.store.fs().clone(), &folder, StackOptions::new(write));
    let snapshot = match stack {
        Ok(stack) => stack.snapshot(),
        Err(error) => {
            (verifier.report)(Verified::Unreadable(worktree.id.clone(), error.to_string()));
            return Ok(());
        }
    };
    for listed in snapshot.tables() {
        let name = listed.name.as_bstr();
        verifier.looking(Looking::Table(name.to_owned()));
        if !is_table_name(name) {
            verifier.fault(name, Check::BadReftableTableName, "invalid reftable table name");
        }
        match listed.table.block_beyond_git() {
            Ok(Some(at)) if !verifier.deep => {
                let text = format!(
                    "git cannot read the block at byte {at}, which is larger than the header says; run `refdb pack-refs`"
                );
                verifier.fault(name, Check::BadReftable, text);
            }
            // A block that cannot be read is reported by the walk over the refs if it has refs, else by the deep check.
            _ => {}
        }
        if verifier.deep {
            for corruption in listed.table.check()? {
                verifier.fault(name, Check::BadReftable, corruption.to_string());
            }
        }
    }
    if let Err(error) = refs(verifier, worktree, &snapshot) {
        (verifier.report)(Verified::Unreadable(worktree.id.clone(), error.to_string()));
    }
    Ok(())
}

/// Returns whether git accepts the name of a table: three hexadecimal numbers with hyphens between them, each of which
/// may be empty or begin with `0x`, then `.ref` or `.log`.
fn is_table_name(name: &BStr) -> bool {
    let number = |text: &[u8]| {
        let digits = text.strip_prefix(b"0x").or(text.strip_prefix(b"0X")).unwrap_or(text);
        digits.iter().all(u8::is_ascii_hexdigit)
    };
    let Some((stem, kind)) = name.split_once_str(".") else { return false };
    let parts: Vec<&[u8]> = stem.split_str("-").collect();
    parts.len() == 3 && parts.into_iter().all(number) && matches!(kind, b"ref" | b"log")
}

fn refs(verifier: &mut Verifier<'_>, worktree: &Worktree, snapshot: &Snapshot) -> Result<()> {
    let mut names = OrderedNames::default();
    let mut verified = Ok(());
    let walked = snapshot.merged().refs().for_each(|entry| {
        if !is_faultless(&mut names, entry, verifier.deep) {
            verified = one(verifier, worktree, &entry.record());
        }
        if verified.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    debug_assert_eq!(walked.is_break(), verified.is_err(), "no ref is left out");
    verified
}

/// Returns whether a ref needs no further check, which without `deep` is the case for almost all refs.
#[inline(always)]
fn is_faultless(names: &mut OrderedNames, entry: &RefEntry<'_>, deep: bool) -> bool {
    !deep && names.accept_full(entry.name()) && entry.direct().is_some_and(|id| !id.is_null())
}

fn one(verifier: &mut Verifier<'_>, worktree: &Worktree, record: &RefRecord<'_>) -> Result<()> {
    let name = record.name;
    let place = BString::from([&worktree.prefix[..], name].concat());
    let place = place.as_bstr();
    // A name such as `TEMP_TAG`, which `git update-ref` can create, is no fault, as in files.
    if !is_root_syntax(name) && check_format(name, FormatOptions::default()).is_err() {
        verifier.fault(place, Check::BadRefName, "invalid refname format");
    }
    match record.value {
        RefValue::Symbolic(target) => verify_target(verifier, place, name, target),
        RefValue::Direct(id) | RefValue::Peeled { target: id, .. } => {
            if id.is_null() {
                verifier.fault(place, Check::BadRefOid, format!("points to invalid object ID '{id}'"));
            }
            verifier.object(place, name, &id)?;
        }
        RefValue::Deletion => {}
    }
    Ok(())
}
