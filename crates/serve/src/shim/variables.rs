//! The environment variables on which the answers of `git upload-pack` depend.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

/// Variables of git that do not affect the output of upload-pack, or whose effect the server reproduces.
const HARMLESS: [&str; 17] = [
    "GIT_ASKPASS",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    // `GIT_DIR` names the repository for other commands, but upload-pack is given a path.
    "GIT_DIR",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_HTTP_EXPORT_ALL",
    "GIT_PROJECT_ROOT",
    "GIT_PROTOCOL",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_TERMINAL_PROMPT",
];

/// Returns the environment variables of this process that may change the output of upload-pack: those that say where
/// the configuration is, and those that configure git or lead it elsewhere. The server serves the client of a shim only
/// if they are the same in both processes.
pub fn variables() -> Vec<(OsString, OsString)> {
    let mut found: Vec<_> = std::env::vars_os().filter(|(name, _)| may_change_answers(name)).collect();
    found.sort();
    found
}

fn may_change_answers(name: &OsStr) -> bool {
    let is_of_git = name.as_bytes().starts_with(b"GIT_") && !HARMLESS.iter().any(|harmless| *harmless == name);
    is_of_git || name == "HOME" || name == "XDG_CONFIG_HOME"
}

/// Returns the name of the first variable that only git obeys. The server ignores such a variable or removes it from
/// the environment of its programs, so an equal value in the server does not help.
pub(super) fn for_git_alone(variables: &[(OsString, OsString)]) -> Option<&OsStr> {
    let is_obeyed = |name: &OsStr| !name.as_bytes().starts_with(b"GIT_") || name.as_bytes().starts_with(b"GIT_CONFIG");
    variables.iter().map(|(name, _)| &name[..]).find(|name| !is_obeyed(name))
}

/// Returns the name of a variable that differs between the two lists, or is in only one of them.
pub(super) fn difference<'v>(one: &'v [(OsString, OsString)], other: &'v [(OsString, OsString)]) -> Option<&'v OsStr> {
    let lacks = |list: &[(OsString, OsString)], pair: &(OsString, OsString)| !list.contains(pair);
    let only_one = one.iter().find(|pair| lacks(other, pair));
    only_one.or_else(|| other.iter().find(|pair| lacks(one, pair))).map(|(name, _)| &name[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_the_configuration_or_redirects_git_must_be_equal() {
        for name in ["HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_COUNT", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY"] {
            assert!(may_change_answers(name.as_ref()), "{name}");
        }
        for name in ["GIT_PROTOCOL", "PATH", "GITLAB_X", "GL_USER"] {
            assert!(!may_change_answers(name.as_ref()), "{name}");
        }
    }

    #[test]
    fn a_namespace_is_for_git_though_the_server_has_the_same() {
        let list = |name: &str| vec![("HOME".into(), "/".into()), (OsString::from(name), "x".into())];
        for name in ["GIT_NAMESPACE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_TRACE"] {
            assert_eq!(for_git_alone(&list(name)), Some(name.as_ref()));
        }
        assert_eq!(for_git_alone(&list("GIT_CONFIG_GLOBAL")), None);
    }

    #[test]
    fn a_difference_is_named() {
        let list = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let one = list(&[("GIT_X", "1"), ("HOME", "/a")]);
        assert_eq!(difference(&one, &one), None);
        for (other, name) in [
            (list(&[("GIT_X", "1")]), "HOME"),
            (list(&[("GIT_X", "1"), ("HOME", "/b")]), "HOME"),
            (list(&[("GIT_X", "1"), ("HOME", "/a"), ("GIT_Y", "")]), "GIT_Y"),
        ] {
            assert_eq!(difference(&one, &other), Some(name.as_ref()));
            assert_eq!(difference(&other, &one), Some(name.as_ref()));
        }
    }
}
