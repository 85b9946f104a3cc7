//! The surroundings of a command: its current folder and its environment variables.

use bstr::{BStr, ByteSlice};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    process::Command,
};

/// The environment variables and the folder that decide which repository is meant and how it is configured.
///
/// [`Environment::process`] is for a command-line program, [`Environment::without_git`] for a library whose callers
/// name the repository, [`Environment::empty`] for a server whose own variables mean nothing for its repositories, and
/// [`Environment::exactly`] for a server that does the work of a program with an environment of its own.
#[derive(Clone, Debug)]
pub struct Environment {
    inherit: Inherit,
    variables: Vec<(OsString, OsString)>,
    directory: PathBuf,
}

/// Which variables of this process are visible.
#[derive(Clone, Copy, Debug)]
enum Inherit {
    All,
    AllButGit,
    Nothing,
    /// No variable of this process is visible, and programs that run in the environment inherit none of them.
    Replaced,
}

impl Inherit {
    fn has(self, name: &[u8]) -> bool {
        match self {
            Inherit::All => true,
            Inherit::AllButGit => !name.starts_with(b"GIT_"),
            Inherit::Nothing | Inherit::Replaced => false,
        }
    }
}

impl Environment {
    /// Returns an environment with all variables and the current folder of this process.
    pub fn process() -> Self {
        Environment { inherit: Inherit::All, variables: Vec::new(), directory: PathBuf::new() }
    }

    /// Returns an environment with the variables of this process except `GIT_*`. This is for libraries, whose callers
    /// name the repository. Paths are relative to `directory`.
    pub fn without_git(directory: impl Into<PathBuf>) -> Self {
        Environment { inherit: Inherit::AllButGit, variables: Vec::new(), directory: directory.into() }
    }

    /// Returns an environment without any variables. Hooks and other programs still get the variables of this process.
    /// Paths are relative to `directory`.
    pub fn empty(directory: impl Into<PathBuf>) -> Self {
        Environment { inherit: Inherit::Nothing, variables: Vec::new(), directory: directory.into() }
    }

    /// Returns an environment with these variables, of which the last of a name counts, and no others. Hooks and other
    /// programs inherit none of the variables of this process. Paths are relative to `directory`, which must be
    /// absolute.
    pub fn exactly(variables: impl IntoIterator<Item = (OsString, OsString)>, directory: impl Into<PathBuf>) -> Self {
        let variables = variables.into_iter().collect();
        Environment { inherit: Inherit::Replaced, variables, directory: directory.into() }
    }

    /// Sets a variable, as git's `--git-dir`, `--work-tree` and `--namespace` set theirs.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Adds the setting `key=value` as `-c` does, so that it takes precedence over every file and every earlier `-c`.
    #[must_use]
    pub fn with_config(self, setting: &BStr) -> Self {
        match setting.find_byte(b'=') {
            Some(at) => self.with_setting(setting[..at].into(), Some(setting[at + 1..].into())),
            None => self.with_setting(setting, None),
        }
    }

    /// Adds a setting as [`Self::with_config`] does. The key may contain `=`; without a value, the setting is true.
    #[doc(hidden)]
    #[must_use]
    pub fn with_setting(self, key: &BStr, value: Option<&BStr>) -> Self {
        const PARAMETERS: &str = "GIT_CONFIG_PARAMETERS";
        let mut parameters = self.get(PARAMETERS).map(OsString::into_vec).unwrap_or_default();
        if !parameters.is_empty() {
            parameters.push(b' ');
        }
        quote(key, &mut parameters);
        parameters.push(b'=');
        if let Some(value) = value {
            quote(value, &mut parameters);
        }
        self.with(PARAMETERS, OsString::from_vec(parameters))
    }

    /// Returns the value of a variable, which may be empty, or `None` if it is not set.
    pub fn get(&self, name: &str) -> Option<OsString> {
        match self.variables.iter().rev().find(|(known, _)| known == name) {
            Some((_, value)) => Some(value.clone()),
            None if self.inherit.has(name.as_bytes()) => std::env::var_os(name),
            None => None,
        }
    }

    /// Returns what hooks and other programs have to change in the variables that they inherit from this process, so
    /// that they run in this environment: a value to set, or `None` for a variable that they must not have. Later
    /// changes outrank earlier ones.
    pub fn changes(&self) -> Vec<(OsString, Option<OsString>)> {
        let is_kept = |name: &OsStr| match self.inherit {
            Inherit::AllButGit | Inherit::Replaced => {
                self.inherit.has(name.as_bytes()) || self.variables.iter().any(|(known, _)| known == name)
            }
            // Variables that are not read here, such as `PATH`, are still those of the process.
            Inherit::All | Inherit::Nothing => true,
        };
        let mut changes = Vec::new();
        if matches!(self.inherit, Inherit::AllButGit | Inherit::Replaced) {
            let names = std::env::vars_os().map(|(name, _)| name);
            changes.extend(names.filter(|name| !is_kept(name)).map(|name| (name, None)));
        }
        // A `PATH` that stays the same must not be among the changes: to look for a program in another `PATH`, the
        // standard library starts it with fork(2), which copies the page tables of this process.
        let is_new = |name: &OsStr, value: &OsStr| std::env::var_os(name).as_deref() != Some(value);
        let last = |at: usize, name: &OsStr| self.variables[at + 1..].iter().all(|(later, _)| later != name);
        let set = self.variables.iter().enumerate().filter(|(at, (name, _))| last(*at, name)).map(|(_, set)| set);
        changes.extend(set.filter(|(name, value)| is_new(name, value)).map(|(n, v)| (n.clone(), Some(v.clone()))));
        changes
    }

