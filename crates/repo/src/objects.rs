//! The objects of a repository. An object is classified by reading, verifying and parsing it. If it exceeds the limit
//! on reads, or is larger than 32 MiB and no tag, its kind comes from its header instead. Listings use
//! [`Objects::content`], which verifies nothing, because git's listings do not verify either.

// Read in this order: [`Objects`], `content` (when an object is valid), `databases` and `database` (where objects are
// read), `known` (the classes of objects) and `seen` (objects that were looked up).
mod alternates;
mod bases;
mod check;
mod content;
mod database;
mod databases;
mod error;
mod known;
mod links;
mod pack_entries;
mod promisor;
mod replaced;
mod seen;
mod tree;

pub use crate::config::DIGITS_MIN;
pub use check::{ObjectCheck, ObjectClass};
pub use content::Commit;
pub use database::{Header, ObjectKind};
pub use error::ObjectError;
pub use links::{Link, links};
pub use pack_entries::{PackEntry, PackError, check_packs, pack_entries};

use crate::{environment::Environment, repository::Repository};
use content::Content;
use database::Unpacked;
use databases::Databases;
use known::Known;
use promisor::Promisor;
use refdb_types::{HashKind, ObjectId};
use replaced::Replaced;
use seen::Seen;
use std::{
    collections::{HashMap, HashSet},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The largest content, in bytes, that is read to classify an object other than a tag.
const VERIFIED_MAX_BYTES: u64 = 32 << 20;

/// The objects of a repository. The object database is opened when it is first needed. Objects that were found are
/// remembered, so some queries do not notice that one has been removed since. The empty tree exists even if it is not
/// stored, as in git.
///
/// # Errors
///
/// Each method that takes an id fails with [`ObjectError::OtherHash`] if the id is of another hash than the
/// repository's. A method that looks for objects may fail if the database cannot be opened or searched, and one that
/// shows the replacement of a replaced object fails with [`ObjectError::ReplacedTooOften`] if the chain of replacements
/// is too long. A missing, broken or unreadable object is not an error.
#[derive(Debug)]
pub struct Objects {
    state: Mutex<State>,
    replaced: Replaced,
}

#[derive(Debug)]
struct State {
    dir: PathBuf,
    /// The folders that the environment names beside `dir`.
    alternates: Vec<PathBuf>,
    hash: HashKind,
    read_max_bytes: Option<usize>,
    promisor: Option<Promisor>,
    database: Option<Databases>,
    known: Known,
    seen: Seen,
    buffer: Vec<u8>,
}

impl Objects {
    /// Returns the objects of a repository and of the folders that `GIT_ALTERNATE_OBJECT_DIRECTORIES` names. In a
    /// partial clone, git fetches a missing object that is classified or peeled, but not what a tag leads to. A fetch
    /// blocks all queries of these objects and runs what the repository configures for its remote.
    pub fn of(repository: &Repository, environment: &Environment) -> Self {
        let mut objects = Self::in_dir(repository.objects_dir(environment), repository.hash());
        let state = objects.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = environment.get("GIT_ALTERNATE_OBJECT_DIRECTORIES") {
            let folders = alternates::named(list.as_bytes());
            state.alternates = folders.iter().map(|folder| repository.standing().join(folder)).collect();
        }
        if repository.is_partial_clone() {
            state.promisor = Some(Promisor::new(repository.git_dir().to_owned(), environment.clone()));
        }
        objects
    }

    /// Returns the objects in a folder, such as `.git/objects`.
    pub fn in_dir(dir: PathBuf, hash: HashKind) -> Self {
        let (known, seen) = (Known::new(hash), Seen::default());
        let state = State {
            dir,
            alternates: Vec::new(),
            hash,
            read_max_bytes: None,
            promisor: None,
            database: None,
            known,
            seen,
            buffer: Vec::new(),
        };
        Objects { state: Mutex::new(state), replaced: Replaced::default() }
    }

    /// Returns the object folders that `objects/info/alternates` names. Returns `None` if, for example, git and
    /// gitoxide could interpret that file differently, or it cannot be read.
    pub fn alternates(&self) -> Option<Vec<PathBuf>> {
        alternates::alternates(&self.state().dir)
    }

    /// Bounds the memory that reading one object may take from now on.
    ///
    /// An object that needs more, because it, a base of its deltas, or its deltas together are larger, is not unpacked:
    /// its kind comes from its header, it is not verified, and a tag's target is unknown unless it was passed to
    /// [`Objects::learn_tag`].
    pub fn limit_reads(&self, max_bytes: u64) {
        let mut state = self.state();
        state.read_max_bytes = usize::try_from(max_bytes).ok();
        state.database = None;
    }

    /// Returns the tags that exceed the limit on reads among these objects and the tags that they lead to.
    pub fn unread_tags(&self, ids: impl IntoIterator<Item = ObjectId>) -> Result<Vec<ObjectId>, ObjectError> {
        let (mut met, mut unread) = (HashSet::new(), Vec::new());
        for mut id in ids {
            let state = &mut *self.state_for(&id)?;
            while met.insert(id) && state.kind(&id)? == Some(ObjectKind::Tag) {
                match state.read(&id)? {
                    Some(Content::Tag { target, .. }) => id = target,
                    Some(Content::Unread(_)) => unread.push(id),
                    _ => {}
                }
            }
        }
        Ok(unread)
    }

    /// Records, without verification, that the tag `id` leads to the object `to` at the end of its chain of tags, or
    /// nowhere if `to` is `None`. Does nothing if the class of `id` is already known.
    pub fn learn_tag(&self, id: &ObjectId, to: Option<ObjectId>) -> Result<(), ObjectError> {
        let state = &mut *self.state_for(id)?;
        if state.known.get(id).is_none() {
            state.known.insert(id, ObjectClass::Tag(to));
        }
        Ok(())
    }

    /// Returns the hash function of all ids.
    pub fn hash(&self) -> HashKind {
        self.state().hash
    }

    /// Returns whether an object of this id exists, without reading its content.
    pub fn exists(&self, id: &ObjectId) -> Result<bool, ObjectError> {
        self.lookups().exists(id)
    }

    /// Locks the objects for many queries in a row.
    pub fn lookups(&self) -> Lookups<'_> {
        Lookups { state: self.state() }
    }

    /// Makes these objects show the replacements of replaced objects from now on, as `git replace` does. `find` returns
    /// the replacement of each replaced object, and is called at once, unless this method has succeeded before. Only
    /// [`Objects::kind`], [`Objects::header`], [`Objects::content`], [`Objects::commit`], [`Objects::tag_target`] and
    /// [`Objects::tree_entry`] show replacements.
    ///
    /// # Errors
    ///
    /// Fails if `find` does. No replacements are applied then.
    pub fn apply_replacements<E>(
        &self,
        find: impl FnOnce() -> Result<HashMap<ObjectId, ObjectId>, E>,
    ) -> Result<(), E> {
        self.replaced.apply(find)
    }

    /// Returns the object's kind, or `None` if there is no such object or its header cannot be read.
    pub fn kind(&self, id: &ObjectId) -> Result<Option<ObjectKind>, ObjectError> {
        let id = &self.replaced.of(id)?;
        self.state_for(id)?.kind(id)
    }

    /// Returns the object's kind and size from its header alone, or `None` if there is no such object or its header
    /// cannot be read.
    pub fn header(&self, id: &ObjectId) -> Result<Option<Header>, ObjectError> {
        let id = &self.replaced.of(id)?;
        self.state_for(id)?.header(id)
    }

    /// Replaces `data` by the object's content, without verifying its hash. Returns the kind, or `None` if there is no
    /// such object, if it cannot be unpacked, or if it exceeds the [limit on reads](Self::limit_reads).
    pub fn content(&self, id: &ObjectId, data: &mut Vec<u8>) -> Result<Option<ObjectKind>, ObjectError> {
        let id = &self.replaced.of(id)?;
        Ok(self.state_for(id)?.database()?.read_anew(id, data))
    }

    /// Replaces `data` by the object's content after verifying its hash and parsing it. Returns the kind, or `None` if
    /// there is no valid object of this id, or if it exceeds the [limit on reads](Self::limit_reads).
    pub fn verified_content(&self, id: &ObjectId, data: &mut Vec<u8>) -> Result<Option<ObjectKind>, ObjectError> {
        let state = &mut *self.state_for(id)?;
        let Some(content) = state.read(id)? else { return Ok(None) };
        data.clear();
        data.extend_from_slice(&state.buffer);
        Ok(match content {
            Content::Commit => Some(ObjectKind::Commit),
            Content::Tag { .. } => Some(ObjectKind::Tag),
            Content::Tree => Some(ObjectKind::Tree),
            Content::Blob => Some(ObjectKind::Blob),
            Content::Unread(_) => None,
        })
    }

    /// Returns the ids of all objects in the folder and its alternates, and in the folders of the environment. An id
    /// may occur more than once.
    pub fn ids(&self) -> Result<Vec<ObjectId>, ObjectError> {
        self.state().database()?.ids()
    }

    /// Returns how many digits distinguish `id` from all other objects: at least `least` and [`DIGITS_MIN`], or at
    /// least git's default, which grows with the number of objects in packs. The result is at most the number of digits
    /// of the id.
    pub fn abbreviate(&self, id: &ObjectId, least: Option<usize>) -> Result<usize, ObjectError> {
        const USUAL: usize = 7;
        let state = &mut *self.state_for(id)?;
        let full = state.hash.len_hex();
        let least = match least {
            Some(least) => least.max(DIGITS_MIN),
            None => {
                // As in git: with 2^n objects, a collision becomes likely below 2n bits, which are n/2 digits of four
                // bits each.
                let bits = u64::BITS - state.database()?.packed_count()?.leading_zeros();
                (bits.div_ceil(2) as usize).max(USUAL)
            }
        };
        let len = if least >= full { full } else { state.database()?.unique_len(id, least)? };
        debug_assert!((DIGITS_MIN..=full).contains(&len), "an abbreviation is a part of the id: {len}");
        Ok(len)
    }

    /// Returns the object that an annotated tag leads to, or the object itself if it is not a tag. Returns `None` if
    /// the object or a tag on the way is missing or broken, if the object at the end is missing or of another kind than
    /// its tag says, or if a tag exceeds the [limit on reads](Self::limit_reads) and no [`Objects::learn_tag`] told its
    /// target.
    pub fn peel(&self, id: &ObjectId) -> Result<Option<ObjectId>, ObjectError> {
        Ok(match self.classify(id)? {
            ObjectClass::Missing => None,
            ObjectClass::Tag(peeled) => peeled,
            ObjectClass::Commit | ObjectClass::Other => Some(*id),
        })
    }

    /// Returns the tree and the parents of a commit, or `None` if there is no such commit, if it is broken, or if it
    /// exceeds the [limit on reads](Self::limit_reads).
    pub fn commit(&self, id: &ObjectId) -> Result<Option<Commit>, ObjectError> {
        let id = &self.replaced.of(id)?;
        let state = &mut *self.state_for(id)?;
        Ok(match state.read(id)? {
            Some(Content::Commit) => {
                let commit = Commit::parse(&state.buffer, state.hash);
                debug_assert!(commit.is_some(), "a commit that was found good is still good: {id}");
                commit
            }
            _ => None,
        })
    }

    /// Returns the object that an annotated tag names, which may be another tag. Returns `None` if there is no such
    /// tag, if it is broken, or if it exceeds the [limit on reads](Self::limit_reads).
    pub fn tag_target(&self, id: &ObjectId) -> Result<Option<ObjectId>, ObjectError> {
        let id = &self.replaced.of(id)?;
        Ok(match self.state_for(id)?.read(id)? {
            Some(Content::Tag { target, .. }) => Some(target),
            _ => None,
        })
    }

    /// Returns the id of a tree's entry, and the kind that its mode claims, which a submodule does not have. Returns
    /// `None` if there is no such tree, if its content has another id or exceeds the [limit on
    /// reads](Self::limit_reads), or if no entry before its first malformed one has this name.
    pub fn tree_entry(
        &self,
        tree: &ObjectId,
        name: &[u8],
    ) -> Result<Option<(ObjectId, Option<ObjectKind>)>, ObjectError> {
        let tree = &self.replaced.of(tree)?;
        let state = &mut *self.state_for(tree)?;
        Ok(match state.read(tree)? {
            Some(Content::Tree) => content::tree_entry(&state.buffer, state.hash, name),
            _ => None,
        })
    }

    /// Returns the ids that begin with these hexadecimal digits, sorted. There are none for fewer than [`DIGITS_MIN`]
    /// digits or more than an id has, or if one of the characters is no hexadecimal digit.
    pub fn with_prefix(&self, digits: &str) -> Result<Vec<ObjectId>, ObjectError> {
        self.state().database()?.with_prefix(digits)
    }

    /// Locks the state for a query about this id. gitoxide accepts only ids of the repository's own hash.
    fn state_for(&self, id: &ObjectId) -> Result<MutexGuard<'_, State>, ObjectError> {
        let state = self.state();
        state.check_hash(id).map(|()| state)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is a cache whose entries are valid independently of one another, so it can be used even after a
        // panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks up objects under a single lock. Other queries of the same [`Objects`] block until this value is dropped.
#[derive(Debug)]
pub struct Lookups<'o> {
    state: MutexGuard<'o, State>,
}

