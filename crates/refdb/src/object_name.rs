//! How a user may name an object: gitrevisions(7), as far as scripts give such names to update-ref.
//!
//! Not understood are `:/TEXT`, `^{/TEXT}`, the index (`:PATH`), `@{upstream}`, `@{push}` and dates in `@{...}`: these
//! need a search through history, a worktree, remotes, or git's reading of human dates.

use crate::{Error, LooseError, Snapshot};
use bstr::{BStr, BString, ByteSlice};
use refdb_repo::objects::{DIGITS_MIN, ObjectError, ObjectKind, Objects};
use refdb_types::{ObjectId, RefName, SYMREF_DEPTH_MAX, Target};
use std::{cell::RefCell, ops::ControlFlow};

/// Why a name does not lead to an object.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// There is nothing of that name, or it is no name that is understood.
    #[error("{0}: not a valid SHA1")]
    NotFound(BString),
    /// Several objects begin with these digits.
    #[error("short object ID {digits} is ambiguous")]
    Ambiguous {
        /// The digits.
        digits: String,
        /// The objects.
        candidates: Vec<ObjectId>,
    },
    /// A reflog does not reach that far back.
    #[error("log for '{name}' only has {entries} entries")]
    LogTooShort {
        /// The ref, as it was given.
        name: BString,
        /// How many entries there are.
        entries: usize,
    },
    /// The reflog has no entries, or the branch that is checked out has no reflog.
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

/// What stands before and after a short name in the refnames that gitrevisions(7) makes of it, in its order.
pub const SHORT_NAME_RULES: [(&str, &str); 6] = [
    ("", ""),
    ("refs/", ""),
    ("refs/tags/", ""),
    ("refs/heads/", ""),
    ("refs/remotes/", ""),
    ("refs/remotes/", "/HEAD"),
];

/// Finds the object that `text` names. The refs are looked at only if `text` is not a full id.
///
/// `warn` is told of names that mean several refs, in git's words; not if `first_only` is set: then the first one is taken, and
/// the others are not looked for (`core.warnAmbiguousRefs=false`).
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
    let names = Names { snapshot: snapshot()?, objects, first_only, warn: RefCell::new(warn) };
    let found = match split_path(text) {
        None => names.resolve(text, Wanted::Any)?,
        Some((revision, path)) => match names.resolve(revision, Wanted::Treeish)? {
            Some(id) => names.at_path(id, path)?,
            None => None,
        },
    };
    found.ok_or_else(|| NameError::NotFound(text.into()))
}

/// What an abbreviated id is expected to be; it decides between several candidates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Any,
    Commitish,
    Treeish,
}

/// `^{commit}` and its like.
#[derive(Clone, Copy)]
enum PeelTo {
    Object,
    NoTag,
    Kind(ObjectKind),
}

struct Names<'a, 's> {
    snapshot: Box<dyn Snapshot + 's>,
    objects: &'a Objects,
    first_only: bool,
    warn: RefCell<&'a mut dyn FnMut(String)>,
}

type Found = Result<Option<ObjectId>, NameError>;

