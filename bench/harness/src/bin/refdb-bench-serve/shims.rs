//! Measures what sshd or git daemon starts for a client: `refdb upload-pack`, which passes the client on to the server,
//! beside `git upload-pack`.

use crate::{
    Options, client::ls_refs, lists::all_refs, polls::BRANCH, repository::Repository, rows::milliseconds,
    server::Server, usage,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs::Permissions,
    io::{Read, Write},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Measures polls and lists of all refs through the server's socket, and prints a line for each.
pub(crate) fn measure(options: &Options, root: &Path, repository: &Repository) -> Result<()> {
    // The server insists that nobody else can reach the socket.
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir()?;
    let socket = folder.path().join("socket");
    let server = Server::start_with(options, root, |command| {
        clean(command.arg("--socket").arg(&socket));
    })?;
    let until = Instant::now() + Duration::from_secs(10);
    while !socket.exists() {
        ensure!(Instant::now() < until, "the server does not listen for upload-pack");
        thread::sleep(Duration::from_millis(10));
    }
    let shim = || {
        let mut command = Command::new(options.serve.with_file_name("refdb"));
        // A client that the server declines fails.
        command.env("REFDB_SERVE_SOCKET", &socket).env("REFDB_GIT", "/nowhere");
        command
    };
    let git = || Command::new(&options.git);
    for (name, request, count, length_min) in
        [("a poll", ls_refs(BRANCH), 200, 40), ("all refs", all_refs(), 5, 40 * options.refs)]
    {
        let ask = |program: &dyn Fn() -> Command| {
            let before = usage::of_children()? + server.cpu()?;
            let began = Instant::now();
            for _ in 0..count {
                let length = run(program(), repository, &request)?;
                ensure!(length > length_min, "the answer has only {length} bytes");
            }
            let wall = began.elapsed() / count;
            anyhow::Ok((wall, (usage::of_children()? + server.cpu()? - before) / count))
        };
        ask(&shim)?;
        let [ours, gits] = [ask(&shim)?, ask(&git)?];
        let shown = |(wall, cpu): (Duration, Duration)| format!("{:.2} ({:.2})", milliseconds(wall), milliseconds(cpu));
        println!("| {name} as over ssh, ms (CPU, ms) | {} | {} |", shown(ours), shown(gits));
    }
    Ok(())
}

/// Lets a program serve a client that sends one request of version 2, and returns how much it says.
fn run(mut command: Command, repository: &Repository, request: &[u8]) -> Result<usize> {
    command.arg("upload-pack").arg(&repository.path).env("GIT_PROTOCOL", "version=2");
    clean(&mut command);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot run upload-pack")?;
    let (mut input, mut output) =
        child.stdin.take().zip(child.stdout.take()).context("the program has no input or output")?;
    input.write_all(request)?;
    input.write_all(b"0000")?;
    drop(input);
    let (mut piece, mut length) = (vec![0; 1 << 16], 0);
    loop {
        match output.read(&mut piece)? {
            0 => break,
            read => length += read,
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "upload-pack: {status}");
    Ok(length)
}

/// Removes the variables that git obeys, but for its settings, because the server leaves clients that have them to git.
fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_bytes();
        if bytes.starts_with(b"GIT_") && !bytes.starts_with(b"GIT_CONFIG") {
            command.env_remove(name);
        }
    }
}
