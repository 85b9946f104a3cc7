use super::{
    ServeError,
    advertise::advertise,
    alternates,
    channel::Channel,
    child::Program,
    long_names::{self, Heard},
    policy,
    quarantine::Quarantine,
    redactor::Redactor,
};
use crate::{
    RefusedPush, Settings,
    wire::{Command, Limits, Offer, ReportFormat, Request, RequestReader, Version, pkt, report},
};
use bstr::{BStr, BString};
use refdb::{Environment, Objects, Store, real_git};
use refdb_vfs::{Fs, interrupt};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    cell::Cell,
    ffi::OsString,
    fmt, io,
    os::{fd::BorrowedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The options of `git receive-pack`, the git program to run, and the name by which the server introduces itself.
#[derive(Clone, Debug)]
pub struct Call {
    /// `--quiet`: send no progress messages.
    pub quiet: bool,
    /// `--skip-connectivity-check`.
    pub skip_connectivity: bool,
    /// `--http-backend-info-refs`: send the advertisement and end.
    pub only_advertise: bool,
    /// `--stateless-rpc`: send no advertisement, because another call has sent it. `only_advertise` takes precedence.
    pub stateless: bool,
    /// `--reject-thin-pack-for-testing`.
    pub reject_thin_pack: bool,
    /// Whether the client asks for version 1 of the protocol.
    pub version_1: bool,
    /// The git program that unpacks objects and makes the checks that refdb leaves to it: a path, or a name to look
    /// for in `PATH`.
    pub git: OsString,
    /// The name and version by which the server introduces itself.
    pub agent: BString,
    /// The session id that is advertised if `transfer.advertiseSID` is set.
    pub session_id: BString,
    /// The bounds on the memory that a client's request may take.
    pub limits: Limits,
    /// Runs git's maintenance after the push. If it is `None`, or the configuration asks for maintenance in the
    /// foreground, the push itself starts it.
    #[doc(hidden)]
    pub maintenance: Option<Arc<dyn Maintenance>>,
}

/// Runs git's maintenance for many pushes.
#[doc(hidden)]
pub trait Maintenance: fmt::Debug + Send + Sync {
    /// Notes that a push to the repository in this folder has ended. At some later time, these commands, or those of a
    /// later push to it, must be run one after another until one succeeds. The push neither waits for them nor sees
    /// their output.
    fn is_due(&self, folder: &Path, commands: Vec<process::Command>);
}

impl Call {
    /// Returns the options of `git receive-pack DIRECTORY`, with the default [`Limits`].
    pub fn new(git: OsString, agent: BString) -> Self {
        Call {
            quiet: false,
            skip_connectivity: false,
            only_advertise: false,
            stateless: false,
            reject_thin_pack: false,
            version_1: false,
            git,
            agent,
            session_id: BString::default(),
            limits: Limits::default(),
            maintenance: None,
        }
    }

    /// Returns the options of `git receive-pack DIRECTORY` for refdb's own servers: `REFDB_GIT` may name git, and
    /// `GIT_PROTOCOL` is what the client has asked for.
    pub fn in_environment(environment: &Environment) -> Self {
        let agent = concat!("refdb/", env!("CARGO_PKG_VERSION"));
        let protocol = environment.get("GIT_PROTOCOL").unwrap_or_default();
        Call {
            // Version 2 does not define pushes, so it is answered like version 0.
            version_1: Version::of(protocol.as_bytes()) == Version::V1,
            session_id: session_id().into(),
            ..Call::new(real_git::program(environment), agent.into())
        }
    }
}

/// Returns a new session id, made from the time, the process id and a counter.
#[doc(hidden)]
pub fn session_id() -> String {
    // Threads may ask at the same time.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let now = refdb_vfs::now_nanos();
    let (process, number) = (process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    format!("{}.{:09}-P{process:08x}-{number}", now / 1_000_000_000, now % 1_000_000_000)
}

/// The outcome of a command.
#[derive(Clone, Default, Debug)]
pub(super) struct Outcome {
    /// The reason why the command is refused; `None` if it is not.
    pub(super) refusal: Option<BString>,
    /// Whether another command makes the same change through another name of the ref.
    pub(super) is_duplicate: bool,
    /// Whether the command deletes a ref that did not exist.
    pub(super) did_not_exist: bool,
}

impl Outcome {
    /// Returns whether the command is still to be executed.
    pub(super) fn is_open(&self) -> bool {
        self.refusal.is_none() && !self.is_duplicate
    }

    /// Returns whether the command counts as having changed a ref. Valid only after the update. If an I/O error
    /// interrupts the update, commands count as refused, even if some of their refs have changed.
    pub(super) fn has_changed(&self) -> bool {
        self.refusal.is_none() && !self.did_not_exist
    }
}

/// The state of one push.
pub(super) struct Session<'s, 'c> {
    pub(super) store: &'s Store,
    pub(super) objects: &'s Objects,
    pub(super) call: &'s Call,
    pub(super) settings: &'s Settings,
    pub(super) fs: Fs,
    pub(super) input: BorrowedFd<'c>,
    /// The number of bytes that can certainly be read from the client without waiting.
    pub(super) waiting_bytes: u64,
    pub(super) channel: Channel<'c>,
    pub(super) objects_dir: PathBuf,
    /// The absolute path of the repository, and the device and inode that it led to when the push began.
    folder: (PathBuf, (u64, u64)),
    pub(super) quarantine: Option<Quarantine>,
    /// Whether the pack is empty and no quarantine has been created for it yet.
    pub(super) lacks_quarantine: bool,
    /// The number of objects in the pack according to its header.
    pub(super) pack_objects: u32,
    pub(super) request: Request,
    pub(super) outcomes: Vec<Outcome>,
    /// Whether git's warnings about settings of hooks have been printed.
    pub(super) has_warned_of_hooks: Cell<bool>,
}

/// The smallest limit in bytes on the engine's reads of single objects. For these reads, a lower
/// `refdb.receiveReadLimit` is raised to this limit, so that refs to commits of usual size are still verified.
const READ_LIMIT_MIN: u64 = 1 << 20;

/// Serves one push to the repository of `store`, from the advertisement to the last hook.
///
/// `input` and `output` are connected to the client. Hooks and git run in the repository's directory with `GIT_DIR` set
/// to it. A command that is refused is no error: the client is told, and usually the other commands are executed. In an
/// atomic push the others are refused too, except that, as in git, a command that is refused before the refs are
/// updated, for instance because its ref is hidden, does not affect the others, unless it exceeds a limit of refdb.
///
/// The call blocks until the client has sent its request and all hooks have ended. It has no time limit of its own,
/// except that `refdb.receiveTimeLimit` bounds the processor time of the git programs that run before the report; a
/// signal that [`refdb_vfs::interrupt`] receives ends it. Objects are synced before the refs if `store` is opened to
/// sync; otherwise the call promises no durability. The memory for reading an object of `store` is limited from now on
/// ([`Settings::read_max_bytes`], or 1 MiB if that is more), also for reads by the caller.
///
/// # Errors
///
/// Returns [`ServeError::Delegated`] if the client's request needs git, and other errors, for example, if the client
/// disconnects too early or violates the protocol, or if the repository cannot be read or written. [`ServeError`] says
/// when refs may have changed.
pub fn serve(
    store: &Store,
    settings: &Settings,
    call: &Call,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
) -> Result<(), ServeError> {
    let offer = offer(store, settings, call);
    let mut channel = channel(store, output)?;
    if call.only_advertise || !call.stateless {
        let others = alternates::tips(store, &call.git, settings.work_limits, output)?;
        advertise(store, &settings.hidden, &offer, call.version_1, others.as_deref(), &mut channel)?;
    }
    if call.only_advertise {
        return Ok(());
    }
    let mut session = Session::new(store, settings, call, input, channel)?;
    match session.read_request(&offer)? {
        Next::Nothing => Ok(()),
        Next::Perform => session.perform(),
        Next::TurnAway => session.turn_away(),
    }
}

/// Refuses all commands of a delegated push that a [`Screen`](crate::Screen) has refused, and reports that to the
/// client. `input` and `output` are connected to the client, whose request has been read, but no byte of its pack. The
/// pack is read and dropped.
///
/// # Errors
///
/// Fails, for example, if the client disconnects too early or a signal arrives. If git, which reads the pack, cannot be
/// run or fails, that is no error, but the report says so. No ref has changed in any case.
pub fn turn_away(
    store: &Store,
    settings: &Settings,
    call: &Call,
    push: RefusedPush,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
) -> Result<(), ServeError> {
    let mut session = Session::new(store, settings, call, input, channel(store, output)?)?;
    session.set_request(push.request);
    session.refuse_too_long(&push.too_long)?;
    session.turn_away()
}

/// Returns what a server of this repository offers to clients.
pub(crate) fn offer(store: &Store, settings: &Settings, call: &Call) -> Offer {
    Offer {
        hash: store.hash(),
        atomic: settings.atomic,
        push_options: settings.push_options,
        ofs_delta: settings.ofs_delta,
        agent: call.agent.clone(),
        session_id: settings.session_id.then(|| call.session_id.clone()),
    }
}

fn channel<'c>(store: &Store, output: BorrowedFd<'c>) -> io::Result<Channel<'c>> {
    let absolute = |folder| io::Result::Ok(std::path::absolute(folder)?.components().collect::<PathBuf>());
    let folders = [absolute(store.repository().git_dir())?, absolute(store.repository().refs_dir())?];
    Ok(Channel::new(output, Redactor::of(folders.iter().map(PathBuf::as_path))))
}

