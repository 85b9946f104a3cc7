//! Transactions in which one ref makes room for refs below its name, or the reverse, for example a rename from `a` to
//! `a/b`. One name cannot be a file and a folder at once, so changes that must become visible together go to
//! packed-refs, and the reflog in the way is moved aside.

use super::{
    lock::set::{self, Held},
    loose::{self, At, LooseRef, folders, listing::Rivals},
    packing::bulk,
    store::Store,
    strategy::{self, WritePlan},
};
use crate::{
    Rejection, RejectionReason, Result,
    backend::{Claim, ClaimKind, Claims, Steps},
};
use bstr::{BStr, ByteSlice};
use refdb_types::is_below;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file to which git moves a reflog while its ref is renamed.
const ASIDE: &str = "refs/.tmp-renamed-log";

/// The file to which a reflog is moved while another takes its place: that of a deleted ref, while a ref below its name
/// gets one, and that of a ref to whose name another ref is renamed. A number follows.
const REMOVED: &str = "refs/.tmp-removed-log-";

/// Returns whether one name lies below the other.
pub(super) fn are_nested(one: &BStr, other: &BStr) -> bool {
    is_below(one, other) || is_below(other, one)
}

/// Packs the loose refs that the transaction deletes to make room for folders, because their files would be in the way
/// of the locks.
pub(super) fn pack_outer(store: &Arc<Store>, claims: &dyn Claims) -> Result<()> {
    let all = || (0..claims.count()).map(|at| claims.claim(at));
    let deleted: Vec<&BStr> = all().filter(|claim| claim.kind == ClaimKind::Delete).map(|claim| claim.name).collect();
    debug_assert!(deleted.is_sorted(), "claims are sorted by name");
    if deleted.is_empty() {
        return Ok(());
    }
    let mut outer = BTreeSet::new();
    for inner in all().filter(|claim| claim.kind != ClaimKind::Delete) {
        let above = inner.name.find_iter(b"/").map(|end| inner.name[..end].as_bstr());
        let is_meant = |name: &&BStr| {
            deleted.binary_search(name).is_ok() && strategy::is_packed_name(name) && is_file(store, name)
        };
        outer.extend(above.filter(is_meant));
    }
    if outer.is_empty() {
        return Ok(());
    }
    let claims: Vec<Claim<'_>> = outer.into_iter().map(|name| Claim { name, kind: ClaimKind::Delete }).collect();
    let Some((locks, _)) = set::lock_briefly(store, &claims, WritePlan::of(&claims, 0, &store.options))? else {
        return Ok(());
    };
    store.check_format()?;
    let through_links = bulk::through_links(store, claims.iter().map(|claim| claim.name))?;
    let (mut loose, mut buffer) = (Vec::new(), Vec::new());
    for (at, Claim { name, .. }) in claims.iter().enumerate() {
        if locks.held(at) == Held::No || through_links.contains(&at) {
            continue;
        }
        let Some(path) = store.layout.ref_path(name) else { continue };
        let (fs, hash) = (&store.options.fs, store.options.hash);
        match loose::read(fs, hash, &path, Rivals::LockedOut, &mut buffer)? {
            At::Ref(LooseRef::Direct(id)) if !id.is_null() => loose.push((*name, id)),
            At::Ref(_) | At::Broken(_) | At::Missing | At::Folder => {}
        }
    }
    if !loose.is_empty() {
        bulk::pack_old_values(store, &*store.packed()?, &loose)?;
    }
    drop(locks);
    bulk::remove_emptied(store, &loose.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
    Ok(())
}

fn is_file(store: &Store, name: &BStr) -> bool {
    let path = store.layout.ref_path(name);
    path.is_some_and(|path| store.options.fs.find_link(&path).is_ok_and(|stat| stat.is_some_and(|stat| !stat.is_dir())))
}

/// Rejects steps that move a reflog to a name above or below its own.
pub(super) fn refuse(steps: &dyn Steps) -> Result<()> {
    match pairs(steps).next() {
        None => Ok(()),
        Some((source, name)) => {
            let why = RejectionReason::Conflict { with: source.to_owned(), is_new: false, prevents_lock: false };
            Err(Rejection::of_claim(name, why))
        }
    }
}

/// The old and new names of the refs whose reflogs are to be moved to a name above or below.
fn pairs(steps: &dyn Steps) -> impl Iterator<Item = (&BStr, &BStr)> {
    let pair = |at| steps.log_source(at).map(|source| (source, steps.name(at)));
    (0..steps.count()).filter_map(pair).filter(|(source, name)| are_nested(source, name))
}

/// The old and new paths of reflogs that were moved.
#[derive(Default)]
pub(super) struct Moved(Vec<(PathBuf, PathBuf)>);

impl Moved {
    fn all(&mut self, store: &Store, steps: &dyn Steps) -> Result<()> {
        let fs = &store.options.fs;
        for (source, name) in pairs(steps) {
            let paths = (store.layout.log_path(source), store.layout.log_path(name));
            let (Some(from), Some(to)) = paths else { continue };
            if fs.find_link(&from)?.is_none_or(|stat| stat.is_dir()) {
                continue;
            }
            if !move_log(store, &from, &to)? {
                return Err(Rejection::of_claim(name, RejectionReason::Folder { path: to }));
            }
            let folder = to.parent().map(Path::to_owned);
            self.0.push((from, to));
            match folder {
                Some(folder) if store.options.sync => fs.sync_dir(&folder)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Moves the reflogs back. A failure is ignored: the refs themselves are unchanged all the same.
    pub(super) fn back(self, store: &Store) {
        for (from, to) in self.0 {
            let _ = move_log(store, &to, &from);
        }
    }
}

/// Moves the reflogs of refs that are renamed to a name above or below their own. All refs are locked.
pub(super) fn move_logs(store: &Store, steps: &dyn Steps) -> Result<Moved> {
    let mut moved = Moved::default();
    match moved.all(store, steps) {
        Ok(()) => Ok(moved),
        Err(error) => {
            moved.back(store);
            Err(error)
        }
    }
}

/// Moves a reflog. Returns `false` if it stays, because something other than empty folders is in the way.
fn move_log(store: &Store, from: &Path, to: &Path) -> Result<bool> {
    let options = &store.options;
    let fs = &options.fs;
    let Some(aside) = store.layout.log_path(BStr::new(ASIDE)) else { return Ok(false) };
    fs.rename(from, &aside)?;
    let put = |path: &Path| -> Result<bool> {
        let act = || fs.rename(&aside, path);
        let has_room = fs.remove_empty_tree(path)?;
        if has_room {
            folders::with_parents(fs, path, options.sharing, &mut Vec::new(), is_missing, act)?;
        }
        Ok(has_room)
    };
    let moved = put(to);
    if !matches!(moved, Ok(true)) {
        put(from)?;
    }
    moved
}

/// Reflogs that were moved aside to make room for others: each with its old path and its present one.
#[derive(Default)]
pub(super) struct SetAside(Vec<(PathBuf, PathBuf)>);

impl SetAside {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves the reflog of a ref aside, if it has one. The lock of packed-refs is held, so that no other writer uses
    /// the same place.
    pub(super) fn move_log(&mut self, store: &Store, name: &BStr) -> Result<()> {
        let options = &store.options;
        let Some(log) = store.layout.log_path(name) else { return Ok(()) };
        if options.fs.find_link(&log)?.is_none_or(|stat| stat.is_dir()) {
            return Ok(());
        }
        let Some(aside) = free_place(store)? else { return Ok(()) };
        // If only a worktree's own refs have reflogs so far, the folder for those of shared refs may not exist yet.
        let act = || options.fs.rename(&log, &aside);
        folders::with_parents(&options.fs, &aside, options.sharing, &mut Vec::new(), is_missing, act)?;
        self.0.push((log, aside));
        Ok(())
    }

    /// Removes the reflogs for good whose refs have visibly changed, and moves the others back. One that cannot be
    /// moved, for example because its place was taken, stays aside, as does one that cannot be removed.
    pub(super) fn settle(self, store: &Store, is_visible: &dyn Fn(&Path) -> bool) {
        let fs = &store.options.fs;
        for (log, aside) in self.0 {
            if is_visible(&log) {
                let _ = fs.remove_file(&aside);
            } else if fs.remove_empty_tree(&log).unwrap_or(false) {
                let _ = fs.rename(&aside, &log);
            }
        }
    }
}

/// The first file for a reflog that makes room which does not exist yet. A reflog that an earlier transaction could not
/// move back may still be in another.
fn free_place(store: &Store) -> Result<Option<PathBuf>> {
    let places = (0_u32..).map_while(|number| store.layout.log_path(BStr::new(&format!("{REMOVED}{number}"))));
    for place in places {
        if store.options.fs.find_link(&place)?.is_none() {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

fn is_missing(error: &refdb_vfs::Error) -> bool {
    error.source.kind() == std::io::ErrorKind::NotFound
}
