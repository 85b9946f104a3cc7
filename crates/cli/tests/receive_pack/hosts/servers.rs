//! Servers on loopback, each for one repository: sshd, `git daemon`, and a web server that runs `git http-backend`.

use super::cgi::Cgi;
use crate::common::{REFDB, hook};
use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    fmt::Write,
    io,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A repository whose post-receive hook logs which program received each successful push.
pub(super) struct Hosted {
    pub(super) repo: Repo,
    /// A `GIT_EXEC_PATH` as `make dist` makes it.
    pub(super) exec_path: PathBuf,
    /// A folder with `git-receive-pack`, a symbolic link to refdb.
    pub(super) links: PathBuf,
}

impl Hosted {
    pub(super) fn new(format: RefFormat) -> Self {
        let repo = Repo::bare(format, HashKind::Sha1);
        let (exec_path, links) = (repo.scratch().join("git core"), repo.scratch().join("links"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build/refdb-exec-path");
        let mut command = repo.command(script);
        command.env("REFDB", REFDB).arg(&exec_path).arg(Git::find().program());
        assert!(command.status().unwrap().success());
        std::fs::create_dir(&links).unwrap();
        std::os::unix::fs::symlink(REFDB, links.join("git-receive-pack")).unwrap();
        hook(
            &repo,
            "pre-receive",
            "while read old new name; do case $name in */no) echo hooks say no; exit 1;; esac; done",
        );
        hook(&repo, "post-receive", "readlink /proc/$PPID/exe >>../receivers");
        repo.config("http.receivepack", "true");
        repo.config("receive.autogc", "false");
        Hosted { repo, exec_path, links }
    }

    /// Requires that `count` pushes were received, all of them by refdb.
    pub(super) fn assert_received(&self, count: usize, what: &str) {
        let read = || std::fs::read_to_string(self.repo.scratch().join("receivers")).unwrap_or_default();
        // The hook may still run when a client has its report and leaves.
        let late = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while read().lines().count() < count && std::time::Instant::now() < late {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let receivers = read();
        let refdb = std::fs::canonicalize(REFDB).unwrap();
        assert_eq!(receivers.lines().map(Path::new).collect::<Vec<_>>(), vec![refdb.as_path(); count], "{what}");
    }

    pub(super) fn daemon(&self) -> Server {
        let port = free_port();
        let mut command = self.repo.command(Git::find().program());
        command.env("GIT_EXEC_PATH", &self.exec_path);
        command.args(["daemon", "--enable=receive-pack", "--export-all", "--reuseaddr", "--listen=localhost"]);
        command.arg(format!("--port={port}")).arg(format!("--base-path={}", self.repo.scratch().display()));
        Server::start(command, port, format!("git://localhost:{port}/repo"))
    }

    /// Serves with `git-http-backend`, started by its own name and with `GIT_EXEC_PATH`, as by Apache with `SetEnv`.
    pub(super) fn http(&self) -> Server {
        let program = self.exec_path.join("git-http-backend");
        let mut backend = self.repo.command(program);
        backend.env("GIT_EXEC_PATH", &self.exec_path).env("GIT_PROJECT_ROOT", self.repo.scratch());
        backend.env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_USER", "tester");
        let cgi = Cgi::serve(backend);
        let url = format!("http://localhost:{}/repo", cgi.port());
        Server { _cgi: Some(cgi), ..Server::at(url) }
    }

    /// Starts sshd with lines of configuration in addition to those that it always needs.
    pub(super) fn sshd(&self, settings: &str) -> Server {
        let folder = self.repo.scratch().join("ssh");
        std::fs::create_dir(&folder).unwrap();
        for name in ["host", "user"] {
            let mut keygen = self.repo.command("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(name));
            assert!(keygen.status().unwrap().success());
        }
        let (port, place) = (free_port(), folder.display().to_string());
        let mut config = format!("ListenAddress localhost:{port}\nHostKey {place}/host\nPidFile none\nUsePAM no\n");
        write!(config, "AuthorizedKeysFile {place}/user.pub\nStrictModes no\nPasswordAuthentication no\n").unwrap();
        write!(config, "PermitRootLogin yes\n{settings}\n").unwrap();
        std::fs::write(folder.join("config"), config).unwrap();
        let user = String::from_utf8(self.repo.command("id").arg("-un").output().unwrap().stdout).unwrap();
        if user.trim() == "root" {
            // sshd needs this folder for its unprivileged process that talks to the network.
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let sshd = Path::new("/usr/sbin/sshd");
        assert!(sshd.is_file(), "no sshd: run scripts/setup/install-packages openssh-server");
        let mut command = self.repo.command(sshd);
        command.args(["-D", "-e", "-f"]).arg(folder.join("config"));
        let url = format!("ssh://{}@localhost:{port}{}", user.trim(), self.repo.dir().display());
        let mut server = Server::start(command, port, url);
        let options = "-F none -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null";
        server.ssh = Some(format!("ssh {options} -o LogLevel=ERROR -i {place}/user"));
        server.ssh_key = Some(format!("{place}/user"));
        server
    }
}

/// A running server, which stops when it is dropped, or a repository on the client's own machine.
pub(super) struct Server {
    child: Option<Running>,
    _cgi: Option<Cgi>,
    pub(super) url: String,
    /// The ssh command that reaches the server, with its options and the path of the client's key.
    pub(super) ssh: Option<String>,
    pub(super) ssh_key: Option<String>,
    /// The `GIT_EXEC_PATH` of a client that starts receive-pack itself.
    pub(super) exec_path: Option<PathBuf>,
}

impl Server {
    fn at(url: String) -> Self {
        Server { child: None, _cgi: None, url, ssh: None, ssh_key: None, exec_path: None }
    }

    /// Returns the place of a repository on the client's own machine, where no server runs.
    pub(super) fn local(hosted: &Hosted) -> Self {
        let path = hosted.repo.dir().to_str().unwrap().to_owned();
        Server { exec_path: Some(hosted.exec_path.clone()), ..Server::at(path) }
    }

    /// Writes a program into `folder` that calls ssh, for clients that need a single word, and returns its path.
    /// Returns `None` for a server that is not reached through ssh.
    pub(super) fn ssh_program(&self, folder: &Path) -> Option<PathBuf> {
        let ssh = self.ssh.as_ref()?;
        let program = folder.join("ssh");
        std::fs::write(&program, format!("#!/bin/sh\nexec {ssh} \"$@\"\n")).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        Some(program)
    }

    fn start(mut command: Command, port: u16, url: String) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Server { child: Some(Running(child)), ..Server::at(url) };
        let end = Instant::now() + Duration::from_secs(120);
        while let Err(error) = TcpStream::connect(("localhost", port)) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{command:?}");
            let ended = server.child.as_mut().unwrap().0.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "{command:?} does not listen: {ended:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

/// A child process that is stopped when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM rather than SIGKILL, because `git daemon` ends the program that it has started only when it is asked
        // to end.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Returns a port that nobody listens on. Another process could take it before the server does, but that is unlikely.
fn free_port() -> u16 {
    TcpListener::bind("localhost:0").unwrap().local_addr().unwrap().port()
}
