//! Names that lead through refs and reflogs: short refnames, `NAME@{N}`, `@{-N}`.

use super::{Found, NameError, Names, Wanted};
use crate::{Error, LooseError};
use bstr::{BStr, BString, ByteSlice};
use refdb_repo::rfc2822;
use refdb_types::{LogEntry, ObjectId, RefName, SYMREF_DEPTH_MAX, Target};
use std::ops::ControlFlow;

/// The prefixes and suffixes that make refnames from a short name, in the order of gitrevisions(7).
pub const SHORT_NAME_RULES: [(&str, &str); 6] = [
    ("", ""),
    ("refs/", ""),
    ("refs/tags/", ""),
    ("refs/heads/", ""),
    ("refs/remotes/", ""),
    ("refs/remotes/", "/HEAD"),
];

/// The least number in `NAME@{NUMBER}` that git takes for a time in seconds, and not for that of a reflog entry.
const TIMES_FROM: usize = 100_000_000;

impl Names<'_> {
    /// The first ref with a reflog that the rules of gitrevisions(7) make from the name. `shown` is the name as the
    /// user gave it.
    pub(super) fn find_logged_ref(&self, name: &BStr, shown: &BStr) -> Result<Option<RefName>, NameError> {
        let (mut found, mut count) = (None, 0);
        for (before, after) in SHORT_NAME_RULES {
            if self.first_only && found.is_some() {
                break;
            }
            let Ok(full) = RefName::new([before.as_bytes(), name, after.as_bytes()].concat()) else { continue };
            let Some((end, _)) = self.follow(&full)? else { continue };
            // A symbolic ref without a reflog has the reflog of the ref it leads to.
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

    /// The first ref that the rules of gitrevisions(7) make from the name. Refs that are broken or lead nowhere are
    /// passed over, with a warning where git has one. `shown` is the name as the user gave it.
    pub(super) fn find_ref(&self, name: &BStr, shown: &BStr) -> Result<Option<(RefName, ObjectId)>, NameError> {
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

    /// Warns, as git does, if the ref of this name is broken or leads nowhere: not about HEAD, nor about a broken file
    /// at the root of the repository, nor about a file that cannot be read.
    fn warn_of_dead_end(&self, full: &RefName) {
        let what = match self.snapshot.get(full) {
            Err(Error::BrokenRef(broken)) => match broken.why {
                LooseError::Unreadable(_) => return,
                LooseError::Target(_) => "dangling symref",
                LooseError::Empty | LooseError::Content(_) => "broken ref",
            },
            Ok(Some(Target::Direct(_))) => "broken ref",
            Ok(Some(Target::Symbolic(_))) | Err(Error::BadTarget { .. }) => "dangling symref",
            Ok(None) | Err(_) => return,
        };
        let is_told = if what == "broken ref" { full.contains(&b'/') } else { full.as_bstr() != "HEAD" };
        if is_told {
            (self.warn.borrow_mut())(format!("ignoring {what} {full}"));
        }
    }

    /// Where a ref leads: the last ref of the chain of symbolic refs, and its object. Returns `None` if a ref of the
    /// chain does not exist or is broken, or if the chain is too long.
    fn follow(&self, name: &RefName) -> Result<Option<(RefName, ObjectId)>, NameError> {
        let mut name = name.clone();
        for _ in 0..SYMREF_DEPTH_MAX {
            match self.snapshot.get(&name) {
                // Any file at the root of the repository may have this name, so a file without a valid value is not a
                // ref.
                Ok(None) => return Ok(None),
                Err(error) if error.is_broken_ref() => return Ok(None),
                Ok(Some(Target::Direct(id))) => return Ok(Some((name, id))),
                Ok(Some(Target::Symbolic(next))) => name = next,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Resolves `NAME@{N}`, `@{N}` and `@{-N}`.
    pub(super) fn at_reflog(&self, name: &BStr, inside: &BStr) -> Found {
        let number =
            |digits: &[u8]| digits.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok();
        if let Some(back) = inside.strip_prefix(b"-") {
            return match number(back) {
                Some(back) if name.is_empty() && back > 0 => self.checked_out_before(back),
                _ => Ok(None),
            };
        }
        let Some(number) = number(inside).filter(|number| *number < TIMES_FROM) else { return Ok(None) };
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

    /// The ref to which HEAD leads in the end, or HEAD itself if it is detached. If HEAD leads nowhere, another ref of
    /// the short name HEAD takes its place.
    fn current_branch(&self) -> Result<Option<RefName>, NameError> {
        let Some((head, _)) = self.find_ref("HEAD".into(), "".into())? else { return Ok(None) };
        Ok(self.follow(&head)?.map(|(end, _)| end))
    }

    /// The value of a ref `number` changes ago, according to its reflog. Without a reflog or entries, only number 0,
    /// the current value, is known.
    fn log_value(&self, name: &RefName, number: usize, shown: BString) -> Found {
        let (mut seen, mut found, mut after) = (0, None, None);
        self.snapshot.log(name, &mut |entry| {
            if seen == number {
                found = Some(entry.clone());
                return ControlFlow::Break(());
            }
            seen += 1;
            after = Some(entry.old);
            ControlFlow::Continue(())
        })?;
        debug_assert!(found.is_none() || seen == number, "the entry is the one asked for: {seen}");
        match (found, after) {
            (Some(entry), _) => self.checked(name, &entry, after).map(Some),
            // The value before the oldest entry is known too.
            (None, Some(oldest)) if seen == number && !oldest.is_null() => Ok(Some(oldest)),
            (None, Some(_)) => Err(NameError::LogTooShort { name: shown, entries: seen }),
            (None, None) if number == 0 => Ok(self.follow(name)?.map(|(_, id)| id)),
            (None, None) => Err(NameError::NoLog(name.as_bstr().into())),
        }
    }

    /// The value of an entry, with a warning if the next newer entry begins with another value. The newest entry, and
    /// one that is followed by an entry without an old value, is compared with the ref's current value, and, as in git,
    /// that current value is returned.
    fn checked(&self, name: &RefName, entry: &LogEntry, after: Option<ObjectId>) -> Result<ObjectId, NameError> {
        let warn = |what: &str| {
            (self.warn.borrow_mut())(format!("log for ref {name} {what} {}", rfc2822(&entry.committer)));
        };
        match after.filter(|id| !id.is_null()) {
            Some(after) => {
                if after != entry.new {
                    warn("has gap after");
                }
                Ok(entry.new)
            }
            None => {
                let now = self.follow(name)?.map_or(entry.new, |(_, id)| id);
                if now != entry.new {
                    warn("unexpectedly ended on");
                }
                Ok(now)
            }
        }
    }

    /// What was checked out before the last `back` changes of branch, according to HEAD's reflog.
    fn checked_out_before(&self, back: usize) -> Found {
        debug_assert!(back > 0, "`@{{-0}}` names nothing");
        let (mut left, mut found) = (back, None);
        self.snapshot.log("HEAD".into(), &mut |entry| {
            if let Some((from, _)) = entry.checkout() {
                left -= 1;
                if left == 0 {
                    found = Some(from.to_owned());
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        debug_assert_eq!(found.is_some(), left == 0, "the branch is that of the change asked for");
        let Some(from) = found else { return Ok(None) };
        // The text is the short name of a branch, or the id of a commit.
        match self.find_ref(from.as_bstr(), format!("@{{-{back}}}").as_str().into())? {
            Some((_, id)) => Ok(Some(id)),
            None => self.by_digits(from.as_bstr(), Wanted::Commitish),
        }
    }
}
