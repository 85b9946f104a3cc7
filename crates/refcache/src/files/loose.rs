use super::FilesReader;
use crate::{Result, Trust, broken::broken_ref, name_cache::Loose};
use bstr::BStr;
use refdb::{
    BrokenRef, Target,
    files::{AtLoosePath, Rivals, read_loose},
};
use refdb_types::is_root_ref;
use refdb_vfs::{Stat, now_nanos};
use std::{cell::Cell, ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

thread_local! {
    /// A buffer for paths, which is kept between look-ups.
    static PATH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl FilesReader {
    /// Looks up a loose ref, and returns with it whether its file was read. The file is not read if attributes are
    /// trusted and show that `known`, the earlier result, is current.
    pub(super) fn loose(&self, name: &BStr, known: Option<&Loose>) -> Result<Option<(Loose, bool)>> {
        let mut buffer = PATH.take();
        // A name that cannot be a path has no loose ref.
        let looked = match self.backend.ref_path_into(name, &mut buffer) {
            true => self.look(name, Path::new(OsStr::from_bytes(&buffer)), known),
            false => Ok(None),
        };
        PATH.set(buffer);
        match (&looked, broken_ref(&looked)) {
            (_, Some(broken)) => self.counters.broken.found(broken),
            (Ok(_), None) => self.counters.broken.is_whole(name),
            // Whether the ref is broken was not found out.
            (Err(_), None) => {}
        }
        looked
    }

    fn look(&self, name: &BStr, path: &Path, known: Option<&Loose>) -> Result<Option<(Loose, bool)>> {
        let stat = match self.trust.loose_refs {
            Trust::Always => match self.fs.find_link(path)? {
                None => return Ok(None),
                Some(stat) => stat,
            },
            Trust::AfterOpen | Trust::Never => {
                let target = self.read(name, path)?;
                return Ok(target.map(|target| (Loose { stat: NO_STAT, is_racy: true, target }, true)));
            }
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
        // The attributes are older than the content, so that the next stat differs if the file is replaced later.
        let is_racy = stat.is_racy(now_nanos()) || stat.is_symlink();
        Ok(self.read(name, path)?.map(|target| (Loose { stat, is_racy, target }, true)))
    }

    fn read(&self, name: &BStr, path: &Path) -> Result<Option<Target>> {
        let read = match read_loose(&self.fs, self.hash, path, Rivals::Possible, &mut Vec::new())? {
            AtLoosePath::Ref(content) => content.to_target(),
            AtLoosePath::Broken(_) if !can_only_be_ref(name) => return Ok(None),
            AtLoosePath::Broken(why) => Err(why),
            AtLoosePath::Missing | AtLoosePath::Folder => return Ok(None),
        };
        let broken = |why| BrokenRef { name: name.to_owned(), path: path.to_owned(), why };
        read.map(Some).map_err(|why| refdb::Error::from(broken(why)).into())
    }
}

/// Stands for the attributes of a file or folder that was read without asking for them, and of a missing folder.
pub(super) const NO_STAT: Stat =
    Stat { device: 0, inode: 0, len_bytes: 0, modified_nanos: 0, changed_nanos: 0, uid: 0, mode: 0 };

/// Returns whether a file of this name belongs to a ref whatever its content is. Files such as `MERGE_MSG`, which
/// git keeps beside the root refs, are refs only for JGit, and only if they contain one.
fn can_only_be_ref(name: &BStr) -> bool {
    name.starts_with(b"refs/") || is_root_ref(name)
}
