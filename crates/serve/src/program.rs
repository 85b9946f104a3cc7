//! The programs that do what the server leaves to them: git, and `refdb receive-pack`.

use crate::inflow::Inflow;
use bstr::BString;
use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
};

/// Where the programs are.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    git: OsString,
    refdb: PathBuf,
}

/// The repository in which a program runs, and variables for it and its hooks.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    variables: Vec<(OsString, OsString)>,
    /// Settings `key=value` that outrank the repository's.
    settings: Vec<OsString>,
}

/// A service of git's protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    UploadPack,
    ReceivePack,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::UploadPack => "upload-pack",
            Service::ReceivePack => "receive-pack",
        }
    }
}

/// Variables of the server's own environment that would make git use another repository than the one that is served.
const REDIRECTING: [&str; 12] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_REFERENCE_BACKEND",
    "GIT_QUARANTINE_PATH",
];

impl Place {
    pub(crate) fn new(folder: &Path) -> Self {
        Place { folder: folder.to_owned(), variables: Vec::new(), settings: Vec::new() }
    }

    /// Sets a variable.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets variables that the authorizer has chosen.
    #[must_use]
    pub(crate) fn with_all(mut self, variables: &[(String, String)]) -> Self {
        self.variables.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Hides refs, besides those that the configuration hides.
    #[must_use]
    pub(crate) fn hiding(mut self, patterns: &[BString]) -> Self {
        let setting = |pattern: &BString| OsString::from_vec([b"transfer.hideRefs=", &pattern[..]].concat());
        self.settings.extend(patterns.iter().map(setting));
        self
    }

    /// Adds settings `key=value`.
    #[must_use]
    pub(crate) fn setting(mut self, settings: &[&str]) -> Self {
        self.settings.extend(settings.iter().map(OsString::from));
        self
    }
}

impl Git {
    /// Returns the git of this name, and the refdb that was installed with this program.
    pub(crate) fn new(git: OsString) -> Self {
        let beside = std::env::current_exe().ok().map(|own| own.with_file_name("refdb")).filter(|path| path.is_file());
        Git { git, refdb: beside.unwrap_or_else(|| "refdb".into()) }
    }

    /// Starts a program in a repository.
    fn command(&self, program: &OsStr, place: &Place) -> Command {
        let mut command = Command::new(program);
        // Changing the folder of a child would make the system copy the server's page tables, so git does it itself.
        command.arg("-C").arg(&place.folder);
        place.settings.iter().for_each(|setting| {
            command.arg("-c").arg(setting);
        });
        REDIRECTING.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.env_remove("GIT_PROTOCOL").env("REFDB_GIT", &self.git);
        command.envs(place.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs git to its end, and returns what it writes.
    pub(crate) async fn output(&self, place: &Place, options: &[&str], words: &[&str]) -> io::Result<Vec<u8>> {
        let mut command = self.command(&self.git, place);
        let output = command.args(options).args(words).stdin(Stdio::null()).kill_on_drop(true).output().await?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("git {}: {}", words.join(" "), why.trim())))
    }

    /// Starts a service that sends the list of refs.
    pub(crate) fn advertise(&self, service: Service, place: &Place) -> io::Result<Running> {
        self.start(service, &["--http-backend-info-refs"], place, None)
    }

    /// Starts a service that answers a request. `begin` is the part of the request that was read before `rest`.
    pub(crate) fn answer(
        &self,
        service: Service,
        place: &Place,
        begin: Vec<u8>,
        rest: Box<Inflow>,
    ) -> io::Result<Running> {
        self.start(service, &["--stateless-rpc"], place, Some((begin, rest)))
    }

    fn start(
        &self,
        service: Service,
        words: &[&str],
        place: &Place,
        input: Option<(Vec<u8>, Box<Inflow>)>,
    ) -> io::Result<Running> {
        let mut command = match service {
            Service::UploadPack => self.command(&self.git, place),
            Service::ReceivePack => self.command(self.refdb.as_os_str(), place),
        };
        command.arg(service.name()).args(words).arg(".").stdout(Stdio::piped());
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        // A push that has begun to change refs is completed when the client leaves, as by git.
        command.kill_on_drop(service == Service::UploadPack);
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("a program has no output"))?;
        let feeder = child.stdin.take().zip(input).map(|(mut stdin, (begin, mut rest))| {
            tokio::spawn(async move {
                // A program that reads no more has what it needs, or has failed and says so.
                stdin.write_all(&begin).await?;
                let mut buffer = vec![0; PIECE_BYTES];
                loop {
                    match rest.read(&mut buffer).await? {
                        0 => return Ok(()),
                        count => stdin.write_all(&buffer[..count]).await?,
                    }
                }
            })
        });
        Ok(Running { output, _child: child, feeder })
    }
}

/// The number of bytes that are read from a program or a client at once.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// A service that answers a request. Dropping it closes the pipes to the program.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) output: ChildStdout,
    /// Dropping it ends `git upload-pack`.
    _child: Child,
    feeder: Option<JoinHandle<io::Result<()>>>,
}

/// How much of an answer is held back until the request has been read. Programs say little before that.
const HELD_BYTES_MAX: usize = 1 << 20;

impl Running {
    /// Waits until the program has the whole request, and returns what it has answered meanwhile. Proxies, nginx among
    /// them, stop to pass on a request whose answer has begun.
    pub(crate) async fn request_read(&mut self) -> io::Result<Vec<u8>> {
        let mut held = Vec::new();
        let Some(feeder) = &mut self.feeder else { return Ok(held) };
        while held.len() < HELD_BYTES_MAX {
            tokio::select! {
                _ = &mut *feeder => {
                    self.feeder = None;
                    break;
                }
                read = self.output.read_buf(&mut held) => if read? == 0 { break },
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
