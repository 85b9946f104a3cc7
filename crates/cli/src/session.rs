//! The repository of a command, found and opened.

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, say},
    globals::Globals,
    options::{Command, Parser},
    output::Output,
    revision::Revisions,
};
use refdb::{Store, config::Abbreviation, files::FilesBackend};
use refdb_types::ObjectId;
use std::{cell::Cell, os::unix::ffi::OsStrExt, path::PathBuf};

/// An open repository.
pub struct Session {
    /// The refs, objects and settings of the repository.
    pub store: Store,
    /// The folders of the repository.
    pub paths: Paths,
    /// `core.abbrev`, or what is printed if an id is to be abbreviated and a value of the setting is bad.
    abbreviation: std::result::Result<Abbreviation, String>,
    /// Whether [`Session::warn_of_hooks`] has been called.
    has_warned_of_hooks: Cell<bool>,
}

impl Session {
    /// Opens the repository in which a command runs. As in git, a lone `-h` is answered without a repository (except
    /// after a subcommand such as `refs list`), a missing repository is reported before options are parsed, and a lone
    /// `--git-completion-helper` prints the options.
    pub fn begin(invocation: &Invocation<'_>, command: &'static Command) -> Result<Session> {
        let lone = match invocation.words {
            [word] => word.as_bytes(),
            _ => b"",
        };
        let is_member = command.name.contains(' ');
        if matches!(lone, b"-h" | b"--help-all") && !is_member {
            Parser::new(command, invocation.words).next_word()?;
        }
        let session = Session::open(invocation.globals)?;
        if matches!(lone, b"--git-completion-helper" | b"--git-completion-helper-all") {
            let mut output = Output::default();
            output.buffer().extend(command.completions(lone.ends_with(b"-all")).bytes());
            output.flush()?;
            return Err(Failure::Exit(0));
        }
        Ok(session)
    }

    /// Finds and opens the repository that the global options and the environment name, and warns as
    /// [`Session::warn`] does.
    pub fn open(globals: &Globals) -> Result<Self> {
        let session = Self::open_silently(globals)?;
        session.warn();
        Ok(session)
    }

    /// Opens the repository for a command that may be left to git, which prints the warnings itself. The caller calls
    /// [`Session::warn`] once the command is not left to git.
    pub fn open_silently(globals: &Globals) -> Result<Self> {
        let store = Store::builder_in(globals.environment()).open()?;
        let repository = store.repository();
        let paths = Paths { git_dir: repository.git_dir().to_owned(), common_dir: repository.common_dir().to_owned() };
        let mut abbreviation = Ok(Abbreviation::Auto);
        for value in store.config().all("core.abbrev") {
            abbreviation = abbreviation.and_then(|_| value.abbreviation().map_err(|error| error.report()));
        }
        Ok(Session { store, paths, abbreviation, has_warned_of_hooks: Cell::new(false) })
    }

    /// Prints git's warnings about the repository and its configuration.
    pub fn warn(&self) {
        for warning in self.store.repository().warnings().iter().chain(&self.store.settings().warnings) {
            say("warning: ", warning.as_bytes());
        }
        for complaint in self.store.config().complaints() {
            say("error: ", complaint.as_bytes());
        }
    }

    /// Returns how many digits distinguish `id` from all other objects: at least `least`, or, if that is `None`, at
    /// least the number that `core.abbrev` sets, which may be all, or git's default.
    pub fn abbreviate(&self, id: &ObjectId, least: Option<usize>) -> Result<usize> {
        let abbreviation = self.abbreviation.as_ref().map_err(|report| Failure::Lines(report.clone()))?;
        match (least, *abbreviation) {
            (None, Abbreviation::No) => Ok(id.kind().len_hex()),
            (None, Abbreviation::AtLeast(count)) => Ok(self.store.objects().abbreviate(id, Some(count))?),
            (least, _) => Ok(self.store.objects().abbreviate(id, least)?),
        }
    }

    /// Prints git's warnings about settings of hooks, and its advice if the reference-transaction hook is not
    /// executable. Only the first call prints anything. Call it right before a transaction is prepared or aborted,
    /// which is when git looks for the hook.
    pub fn warn_of_hooks(&self) {
        if self.has_warned_of_hooks.replace(true) {
            return;
        }
        let hooks = self.store.hooks();
        for warning in hooks.warnings() {
            say("warning: ", warning.as_bytes());
        }
        // A faulty configuration of hooks is reported instead of the advice, when the hooks are about to run.
        if let Some(advice) = hooks.ignored("reference-transaction")
            && hooks.programs("reference-transaction").is_ok()
        {
            say("", advice.trim_end().as_bytes());
        }
    }

    /// Prints a warning if packed-refs was found to be unsorted although its header says that it is sorted.
    pub fn warn_of_disorder(&self) {
        if let Some(disorder) = self.store.backend_as::<FilesBackend>().and_then(|files| files.disorder()) {
            say("warning: ", disorder.to_string().as_bytes());
        }
    }

    /// Returns a resolver of names of objects.
    pub fn revisions(&self) -> Revisions<'_> {
        Revisions { store: &self.store }
    }
}

/// Catches signals from here on, because locks must not outlive the process.
pub fn before_locks() -> Result<()> {
    match refdb_vfs::interrupt::catch_signals() {
        Ok(()) => Ok(()),
        Err(error) => fatal!["cannot catch signals: ", error.to_string()],
    }
}

/// The folders of a repository.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The worktree's own git folder, which is `common_dir` for the main worktree.
    pub git_dir: PathBuf,
    /// The git folder that all worktrees share.
    pub common_dir: PathBuf,
}
