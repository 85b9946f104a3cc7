//! Serves the requests that the caches of refs cannot answer: starts git's programs, and receives pushes in threads.

use crate::{
    cpu::Cpu,
    gate::Turn,
    inflow::Inflow,
    push::{Push, Pushes, Waiting, Wish, input_pipe, output_pipe},
    service::Service,
};
use bstr::BString;
use bytes::{Bytes, BytesMut};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
    path::{Path, PathBuf},
    pin::pin,
    process::Stdio,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::unix::pipe,
    process::{Child, Command},
    task::JoinHandle,
};
use tokio_util::io::poll_read_buf;

/// Starts git's programs and the reception of pushes.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    git: OsString,
    pushes: Pushes,
}

/// Where a program or a push runs: the repository, and the environment and settings for it and its hooks.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    variables: Vec<(OsString, OsString)>,
    /// Settings in the form `key=value` that take precedence over the repository's.
    settings: Vec<OsString>,
    /// Whether git is started with [`CHECKED`].
    wants_are_checked: bool,
}

/// Options with which `git upload-pack` reads no ref and sends any object that is wanted and exists, for a fetch whose
/// wants the server has checked.
///
/// No ref should be in this namespace. Hiding all refs is no substitute: git marks the objects of hidden refs with the
/// bit that also marks commits from which one that the client has can be reached (`HIDDEN_REF` in upload-pack.c,
/// `RESULT` in commit-reach.c), so that it would end the negotiation too early and send objects that the client has.
pub const CHECKED: [&str; 3] = ["--namespace=refdb-no-refs", "-c", "uploadpack.allowAnySHA1InWant=true"];

/// Variables of the server's own environment that programs must not inherit. They would lead git to other files than
/// the repository's, or would be taken for what a client or a running push has set.
const REMOVED: [&str; 13] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_PROTOCOL",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_REFERENCE_BACKEND",
    "GIT_QUARANTINE_PATH",
];

impl Place {
    pub(crate) fn new(folder: &Path) -> Self {
        Place { folder: folder.to_owned(), variables: Vec::new(), settings: Vec::new(), wants_are_checked: false }
    }

    /// Sets an environment variable.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets the environment variables that the authorizer chose.
    #[must_use]
    pub(crate) fn with_all(mut self, variables: &[(String, String)]) -> Self {
        self.variables.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Adds these values of `transfer.hideRefs` to the configured ones.
    #[must_use]
    pub(crate) fn hiding(mut self, patterns: &[BString]) -> Self {
        let setting = |pattern: &BString| OsString::from_vec([b"transfer.hideRefs=", &pattern[..]].concat());
        self.settings.extend(patterns.iter().map(setting));
        self
    }

    /// Starts git with [`CHECKED`], so that it does not check the wants of a fetch. `uploadpack.packObjectsHook` must
    /// not be set, because that hook would see these options.
    #[must_use]
    pub(crate) fn with_checked_wants(mut self) -> Self {
        self.wants_are_checked = true;
        self
    }
}

impl Git {
    /// Uses this program as git, and `pushes` to receive pushes.
    pub(crate) fn new(git: OsString, pushes: Pushes) -> Self {
        Git { git, pushes }
    }

    /// Returns the name or path of the program.
    pub(crate) fn program(&self) -> &OsStr {
        &self.git
    }

    /// Prepares git to run in a repository.
    fn command(&self, place: &Place) -> Command {
        let mut command = Command::new(&self.git);
        // Git changes the directory itself. Where the C library cannot start a program in another directory, the
        // standard library would fork for that, which copies the server's page tables.
        command.arg("-C").arg(&place.folder);
        place.settings.iter().for_each(|setting| {
            command.arg("-c").arg(setting);
        });
        if place.wants_are_checked {
            command.args(CHECKED);
        }
        REMOVED.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.env("REFDB_GIT", &self.git).envs(place.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs git to its end and returns its standard output. Fails with its standard error if git fails.
    pub(crate) async fn output(&self, place: &Place, options: &[&str], words: &[&str]) -> io::Result<Vec<u8>> {
        let mut command = self.command(place);
        let output = command.args(options).args(words).stdin(Stdio::null()).kill_on_drop(true).output().await?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("git {}: {}", words.join(" "), why.trim())))
    }

