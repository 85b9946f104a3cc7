//! Finishes or undoes an earlier run that was interrupted.

use super::{
    MigrateOptions, Migrated, Result, Ticker,
    place::{Bare, Root, Site},
    retire,
    steps::{Remedy, remedy},
    switch::Switch,
};
use crate::RefFormat;
use refdb_vfs::Lock;

/// What happened to an earlier migration that was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovered {
    /// The new format was already in effect, and the rest of the migration was done.
    Finished,
    /// The old format was still in effect, and the new files were removed.
    Undone,
}

/// Finishes or undoes each migration that was interrupted. `to` is the format that is requested now.
pub(super) fn recover(
    site: &Site<'_>,
    to: RefFormat,
    migrated: &mut Migrated,
    ticker: &mut Ticker<'_>,
) -> Result<Option<Recovered>> {
    let mut recovered = None;
    for root in site.roots()? {
        let configured = site.format_on_disk()?;
        let Some((noted, is_done)) = root.noted(&site.fs)? else {
            // The folder is removed after the note in it, so an empty folder may be all that is left of a migration
            // that succeeded.
            let was_empty = root.remove_if_bare(&site.fs)? == Some(Bare::Empty);
            recovered = recovered.or((was_empty && configured == to).then_some(Recovered::Finished));
            continue;
        };
        free_locks(site, noted.to)?;
        if is_done {
            root.remove(&site.fs)?;
            recovered = recovered.or((configured == noted.to).then_some(Recovered::Finished));
            continue;
        }
        recovered = Some(match remedy(noted.to, configured) {
            Remedy::Finish => {
                finish(site, root, noted, migrated, ticker)?;
                Recovered::Finished
            }
            Remedy::Undo => {
                undo(site, &root, noted.to)?;
                Recovered::Undone
            }
        });
    }
    Ok(recovered)
}

fn finish(
    site: &Site<'_>,
    root: Root,
    options: MigrateOptions,
    migrated: &mut Migrated,
    ticker: &mut Ticker<'_>,
) -> Result<()> {
    assert!(site.format_on_disk()? == options.to, "a migration that counts is finished");
    Switch::resume(site, options, root).finish(migrated, ticker)
}

fn undo(site: &Site<'_>, root: &Root, to: RefFormat) -> Result<()> {
    assert!(site.format_on_disk()? != to, "a migration that counts is not undone");
    if to == RefFormat::Files {
        for place in &site.places {
            drop(site.stack(&place.reftable())?.lock(site.stack_lock_timeout())?);
        }
    }
    retire::undo(site, root, to)?;
    root.remove(&site.fs)
}

/// Acquires and releases the lock of the configuration and, if `to` is reftables, that of packed-refs. This removes a
/// lock that a migration left when it was killed, and waits for a living holder up to the lock timeout.
fn free_locks(site: &Site<'_>, to: RefFormat) -> Result<()> {
    // A packed-refs that is a symbolic link is not migrated.
    let packed = (to == RefFormat::Reftable).then(|| site.common.join("packed-refs"));
    for target in [site.config_target()].into_iter().chain(packed) {
        Lock::acquire(&site.fs, &target, 0o666, site.lock_timeout())?.release()?;
    }
    Ok(())
}
