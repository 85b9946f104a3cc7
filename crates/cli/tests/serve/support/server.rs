//! Starts and stops the real program.

use super::{Answer, Request};
use refdb_testkit::{Git, at_most};
use rustix::process::{Resource, getrlimit};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::{
        fd::OwnedFd,
        unix::{fs::DirBuilderExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How a server is started.
#[derive(Default)]
pub(crate) struct Options {
    words: Vec<OsString>,
    /// Lines below `[serve]`.
    config: String,
    variables: Vec<(OsString, OsString)>,
    has_metrics: bool,
    rights: Rights,
    descriptors: Option<u64>,
    errors: Option<OwnedFd>,
}

/// What a server may do that a test starts as root. Started by another user, it has that user's rights.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Rights {
    #[default]
    All,
    /// Permissions bind it, as they bind every other user.
    BoundByPermissions,
    /// It runs as a user who has no other process, so that a limit on that user's processes concerns the server alone.
    Stranger,
}

/// The ids of the user and the group of [`Options::run_by_stranger`], with which no other process runs.
const STRANGER: u32 = 54_321;

impl Options {
    /// Serves everything below a folder.
    pub(crate) fn root(dir: &Path) -> Self {
        Options::default().word("--root").word(dir)
    }

    #[must_use]
    pub(crate) fn word(mut self, word: impl Into<OsString>) -> Self {
        self.words.push(word.into());
        self
    }

    /// Adds a setting of the server.
    #[must_use]
    pub(crate) fn set(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.config.push_str(&format!("\t{name} = {value}\n"));
        self
    }

    #[must_use]
    pub(crate) fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Makes the server tell its metrics, for [`Server::metrics`].
    #[must_use]
    pub(crate) fn with_metrics(self) -> Self {
        Options { has_metrics: true, ..self.word("--metrics").word(format!("{}:0", Ipv4Addr::LOCALHOST)) }
    }

    /// Sets a limit on the descriptors that the server may have open.
    #[must_use]
    pub(crate) fn descriptors(self, count: u64) -> Self {
        Options { descriptors: Some(count), ..self }
    }

    /// Sets the standard error of the server. [`Server::errors`] returns nothing then.
    #[must_use]
    pub(crate) fn errors_to(self, errors: OwnedFd) -> Self {
        Options { errors: Some(errors), ..self }
    }

    /// Makes the permissions of files bind the server even if root runs the test.
    #[must_use]
    pub(crate) fn bound_by_permissions(self) -> Self {
        Options { rights: Rights::BoundByPermissions, ..self }
    }

    /// If root runs the test, runs the server as a user who has no other process, who owns `folder` from now on, and
    /// who uses the git of the machine.
    #[must_use]
    pub(crate) fn run_by_stranger(self, folder: &Path) -> Self {
        if user() != "root" {
            return self;
        }
        give_to_stranger(folder);
        Options { rights: Rights::Stranger, ..self.variable("REFDB_GIT", "/usr/bin/git") }
    }

    pub(crate) fn start(self) -> Server {
        let temp = tempfile::Builder::new().prefix("refdb-serve-").tempdir().unwrap();
        let [socket, shims, home] = ["socket", "private/shims", "home"].map(|name| temp.path().join(name));
        std::fs::DirBuilder::new().mode(0o700).create(temp.path().join("private")).unwrap();
        std::fs::create_dir(&home).unwrap();
        std::fs::write(temp.path().join("config"), format!("[serve]\n{}", self.config)).unwrap();
        let is_root = user() == "root";
        let program = env!("CARGO_BIN_EXE_refdb-serve");
        let mut command = Command::new(if is_root && self.rights != Rights::All { "setpriv" } else { program });
        match self.rights {
            Rights::BoundByPermissions if is_root => {
                command.args(["--bounding-set=-all", "--inh-caps=-all", program]);
            }
            Rights::Stranger => {
                give_to_stranger(temp.path());
                command.args(stranger(program));
            }
            _ => {}
        }
        if let Some(count) = self.descriptors {
            command = Command::new("prlimit");
            command.arg(format!("--nofile={count}")).arg(program);
        }
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        command.args(["--http", &loopback.to_string(), "--http-socket"]).arg(&socket).arg("--socket").arg(&shims);
        command.arg("--config").arg(temp.path().join("config")).args(self.words);
        if is_root && self.rights != Rights::Stranger {
            command.args(["--user", "root"]);
        }
        environment(&mut command, &home);
        command.env("REFDB_GIT", Git::find().program()).envs(self.variables);
        let errors = std::fs::File::create(temp.path().join("errors")).unwrap();
        let errors = self.errors.unwrap_or_else(|| errors.into());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on http://").and_then(|text| text.strip_suffix('/'));
        let said = || std::fs::read_to_string(temp.path().join("errors")).unwrap();
        let address = address.unwrap_or_else(|| panic!("{line:?}: {}", said())).parse().unwrap();
        (0..2 + u8::from(self.has_metrics)).for_each(|_| _ = output.read_line(&mut line).unwrap());
        let mut said = line.lines();
        let metrics = said.find_map(|line| line.strip_prefix("metrics on http://")?.strip_suffix("/metrics"));
        let metrics = metrics.map(|address| address.parse().unwrap());
        let is_stranger = self.rights == Rights::Stranger;
        Server { child, is_stranger, _output: output, address, metrics, socket, shims, home, temp }
    }
}

/// Makes a program see no configuration of the machine's user.
pub(crate) fn environment(command: &mut Command, home: &Path) {
    let git = Git::find().program().parent().unwrap();
    let path = format!("{}:{}", git.display(), std::env::var("PATH").unwrap_or_default());
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "TMPDIR" || name == "LLVM_PROFILE_FILE"));
    command.env("PATH", path).env("HOME", home).env("LC_ALL", "C").env("TZ", "UTC").env("GIT_CONFIG_NOSYSTEM", "1");
}