    /// Starts the service to send its advertisement and end.
    pub(crate) fn advertise(&self, service: Service, place: &Place, turn: Turn, cpu: Cpu) -> io::Result<Running> {
        match service {
            Service::UploadPack => self.start(&["--http-backend-info-refs"], place, None, turn, cpu),
            Service::ReceivePack => {
                let nothing = std::fs::File::open("/dev/null")?;
                let (output, waiting) = self.receive(Wish::Advertisement, place, nothing.into(), turn, cpu)?;
                Ok(Running::of_push(output, None, waiting))
            }
        }
    }

    /// Starts the service for a request. `begin` is the part of the request that has been read, and precedes `rest`.
    pub(crate) fn answer(
        &self,
        service: Service,
        place: &Place,
        begin: Vec<u8>,
        rest: Box<Inflow>,
        turn: Turn,
        cpu: Cpu,
    ) -> io::Result<Running> {
        match service {
            Service::UploadPack => self.start(&["--stateless-rpc"], place, Some((begin, rest)), turn, cpu),
            Service::ReceivePack => {
                let (input, client) = input_pipe()?;
                let (output, waiting) = self.receive(Wish::Answer, place, input, turn, cpu)?;
                let feeder = tokio::spawn(feed(client, begin, rest));
                Ok(Running::of_push(output, Some(feeder), waiting))
            }
        }
    }

    /// Starts `git upload-pack`.
    fn start(
        &self,
        words: &[&str],
        place: &Place,
        input: Option<(Vec<u8>, Box<Inflow>)>,
        turn: Turn,
        cpu: Cpu,
    ) -> io::Result<Running> {
        let mut command = self.command(place);
        command.arg("upload-pack").args(words).arg(".").stdout(Stdio::piped());
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() }).kill_on_drop(true);
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("a program has no output"))?;
        let output = pipe::Receiver::from_owned_fd(output.into_owned_fd()?)?;
        let feeder = child.stdin.take().zip(input).map(|(stdin, (begin, rest))| tokio::spawn(feed(stdin, begin, rest)));
        Ok(Running::new(output, feeder, Some(Process { child, cpu, _turn: turn })))
    }

    /// Starts to receive a push, or to send the advertisement for one, in a thread. The thread, and not the response,
    /// holds `turn`, because a push that has begun to change refs is completed even if the client disconnects, as with
    /// git.
    fn receive(
        &self,
        wish: Wish,
        place: &Place,
        input: OwnedFd,
        turn: Turn,
        cpu: Cpu,
    ) -> io::Result<(pipe::Receiver, Waiting)> {
        let (answer, output) = output_pipe()?;
        let Place { folder, variables, settings, .. } = place.clone();
        let own = std::env::vars_os().filter(|(name, _)| !REMOVED.iter().any(|removed| name == removed));
        let variables = own.chain([("REFDB_GIT".into(), self.git.clone())]).chain(variables).collect();
        let waiting = self.pushes.start(Push { folder, variables, settings, wish, input, output, turn, cpu });
        Ok((answer, waiting))
    }
}

/// Copies a request to a service until the request ends or the service closes its input. A service closes its input if
/// it needs no more or has failed, which its output shows.
///
/// # Errors
///
/// Fails if the request cannot be read to its end; see [`Inflow::new`].
async fn feed(mut to: impl AsyncWrite + Unpin, begin: Vec<u8>, mut rest: Box<Inflow>) -> io::Result<()> {
    let mut is_wanted = to.write_all(&begin).await.is_ok();
    let mut buffer = vec![0; FIRST_BYTES];
    while is_wanted {
        let count = rest.read(&mut buffer).await?;
        if count == 0 {
            break;
        }
        is_wanted = to.write_all(&buffer[..count]).await.is_ok();
        if count == buffer.len() {
            buffer.resize(PIECE_BYTES, 0);
        }
    }
    Ok(())
}

