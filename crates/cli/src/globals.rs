//! The options in front of the command: `git -C DIR --git-dir=DIR -c NAME=VALUE CMD`.

use crate::{
    failure::{Failure, Result, WRONG_USE, fatal, message},
    replaced,
};
use bstr::{BString, ByteSlice};
use refdb::Environment;
use std::{
    ffi::{OsStr, OsString},
    io::Write,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// The options in front of the command's name: `git -C DIR -c NAME=VALUE CMD`. See git(1).
///
/// Git passes most of them on in environment variables that it sets in its own process. refdb keeps them here, and
/// [`Globals::environment`] returns an environment with these variables.
#[derive(Debug, Default)]
pub struct Globals {
    pub git_dir: Option<PathBuf>,
    pub work_tree: Option<PathBuf>,
    pub namespace: Option<BString>,
    /// `-c` and `--config-env`: names and values of settings, in order; a name without a value is true.
    pub config: Vec<(BString, Option<BString>)>,
    /// `--no-replace-objects`: no object is replaced by another.
    pub no_replacements: bool,
    /// `--no-advice`: nobody is advised.
    pub no_advice: bool,
    /// `--no-lazy-fetch`: git is not asked to fetch missing objects of a partial clone.
    pub no_lazy_fetch: bool,
    /// The options that are repeated to git when a command line is left to it: `--no-replace-objects`, `--no-advice`,
    /// `--no-lazy-fetch`, and all that refdb's own commands ignore.
    pub of_git: Vec<OsString>,
}

/// What follows the global options.
#[derive(Debug)]
pub enum Rest<'a> {
    /// The name of a command and its words.
    Command(&'a OsStr, &'a [OsString]),
    Nothing,
    Help,
    Version,
}

impl Globals {
    /// Parses the global options. `-C` takes effect immediately.
    pub fn parse(words: &[OsString]) -> Result<(Self, Rest<'_>)> {
        let mut globals = Globals::default();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let bytes = word.as_bytes();
            if bytes.first() != Some(&b'-') {
                return Ok((globals, Rest::Command(word, &words[at + 1..])));
            }
            at += 1;
            let (name, stuck) = match bytes.find_byte(b'=') {
                Some(equals) if bytes.starts_with(b"--") => (&bytes[..equals], Some(&bytes[equals + 1..])),
                _ => (bytes, None),
            };
            let mut value = |missing: &str| match stuck {
                Some(value) => Ok(value),
                None => {
                    let value = words.get(at).map(|word| word.as_bytes());
                    at += 1;
                    value.ok_or_else(|| wrong_use(missing.as_bytes()))
                }
            };
            match name {
                b"-C" => change_folder(value("no directory given for '-C' option")?)?,
                b"-c" => {
                    let setting = value("-c expects a configuration string")?;
                    globals.config.push(match setting.split_once_str("=") {
                        Some((name, value)) => (name.into(), Some(value.into())),
                        None => (setting.into(), None),
                    });
                }
                b"--config-env" => {
                    let setting = value("no config key given for --config-env")?;
                    let (name, value) = from_environment(setting)?;
                    globals.config.push((name, Some(value)));
                }
                b"--git-dir" => {
                    globals.git_dir = Some(path(value("no directory given for '--git-dir' option")?));
                }
                b"--work-tree" => {
                    globals.work_tree = Some(path(value("no directory given for '--work-tree' option")?));
                }
                b"--namespace" => globals.namespace = Some(value("no namespace given for --namespace")?.into()),
                // The folder is the one at this place, before any later `-C`.
                b"--bare" if stuck.is_none() => {
                    if globals.git_dir.is_none() && std::env::var_os("GIT_DIR").is_none() {
                        globals.git_dir = Some(std::env::current_dir().unwrap_or_else(|_| ".".into()));
                    }
                }
                b"-h" | b"--help" if stuck.is_none() => return Ok((globals, Rest::Help)),
                b"-v" | b"--version" if stuck.is_none() => return Ok((globals, Rest::Version)),
                b"--no-replace-objects" if stuck.is_none() => {
                    globals.no_replacements = true;
                    globals.of_git.push(word.clone());
                }
                b"--no-advice" if stuck.is_none() => {
                    globals.no_advice = true;
                    globals.of_git.push(word.clone());
                }
                b"--no-lazy-fetch" if stuck.is_none() => {
                    globals.no_lazy_fetch = true;
                    globals.of_git.push(word.clone());
                }
                // These options concern paging, pathspecs, attributes, optional locks and finding git's other programs,
                // none of which matters to refdb's own commands.
                b"-p"
                | b"--paginate"
                | b"-P"
                | b"--no-pager"
                | b"--no-optional-locks"
                | b"--literal-pathspecs"
                | b"--no-literal-pathspecs"
                | b"--glob-pathspecs"
                | b"--noglob-pathspecs"
                | b"--icase-pathspecs"
                    if stuck.is_none() =>
                {
                    globals.of_git.push(word.clone());
                }
                b"--exec-path" | b"--attr-source" if stuck.is_some() => globals.of_git.push(word.clone()),
                b"--attr-source" => {
                    let source = value("no attribute source given for --attr-source")?;
                    globals.of_git.extend([word.clone(), OsStr::from_bytes(source).to_owned()]);
                }
                _ => return Err(wrong_use(&[b"unknown option: ", bytes].concat())),
            }
        }
        Ok((globals, Rest::Nothing))
    }
}

