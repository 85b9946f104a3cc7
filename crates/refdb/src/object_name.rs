//! How a user may name an object: gitrevisions(7), as far as scripts give such names to update-ref.
//!
//! `:/TEXT`, `^{/TEXT}`, the index (`:PATH`), paths from the current folder (`REV:./PATH`), `@{upstream}`, `@{push}` and
//! dates in `@{...}` are not understood, because they need history, a worktree, remotes, or git's parser of human dates.

mod refs;
mod spelling;

pub use refs::SHORT_NAME_RULES;

use crate::{Error, Snapshot, error::LOSSES_MAX};
use bstr::{BStr, BString, ByteSlice};
use refdb_repo::objects::{DIGITS_MIN, ObjectError, ObjectKind, Objects};
use refdb_types::{ObjectId, RefName};
use refdb_vfs::again_if_lost;
use spelling::{PeelTo, describe_digits, split_ancestor, split_path, split_peel, split_reflog};
use std::cell::RefCell;

/// Why a name does not lead to an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing has this name, or the name has a form that is not understood.
    #[error("{0}: not a valid SHA1")]
    NotFound(BString),
    /// The ids of several objects begin with these digits.
    #[error("short object ID {digits} is ambiguous")]
    Ambiguous {
        /// The digits, in lower case.
        digits: String,
        /// The objects whose ids begin with the digits.
        candidates: Vec<ObjectId>,
    },
    /// A reflog has fewer entries than the name asks for.
    #[error("log for '{name}' only has {entries} entries")]
    LogTooShort {
        /// The ref, as it was given; for `@{N}` the branch that is checked out, or `HEAD`.
        name: BString,
        /// How many entries the reflog has.
        entries: usize,
    },
    /// The reflog has no entries, or, for `@{N}`, the branch that is checked out or a detached `HEAD` has no reflog.
    #[error("log for {0} is empty")]
    NoLog(BString),
    /// Refs or objects could not be read.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<ObjectError> for NameError {
    fn from(error: ObjectError) -> Self {
        NameError::Store(error.into())
    }
}

/// Finds the object that `text` names. Refs are read only if `text` is not a full id.
///
/// `warn` is called with git's warnings, for instance about a name that can mean several refs. With `first_only`
/// (`core.warnAmbiguousRefs=false`), the first ref is taken, and others are not looked for.
pub fn resolve_name<'s>(
    snapshot: &dyn Fn() -> crate::Result<Box<dyn Snapshot + 's>>,
    objects: &Objects,
    text: &BStr,
    first_only: bool,
    warn: &mut dyn FnMut(String),
) -> Result<ObjectId, NameError> {
    if let Ok(id) = ObjectId::from_hex(objects.hash(), text) {
        return Ok(id);
    }
    let mut warnings = Vec::new();
    let is_stale = |error: &NameError| matches!(error, NameError::Store(error) if error.is_stale());
    let found = again_if_lost(LOSSES_MAX + 1, is_stale, || {
        warnings.clear();
        let mut keep = |warning| warnings.push(warning);
        Names { snapshot: &*snapshot()?, objects, first_only, warn: RefCell::new(&mut keep) }.find(text)
    });
    warnings.into_iter().for_each(warn);
    found?.ok_or_else(|| NameError::NotFound(text.into()))
}

/// Finds the ref whose reflog a short name means: the first of the [`SHORT_NAME_RULES`] that leads to a ref with a
/// reflog applies. A symbolic ref without a reflog stands for the ref it leads to. Broken refs are passed
/// over. With `first_only`, later rules are not tried; otherwise they are, and an I/O error in one of them fails the
/// call.
pub fn find_logged_ref(
    snapshot: &dyn Snapshot,
    objects: &Objects,
    name: &BStr,
    first_only: bool,
) -> crate::Result<Option<RefName>> {
    let mut nobody = |_: String| {};
    let names = Names { snapshot, objects, first_only, warn: RefCell::new(&mut nobody) };
    match names.find_logged_ref(name, name) {
        Ok(found) => Ok(found),
        Err(NameError::Store(error)) => Err(error),
        Err(other) => unreachable!("no object was looked for: {other}"),
    }
}

/// What an abbreviated id is expected to name, by which one of several candidates is chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Any,
    Commitish,
    Treeish,
}

/// What a suffix of a name asks for.
enum Step {
    Parent(usize),
    Ancestor(usize),
    Peel(PeelTo),
}

struct Names<'a> {
    snapshot: &'a dyn Snapshot,
    objects: &'a Objects,
    first_only: bool,
    warn: RefCell<&'a mut dyn FnMut(String)>,
}

type Found = Result<Option<ObjectId>, NameError>;

