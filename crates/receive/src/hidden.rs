use bstr::{BStr, BString, ByteSlice};
use refdb_types::is_below;

/// The refs that `transfer.hideRefs`, and `receive.hideRefs` or `uploadpack.hideRefs`, hide from clients; see
/// git-config(1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HiddenRefs {
    patterns: Vec<BString>,
}

impl HiddenRefs {
    /// Adds a value of `transfer.hideRefs`, `receive.hideRefs` or `uploadpack.hideRefs`. The value takes precedence
    /// over those that were added before.
    pub fn add(&mut self, pattern: &BStr) {
        self.patterns.push(pattern.trim_end_with(|c| c == '/').into());
    }

    /// Returns whether the ref `name` is hidden. The last pattern that matches decides, and a pattern that begins with
    /// `!` shows the ref.
    ///
    /// A `^` before a pattern is ignored. In git it makes the pattern match the name with its namespace, but pushes and
    /// fetches in a namespace are served by git itself.
    pub fn covers(&self, name: &BStr) -> bool {
        self.patterns.iter().rev().find_map(|pattern| decide(pattern, name)).unwrap_or(false)
    }

    /// Returns whether no pattern was added, so that nothing is hidden.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns directories in which all refs are hidden, each with a slash at its end, so that the caller need not list
    /// the refs in them. Only directories that patterns name are returned.
    pub fn folders(&self) -> Vec<BString> {
        let folders = self.patterns.iter().filter(|pattern| !pattern.starts_with(b"!")).map(|pattern| {
            let folder = pattern.strip_prefix(b"^").unwrap_or(pattern);
            BString::from([folder, b"/"].concat())
        });
        // `x` stands for any name in the directory.
        let is_hidden = |folder: &BString| {
            let inside = BString::from([folder.as_slice(), b"x"].concat());
            self.folder_around(inside.as_bstr()).is_some_and(|around| folder.starts_with(around))
        };
        folders.filter(|folder| folder.len() > 1 && is_hidden(folder)).collect()
    }

    /// Returns a directory that contains the ref `name` and in which all refs are hidden, so that the caller can skip
    /// them. Returns `None` if no such directory is known; the caller must then check the next ref by itself.
    pub fn folder_around<'h>(&'h self, name: &BStr) -> Option<&'h BStr> {
        let decisive = self.patterns.iter().rev().find(|pattern| decide(pattern, name).is_some())?;
        let folder = decisive.strip_prefix(b"^").unwrap_or(decisive);
        let shows_below = |pattern: &BString| {
            pattern.strip_prefix(b"!").is_some_and(|shown| is_below(shown.strip_prefix(b"^").unwrap_or(shown), folder))
        };
        let hides = !decisive.starts_with(b"!") && is_below(name, folder) && !self.patterns.iter().any(shows_below);
        hides.then_some(folder.as_bstr())
    }
}

fn decide(pattern: &[u8], name: &[u8]) -> Option<bool> {
    let (pattern, hides) = match pattern.strip_prefix(b"!") {
        Some(pattern) => (pattern, false),
        None => (pattern, true),
    };
    let pattern = pattern.strip_prefix(b"^").unwrap_or(pattern);
    is_within(name, pattern).then_some(hides)
}

/// Returns whether the ref `name` is `place` or lies below it.
pub(crate) fn is_within(name: &[u8], place: &[u8]) -> bool {
    name == place || is_below(name, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_skipped_only_if_nothing_in_it_is_shown() {
        let mut hidden = HiddenRefs::default();
        for pattern in ["refs/changes", "refs/a", "!refs/a/shown", "refs/tags/", "!refs/tags", "^refs/b"] {
            hidden.add(pattern.into());
        }
        let folder = |name: &str| hidden.folder_around(name.into()).map(|folder| folder.to_string());
        assert_eq!(folder("refs/changes/1/2").as_deref(), Some("refs/changes"));
        assert_eq!(folder("refs/b/x").as_deref(), Some("refs/b"));
        for name in ["refs/changes", "refs/changesets/1", "refs/a/x", "refs/a/shown/x", "refs/tags/x", "refs/heads/x"] {
            assert_eq!(folder(name), None, "{name}");
        }
    }

    #[test]
    fn the_hidden_directories_are_those_with_nothing_to_show() {
        let mut hidden = HiddenRefs::default();
        assert!(hidden.is_empty() && hidden.folders().is_empty());
        for pattern in ["refs/changes", "refs/a", "!refs/a/b", "refs/tags/", "!refs/tags", "^refs/b"] {
            hidden.add(pattern.into());
        }
        assert_eq!(hidden.folders(), ["refs/changes/", "refs/b/"]);
    }

    #[test]
    fn the_last_pattern_that_matches_decides() {
        let mut hidden = HiddenRefs::default();
        for pattern in ["refs/changes/", "refs/heads/x", "!refs/heads/x/shown", "^refs/tags"] {
            hidden.add(pattern.into());
        }
        for name in ["refs/changes", "refs/changes/1", "refs/heads/x", "refs/heads/x/y", "refs/tags/v1"] {
            assert!(hidden.covers(name.into()), "{name}");
        }
        for name in ["refs/changesets/1", "refs/heads/xy", "refs/heads/x/shown", "refs/heads/x/shown/too", "refs"] {
            assert!(!hidden.covers(name.into()), "{name}");
        }
    }
}
