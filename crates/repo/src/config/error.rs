use super::{BadKey, Origin};
use bstr::BString;
use std::path::PathBuf;

/// Why the configuration cannot be used. Git ends with status 128 for each of these.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file breaks the syntax of git-config(1).
    #[error("bad config line {line} in file {}", file.display())]
    BadLine {
        /// Counted from 1.
        line: u32,
        /// As git shows it.
        file: PathBuf,
    },
    /// A value that is none of git-config(1)'s booleans.
    #[error("bad boolean config value '{value}' for '{key}'")]
    BadBoolean {
        /// The value.
        value: BString,
        /// The variable.
        key: BString,
    },
    /// A value that is no number, or too large a one.
    #[error("bad numeric config value '{value}' for '{key}'{origin}: {}", if *.out_of_range { "out of range" } else { "invalid unit" })]
    BadNumber {
        /// The value.
        value: BString,
        /// The variable.
        key: BString,
        /// Where it is set: ` in file PATH`, or nothing for the command line.
        origin: String,
        /// It is a number, but none that fits.
        out_of_range: bool,
    },
    /// A variable cannot have this value.
    #[error("{}{place}", if detail.is_empty() { String::new() } else { format!("{detail}; ") })]
    BadVariable {
        /// The fault of the value; empty where git does not say.
        detail: String,
        /// Where git says it found it.
        place: Place,
    },
    /// `~user/` with a user that is unknown, or `~/` without a home.
    #[error("failed to expand user dir in: '{0}'")]
    NoHome(BString),
    /// A setting of a backend is out of its range.
    #[error("{0}")]
    OutOfRange(String),
    /// Includes go in a circle, or nearly.
    #[error(
        "exceeded maximum include depth ({}) while including\n\t{}\nfrom\n\t{}\nThis might be due to circular includes.",
        most, file.display(), from.display()
    )]
    IncludeDepth {
        /// The file that would be one too many.
        file: PathBuf,
        /// The file that includes it.
        from: PathBuf,
        /// How deep files may include files.
        most: u32,
    },
    /// A file that a condition on remote URLs includes says one itself.
    #[error(
        "remote URLs cannot be configured in file directly or indirectly included by includeIf.hasconfig:remote.*.url"
    )]
    RemoteUrlInInclude,
    /// `-c`, `GIT_CONFIG_PARAMETERS` or `GIT_CONFIG_COUNT` is malformed.
    #[error("{0}")]
    CommandLine(String),
    /// An environment variable that shall be a boolean is none.
    #[error("bad boolean environment value '{value}' for '{name}'")]
    BadEnvironment {
        /// The value.
        value: BString,
        /// The variable.
        name: &'static str,
    },
    /// A file cannot be read.
    #[error("unable to access '{}': {}", .0.path.display(), reason(&.0.source))]
    Io(#[from] refdb_vfs::Error),
}

/// How git names the place of a bad variable; it depends on when it looks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// While the file was parsed.
    Parsing(u32, PathBuf),
    /// While the configuration was looked through.
    Variable(BString, Option<(u32, PathBuf)>),
    /// While the command line was parsed.
    CommandLine,
}

impl ConfigError {
    /// What git prints to stderr before it ends with status 128: `fatal: ` lines, some after an `error: ` line.
    pub fn report(&self) -> String {
        match self {
            ConfigError::CommandLine(detail) => {
                format!("error: {detail}\nfatal: unable to parse command-line config\n")
            }
            ConfigError::BadVariable { detail, place } if detail.is_empty() => format!("fatal: {place}\n"),
            ConfigError::BadVariable { detail, place } => format!("error: {detail}\nfatal: {place}\n"),
            _ => format!("fatal: {self}\n"),
        }
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

/// The system's words without Rust's "(os error 13)".
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
