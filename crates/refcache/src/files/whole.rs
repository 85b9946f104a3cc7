//! Reads several refs so that all changes of a small batch of this process, or of a transaction that goes to
//! packed-refs, are visible, or none of them; [`FilesReader::whole`] says where that fails.

use super::FilesReader;
use crate::{Error, Result, in_flight::OldValue, plan::Plan, row::OwnRow};
use bstr::{BStr, ByteSlice};
use refdb::{Target, files::PackedFile};
use std::sync::Arc;

/// Maximum number of times that a query about several refs reads them, if too much changes each time.
const LOOKS_MAX: usize = 5;

/// The result of reading several refs once.
pub(super) struct Seen<T> {
    pub(super) value: T,
    /// The packed-refs that was checked after the loose refs were read; `None` if there were no loose ones, or if only
    /// one name was looked up, so that the refs need not fit together.
    pub(super) packed: Option<Arc<PackedFile>>,
}

impl FilesReader {
    /// Reads several refs with `look`, and repeats that while a transaction that goes to packed-refs may be visible in
    /// part, or while the old values of refs that batches have changed are no longer known. Returns the value of
    /// `look`, and the old values of refs that batches of this process have changed meanwhile, with which the caller
    /// has to replace the new ones.
    ///
    /// A transaction that writes to packed-refs first moves the loose values of its refs there. If loose refs were read
    /// before that move, they do not fit the packed-refs that the transaction then publishes, so everything is read
    /// again. If packed-refs is replaced again and again, the last result is used. If, during the last attempt, batches
    /// of this process have changed so many refs that their old values are no longer known, the query fails with
    /// [`Error::Restless`].
    pub(super) fn whole<T>(&self, look: impl Fn() -> Result<Seen<T>>) -> Result<(T, Vec<OldValue>)> {
        let mut before = match self.backend.packed_in_memory() {
            Some(file) => file,
            None => self.packed()?,
        };
        for left in (0..LOOKS_MAX).rev() {
            let span = self.in_flight.begin_span();
            let Seen { value, packed } = look()?;
            // On a local file system the earlier file is still open, so that no other file gets its inode, and equal
            // attributes mean the same file.
            if let Some(packed) = packed.filter(|packed| left > 0 && packed.stat() != before.stat()) {
                before = packed;
                continue;
            }
            if let Some(back) = span.old_values() {
                debug_assert!(back.is_sorted_by(|a, b| a.0 < b.0), "a ref is set back once");
                return Ok((value, back));
            }
        }
        Err(Error::Restless(self.backend.folder_path(BStr::new(""))))
    }
}

/// Replaces the values of loose refs that batches have changed meanwhile by the old values in `back`.
pub(super) fn set_back(mut loose: Vec<OwnRow>, back: Vec<OldValue>, plan: &Plan) -> Vec<OwnRow> {
    for (name, old) in back.into_iter().filter(|(name, _)| plan.has(name.as_bstr())) {
        let row = OwnRow { target: old.map(Target::Direct), is_corrupt: false, ..OwnRow::broken(name) };
        match loose.binary_search_by(|other| other.name.cmp(&row.name)) {
            Ok(at) => loose[at] = row,
            Err(at) => loose.insert(at, row),
        }
    }
    debug_assert!(loose.is_sorted_by(|a, b| a.name < b.name), "each ref stands in its place, once");
    loose
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, ViewSettings, Views, ViewsSettings, opened::Reader, reader::ReadRefs, view::tests::opened_of};
    use refdb::{Change, Edit, Precondition, RefName};
    use refdb_testkit::{RefFormat, Repo};
    use refdb_types::{HashKind, ObjectId};
    use std::cell::Cell;

    const NAMES: [&str; 2] = ["refs/heads/a", "refs/heads/b"];

    fn batch(id: ObjectId) -> Batch {
        let set = |name: &str| {
            let name = RefName::new(name).expect("a good name");
            Edit::new(name, Change::Set(Target::Direct(id)), Precondition::Any)
        };
        let mut batch = Batch::atomic(NAMES.map(set).into());
        batch.options.atomic_visibility = true;
        batch
    }

    #[test]
    fn loose_refs_that_a_transaction_has_moved_since_are_looked_at_again() {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let ids = repo.commits(2);
        NAMES.iter().for_each(|name| drop(repo.git(["update-ref", name, &ids[0].to_string()])));
        let open = || {
            let views = Views::new(&ViewsSettings::default());
            views.open(repo.git_dir(), &ViewSettings::default()).expect("it is a repository")
        };
        // The second view writes as another process would.
        let (view, other) = (open(), open());
        let opened = opened_of(&view);
        let Reader::Files(reader) = &opened.reader else { unreachable!("its refs are files") };
        let looks = Cell::new(0);
        let look = || {
            let first = reader.get(&opened.store, NAMES[0].into())?;
            looks.set(looks.get() + 1);
            if looks.get() == 1 {
                other.commit(&batch(ids[1]))?;
            }
            let second = reader.get(&opened.store, NAMES[1].into())?;
            let found = [first, second].map(|answer| answer.into_part(&mut false).and_then(|found| found.target.id()));
            Ok(Seen { value: found, packed: Some(reader.packed()?) })
        };
        let (found, back) = reader.whole(look).expect("the reader answers");
        assert_eq!((found, back), ([Some(ids[1]); 2], Vec::new()));
        assert_eq!(looks.get(), 2);
    }

    #[test]
    fn where_packed_refs_is_replaced_during_each_look_the_last_one_counts() {
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let ids = repo.commits(2 * LOOKS_MAX);
        let views = Views::new(&ViewsSettings::default());
        let view = views.open(repo.git_dir(), &ViewSettings::default()).expect("it is a repository");
        let opened = opened_of(&view);
        let Reader::Files(reader) = &opened.reader else { unreachable!("its refs are files") };
        let looks = Cell::new(0);
        let look = || {
            view.commit(&batch(ids[looks.replace(looks.get() + 1)]))?;
            Ok(Seen { value: (), packed: Some(reader.packed()?) })
        };
        reader.whole(look).expect("a list that others disturb is no error");
        assert_eq!(looks.get(), LOOKS_MAX);
    }
}
