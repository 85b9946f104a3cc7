//! What a transaction locks, and how, by what it wants.

use super::{
    FilesOptions,
    way::{self, Way},
};
use crate::backend::{Claim, Claims, Intent};
use refdb_vfs::Lock;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// The choice for one transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheme {
    pub(super) way: Way,
    /// Whether locks without content are links.
    link: bool,
    /// Whether packed-refs may have to be rewritten.
    pub(super) packed: bool,
    /// Whether all changes are to appear with packed-refs.
    pub(super) whole: bool,
}

impl Scheme {
    pub(super) fn of(claims: &dyn Claims, packed_len_bytes: u64, options: &FilesOptions) -> Self {
        let packable = claims.iter().filter(way::packable).count();
        let deletes = claims.iter().filter(|claim| claim.intent == Intent::Delete).count();
        let holds = claims.iter().filter(|claim| claim.intent == Intent::Hold).count();
        // One ref's change is whole anyway.
        let whole = claims.whole() && packable + deletes > 1;
        // Each lock must tell whose it is, and leave room for the name of its ref's new content.
        let sign = || claims.iter().all(|claim| Lock::is_signed(&options.fs, Path::new(OsStr::from_bytes(claim.name))));
        if whole
            && packable == claims.count()
            && sign()
            && way::batch(packable, packed_len_bytes, options.loose_batches_from)
        {
            return Scheme { way: Way::Batch, link: true, packed: false, whole };
        }
        let way = if whole { Way::Bulk } else { way::choose(packable, packed_len_bytes) };
        let bulk = way == Way::Bulk;
        let link = whole || way::worth_linking(deletes + holds + if bulk { packable } else { 0 });
        Scheme { way, link, packed: bulk || deletes > 0, whole }
    }

    /// The same transaction through packed-refs.
    pub(super) fn packed(self) -> Self {
        assert!(self.whole && self.way == Way::Batch, "what was to be a batch of loose files goes there: {self:?}");
        Scheme { way: Way::Bulk, packed: true, ..self }
    }

    pub(super) fn links(&self, claim: &Claim<'_>) -> bool {
        self.link
            && match claim.intent {
                Intent::Delete | Intent::Hold => true,
                Intent::SetDirect => self.way != Way::Loose && way::packable(claim),
                Intent::SetSymbolic => false,
            }
    }
}
