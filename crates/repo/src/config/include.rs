//! `include.path` and `includeIf.CONDITION.path`: git-config(1), "Includes".

use super::{ConfigError, Level, Loader, Place, expand_path};
use crate::environment::os;
use bstr::{BStr, BString, ByteSlice};
use gix_glob::wildmatch::Mode;
use std::{
    borrow::Cow,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// How deep files may include files. The limit is git's.
pub(super) const DEPTH_MAX: u32 = 10;

/// Where an include directive stands.
pub(super) struct From<'a> {
    pub(super) level: Level,
    /// The file, as it is opened and as git shows it; `None` for the command line.
    pub(super) file: Option<(&'a Path, &'a Path)>,
    pub(super) line: u32,
}

impl From<'_> {
    fn error(&self, detail: String) -> ConfigError {
        let place = match self.file {
            Some((_, shown)) => Place::Parsing(self.line, shown.to_owned()),
            None => Place::CommandLine,
        };
        ConfigError::BadVariable { detail, place }
    }
}

impl Loader<'_> {
    /// Follows the variable if it is an include whose condition holds.
    pub(super) fn maybe_include(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        from: &From<'_>,
    ) -> Result<(), ConfigError> {
        if self.urls_forbidden && is_remote_url(key) {
            return Err(ConfigError::RemoteUrlInInclude);
        }
        if key == b"include.path" {
            return self.include(key, value, from, self.urls_forbidden);
        }
        let Some(condition) = key.strip_prefix(b"includeif.").and_then(|rest| rest.strip_suffix(b".path")) else {
            return Ok(());
        };
        let asks_for_urls = condition.starts_with(b"hasconfig:remote.*.url:");
        if self.holds(condition.as_bstr(), from)? {
            self.include(key, value, from, self.urls_forbidden || asks_for_urls)?;
        }
        Ok(())
    }

    fn include(&mut self, key: &[u8], value: Option<&[u8]>, from: &From<'_>, no_urls: bool) -> Result<(), ConfigError> {
        let value = value.ok_or_else(|| from.error(format!("missing value for '{}'", key.as_bstr())))?.as_bstr();
        let target = expand_path(value, self.environment)
            .ok_or_else(|| from.error(format!("could not expand include path '{value}'")))?;
        let (path, shown) = match from.file {
            // A relative path is relative to the file it stands in.
            Some((path, shown)) => (beside(path, &target), beside(shown, &target)),
            None if target.is_absolute() => (target.clone(), target),
            None => return Err(from.error("relative config includes must come from files".into())),
        };
        let mut text = Vec::new();
        match self.fs.read_small(&self.environment.resolve(&path), true, &mut text) {
            Err(error) if error.is_not_found() => return Ok(()),
            read => read?,
        }
        if self.depth == DEPTH_MAX {
            let from = from.file.map_or_else(|| "the command line".into(), |(_, shown)| shown.to_owned());
            return Err(ConfigError::IncludeDepth { file: shown, from });
        }
        self.depth += 1;
        let outer = std::mem::replace(&mut self.urls_forbidden, no_urls);
        self.text(from.level, &text, &path, &shown)?;
        self.urls_forbidden = outer;
        self.depth -= 1;
        Ok(())
    }

    fn holds(&mut self, condition: &BStr, from: &From<'_>) -> Result<bool, ConfigError> {
        let after = |keyword: &str| condition.strip_prefix(keyword.as_bytes()).map(BStr::new);
        if let Some(pattern) = after("gitdir:") {
            self.git_dir_matches(pattern, from, Mode::empty())
        } else if let Some(pattern) = after("gitdir/i:") {
            self.git_dir_matches(pattern, from, Mode::IGNORE_CASE)
        } else if let Some(pattern) = after("onbranch:") {
            let branch = self.local.and_then(|local| (local.branch)());
            Ok(branch.is_some_and(|branch| matches(&with_all_below(pattern.into()), branch.as_ref(), Mode::empty())))
        } else if let Some(pattern) = after("hasconfig:remote.*.url:") {
            self.any_remote_url_matches(pattern)
        } else {
            // A condition that is not known does not hold, so that files can be shared with newer gits.
            Ok(false)
        }
    }

    fn git_dir_matches(&self, pattern: &BStr, from: &From<'_>, mode: Mode) -> Result<bool, ConfigError> {
        let Some(local) = self.local else { return Ok(false) };
        let git_dir = self.environment.resolve(local.git_dir);
        // What stands for the folder of the file is no pattern, whatever characters it has.
        let mut literal = BString::default();
        let mut glob: BString = match pattern.strip_prefix(b"./") {
            Some(rest) => {
                let Some((path, _)) = from.file else {
                    return Err(from.error("relative config include conditionals must come from files".into()));
                };
                let path = self.environment.resolve(path);
                let file = real(&path);
                let folder = file.parent().unwrap_or(Path::new("/"));
                literal = folder.as_os_str().as_bytes().into();
                literal.push(b'/');
                rest.into()
            }
            None => {
                let expanded = expand_path(pattern, self.environment)
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

    fn any_remote_url_matches(&mut self, pattern: &BStr) -> Result<bool, ConfigError> {
        if self.only_urls {
            return Ok(false);
        }
        if self.remote_urls.is_none() {
            let mut scan = Loader::new(self.fs, self.environment, self.outer, self.local);
            scan.only_urls = true;
            scan.read_all()?;
            let urls = scan.config.iter().filter(|value| is_remote_url(value.key)).filter_map(|value| value.raw);
            self.remote_urls = Some(urls.map(BString::from).collect());
        }
        let urls = self.remote_urls.as_deref().unwrap_or_default();
        Ok(urls.iter().any(|url| matches(pattern, url, Mode::empty())))
    }
}

fn is_remote_url(key: &[u8]) -> bool {
    key.starts_with(b"remote.") && key.ends_with(b".url") && key.len() > b"remote..url".len()
}

fn matches(pattern: &[u8], text: &[u8], mode: Mode) -> bool {
    gix_glob::wildmatch(pattern.as_bstr(), text.as_bstr(), mode | Mode::NO_MATCH_SLASH_LITERAL)
}

/// A pattern that ends with a slash means everything below.
fn with_all_below(mut pattern: BString) -> BString {
    if pattern.ends_with(b"/") {
        pattern.extend_from_slice(b"**");
    }
    pattern
}

fn beside(file: &Path, target: &Path) -> PathBuf {
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