impl Lookups<'_> {
    /// Returns whether an object of this id exists, without reading its content.
    #[inline]
    pub fn exists(&mut self, id: &ObjectId) -> Result<bool, ObjectError> {
        if self.state.seen.exists(id) {
            debug_assert!(id.kind() == self.state.hash, "only objects of the repository were seen: {id}");
            return Ok(true);
        }
        self.state.look_for(id)
    }

    /// Returns the object that an annotated tag leads to, or `None` if this is no tag or a tag that cannot be peeled.
    #[inline]
    pub fn peel_tag(&mut self, id: &ObjectId) -> Result<Option<ObjectId>, ObjectError> {
        match self.state.seen.kind(id) {
            Some(kind) if kind != ObjectKind::Tag => Ok(None),
            _ => self.state.peel_tag(id),
        }
    }
}

impl ObjectCheck for Objects {
    fn classify(&self, id: &ObjectId) -> Result<ObjectClass, ObjectError> {
        self.state_for(id)?.classify(id)
    }

    fn peel_tag(&self, id: &ObjectId) -> Result<Option<ObjectId>, ObjectError> {
        self.state().peel_tag(id)
    }

    fn exists(&self, id: &ObjectId) -> Result<bool, ObjectError> {
        Objects::exists(self, id)
    }
}

