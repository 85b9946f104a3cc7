//! Resolves include directives: where one occurs, which file it means, and whether its condition holds. See
//! git-config(1), "Includes".

use super::{ConfigError, Level, Place, expand_path};
use crate::environment::{Environment, os};
use bstr::{BStr, BString, ByteSlice};
use gix_glob::wildmatch::Mode;
use std::{
    borrow::Cow,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

/// What the configuration of a repository depends on besides the system's and the user's files and the environment.
pub(crate) struct Local<'a> {
    /// The repository's folder, for `includeIf.gitdir:`.
    pub(crate) git_dir: &'a Path,
    /// The folder in which git would work, and the repository's folder as git would spell it from there, for instance
    /// `.`.
    pub(crate) spelled: (&'a Path, &'a Path),
    /// The content of `config` in the common folder, its path, and its path as git shows it.
    pub(crate) file: (&'a [u8], &'a Path, &'a Path),
    /// The content and the paths of `config.worktree`, if that file is in effect.
    pub(crate) worktree_file: Option<(&'a [u8], &'a Path, &'a Path)>,
    /// The branch that is checked out, for `includeIf.onbranch:`.
    pub(crate) branch: &'a dyn Fn() -> Option<BString>,
}

/// Where an include directive stands: in a line of a file, or on the command line.
pub(super) struct From<'a> {
    pub(super) level: Level,
    /// The path of the file, and its path as git shows it; `None` for the command line.
    pub(super) file: Option<(&'a Path, &'a Path)>,
    pub(super) line: u32,
}

impl From<'_> {
    pub(super) fn error(&self, detail: String) -> ConfigError {
        let place = match self.file {
            Some((_, shown)) => Place::Parsing(self.line, shown.to_owned()),
            None => Place::CommandLine,
        };
        ConfigError::BadVariable { detail, place }
    }
}

/// The fault of a pattern that begins with `./` but does not come from a file, whose folder would replace the dot.
pub(super) struct NoFolder;

impl NoFolder {
    /// Git's message about such a pattern. Git includes the file nevertheless.
    pub(super) const TEXT: &str = "relative config include conditionals must come from files";
}

/// Returns whether the pattern of a `gitdir:` condition matches the repository's folder.
pub(super) fn git_dir_matches(
    pattern: &BStr,
    from: &From<'_>,
    mode: Mode,
    local: &Local<'_>,
    environment: &Environment,
) -> Result<bool, NoFolder> {
    let pattern = Pattern::parse(pattern, from, environment)?;
    let git_dir = environment.resolve(local.git_dir);
    let Some(rest) = pattern.behind_literal(real(&git_dir).as_os_str().as_bytes(), mode).map(BString::from) else {
        // Git tries no other spelling if the path does not lie below the folder of the file.
        return Ok(false);
    };
    let as_spelled = || {
        let path = spelled(local, environment)?;
        Some(matches(&pattern.glob, pattern.behind_literal(&path, mode)?, mode))
    };
    Ok(matches(&pattern.glob, &rest, mode) || as_spelled().unwrap_or(false))
}

/// A compiled pattern: the path has to begin with `literal`, and `glob` has to match the rest.
struct Pattern {
    literal: BString,
    glob: BString,
}

impl Pattern {
    /// Parses a pattern. As in git, links in the path of one's own home (`~`) are resolved, as they are in the
    /// repository's path, but not in that of another user's (`~user`), and a `~` without a known home is an ordinary
    /// character.
    fn parse(pattern: &BStr, from: &From<'_>, environment: &Environment) -> Result<Pattern, NoFolder> {
        if let Some(rest) = pattern.strip_prefix(b"./") {
            let Some((path, _)) = from.file else { return Err(NoFolder) };
            let path = environment.resolve(path);
            let file = real(&path);
            let folder = file.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes();
            // The folder that replaces `./` is not a pattern, whatever characters it contains.
            let slash: &[u8] = if folder.ends_with(b"/") { b"" } else { b"/" };
            let glob = if rest.is_empty() { BString::from("**") } else { with_all_below(rest.into()) };
            return Ok(Pattern { literal: [folder, slash].concat().into(), glob });
        }
        let below_home = pattern.strip_prefix(b"~").filter(|rest| rest.is_empty() || rest.starts_with(b"/"));
        let mut glob = match (below_home, environment.get("HOME")) {
            (Some(below), Some(home)) => [real(Path::new(&home)).as_os_str().as_bytes(), below].concat().into(),
            // A slash at the end has a meaning, and is still there.
            _ => expand_path(pattern, environment)
                .map_or_else(|| pattern.to_owned(), |expanded| expanded.into_os_string().into_vec().into()),
        };
        if !glob.starts_with(b"/") {
            glob.splice(0..0, *b"**/");
        }
        Ok(Pattern { literal: BString::default(), glob: with_all_below(glob) })
    }

    /// Returns the part of the path that `glob` has to match, if the path begins with `literal`.
    fn behind_literal<'p>(&self, path: &'p [u8], mode: Mode) -> Option<&'p [u8]> {
        let (head, rest) = path.split_at_checked(self.literal.len())?;
        let same = if mode.contains(Mode::IGNORE_CASE) {
            head.eq_ignore_ascii_case(&self.literal)
        } else {
            head == self.literal
        };
        same.then_some(rest)
    }
}

/// Returns the absolute path of the repository's folder, with links and dots as they were written where that is known.
/// A final `.` is kept, because only with it does a pattern that ends with a slash match the folder itself.
fn spelled(local: &Local<'_>, environment: &Environment) -> Option<Vec<u8>> {
    let (standing, git_dir) = local.spelled;
    if git_dir.is_absolute() {
        return Some(git_dir.as_os_str().as_bytes().to_owned());
    }
    let standing = if standing.as_os_str().is_empty() { Path::new(".") } else { standing };
    let id = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    // The shell records in `PWD` by which links it reached the folder.
    let by_links = environment
        .get("PWD")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && id(path).is_some() && id(path) == id(standing));
    let folder = by_links.or_else(|| standing.canonicalize().ok())?;
    let folder = folder.as_os_str().as_bytes();
    let slash: &[u8] = if folder.ends_with(b"/") { b"" } else { b"/" };
    Some([folder, slash, git_dir.as_os_str().as_bytes()].concat())
}

pub(super) fn is_remote_url(key: &[u8]) -> bool {
    key.starts_with(b"remote.") && key.ends_with(b".url") && key.len() >= b"remote..url".len()
}

pub(super) fn matches(pattern: &[u8], text: &[u8], mode: Mode) -> bool {
    gix_glob::wildmatch(pattern.as_bstr(), text.as_bstr(), mode | Mode::NO_MATCH_SLASH_LITERAL)
}

/// Makes a pattern that ends with a slash match everything below.
pub(super) fn with_all_below(mut pattern: BString) -> BString {
    if pattern.ends_with(b"/") {
        pattern.extend_from_slice(b"**");
    }
    debug_assert!(!pattern.ends_with(b"/"), "no path ends with a slash: {pattern}");
    pattern
}

pub(super) fn beside(file: &Path, target: &Path) -> PathBuf {
    if target.is_absolute() {
        return target.to_owned();
    }
    let bytes = file.as_os_str().as_bytes();
    let folder = bytes.rfind_byte(b'/').map_or(&b""[..], |slash| &bytes[..=slash]);
    os(folder).join(target)
}

/// Resolves the symbolic links in a path, or returns it unchanged if that fails.
fn real(path: &Path) -> Cow<'_, Path> {
    path.canonicalize().map_or(Cow::Borrowed(path), Cow::Owned)
}
