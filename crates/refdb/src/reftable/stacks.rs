use super::options::ReftableOptions;
use crate::{Result, mount_check::MountCheck};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{Scope, canonical_name};
use refdb_vfs::Mount;
use reftable::stack::Stack;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
};

/// The stack that holds a ref. Stacks are locked in the order of this type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    /// The stack of the repository, which is also that of the main worktree.
    Common,
    /// The stack of this linked worktree.
    Own,
    /// The stack of another linked worktree, by its id.
    Other(BString),
}

/// The stacks of a repository. Each is opened when it is first needed.
#[derive(Debug)]
pub(super) struct Stacks {
    pub(super) options: ReftableOptions,
    common: OnceLock<Stack>,
    own: OnceLock<Stack>,
    others: Mutex<BTreeMap<BString, Stack>>,
    mount_check: MountCheck,
}

impl Stacks {
    pub(super) fn new(options: ReftableOptions) -> Self {
        Stacks {
            options,
            common: OnceLock::new(),
            own: OnceLock::new(),
            others: Mutex::default(),
            mount_check: MountCheck::default(),
        }
    }

    /// Fails if tables must not be written on this mount, unless `refdb.unsafeStorage` is set.
    pub(super) fn check_storage(&self) -> Result<()> {
        if self.options.may_be_unsafe {
            return Ok(());
        }
        self.mount_check.check(&self.options.fs, &self.options.common_dir, Mount::fault)
    }

    /// Returns whether this is a linked worktree, which has a stack of its own.
    pub(super) fn is_linked(&self) -> bool {
        self.options.git_dir != self.options.common_dir
    }

    /// The stacks of the refs that this worktree names without naming a worktree: the common one, and its own if it is
    /// a linked worktree.
    pub(super) fn own_places(&self) -> impl Iterator<Item = &'static Place> {
        [&Place::Common, &Place::Own].into_iter().take(if self.is_linked() { 2 } else { 1 })
    }

    /// Returns the stack that holds a ref, and the name of the ref in that stack.
    #[inline]
    pub(super) fn route<'n>(&self, name: &'n BStr) -> (Place, &'n BStr) {
        // A short cut for branches and tags.
        if name.starts_with(b"refs/heads/") || name.starts_with(b"refs/tags/") {
            return (Place::Common, name);
        }
        let name = self.canonical_name(name);
        match Scope::of(name) {
            Scope::Shared => (Place::Common, name),
            Scope::Worktree if self.is_linked() => (Place::Own, name),
            Scope::Worktree => (Place::Common, name),
            Scope::Main(inner) => (Place::Common, inner),
            Scope::Other { id, name } => (Place::Other(id.to_owned()), name),
        }
    }

    /// Implements [`Backend::canonical_name`](crate::Backend::canonical_name).
    #[inline]
    pub(super) fn canonical_name<'n>(&self, name: &'n BStr) -> &'n BStr {
        canonical_name(name, self.options.worktree.as_ref().map(|id| id.as_bstr()))
    }

    pub(super) fn folder(&self, place: &Place) -> PathBuf {
        debug_assert!(*place != Place::Own || self.is_linked(), "the main worktree's refs are in the common stack");
        let dir = match place {
            Place::Common => self.options.common_dir.clone(),
            Place::Own => self.options.git_dir.clone(),
            Place::Other(id) => self.options.common_dir.join("worktrees").join(id.to_path_lossy()),
        };
        dir.join("reftable")
    }

    /// Returns whether this is the stack of another worktree and does not exist.
    pub(super) fn is_gone(&self, place: &Place) -> bool {
        matches!(place, Place::Other(_)) && matches!(self.options.fs.find(&self.folder(place)), Ok(None))
    }

    /// Returns the stack, and opens it first if need be. The stack of another worktree is kept open only if it exists,
    /// and those of removed worktrees are closed now and then.
    pub(super) fn stack(&self, place: &Place) -> Result<Stack> {
        let cell = match place {
            Place::Common => &self.common,
            Place::Own => &self.own,
            Place::Other(id) => {
                let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(stack) = others.get(id) {
                    return Ok(stack.clone());
                }
                let stack = self.open(place)?;
                if !self.is_gone(place) {
                    // This is not done each time, because it looks for the folder of every other worktree.
                    if others.len().is_power_of_two() {
                        others.retain(|id, _| !self.is_gone(&Place::Other(id.clone())));
                    }
                    others.insert(id.clone(), stack.clone());
                }
                return Ok(stack);
            }
        };
        match cell.get() {
            Some(stack) => Ok(stack.clone()),
            None => {
                let opened = self.open(place)?;
                Ok(cell.get_or_init(|| opened).clone())
            }
        }
    }

    fn open(&self, place: &Place) -> Result<Stack> {
        let options = self.options.stack.clone();
        Ok(Stack::open(self.options.fs.clone(), &self.folder(place), options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::HashKind;
    use refdb_vfs::Fs;
    use reftable::{WriteOptions, stack::StackOptions};
    use std::fs;

    #[test]
    fn only_stacks_of_worktrees_that_exist_stay_open() {
        let dir = tempfile::tempdir().unwrap();
        let stacks = Stacks::new(ReftableOptions {
            fs: Fs::real(),
            git_dir: dir.path().to_owned(),
            common_dir: dir.path().to_owned(),
            worktree: None,
            stack: StackOptions::new(WriteOptions::new(HashKind::Sha1)),
            lock_timeout: None,
            may_be_unsafe: false,
            format: None,
        });
        let open = |id: &str| drop(stacks.stack(&Place::Other(id.into())).unwrap());
        let count_open = || stacks.others.lock().unwrap().len();
        open("missing");
        assert_eq!(count_open(), 0);
        for id in 0..100 {
            let worktree = dir.path().join(format!("worktrees/{id}"));
            fs::create_dir_all(worktree.join("reftable")).unwrap();
            open(&id.to_string());
            fs::remove_dir_all(worktree).unwrap();
        }
        assert!(count_open() <= 2, "{}", count_open());
    }
}
