mod ordered;

pub use ordered::OrderedNames;

use bstr::{BStr, BString, ByteSlice};
use std::{borrow::Borrow, fmt, ops::Deref};

/// A full refname, such as `refs/heads/main` or `HEAD`, that git accepts or must at least be able to delete.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefName {
    bytes: Box<[u8]>,
    /// Whether [`check_format`] accepts the name, with any number of levels; otherwise it is only [safe](is_safe).
    is_valid: bool,
}

/// What [`check_format`] tolerates, named like the options of git-check-ref-format(1).
#[derive(Clone, Copy, Default, Debug)]
pub struct FormatOptions {
    /// Accepts names without a slash.
    pub allow_onelevel: bool,
    /// Accepts one `*` anywhere in the name.
    pub refspec_pattern: bool,
}

/// The rule of git-check-ref-format(1) that a name breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty or `@`, begins or ends with `/`, or contains two slashes in a row.
    Empty,
    /// A component begins with a dot.
    LeadingDot,
    /// A component ends with `.lock`.
    LockSuffix,
    /// The name contains `..`.
    DoubleDot,
    /// The name contains a control character, a space, or one of `~ ^ : ? * [ \`.
    Forbidden(u8),
    /// The name ends with a dot.
    TrailingDot,
    /// The name contains `@{`.
    AtBrace,
    /// The name contains no slash.
    OneLevel,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("it is '@' or has an empty component"),
            NameError::LeadingDot => f.write_str("a component begins with '.'"),
            NameError::LockSuffix => f.write_str("a component ends with '.lock'"),
            NameError::DoubleDot => f.write_str("it contains '..'"),
            NameError::Forbidden(byte) => write!(f, "it contains the byte {:?}", *byte as char),
            NameError::TrailingDot => f.write_str("it ends with '.'"),
            NameError::AtBrace => f.write_str("it contains '@{'"),
            NameError::OneLevel => f.write_str("it has one level only"),
        }
    }
}

impl std::error::Error for NameError {}

/// Validates a name by the rules of git-check-ref-format(1).
///
/// # Errors
///
/// A rule that the name breaks.
pub fn check_format(name: &[u8], options: FormatOptions) -> Result<(), NameError> {
    if !is_plain(name) {
        check_bytes(name, options)?;
    }
    if options.allow_onelevel || name.contains(&b'/') { Ok(()) } else { Err(NameError::OneLevel) }
}

/// Checks all rules but the one that requires a slash.
fn check_bytes(name: &[u8], options: FormatOptions) -> Result<(), NameError> {
    if name == b"@" {
        return Err(NameError::Empty);
    }
    let mut state = Components { start: 0, stars_left: options.refspec_pattern };
    (0..name.len()).try_for_each(|at| state.check_byte(name, at))?;
    end_component(&name[state.start..])?;
    if name.last() == Some(&b'.') { Err(NameError::TrailingDot) } else { Ok(()) }
}

/// The number of bytes that are checked together.
const CHUNK: usize = 16;

/// Returns whether the name certainly breaks none of the rules that [`check_bytes`] checks. Almost all names pass; the
/// few valid ones that look suspicious, for instance because they contain `]`, `;`, `>`, `{` or `./`, are then checked
/// byte by byte.
#[inline]
fn is_plain(name: &[u8]) -> bool {
    let [first, _, ..] = name else { return false };
    let seen = if name.len() > CHUNK { look(name) } else { look_at_few(name) };
    let ends_well = CLASS[*first as usize] == PLAIN && !name.ends_with(b".") && !name.ends_with(b"/");
    ends_well && seen < SUSPICIOUS && (seen == 0 || !has_lock(name))
}

#[inline(never)]
fn look_at_few(name: &[u8]) -> u8 {
    let mut padded = [b'a'; CHUNK + 1];
    padded[..name.len()].copy_from_slice(name);
    look(&padded)
}

#[inline(never)]
fn has_lock(name: &[u8]) -> bool {
    name.windows(LOCK.len()).any(|part| part == LOCK)
}

const LOCK: &[u8] = b".lock";

/// The name contains a dot behind its first byte.
const DOTTED: u8 = 1;
/// The name may break a rule.
const SUSPICIOUS: u8 = 2;

/// Classifies at least 17 bytes. The first byte is used only as the predecessor of the second.
///
/// The compiler vectorises this function as long as it is not inlined.
#[inline(never)]
fn look(name: &[u8]) -> u8 {
    let (mut seen, mut rest) = ([0; CHUNK], name);
    while let Some(window) = rest.first_chunk() {
        seen = look_at_chunk(seen, window);
        rest = &rest[CHUNK..];
    }
    // The last window may overlap the one before it, because checking a byte twice does no harm.
    if let Some(window) = name.last_chunk() {
        seen = look_at_chunk(seen, window);
    }
    seen.into_iter().fold(0, |all, seen| all | seen)
}

