//! The entry from which a reflog is shown: the newest, one by its number, or one by a time.

use super::words::Wish;
use crate::{clock::Clock, failure::Result, session::Session};
use bstr::{BStr, BString, ByteSlice};
use refdb::{SHORT_NAME_RULES, Snapshot, Target, approximate, objects::ObjectKind};
use refdb_types::{LogEntry, ObjectId, RefName};
use std::{ops::ControlFlow, path::Path};

/// The entry from which a reflog is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// The newest entry.
    Top,
    /// The entry with this number, where 0 is the newest.
    Number(usize),
    /// The newest entry that is not newer than this time, in seconds since 1970.
    Time(u64),
}

/// The log of a ref, and the entry from which it is shown.
pub(super) struct Start {
    pub(super) name: RefName,
    /// The name of the ref in selectors.
    pub(super) shown: BString,
    pub(super) place: Place,
    is_reached: bool,
    /// The new value that the next entry must have if the log has no gap: the old value of the newer entry before it,
    /// or what the ref holds now.
    after: ObjectId,
}

impl Start {
    /// Finds the log and the entry that the user means. Returns `None` if the log is left to git, for example because
    /// git finds a mistake.
    pub(super) fn find(
        session: &Session,
        snapshot: &dyn Snapshot,
        wish: &Wish<'_>,
        clock: &Clock<'_>,
    ) -> Result<Option<Self>> {
        let given = wish.name.unwrap_or("HEAD".into());
        // If a file has the name too, git asks for `--`.
        let is_file = || given.to_path().is_ok_and(|path: &Path| path.symlink_metadata().is_ok());
        if wish.name.is_some() && !wish.is_no_path && is_file() {
            return Ok(None);
        }
        let (base, place) = match given.split_once_str("@{") {
            None => (given, Place::Top),
            Some((base, rest)) => match rest.strip_suffix(b"}").and_then(|inside| place(inside.as_bstr(), clock)) {
                Some(place) => (base.as_bstr(), place),
                None => return Ok(None),
            },
        };
        let base = if base == "@" { "HEAD".into() } else { base };
        let Some(name) = only(session, snapshot, base) else { return Ok(None) };
        let Some(after) = value(snapshot, &name)? else { return Ok(None) };
        let is_commit = session.store.objects().kind(&after)? == Some(ObjectKind::Commit);
        if !is_commit || !snapshot.has_log(&name)? {
            return Ok(None);
        }
        Ok(Some(Start { shown: base.into(), name, is_reached: place == Place::Top, place, after }))
    }

    /// Returns whether the entry from which the log is shown has been reached.
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// Returns whether the log is shown from `entry` on, which is the next one. Breaks if it is, but git would print
    /// more about `entry` than its line.
    pub(super) fn reach(&mut self, index: usize, entry: &LogEntry, is_commit: bool) -> ControlFlow<(), bool> {
        debug_assert!(!self.is_reached, "there is one first entry");
        let is_first = match self.place {
            Place::Top => true,
            Place::Number(number) => index == number,
            Place::Time(seconds) => entry.committer.time_seconds <= seconds,
        };
        let has_gap = entry.new != self.after;
        self.after = entry.old;
        if is_first && (has_gap || !is_commit) {
            return ControlFlow::Break(());
        }
        self.is_reached = is_first;
        ControlFlow::Continue(is_first)
    }
}

/// The first number that git takes for a time when it looks up the object, but not when it shows the log.
const NUMBERS_END: usize = 100_000_000;

/// Parses what is between the braces.
fn place(inside: &BStr, clock: &Clock<'_>) -> Option<Place> {
    if inside.iter().all(u8::is_ascii_digit) {
        let number: usize = inside.to_str().ok()?.parse().ok()?;
        return (number < NUMBERS_END).then_some(Place::Number(number));
    }
    let is_branch = ["u", "upstream", "push"].iter().any(|word| inside.eq_ignore_ascii_case(word.as_bytes()));
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" .:+-/,".contains(byte);
    if is_branch || !inside.first()?.is_ascii_alphanumeric() || !inside.iter().all(is_plain) {
        return None;
    }
    let date = approximate(inside, clock.now, &clock.zone);
    date.is_date.then_some(Place::Time(date.seconds))
}

/// Returns the one ref that a name means. Returns `None` if there is none or several, if one cannot be read, or if the
/// name is an id.
fn only(session: &Session, snapshot: &dyn Snapshot, base: &BStr) -> Option<RefName> {
    let mut found = None;
    for (before, after) in SHORT_NAME_RULES {
        let Ok(name) = RefName::new([before.as_bytes(), base, after.as_bytes()].concat()) else { continue };
        match snapshot.get(&name) {
            Ok(None) => {}
            Ok(Some(_)) if found.is_none() => found = Some(name),
            Ok(Some(_)) | Err(_) => return None,
        }
    }
    let is_id = ObjectId::from_hex(session.store.objects().hash(), base).is_ok();
    found.filter(|_| !is_id)
}

/// Returns the value of a ref, or of the ref that HEAD leads to. Returns `None` for other symbolic refs, about which
/// git prints more, and for missing refs.
fn value(snapshot: &dyn Snapshot, name: &RefName) -> Result<Option<ObjectId>> {
    let target = match snapshot.get(name)? {
        Some(Target::Symbolic(next)) if name.as_bstr() == "HEAD" => snapshot.get(&next)?,
        target => target,
    };
    Ok(match target {
        Some(Target::Direct(id)) => Some(id),
        Some(Target::Symbolic(_)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb::{Environment, Zone};

    #[test]
    fn a_number_a_date_and_what_is_left_to_git_are_told_apart() {
        let environment = Environment::empty("/nonexistent").with("TZ", "UTC0");
        let clock = Clock { zone: Zone::of(&environment), now: 1_700_000_000 };
        for (inside, expected) in [
            ("0", Some(Place::Number(0))),
            ("0000000001", Some(Place::Number(1))),
            ("99999999", Some(Place::Number(99_999_999))),
            ("100000000", None),
            ("2001-02-03 04:05:06", Some(Place::Time(981_173_106))),
            ("1.day.ago", Some(Place::Time(1_699_913_600))),
            ("now", Some(Place::Time(1_700_000_000))),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("u", None),
            ("Upstream", None),
            ("PUSH", None),
            ("junk", None),
            ("0}@{1", None),
        ] {
            assert_eq!(place(inside.into(), &clock), expected, "{inside}");
        }
    }
}