impl State {
    fn database(&mut self) -> Result<&mut Databases, ObjectError> {
        match &mut self.database {
            Some(database) => Ok(database),
            none => Ok(none.insert(Databases::open(&self.dir, &self.alternates, self.hash, self.read_max_bytes)?)),
        }
    }

    fn peel_tag(&mut self, id: &ObjectId) -> Result<Option<ObjectId>, ObjectError> {
        self.check_hash(id)?;
        // Only tags, and objects that cannot be found, have to be read.
        if self.known.get(id).is_none() && self.kind(id)?.is_some_and(|kind| kind != ObjectKind::Tag) {
            return Ok(None);
        }
        Ok(self.classify(id)?.behind_tag())
    }

    fn kind(&mut self, id: &ObjectId) -> Result<Option<ObjectKind>, ObjectError> {
        match self.seen.kind(id) {
            Some(kind) => Ok(Some(kind)),
            None => Ok(self.header(id)?.map(|header| header.kind)),
        }
    }

    fn header(&mut self, id: &ObjectId) -> Result<Option<Header>, ObjectError> {
        let header = self.database()?.header(id);
        if let Some(header) = header {
            self.seen.put(id, Some(header.kind));
        }
        Ok(header)
    }

    fn check_hash(&self, id: &ObjectId) -> Result<(), ObjectError> {
        let hash = self.hash;
        if id.kind() == hash { Ok(()) } else { Err(ObjectError::OtherHash { id: *id, hash }) }
    }

