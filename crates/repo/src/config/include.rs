//! Where an include directive stands, which file it means, and whether its condition holds: git-config(1), "Includes".

use super::{ConfigError, Level, Place, expand_path};
use crate::environment::{Environment, os};
use bstr::{BStr, BString, ByteSlice};
use gix_glob::wildmatch::Mode;
use std::{
    borrow::Cow,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Where an include directive stands.
pub(super) struct From<'a> {
    pub(super) level: Level,
    /// The file, as it is opened and as git shows it; `None` for the command line.
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

/// Whether the pattern of `gitdir:`, which stands there, fits the repository's folder.
pub(super) fn git_dir_matches(
    pattern: &BStr,
    from: &From<'_>,
    mode: Mode,
    git_dir: &Path,
    environment: &Environment,
) -> Result<bool, ConfigError> {
    let git_dir = environment.resolve(git_dir);
    // What stands for the folder of the file is no pattern, whatever characters it has.
    let mut literal = BString::default();
    let mut glob: BString = match pattern.strip_prefix(b"./") {
        Some(rest) => {
            let Some((path, _)) = from.file else {
                return Err(from.error("relative config include conditionals must come from files".into()));
            };
            let path = environment.resolve(path);
            let file = real(&path);
            let folder = file.parent().unwrap_or(Path::new("/"));
            literal = folder.as_os_str().as_bytes().into();
            literal.push(b'/');
            rest.into()
        }
        None => {
            let expanded = expand_path(pattern, environment)
                .ok_or_else(|| from.error(format!("could not expand include path '{pattern}'")))?;
            // A path drops a slash at the end, which means something here.
            let slash =
                if pattern.ends_with(b"/") && !expanded.as_os_str().as_bytes().ends_with(b"/") { "/" } else { "" };
            [expanded.as_os_str().as_bytes(), slash.as_bytes()].concat().into()
        }
    };
    if literal.is_empty() && !glob.starts_with(b"/") {
        glob.splice(0..0, *b"**/");
    }
    let glob = with_all_below(glob);
    debug_assert!(literal.is_empty() || literal.ends_with(b"/"), "a pattern begins behind a folder");
    let fits = |path: &Path| {
        let path = path.as_os_str().as_bytes();
        let head = path.get(..literal.len());
        let same = if mode.contains(Mode::IGNORE_CASE) {
            head.is_some_and(|head| head.eq_ignore_ascii_case(&literal))
        } else {
            head == Some(&literal)
        };
        same && matches(&glob, &path[literal.len()..], mode)
    };
    Ok(fits(&real(&git_dir)) || std::path::absolute(&git_dir).is_ok_and(|path| fits(&path)))
}

pub(super) fn is_remote_url(key: &[u8]) -> bool {
    key.starts_with(b"remote.") && key.ends_with(b".url") && key.len() > b"remote..url".len()
}

pub(super) fn matches(pattern: &[u8], text: &[u8], mode: Mode) -> bool {
    gix_glob::wildmatch(pattern.as_bstr(), text.as_bstr(), mode | Mode::NO_MATCH_SLASH_LITERAL)
}

/// A pattern that ends with a slash means everything below.
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

/// The path with its symbolic links resolved, or as it is where that cannot be done.
fn real(path: &Path) -> Cow<'_, Path> {
    path.canonicalize().map_or(Cow::Borrowed(path), Cow::Owned)
}
