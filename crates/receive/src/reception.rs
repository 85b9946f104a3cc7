//! Receives a push from start to end: opens the repository, and lets [`serve`](fn@serve) receive the push or delegates
//! it to git.
//!
//! Usually a push is delegated before anything is sent to the client. If only the client's request shows that git is
//! needed, for example because the client is a shallow clone, `replay` passes the request on to git. Where the names of
//! refs may be too long for a reftable, `screened` reads the request first and passes it on only if git can store the
//! refs.

mod relay;
mod replay;
mod screened;
mod supervise;

use crate::{Call, Facts, Screen, ServeError, Settings, delegation_reason, serve};
use bstr::BString;
use refdb::{Environment, Misuse, Store, messages::say, real_git};
use refdb_vfs::{Fs, interrupt};
use std::{
    ffi::OsString,
    io,
    os::fd::BorrowedFd,
    path::Path,
    process::{Command, Stdio},
};
use supervise::Supervised;

/// The connection to a client.
#[derive(Clone, Copy, Debug)]
pub struct Client<'c> {
    /// The descriptor from which the client's bytes are read.
    pub input: BorrowedFd<'c>,
    /// The descriptor to which the bytes for the client are written.
    pub output: BorrowedFd<'c>,
}

/// Why a push failed in a way that the protocol does not report to the client.
#[derive(Debug)]
pub enum Failure {
    /// A failure of another kind than those below, with a message for the log of the server.
    Fatal(BString),
    /// The engine could not read or change the repository.
    Store(refdb::Error),
    /// The client has disconnected.
    BrokenPipe,
    /// A signal has ended the push.
    Interrupted,
}

impl From<refdb::Error> for Failure {
    fn from(error: refdb::Error) -> Self {
        Failure::Store(error)
    }
}

/// The command of git to which pushes are delegated.
const NAME: &str = "receive-pack";

/// The exit code that git uses after `fatal:`.
const FATAL: u8 = 128;

/// The repository that receives a push, opened and examined.
#[derive(Debug)]
pub struct Reception {
    store: Store,
    settings: Settings,
    call: Call,
    environment: Environment,
    is_delegated: bool,
}

impl Reception {
    /// Opens the repository in the folder of `environment`, as `git receive-pack .` does there. Warnings about its
    /// configuration go to standard error.
    ///
    /// # Errors
    ///
    /// Fails if there is no repository, or if the repository or its configuration cannot be read or used.
    pub fn open(environment: Environment, call: Call) -> Result<Self, Failure> {
        let named = environment.clone().with("GIT_DIR", ".");
        // Locks are signed, so that other processes of refdb can remove those of a killed push by themselves.
        let store = Store::builder_in(named).fs(Fs::real().signing_locks()).sync_unless_configured().open()?;
        let repository = store.repository();
        for warning in repository.warnings().iter().chain(&store.settings().warnings) {
            say("warning: ", warning.as_bytes());
        }
        for complaint in store.config().complaints() {
            say("error: ", complaint.as_bytes());
        }
        let settings = Settings::of(store.config()).map_err(refdb::Error::from)?;
        let facts = Facts::of(store.fs(), repository, &environment)?;
        let is_delegated = delegation_reason(&settings, &facts).is_some();
        Ok(Reception { store, settings, call, environment, is_delegated })
    }

    /// Returns the git command that can serve the client without refdb, or `None` if the caller must use
    /// [`run`](Self::run): because refdb receives the push, or because it must screen or limit git.
    ///
    /// # Errors
    ///
    /// Fails if the push must be delegated but git would bypass a global ref database, or if the git program leads back
    /// to refdb.
    pub fn left_to_git(&self) -> Result<Option<Command>, Failure> {
        if !self.is_delegated {
            return Ok(None);
        }
        self.check_git_may()?;
        if self.screen().is_some() || self.settings.work_limits.any() {
            return Ok(None);
        }
        self.git_as_called().map(Some)
    }

