//! Who changes refs: the committer's identity for reflogs, by git-commit-tree(1), "Commit Information".
//!
//! Start with [`committer`]. `zone` knows the offset from UTC, `date` parses `GIT_COMMITTER_DATE`, `approximate` parses
//! dates such as `2.weeks.ago`, and `shown` formats a time.

mod approximate;
mod date;
mod shown;
mod zone;

pub use approximate::{Approximate, approximate, expiry};
pub use shown::rfc2822;
pub use zone::Zone;

use crate::{Config, config::ConfigError, environment::Environment, passwd};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{Ident, space::trim};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    time::{SystemTime, UNIX_EPOCH},
};

/// The reason why there is no identity.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentError {
    /// `GIT_COMMITTER_DATE` is not a date.
    #[error("invalid date format: {0}")]
    Date(BString),
    /// A variable of the configuration has no value.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Finds the committer's identity and the time, `GIT_COMMITTER_DATE` or the present, for an entry of a reflog. Because
/// this may read files, call it only if an entry is written.
///
/// As in git, a missing or empty name or address is no error, because a change of a ref should not fail for want of
/// one.
///
/// # Errors
///
/// Fails if `GIT_COMMITTER_DATE` is not a date, or if a setting that takes part in the choice of the identity has no
/// value.
pub fn committer(config: &Config, environment: &Environment) -> Result<Ident, IdentError> {
    let (time_seconds, offset_minutes) = when(environment)?;
    let user = User::default();
    let mut name = match given(environment, "GIT_COMMITTER_NAME") {
        Some(name) => name,
        None => name_by_default(config, &user)?,
    };
    if name.is_empty() {
        name = user.login().to_owned();
    }
    let email = match given(environment, "GIT_COMMITTER_EMAIL") {
        Some(email) => email,
        None => email_by_default(config, environment, &user)?,
    };
    let hours_and_minutes = offset_minutes / 60 * 100 + offset_minutes % 60;
    Ok(Ident {
        name: without_crud(name.as_bstr()),
        email: without_crud(email.as_bstr()),
        time_seconds,
        offset_decimal: i16::try_from(hours_and_minutes).unwrap_or(0),
    })
}

fn given(environment: &Environment, variable: &str) -> Option<BString> {
    environment.get(variable).map(OsString::into_vec).map(BString::from)
}

fn when(environment: &Environment) -> Result<(u64, i32), IdentError> {
    let zone = Zone::of(environment);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match given(environment, "GIT_COMMITTER_DATE").filter(|date| !date.is_empty()) {
        None => Ok((now, zone.offset_minutes(now))),
        Some(date) => date::parse(&date, now, &zone).ok_or(IdentError::Date(date)),
    }
}

/// Returns `committer.WHAT`, or else `user.WHAT`. Returns an empty text if both are empty or missing but one of them or
/// `author.WHAT` is set, so that, as in git, neither the user's full name nor `EMAIL` takes its place.
fn configured(config: &Config, what: &str) -> Result<Option<BString>, ConfigError> {
    let mut is_set = false;
    let mut found = None;
    for whose in ["committer", "user", "author"] {
        if let Some(value) = config.last(&format!("{whose}.{what}")) {
            let text = value.text()?;
            is_set = true;
            if whose != "author" && !text.is_empty() {
                found.get_or_insert(text.to_owned());
            }
        }
    }
    Ok(found.or(is_set.then(BString::default)))
}

fn name_by_default(config: &Config, user: &User) -> Result<BString, ConfigError> {
    Ok(configured(config, "name")?.unwrap_or_else(|| user.full_name()))
}

fn email_by_default(config: &Config, environment: &Environment, user: &User) -> Result<BString, ConfigError> {
    if let Some(email) = configured(config, "email")? {
        return Ok(email);
    }
    Ok(given(environment, "EMAIL").filter(|email| !email.is_empty()).unwrap_or_else(|| user.email()))
}

/// The entry of the current user in `/etc/passwd`, if there is one.
struct User(Option<passwd::Entry>);

impl Default for User {
    fn default() -> Self {
        User(passwd::by_uid(refdb_vfs::effective_user()))
    }
}

impl User {
    fn login(&self) -> &BStr {
        self.0.as_ref().map_or("unknown".into(), |entry| entry.login.as_bstr())
    }

    /// Returns the comment field of the entry up to its first comma, with the capitalised login name in place of each
    /// `&`. Without an entry, returns `Unknown`.
    fn full_name(&self) -> BString {
        let mut name = BString::default();
        let comment = self.0.as_ref().map_or("Unknown".into(), |entry| entry.gecos.as_bstr());
        for byte in comment.iter().take_while(|byte| **byte != b',') {
            if *byte == b'&' {
                let at = name.len();
                name.extend_from_slice(self.login());
                name[at..].iter_mut().take(1).for_each(|first| first.make_ascii_uppercase());
            } else {
                name.push(*byte);
            }
        }
        name
    }

    /// Returns the login name at the domain in `/etc/mailname`, where Debian keeps it, or else at the name of this
    /// machine.
    fn email(&self) -> BString {
        let mut email = BString::from(self.login());
        email.push(b'@');
        let mail_name = std::fs::read("/etc/mailname").unwrap_or_default();
        match mail_name.lines().next().map(trim).filter(|line| !line.is_empty()) {
            Some(domain) => email.extend_from_slice(domain),
            None => email.extend_from_slice(&host()),
        }
        email
    }
}

/// Returns the name of this machine with its domain, which is looked up in `/etc/hosts` if the name lacks it. A name
/// without a known domain gets the ending `.(none)`, as in git.
fn host() -> BString {
    let name = refdb_vfs::host_name();
    if name.contains(&b'.') {
        return name.into();
    }
    let hosts = std::fs::read("/etc/hosts").unwrap_or_default();
    let canonical = hosts.lines().find_map(|line| {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        let mut names = line.fields().skip(1);
        let first = names.next()?;
        let is_ours = first == name || names.any(|alias| alias == name);
        (is_ours && first.contains(&b'.')).then(|| BString::from(first))
    });
    canonical.unwrap_or_else(|| [&name, &b".(none)"[..]].concat().into())
}

/// Removes characters that would break a line of a reflog, and, as git does, the bytes up to the blank (0x20) and the
/// characters `,:;<>"\'` at either end.
fn without_crud(text: &BStr) -> BString {
    let is_crud = |byte: u8| byte <= b' ' || b",:;<>\"\\'".contains(&byte);
    let start = text.iter().position(|byte| !is_crud(*byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_crud(*byte)).map_or(start, |last| last + 1);
    let kept = text[start..end].iter().copied().filter(|byte| !matches!(byte, b'\n' | b'<' | b'>'));
    let kept: BString = kept.collect::<Vec<_>>().into();
    assert!(kept.find_byteset(b"\n<>").is_none(), "a name ends no line of a reflog: {kept}");
    kept
}
