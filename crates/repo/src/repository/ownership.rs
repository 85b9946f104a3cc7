//! Decides whether a repository can be trusted: git-config(1), "safe.directory".
//!
//! A repository's configuration can name commands, so its owner could make other users run commands.

use super::RepositoryError;
use crate::{
    config::{ConfigError, Outer, Place},
    environment::{Environment, os, quote},
};
use bstr::ByteSlice;
use refdb_vfs::{Fs, Stat};
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Fails if a part of a repository (its `.git` file, its worktree, its folder) belongs to someone else, unless
/// `safe.directory` trusts the repository. Returns git's warnings about values of that setting, without `warning: `.
pub(super) fn check(
    fs: &Fs,
    environment: &Environment,
    parts: &[Stat],
    outer: &dyn Fn() -> Result<Outer, ConfigError>,
    path: &dyn Fn() -> PathBuf,
) -> Result<Vec<String>, RepositoryError> {
    assert!(!parts.is_empty(), "nothing would be anybody's own");
    if is_ours(environment, parts) {
        return Ok(Vec::new());
    }
    let shown = path();
    let mut relative = Vec::new();
    let is_safe = is_declared_safe(fs, environment, &outer()?, &shown, &mut relative)?;
    let warnings = relative.into_iter().map(|value| format!("safe.directory '{value}' not absolute")).collect();
    if is_safe {
        return Ok(warnings);
    }
    let path = shown.to_string_lossy();
    let path = if path.len() > 1 { path.trim_end_matches('/') } else { &path }.to_owned();
    // Like git, this does not quote a path of harmless characters.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/+,-.:=@^_".contains(&byte);
    let mut quoted = Vec::new();
    match path.bytes().all(plain) {
        true => quoted.extend_from_slice(path.as_bytes()),
        false => quote(path.as_bytes(), &mut quoted),
    }
    let quoted = String::from_utf8_lossy(&quoted).into_owned();
    Err(RepositoryError::DubiousOwnership { path, quoted, warnings })
}

fn is_ours(environment: &Environment, parts: &[Stat]) -> bool {
    // As in git, this variable is for tests, and can only make the check stricter.
    if environment
        .get("GIT_TEST_ASSUME_DIFFERENT_OWNER")
        .is_some_and(|value| !matches!(value.as_bytes(), b"" | b"0" | b"false"))
    {
        return false;
    }
    let user = refdb_vfs::effective_user();
    let mut also = None;
    if parts.iter().any(|part| part.uid != user) && user == 0 {
        // Under sudo, files of the user who called it are treated as one's own.
        let caller = environment.get("SUDO_UID");
        also = caller.and_then(|uid| uid.to_str().and_then(|uid| uid.parse::<u32>().ok()));
    }
    parts.iter().all(|part| part.uid == user || Some(part.uid) == also)
}

fn is_declared_safe(
    fs: &Fs,
    environment: &Environment,
    outer: &Outer,
    shown: &Path,
    relative: &mut Vec<String>,
) -> Result<bool, ConfigError> {
    let real = shown.canonicalize().unwrap_or_else(|_| shown.to_owned());
    let mut safe = false;
    for value in outer.protected(fs, environment)?.all("safe.directory") {
        match value.raw.map(|raw| raw.as_bytes()) {
            None | Some(b"") => safe = false,
            Some(b"*") => safe = true,
            Some(_) => {
                let Some(allowed) = value.path(environment)? else { continue };
                safe |= covers(&allowed, &real, environment);
                if !allowed.is_absolute() && !is_dot(&allowed) {
                    relative.push(allowed.display().to_string());
                }
            }
        }
    }
    Ok(safe)
}

/// Returns whether the path is spelt `.`, which stands for the current folder. Equivalent paths, such as `./`, are
/// ordinary relative paths.
fn is_dot(path: &Path) -> bool {
    path.as_os_str() == "."
}

fn covers(allowed: &Path, real: &Path, environment: &Environment) -> bool {
    if is_dot(allowed) {
        return environment.current_dir().is_ok_and(|folder| folder == real);
    }
    if !allowed.is_absolute() {
        return false;
    }
    let canonical = |path: &Path| path.canonicalize();
    match allowed.as_os_str().as_bytes().strip_suffix(b"/*") {
        Some(b"") => real != Path::new("/"),
        Some(above) => canonical(os(above)).is_ok_and(|above| real != above && real.starts_with(&above)),
        None => canonical(allowed).is_ok_and(|allowed| allowed == real),
    }
}

/// Refuses a bare repository that was not named, if `safe.bareRepository` is `explicit`.
pub(super) fn check_bare(
    fs: &Fs,
    environment: &Environment,
    outer: &Outer,
    path: &dyn Fn() -> PathBuf,
) -> Result<(), RepositoryError> {
    let config = outer.protected(fs, environment)?;
    let mut explicit = false;
    for value in config.all("safe.barerepository") {
        explicit = match value.raw.map(|raw| raw.as_bytes()) {
            Some(b"all") => false,
            Some(b"explicit") => true,
            _ => {
                let place = Place::variable(value.key, value.origin, value.line);
                return Err(ConfigError::BadVariable { detail: String::new(), place }.into());
            }
        };
    }
    if !explicit {
        return Ok(());
    }
    let path = path();
    // As in git, the `.git` folder of a working tree, and a folder below its `worktrees/` or `modules/`, is allowed.
    let of_worktree = path.ends_with(".git")
        || [&b"/.git/worktrees/"[..], b"/.git/modules/"]
            .iter()
            .any(|part| path.as_os_str().as_bytes().contains_str(part));
    if of_worktree { Ok(()) } else { Err(RepositoryError::BareForbidden(path)) }
}
