//! Selects the refs that are shown.

use super::{
    history::{History, TAGS_MAX},
    patterns::Patterns,
    reach::Reach,
};
use crate::{
    failure::{Result, fatal},
    listing::Row,
};
use bstr::{BStr, ByteSlice};
use refdb::{backend::Peeled, objects::ObjectKind};
use refdb_types::ObjectId;

/// All conditions on a ref.
#[derive(Debug, Default)]
pub struct Filter {
    /// `<pattern>...`; none selects all refs.
    pub patterns: Patterns,
    pub exclude: Patterns,
    pub points_at: Vec<ObjectId>,
    /// `--contains`, `--merged` and their negations.
    pub reach: Reach,
    /// Whether only refs that lead to commits are selected.
    pub commits_only: bool,
}

impl Filter {
    /// Returns whether there is no condition.
    pub fn is_empty(&self) -> bool {
        let is_free = self.patterns.is_empty() && self.exclude.is_empty() && !self.commits_only;
        is_free && !self.judges_objects()
    }

    /// Returns whether the name meets the conditions on names.
    pub fn name(&self, name: &BStr) -> bool {
        (self.patterns.is_empty() || self.patterns.matches(name))
            && (self.exclude.is_empty() || !self.exclude.matches(name))
    }

    /// Returns whether `--points-at`, `--contains`, `--merged` or a negation of these is a condition.
    pub fn judges_objects(&self) -> bool {
        !self.points_at.is_empty() || !self.reach.is_empty()
    }

    /// Returns whether the object meets the conditions on objects.
    pub fn object(&mut self, history: &History<'_>, row: &Row<'_>) -> Result<bool> {
        if !self.points_at.is_empty() && !self.points_at(history, row)? {
            return Ok(false);
        }
        if self.commits_only && history.peel_to_commit(*row.id)?.is_none() {
            return Ok(false);
        }
        if self.reach.is_empty() { Ok(true) } else { self.reach.holds(history, *row.id) }
    }

    /// Returns whether the ref holds one of the objects, or a tag that leads to one, directly or through other tags.
    /// (The object index of a reftable cannot answer this, because it knows neither symbolic refs nor the tags in
    /// between.)
    fn points_at(&self, history: &History<'_>, row: &Row<'_>) -> Result<bool> {
        let mut id = *row.id;
        let mut data = Vec::new();
        for _ in 0..TAGS_MAX {
            if self.points_at.contains(&id) {
                return Ok(true);
            }
            // Most refs hold no tag. What the store says about that is trusted, which saves reading each object, but
            // not below refs/tags/, where tags may be stored without their peeled value.
            if *row.peeled == Peeled::NotTag && !row.name.starts_with(b"refs/tags/") {
                return Ok(false);
            }
            match history.objects()?.kind(&id)? {
                Some(ObjectKind::Tag) => {}
                None if id == *row.id => return fatal!["malformed object at '", row.name, "'"],
                Some(_) | None => return Ok(false),
            }
            history.objects()?.content(&id, &mut data)?;
            let target = data.lines().next().and_then(|line| line.strip_prefix(b"object "));
            match target.and_then(|hex| ObjectId::from_hex(id.kind(), hex).ok()) {
                Some(target) => id = target,
                None => return Ok(false),
            }
        }
        Ok(false)
    }
}