    /// Lets a program run with these variables. The folder in which it runs is up to the caller.
    pub fn give_to(&self, command: &mut Command) {
        for (name, value) in self.changes() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    /// Returns this environment in another folder.
    #[must_use]
    pub fn in_directory(self, directory: impl Into<PathBuf>) -> Self {
        Environment { directory: directory.into(), ..self }
    }

    /// Resolves a path against the folder of this environment. The result for a relative path is relative if the folder
    /// is.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        let is_here = path.as_os_str().is_empty() || path.as_os_str() == ".";
        match (self.directory.as_os_str().is_empty(), is_here) {
            (true, _) => path.to_owned(),
            (false, true) => self.directory.clone(),
            (false, false) => self.directory.join(path),
        }
    }

    /// Returns the absolute path of the folder.
    ///
    /// # Errors
    ///
    /// Fails if the folder does not exist or cannot be accessed.
    pub fn current_dir(&self) -> std::io::Result<PathBuf> {
        if self.directory.as_os_str().is_empty() { std::env::current_dir() } else { self.directory.canonicalize() }
    }

    /// Replaces `~` or `~user` at the start of a path by a home. Returns `None` if that home is unknown: `HOME` is not
    /// set, or the user is not listed in `/etc/passwd`.
    ///
    /// As in git, the rest is appended to the text of the home, so that `~/x` is `/x`, and not `x` in the current
    /// folder, if `HOME` is empty.
    pub(crate) fn expand_home(&self, path: &[u8]) -> Option<PathBuf> {
        let Some(rest) = path.strip_prefix(b"~") else { return Some(os(path).to_owned()) };
        let (user, below) = rest.split_at(rest.find_byte(b'/').unwrap_or(rest.len()));
        let mut expanded = match user {
            b"" => self.get("HOME")?,
            user => crate::passwd::by_name(user.as_bstr())?.home.into_os_string(),
        };
        expanded.push(os(below));
        Some(expanded.into())
    }
}

/// Quotes text for a shell: `it's` becomes `'it'\''s'`.
pub(crate) fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for &byte in text {
        match byte {
            b'\'' | b'!' => out.extend_from_slice(&[b'\'', b'\\', byte, b'\'']),
            _ => out.push(byte),
        }
    }
    out.push(b'\'');
}

pub(crate) fn os(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_put_before_the_rest_of_a_path_as_it_is() {
        let expand = |home: &str, path: &str| Environment::empty("/").with("HOME", home).expand_home(path.as_bytes());
        for (home, path, expanded) in
            [("", "~/x", "/x"), ("", "~", ""), ("/a", "~//x", "/a//x"), ("/a/", "~/x", "/a//x"), ("/a", "x/~", "x/~")]
        {
            let text = expand(home, path).map(|path| path.into_os_string().into_string());
            assert_eq!(text, Some(Ok(expanded.to_owned())), "{path} with {home:?}");
        }
        assert_eq!(expand("/a", "~no such user/x"), None);
        assert_eq!(Environment::empty("/").expand_home(b"~/x"), None);
    }

    /// Regression: a variable that was added with the value that it has in this process was removed.
    #[test]
    fn a_variable_of_git_that_is_added_is_never_removed() {
        const NAME: &str = "GIT_REFDB_TEST";
        if std::env::var_os(NAME).is_some() {
            let of = |environment: Environment| -> Vec<_> {
                environment.changes().into_iter().filter(|(name, _)| name == NAME).collect()
            };
            assert_eq!(of(Environment::without_git("/").with(NAME, "1")), []);
            assert_eq!(of(Environment::without_git("/").with(NAME, "2")), [(NAME.into(), Some("2".into()))]);
            assert_eq!(of(Environment::without_git("/")), [(NAME.into(), None)]);
            return;
        }
        let this = std::env::current_exe().expect("a test is a program");
        let test = "environment::tests::a_variable_of_git_that_is_added_is_never_removed";
        let status = Command::new(this).args(["--exact", test]).env(NAME, "1").status();
        assert!(status.expect("it can be started again").success());
    }

    #[test]
    fn programs_of_an_exact_environment_get_its_variables_and_no_others() {
        let path = std::env::var_os("PATH").expect("cargo sets it");
        let given = [("A", "1"), ("B", "2"), ("A", "3")].map(|(name, value)| (name.into(), value.into()));
        let environment = Environment::exactly(given.into_iter().chain([("PATH".into(), path)]), "/");
        assert_eq!(environment.get("A"), Some("3".into()));
        assert_eq!(environment.get("CARGO_MANIFEST_DIR"), None);
        let changes = environment.changes();
        assert!(
            changes.contains(&("A".into(), Some("3".into()))) && !changes.contains(&("A".into(), Some("1".into())))
        );
        assert!(changes.contains(&("CARGO_MANIFEST_DIR".into(), None)));
        assert!(changes.iter().all(|(name, _)| name != "PATH"), "it is the process's own");
        let mut command = Command::new("/usr/bin/env");
        environment.give_to(&mut command);
        let text = String::from_utf8(command.output().expect("it is there").stdout).expect("it is text");
        let mut names: Vec<_> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.sort_unstable();
        assert_eq!(names, ["A", "B", "PATH"]);
    }
}
