//! Copies one worktree's refs and reflogs from a stack into files.

use super::{Ticker, place::Place};
use crate::{
    Error, Result, TargetView, Unfit,
    backend::LogLine,
    files::{FreshFiles, Lines},
};
use bstr::{BStr, BString};
use refdb_types::{Ident, OrderedNames, RefName, Scope, is_pseudo, is_root_ref};
use reftable::{LogRecord, LogValue, Merged, RefEntry, RefValue};
use std::ops::ControlFlow;

/// Writes all refs, and the reflogs if wanted, into fresh files. Returns whether they are on stable storage.
pub(super) fn copy(
    merged: &Merged,
    place: &Place,
    mut files: FreshFiles,
    reflogs: bool,
    ticker: &mut Ticker<'_>,
) -> Result<bool> {
    let mut unfit = Unfit::default();
    copy_refs(merged, place, &mut files, &mut unfit, ticker)?;
    if reflogs {
        copy_logs(merged, place, &mut files, &mut unfit, ticker)?;
    }
    unfit.check()?;
    files.finish()
}

fn copy_refs(
    merged: &Merged,
    place: &Place,
    files: &mut FreshFiles,
    unfit: &mut Unfit,
    ticker: &mut Ticker<'_>,
) -> Result<()> {
    let mut names = OrderedNames::default();
    let mut failed = Ok(());
    let _ = merged.refs().for_each(|entry| {
        failed = ticker.pass().and_then(|()| copy_ref(entry, place, &mut names, files, unfit));
        if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    failed
}

fn copy_ref(
    entry: &RefEntry<'_>,
    place: &Place,
    names: &mut OrderedNames,
    files: &mut FreshFiles,
    unfit: &mut Unfit,
) -> Result<()> {
    let name = entry.name();
    match belongs(place, name) {
        Belongs::Here if names.accept(name) => {
            debug_assert!(!is_pseudo(name), "the file of this name is no ref: {name}");
        }
        Belongs::Unseen => return Ok(()),
        Belongs::Here | Belongs::Nowhere => {
            unfit.add(format_args!("{name}: no ref can have that name among files"));
            return Ok(());
        }
    }
    let put = match entry.record().value {
        RefValue::Deletion => return Ok(()),
        RefValue::Direct(id) if id.is_null() => {
            unfit.add(format_args!("{name}: holds the null id"));
            return Ok(());
        }
        // Git marks no tag that it migrates: only a look at the object tells.
        RefValue::Direct(id) => {
            let peeled = files.peel(&id)?;
            files.put(name, TargetView::Direct(id), peeled)
        }
        RefValue::Peeled { target, peeled } => files.put(name, TargetView::Direct(target), Some(peeled)),
        RefValue::Symbolic(target) if RefName::new_safe(target.to_vec()).is_none() => {
            unfit.add(format_args!("{name}: leads to '{target}', which no ref can be called"));
            return Ok(());
        }
        RefValue::Symbolic(target) => files.put(name, TargetView::Symbolic(target), None),
    };
    note_unfit(put, name, "", unfit)
}

/// A name that no file can have concerns its ref only.
fn note_unfit(put: Result<()>, name: &BStr, of: &str, unfit: &mut Unfit) -> Result<()> {
    match put {
        Err(Error::Io(error))
            if error.is_too_long() || error.is_exists() || error.is_folder() || error.is_not_found() =>
        {
            unfit.add(format_args!("{of}{name}: {error}"));
            Ok(())
        }
        put => put,
    }
}

/// Whether a stack's record is one of its worktree.
enum Belongs {
    Here,
    /// A linked worktree sees the shared refs of the main stack, not those in its own.
    Unseen,
    Nowhere,
}

fn belongs(place: &Place, name: &BStr) -> Belongs {
    let is_ref = name.starts_with(b"refs/") || is_root_ref(name);
    match Scope::of(name) {
        Scope::Shared if place.id.is_some() => Belongs::Unseen,
        // The file of this name is another thing.
        Scope::Worktree if is_pseudo(name) => Belongs::Unseen,
        Scope::Shared | Scope::Worktree if is_ref => Belongs::Here,
        Scope::Worktree if !name.contains(&b'/') => Belongs::Here,
        Scope::Shared | Scope::Worktree | Scope::Main(_) | Scope::Other { .. } => Belongs::Nowhere,
    }
}

fn copy_logs(
    merged: &Merged,
    place: &Place,
    files: &mut FreshFiles,
    unfit: &mut Unfit,
    ticker: &mut Ticker<'_>,
) -> Result<()> {
    let mut cursor = merged.logs();
    let mut current: Option<BString> = None;
    let mut lines = Lines::default();
    loop {
        let record = cursor.next()?;
        let name = record.as_ref().map(|record| record.name);
        if let Some(done) = current.as_ref()
            && name != Some(done.as_ref())
        {
            put_log(place, done.as_ref(), &lines, files, unfit)?;
            lines.clear();
            current = None;
        }
        let Some(record) = record else { return Ok(()) };
        ticker.pass()?;
        debug_assert!(current.as_ref().is_none_or(|name| name == record.name), "a reflog's entries follow one another");
        if current.is_none() {
            current = Some(record.name.to_owned());
        }
        push(&record, &mut lines);
    }
}

fn put_log(place: &Place, name: &BStr, lines: &Lines, files: &mut FreshFiles, unfit: &mut Unfit) -> Result<()> {
    match belongs(place, name) {
        Belongs::Here if RefName::new_safe(name.to_vec()).is_some() => {
            note_unfit(files.put_log(name, lines), name, "the reflog of ", unfit)
        }
        Belongs::Unseen => Ok(()),
        Belongs::Here | Belongs::Nowhere => {
            unfit.add(format_args!("the reflog of {name}: no ref can have that name among files"));
            Ok(())
        }
    }
}

/// Adds an entry's line, unless it only marks that the reflog exists.
fn push(record: &LogRecord<'_>, lines: &mut Lines) {
    let LogValue::Update { old, new, name, email, time_seconds, tz_offset, message } = record.value else { return };
    if old.is_null() && new.is_null() {
        return;
    }
    let committer = Ident { name: name.to_owned(), email: email.to_owned(), time_seconds, offset_decimal: tz_offset };
    let message = message.strip_suffix(b"\n").unwrap_or(message);
    lines.push(&LogLine { old, new, committer: &committer, message: message.into() });
}