impl Names<'_, '_> {
    fn resolve(&self, text: &BStr, wanted: Wanted) -> Found {
        if let Some((base, mark, count)) = split_ancestor(text) {
            let Some(commit) = self.resolve(base, Wanted::Commitish)? else { return Ok(None) };
            let Some(commit) = self.peel(commit, PeelTo::Kind(ObjectKind::Commit))? else { return Ok(None) };
            return if mark == b'^' { self.parent(commit, count) } else { self.ancestor(commit, count) };
        }
        if let Some((base, to)) = split_peel(text) {
            let wanted = match to {
                PeelTo::Kind(ObjectKind::Commit) => Wanted::Commitish,
                PeelTo::Kind(ObjectKind::Tree) => Wanted::Treeish,
                _ => Wanted::Any,
            };
            let Some(id) = self.resolve(base, wanted)? else { return Ok(None) };
            return self.peel(id, to);
        }
        self.basic(text, wanted)
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

    /// An id or the start of one, also at the end of what git-describe(1) says.
    fn by_digits(&self, text: &BStr, wanted: Wanted) -> Found {
        if let Ok(id) = ObjectId::from_hex(self.objects.hash(), text) {
            return Ok(Some(id));
        }
        match describe_digits(text) {
            Some(digits) => self.abbreviated(digits, Wanted::Commitish),
            None => self.abbreviated(text, wanted),
        }
    }

    /// The first ref with a reflog that the rules of gitrevisions(7) make of the name. `shown` is what the user called it.
    fn find_logged_ref(&self, name: &BStr, shown: &BStr) -> Result<Option<RefName>, NameError> {
        let (mut found, mut count) = (None, 0);
        for (before, after) in SHORT_NAME_RULES {
            if self.first_only && found.is_some() {
                break;
            }
            let Ok(full) = RefName::new([before.as_bytes(), name, after.as_bytes()].concat()) else { continue };
            let Some((end, _)) = self.follow(&full)? else { continue };
            // A symbolic ref without a reflog has that of the ref it leads to.
            for logged in [full, end] {
                if self.snapshot.has_log(&logged)? {
                    count += 1;
                    found.get_or_insert(logged);
                    break;
                }
            }
        }
        debug_assert_eq!(count > 0, found.is_some(), "the first of the rules that fits counts");
        if count > 1 {
            (self.warn.borrow_mut())(format!("refname '{shown}' is ambiguous."));
        }
        Ok(found)
    }

    /// The first ref that the rules of gitrevisions(7) make of the name. Symbolic refs that lead nowhere are passed over,
    /// with a warning. `shown` is what the user called it.
    fn find_ref(&self, name: &BStr, shown: &BStr) -> Result<Option<(RefName, ObjectId)>, NameError> {
        let warn = |text: String| (self.warn.borrow_mut())(text);
        let (mut found, mut count) = (None, 0);
        for (before, after) in SHORT_NAME_RULES {
            if self.first_only && found.is_some() {
                break;
            }
            let full = [before.as_bytes(), name, after.as_bytes()].concat();
            let Ok(full) = RefName::new(full) else { continue };
            match self.follow(&full)? {
                Some((_, id)) => {
                    count += 1;
                    found.get_or_insert((full, id));
                }
                None => self.warn_of_dead_end(&full),
            }
        }
        debug_assert_eq!(count > 0, found.is_some(), "the first of the rules that fits counts");
        if count > 1 {
            warn(format!("refname '{shown}' is ambiguous."));
        }
        Ok(found)
    }

    /// Tells, as git does, that there is a ref of this name, but that it leads nowhere.
    fn warn_of_dead_end(&self, full: &RefName) {
        let what = match self.snapshot.get(full) {
            Err(Error::BrokenRef(broken)) => match broken.why {
                LooseError::Unreadable(_) => return,
                LooseError::Target(_) => "dangling symref",
                LooseError::Empty | LooseError::Content(_) => "broken ref",
            },
            Ok(Some(Target::Direct(_))) => "broken ref",
            Ok(Some(Target::Symbolic(_))) => "dangling symref",
            Ok(None) | Err(_) => return,
        };
        let is_told = if what == "broken ref" { full.contains(&b'/') } else { full.as_bstr() != "HEAD" };
        if is_told {
            (self.warn.borrow_mut())(format!("ignoring {what} {full}"));
        }
    }

    /// What lies at a path in a commit's or tag's tree, or in a tree.
    fn at_path(&self, id: ObjectId, path: &BStr) -> Found {
        let mut at = self.peel(id, PeelTo::Kind(ObjectKind::Tree))?;
        for component in path.split_str("/").filter(|component| !component.is_empty()) {
            let Some(tree) = at else { return Ok(None) };
            at = self.objects.tree_entry(&tree, component)?;
        }
        Ok(at)
    }

    /// Where a ref leads: the last ref, and its object.
    fn follow(&self, name: &RefName) -> Result<Option<(RefName, ObjectId)>, NameError> {
        let mut name = name.clone();
        for _ in 0..=SYMREF_DEPTH_MAX {
            match self.snapshot.get(&name) {
                // At the root any file of the repository may have the name: what holds no ref is none.
                Ok(None) | Err(Error::BrokenRef(_)) => return Ok(None),
                Ok(Some(Target::Direct(id))) => return Ok(Some((name, id))),
                Ok(Some(Target::Symbolic(next))) => name = next,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// `NAME@{N}`, `@{N}` and `@{-N}`.
    fn at_reflog(&self, name: &BStr, inside: &BStr) -> Found {
        let number =
            |digits: &[u8]| digits.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok();
        if let Some(back) = inside.strip_prefix(b"-") {
            return match number(back) {
                Some(back) if name.is_empty() && back > 0 => self.checked_out_before(back),
                _ => Ok(None),
            };
        }
        let Some(number) = number(inside) else { return Ok(None) };
        let full = match name.as_bytes() {
            b"" => self.current_branch()?,
            b"@" => self.find_logged_ref("HEAD".into(), name)?,
            _ => self.find_logged_ref(name, name)?,
        };
        let Some(full) = full else { return Ok(None) };
        let branch = full.strip_prefix(b"refs/heads/").unwrap_or(b"HEAD");
        let shown = if name.is_empty() { branch.into() } else { name.into() };
        self.log_value(&full, number, shown)
    }

    /// The ref that HEAD leads to in the end, or HEAD itself; while there is none, another ref that is called HEAD.
    fn current_branch(&self) -> Result<Option<RefName>, NameError> {
        let Some((head, _)) = self.find_ref("HEAD".into(), "".into())? else { return Ok(None) };
        Ok(self.follow(&head)?.map(|(end, _)| end))
    }

    /// What a ref's reflog says. Without entries, and without a reflog, the ref was always what it is now.
    fn log_value(&self, name: &RefName, number: usize, shown: BString) -> Found {
        let (mut seen, mut value, mut oldest) = (0, None, None);
        self.snapshot.log(name, &mut |entry| {
            if seen == number {
                value = Some(entry.new);
                return ControlFlow::Break(());
            }
            seen += 1;
            oldest = Some(entry.old);
            ControlFlow::Continue(())
        })?;
        match (value, oldest) {
            (Some(value), _) => Ok(Some(value)),
            // The value before the oldest entry is known too.
            (None, Some(oldest)) if seen == number && !oldest.is_null() => Ok(Some(oldest)),
            (None, Some(_)) => Err(NameError::LogTooShort { name: shown, entries: seen }),
            (None, None) if number == 0 => Ok(self.follow(name)?.map(|(_, id)| id)),
            (None, None) => Err(NameError::NoLog(name.as_bstr().into())),
        }
    }

    /// What was checked out before the last `back` changes of branch, as HEAD's reflog tells.
    fn checked_out_before(&self, back: usize) -> Found {
        debug_assert!(back > 0, "`@{{-0}}` names nothing");
        let (mut left, mut found) = (back, None);
        self.snapshot.log("HEAD".into(), &mut |entry| {
            let from =
                entry.message.strip_prefix(b"checkout: moving from ").and_then(|rest| rest.split_str(" to ").next());
            if let Some(from) = from {
                left -= 1;
                if left == 0 {
                    found = Some(BString::from(from));
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        let Some(from) = found else { return Ok(None) };
        // The text stands for the branch's short name, and that for what the rules make of it.
        match self.find_ref(from.as_bstr(), format!("@{{-{back}}}").as_str().into())? {
            Some((_, id)) => Ok(Some(id)),
            None => self.by_digits(from.as_bstr(), Wanted::Commitish),
        }
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
        // Several: what is asked for decides, if it does.
        let mut fitting = Vec::new();
        for id in &candidates {
            if self.fits(*id, wanted)? {
                fitting.push(*id);
            }
        }
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

/// `REVISION:PATH`. A colon in braces belongs to the revision.
fn split_path(text: &BStr) -> Option<(&BStr, &BStr)> {
    let mut depth = 0u32;
    let at = text.iter().position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *byte == b':' && depth == 0
    })?;
    Some((text[..at].as_bstr(), text[at + 1..].as_bstr()))
}

/// `BASE^`, `BASE^2`, `BASE~`, `BASE~3`: the base, the mark and the number.
fn split_ancestor(text: &BStr) -> Option<(&BStr, u8, usize)> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (head, digits) = text.split_at(text.len() - digits);
    let (mark, base) = head.split_last()?;
    if !matches!(mark, b'^' | b'~') || base.is_empty() {
        return None;
    }
    let number = if digits.is_empty() { 1 } else { digits.to_str().ok()?.parse().ok()? };
    Some((base.as_bstr(), *mark, number))
}

/// `BASE^{commit}` and its like.
fn split_peel(text: &BStr) -> Option<(&BStr, PeelTo)> {
    let inner = text.strip_suffix(b"}")?;
    let at = inner.rfind("^{")?;
    let to = match &inner[at + 2..] {
        b"" => PeelTo::NoTag,
        b"object" => PeelTo::Object,
        b"commit" => PeelTo::Kind(ObjectKind::Commit),
        b"tree" => PeelTo::Kind(ObjectKind::Tree),
        b"blob" => PeelTo::Kind(ObjectKind::Blob),
        b"tag" => PeelTo::Kind(ObjectKind::Tag),
        _ => return None,
    };
    Some((inner[..at].as_bstr(), to))
}

/// `NAME@{INSIDE}`.
fn split_reflog(text: &BStr) -> Option<(&BStr, &BStr)> {
    let inner = text.strip_suffix(b"}")?;
    let at = inner.rfind("@{")?;
    Some((inner[..at].as_bstr(), inner[at + 2..].as_bstr()))
}

/// The digits of `v1.0-3-gabcdef`, as git-describe(1) prints it.
fn describe_digits(text: &BStr) -> Option<&BStr> {
    let at = text.rfind("-g")?;
    let digits = &text[at + 2..];
    (at > 0 && !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit)).then_some(digits.as_bstr())
}
