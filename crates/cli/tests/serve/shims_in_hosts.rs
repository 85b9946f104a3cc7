//! Real git daemon and sshd, whose `git-upload-pack` is the shim, as docs/operating/serve.md sets them up.

use crate::support::{Options, Server, exported};
use refdb_testkit::{Git, RefFormat, Repo, at_most};
use refdb_types::HashKind;
use std::{
    ffi::OsString,
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// A host program on a port of its own, which is ended when this is dropped.
struct Host {
    child: Child,
    port: u16,
}

impl Host {
    fn start(command: &mut Command, port: u16) -> Self {
        let mut host = Host { child: command.stderr(Stdio::null()).spawn().unwrap(), port };
        let end = Instant::now() + at_most(Duration::from_secs(60));
        while TcpStream::connect(("localhost", port)).is_err() {
            assert!(Instant::now() < end && host.child.try_wait().unwrap().is_none(), "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        host
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("localhost:0").unwrap().local_addr().unwrap().port()
}

fn environment(server: &Server) -> impl Iterator<Item = (OsString, OsString)> {
    let shim = server.shim();
    let set: Vec<_> = shim.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    set.into_iter()
}

/// Returns git with the environment of the server's shims.
fn git(server: &Server) -> Command {
    let mut git = Command::new(Git::find().program());
    git.env_clear().envs(environment(server));
    git
}

/// Asserts that the protocol versions list the same refs and that versions 0 and 2 clone. A list that is asked for
/// while the server is paused shows that the server is asked: it takes until the shim gives up and git answers, at
/// least two seconds.
fn assert_served(server: &Server, repo: &Repo, client: &dyn Fn(&[&str]) -> Output) {
    let succeed = |words: &[&str]| {
        let output = client(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let list = succeed(&["-c", "protocol.version=0", "ls-remote"]);
    for version in ["1", "2"] {
        assert_eq!(succeed(&["-c", &format!("protocol.version={version}"), "ls-remote"]), list);
    }
    for version in ["0", "2"] {
        let to = server.scratch().join(format!("clone-{version}"));
        let option = format!("--separate-git-dir={}", to.display());
        let words = ["-c", &format!("protocol.version={version}"), "clone", "--quiet", "--no-checkout", &option];
        succeed(&words);
        fs::remove_dir_all(server.scratch().join("repo")).unwrap();
        let tip = Git::find().command(&to).args(["rev-parse", "origin/main"]).output().unwrap().stdout;
        assert_eq!(String::from_utf8(tip).unwrap().trim(), repo.rev_parse("refs/heads/main").to_string());
    }
    assert_eq!(server.errors(), "");
    server.signal("STOP");
    let start = Instant::now();
    let slow = succeed(&["-c", "protocol.version=0", "ls-remote"]);
    let waited = start.elapsed();
    server.signal("CONT");
    assert_eq!(slow, list);
    assert!(waited >= Duration::from_secs(2), "git was asked, not the server: {waited:?}");
}

#[test]
fn git_daemon_serves_through_it() {
    let repo = exported(RefFormat::Reftable, HashKind::Sha1);
    let server = Options::root(repo.scratch()).start();
    let exec_path = server.scratch().join("git-core");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build/refdb-exec-path");
    let mut make = Command::new(script);
    make.env_clear().envs(environment(&server)).env("REFDB", env!("CARGO_BIN_EXE_refdb"));
    assert!(make.arg(&exec_path).arg(Git::find().program()).status().unwrap().success());
    let port = free_port();
    // `git daemon` would start this program with this path, and would leave it running when `git` itself is killed.
    let mut daemon = Command::new(exec_path.join("git-daemon"));
    let path = format!("{}:/usr/bin:/bin", exec_path.display());
    daemon.env_clear().envs(environment(&server)).env("GIT_EXEC_PATH", &exec_path).env("PATH", path);
    daemon.args(["--export-all", "--reuseaddr", "--listen=localhost", "--timeout=60"]);
    daemon.arg(format!("--port={port}")).arg(format!("--base-path={}", repo.scratch().display()));
    let host = Host::start(&mut daemon, port);
    let url = format!("git://localhost:{}/repo", host.port);
    let folder = server.scratch();
    assert_served(&server, &repo, &|words| git(&server).current_dir(folder).args(words).arg(&url).output().unwrap());
}

#[test]
fn sshd_serves_through_it() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    let server = Options::root(repo.scratch()).start();
    let place = server.scratch().join("ssh");
    let links = place.join("bin");
    fs::create_dir_all(&links).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_refdb"), links.join("git-upload-pack")).unwrap();
    for name in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(place.join(name));
        assert!(keygen.status().unwrap().success());
    }
    let (port, shown) = (free_port(), place.display());
    // The variables of a shim must be the server's.
    let set = format!(
        "SetEnv \"PATH={}:/usr/bin:/bin\" \"REFDB_GIT={}\" \"REFDB_SERVE_SOCKET={}\" \"HOME={}\" GIT_CONFIG_NOSYSTEM=1",
        links.display(),
        Git::find().program().display(),
        server.shims.display(),
        server.home.display(),
    );
    let config = format!(
        "ListenAddress localhost:{port}\nHostKey {shown}/host\nPidFile none\nUsePAM no\nStrictModes no\n\
         AuthorizedKeysFile {shown}/user.pub\nPasswordAuthentication no\nPermitRootLogin yes\n\
         AcceptEnv GIT_PROTOCOL\n{set}\n"
    );
    fs::write(place.join("config"), config).unwrap();
    if rustix::process::geteuid().is_root() {
        // sshd needs this folder for its unprivileged process that talks to the network.
        fs::create_dir_all("/run/sshd").unwrap();
    }
    let mut sshd = Command::new("/usr/sbin/sshd");
    let host = Host::start(sshd.args(["-D", "-e", "-f"]).arg(place.join("config")), port);
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let url = format!("ssh://{}@localhost:{}{}", user.trim(), host.port, repo.git_dir().display());
    let ssh = format!(
        "ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR -i {shown}/user \
         -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null"
    );
    let folder = server.scratch();
    assert_served(&server, &repo, &|words| {
        git(&server).env("GIT_SSH_COMMAND", &ssh).current_dir(folder).args(words).arg(&url).output().unwrap()
    });
}
