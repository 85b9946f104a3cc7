//! Hooks that are set in the configuration: git-hook(1).

use super::{Config, ConfigError, Value, parse_boolean};
use bstr::{BStr, BString, ByteSlice};

/// A hook that `hook.NAME.*` sets for an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfiguredHook {
    /// `NAME` in `hook.NAME.*`.
    pub name: BString,
    /// `hook.NAME.command`: a program, or a line for the shell.
    pub command: BString,
}

/// The events of githooks(5). A hook that the configuration sets for an event must not have the name of one of them.
const EVENTS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

impl Config {
    /// Returns the enabled hooks for `event`, in the order in which they run. The file of the event's name in the hooks
    /// folder runs after these.
    ///
    /// # Errors
    ///
    /// As in git, fails if any hook, even one for another event, has a variable without a value, has an event although
    /// its own name is that of an event of githooks(5), or is enabled for an event but has no command.
    pub fn hooks(&self, event: &str) -> Result<Vec<ConfiguredHook>, ConfigError> {
        let mut settings = HookSettings::default();
        settings.read(self)?;
        settings.hooks(event)
    }

    /// Returns git's warnings about settings of hooks, without the prefix `warning: `. If git stops at an error, the
    /// warnings that it prints before that are returned.
    #[doc(hidden)]
    pub fn hook_warnings(&self) -> Vec<String> {
        let mut settings = HookSettings::default();
        if settings.read(self).is_ok() {
            settings.warn_of_names();
        }
        settings.warnings
    }
}

/// The combined meaning of all `hook.*` variables.
#[derive(Default)]
struct HookSettings<'a> {
    /// The hooks of each event, in the order in which they run.
    events: Vec<(&'a BStr, Vec<&'a BStr>)>,
    /// The command of each hook.
    commands: Vec<(&'a BStr, &'a BStr)>,
    /// The names, of hooks or of events, that are disabled.
    disabled: Vec<&'a BStr>,
    /// The hooks that may run in parallel with others.
    parallel: Vec<&'a BStr>,
    /// The names for which `hook.NAME.jobs` sets a number of simultaneous hooks. They should be names of events.
    jobs: Vec<&'a BStr>,
    warnings: Vec<String>,
}

impl<'a> HookSettings<'a> {
    fn read(&mut self, config: &'a Config) -> Result<(), ConfigError> {
        for value in config.iter() {
            let Some(rest) = value.key.strip_prefix(b"hook.") else { continue };
            match rest.rsplit_once_str(".") {
                Some((name, variable)) => self.read_one(name.into(), variable, &value)?,
                None if rest == b"jobs" && value.raw.is_some() => {
                    self.number_of_jobs(&value, "hook.jobs");
                }
                None => {}
            }
        }
        Ok(())
    }

    fn read_one(&mut self, name: &'a BStr, variable: &[u8], value: &Value<'a>) -> Result<(), ConfigError> {
        // Git refuses a variable of a hook without a value even if it does not know the variable.
        let text = value.text()?;
        match variable {
            b"event" if text.is_empty() => self.events.iter_mut().for_each(|(_, hooks)| forget(hooks, name)),
            b"event" => self.add(name, text)?,
            b"command" => {
                self.commands.retain(|(known, _)| *known != name);
                self.commands.push((name, text));
            }
            // A value that is not a boolean changes nothing.
            b"enabled" => match parse_boolean(value.raw) {
                Some(true) => forget(&mut self.disabled, name),
                Some(false) => self.disabled.push(name),
                None => {}
            },
            b"parallel" => match parse_boolean(value.raw) {
                Some(true) => self.parallel.push(name),
                Some(false) => forget(&mut self.parallel, name),
                None => self.warnings.push(format!("hook.{name}.parallel must be a boolean, ignoring: '{text}'")),
            },
            b"jobs" if self.number_of_jobs(value, &format!("hook.{name}.jobs")) => self.jobs.push(name),
            _ => {}
        }
        Ok(())
    }

    /// Makes `name` the last hook of `event`. Fails if `name` is itself an event of githooks(5).
    fn add(&mut self, name: &'a BStr, event: &'a BStr) -> Result<(), ConfigError> {
        if EVENTS.iter().any(|known| name == known) {
            return Err(ConfigError::OutOfRange(format!(
                "hook friendly-name '{name}' collides with a known event name; please choose a different friendly-name"
            )));
        }
        if name == event {
            self.warnings.push(format!(
                "hook friendly-name '{name}' is the same as its event; this may cause ambiguity with hook.{name}.enabled"
            ));
        }
        match self.events.iter_mut().find(|(known, _)| *known == event) {
            Some((_, hooks)) => {
                forget(hooks, name);
                hooks.push(name);
            }
            None => self.events.push((event, vec![name])),
        }
        Ok(())
    }

    /// Returns whether a value is a valid number of simultaneous hooks, and adds a warning if it is not.
    fn number_of_jobs(&mut self, value: &Value<'_>, key: &str) -> bool {
        let wanted = match value.int() {
            Ok(-1 | 1..) => return true,
            Ok(_) => "a positive integer or -1",
            Err(_) => "an integer",
        };
        let text = value.raw.unwrap_or_default();
        self.warnings.push(format!("{key} must be {wanted}, ignoring: '{text}'"));
        false
    }

    /// Adds the warnings that depend on all settings together.
    fn warn_of_names(&mut self) {
        for (at, name) in self.jobs.iter().enumerate() {
            if self.is_of_a_hook(name) && !self.jobs[..at].contains(name) {
                self.warnings.push(format!(
                    "hook.{name}.jobs is set but '{name}' looks like a hook friendly-name, not an event name; \
                     hook.<event>.jobs uses the event name (e.g. hook.post-receive.jobs), so this setting will be ignored"
                ));
            }
        }
        for name in self.events.iter().flat_map(|(_, hooks)| hooks) {
            match self.command(name) {
                Some(_) => {}
                None if self.disabled.contains(name) => {
                    self.warnings.push(format!("disabled hook '{name}' has no command configured"));
                }
                // Git stops with an error here.
                None => return,
            }
        }
    }

    fn hooks(&self, event: &str) -> Result<Vec<ConfiguredHook>, ConfigError> {
        let mut hooks = Vec::new();
        let is_event_enabled = self.is_event_enabled(event.into());
        for (of, names) in &self.events {
            for name in names.iter().filter(|name| !self.disabled.contains(name)) {
                let command = self.command(name).ok_or_else(|| {
                    ConfigError::OutOfRange(format!(
                        "'hook.{name}.command' must be configured or 'hook.{name}.event' must be removed; aborting."
                    ))
                })?;
                if *of == event && is_event_enabled {
                    hooks.push(ConfiguredHook { name: (*name).into(), command: command.into() });
                }
            }
        }
        Ok(hooks)
    }

    fn command(&self, name: &BStr) -> Option<&'a BStr> {
        self.commands.iter().find(|(known, _)| *known == name).map(|(_, command)| *command)
    }

    /// Returns whether the configured hooks of an event may run. `hook.NAME.enabled` applies to the hook of that name
    /// if there is one, and otherwise to the event.
    fn is_event_enabled(&self, event: &BStr) -> bool {
        !self.disabled.contains(&event) || self.is_of_a_hook(event)
    }

    fn is_of_a_hook(&self, name: &BStr) -> bool {
        self.command(name).is_some()
            || self.parallel.contains(&name)
            || self.events.iter().any(|(_, hooks)| hooks.contains(&name))
    }
}

fn forget(names: &mut Vec<&BStr>, name: &BStr) {
    names.retain(|known| *known != name);
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