/// Adds the classification of each byte but the first, given the byte before it, to `seen`. No byte depends on the
/// result for another, so that the loop can be vectorised.
#[inline(always)]
fn look_at_chunk(seen: [u8; CHUNK], window: &[u8; CHUNK + 1]) -> [u8; CHUNK] {
    let mut all = [0; CHUNK];
    for at in 0..CHUNK {
        all[at] = seen[at] | look_at_byte(window[at], window[at + 1]);
    }
    all
}

#[inline(always)]
fn look_at_byte(before: u8, this: u8) -> u8 {
    let if_so = |so: bool, what: u8| if so { what } else { 0 };
    // Control characters and the space; `:` and `?`; `[`, `\` and `^`; `~` and DEL; `*`; and `{`, which may follow `@`.
    let mut seen = if_so(this <= b' ', SUSPICIOUS);
    seen |= if_so(this & 0xfa == b':', SUSPICIOUS);
    seen |= if_so(this.wrapping_sub(b'[') <= b'^' - b'[', SUSPICIOUS);
    seen |= if_so(this | 1 == 0x7f, SUSPICIOUS);
    seen |= if_so(this == b'*', SUSPICIOUS);
    seen |= if_so(this == b'{', SUSPICIOUS);
    // `..`, `//`, `/.`, and the harmless `./`.
    seen |= if_so(this | 1 == b'/', SUSPICIOUS) & if_so(before | 1 == b'/', SUSPICIOUS);
    seen | if_so(this == b'.', DOTTED)
}

/// The state of a check that goes byte by byte.
struct Components {
    /// The offset at which the current component starts.
    start: usize,
    stars_left: bool,
}

impl Components {
    #[inline]
    fn check_byte(&mut self, name: &[u8], at: usize) -> Result<(), NameError> {
        let byte = name[at];
        // The first byte is checked as if a slash preceded it, because a component starts there, too.
        let before = || at.checked_sub(1).map_or(b'/', |before| name[before]);
        match CLASS[byte as usize] {
            PLAIN => {}
            SLASH => {
                end_component(&name[self.start..at])?;
                self.start = at + 1;
            }
            DOT if before() == b'/' => return Err(NameError::LeadingDot),
            DOT if before() == b'.' => return Err(NameError::DoubleDot),
            DOT => {}
            BRACE if before() == b'@' => return Err(NameError::AtBrace),
            BRACE => {}
            STAR if self.stars_left => self.stars_left = false,
            _ => return Err(NameError::Forbidden(byte)),
        }
        Ok(())
    }
}

fn end_component(component: &[u8]) -> Result<(), NameError> {
    if component.is_empty() {
        Err(NameError::Empty)
    } else if component.ends_with(LOCK) {
        Err(NameError::LockSuffix)
    } else {
        Ok(())
    }
}

/// Removes leading slashes and collapses runs of slashes, as `git check-ref-format --normalize` does before it
/// validates a name.
pub fn normalize(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for &byte in name {
        if byte != b'/' || out.last().is_some_and(|last| *last != b'/') {
            out.push(byte);
        }
    }
    out
}

/// Returns whether the name is certainly a path without empty components, components that begin with a dot, or bytes
/// that no name contains. The answer may be `false` for short and unusual names that are such paths.
#[inline]
pub fn is_plain_path(name: &[u8]) -> bool {
    name.len() > CHUNK && CLASS[name[0] as usize] == PLAIN && look(name) == 0 && !name.ends_with(b"/")
}

