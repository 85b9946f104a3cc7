//! Finds out whether git's own maintenance may pack a repository's refs while others write them.

use super::{Config, Level, Value, parse_boolean};
use bstr::ByteSlice;
use std::fmt;

/// The settings that let `git gc` or `git maintenance` pack refs on their own. Either command can lose refs that
/// another process writes as loose refs in a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GitPacks {
    /// Whether `gc.packRefs` lets git pack refs.
    pub gc: bool,
    /// Whether `maintenance.pack-refs.enabled` lets git pack refs.
    pub maintenance: bool,
    /// Whether a configuration file, usually the repository's own, sets a value that lets git pack refs. Otherwise, git
    /// may pack refs because of `-c` or because a setting is missing.
    pub is_own: bool,
    /// A description of these settings for people.
    text: String,
}

impl GitPacks {
    /// Finds the settings that let git pack refs on its own. Returns `None` if none does.
    pub(super) fn of(config: &Config, is_bare: bool) -> Option<Self> {
        let mut found = GitPacks { gc: false, maintenance: false, is_own: false, text: String::new() };
        let is_on = |value: &Value<'_>| parse_boolean(value.raw) != Some(false);
        found.gc = found.lets_pack(config, "gc.packRefs", |value| match value.raw {
            Some(word) if word.as_bytes() == b"notbare" => !is_bare,
            _ => is_on(value),
        });
        found.maintenance = found.lets_pack(config, "maintenance.pack-refs.enabled", is_on);
        (found.gc || found.maintenance).then_some(found)
    }

    /// Records the setting `shown` if it is unset or has a value for which `lets_pack` holds, and returns whether it
    /// was recorded.
    fn lets_pack(&mut self, config: &Config, shown: &str, lets_pack: impl Fn(&Value<'_>) -> bool) -> bool {
        let key = &shown.to_ascii_lowercase();
        // A server receives the configuration above the repository in the form of `-c`, which git in other processes
        // does not see. A value from a file is therefore looked for first.
        let own = config.all(key).rev().find(|value| value.origin.level != Level::Command);
        let said = match own.or_else(|| config.last(key)) {
            None => format!("{shown} is not set"),
            Some(value) if !lets_pack(&value) => return false,
            Some(value) => {
                let raw = value.raw.map_or("set without a value".into(), |raw| raw.to_string());
                let file = value.origin.file.as_ref().filter(|_| own.is_some());
                file.map_or(format!("{shown} is {raw}"), |file| format!("{shown} is {raw} in '{}'", file.display()))
            }
        };
        self.is_own |= own.is_some();
        let and = if self.text.is_empty() { "" } else { ", and " };
        self.text += &format!("{and}{said}");
        true
    }
}

impl fmt::Display for GitPacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Outer, environment::Environment};
    use refdb_vfs::Fs;

    /// Returns what is found with the settings that a server was given and the file of a user.
    fn found(given: &[&str], file: &str, is_bare: bool) -> Option<(bool, bool, bool, String)> {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("gitconfig");
        std::fs::write(&path, file).unwrap();
        let mut environment = Environment::empty("/nonexistent").with("GIT_CONFIG_GLOBAL", &path);
        for setting in given {
            environment = environment.with_config((*setting).into());
        }
        let outer = Outer::read(&Fs::real(), &environment).unwrap();
        let config = outer.protected(&Fs::real(), &environment).map_err(|error| error.report()).unwrap();
        let found = GitPacks::of(&config, is_bare)?;
        let text = found.to_string().replace(&path.display().to_string(), "F");
        Some((found.gc, found.maintenance, found.is_own, text))
    }

    #[test]
    fn git_packs_unless_both_of_its_settings_say_no() {
        const NO: [&str; 2] = ["gc.packRefs=false", "maintenance.pack-refs.enabled=no"];
        let neither = "gc.packRefs is not set, and maintenance.pack-refs.enabled is not set";
        assert_eq!(found(&[], "", true), Some((true, true, false, neither.into())));
        assert_eq!(found(&NO, "", true), None);
        assert_eq!(found(&["gc.packRefs=notbare", NO[1]], "", true), None);
        let gc = |text: &str, is_own| Some((true, false, is_own, text.to_owned()));
        assert_eq!(found(&["gc.packRefs=notbare", NO[1]], "", false), gc("gc.packRefs is notbare", false));
        assert_eq!(found(&["gc.packRefs=maybe", NO[1]], "", true), gc("gc.packRefs is maybe", false));
        // A file takes precedence over the settings that a server was given.
        assert_eq!(found(&NO, "[gc]\npackRefs = true\n", true), gc("gc.packRefs is true in 'F'", true));
        assert_eq!(found(&["gc.packRefs=true", NO[1]], "[gc]\npackRefs = 0\n", true), None);
        let key = "maintenance.pack-refs.enabled is set without a value in 'F'";
        assert_eq!(found(&NO, "[maintenance \"pack-refs\"]\nenabled\n", true), Some((false, true, true, key.into())));
    }
}