impl Globals {
    /// Returns the environment in which the repository is looked for.
    pub fn environment(&self) -> Environment {
        let mut environment = Environment::process();
        for (name, value) in [("GIT_DIR", &self.git_dir), ("GIT_WORK_TREE", &self.work_tree)] {
            if let Some(value) = value {
                environment = environment.with(name, value);
            }
        }
        if let Some(namespace) = &self.namespace {
            environment = environment.with("GIT_NAMESPACE", OsStr::from_bytes(namespace));
        }
        if self.no_replacements {
            environment = environment.with(replaced::NOT_HEEDED, "1");
        }
        if self.no_advice {
            environment = environment.with("GIT_ADVICE", "0");
        }
        if self.no_lazy_fetch {
            environment = environment.with("GIT_NO_LAZY_FETCH", "1");
        }
        for (name, value) in &self.config {
            environment = environment.with_setting(name.as_bstr(), value.as_ref().map(|value| value.as_bstr()));
        }
        environment
    }
}

/// Reports wrong global options the way git does, without `error:`.
fn wrong_use(message: &[u8]) -> Failure {
    let mut text = message.to_vec();
    text.push(b'\n');
    text.extend_from_slice(USAGE.as_bytes());
    // If even standard error cannot be written, nothing can be done.
    let _ = std::io::stderr().write_all(&text);
    Failure::Exit(WRONG_USE)
}

/// The usage of the whole program.
pub const USAGE: &str = "\
usage: refdb [-C <path>] [-c <name>=<value>] [--config-env=<name>=<variable>]
             [--git-dir=<path>] [--work-tree=<path>] [--namespace=<name>] [--bare]
             [-v | --version] [-h | --help] <command> [<args>]
";

fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

fn change_folder(folder: &[u8]) -> Result<()> {
    if folder.is_empty() {
        return Ok(());
    }
    std::env::set_current_dir(path(folder)).map_err(|error| {
        Failure::Fatal(message!["cannot change to '", folder, "': ", crate::failure::system_text(&error)])
    })
}

/// Parses `NAME=VARIABLE`: the value of the setting NAME comes from the environment variable.
fn from_environment(setting: &[u8]) -> Result<(BString, BString)> {
    let Some((name, variable)) = setting.rsplit_once_str("=") else {
        return fatal!["invalid config format: ", setting];
    };
    if variable.is_empty() {
        return fatal!["missing environment variable name for configuration '", name, "'"];
    }
    match std::env::var_os(OsStr::from_bytes(variable)) {
        Some(value) => Ok((name.into(), value.as_bytes().into())),
        None => fatal!["missing environment variable '", variable, "' for configuration '", name, "'"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(Into::into).collect()
    }

    #[test]
    fn global_options_end_at_the_command() {
        let words = words(&[
            "--git-dir",
            "g",
            "--work-tree=w",
            "-c",
            "a.b=c=d",
            "-c",
            "a.t",
            "--namespace=n",
            "--bare",
            "--no-pager",
            "--exec-path=x",
            "show-ref",
            "-c",
        ]);
        let (globals, rest) = Globals::parse(&words).unwrap();
        assert_eq!(globals.git_dir, Some("g".into()));
        assert_eq!(globals.work_tree, Some("w".into()));
        assert_eq!(globals.namespace, Some("n".into()));
        assert_eq!(globals.config, [("a.b".into(), Some("c=d".into())), ("a.t".into(), None)]);
        assert!(matches!(rest, Rest::Command(name, rest) if name == "show-ref" && rest.len() == 1));
    }

    #[test]
    fn a_value_from_the_environment_is_taken_after_the_last_equals_sign() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(from_environment(b"a.x=y.b=PATH").unwrap(), ("a.x=y.b".into(), path.into()));
        assert!(from_environment(b"a.b").is_err());
        assert!(from_environment(b"a.b=REFDB_NO_SUCH_VARIABLE").is_err());
    }
}