/// Returns whether `name` lies in the folder `outer`, as `refs/a/b` lies in `refs/a`. By git's rules, refs of both
/// names cannot exist at the same time.
pub fn is_below(name: &[u8], outer: &[u8]) -> bool {
    name.strip_prefix(outer).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Returns whether a name, even an ill-formed one, cannot lead out of the repository: it either begins with `refs/` and
/// has no empty, `.` or `..` component, or it consists of upper-case letters and underscores. Ill-formed refs with safe
/// names can still be listed and deleted.
pub fn is_safe(name: &[u8]) -> bool {
    match name.strip_prefix(b"refs/") {
        Some(_) if is_plain_path(name) => true,
        Some(rest) => !rest.is_empty() && rest.split_str("/").all(|part| !matches!(part, b"" | b"." | b"..")),
        None => !name.is_empty() && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_'),
    }
}

impl RefName {
    /// Validates a full name. Names of one level, such as `HEAD`, are accepted.
    ///
    /// # Errors
    ///
    /// The rule of git-check-ref-format(1) that the name breaks.
    pub fn new(name: impl Into<Vec<u8>>) -> Result<Self, NameError> {
        let name = name.into();
        check_format(&name, FormatOptions { allow_onelevel: true, refspec_pattern: false })?;
        Ok(RefName { bytes: name.into_boxed_slice(), is_valid: true })
    }

    /// Accepts a name that [`new`](Self::new) accepts, and one that breaks git-check-ref-format(1) but [`is_safe`],
    /// because such refs exist on disk and must remain deletable. Returns `None` for any other name.
    pub fn new_safe(name: impl Into<Vec<u8>>) -> Option<Self> {
        let name = name.into();
        let is_valid = check_format(&name, FormatOptions { allow_onelevel: true, refspec_pattern: false }).is_ok();
        (is_valid || is_safe(&name)).then(|| RefName { bytes: name.into_boxed_slice(), is_valid })
    }

    /// Returns whether the name obeys git-check-ref-format(1). A ref with an ill-formed name can be listed and deleted,
    /// but not created.
    pub fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Returns the bytes of the name.
    pub fn as_bstr(&self) -> &BStr {
        self.bytes.as_bstr()
    }

    /// Returns the names of the folders that this ref would lie in, longest first: `refs/heads/a`, `refs/heads` and
    /// `refs` for `refs/heads/a/b`. None of them can be a ref beside this one.
    pub fn parents(&self) -> impl Iterator<Item = &BStr> {
        self.bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/').map(|(at, _)| self.bytes[..at].as_bstr())
    }
}

impl Deref for RefName {
    type Target = BStr;
    fn deref(&self) -> &BStr {
        self.as_bstr()
    }
}

impl Borrow<BStr> for RefName {
    fn borrow(&self) -> &BStr {
        self.as_bstr()
    }
}

impl AsRef<[u8]> for RefName {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_bstr(), f)
    }
}

impl fmt::Debug for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_bstr(), f)
    }
}

impl From<RefName> for BString {
    fn from(name: RefName) -> Self {
        name.bytes.into_vec().into()
    }
}

impl TryFrom<&str> for RefName {
    type Error = NameError;
    fn try_from(name: &str) -> Result<Self, NameError> {
        RefName::new(name)
    }
}

const PLAIN: u8 = 0;
const SLASH: u8 = 1;
const DOT: u8 = 2;
const BRACE: u8 = 3;
const STAR: u8 = 4;
const FORBIDDEN: u8 = 5;

