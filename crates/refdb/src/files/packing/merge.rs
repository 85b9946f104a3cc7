//! Writes loose values to packed-refs while other writers work. Those writers usually wait for this no longer than they
//! wait for one another.
//!
//! The new file is made before the lock of packed-refs is taken, or under that lock after three attempts in vain. It is
//! used only if, under the lock, the old file is still the same and the loose files still exist.

use crate::Result;
use crate::files::{
    packed::cache::PackedFile,
    packing::{
        bulk,
        candidates::Loose,
        job::{self, BackgroundPacked, Packing},
        write::{self, NewPacked, PackedEdit},
    },
};
use bstr::{BStr, ByteSlice};
use refdb_types::ObjectId;
use std::{borrow::Cow, collections::BTreeSet};

/// How many times a new packed-refs is made without the lock, although a change of the present one may make it useless.
const ASIDE_MAX: usize = 3;

/// How many times the new packed-refs is made under the lock, after [`ASIDE_MAX`] attempts without it were in vain.
/// Even then it becomes useless if git removes loose files that git has packed.
const LOCKED_MAX: usize = 3;

impl Packing<'_> {
    /// Writes the values of the refs to packed-refs. Returns `false` if the packing must end, because it was asked to
    /// or because all attempts were in vain. The lock of [`lock_aside`](super::job::lock_aside) must be held.
    pub(crate) fn put_into_packed(&self, done: &mut BackgroundPacked) -> Result<bool> {
        let before = packed_values(&self.old, self.refs)?;
        let mut gone = BTreeSet::new();
        for attempt in 0..ASIDE_MAX + LOCKED_MAX {
            if !(self.goes_on)(done)? {
                return Ok(false);
            }
            let is_aside = attempt < ASIDE_MAX;
            match self.try_to_put(is_aside, &before, &mut gone, done) {
                // On a network file system, a file that was replaced may be lost while it is read.
                Err(error) if is_aside && error.is_stale() => {}
                Ok(false) => {}
                ended => return ended,
            }
        }
        Ok(false)
    }

    /// Makes a new packed-refs and puts it into place if it is still valid. `before` are the values that packed-refs
    /// had for all refs before the loose ones were read, and `gone` collects the positions of those that no longer have
    /// a loose file. Returns `false` if somebody else has changed packed-refs or removed a loose file meanwhile.
    fn try_to_put(
        &self,
        is_aside: bool,
        before: &[Option<ObjectId>],
        gone: &mut BTreeSet<usize>,
        done: &mut BackgroundPacked,
    ) -> Result<bool> {
        // The lock is declared before the new file, so that an unused new file is removed while the lock is still held.
        // Later, the file of that name might be the next writer's.
        let mut lock = if is_aside { None } else { Some(self.lock_packed()?) };
        let old = write::opened_packed(self.store)?;
        let now = if old.generation == self.old.generation {
            Cow::Borrowed(before)
        } else {
            Cow::Owned(packed_values(&old, self.refs)?)
        };
        // Other packers remove loose files only after packed-refs has their values. So packed-refs may by now have a
        // value that is newer than the one read from the loose file, and that no other file has.
        let is_missing =
            |at: &usize| now[*at] == before[*at] && now[*at] != Some(self.refs[*at].id) && !gone.contains(at);
        let missing: Vec<usize> = (0..self.refs.len()).filter(is_missing).collect();
        let new = self.rewritten(&old, &missing, is_aside)?;
        if lock.is_none() {
            lock = Some(self.lock_packed()?);
        }
        // git and refdb delete refs under this lock, even if packed-refs does not change.
        let is_same = self.store.packed()?.generation == old.generation;
        let lost = self.without_file(&missing)?;
        let is_valid = is_same && lost.is_empty();
        gone.extend(lost);
        let new = new.filter(|_| is_valid);
        if is_valid {
            new.map_or(Ok(()), NewPacked::publish)?;
            write::clear_left(self.store)?;
            done.packed = missing.len();
        }
        if let Some(lock) = lock {
            job::unlock(lock, done)?;
        }
        Ok(is_valid)
    }

    /// A new packed-refs with the refs at these positions; `None` if the old one can stay.
    fn rewritten(&self, old: &PackedFile, refs: &[usize], is_aside: bool) -> Result<Option<NewPacked>> {
        if refs.is_empty() && (!self.rewrites_foreign || write::is_as_we_write(old)?) {
            return Ok(None);
        }
        let put = |at: &usize| {
            let Loose { name, id, peeled } = &self.refs[*at];
            PackedEdit::Put(name.as_bstr(), *id, *peeled)
        };
        let rewrite = if is_aside { write::rewrite_aside } else { write::rewrite };
        rewrite(self.store, old, &mut refs.iter().map(put)).map(Some)
    }

    /// The positions of the refs that have no loose file any more. Values are not read, because a loose file outranks
    /// packed-refs whatever its value.
    fn without_file(&self, refs: &[usize]) -> Result<Vec<usize>> {
        let names: Vec<&BStr> = refs.iter().map(|at| self.refs[*at].name.as_bstr()).collect();
        let mut with_file = bulk::with_loose_file(self.store, &names)?.into_iter().peekable();
        let is_lost = |at: &usize| with_file.next_if_eq(at).is_none();
        Ok((0..refs.len()).filter(is_lost).map(|at| refs[at]).collect())
    }
}

/// The values that packed-refs has for these refs.
fn packed_values(old: &PackedFile, refs: &[Loose]) -> Result<Vec<Option<ObjectId>>> {
    let (mut values, mut position) = (Vec::with_capacity(refs.len()), old.packed.start());
    for loose in refs {
        let (next, value) = job::packed_value(old, position, loose.name.as_bstr())?;
        position = next;
        values.push(value);
    }
    Ok(values)
}
