//! When a cached answer counts as current. The settings are JGit's, except for `refdb.trustMillis`, and mean what they
//! mean to JGit, except for `always` on a network file system.

use refdb_vfs::Fs;
use std::{fmt, time::Duration};

/// How far the attributes of a file (`stat`) are trusted to show that its content has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// Equal attributes mean equal content, unless the time stamp is so recent that a later change could have the
    /// same time stamp. On a network file system this value means the same as [`AfterOpen`](Self::AfterOpen).
    #[default]
    Always,
    /// On a network file system, attributes are trusted after the server has been asked for them, as by opening the
    /// file. On a local file system this value means the same as [`Always`](Self::Always), except for loose refs.
    AfterOpen,
    /// Attributes are not trusted, so that each check of the file reads it.
    Never,
}

/// A repository's trust settings (`core.trustStat` and its relations).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TrustSettings {
    /// `core.trustPackedRefsStat`.
    pub packed_refs: Trust,
    /// `core.trustLooseRefStat`. Here [`Trust::AfterOpen`] has the effect of [`Trust::Never`]: a loose ref whose file
    /// has been opened is read.
    pub loose_refs: Trust,
    /// `core.trustTablesListStat`.
    pub tables_list: Trust,
    /// `refdb.trustMillis`: for how long an answer counts as current without another check of the disk, and therefore
    /// how old it may be. `None`, the default, to check the disk for each query. Writes through any view of the process
    /// are seen at once.
    pub believe: Option<Duration>,
    /// Whether at least one of the three values is `always` because a setting says so. A view warns of that on a
    /// network file system, but not of the default.
    pub is_always_set: bool,
}

impl TrustSettings {
    /// The defaults.
    pub fn new() -> Self {
        TrustSettings::default()
    }

    /// Sets [`TrustSettings::packed_refs`](#structfield.packed_refs).
    #[must_use]
    pub fn packed_refs(mut self, packed_refs: Trust) -> Self {
        self.packed_refs = packed_refs;
        self
    }

    /// Sets [`TrustSettings::loose_refs`](#structfield.loose_refs).
    #[must_use]
    pub fn loose_refs(mut self, loose_refs: Trust) -> Self {
        self.loose_refs = loose_refs;
        self
    }

    /// Sets [`TrustSettings::tables_list`](#structfield.tables_list).
    #[must_use]
    pub fn tables_list(mut self, tables_list: Trust) -> Self {
        self.tables_list = tables_list;
        self
    }

    /// Sets [`TrustSettings::believe`](#structfield.believe).
    #[must_use]
    pub fn believe(mut self, believe: impl Into<Option<Duration>>) -> Self {
        self.believe = believe.into();
        self
    }

    /// Sets [`TrustSettings::is_always_set`](#structfield.is_always_set).
    #[must_use]
    pub fn is_always_set(mut self, is_always_set: bool) -> Self {
        self.is_always_set = is_always_set;
        self
    }
}

/// An invalid value of a trust setting.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid value for '{key}': '{value}'; use {allowed}")]
pub struct TrustError {
    key: &'static str,
    value: String,
    allowed: &'static str,
}

impl TrustSettings {
    /// Reads the settings as JGit does, and `refdb.trustMillis`, which JGit does not know. `get` returns the last value
    /// of a key in the whole configuration.
    ///
    /// `core.trustStat` applies where a more specific setting is missing or says `inherit`. If `core.trustStat` is
    /// missing or says `inherit` too, the deprecated `core.trustFolderStat = false` means `never`. The default is
    /// `always`.
    ///
    /// # Errors
    ///
    /// Fails with the first setting that has an invalid value. The deprecated setting is read only if `core.trustStat`
    /// is missing or says `inherit`.
    pub fn from_config(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, TrustError> {
        let set = trust(get, "core.trustStat")?;
        let common = match set {
            Some(trust) => trust,
            None => match boolean(get, "core.trustFolderStat")? {
                Some(false) => Trust::Never,
                _ => Trust::Always,
            },
        };
        let own = [
            trust(get, "core.trustPackedRefsStat")?,
            trust(get, "core.trustLooseRefStat")?,
            trust(get, "core.trustTablesListStat")?,
        ];
        let [packed_refs, loose_refs, tables_list] = own.map(|own| own.unwrap_or(common));
        let believe = millis(get, "refdb.trustMillis")?.filter(|millis| *millis > 0).map(Duration::from_millis);
        Ok(TrustSettings {
            packed_refs,
            loose_refs,
            tables_list,
            believe,
            is_always_set: own.iter().any(|own| own.or(set) == Some(Trust::Always)),
        })
    }

    /// The settings that apply to files on `fs`. On a network file system `always` means `after_open`, because a client
    /// may have old attributes of one file and new ones of another, so that a ref would go back to an earlier value.
    pub(crate) fn at(self, fs: &Fs) -> Self {
        let at = |trust| if trust == Trust::Always && fs.asks_server() { Trust::AfterOpen } else { trust };
        TrustSettings {
            packed_refs: at(self.packed_refs),
            loose_refs: at(self.loose_refs),
            tables_list: at(self.tables_list),
            ..self
        }
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
    // JGit compares the names of its enumerations in this way.
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
            ..TrustSettings::default()
        };
        assert_eq!(settings.unwrap(), expected);
        let settings = read(&[("core.trustFolderStat", "false"), ("core.trustStat", "after_open")]).unwrap();
        assert_eq!(settings.loose_refs, Trust::AfterOpen);
    }

    #[test]
    fn a_setting_that_says_always_is_told_from_the_default() {
        let is_set = |pairs: &[(&str, &str)]| read(pairs).unwrap().is_always_set;
        assert!(is_set(&[("core.trustStat", "always")]));
        assert!(is_set(&[("core.trustStat", "never"), ("core.trustLooseRefStat", "always")]));
        assert!(!is_set(&[]) && !is_set(&[("core.trustStat", "after_open")]));
        let outranked = [("PackedRefs", "never"), ("LooseRef", "after_open"), ("TablesList", "never")]
            .map(|(of, value)| (format!("core.trust{of}Stat"), value));
        let mut pairs: Vec<(&str, &str)> = outranked.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        pairs.push(("core.trustStat", "always"));
        assert!(!is_set(&pairs), "it takes no effect");
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