static CLASS: [u8; 256] = {
    let mut table = [PLAIN; 256];
    let mut byte = 0;
    while byte <= b' ' {
        table[byte as usize] = FORBIDDEN;
        byte += 1;
    }
    let forbidden = b"\x7f~^:?[\\";
    let mut at = 0;
    while at < forbidden.len() {
        table[forbidden[at] as usize] = FORBIDDEN;
        at += 1;
    }
    table[b'/' as usize] = SLASH;
    table[b'.' as usize] = DOT;
    table[b'{' as usize] = BRACE;
    table[b'*' as usize] = STAR;
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str) -> Result<(), NameError> {
        check_format(name.as_bytes(), FormatOptions::default())
    }

    #[test]
    fn each_rule_of_the_manual_page_has_its_error() {
        assert_eq!(check("refs/heads/main"), Ok(()));
        assert_eq!(check("refs/heads/@"), Ok(()));
        assert_eq!(check("refs/heads/a.b{c}"), Ok(()));
        assert_eq!(check("refs/heads/m\u{e9}"), Ok(()));
        assert_eq!(check("refs/heads/a.lockb"), Ok(()));
        for (name, error) in [
            ("", NameError::Empty),
            ("@", NameError::Empty),
            ("/a/b", NameError::Empty),
            ("a/b/", NameError::Empty),
            ("a//b", NameError::Empty),
            ("a/.b", NameError::LeadingDot),
            (".a/b", NameError::LeadingDot),
            ("a.lock/b", NameError::LockSuffix),
            ("a/b.lock", NameError::LockSuffix),
            ("a/b..c", NameError::DoubleDot),
            ("a/b.", NameError::TrailingDot),
            ("a/b@{c", NameError::AtBrace),
            ("a", NameError::OneLevel),
            ("a/b*", NameError::Forbidden(b'*')),
        ] {
            assert_eq!(check(name), Err(error), "{name}");
        }
        for byte in (0..=b' ').chain(*b"\x7f~^:?*[\\") {
            let name = [b"refs/heads/a", &[byte][..], b"b"].concat();
            assert_eq!(check_format(&name, FormatOptions::default()), Err(NameError::Forbidden(byte)));
        }
    }

    /// Applies the rules in a straightforward form, without regard to speed.
    fn verdict(name: &[u8], options: FormatOptions) -> bool {
        let forbidden = |byte: &u8| matches!(byte, 0..=b' ' | 0x7f | b'~' | b'^' | b':' | b'?' | b'[' | b'\\');
        let stars = name.iter().filter(|byte| **byte == b'*').count();
        let good = |part: &[u8]| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock");
        name != b"@"
            && name.split_str("/").all(good)
            && !name.iter().any(forbidden)
            && !name.contains_str("..")
            && !name.contains_str("@{")
            && !name.ends_with(b".")
            && stars <= usize::from(options.refspec_pattern)
            && (options.allow_onelevel || name.contains(&b'/'))
    }

    #[test]
    fn names_made_of_tricky_parts_are_judged_by_the_rules() {
        let parts =
            ["a", "b", ".", "/", "@", "{", "lock", ".loc", "k", "-", "]", "*", " ", "refs/heads/", "feature", "\u{e9}"];
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut good = 0;
        let any_level = FormatOptions { allow_onelevel: true, refspec_pattern: false };
        let mut ordered = OrderedNames::default();
        for _ in 0..20_000 {
            let mut name = String::new();
            for _ in 0..=random % 9 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                name.push_str(parts[(random >> 32) as usize % parts.len()]);
            }
            // Each name comes as it is, in random order, and once more in a folder of which names were judged before.
            for name in ["refs/heads/feature/a", "refs/heads/feature/", &name] {
                let long = format!("refs/heads/feature/{name}");
                for name in [name, &long] {
                    assert_eq!(ordered.accept(name.as_bytes()), verdict(name.as_bytes(), any_level), "{name:?}");
                }
            }
            for (allow_onelevel, refspec_pattern) in [(false, false), (true, false), (true, true)] {
                let options = FormatOptions { allow_onelevel, refspec_pattern };
                let expected = verdict(name.as_bytes(), options);
                assert_eq!(check_format(name.as_bytes(), options).is_ok(), expected, "{name:?} {options:?}");
                good += u32::from(expected);
            }
        }
        assert!(good > 2_000, "{good}");
    }

    #[test]
    fn no_byte_hides_wherever_it_stands() {
        // The rules for a single byte, without the division into chunks.
        let expected = |byte: u8, last: bool| match byte {
            0..=b' ' | 0x7f | b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\' => Err(NameError::Forbidden(byte)),
            b'/' if last => Err(NameError::Empty),
            b'.' if last => Err(NameError::TrailingDot),
            _ => Ok(()),
        };
        for prefix in ["refs/heads/", "refs/changes/", "refs/x/"] {
            for len in [1, 2, 7, 8, 9, 15, 16, 17, 33] {
                for at in 0..len {
                    let mut name = vec![b'a'; len + 1];
                    for byte in 0..=255 {
                        name[at] = byte;
                        let any_level = FormatOptions { allow_onelevel: true, refspec_pattern: false };
                        assert_eq!(check_format(&name, any_level).is_ok(), verdict(&name, any_level), "{name:?}");
                    }
                    for byte in (0..=255).filter(|byte| !(at == 0 && matches!(byte, b'.' | b'/'))) {
                        let mut name = [prefix.as_bytes(), &vec![b'a'; len]].concat();
                        name[prefix.len() + at] = byte;
                        assert_eq!(
                            check_format(&name, FormatOptions::default()),
                            expected(byte, at + 1 == len),
                            "{name:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_pattern_may_have_one_star() {
        let pattern = FormatOptions { allow_onelevel: true, refspec_pattern: true };
        assert_eq!(check_format(b"refs/heads/*", pattern), Ok(()));
        assert_eq!(check_format(b"*", pattern), Ok(()));
        assert_eq!(check_format(b"a/*/*", pattern), Err(NameError::Forbidden(b'*')));
    }

    #[test]
    fn normalizing_folds_slashes_but_keeps_the_last() {
        assert_eq!(normalize(b"//refs///heads/a/"), b"refs/heads/a/");
        assert_eq!(normalize(b"heads"), b"heads");
    }

    #[test]
    fn parents_come_longest_first() {
        let name = RefName::new("refs/heads/a/b").unwrap();
        assert_eq!(name.parents().collect::<Vec<_>>(), ["refs/heads/a", "refs/heads", "refs"]);
        assert_eq!(RefName::new("HEAD").unwrap().parents().count(), 0);
    }

    #[test]
    fn unsafe_names_lead_out_of_the_repository() {
        for bad in ["refs/../config", "refs/a//b", "refs/./a", "refs/", "config", "../HEAD", "a/b"] {
            assert!(!is_safe(bad.as_bytes()), "{bad}");
        }
        for good in ["refs/heads/a b", "refs/heads/.a", "HEAD", "ORIG_HEAD"] {
            assert!(is_safe(good.as_bytes()), "{good}");
        }
    }
}
