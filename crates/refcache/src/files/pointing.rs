use super::{FilesReader, Seen, set_back, tips::Tips};
use crate::{
    Result,
    answer::Answer,
    found::Pointing,
    plan::{Plan, Range},
    row::OwnRow,
};
use refdb::{
    Target,
    files::PackedFile,
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_types::ObjectId;
use std::{
    sync::{Arc, PoisonError},
    time::Instant,
};

impl FilesReader {
    /// Finds the refs below `refs/` that point at each of these objects, directly or through an annotated tag. A ref
    /// outside `refs/tags/` is found by the object behind its tag only if packed-refs has that object as the ref's
    /// peeled value. The loose refs are walked for all objects together. An object at which more than `most` packed
    /// refs point, those that loose refs hide included, is left out.
    pub(super) fn find_pointing_at(
        &self,
        ids: &[ObjectId],
        most: usize,
        objects: &dyn ObjectCheck,
    ) -> Result<Answer<Pointing>> {
        let everything = Plan { ranges: vec![Range::everything()], root_refs: false };
        let ((loose, (file, tips)), back) = self.whole(|| {
            let (loose, (file, tips)) = (self.walk(&everything)?, self.tips(objects)?);
            let packed = (!loose.is_empty()).then(|| Arc::clone(&file));
            Ok(Seen { value: (loose, (file, tips)), packed })
        })?;
        let loose = set_back(loose, back, &everything);
        debug_assert!(loose.is_sorted_by(|a, b| a.name < b.name), "loose refs are found by binary search");
        let mut found = Pointing::new();
        for id in ids {
            let Some(mut names) = tips.find(&file, objects, id, most)? else { continue };
            names.retain(|name| loose.binary_search_by(|row| row.name.cmp(name)).is_err());
            found.insert(*id, names);
        }
        debug_assert!(found.len() <= ids.len(), "each object is asked about once");
        loose.into_iter().try_for_each(|row| add_loose(row, &mut found, objects))?;
        found.values_mut().for_each(|names| names.sort_unstable());
        // A repository that was converted to reftable has files that look like those of an empty one.
        Ok(Answer::new(found, !file.exists()))
    }

    /// The present packed-refs, and its index from objects to refs.
    fn tips(&self, objects: &dyn ObjectCheck) -> Result<(Arc<PackedFile>, Arc<Tips>)> {
        let mut file = self.packed()?;
        let held = || self.held_tips().clone().filter(|tips| tips.generation() == file.generation);
        if let Some(tips) = held() {
            return Ok((file, tips));
        }
        let _one_at_a_time = self.indexing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tips) = held() {
            return Ok((file, tips));
        }
        let begun = Instant::now();
        *self.held_tips() = None;
        let mut fresh = Tips::of(&file, objects, &self.memory.pages)?;
        if file.packed.disorder().is_some() {
            // The file is not sorted although its header says so, and is therefore read again and sorted in memory.
            let distrusted = std::mem::replace(&mut file, self.packed()?);
            debug_assert!(file.generation > distrusted.generation, "a file that is not believed is opened again");
            fresh = Tips::of(&file, objects, &self.memory.pages)?;
        }
        debug_assert_eq!(fresh.generation(), file.generation, "an index is that of its file");
        let fresh = Arc::new(fresh);
        // An index that exceeds the limit would be released at the next query, together with everything else.
        *self.held_tips() = (fresh.bytes() <= self.memory.bytes_max).then(|| Arc::clone(&fresh));
        self.counters.loaded(begun);
        Ok((file, fresh))
    }
}

/// Adds a loose ref to those objects in `found` at which it points. If the ref is below `refs/tags/`, its object is
/// read to find out where a tag leads, because only packed-refs records that beside the ref.
fn add_loose(row: OwnRow, found: &mut Pointing, objects: &dyn ObjectCheck) -> Result<()> {
    let Some(Target::Direct(held)) = row.target else { return Ok(()) };
    if row.name.starts_with(b"refs/tags/")
        && let ObjectClass::Tag(Some(to)) = objects.classify(&held)?
        && let Some(names) = found.get_mut(&to)
    {
        names.push(row.name.clone());
    }
    if let Some(names) = found.get_mut(&held) {
        names.push(row.name);
    }
    Ok(())
}