/// What to do with a request.
enum Next {
    /// The client has nothing to push.
    Nothing,
    Perform,
    /// All commands are refused, because git, to which the push would be delegated, must not see some of them.
    TurnAway,
}

impl<'s, 'c> Session<'s, 'c> {
    fn new(
        store: &'s Store,
        settings: &'s Settings,
        call: &'s Call,
        input: BorrowedFd<'c>,
        channel: Channel<'c>,
    ) -> Result<Self, ServeError> {
        store.objects().limit_reads(settings.read_max_bytes.max(READ_LIMIT_MIN));
        let objects_dir = store.repository().objects_dir(store.environment());
        let folder = std::path::absolute(store.repository().git_dir().join("."))?;
        let folder_id = store.fs().stat(&folder)?.file_id();
        Ok(Session {
            store,
            objects: store.objects(),
            call,
            settings,
            fs: store.fs().clone(),
            input,
            waiting_bytes: 0,
            channel,
            objects_dir: std::path::absolute(objects_dir)?,
            folder: (folder, folder_id),
            quarantine: None,
            lacks_quarantine: false,
            pack_objects: 0,
            request: Request::default(),
            outcomes: Vec::new(),
            has_warned_of_hooks: Cell::new(false),
        })
    }
}

impl Session<'_, '_> {
    fn read_request(&mut self, offer: &Offer) -> Result<Next, ServeError> {
        let mut reader = RequestReader::new(offer, self.call.limits);
        // The client's bytes, for git in case the push is delegated.
        let (mut bytes, mut heard) = (Vec::new(), Heard::new(self.call.limits));
        let mut is_delegated = false;
        loop {
            let wanted = reader.wants();
            if wanted == 0 {
                break;
            }
            bytes.clear();
            self.read_exactly(wanted, &mut bytes)?;
            if is_delegated || reader.is_at_start() || !self.settings.proc_receive.is_empty() {
                heard.add(&bytes, &reader)?;
            }
            if !is_delegated && reader.is_at_start() && needs_git(heard.bytes()) {
                if !long_names::must_screen(self.store) {
                    return Err(ServeError::Delegated(heard.into_bytes()));
                }
                is_delegated = true;
                reader = reader.with_certificates();
            }
            let taken = reader.take(&bytes)?;
            assert_eq!(taken, bytes.len(), "the request ended before the bytes that it wanted");
            if bytes.len() < wanted {
                break;
            }
        }
        self.set_request(reader.finish()?);
        let commands = &self.request.commands;
        if is_delegated || commands.iter().any(|command| self.settings.proc_receive.takes(command)) {
            let too_long = long_names::too_long(self.store, commands)?;
            if too_long.is_empty() {
                return Err(ServeError::Delegated(heard.into_bytes()));
            }
            self.refuse_too_long(&too_long)?;
            return Ok(Next::TurnAway);
        }
        Ok(if self.request.commands.is_empty() { Next::Nothing } else { Next::Perform })
    }

