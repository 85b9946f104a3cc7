use super::FilesReader;
use crate::{Error, Result, Trust, broken::broken_ref, name_cache::Loose};
use bstr::BStr;
use refdb::{
    BrokenRef, Target,
    files::{AtLoosePath, read_loose},
};
use refdb_types::is_root_ref;
use refdb_vfs::{Stat, now_nanos};
use std::{cell::Cell, ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

thread_local! {
    /// Working memory for the path of the file that is looked at.
    static PATH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A network file system may lose a file between two calls, but not for ever.
const STALE_MAX: usize = 3;

impl FilesReader {
    /// The loose ref of this name, and whether its file was read. `known` is the earlier answer.
    pub(super) fn loose(&self, name: &BStr, known: Option<&Loose>) -> Result<Option<(Loose, bool)>> {
        let mut buffer = PATH.take();
        // No such path, no such ref.
        let looked = match self.backend.ref_path_into(name, &mut buffer) {
            true => self.look_again_if_stale(name, Path::new(OsStr::from_bytes(&buffer)), known),
            false => Ok(None),
        };
        PATH.set(buffer);
        match broken_ref(&looked) {
            Some(broken) => self.counters.broken.found(broken),
            None => self.counters.broken.is_whole(name),
        }
        looked
    }

    fn look_again_if_stale(&self, name: &BStr, path: &Path, known: Option<&Loose>) -> Result<Option<(Loose, bool)>> {
        let mut attempts_left = STALE_MAX;
        loop {
            attempts_left -= 1;
            match self.look(name, path, known) {
                Err(Error::Store(refdb::Error::Io(error))) if error.is_stale() && attempts_left > 0 => {}
                looked => return looked,
            }
        }
    }

    fn look(&self, name: &BStr, path: &Path, known: Option<&Loose>) -> Result<Option<(Loose, bool)>> {
        let stat = match self.trust.loose_refs {
            Trust::Always => match self.fs.find_link(path)? {
                None => return Ok(None),
                Some(stat) => stat,
            },
            // Read in any case. To open it is what makes a network file system ask, for a missing file to open its
            // folder.
            Trust::AfterOpen | Trust::Never => return self.open(name, path),
        };
        if stat.is_dir() {
            return Ok(None);
        }
        if let Some(known) = known
            && known.stat == stat
            && !known.is_racy
        {
            debug_assert!(known.stat != NO_STAT, "without a stat nothing is proved");
            return Ok(Some((known.clone(), false)));
        }
        // The time before the file is read: if it is replaced after this, the next stat will differ.
        let is_racy = stat.is_racy(now_nanos()) || stat.is_symlink();
        Ok(self.read(name, path)?.map(|target| (Loose { stat, is_racy, target }, true)))
    }

    fn open(&self, name: &BStr, path: &Path) -> Result<Option<(Loose, bool)>> {
        let mut target = self.read(name, path)?;
        if target.is_none()
            && let Some(folder) = path.parent()
            && self.fs.open(folder).is_ok()
        {
            target = self.read(name, path)?;
        }
        Ok(target.map(|target| (Loose { stat: NO_STAT, is_racy: true, target }, true)))
    }

    fn read(&self, name: &BStr, path: &Path) -> Result<Option<Target>> {
        let read = match read_loose(&self.fs, self.hash, path, &mut Vec::new())? {
            AtLoosePath::Ref(content) => content.to_target(),
            AtLoosePath::Broken(_) if !can_only_be_ref(name) => return Ok(None),
            AtLoosePath::Broken(why) => Err(why),
            AtLoosePath::Missing | AtLoosePath::Folder => return Ok(None),
        };
        let broken = |why| BrokenRef { name: name.to_owned(), path: path.to_owned(), why };
        read.map(Some).map_err(|why| refdb::Error::from(broken(why)).into())
    }
}

/// For a file that was read without asking for its attributes, or a folder that is not there.
pub(super) const NO_STAT: Stat =
    Stat { device: 0, inode: 0, len_bytes: 0, modified_nanos: 0, changed_nanos: 0, uid: 0, mode: 0 };

/// Whether a file of this name belongs to a ref whatever it holds. Beside the root refs git keeps files such as
/// `MERGE_MSG`, which are refs only for JGit, and only if they hold one.
fn can_only_be_ref(name: &BStr) -> bool {
    name.starts_with(b"refs/") || is_root_ref(name)
}