/// The arguments of `setpriv` with which a program runs as [`STRANGER`].
fn stranger(program: &str) -> [String; 4] {
    [format!("--reuid={STRANGER}"), format!("--regid={STRANGER}"), "--clear-groups".into(), program.into()]
}

fn give_to_stranger(folder: &Path) {
    let status = Command::new("chown").args(["-R", &format!("{STRANGER}:{STRANGER}")]).arg(folder).status();
    assert!(status.unwrap().success());
}

fn user() -> String {
    String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap().trim().to_owned()
}

/// A running server, which is killed when this is dropped.
pub(crate) struct Server {
    child: Child,
    is_stranger: bool,
    /// The server's standard output, kept open so that the server can write to it.
    _output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    /// The address at which the server tells its metrics, if it does.
    metrics: Option<SocketAddr>,
    pub(crate) socket: PathBuf,
    /// The socket for shims.
    pub(crate) shims: PathBuf,
    /// The server's `HOME`, in which tests put the user's configuration.
    pub(crate) home: PathBuf,
    temp: TempDir,
}

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    /// Connects over TCP, as anyone can.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(at_most(PATIENCE))).unwrap();
        stream
    }

    /// Connects to the Unix socket, as the proxy that has logged users in.
    pub(crate) fn connect_as_proxy(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(at_most(PATIENCE))).unwrap();
        stream
    }

    /// Sends a request over TCP, as anyone can.
    pub(crate) fn ask(&self, request: &Request) -> Answer {
        Answer::to(request, self.connect())
    }

    /// Sends a request as the proxy, for a user or for nobody.
    pub(crate) fn ask_as(&self, user: Option<&str>, request: &Request) -> Answer {
        let request = user.iter().fold(request.clone(), |request, user| request.with("X-Remote-User", user));
        Answer::to(&request, self.connect_as_proxy())
    }

    pub(crate) fn url(&self, repository: &str) -> String {
        format!("http://{}/{repository}", self.address)
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.temp.path().join("config")
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.temp.path()
    }

    /// Returns everything that the server has complained about.
    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.temp.path().join("errors")).unwrap_or_default()).into_owned()
    }

    /// Waits until the server has complained in this way, which a thread of it does a short time after the cause.
    pub(crate) fn await_errors(&self, text: &str) {
        let end = Instant::now() + at_most(PATIENCE);
        while !self.errors().contains(text) {
            assert!(Instant::now() < end, "{text:?} is not among the errors: {}", self.errors());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sets a limit on a resource of the running server. `None` sets it back to the limit that the test itself has.
    pub(crate) fn limit(&self, resource: Resource, limit: Option<u64>) {
        let inherited = getrlimit(resource);
        let text = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
        let limit = format!("{}:{}", text(limit.or(inherited.current)), text(inherited.maximum));
        let name = match resource {
            Resource::Fsize => "fsize",
            Resource::Nofile => "nofile",
            Resource::Nproc => "nproc",
            _ => panic!("no test limits {resource:?}"),
        };
        // The server's own user sets it, because root may lack the right to do so.
        let mut command = Command::new(if self.is_stranger { "setpriv" } else { "prlimit" });
        if self.is_stranger {
            command.args(stranger("prlimit"));
        }
        let status = command.args(["--pid", &self.id().to_string(), &format!("--{name}={limit}")]).status();
        assert!(status.unwrap().success());
    }

    /// The number of descriptors that the server has open.
    pub(crate) fn descriptors(&self) -> u64 {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count() as u64
    }

    /// The processor time that the server has taken.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        // The user and the kernel time are fields 14 and 15, in ticks of 10 ms. Field 2 ends at the parenthesis.
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        Duration::from_millis(10 * fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>())
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Returns the metrics as text.
    pub(crate) fn metrics(&self) -> String {
        let stream = TcpStream::connect(self.metrics.expect("it tells its metrics")).unwrap();
        Answer::to(&Request::get("/metrics"), stream).text()
    }

    /// Waits until so many requests are in progress.
    pub(crate) fn await_in_progress(&self, count: usize) {
        let (end, line) = (Instant::now() + at_most(PATIENCE), format!("requests_in_progress {count}\n"));
        loop {
            let metrics = self.metrics();
            if metrics.contains(&line) {
                return;
            }
            assert!(Instant::now() < end, "{count} requests are not in progress: {metrics}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the process, and returns its exit code, or `None` if a signal ended it.
    pub(crate) fn wait(&mut self, longest: Duration) -> Option<i32> {
        let end = Instant::now() + at_most(longest);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server has said: {}", self.errors());
        }
    }
}
