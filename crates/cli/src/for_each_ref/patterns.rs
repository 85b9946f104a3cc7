//! Patterns that select refs: `<pattern>...` and `--exclude`.

use crate::listing::Ranges;
use bstr::{BStr, BString, ByteSlice};
use gix_glob::{wildmatch, wildmatch::Mode};

/// Patterns that select refs. One of git-for-each-ref(1) matches a name exactly, up to a slash, or as a glob; one of
/// git-branch(1) or git-tag(1) matches a short name as a glob.
#[derive(Debug, Default)]
pub struct Patterns {
    patterns: Vec<Pattern>,
    mode: Mode,
    /// Whether globs match the name without a prefix of [`SHORTENED`], and their wildcards match slashes too.
    is_short: bool,
}

#[derive(Debug)]
struct Pattern {
    text: BString,
    /// The length of the literal start. A special character follows it, or nothing.
    literal_len: usize,
    /// The length of the whole components in the literal start, so that the rest can be matched on its own.
    folder_len: usize,
}

impl Patterns {
    /// Compiles the patterns as the user gave them.
    pub fn new(patterns: Vec<BString>, ignore_case: bool) -> Self {
        let mut mode = Mode::NO_MATCH_SLASH_LITERAL;
        mode.set(Mode::IGNORE_CASE, ignore_case);
        Patterns { patterns: patterns.into_iter().map(Pattern::new).collect(), mode, is_short: false }
    }

    /// Compiles the patterns of git-branch(1) and git-tag(1), each of which matches a short name as a glob.
    pub fn short(patterns: Vec<BString>, ignore_case: bool) -> Self {
        let patterns = Patterns::new(patterns, ignore_case);
        Patterns { mode: patterns.mode & Mode::IGNORE_CASE, is_short: true, ..patterns }
    }

    /// Returns whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns whether a name matches one of the patterns.
    pub fn matches(&self, name: &BStr) -> bool {
        if self.is_short {
            let short = SHORTENED.iter().find_map(|folder| name.strip_prefix(folder.as_bytes())).unwrap_or(name);
            return self.patterns.iter().any(|pattern| wildmatch(pattern.text.as_bstr(), short.as_bstr(), self.mode));
        }
        self.patterns.iter().any(|pattern| pattern.matches(name, self.mode))
    }

    /// Returns the parts of the sorted list of refs that can contain matches of patterns from [`Patterns::new`].
    pub fn ranges(&self) -> Ranges {
        if self.patterns.is_empty() || self.mode.contains(Mode::IGNORE_CASE) {
            return Ranges::All;
        }
        let literal = |pattern: &Pattern| BString::from(&pattern.text[..pattern.literal_len]);
        let mut prefixes: Vec<BString> = self.patterns.iter().map(literal).collect();
        prefixes.sort();
        prefixes.dedup_by(|later, earlier| later.starts_with(earlier));
        if prefixes.iter().any(|prefix| prefix.is_empty()) { Ranges::All } else { Ranges::Prefixes(prefixes) }
    }
}

impl Pattern {
    fn new(text: BString) -> Self {
        // The literal start ends before the first special character.
        let literal_len = text.find_byteset(b"*?[\\").unwrap_or(text.len());
        let folder_len = text[..literal_len].rfind_byte(b'/').map_or(0, |slash| slash + 1);
        Pattern { text, literal_len, folder_len }
    }

    /// Returns whether the pattern contains a special character.
    fn is_glob(&self) -> bool {
        self.literal_len < self.text.len()
    }

    fn matches(&self, name: &BStr, mode: Mode) -> bool {
        if name == self.text || is_below(name, self.text.as_bstr()) {
            return true;
        }
        if mode.contains(Mode::IGNORE_CASE) {
            return wildmatch(self.text.as_bstr(), name, mode);
        }
        let (literal, folder) = (&self.text[..self.literal_len], self.folder_len);
        self.is_glob()
            && name.starts_with(literal)
            && wildmatch(self.text[folder..].into(), name[folder..].into(), mode)
    }
}

