//! Decides whether a repository's format is supported: gitrepository-layout(5) and git-config(1), "extensions".

use super::{RefFormat, RefStorage, RepositoryError};
use crate::config::{BadLine, ConfigError, Edit, Level, Origin, Parser, Place, Value};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::HashKind;
use std::path::Path;

/// Changes the ref format in the text of a `config`. The version becomes the lowest that allows the new
/// format and all extensions that had an effect. `shown` is the file's name in errors.
///
/// # Errors
///
/// Fails if the text cannot be parsed, has a value that git refuses, or has an extension that the new version does not
/// allow.
pub fn with_ref_format(
    text: &[u8],
    to: RefFormat,
    common_dir: &Path,
    shown: &Path,
) -> Result<Vec<u8>, RepositoryError> {
    let bad = |BadLine(line)| RepositoryError::from(ConfigError::BadLine { line, file: shown.to_owned() });
    let known = Format::parse(text, common_dir, shown)?;
    let says_hash = known.hash != HashKind::Sha1;
    let is_v1_only = |name: &BString| name != "refstorage" && (says_hash || name != "objectformat");
    let needs_v1 = to != RefFormat::Files || known.only_in_v1.iter().any(is_v1_only);
    let mut edit = Edit::new(text).map_err(bad)?;
    edit.set("core", "repositoryformatversion", if needs_v1 { "1" } else { "0" }).map_err(bad)?;
    if !says_hash {
        // The extension that is removed here names SHA-1, the default, or had no effect: like git, refdb ignores it as
        // long as no version is set. The version that was set above must not give it effect.
        edit.unset("extensions", "objectformat").map_err(bad)?;
    }
    match to {
        RefFormat::Files => edit.unset("extensions", "refstorage"),
        RefFormat::Reftable => edit.set("extensions", "refstorage", to.name()),
    }
    .map_err(bad)?;
    let text = edit.into_text();
    let read = Format::parse(&text, common_dir, shown)?;
    assert_eq!(
        read.storage,
        RefStorage { format: to, location: None },
        "a changed configuration says what was written"
    );
    assert_eq!(read.hash, known.hash, "another format of refs leaves the objects as they are");
    // Unknown extensions, which are ignored in version 0, would make a repository of version 1 unusable.
    read.check()?;
    Ok(text)
}

/// The highest `core.repositoryFormatVersion` that is supported.
const VERSION_MAX: i32 = 1;

/// What the repository's own `config` says about its format. As in git, includes are not followed.
#[derive(Debug, Default)]
pub(super) struct Format {
    version: Option<i32>,
    pub(super) hash: HashKind,
    pub(super) storage: RefStorage,
    pub(super) worktree_config: bool,
    /// Whether `extensions.partialClone` is set, or a remote is marked as a promisor.
    pub(super) is_partial_clone: bool,
    pub(super) bare: Option<bool>,
    pub(super) work_tree: Option<BString>,
    /// Extensions that take effect in version 1 only.
    only_in_v1: Vec<BString>,
    unknown: Vec<BString>,
}

impl Format {
    /// Reads `config`. `shown` is the path of the file as git shows it.
    pub(super) fn parse(text: &[u8], common_dir: &Path, shown: &Path) -> Result<Self, RepositoryError> {
        let mut format = Format::default();
        each(text, shown, &mut |value| format.set(value, common_dir))?;
        // Without a version, git ignores all of these settings.
        Ok(if format.version.is_some() { format } else { Format::default() })
    }

    /// Reads `core.bare` and `core.worktree` from `config.worktree`.
    pub(super) fn parse_worktree(&mut self, text: &[u8], shown: &Path) -> Result<(), RepositoryError> {
        each(text, shown, &mut |value| self.set_worktree(value).map(|_| ()))
    }

    fn set(&mut self, value: &Value<'_>, common_dir: &Path) -> Result<(), ConfigError> {
        if value.key == "core.repositoryformatversion" {
            self.version = Some(value.int()?);
            return Ok(());
        }
        if let Some(name) = value.key.strip_prefix(b"extensions.") {
            return self.set_extension(name, value, common_dir);
        }
        if value.key.starts_with(b"remote.") && value.key.ends_with(b".promisor") {
            self.is_partial_clone |= value.boolean().unwrap_or(false);
        }
        self.set_worktree(value)
    }

    fn set_worktree(&mut self, value: &Value<'_>) -> Result<(), ConfigError> {
        match value.key.as_bytes() {
            b"core.bare" => self.bare = Some(value.boolean()?),
            b"core.worktree" => self.work_tree = Some(text(value)?.into()),
            _ => {}
        }
        Ok(())
    }

    fn set_extension(&mut self, name: &[u8], value: &Value<'_>, common_dir: &Path) -> Result<(), ConfigError> {
        match name {
            // These extensions take effect in version 0 too.
            b"noop" => return Ok(()),
            b"preciousobjects" => return value.boolean().map(|_| ()),
            b"partialclone" => {
                text(value)?;
                self.is_partial_clone = true;
                return Ok(());
            }
            b"worktreeconfig" => {
                self.worktree_config = value.boolean()?;
                return Ok(());
            }
            b"noop-v1" => {}
            b"relativeworktrees" | b"submodulepathconfig" => {
                value.boolean()?;
            }
            b"objectformat" => self.hash = hash(value)?,
            b"compatobjectformat" => {
                hash(value)?;
            }
            b"refstorage" => {
                let raw = text(value)?;
                self.storage = RefStorage::parse(raw, common_dir).map_err(|_| invalid(value, raw))?;
            }
            _ => {
                self.unknown.push(name.into());
                return Ok(());
            }
        }
        self.only_in_v1.push(name.into());
        Ok(())
    }

