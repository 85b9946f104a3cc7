//! The age at which entries expire: `gc.reflogExpire` and `gc.reflogExpireUnreachable`, also for a pattern of refnames.

use crate::clock::Clock;
use bstr::{BStr, BString, ByteSlice};
use gix_glob::{wildmatch, wildmatch::Mode};
use refdb::{
    config::{Config, ConfigError},
    expiry,
};
use refdb_types::Scope;

const DAY: u64 = 24 * 60 * 60;

/// Times in seconds since 1970; older entries expire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Cutoff<T> {
    /// The time for all entries.
    pub(super) any: T,
    /// The time for entries whose commits cannot be reached from the ref.
    pub(super) unreachable: T,
}

/// The times that the configuration sets, or else git's defaults.
#[derive(Debug)]
pub(super) struct Settings {
    usual: Cutoff<u64>,
    /// The times for patterns of refnames, in the order in which the patterns were first used. As in git, if only one
    /// time is set, the other one is 0, so that nothing expires by it.
    patterns: Vec<(BString, Cutoff<u64>)>,
}

impl Settings {
    /// Reads the settings. Dates are relative to the clock. As in git, the defaults are always relative to the system's
    /// time.
    pub(super) fn of(config: &Config, clock: &Clock<'_>, system_seconds: u64) -> Result<Self, ConfigError> {
        let before = |days: u64| system_seconds.saturating_sub(days * DAY);
        let usual = Cutoff { any: before(90), unreachable: before(30) };
        let mut settings = Settings { usual, patterns: Vec::new() };
        for value in config.iter() {
            let Some((section, name)) = value.key.rsplit_once_str(".") else { continue };
            let is_unreachable = match name {
                b"reflogexpire" => false,
                b"reflogexpireunreachable" => true,
                _ => continue,
            };
            let cutoff = match section.strip_prefix(b"gc") {
                Some(b"") => &mut settings.usual,
                Some([b'.', pattern @ ..]) => settings.of_pattern(pattern.as_bstr()),
                _ => continue,
            };
            let time = value.timestamp(|text| expiry(text, clock.now, &clock.zone))?;
            *(if is_unreachable { &mut cutoff.unreachable } else { &mut cutoff.any }) = time;
        }
        Ok(settings)
    }

    fn of_pattern(&mut self, pattern: &BStr) -> &mut Cutoff<u64> {
        let known = self.patterns.iter().position(|(known, _)| *known == pattern);
        let at = known.unwrap_or_else(|| {
            self.patterns.push((pattern.to_owned(), Cutoff::default()));
            self.patterns.len() - 1
        });
        &mut self.patterns[at].1
    }

    /// Returns the times for a ref: those of the command line, or else those of the first pattern that matches, or else
    /// those for all refs. Entries of the stash never expire unless one of the first two names a time.
    pub(super) fn cutoff(&self, name: &BStr, given: Cutoff<Option<u64>>) -> Cutoff<u64> {
        let fits = |pattern: &BString| wildmatch(pattern.as_bstr(), name, Mode::empty());
        let set = match self.patterns.iter().find(|(pattern, _)| fits(pattern)) {
            Some((_, cutoff)) => *cutoff,
            None if name == "refs/stash" => Cutoff::default(),
            None => self.usual,
        };
        Cutoff { any: given.any.unwrap_or(set.any), unreachable: given.unreachable.unwrap_or(set.unreachable) }
    }
}

/// Returns whether the name is the HEAD of a worktree. For the entries of a HEAD, commits that any ref below `refs/`
/// leads to are reachable.
pub(super) fn is_head(name: &BStr) -> bool {
    match Scope::of(name) {
        Scope::Main(inner) | Scope::Other { name: inner, .. } => inner == "HEAD",
        Scope::Shared | Scope::Worktree => name == "HEAD",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb::{Environment, Zone};
    use std::path::Path;

    const NOW: u64 = 1_700_000_000;

    fn cutoff(text: &str, name: &str, given: Cutoff<Option<u64>>) -> (u64, u64) {
        let environment = Environment::empty("/").with("TZ", "UTC");
        let config = Config::parse(text.as_bytes(), Path::new("config")).unwrap();
        let clock = Clock { zone: Zone::of(&environment), now: NOW };
        let settings = Settings::of(&config, &clock, NOW).unwrap();
        let Cutoff { any, unreachable } = settings.cutoff(name.into(), given);
        (any, unreachable)
    }

    #[test]
    fn the_nearest_setting_counts() {
        let none = Cutoff::default();
        let usual = (NOW - 90 * DAY, NOW - 30 * DAY);
        let never = "[gc \"refs/heads/*\"]\nreflogExpire = never\n[gc \"refs/heads/a\"]\nreflogExpire = now\n";
        for (text, name, given, expected) in [
            ("", "refs/heads/a", none, usual),
            ("", "refs/stash", none, (0, 0)),
            ("[gc]\nreflogExpire = now\n", "refs/stash", none, (0, 0)),
            ("[gc]\nreflogExpire = now\n", "HEAD", none, (u64::MAX, usual.1)),
            ("[gc]\nreflogExpireUnreachable = false\n", "HEAD", none, (usual.0, 0)),
            (never, "refs/heads/a", none, (0, 0)),
            (never, "refs/heads/a/b", none, (0, 0)),
            (never, "refs/tags/a", none, usual),
            (never, "refs/heads/a", Cutoff { any: Some(5), unreachable: None }, (5, 0)),
            ("[gc \"refs/stash\"]\nreflogExpire = now\n", "refs/stash", none, (u64::MAX, 0)),
        ] {
            assert_eq!(cutoff(text, name, given), expected, "{text:?} {name}");
        }
    }

    #[test]
    fn heads_are_told_from_branches() {
        for (name, expected) in [
            ("HEAD", true),
            ("worktrees/w/HEAD", true),
            ("main-worktree/HEAD", true),
            ("refs/heads/HEAD", false),
            ("ORIG_HEAD", false),
        ] {
            assert_eq!(is_head(name.into()), expected, "{name}");
        }
    }
}