/// The prefixes that short names omit.
const SHORTENED: [&str; 4] = ["refs/tags/", "refs/heads/", "refs/remotes/", "refs/"];

/// Returns whether `name` lies below `folder`, which may end in a slash.
fn is_below(name: &BStr, folder: &BStr) -> bool {
    name.strip_prefix(folder.as_bytes()).is_some_and(|rest| {
        (rest.first() == Some(&b'/') && !folder.is_empty()) || (folder.ends_with(b"/") && !rest.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Patterns {
        Patterns::new(texts.iter().map(|text| (*text).into()).collect(), false)
    }

    #[test]
    fn a_pattern_matches_whole_components_or_as_a_glob() {
        for (pattern, name, expected) in [
            ("refs/heads", "refs/heads/a", true),
            ("refs/heads/", "refs/heads/a", true),
            ("refs/heads", "refs/headsx", false),
            ("refs/heads/", "refs/heads", false),
            ("refs/heads/a", "refs/heads/a", true),
            ("refs/heads/a", "refs/heads/ab", false),
            ("refs/heads/*", "refs/heads/a", true),
            ("refs/heads/*", "refs/heads/a/b", false),
            ("refs/heads/**", "refs/heads/a/b", true),
            ("**/b", "refs/heads/a/b", true),
            ("refs/*/a", "refs/heads/a", true),
            ("refs/heads/[ab]", "refs/heads/b", true),
            ("\\refs/heads/a", "refs/heads/a", true),
            ("a", "refs/heads/a", false),
            ("", "refs/heads/a", false),
            ("/", "refs/heads/a", false),
            ("refs/", "refs/heads/a", true),
        ] {
            assert_eq!(patterns(&[pattern]).matches(name.into()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_stands_for_itself_may_be_compared_by_itself() {
        fn all(bytes: &[u8], len: usize) -> Vec<BString> {
            let longer =
                |short: &BString| bytes.iter().map(|byte| [short.as_bytes(), &[*byte]].concat().into()).collect();
            (0..len).fold(vec![BString::default()], |shorter, _| shorter.iter().flat_map::<Vec<_>, _>(longer).collect())
        }
        let mode = Mode::NO_MATCH_SLASH_LITERAL;
        let names: Vec<BString> = (1..5).flat_map(|len| all(b"a/", len)).collect();
        for text in (1..6).flat_map(|len| all(b"a/*?", len)) {
            let pattern = Pattern::new(text.clone());
            for name in &names {
                let whole = name == &text || is_below(name.as_bstr(), text.as_bstr());
                let expected = whole || wildmatch(text.as_bstr(), name.as_bstr(), mode);
                assert_eq!(pattern.matches(name.as_bstr(), mode), expected, "{text} {name}");
            }
        }
    }

    #[test]
    fn without_case_only_the_glob_match_is_loose() {
        let loose = |pattern: &str, name: &str| Patterns::new(vec![pattern.into()], true).matches(name.into());
        assert!(loose("REFS/HEADS/A", "refs/heads/a"));
        assert!(loose("REFS/HEADS/*", "refs/heads/a"));
        assert!(!loose("REFS/HEADS", "refs/heads/a"));
        assert!(loose("refs/heads", "refs/heads/a"));
    }

    #[test]
    fn ranges_hold_every_match_and_do_not_overlap() {
        assert_eq!(patterns(&[]).ranges(), Ranges::All);
        assert_eq!(patterns(&["**/a", "refs/heads"]).ranges(), Ranges::All);
        assert_eq!(
            patterns(&["refs/tags/v*", "refs/heads/x/", "refs/heads", "refs/tags/v1"]).ranges(),
            Ranges::Prefixes(vec!["refs/heads".into(), "refs/tags/v".into()])
        );
    }
}
