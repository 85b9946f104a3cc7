//! Copies one worktree's refs and reflogs from a stack into files.

use super::{Result, Ticker, levels::Levels, place::Place};
use crate::{
    Error, TargetView, Unfit,
    backend::LogLine,
    files::{FreshFiles, Lines},
};
use bstr::{BStr, BString};
use refdb_types::{Ident, OrderedNames, RefName, Scope, is_pseudo, is_root_ref};
use reftable::{LogRecord, LogValue, Merged, RefEntry, RefValue};
use std::ops::ControlFlow;

/// Writes all refs that readers see, and the reflogs if these are kept, to fresh files. Returns whether the files are
/// on stable storage. Counts the entries that are left out because they have neither an old nor a new value.
pub(super) fn copy(
    merged: &Merged,
    place: &Place,
    files: FreshFiles,
    reflogs: bool,
    left_out: &mut u64,
    ticker: &mut Ticker<'_>,
) -> Result<bool> {
    let mut copy = Copying { place, files, unfit: Unfit::default(), left_out, ticker };
    copy.refs(merged)?;
    if reflogs {
        copy.logs(merged)?;
    }
    copy.unfit.check()?;
    Ok(copy.files.finish()?)
}

/// The files of a worktree that are being written.
struct Copying<'a, 'p> {
    place: &'a Place,
    files: FreshFiles,
    /// The refs and reflogs that cannot be stored in files.
    unfit: Unfit,
    left_out: &'a mut u64,
    ticker: &'a mut Ticker<'p>,
}