    fn set_request(&mut self, request: Request) {
        self.request = request;
        self.outcomes = vec![Outcome::default(); self.request.commands.len()];
        if self.request.capabilities.side_band {
            self.channel.use_side_band(self.settings.keep_alive_seconds);
        }
    }

    /// Appends `count` bytes from the client to `bytes`, or fewer if the client closes the connection.
    pub(super) fn read_exactly(&mut self, count: usize, bytes: &mut Vec<u8>) -> Result<(), ServeError> {
        let mut have = bytes.len();
        let wanted = have + count;
        bytes.resize(wanted, 0);
        while have < wanted {
            if self.waiting_bytes == 0 {
                self.await_client()?;
            }
            match rustix::io::read(self.input, &mut bytes[have..]) {
                Ok(0) => break,
                Ok(read) => {
                    have += read;
                    self.waiting_bytes = self.waiting_bytes.saturating_sub(read as u64);
                }
                Err(Errno::INTR) => interrupt::check()?,
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        bytes.truncate(have);
        Ok(())
    }

    /// Waits until the client has sent something or closed the connection. A blocking read would not notice a signal
    /// that arrives just before it.
    fn await_client(&mut self) -> Result<(), ServeError> {
        const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        loop {
            interrupt::check()?;
            match poll(&mut [PollFd::new(&self.input, PollFlags::IN)], Some(&PAUSE)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        // Knowing the number saves a poll before each read. An input that does not report it is polled each time.
        self.waiting_bytes = rustix::io::ioctl_fionread(self.input).unwrap_or(0);
        Ok(())
    }

    fn perform(mut self) -> Result<(), ServeError> {
        let mut failure = None;
        let mut keep_file = None;
        if !self.request.commands.only_delete() {
            let unpacked = self.unpack()?;
            (failure, keep_file) = (unpacked.failure, unpacked.keep_file);
        }
        // The keep file is removed however the push ends, unless the process is killed.
        let keep = Keep { fs: self.fs.clone(), file: keep_file };
        if failure.is_some() {
            self.refuse_all("unpacker error");
        } else {
            self.decide()?;
        }
        // A quarantine whose objects were not moved into the repository is removed before the client is told, so that
        // a client that tries again does not find it.
        self.quarantine = None;
        drop(keep);
        self.report(failure.as_ref().map(AsRef::as_ref))?;
        if self.is_in_place().unwrap_or(true) {
            self.receive_hook("post-receive", |session, at| session.outcomes[at].has_changed())?;
            self.post_update_hook()?;
            self.run_maintenance()?;
        } else {
            self.channel.error(b"the repository was moved or deleted during the push, so no hook was run after it")?;
        }
        Ok(self.channel.end()?)
    }

    /// Checks the commands, and executes those that neither a rule nor a hook refuses.
    fn decide(&mut self) -> Result<(), ServeError> {
        self.check_connected()?;
        for at in 0..self.outcomes.len() {
            let command = self.request.commands.get(at);
            if self.settings.hidden.covers(command.name) && self.outcomes[at].refusal.is_none() {
                self.refuse(at, policy::hidden(command));
            }
        }
        // The hook is given refused commands too, even if all are refused, because it may log or explain them.
        if !self.receive_hook("pre-receive", |_, _| true)? {
            self.refuse_all("pre-receive hook declined");
        }
        if self.outcomes.iter().all(|outcome| outcome.refusal.is_some()) || !self.can_still_be_done(|_| true)? {
            return Ok(());
        }
        // Programs that start from here on work outside the quarantine.
        let Some(quarantine) = self.quarantine.take() else { return self.update_refs() };
        let (sync, sharing) = (self.store.is_synced(), self.store.settings().shared_repository);
        if let Err(error) = quarantine.release(sync, sharing) {
            self.channel.error(error.to_string().as_bytes())?;
            self.refuse_all("unable to migrate objects to permanent storage");
            return Ok(());
        }
        let updated = self.update_refs();
        if let Err(error) = quarantine.restore(sync, sharing) {
            self.channel.error(error.to_string().as_bytes())?;
        }
        updated
    }

    /// Returns whether the repository is still where it was. Its files and hooks are reached by their paths, and
    /// another repository may have taken the place of this one while a hook ran.
    fn is_in_place(&self) -> refdb_vfs::Result<bool> {
        Ok(self.fs.find(&self.folder.0)?.is_some_and(|found| found.file_id() == self.folder.1))
    }

    /// Returns whether the repository is still where it was, and refuses the commands that are `left` to be executed if
    /// it is not. Fails if the client has disconnected and no ref has changed yet.
    pub(super) fn can_still_be_done(&mut self, left: impl Fn(Command<'_>) -> bool) -> Result<bool, ServeError> {
        self.channel.check_client()?;
        let is_there = self.is_in_place().unwrap_or(false);
        if !is_there {
            self.channel.error(b"the repository was moved or deleted during the push")?;
            self.refuse_those(left, "repository moved or deleted");
        }
        Ok(is_there)
    }

    pub(super) fn report(&mut self, unpack: Option<&BStr>) -> Result<(), ServeError> {
        if self.request.capabilities.report == ReportFormat::None {
            return Ok(());
        }
        let mut packets = Vec::new();
        let results = self.request.commands.iter().zip(&self.outcomes);
        let results = results.map(|(command, outcome)| (command.name, outcome.refusal.as_ref().map(AsRef::as_ref)));
        report::report(unpack, results, &mut packets);
        Ok(self.channel.report(&packets)?)
    }

    /// Prepares a git command that runs in the repository. If there is a quarantine, the command finds its objects,
    /// too.
    pub(super) fn git(&self, command: &str) -> Program {
        let folder = self.store.repository().git_dir();
        let directory = if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.to_owned();
        let mut variables = self.store.environment().changes();
        variables.extend([("GIT_DIR".into(), Some(OsString::from("."))), ("GIT_PREFIX".into(), None)]);
        if let Some(quarantine) = &self.quarantine {
            variables.extend(quarantine.variables());
        }
        let (path, arguments) = (self.call.git.clone(), vec![command.into()]);
        Program { name: command.into(), path, arguments, directory, variables, timeout: None, limits: None }
    }

    /// Prepares a git command that is killed if it exceeds the limits on memory and processor time.
    pub(super) fn limited_git(&self, command: &str) -> Program {
        Program { limits: Some(self.settings.work_limits), ..self.git(command) }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.call.quiet || self.request.capabilities.quiet
    }

    /// Refuses a command, unless it was refused before for another reason.
    pub(super) fn refuse(&mut self, at: usize, reason: &str) {
        self.outcomes[at].refusal.get_or_insert_with(|| reason.into());
    }

    /// Refuses the other commands too if the push is atomic, after refdb refused a command for a reason that git does
    /// not have. Git executes the others if it refuses a command before it begins an atomic update.
    pub(super) fn refuse_rest_if_atomic(&mut self) {
        if self.request.capabilities.atomic {
            self.refuse_all("atomic push failure");
        }
    }

    /// Refuses all commands that were not refused before.
    pub(super) fn refuse_all(&mut self, reason: &str) {
        self.refuse_those(|_| true, reason);
    }

    /// Refuses those of these commands that were not refused before.
    pub(super) fn refuse_those(&mut self, which: impl Fn(Command<'_>) -> bool, reason: &str) {
        for (command, outcome) in self.request.commands.iter().zip(&mut self.outcomes) {
            if which(command) {
                outcome.refusal.get_or_insert_with(|| reason.into());
            }
        }
    }
}

/// Returns whether a request begins with a shallow commit or a push certificate, which only git handles.
fn needs_git(first: &[u8]) -> bool {
    let line = first.get(pkt::LENGTH_BYTES..).unwrap_or_default();
    line.starts_with(b"shallow ") || line.starts_with(b"push-cert")
}

/// The `.keep` file that protects a new pack from `git repack` until refs lead to its objects. It is removed on drop.
struct Keep {
    fs: Fs,
    file: Option<PathBuf>,
}

impl Drop for Keep {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Failing to remove the file only keeps its pack from being repacked.
            let _ = self.fs.remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_of_the_protocol_counts_and_2_is_answered_as_0() {
        for (protocol, wanted) in [
            ("", false),
            ("version=0", false),
            ("version=1", true),
            ("x:version=1:version=0", true),
            ("version=1:version=2", false),
            ("version=9:version=1", true),
        ] {
            let environment = Environment::empty("/").with("GIT_PROTOCOL", protocol);
            assert_eq!(Call::in_environment(&environment).version_1, wanted, "{protocol}");
        }
    }
}
