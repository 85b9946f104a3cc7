//! Which of the listed refs are shown.

use super::{
    patterns::Patterns,
    reach::Reach,
    render::Row,
    world::{ObjectKind, World},
};
use crate::failure::Result;
use bstr::{BStr, ByteSlice};
use refdb::backend::Peeled;
use refdb_types::ObjectId;

/// All conditions on a ref.
#[derive(Debug, Default)]
pub struct Filter {
    /// `<pattern>...`; none means all refs.
    pub patterns: Patterns,
    /// `--exclude`.
    pub exclude: Patterns,
    /// `--points-at`.
    pub points_at: Vec<ObjectId>,
    /// `--contains` and its kin.
    pub reach: Reach,
}

impl Filter {
    /// The conditions on the name.
    pub fn name(&self, name: &BStr) -> bool {
        (self.patterns.is_empty() || self.patterns.matches(name))
            && (self.exclude.is_empty() || !self.exclude.matches(name))
    }

    /// The conditions on the object.
    #[inline]
    pub fn object(&mut self, world: &mut dyn World, row: &Row<'_>) -> Result<bool> {
        if self.points_at.is_empty() && self.reach.is_empty() { Ok(true) } else { self.holds(world, row) }
    }

    #[inline(never)]
    fn holds(&mut self, world: &mut dyn World, row: &Row<'_>) -> Result<bool> {
        if !self.points_at.is_empty() && !self.points_at(world, row)? {
            return Ok(false);
        }
        if self.reach.is_empty() { Ok(true) } else { self.reach.holds(world, *row.id) }
    }

    /// Whether the ref holds one of the objects, or a tag that leads to it over any number of tags.
    fn points_at(&self, world: &mut dyn World, row: &Row<'_>) -> Result<bool> {
        let mut id = *row.id;
        let mut data = Vec::new();
        loop {
            if self.points_at.contains(&id) {
                return Ok(true);
            }
            if row.peeled == Peeled::NotTag || world.header(&id)?.is_none_or(|(kind, _)| kind != ObjectKind::Tag) {
                return Ok(false);
            }
            world.read(&id, &mut data)?;
            let target = data.lines().next().and_then(|line| line.strip_prefix(b"object "));
            match target.and_then(|hex| ObjectId::from_hex(id.kind(), hex).ok()) {
                Some(target) => id = target,
                None => return Ok(false),
            }
        }
    }
}
