//! Hooks that are set in the configuration: git-hook(1).

use super::{Config, ConfigError, parse_boolean};
use bstr::{BStr, BString, ByteSlice};

/// A hook that `hook.NAME.*` sets for an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfiguredHook {
    /// `NAME` in `hook.NAME.*`.
    pub name: BString,
    /// `hook.NAME.command`: a program, or a line for the shell.
    pub command: BString,
}

/// The events of githooks(5) that concern refs. A configured hook must not have the name of one of them.
const REF_EVENTS: [&str; 8] = [
    "reference-transaction",
    "pre-receive",
    "update",
    "post-receive",
    "post-update",
    "proc-receive",
    "push-to-checkout",
    "pre-push",
];

impl Config {
    /// Returns the enabled hooks for `event`, in the order in which they run.
    ///
    /// The file of the event's name in the hooks folder runs after these; [`Config::is_event_enabled`] applies to it
    /// too.
    ///
    /// # Errors
    ///
    /// As in git, a hook without a command is an error, even if it is for another event, and so is any variable of a hook
    /// without a value.
    pub fn hooks(&self, event: &str) -> Result<Vec<ConfiguredHook>, ConfigError> {
        let mut names: Vec<&BStr> = Vec::new();
        let mut in_use: Vec<&BStr> = Vec::new();
        for value in self.iter() {
            let Some((name, variable)) = split(value.key) else { continue };
            // Git refuses any variable of a hook without a value, also one that it does not know.
            let text = value.text()?;
            if variable != b"event" {
                continue;
            }
            if text.is_empty() {
                // An empty value clears the events of this hook.
                names.retain(|known| *known != name);
                in_use.retain(|known| *known != name);
                continue;
            }
            if !in_use.contains(&name) {
                in_use.push(name);
            }
            if text == event {
                names.retain(|known| *known != name);
                names.push(name);
            }
        }
        if let Some(name) =
            in_use.iter().find(|name| REF_EVENTS.iter().any(|known| name.as_bytes() == known.as_bytes()))
        {
            return Err(ConfigError::OutOfRange(format!(
                "hook friendly-name '{name}' collides with a known event name; please choose a different friendly-name"
            )));
        }
        debug_assert!(names.iter().all(|name| in_use.contains(name)), "a hook of this event is a hook of some event");
        let mut hooks = Vec::new();
        for name in names.into_iter().filter(|name| self.is_enabled(name)) {
            hooks.push(ConfiguredHook { name: name.into(), command: self.hook_command(name)?.into() });
        }
        for name in in_use.into_iter().filter(|name| self.is_enabled(name)) {
            self.hook_command(name)?;
        }
        Ok(hooks)
    }

    fn hook_command(&self, name: &BStr) -> Result<&BStr, ConfigError> {
        self.hook_value(name, b"command").flatten().ok_or_else(|| {
            ConfigError::OutOfRange(format!(
                "'hook.{name}.command' must be configured or 'hook.{name}.event' must be removed; aborting."
            ))
        })
    }

    /// Returns whether any hook runs for this event: `hook.EVENT.enabled`.
    pub fn is_event_enabled(&self, event: &str) -> bool {
        self.is_enabled(event.into())
    }

    fn is_enabled(&self, name: &BStr) -> bool {
        // A value that is not a boolean disables nothing.
        self.hook_value(name, b"enabled").is_none_or(|value| parse_boolean(value).unwrap_or(true))
    }

    fn hook_value(&self, name: &BStr, variable: &[u8]) -> Option<Option<&BStr>> {
        self.iter().rev().find(|value| split(value.key) == Some((name, variable))).map(|value| value.raw)
    }
}

/// Splits `hook.NAME.variable` into the name and the variable.
fn split(key: &BStr) -> Option<(&BStr, &[u8])> {
    let rest = key.strip_prefix(b"hook.")?;
    let dot = rest.rfind_byte(b'.')?;
    Some((rest[..dot].as_bstr(), &rest[dot + 1..]))
}

#[cfg(test)]
mod tests {
    use crate::{config::Outer, environment::Environment};
    use refdb_vfs::Fs;

    fn hooks(settings: &[&str]) -> Result<String, String> {
        let mut environment = Environment::empty("/nonexistent");
        for setting in settings {
            environment = environment.with_config((*setting).into());
        }
        let config = Outer::default().protected(&Fs::real(), &environment).map_err(|error| error.report())?;
        let hooks = config.hooks("reference-transaction").map_err(|error| error.report())?;
        let texts: Vec<_> = hooks.iter().map(|hook| format!("{}:{}", hook.name, hook.command)).collect();
        Ok(texts.join(" "))
    }

    #[test]
    fn hooks_run_in_the_order_of_their_last_event() {
        let a = ["hook.a.event=reference-transaction", "hook.a.command=x"];
        let b = ["hook.b.event=reference-transaction", "hook.b.command=y"];
        assert_eq!(hooks(&a).unwrap(), "a:x");
        assert_eq!(hooks(&[&a[..], &b[..], &a[..1]].concat()).unwrap(), "b:y a:x");
        assert_eq!(hooks(&[&a[..], &["hook.a.event=update"]].concat()).unwrap(), "a:x");
        assert_eq!(hooks(&[&a[..], &["hook.a.event="]].concat()).unwrap(), "");
        assert_eq!(hooks(&[&a[..], &["hook.a.enabled=false"]].concat()).unwrap(), "");
        assert_eq!(hooks(&[&a[..], &["hook.a.enabled=bogus"]].concat()).unwrap(), "a:x");
        assert_eq!(hooks(&["hook.a.command=x"]).unwrap(), "");
        assert_eq!(hooks(&["hook.a.event=update", "hook.a.event="]).unwrap(), "");
        assert_eq!(hooks(&["hook.a.event=update", "hook.a.enabled=false"]).unwrap(), "");
    }

    #[test]
    fn what_git_refuses_is_refused_also_a_variable_of_a_hook_without_a_value() {
        for (settings, report) in [
            (
                &["hook.a.event=reference-transaction"][..],
                "fatal: 'hook.a.command' must be configured or 'hook.a.event' must be removed; aborting.\n",
            ),
            (
                &["hook.a.event=pre-commit"][..],
                "fatal: 'hook.a.command' must be configured or 'hook.a.event' must be removed; aborting.\n",
            ),
            (
                &["hook.a.event=reference-transaction", "hook.a.command"],
                "error: missing value for 'hook.a.command'\nfatal: unable to parse 'hook.a.command' from command-line config\n",
            ),
            (
                &["hook.a.enabled"],
                "error: missing value for 'hook.a.enabled'\nfatal: unable to parse 'hook.a.enabled' from command-line config\n",
            ),
            (
                &["hook.a.unknown"],
                "error: missing value for 'hook.a.unknown'\nfatal: unable to parse 'hook.a.unknown' from command-line config\n",
            ),
            (
                &["hook.update.event=reference-transaction", "hook.update.command=x"],
                "fatal: hook friendly-name 'update' collides with a known event name; please choose a different friendly-name\n",
            ),
        ] {
            assert_eq!(hooks(settings).unwrap_err(), report);
        }
    }
}