/// The size of the buffer for reads from a program or a client, in bytes, once a read has filled a buffer of
/// [`FIRST_BYTES`].
const PIECE_BYTES: usize = 64 << 10;

/// The size of the buffer for the first reads, in bytes. Most pushes and their reports are short.
const FIRST_BYTES: usize = 2 << 10;

/// A running service. Dropping it closes the pipes to the service, and kills `git upload-pack`.
#[derive(Debug)]
pub(crate) struct Running {
    output: pipe::Receiver,
    /// The buffer for the next piece of output.
    piece: BytesMut,
    piece_bytes: usize,
    feeder: Option<JoinHandle<io::Result<()>>>,
    /// The thread of a push, until it has begun.
    waiting: Option<Waiting>,
    /// The process of `git upload-pack`.
    _program: Option<Process>,
}

/// A process, which is killed on drop, and its turn under the limit on fetches.
#[derive(Debug)]
struct Process {
    child: Child,
    cpu: Cpu,
    _turn: Turn,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(id) = self.child.id() {
            self.cpu.add_process(id);
        }
    }
}

/// The number of bytes of output at which [`Running::request_read`] stops holding back. Services write little before
/// they have read the whole request.
const HELD_BYTES_MAX: usize = 1 << 20;

impl Running {
    fn new(output: pipe::Receiver, feeder: Option<JoinHandle<io::Result<()>>>, program: Option<Process>) -> Self {
        let (piece, piece_bytes) = (BytesMut::new(), FIRST_BYTES);
        Running { output, piece, piece_bytes, feeder, waiting: None, _program: program }
    }

    fn of_push(output: pipe::Receiver, feeder: Option<JoinHandle<io::Result<()>>>, waiting: Waiting) -> Self {
        let mut running = Running::new(output, feeder, None);
        running.waiting = Some(waiting);
        running
    }

    /// Waits until the service has begun. Returns `false` if that takes longer than `longest`; the service is called
    /// off then.
    pub(crate) async fn begins(&mut self, longest: Duration) -> bool {
        match self.waiting.take() {
            Some(waiting) => waiting.begins(longest).await,
            None => true,
        }
    }

    /// Reads a piece of the output, which is empty at the end.
    pub(crate) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.piece.reserve(self.piece_bytes);
        let read = poll_read_buf(pin!(&mut self.output), context, &mut self.piece);
        if matches!(read, Poll::Ready(Ok(count)) if count >= self.piece_bytes) {
            self.piece_bytes = PIECE_BYTES;
        }
        read.map_ok(|_| self.piece.split().freeze())
    }

    /// Waits for the first bytes of the output. Fails if there are none, because a service that works sends at least a
    /// flush packet.
    pub(crate) async fn first_bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut first = Vec::with_capacity(FIRST_BYTES);
        match self.output.read_buf(&mut first).await? {
            0 => Err(io::Error::other("the service has ended without an answer")),
            _ => Ok(first),
        }
    }

    /// Waits until the request has been passed to the service, as far as the service reads it, or cannot be read to its
    /// end, or the service has written at least [`HELD_BYTES_MAX`] bytes or closed its output. Returns the output so
    /// far, which is held back because nginx and other proxies stop passing on a request once its response has begun.
    ///
    /// # Errors
    ///
    /// Fails if the request cannot be read to its end ([`Inflow::new`]) and no output has been read yet.
    pub(crate) async fn request_read(&mut self) -> io::Result<Vec<u8>> {
        let mut held = Vec::new();
        let Some(feeder) = &mut self.feeder else { return Ok(held) };
        while held.len() < HELD_BYTES_MAX {
            tokio::select! {
                fed = &mut *feeder => {
                    self.feeder = None;
                    match fed {
                        Ok(Err(error)) if held.is_empty() => return Err(error),
                        _ => break,
                    }
                }
                // An output that cannot be read fails again when the rest of it is passed on.
                read = self.output.read_buf(&mut held) => if !read.is_ok_and(|count| count > 0) { break },
            }
        }
        Ok(held)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(feeder) = &self.feeder {
            feeder.abort();
        }
    }
}