    /// Looks for an object that is not among those seen.
    #[inline(never)]
    fn look_for(&mut self, id: &ObjectId) -> Result<bool, ObjectError> {
        self.check_hash(id)?;
        let exists = self.known.get(id).is_some() || self.is_loose_before_packs(id) || self.database()?.exists(id);
        if exists {
            self.seen.put(id, None);
        }
        Ok(exists)
    }

    /// Returns whether there is a loose object of this id, which can be found without listing the packs. Returns
    /// `false` once the packs are open, because they are then searched first.
    fn is_loose_before_packs(&self, id: &ObjectId) -> bool {
        if self.database.is_some() {
            return false;
        }
        let hex = id.to_string();
        self.dir.join(&hex[..2]).join(&hex[2..]).exists()
    }

    fn classify(&mut self, id: &ObjectId) -> Result<ObjectClass, ObjectError> {
        if let Some(class) = self.known.get(id) {
            return Ok(class);
        }
        if let Some(class) = self.class_of_large(id)? {
            self.known.insert(id, class);
            return Ok(class);
        }
        let class = match self.read_or_fetch(id)? {
            // That an object is missing is not remembered, because another process may be writing it.
            None => return Ok(ObjectClass::Missing),
            Some(Content::Commit | Content::Unread(ObjectKind::Commit)) => ObjectClass::Commit,
            Some(Content::Tag { target, kind }) => match self.peel(target, kind)? {
                // What the tag leads to may be written later, so that is not remembered either.
                None => return Ok(ObjectClass::Tag(None)),
                end => ObjectClass::Tag(end),
            },
            Some(Content::Unread(ObjectKind::Tag)) => ObjectClass::Tag(None),
            Some(Content::Tree | Content::Blob | Content::Unread(_)) => ObjectClass::Other,
        };
        self.known.insert(id, class);
        debug_assert_eq!(self.known.get(id), Some(class), "what was remembered is found");
        Ok(class)
    }

