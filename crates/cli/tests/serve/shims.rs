//! `refdb upload-pack`, which passes its client on to the server, and what goes wrong between shim and server.

use crate::support::{Options, Said, Server, exported, feed, masked, packets, plain_upload_pack};
use refdb_testkit::{Git, RefFormat, Repo, at_most};
use refdb_types::HashKind;
use std::{
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const FLUSH: &[u8] = b"0000";

fn served(options: impl FnOnce(Options) -> Options) -> (Repo, Server) {
    let repo = exported(RefFormat::Reftable, HashKind::Sha1);
    let server = options(Options::root(repo.scratch())).start();
    (repo, server)
}

fn gits(server: &Server, repo: &Repo, input: &[u8]) -> Said {
    feed(plain_upload_pack(Git::find().program(), &server.home).arg(repo.git_dir()), input)
}

/// A shim whose client sends and reads what a test says.
struct Held(Child);

impl Held {
    fn start(command: &mut Command) -> Self {
        Held(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Reads packets up to a flush.
    fn read_list(&mut self) -> Vec<u8> {
        let output = self.0.stdout.as_mut().unwrap();
        let mut list = Vec::new();
        loop {
            let mut digits = [0; 4];
            output.read_exact(&mut digits).unwrap();
            list.extend(digits);
            let length = usize::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap();
            if length == 0 {
                return list;
            }
            let mut data = vec![0; length - 4];
            output.read_exact(&mut data).unwrap();
            list.extend(data);
        }
    }

    /// Closes the input, waits for the shim to end, and returns its exit code as a shell does, the rest of its output,
    /// and its errors.
    fn end(mut self) -> Said {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        Said {
            code: output.status.code().unwrap_or_else(|| 128 + signal.unwrap()),
            output: output.stdout,
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Asserts that a shim whose client the server does not serve answers as git does.
fn assert_left_to_git(command: &mut Command, server: &Server, repo: &Repo) {
    let said = feed(command.arg(repo.git_dir()), FLUSH);
    let gits = gits(server, repo, FLUSH);
    assert_eq!((said.code, masked(&said.output)), (gits.code, masked(&gits.output)), "{}", said.errors);
}

/// Returns a git client whose `--upload-pack` is a shim of this server.
fn client(git: &Path, server: &Server, version: &str, words: &[&str]) -> Command {
    let shim = server.shim();
    let mut client = Command::new(git);
    client.env_clear().envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
    // Git puts its own folder first in the `PATH` of the programs that it starts, where the shim would find the
    // client's git.
    client.env("REFDB_GIT", Git::find().program());
    client.args(["-c", &format!("protocol.version={version}")]).args(words);
    client.arg(format!("--upload-pack={} upload-pack", shim.get_program().display()));
    client
}

#[test]
fn git_clones_and_negotiates_through_it() {
    let refs = |folder: &Path| Git::find().command(folder).arg("for-each-ref").output().unwrap().stdout;
    for format in RefFormat::ALL {
        let repo = exported(format, HashKind::Sha1);
        let server = Options::root(repo.scratch()).start();
        let url = format!("file://{}", repo.git_dir().display());
        let gits = [Path::new("/usr/bin/git"), Git::find().program()];
        // The old git is left out with reftables, which it cannot read: when it clones, git's newer `upload-pack`
        // runs the old git to make the pack.
        let gits = if format == RefFormat::Files { &gits[..] } else { &gits[1..] };
        for (at, git) in gits.iter().enumerate() {
            for version in ["0", "1", "2"] {
                let clone = server.scratch().join(format!("{at}-{version}"));
                let to = clone.to_str().unwrap();
                let run = |words: &[&str]| {
                    let output = client(git, &server, version, words).output().unwrap();
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success(), "{version}: {said}\n{}", server.errors());
                    assert_eq!(refs(&clone), refs(repo.git_dir()), "{version}");
                };
                run(&["clone", "--quiet", "--mirror", &url, to]);
                let words = ["commit-tree", "-p", "refs/heads/main", "-m", &format!("{at} {version}")];
                let next = repo.git([&words[..], &["refs/heads/main^{tree}"]].concat());
                repo.git(["update-ref", "refs/heads/main", next.trim()]);
                run(&["-C", to, "fetch", "--quiet", "origin"]);
                let fsck = Git::find().command(&clone).args(["fsck", "--strict"]).output().unwrap();
                assert!(fsck.status.success(), "{fsck:?}");
            }
        }
        assert_eq!(server.errors(), "");
    }
}

#[test]
fn a_shallow_clone_is_deepened_through_it_in_every_version() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    let server = Options::root(repo.scratch()).start();
    let url = format!("file://{}", repo.git_dir().display());
    let gits = [Path::new("/usr/bin/git"), Git::find().program()];
    for (git, version) in gits.iter().flat_map(|git| ["0", "1", "2"].map(|version| (git, version))) {
        let clone = tempfile::tempdir_in(server.scratch()).unwrap();
        let clone = clone.path().join("clone");
        let to = clone.to_str().unwrap();
        for (words, commits) in [
            (&["clone", "--quiet", "--bare", "--depth=1", &url, to][..], "1"),
            (&["-C", to, "fetch", "--quiet", "--deepen=1", "origin", "main"], "2"),
            (&["-C", to, "fetch", "--quiet", "--deepen=1", "origin", "main"], "3"),
        ] {
            let output = client(git, &server, version, words).env("REFDB_GIT", git).output().unwrap();
            assert!(output.status.success(), "{version}: {output:?}\n{}", server.errors());
            let counted = Git::find().command(&clone).args(["rev-list", "--count", "refs/heads/main"]).output();
            assert_eq!(counted.unwrap().stdout, format!("{commits}\n").as_bytes(), "{version}");
        }
    }
}

#[test]
fn git_does_what_the_server_cannot_do_as_git_would() {
    let (repo, server) = served(|options| options);
    let outside = exported(RefFormat::Files, HashKind::Sha1);
    assert_left_to_git(&mut server.shim(), &server, &outside);
    assert_left_to_git(server.shim().env("REFDB_SERVE_SOCKET", server.scratch().join("none")), &server, &repo);
    assert_left_to_git(server.shim().env_remove("REFDB_SERVE_SOCKET"), &server, &repo);
    // The server leaves clients with these variables to git.
    repo.git(["update-ref", "refs/namespaces/n/refs/heads/x", "refs/heads/main"]);
    for (name, value) in [("GIT_NAMESPACE", "n"), ("GIT_CONFIG_PARAMETERS", "'transfer.hideRefs=refs/heads/main'")] {
        let said = feed(server.shim().env(name, value).arg(repo.git_dir()), FLUSH);
        let gits =
            feed(plain_upload_pack(Git::find().program(), &server.home).env(name, value).arg(repo.git_dir()), FLUSH);
        assert_eq!(masked(&said.output), masked(&gits.output), "{name}");
    }
    // Standard output may be a file, which cannot be waited for as a pipe can.
    let file = server.scratch().join("list");
    let mut shim = server.shim();
    shim.arg(repo.git_dir()).stdin(Stdio::null()).stdout(File::create(&file).unwrap()).stderr(Stdio::null());
    shim.status().unwrap();
    assert_eq!(masked(&fs::read(&file).unwrap()), masked(&gits(&server, &repo, b"").output));
    let said = feed(server.shim().arg(server.scratch().join("no repository")), FLUSH);
    assert!(said.code == 128 && said.errors.contains("does not appear to be a git repository"), "{said:?}");
}

#[test]
fn a_server_at_its_limit_leaves_clients_to_git() {
    let (repo, server) = served(|options| options.set("maxRequests", 1));
    let mut held = Held::start(server.shim().arg(repo.git_dir()));
    held.read_list();
    for _ in 0..10 {
        assert_left_to_git(&mut server.shim(), &server, &repo);
    }
    held.send(FLUSH);
    assert_eq!(held.end().code, 0);
    let said = feed(server.shim().env("REFDB_GIT", "/nonexistent").arg(repo.git_dir()), FLUSH);
    assert_eq!(said.code, 0, "{}", said.errors);
}

#[test]
fn a_client_whose_server_is_killed_is_told_so_and_not_served_twice() {
    let (repo, mut server) = served(|options| options);
    let mut held = Held::start(server.shim().arg(repo.git_dir()));
    held.read_list();
    server.signal("KILL");
    server.wait(Duration::from_secs(20));
    let said = held.end();
    assert!(said.code == 128 && said.errors.contains("fetch again"), "{said:?}");
    assert!(said.output.is_empty(), "{said:?}");
}

#[test]
fn a_server_that_sleeps_delays_a_client_by_seconds_and_writes_nothing_later() {
    let (repo, server) = served(|options| options);
    server.signal("STOP");
    let mut held = Held::start(server.shim().arg(repo.git_dir()));
    held.read_list();
    server.signal("CONT");
    std::thread::sleep(Duration::from_millis(300));
    held.send(FLUSH);
    let said = held.end();
    assert!(said.code == 0 && said.output.is_empty(), "{said:?}");
}

#[test]
fn clients_are_left_to_git_when_the_server_ends() {
    for version in ["version=0", "version=2"] {
        let (repo, mut server) = served(|options| options);
        let want = repo.rev_parse("refs/heads/main");
        let mut held = Held::start(server.shim().env("GIT_PROTOCOL", version).arg(repo.git_dir()));
        let list = held.read_list();
        server.signal("TERM");
        assert_eq!(server.wait(Duration::from_secs(20)), Some(0));
        held.send(&match version {
            "version=0" => packets(&[&format!("want {want}\n"), "0000", "done\n"]),
            _ => packets(&["command=fetch", "0001", &format!("want {want}\n"), "done\n", "0000", "0000"]),
        });
        let said = held.end();
        assert!(said.code == 0 && said.output.windows(4).any(|bytes| bytes == b"PACK"), "{version}: {said:?}");
        assert!(!list.is_empty() && !said.output.starts_with(&list[..8]), "the list comes once");
    }
}

#[test]
fn what_was_advertised_is_given_though_the_ref_has_moved() {
    for format in RefFormat::ALL {
        let repo = exported(format, HashKind::Sha1);
        let server = Options::root(repo.scratch()).start();
        let lone = repo.blob("of one ref alone");
        repo.create_refs([("refs/heads/moves", repo.commits(1)[0]), ("refs/blobs/lone", lone)]);
        let mut held = Held::start(server.shim().arg(repo.git_dir()));
        held.read_list();
        repo.git(["update-ref", "-d", "refs/blobs/lone"]);
        held.send(&packets(&[&format!("want {lone}\n"), "0000", "done\n"]));
        let said = held.end();
        assert!(said.code == 0 && said.output.windows(4).any(|bytes| bytes == b"PACK"), "{said:?}");
        // The object is not given to a client whose list came after its ref was deleted.
        let mut held = Held::start(server.shim().arg(repo.git_dir()));
        held.read_list();
        held.send(&packets(&[&format!("want {lone}\n"), "0000", "done\n"]));
        let said = held.end();
        assert!(said.code == 128 && said.errors.contains("not our ref"), "{said:?}");
    }
}

#[test]
fn the_list_ends_at_once_when_the_shim_is_killed() {
    let (repo, server) = served(|options| options);
    // More than a pipe holds.
    repo.fill(20_000, &repo.commits(3));
    let mut held = Held::start(server.shim().arg(repo.git_dir()));
    let mut output = held.0.stdout.take().unwrap();
    output.read_exact(&mut [0; 1000]).unwrap();
    held.0.kill().unwrap();
    held.0.wait().unwrap();
    let start = Instant::now();
    output.read_to_end(&mut Vec::new()).unwrap();
    assert!(start.elapsed() < at_most(Duration::from_secs(5)), "sshd would wait that long");
    let list = gits(&server, &repo, FLUSH).output.len();
    assert!(list > 1_000_000, "{list}");
}

#[test]
fn a_client_that_reads_no_more_ends_the_shim() {
    let (repo, server) = served(|options| options);
    repo.fill(20_000, &repo.commits(3));
    let mut held = Held::start(server.shim().env("REFDB_GIT", "/nonexistent").arg(repo.git_dir()));
    held.0.stdout.as_mut().unwrap().read_exact(&mut [0; 1000]).unwrap();
    drop(held.0.stdout.take());
    assert_eq!(held.end().code, 141);
}

#[test]
fn idle_clients_are_left_after_the_time_of_the_command_line() {
    let (repo, server) = served(|options| options);
    let mut held = Held::start(server.shim().arg("--timeout=1").env("REFDB_GIT", "/nonexistent").arg(repo.git_dir()));
    held.read_list();
    let input = held.0.stdin.take();
    assert_eq!(held.0.wait().unwrap().code(), Some(142));
    drop(input);
}

#[test]
fn a_client_of_version_2_may_pause_for_longer() {
    let (repo, server) = served(|options| options);
    let mut shim = server.shim();
    shim.arg("--timeout=1").env("GIT_PROTOCOL", "version=2").env("REFDB_GIT", "/nonexistent");
    let mut held = Held::start(shim.arg(repo.git_dir()));
    held.read_list();
    std::thread::sleep(Duration::from_millis(1500));
    held.send(FLUSH);
    assert_eq!(held.end().code, 0);
}

#[test]
fn git_alone_heeds_a_namespace_that_the_server_has_too() {
    let (repo, server) = served(|options| options.variable("GIT_NAMESPACE", "n"));
    let said = feed(server.shim().env("GIT_NAMESPACE", "n").arg(repo.git_dir()), FLUSH);
    let mut plain = plain_upload_pack(Git::find().program(), &server.home);
    let gits = feed(plain.env("GIT_NAMESPACE", "n").arg(repo.git_dir()), FLUSH);
    assert_eq!(masked(&said.output), masked(&gits.output));
}

#[test]
fn a_client_whose_end_does_not_block_is_waited_for() {
    let (repo, server) = served(|options| options);
    let want = repo.rev_parse("refs/heads/main");
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let end = || std::os::fd::OwnedFd::from(theirs.try_clone().unwrap());
    let mut child = server.shim().arg(repo.git_dir()).stdin(end()).stdout(end()).spawn().unwrap();
    let mut ours = ours;
    for piece in packets(&[&format!("want {want}\n"), "0000", "done\n"]).chunks(20) {
        ours.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(theirs);
    let mut said = Vec::new();
    ours.read_to_end(&mut said).unwrap();
    assert!(said.windows(4).any(|bytes| bytes == b"PACK"));
}

#[test]
fn the_clients_descriptors_stay_as_they_were() {
    let (repo, server) = served(|options| options);
    for _ in 0..2 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let flags = |end: BorrowedFd<'_>| rustix::fs::fcntl_getfl(end).unwrap();
        let before = flags(theirs.as_fd());
        let mut shim = server.shim();
        shim.arg(repo.git_dir()).env("REFDB_GIT", "/nonexistent");
        let end = || std::os::fd::OwnedFd::from(theirs.try_clone().unwrap());
        shim.stdin(end()).stdout(end());
        let mut child = shim.spawn().unwrap();
        let (mut list, mut ours) = (vec![0; 100], ours);
        ours.read_exact(&mut list).unwrap();
        assert_eq!(flags(theirs.as_fd()), before);
        ours.write_all(FLUSH).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(flags(theirs.as_fd()), before);
    }
}

/// Connects as a shim, and sends bytes with this number of descriptors. Returns what the server says.
fn raw(server: &Server, bytes: &[u8], descriptors: usize) -> Vec<u8> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut stream = UnixStream::connect(&server.shims).unwrap();
    stream.set_read_timeout(Some(at_most(Duration::from_secs(20)))).unwrap();
    let file = File::open("/dev/null").unwrap();
    let passed = vec![file.as_fd(); descriptors];
    let mut room = vec![std::mem::MaybeUninit::uninit(); 4096];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if descriptors > 0 {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&passed)));
    }
    sendmsg(&stream, &[std::io::IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => said,
    }
}

#[test]
fn malformed_requests_and_other_descriptors_end_their_connection_alone() {
    let (repo, server) = served(|options| options);
    let open = || fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    assert_eq!(feed(server.shim().arg(repo.git_dir()), FLUSH).code, 0);
    let before = open();
    let field = |text: &[u8]| [&(text.len() as u32).to_le_bytes(), text].concat();
    let other_version = field(&field(b"refdb shim 2"));
    for _ in 0..20 {
        for descriptors in [0, 1, 2, 3, 4, 8, 9, 100, 253] {
            for bytes in [&b"x"[..], b"\xff\xff\xff\xff", &[0, 0, 1, 0], &other_version, &field(b"abc")] {
                assert_eq!(raw(&server, bytes, descriptors), b"", "{bytes:?} {descriptors}");
            }
        }
    }
    let end = Instant::now() + at_most(Duration::from_secs(10));
    while open() > before + 3 {
        assert!(Instant::now() < end, "{before} descriptors were open, {} are", open());
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = feed(server.shim().env("REFDB_GIT", "/nonexistent").arg(repo.git_dir()), FLUSH);
    assert_eq!(said.code, 0, "{}", said.errors);
}

#[test]
fn the_folder_of_the_socket_is_closed_to_others() {
    let repo = exported(RefFormat::Files, HashKind::Sha1);
    let folder = repo.scratch().join("open");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_refdb-serve"));
    command.arg("--root").arg(repo.scratch()).arg("--socket").arg(folder.join("socket"));
    if rustix::process::geteuid().is_root() {
        command.args(["--user", "root"]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("mode 0700"), "{said}");
}
