//! The intents of a repository: one file each, in the folder `refdb-global` of the folder that all worktrees share.

use super::intent::{GlobalIntent, GlobalRef, LEN_MAX_BYTES, Mark};
use crate::{Error, Result, Undecided, config::SharedRepository};
use bstr::ByteSlice;
use refdb_types::{HashKind, RefName};
use refdb_vfs::Fs;
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

const FOLDER: &str = "refdb-global";

/// The suffix of the file of an intent that is being written.
const NEW: &str = ".new";

/// The age from which a file of an intent that is being written is taken for that of a killed process, and removed.
/// If the process is still alive, it gets an error before it asks the database.
const NEW_MAX_NANOS: i128 = 600 * 1_000_000_000;

/// The maximum length of an intent's id.
const ID_MAX_BYTES: usize = 128;

/// The intents of one repository.
#[derive(Debug)]
pub struct GlobalIntents {
    fs: Fs,
    common_dir: PathBuf,
    sharing: SharedRepository,
    hash: HashKind,
    /// Whether the folder's name is known to be on stable storage.
    is_durable: Arc<AtomicBool>,
}

impl GlobalIntents {
    pub(crate) fn new(
        fs: Fs,
        common_dir: PathBuf,
        sharing: SharedRepository,
        hash: HashKind,
        is_durable: Arc<AtomicBool>,
    ) -> Self {
        GlobalIntents { fs, common_dir, sharing, hash, is_durable }
    }

    fn folder(&self) -> PathBuf {
        self.common_dir.join(FOLDER)
    }

    /// Returns the path of an intent's file.
    pub fn path(&self, id: &str) -> PathBuf {
        debug_assert!(is_id(id), "an id leads to no other folder: {id}");
        self.folder().join(id)
    }

    /// Writes or replaces an intent. On success the intent is on stable storage. Fails without having written anything
    /// if the intent has so many refs that its file would be longer than readers accept.
    pub(super) fn place(&self, mark: &Mark, refs: &[GlobalRef]) -> Result<()> {
        assert!(is_id(&mark.id), "an intent has an id that can be a file: {}", mark.id);
        let (fs, folder, path) = (&self.fs, self.folder(), self.path(&mark.id));
        let intent = GlobalIntent { hash: self.hash, mark: mark.text.clone(), refs: refs.to_vec() }.encode();
        if intent.len() > LEN_MAX_BYTES {
            return Err(Undecided::TooLarge { refs: refs.len(), len_max_bytes: LEN_MAX_BYTES }.into());
        }
        let is_there = self.is_there()?;
        if !is_there {
            match fs.create_dir(&folder, 0o777) {
                Err(error) if !error.is_exists() => return Err(error.into()),
                _ => crate::files::share(fs, &folder, self.sharing, true)?,
            }
        }
        // A process that created the folder may have died before the folder's name was on stable storage.
        if !is_there || !self.is_durable.load(Ordering::Acquire) {
            fs.sync_dir(&self.common_dir)?;
            self.is_durable.store(true, Ordering::Release);
        }
        let new = folder.join(format!("{}{NEW}", mark.id));
        let mut file = fs.create_afresh(&new, 0o666)?;
        file.write_all(&intent)?;
        file.sync()?;
        drop(file);
        crate::files::share(fs, &new, self.sharing, false)?;
        fs.rename(&new, &path)?;
        fs.sync_dir(&folder)?;
        Ok(())
    }