    /// Returns the class of an object that is too large to be read, from its header and without verification. Returns
    /// `None` for a smaller or missing object, and for a tag, whose target only its content names.
    fn class_of_large(&mut self, id: &ObjectId) -> Result<Option<ObjectClass>, ObjectError> {
        let header = self.header(id)?.filter(|header| header.size_bytes > VERIFIED_MAX_BYTES);
        Ok(header.and_then(|header| match header.kind {
            ObjectKind::Commit => Some(ObjectClass::Commit),
            ObjectKind::Tree | ObjectKind::Blob => Some(ObjectClass::Other),
            ObjectKind::Tag => None,
        }))
    }

    /// Follows a chain of tags to the object at its end. As in git, that object must exist and be of the kind that the
    /// last tag names; the object's content is not read. If the chain leads to such an object, the tags on the way are
    /// remembered, so that each is read once, however many refs lead to the chain.
    fn peel(&mut self, mut target: ObjectId, mut kind: ObjectKind) -> Result<Option<ObjectId>, ObjectError> {
        let mut passed = Vec::new();
        // A tag names the id of its target, which depends on the target's content, so no chain is a cycle.
        let end = loop {
            if kind != ObjectKind::Tag {
                let header = self.database()?.header(&target);
                break header.filter(|header| header.kind == kind).map(|_| target);
            }
            if let Some(known) = self.known.get(&target) {
                break known.behind_tag();
            }
            match self.read(&target)? {
                Some(Content::Tag { target: next, kind: next_kind }) => {
                    passed.push(target);
                    (target, kind) = (next, next_kind);
                }
                _ => break None,
            }
        };
        if end.is_some() {
            passed.iter().for_each(|id| self.known.insert(id, ObjectClass::Tag(end)));
        }
        Ok(end)
    }

    /// Reads the object into the buffer, verifies its id and parses it. Returns [`Content::Unread`] if it exceeds the
    /// limit on reads, and `None` if it is missing or broken.
    fn read(&mut self, id: &ObjectId) -> Result<Option<Content>, ObjectError> {
        let content = self.read_once(id)?;
        if content.is_none() && self.database()?.forget() {
            return self.read_once(id);
        }
        Ok(content)
    }

    fn read_once(&mut self, id: &ObjectId) -> Result<Option<Content>, ObjectError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let unpacked = self.database().map(|database| database.read(id, &mut buffer));
        self.buffer = buffer;
        Ok(match unpacked? {
            Unpacked::Kind(kind) => Content::check(id, kind, &self.buffer),
            Unpacked::TooLarge => self.kind(id)?.map(Content::Unread),
            Unpacked::Missing => None,
        })
    }

    fn read_or_fetch(&mut self, id: &ObjectId) -> Result<Option<Content>, ObjectError> {
        let read = self.read(id)?;
        match &self.promisor {
            Some(promisor) if read.is_none() && promisor.fetch(id) => self.read(id),
            _ => Ok(read),
        }
    }
}