impl Copying<'_, '_> {
    fn refs(&mut self, merged: &Merged) -> Result<()> {
        let (mut names, mut levels) = (OrderedNames::default(), Levels::default());
        let mut failed = Ok(());
        let _ = merged.refs().for_each(|entry| {
            failed = self.ticker.pass().and_then(|()| self.put(entry, &mut names, &mut levels));
            if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(failed?)
    }

    fn put(&mut self, entry: &RefEntry<'_>, names: &mut OrderedNames, levels: &mut Levels) -> Result<(), Error> {
        let name = entry.name();
        // Almost all refs are of this kind.
        if self.place.id.is_none()
            && name.starts_with(b"refs/")
            && Scope::of(name) == Scope::Shared
            && let Some(id) = entry.direct()
            && !id.is_null()
            && names.accept(name)
        {
            return match levels.pass(name) {
                None => self.files.put_packed(name, &id),
                Some(above) => {
                    self.unfit.add(format_args!("{name}: cannot stand beside {above}"));
                    Ok(())
                }
            };
        }
        self.put_other(entry, names, levels)
    }

    #[inline(never)]
    fn put_other(&mut self, entry: &RefEntry<'_>, names: &mut OrderedNames, levels: &mut Levels) -> Result<(), Error> {
        let name = entry.name();
        match belongs(self.place, name) {
            Belongs::Here if names.accept(name) => {
                debug_assert!(!is_pseudo(name), "the file of this name is no ref: {name}");
            }
            Belongs::Unseen => return Ok(()),
            Belongs::Here | Belongs::Nowhere => {
                self.unfit.add(format_args!("{name}: no ref can have that name among files"));
                return Ok(());
            }
        }
        if let Some(above) = levels.pass(name) {
            self.unfit.add(format_args!("{name}: cannot stand beside {above}"));
            return Ok(());
        }
        let put = match entry.record().value {
            RefValue::Deletion => return Ok(()),
            RefValue::Direct(id) if id.is_null() => {
                self.unfit.add(format_args!("{name}: holds the null id"));
                return Ok(());
            }
            RefValue::Direct(id) => self.files.put(name, TargetView::Direct(id), None),
            RefValue::Peeled { target, peeled } => self.files.put(name, TargetView::Direct(target), Some(peeled)),
            RefValue::Symbolic(target) if RefName::new_safe(target.to_vec()).is_none() => {
                self.unfit.add(format_args!("{name}: leads to '{target}', which no ref can be called"));
                return Ok(());
            }
            RefValue::Symbolic(target) => self.files.put(name, TargetView::Symbolic(target), None),
        };
        self.note_unfit(put, name, "")
    }

    /// Writes the reflogs one after the other. The entries of each are consecutive, newest first.
    fn logs(&mut self, merged: &Merged) -> Result<()> {
        let mut cursor = merged.logs();
        let mut current: Option<BString> = None;
        let mut lines = Lines::default();
        loop {
            let record = cursor.next()?;
            let name = record.as_ref().map(|record| record.name);
            if let Some(done) = current.as_ref()
                && name != Some(done.as_ref())
            {
                self.put_log(done.as_ref(), &lines)?;
                lines.clear();
                current = None;
            }
            let Some(record) = record else { return Ok(()) };
            self.ticker.pass()?;
            debug_assert!(
                current.as_ref().is_none_or(|name| name == record.name),
                "a reflog's entries follow one another"
            );
            if current.is_none() {
                current = Some(record.name.to_owned());
            }
            *self.left_out += u64::from(!push(&record, &mut lines));
        }
    }

    fn put_log(&mut self, name: &BStr, lines: &Lines) -> Result<(), Error> {
        match belongs(self.place, name) {
            Belongs::Here if RefName::new_safe(name.to_vec()).is_some() => {
                let put = self.files.put_log(name, lines);
                self.note_unfit(put, name, "the reflog of ")
            }
            Belongs::Unseen if is_pseudo(name) => {
                self.unfit.add(format_args!("the reflog of {name}: among files that name has none"));
                Ok(())
            }
            Belongs::Unseen => Ok(()),
            Belongs::Here | Belongs::Nowhere => {
                self.unfit.add(format_args!("the reflog of {name}: no ref can have that name among files"));
                Ok(())
            }
        }
    }

    /// Notes that no file can be created under the name of a ref, which makes only that ref unfit. Any other error ends
    /// the copy.
    fn note_unfit(&mut self, put: Result<(), Error>, name: &BStr, of: &str) -> Result<(), Error> {
        match put {
            Err(Error::Io(error))
                if error.is_too_long() || error.is_exists() || error.is_folder() || error.is_not_found() =>
            {
                self.unfit.add(format_args!("{of}{name}: {error}"));
                Ok(())
            }
            put => put,
        }
    }
}

/// Whether a record of a stack belongs to the worktree of that stack.
enum Belongs {
    Here,
    /// No reader sees the ref: a shared ref in the stack of a linked worktree, or a pseudoref, which is read from a
    /// file.
    Unseen,
    Nowhere,
}

fn belongs(place: &Place, name: &BStr) -> Belongs {
    let is_ref = name.starts_with(b"refs/") || is_root_ref(name);
    match Scope::of(name) {
        Scope::Shared if place.id.is_some() => Belongs::Unseen,
        // The file of this name is not a ref.
        Scope::Worktree if is_pseudo(name) => Belongs::Unseen,
        Scope::Shared | Scope::Worktree if is_ref => Belongs::Here,
        Scope::Worktree if !name.contains(&b'/') => Belongs::Here,
        Scope::Shared | Scope::Worktree | Scope::Main(_) | Scope::Other { .. } => Belongs::Nowhere,
    }
}

/// Adds the line of an entry that has an old or a new value; an entry with neither is left out. Returns `false` for
/// such an entry, unless it has no committer either and so only says that the reflog exists.
fn push(record: &LogRecord<'_>, lines: &mut Lines) -> bool {
    let LogValue::Update { old, new, name, email, time_seconds, tz_offset, message } = record.value else {
        return true;
    };
    if old.is_null() && new.is_null() {
        return name.is_empty() && email.is_empty();
    }
    let committer = Ident { name: name.to_owned(), email: email.to_owned(), time_seconds, offset_decimal: tz_offset };
    let message = message.strip_suffix(b"\n").unwrap_or(message);
    lines.push(&LogLine { old, new, committer: &committer, message: message.into() });
    true
}