impl Names<'_> {
    fn find(&self, text: &BStr) -> Found {
        match split_path(text) {
            None => self.resolve(text, Wanted::Any),
            Some((revision, path)) => match self.resolve(revision, Wanted::Treeish)? {
                Some(id) => self.at_path(id, path),
                None => Ok(None),
            },
        }
    }

    fn resolve(&self, mut text: &BStr, mut wanted: Wanted) -> Found {
        // A name can have more suffixes than the call stack has room for.
        let mut steps = Vec::new();
        loop {
            let step;
            if let Some((base, mark, count)) = split_ancestor(text) {
                wanted = Wanted::Commitish;
                step = if mark == b'^' { Step::Parent(count) } else { Step::Ancestor(count) };
                text = base;
            } else if let Some((base, to)) = split_peel(text) {
                wanted = match to {
                    PeelTo::Kind(ObjectKind::Commit) => Wanted::Commitish,
                    PeelTo::Kind(ObjectKind::Tree) => Wanted::Treeish,
                    _ => Wanted::Any,
                };
                step = Step::Peel(to);
                text = base;
            } else {
                break;
            }
            steps.push(step);
        }
        let mut found = self.basic(text, wanted)?;
        while let (Some(id), Some(step)) = (found, steps.pop()) {
            found = self.take(step, id)?;
        }
        Ok(found)
    }

    fn take(&self, step: Step, id: ObjectId) -> Found {
        let commit = || self.peel(id, PeelTo::Kind(ObjectKind::Commit));
        match step {
            Step::Peel(to) => self.peel(id, to),
            Step::Parent(number) => commit()?.map_or(Ok(None), |commit| self.parent(commit, number)),
            Step::Ancestor(generations) => commit()?.map_or(Ok(None), |commit| self.ancestor(commit, generations)),
        }
    }

    /// The `number`th parent; the commit itself for 0.
    fn parent(&self, commit: ObjectId, number: usize) -> Found {
        if number == 0 {
            return Ok(Some(commit));
        }
        Ok(self.objects.commit(&commit)?.and_then(|commit| commit.parents.get(number - 1).copied()))
    }

    fn ancestor(&self, mut commit: ObjectId, generations: usize) -> Found {
        for _ in 0..generations {
            match self.parent(commit, 1)? {
                Some(parent) => commit = parent,
                None => return Ok(None),
            }
        }
        Ok(Some(commit))
    }

    fn peel(&self, id: ObjectId, to: PeelTo) -> Found {
        let mut at = id;
        loop {
            let Some(header) = self.objects.header(&at)? else { return Ok(None) };
            at = match (to, header.kind) {
                (PeelTo::Object, _) => return Ok(Some(at)),
                (PeelTo::Kind(kind), found) if kind == found => return Ok(Some(at)),
                (_, ObjectKind::Tag) => match self.objects.tag_target(&at)? {
                    Some(target) => target,
                    None => return Ok(None),
                },
                (PeelTo::NoTag, _) => return Ok(Some(at)),
                (PeelTo::Kind(ObjectKind::Tree), ObjectKind::Commit) => {
                    return Ok(self.objects.commit(&at)?.map(|commit| commit.tree));
                }
                (PeelTo::Kind(_), _) => return Ok(None),
            };
        }
    }

    fn basic(&self, text: &BStr, wanted: Wanted) -> Found {
        if let Ok(id) = ObjectId::from_hex(self.objects.hash(), text) {
            return Ok(Some(id));
        }
        if let Some((name, inside)) = split_reflog(text) {
            return self.at_reflog(name, inside);
        }
        let name = if text == "@" { "HEAD".into() } else { text };
        if let Some((_, id)) = self.find_ref(name, text)? {
            return Ok(Some(id));
        }
        self.by_digits(text, wanted)
    }

    /// Finds the object of an id or of the start of one, also at the end of a name that git-describe(1) prints.
    fn by_digits(&self, text: &BStr, wanted: Wanted) -> Found {
        if let Ok(id) = ObjectId::from_hex(self.objects.hash(), text) {
            return Ok(Some(id));
        }
        match describe_digits(text) {
            Some(digits) => self.abbreviated(digits, Wanted::Commitish),
            None => self.abbreviated(text, wanted),
        }
    }

    /// Finds the object at a path in a tree, or in the tree of a commit or tag.
    fn at_path(&self, id: ObjectId, path: &BStr) -> Found {
        let mut at = self.peel(id, PeelTo::Kind(ObjectKind::Tree))?;
        let mut rest = path.as_bytes();
        while let (Some(tree), false) = (at, rest.is_empty()) {
            let (component, below) = rest.split_once_str("/").unwrap_or((rest, b""));
            let entry = self.objects.tree_entry(&tree, component)?;
            // A slash at the end is allowed after a folder, even if its tree is missing.
            let asks_for_folder = component.len() < rest.len() && below.is_empty();
            let fits = |kind| !asks_for_folder || kind == Some(ObjectKind::Tree);
            at = entry.and_then(|(id, kind)| fits(kind).then_some(id));
            rest = below;
        }
        Ok(at)
    }

    fn abbreviated(&self, digits: &BStr, wanted: Wanted) -> Found {
        let Ok(digits) = digits.to_str() else { return Ok(None) };
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || digits.len() < DIGITS_MIN || digits.len() > self.objects.hash().len_hex() {
            return Ok(None);
        }
        let digits = digits.to_ascii_lowercase();
        let candidates = self.objects.with_prefix(&digits)?;
        if let [only] = candidates[..] {
            return Ok(Some(only));
        }
        // If exactly one of several candidates has the wanted kind, that one is taken.
        let mut fitting = Vec::new();
        for id in &candidates {
            if self.fits(*id, wanted)? {
                fitting.push(*id);
            }
        }
        debug_assert!(fitting.len() <= candidates.len(), "the fitting ones are among the candidates");
        match fitting[..] {
            [only] => Ok(Some(only)),
            _ if candidates.is_empty() => Ok(None),
            _ => Err(NameError::Ambiguous { digits, candidates }),
        }
    }

    fn fits(&self, id: ObjectId, wanted: Wanted) -> Result<bool, NameError> {
        let peeled = self.peel(id, PeelTo::NoTag)?;
        let kind = peeled.map(|id| self.objects.header(&id)).transpose()?.flatten().map(|header| header.kind);
        Ok(match wanted {
            Wanted::Any => true,
            Wanted::Commitish => kind == Some(ObjectKind::Commit),
            Wanted::Treeish => matches!(kind, Some(ObjectKind::Commit | ObjectKind::Tree)),
        })
    }
}