    /// Receives a push from the client, or only sends the advertisement if the call says so, and returns the exit code
    /// that `git receive-pack` would have. If the push is delegated, git runs under the limits on memory and processor
    /// time ([`Settings::work_limits`]).
    ///
    /// [`serve`](fn@serve) describes how long the call blocks and when refs may have changed.
    ///
    /// # Errors
    ///
    /// Fails, for example, if the client disconnects too early or violates the protocol, if a signal ends the push, or
    /// if the repository cannot be read or written. If the push must be delegated, it also fails, for example, if git
    /// cannot be run or would bypass a global ref database.
    pub fn run(&self, client: Client<'_>) -> Result<u8, Failure> {
        if self.is_delegated {
            self.check_git_may()?;
            return self.delegate(client);
        }
        match serve(&self.store, &self.settings, &self.call, client.input, client.output) {
            Err(ServeError::Delegated(words)) => {
                self.check_git_may()?;
                self.replay(&words, client)
            }
            result => exit_code(result),
        }
    }

    fn screen(&self) -> Option<Screen> {
        if self.call.only_advertise { None } else { Screen::of(&self.store, &self.settings, &self.call) }
    }

    /// Fails if a push must not be delegated, because git would bypass the global ref database.
    fn check_git_may(&self) -> Result<(), Failure> {
        match self.store.context().forbidden {
            Some(why @ Misuse::Global { .. }) => Err(refdb::Error::from(why.clone()).into()),
            _ => Ok(()),
        }
    }

    /// Runs git for a push that is delegated before anything is sent to the client.
    fn delegate(&self, client: Client<'_>) -> Result<u8, Failure> {
        let mut git = self.git_as_called()?;
        let screen = self.screen();
        git.stdin(match screen {
            None => Stdio::from(client.input.try_clone_to_owned().map_err(|error| self.not_run(&error))?),
            Some(_) => Stdio::piped(),
        });
        let git = Supervised::start(git, self.settings.work_limits, self.call.stateless, client);
        let git = git.map_err(|error| self.not_run(&error))?;
        match screen {
            None => git.wait(),
            Some(screen) => self.pass_on(git, screen, client),
        }
    }

    /// Prepares git with the arguments of this call.
    fn git_as_called(&self) -> Result<Command, Failure> {
        let mut git = self.git()?;
        git.arg(NAME).args(words_of(&self.call));
        Ok(git)
    }

    /// Prepares git, without arguments, to run in the repository's folder. Fails if git leads back to refdb.
    fn git(&self) -> Result<Command, Failure> {
        if real_git::is_circular(&self.environment) {
            return Err(Failure::Fatal(real_git::leads_back(&self.environment, NAME)));
        }
        let mut git = real_git::command(&self.environment);
        self.enter(&mut git);
        Ok(git)
    }

    /// Makes a program run in the repository's folder.
    fn enter(&self, program: &mut Command) {
        let folder = self.environment.resolve(Path::new(""));
        if !folder.as_os_str().is_empty() {
            program.current_dir(folder);
        }
    }

    /// Returns the failure for a git that could not be run.
    pub fn not_run(&self, error: &io::Error) -> Failure {
        Failure::Fatal(real_git::not_run(&real_git::program(&self.environment), NAME, "this push", error))
    }
}

/// Returns the exit code, or the failure, for the result of a push that refdb itself has received or refused.
fn exit_code(result: Result<(), ServeError>) -> Result<u8, Failure> {
    match result {
        Ok(()) => Ok(0),
        Err(ServeError::Store(error)) => Err(error.into()),
        Err(_) if interrupt::received().is_some() => Err(Failure::Interrupted),
        Err(ServeError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => Err(Failure::Fatal(error.to_string().into())),
    }
}

/// Returns the arguments of `git receive-pack` for a call in the current folder.
fn words_of(call: &Call) -> Vec<OsString> {
    let options = [
        (call.quiet, "--quiet"),
        (call.skip_connectivity, "--skip-connectivity-check"),
        (call.stateless, "--stateless-rpc"),
        (call.only_advertise, "--http-backend-info-refs"),
        (call.reject_thin_pack, "--reject-thin-pack-for-testing"),
    ];
    let given = options.into_iter().filter(|(is_given, _)| *is_given).map(|(_, word)| word);
    given.chain(["."]).map(OsString::from).collect()
}