    /// Removes an intent, if it exists. It may reappear after a loss of power, and must then be settled again.
    pub fn remove(&self, id: &str) -> Result<()> {
        if !is_id(id) {
            return Ok(());
        }
        for path in [self.folder().join(format!("{id}{NEW}")), self.path(id)] {
            match self.fs.remove_file(&path) {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether the intent with this id is recorded and was not removed.
    pub(super) fn is_open(&self, id: &str) -> Result<bool> {
        Ok(is_id(id) && self.fs.find_link(&self.path(id))?.is_some())
    }

    /// All intents, in order of id. Fails if one of them cannot be read.
    pub fn list(&self) -> Result<Vec<(String, GlobalIntent)>> {
        let mut found = Vec::new();
        for id in self.names()?.into_iter().filter(|name| is_id(name)) {
            if let Some(intent) = self.read(&id)? {
                found.push((id, intent));
            }
        }
        Ok(found)
    }

    /// The names of the folder's entries, in order, without those that are not UTF-8.
    fn names(&self) -> Result<Vec<String>> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        let files = self.fs.read_dir(&self.folder())?;
        let mut names: Vec<_> = files.into_iter().filter_map(|(name, _)| String::from_utf8(name).ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Removes files that killed processes have left. The age of a file is measured up to the folder's last change, by
    /// the time stamps of the file system.
    fn remove_left(&self, names: &[String]) -> Result<()> {
        for name in names.iter().filter(|name| name.strip_suffix(NEW).is_some_and(is_id)) {
            let path = self.folder().join(name);
            let (Some(folder), Some(file)) = (self.fs.find_link(&self.folder())?, self.fs.find_link(&path)?) else {
                continue;
            };
            if file.modified_nanos + NEW_MAX_NANOS < folder.modified_nanos {
                match self.fs.remove_file(&path) {
                    Err(error) if !error.is_not_found() => return Err(error.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Refuses changes of a ref that an open intent contains, or whose name conflicts with that of such a ref. Fails
    /// also if an intent cannot be read. The caller must hold the locks of `refs`, so that no other transaction records
    /// an intent for one of them afterwards.
    pub fn bar(&self, refs: &[GlobalRef]) -> Result<()> {
        debug_assert!(refs.is_sorted_by(|one, other| one.name < other.name), "refs of a transaction are in order");
        let names = self.names()?;
        self.remove_left(&names)?;
        for id in names.into_iter().filter(|name| is_id(name)) {
            let Some(intent) = self.read(&id)? else { continue };
            let owner = intent.owner().to_owned();
            if let Some(met) = intent.refs.into_iter().find(|entry| is_near(&entry.name, refs)) {
                return Err(Undecided::Open { name: met.name, owner, path: self.path(&id) }.into());
            }
        }
        Ok(())
    }

    fn is_there(&self) -> Result<bool> {
        let folder = self.folder();
        match self.fs.find_link(&folder)? {
            None => Ok(false),
            Some(stat) if stat.is_dir() => Ok(true),
            Some(_) => Err(fault(&folder, "it is no folder, so no intent can be in it; remove it".to_owned())),
        }
    }

    /// Reads an intent; `None` if it has been removed meanwhile.
    fn read(&self, id: &str) -> Result<Option<GlobalIntent>> {
        let path = self.path(id);
        let file = match self.fs.open_no_follow(&path) {
            Ok(file) => file,
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = file.stat()?;
        if !stat.is_file() || stat.len_bytes > LEN_MAX_BYTES as u64 {
            return Err(fault(&path, "it is no intent of a transaction; look at it and remove it".to_owned()));
        }
        let intent = GlobalIntent::parse(&file.read_len(stat.len_bytes)?).map_err(|broken| {
            fault(&path, format!("{broken}; compare the repository with the global ref database, then remove it"))
        })?;
        if intent.hash != self.hash {
            return Err(fault(&path, "its ids are of another kind than the repository's".to_owned()));
        }
        Ok(Some(intent))
    }
}

/// Returns whether a name is among those of `refs`, which are in order, or conflicts with one of them.
fn is_near(name: &RefName, refs: &[GlobalRef]) -> bool {
    let has = |name: &[u8]| refs.binary_search_by(|entry| entry.name.as_bstr().as_bytes().cmp(name)).is_ok();
    let below = [name.as_bytes(), b"/"].concat();
    let child = refs.partition_point(|entry| entry.name.as_bstr().as_bytes() < below.as_slice());
    has(name)
        || name.find_iter("/").any(|slash| has(&name[..slash]))
        || refs.get(child).is_some_and(|entry| entry.name.starts_with(&below))
}

/// Returns whether an id has 1 to [`ID_MAX_BYTES`] letters, digits, dashes and underscores.
fn is_id(id: &str) -> bool {
    (1..=ID_MAX_BYTES).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn fault(path: &Path, what: String) -> Error {
    Error::Corrupt { path: path.to_owned(), line: 1, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_was_writing_goes_after_a_while() {
        let repository = tempfile::tempdir().unwrap();
        let folder = repository.path().join(FOLDER);
        let (fs, path) = (Fs::real(), repository.path().to_owned());
        let intents = GlobalIntents::new(fs, path, SharedRepository::Umask, HashKind::Sha1, Arc::default());
        std::fs::create_dir(&folder).unwrap();
        let day = std::time::Duration::from_secs(86_400);
        for (name, age) in [("a-1-1.new", day), ("a-1-2.new", std::time::Duration::ZERO), ("notes.txt", day)] {
            let file = std::fs::File::create(folder.join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        }
        intents.bar(&[]).unwrap();
        assert_eq!(intents.names().unwrap(), ["a-1-2.new", "notes.txt"]);
    }

    #[test]
    fn an_intent_bars_its_refs_and_what_cannot_stand_beside_them() {
        let name = |name: &str| RefName::new(name).unwrap();
        let refs = ["refs/heads/a", "refs/heads/b/c", "refs/heads/b0"];
        let refs = refs.map(|at| GlobalRef { name: name(at), old: None, new: None });
        for near in ["refs/heads/a", "refs/heads/a/b", "refs/heads/a/b/c", "refs/heads/b", "refs/heads/b/c/d"] {
            assert!(is_near(&name(near), &refs), "{near}");
        }
        for apart in
            ["refs/heads/a0", "refs/heads/a-b", "refs/heads/b/d", "refs/heads/b/c0", "refs/heads/c", "refs/tags/a"]
        {
            assert!(!is_near(&name(apart), &refs), "{apart}");
        }
    }
}
