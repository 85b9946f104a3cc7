//! Starts git's maintenance after a push.

use super::{
    ServeError,
    child::{Alive, Input, Output, Program},
    session::Session,
};

impl Session<'_, '_> {
    /// Runs git's maintenance, or leaves it to [`Maintenance`](super::Maintenance), unless the configuration disables
    /// it. Then runs `update-server-info` if the configuration asks for it.
    pub(super) fn run_maintenance(&mut self) -> Result<(), ServeError> {
        if self.settings.auto_gc && self.flag("maintenance.auto").unwrap_or(true) {
            let detach = self.flag("maintenance.autodetach").or(self.flag("gc.autodetach")).unwrap_or(true);
            // Git before 2.47 knows neither `--detach` nor `--no-detach`, but its gc detaches by itself if
            // `gc.autoDetach` says so. A newer one that detaches prints nothing, so its output can be dropped.
            if !detach {
                let mut git = self.maintenance(&[]);
                git.arguments.splice(0..0, ["-c", "gc.autoDetach=false"].map(Into::into));
                git.run(Input::Nothing, Output::ToUser, Alive::Always, &mut self.channel)?;
            } else if let Some(maintenance) = &self.call.maintenance {
                let commands = [&["--detach"][..], &[]].map(|words| self.maintenance(words).command());
                maintenance.is_due(&self.maintenance(&[]).directory, commands.into());
            } else if !self.maintain(&["--detach"], Output::Nowhere)? {
                self.maintain(&[], Output::ToUser)?;
            }
        }
        if self.settings.update_server_info {
            let git = self.git("update-server-info");
            git.run(Input::Nothing, Output::ToUser, Alive::Always, &mut self.channel)?;
        }
        Ok(())
    }

    /// Runs git's maintenance. Returns whether it succeeded or goes on in the background.
    fn maintain(&mut self, words: &[&str], output: Output) -> Result<bool, ServeError> {
        let git = self.maintenance(words);
        Ok(git.run(Input::Nothing, output, Alive::Always, &mut self.channel)?.success())
    }

    fn maintenance(&self, words: &[&str]) -> Program {
        let mut git = self.git("maintenance");
        git.words(["run", "--auto", "--quiet"].iter().chain(words));
        git
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.store.config().last(key)?.boolean().ok()
    }
}
