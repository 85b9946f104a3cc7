//! Runs the hooks pre-receive, update, post-receive and post-update, as githooks(5) describes them.

use super::{
    ServeError,
    child::{Alive, Ended, Input, Output, Program},
    session::Session,
    spawner::Spawner,
};
use refdb::messages;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

impl Session<'_, '_> {
    /// Returns the programs that run for an event, after printing git's warnings about hooks. The programs do not
    /// depend on a ref, so one call for each event of a push suffices.
    pub(super) fn programs(&self, event: &str) -> Result<Vec<Program>, ServeError> {
        self.warn_of_hooks();
        let programs = self.store.hooks().programs(event).map_err(refdb::Error::from)?;
        self.advise_of_ignored(event);
        if programs.is_empty() {
            return Ok(Vec::new());
        }
        let surroundings = self.git("");
        let folder = std::path::absolute(&surroundings.directory)?.components().collect::<PathBuf>();
        let programs = programs.into_iter().map(|program| program.called_from(&folder));
        Ok(programs
            .map(|program| {
                let (path, arguments) = program.words();
                Program { name: program.name().to_owned(), path, arguments, ..surroundings.clone() }
            })
            .collect())
    }

    /// Prints git's warnings about settings of hooks, the first time that it is called. Like git, it writes to the
    /// standard error of the server, not to the client.
    fn warn_of_hooks(&self) {
        if self.has_warned_of_hooks.replace(true) {
            return;
        }
        for warning in self.store.hooks().warnings() {
            messages::write(format!("warning: {warning}\n").into_bytes());
        }
    }

    /// Prints git's advice if the hook file of an event is not executable. Like git, it writes to the standard error
    /// of the server, not to the client.
    pub(super) fn advise_of_ignored(&self, event: &str) {
        if let Some(advice) = self.store.hooks().ignored(event) {
            messages::write(advice.into());
        }
    }

    /// Runs the pre-receive or post-receive hook with the commands that `wanted` selects. Returns whether every
    /// program succeeded.
    pub(super) fn receive_hook(
        &mut self,
        event: &str,
        wanted: impl Fn(&Session<'_, '_>, usize) -> bool,
    ) -> Result<bool, ServeError> {
        let mut programs = self.programs(event)?;
        if programs.is_empty() {
            return Ok(true);
        }
        let mut lines = Vec::new();
        for (at, command) in self.request.commands.iter().enumerate() {
            if wanted(self, at) {
                command.old.write_hex(&mut lines);
                lines.push(b' ');
                command.new.write_hex(&mut lines);
                lines.push(b' ');
                lines.extend_from_slice(command.name);
                lines.push(b'\n');
            }
        }
        if lines.is_empty() {
            return Ok(true);
        }
        let options = self.option_variables();
        programs.iter_mut().for_each(|program| program.variables.extend(options.iter().cloned()));
        self.run_all(&programs, &[], Input::Bytes(&lines))
    }

    /// Returns the environment variables that pass the push options to a hook.
    fn option_variables(&self) -> Vec<(OsString, Option<OsString>)> {
        let options = &self.request.options;
        // According to githooks(5), there would be no variables without push options, but git sets the count to zero.
        let mut variables = vec![("GIT_PUSH_OPTION_COUNT".into(), Some(options.len().to_string().into()))];
        variables.extend(options.iter().enumerate().map(|(at, option)| {
            let value = OsString::from_vec(option.to_vec());
            (format!("GIT_PUSH_OPTION_{at}").into(), Some(value))
        }));
        variables
    }

    /// Returns the programs of the update hook, each with a spawner that prepares what all of its runs have in common,
    /// or with `None` if no [`Spawner`] can start it.
    pub(super) fn update_programs(&self) -> Result<Vec<(Program, Option<Spawner>)>, ServeError> {
        let programs = self.programs("update")?.into_iter();
        programs.map(|program| Spawner::new(&program).map(|spawner| (program, spawner)).map_err(Into::into)).collect()
    }

    /// Runs the update hook for the command at index `at`. Returns whether every program succeeded, so that the ref
    /// may be updated.
    pub(super) fn update_hook(
        &mut self,
        programs: &[(Program, Option<Spawner>)],
        at: usize,
    ) -> Result<bool, ServeError> {
        if programs.is_empty() {
            return Ok(true);
        }
        let command = self.request.commands.get(at);
        let name = OsStr::from_bytes(command.name).to_owned();
        let words = [name, command.old.to_string().into(), command.new.to_string().into()];
        let mut all_succeeded = true;
        for (program, spawner) in programs {
            let ended = match spawner {
                Some(spawner) => program.run_by(|user| spawner.start(&words, user), &mut self.channel)?,
                None => self.run(program, &words, Input::Nothing)?,
            };
            all_succeeded &= ended.success();
            if !ended.started() {
                break;
            }
        }
        Ok(all_succeeded)
    }

    /// Runs the post-update hook with the names of the refs that have changed as arguments.
    pub(super) fn post_update_hook(&mut self) -> Result<(), ServeError> {
        let programs = self.programs("post-update")?;
        if programs.is_empty() {
            return Ok(());
        }
        let commands = self.request.commands.iter().enumerate().filter(|(at, _)| self.outcomes[*at].has_changed());
        let names: Vec<OsString> = commands.map(|(_, command)| OsStr::from_bytes(command.name).to_owned()).collect();
        if !names.is_empty() {
            self.run_all(&programs, &names, Input::Nothing)?;
        }
        Ok(())
    }

    /// Runs the programs one after another, even if one of them fails. After a program that cannot be started, no
    /// further one is run. Returns whether all succeeded.
    fn run_all(&mut self, programs: &[Program], words: &[OsString], input: Input<'_>) -> Result<bool, ServeError> {
        let mut all_succeeded = true;
        for program in programs {
            let ended = self.run(program, words, input)?;
            all_succeeded &= ended.success();
            if !ended.started() {
                break;
            }
        }
        Ok(all_succeeded)
    }

    fn run(&mut self, program: &Program, words: &[OsString], input: Input<'_>) -> Result<Ended, ServeError> {
        let mut program = program.clone();
        program.words(words);
        Ok(program.run(input, Output::ToUser, Alive::Always, &mut self.channel)?)
    }
}
