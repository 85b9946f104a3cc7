use super::{BadKey, Origin};
use crate::messages::{system_text, without_controls};
use bstr::BString;
use std::path::PathBuf;

/// A setting whose value cannot be used by writers. Commands that only read do not check it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct BadSetting {
    /// The canonical key, in lower case except for a subsection.
    pub key: BString,
    /// The text of the value; `None` for a variable without `=`.
    pub value: Option<BString>,
    /// What is wrong with the value, in git's words if git has such a setting.
    pub what: String,
}

/// Why the configuration cannot be used. Git ends with status 128 for each of these reasons that it knows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file violates the syntax of git-config(1).
    #[error("bad config line {line} in file {}", file.display())]
    BadLine {
        /// The line, counted from 1.
        line: u32,
        /// The file, as git shows it.
        file: PathBuf,
    },
    /// A value is none of the booleans of git-config(1).
    #[error("bad boolean config value '{value}' for '{key}'")]
    BadBoolean {
        /// The value.
        value: BString,
        /// The canonical key of the variable.
        key: BString,
    },
    /// A value is not a number, or a number that is out of range.
    #[error("bad numeric config value '{value}' for '{key}'{origin}: {}", if *.out_of_range { "out of range" } else { "invalid unit" })]
    BadNumber {
        /// The value.
        value: BString,
        /// The canonical key of the variable.
        key: BString,
        /// The place where the variable is set: ` in file PATH`, or empty for the command line.
        origin: String,
        /// Whether the value is a number that is out of range.
        out_of_range: bool,
    },
    /// A variable has a value that is not valid for it.
    #[error("{}{place}", if detail.is_empty() { String::new() } else { format!("{detail}; ") })]
    BadVariable {
        /// The reason; empty where git gives none.
        detail: String,
        /// The place that git names.
        place: Place,
    },
    /// `~user/` names an unknown user, or there is no home for `~/`.
    #[error("failed to expand user dir in: '{0}'")]
    NoHome(BString),
    /// A setting has a number that is not allowed, a hook has no command, or the friendly name of a hook is that of an
    /// event. The text is git's message.
    #[error("{0}")]
    OutOfRange(String),
    /// Includes are nested too deeply, usually because they form a cycle.
    #[error(
        "exceeded maximum include depth ({}) while including\n\t{}\nfrom\n\t{}\nThis might be due to circular includes.",
        most, file.display(), from.display()
    )]
    IncludeDepth {
        /// The file that would exceed the limit.
        file: PathBuf,
        /// The file that includes it.
        from: PathBuf,
        /// The greatest depth that is allowed.
        most: u32,
    },
    /// A file that is included by a condition on remote URLs configures a remote URL.
    #[error(
        "remote URLs cannot be configured in file directly or indirectly included by includeIf.hasconfig:remote.*.url"
    )]
    RemoteUrlInInclude,
    /// `-c`, `GIT_CONFIG_PARAMETERS` or `GIT_CONFIG_COUNT` is malformed.
    #[error("{0}")]
    CommandLine(String),
    /// An environment variable that has to be a boolean is not one.
    #[error("bad boolean environment value '{value}' for '{name}'")]
    BadEnvironment {
        /// The value.
        value: BString,
        /// The name of the variable.
        name: &'static str,
    },
    /// A file cannot be read.
    #[error("unable to access '{}': {}", .0.path.display(), system_text(&.0.source))]
    Io(#[from] refdb_vfs::Error),
}

/// How git names the place of a bad variable, which depends on when git checks the variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The line and the file, for a variable that git checks while it parses the file.
    Parsing(u32, PathBuf),
    /// The canonical key, and the line and the file unless the command line sets the variable, for a variable that git
    /// checks after it has read the configuration.
    Variable(BString, Option<(u32, PathBuf)>),
    /// The command line, for a variable that git checks while it parses the command line.
    CommandLine,
}

impl ConfigError {
    /// Returns what git prints to stderr before it exits with status 128: a message with `fatal: `, in some cases after
    /// a line with `error: `. Control characters other than tabs and newlines became `?`.
    pub fn report(&self) -> String {
        without_controls(&match self {
            ConfigError::CommandLine(detail) => {
                format!("error: {detail}\nfatal: unable to parse command-line config\n")
            }
            ConfigError::BadVariable { detail, place } if detail.is_empty() => format!("fatal: {place}\n"),
            ConfigError::BadVariable { detail, place } => format!("error: {detail}\nfatal: {place}\n"),
            _ => format!("fatal: {self}\n"),
        })
    }

    pub(super) fn missing_value(key: &[u8], origin: &Origin, line: u32) -> Self {
        let detail = format!("missing value for '{}'", BString::from(key));
        ConfigError::BadVariable { detail, place: Place::variable(key, origin, line) }
    }

    pub(super) fn bad_key(key: &[u8], why: BadKey) -> Self {
        let key = BString::from(key);
        ConfigError::CommandLine(match why {
            BadKey::NoSection => format!("key does not contain a section: {key}"),
            BadKey::NoName => format!("key does not contain variable name: {key}"),
            BadKey::Invalid => format!("invalid key: {key}"),
            BadKey::Newline => format!("invalid key (newline): {key}"),
        })
    }
}

impl Place {
    pub(crate) fn variable(key: &[u8], origin: &Origin, line: u32) -> Self {
        Place::Variable(key.into(), origin.file.clone().map(|file| (line, file)))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Parsing(line, file) => write!(f, "bad config line {line} in file {}", file.display()),
            Place::Variable(key, Some((line, file))) => {
                let file = file.strip_prefix(".").unwrap_or(file);
                write!(f, "bad config variable '{key}' in file '{}' at line {line}", file.display())
            }
            Place::Variable(key, None) => write!(f, "unable to parse '{key}' from command-line config"),
            Place::CommandLine => f.write_str("unable to parse command-line config"),
        }
    }
}