    /// Refuses a version or an extension that is not supported.
    pub(super) fn check(&self) -> Result<(), RepositoryError> {
        let listed = |names: &[BString]| names.iter().map(|name| format!("\n\t{name}")).collect::<String>();
        let plural = |names: &[BString]| if names.len() == 1 { "" } else { "s" };
        match self.version {
            Some(version) if version > VERSION_MAX => Err(RepositoryError::Version { found: version }),
            Some(version) if version >= 1 && !self.unknown.is_empty() => Err(RepositoryError::Format(format!(
                "unknown repository extension{} found:{}",
                plural(&self.unknown),
                listed(&self.unknown)
            ))),
            Some(0) if !self.only_in_v1.is_empty() => Err(RepositoryError::Format(format!(
                "repo version is 0, but v1-only extension{} found:{}",
                plural(&self.only_in_v1),
                listed(&self.only_in_v1)
            ))),
            _ => Ok(()),
        }
    }
}

fn each(
    text: &[u8],
    shown: &Path,
    set: &mut dyn FnMut(&Value<'_>) -> Result<(), ConfigError>,
) -> Result<(), RepositoryError> {
    let origin = Origin { level: Level::Local, file: Some(shown.to_owned()) };
    let mut parser = Parser::new(text);
    loop {
        match parser.next() {
            Ok(None) => return Ok(()),
            Err(BadLine(line)) => return Err(ConfigError::BadLine { line, file: shown.to_owned() }.into()),
            Ok(Some(variable)) => {
                let raw = variable.value.map(BStr::new);
                set(&Value { key: variable.key.as_bstr(), raw, origin: &origin, line: variable.line })?;
            }
        }
    }
}

fn text<'a>(value: &Value<'a>) -> Result<&'a BStr, ConfigError> {
    value.raw.ok_or_else(|| at_line(value, format!("missing value for '{}'", value.key)))
}

fn hash(value: &Value<'_>) -> Result<HashKind, ConfigError> {
    let raw = text(value)?;
    raw.to_str().ok().and_then(HashKind::from_name).ok_or_else(|| invalid(value, raw))
}

fn invalid(value: &Value<'_>, raw: &BStr) -> ConfigError {
    at_line(value, format!("invalid value for '{}': '{raw}'", value.key))
}

/// Returns an error that names the line instead of the variable, as git does because it checks the value while it
/// parses the file.
fn at_line(value: &Value<'_>, detail: String) -> ConfigError {
    let file = value.origin.file.clone().unwrap_or_default();
    ConfigError::BadVariable { detail, place: Place::Parsing(value.line, file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_changes_to_the_other_format_and_back_as_git_changes_it() {
        let change = |text: &str, to| {
            let text = with_ref_format(text.as_bytes(), to, Path::new(""), Path::new("config")).unwrap();
            String::from_utf8(text).unwrap()
        };
        for (files, reftable) in [
            (
                "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
                "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\trefstorage = reftable\n",
            ),
            (
                "[extensions]\n\tobjectformat = sha256\n[core]\n\trepositoryformatversion = 1\n",
                "[extensions]\n\tobjectformat = sha256\n\trefstorage = reftable\n[core]\n\trepositoryformatversion = 1\n",
            ),
            (
                "[core]\n\trepositoryformatversion = 0\n[extensions]\n\tworktreeConfig = true\n",
                "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n\trefstorage = reftable\n",
            ),
            (
                "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trelativeWorktrees = true\n[user]\n\tname = x\n",
                "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trelativeWorktrees = true\n\trefstorage = reftable\n[user]\n\tname = x\n",
            ),
        ] {
            assert_eq!(change(files, RefFormat::Reftable), reftable);
            assert_eq!(change(reftable, RefFormat::Files), files);
        }
    }

    /// An `objectFormat` that had no effect must not take effect by a migration: the objects have ids of SHA-1.
    #[test]
    fn a_hash_that_did_not_count_does_not_begin_to() {
        let to = |config: &str, format| {
            let changed = with_ref_format(config.as_bytes(), format, Path::new(""), Path::new("config"));
            String::from_utf8(changed.unwrap()).unwrap()
        };
        let config = "[extensions]\n\tobjectformat = sha256\n[core]\n\tbare = true\n";
        assert_eq!(
            to(config, RefFormat::Reftable),
            "[core]\n\tbare = true\n\trepositoryformatversion = 1\n[extensions]\n\trefstorage = reftable\n"
        );
        let config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha1\n";
        assert_eq!(to(config, RefFormat::Files), "[core]\n\trepositoryformatversion = 0\n");
    }

    /// An unknown extension that had no effect must not take effect by a migration: the repository could no longer be
    /// opened.
    #[test]
    fn an_extension_that_nobody_knows_is_not_made_to_count() {
        for config in
            ["[extensions]\n\tfoo = bar\n", "[core]\n\trepositoryformatversion = 0\n[extensions \"a b\"]\n\tc = d\n"]
        {
            let changed = with_ref_format(config.as_bytes(), RefFormat::Reftable, Path::new(""), Path::new("config"));
            let said = changed.unwrap_err().to_string();
            assert!(said.contains("unknown repository extension"), "{said}");
        }
    }
}
