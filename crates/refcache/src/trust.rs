//! What counts as a proof that a cached answer is still true. The settings and their meaning are JGit's.

use std::{fmt, time::Duration};

/// How far the attributes of a file are trusted to tell whether its content has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// They are: equal attributes prove equal content, unless the time stamp is too recent to tell.
    #[default]
    Always,
    /// They are once the file has been opened, which makes clients of network file systems ask the server.
    AfterOpen,
    /// They are not: the file is read again each time.
    Never,
}

/// A repository's trust settings (`core.trustStat` and its relations).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrustSettings {
    /// `core.trustPackedRefsStat`.
    pub packed_refs: Trust,
    /// `core.trustLooseRefStat`.
    pub loose_refs: Trust,
    /// `core.trustTablesListStat`.
    pub tables_list: Trust,
    /// `refdb.trustMillis`: how long a proof is good for without looking again, so how old an answer may be. `None`, the
    /// default, for not at all. Our own writes are always seen at once.
    pub believe: Option<Duration>,
}

/// A setting that has none of the values it can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid value for '{key}': '{value}'; use {allowed}")]
pub struct TrustError {
    key: &'static str,
    value: String,
    allowed: &'static str,
}

impl TrustSettings {
    /// Reads the settings as JGit does. `get` answers with the last value of a key of the whole configuration.
    ///
    /// `core.trustStat` counts where the others are not set or say `inherit`. Where it is not set itself, the
    /// deprecated `core.trustFolderStat` counts: `false` for never. All are `always` by default.
    pub fn from_config(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, TrustError> {
        let common = match trust(get, "core.trustStat")? {
            Some(trust) => trust,
            None => match boolean(get, "core.trustFolderStat")? {
                Some(false) => Trust::Never,
                _ => Trust::Always,
            },
        };
        let believe = millis(get, "refdb.trustMillis")?.filter(|millis| *millis > 0).map(Duration::from_millis);
        Ok(TrustSettings {
            packed_refs: trust(get, "core.trustPackedRefsStat")?.unwrap_or(common),
            loose_refs: trust(get, "core.trustLooseRefStat")?.unwrap_or(common),
            tables_list: trust(get, "core.trustTablesListStat")?.unwrap_or(common),
            believe,
        })
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trust::Always => "always",
            Trust::AfterOpen => "after_open",
            Trust::Never => "never",
        })
    }
}

fn trust(get: &dyn Fn(&str) -> Option<String>, key: &'static str) -> Result<Option<Trust>, TrustError> {
    let Some(value) = get(key) else { return Ok(None) };
    // As JGit reads its enumerations.
    match value.to_ascii_lowercase().replace(['-', ' '], "_").as_str() {
        "always" => Ok(Some(Trust::Always)),
        "after_open" => Ok(Some(Trust::AfterOpen)),
        "never" => Ok(Some(Trust::Never)),
        "inherit" => Ok(None),
        _ => Err(TrustError { key, value, allowed: "always, after_open, never or inherit" }),
    }
}

fn boolean(get: &dyn Fn(&str) -> Option<String>, key: &'static str) -> Result<Option<bool>, TrustError> {
    let Some(value) = get(key) else { return Ok(None) };
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "" => Ok(Some(true)),
        "false" | "no" | "off" | "0" => Ok(Some(false)),
        _ => Err(TrustError { key, value, allowed: "true or false" }),
    }
}

fn millis(get: &dyn Fn(&str) -> Option<String>, key: &'static str) -> Result<Option<u64>, TrustError> {
    let Some(value) = get(key) else { return Ok(None) };
    match value.parse() {
        Ok(millis) => Ok(Some(millis)),
        Err(_) => Err(TrustError { key, value, allowed: "a number of milliseconds, 0 for not at all" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<TrustSettings, TrustError> {
        TrustSettings::from_config(&|key| {
            pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn attributes_are_trusted_by_default() {
        assert_eq!(read(&[]).unwrap(), TrustSettings::default());
        assert_eq!(read(&[("core.trustFolderStat", "true")]).unwrap(), TrustSettings::default());
    }

    #[test]
    fn single_settings_outrank_the_common_one_which_outranks_the_deprecated_one() {
        let settings = read(&[
            ("core.trustFolderStat", "false"),
            ("core.trustPackedRefsStat", "AFTER_OPEN"),
            ("core.trustLooseRefStat", "inherit"),
        ]);
        let expected = TrustSettings {
            packed_refs: Trust::AfterOpen,
            loose_refs: Trust::Never,
            tables_list: Trust::Never,
            believe: None,
        };
        assert_eq!(settings.unwrap(), expected);
        let settings = read(&[("core.trustFolderStat", "false"), ("core.trustStat", "after_open")]).unwrap();
        assert_eq!(settings.loose_refs, Trust::AfterOpen);
    }

    #[test]
    fn our_own_setting_is_off_unless_it_says_how_long() {
        assert_eq!(read(&[("refdb.trustMillis", "0")]).unwrap().believe, None);
        assert_eq!(read(&[("refdb.trustMillis", "20")]).unwrap().believe, Some(Duration::from_millis(20)));
    }

    #[test]
    fn a_bad_value_is_named_with_its_key_and_what_is_allowed() {
        let error = read(&[("core.trustStat", "sometimes")]).unwrap_err().to_string();
        assert_eq!(error, "invalid value for 'core.trustStat': 'sometimes'; use always, after_open, never or inherit");
        assert!(read(&[("refdb.trustMillis", "-1")]).is_err());
        assert!(read(&[("core.trustFolderStat", "never")]).is_err());
    }
}
