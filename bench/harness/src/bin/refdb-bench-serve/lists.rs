//! Measures lists of all refs, and a fetch that needs no objects.

use crate::{
    Options,
    client::{Connection, discovery, packet, post},
    daemon,
    http_backend::{self, Request},
    repository::Repository,
    rows::milliseconds,
    server::{Server, Target},
    usage,
};
use anyhow::{Result, ensure};
use std::{
    io::Write,
    thread,
    time::{Duration, Instant},
};

/// Measures a list of all refs, which version 2 asks for by a request of its own and version 0 gets with the discovery,
/// then a fetch, and the floor of a list; prints a line for each.
pub(crate) fn measure(options: &Options, server: &Server, repository: &Repository) -> Result<()> {
    const LISTS: u32 = 10;
    let name = repository.name();
    let (address, body) = (&server.target.address, all_refs());
    let gits = |version, body| match version {
        2 => Request { path: "git-upload-pack", query: "", version, body },
        _ => Request { path: "info/refs", query: "service=git-upload-pack", version, body: b"" },
    };
    let requests = [
        ("version 2", post(address, &name, "upload-pack", 2, &body), gits(2, &body)),
        ("version 0", discovery(address, &name, "upload-pack", 0), gits(0, b"")),
    ];
    let mut bytes_max = 0;
    for (version, request, gits) in requests {
        let mut connection = Connection::open(address)?;
        let began = Instant::now();
        let answer = connection.send(&request, |_| {})?;
        let cold = began.elapsed();
        bytes_max = bytes_max.max(answer.bytes as usize);
        let before = server.cpu()?;
        let (mut first, began) = (Duration::ZERO, Instant::now());
        for _ in 0..LISTS {
            first = first.max(connection.send(&request, |_| {})?.first);
        }
        let (wall, taken) = (began.elapsed() / LISTS, (server.cpu()? - before) / LISTS);
        let before = usage::of_children()?;
        http_backend::run(options, repository, &gits)?;
        let git = usage::of_children()? - before;
        println!(
            "| all refs, {version}, {:.1} MB: CPU s (wall, the first one; first byte ms) | \
             {:.3} ({:.3}, {:.3}; {:.2}) | {:.3} |",
            answer.bytes as f64 / 1e6,
            taken.as_secs_f64(),
            wall.as_secs_f64(),
            cold.as_secs_f64(),
            milliseconds(first),
            git.as_secs_f64(),
        );
    }
    fetch(options, server, repository)?;
    println!("| the same bytes by a program that only writes them: CPU s | {:.3} | |", floor(bytes_max)?);
    Ok(())
}

/// Returns the body of a request for all refs.
pub(crate) fn all_refs() -> Vec<u8> {
    let mut body = Vec::new();
    packet("command=ls-refs\n", &mut body);
    packet("object-format=sha1", &mut body);
    body.extend_from_slice(b"0001");
    packet("peel\n", &mut body);
    packet("symrefs\n", &mut body);
    body.extend_from_slice(b"0000");
    body
}

/// Lists all refs a few times, and returns the server's CPU for one list and the longest time to its first byte.
pub(crate) fn one(
    options: &Options,
    target: &Target,
    repository: &Repository,
    is_daemon: bool,
) -> Result<(Duration, Duration)> {
    const LISTS: u32 = 4;
    let (name, body) = (repository.name(), all_refs());
    let request = post(&target.address, &name, "upload-pack", 2, &body);
    let list = || -> Result<Duration> {
        let answer = if is_daemon {
            daemon::ask(&target.address, &name, &body, |_| {})?
        } else {
            Connection::open(&target.address)?.send(&request, |_| {})?
        };
        ensure!(answer.bytes > 40 * options.refs as u64, "the list has only {} bytes", answer.bytes);
        Ok(answer.first)
    };
    list()?;
    let before = target.usage.cpu()?;
    let firsts = (0..LISTS).map(|_| list()).collect::<Result<Vec<_>>>()?;
    let taken = (target.usage.cpu()? - before) / LISTS;
    Ok((taken, firsts.into_iter().max().unwrap_or_default()))
}

/// The CPU seconds of writing this number of bytes, in pieces of 64 KiB, to a socket whose other end reads them.
fn floor(bytes: usize) -> Result<f64> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let reader = thread::spawn(move || -> std::io::Result<u64> {
        let mut stream = std::net::TcpStream::connect(address)?;
        std::io::copy(&mut stream, &mut std::io::sink())
    });
    let (mut stream, _) = listener.accept()?;
    let piece = vec![b'x'; 64 << 10];
    let before = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    for written in (0..bytes).step_by(piece.len()) {
        stream.write_all(&piece[..piece.len().min(bytes - written)])?;
    }
    let after = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    drop(stream);
    reader.join().expect("the reader panicked")?;
    Ok((after.tv_sec - before.tv_sec) as f64 + (after.tv_nsec - before.tv_nsec) as f64 / 1e9)
}

/// Measures a fetch of version 0 of a commit that the client has, so that the pack is empty.
fn fetch(options: &Options, server: &Server, repository: &Repository) -> Result<()> {
    const FETCHES: u32 = 20;
    let mut body = Vec::new();
    packet(&format!("want {} ofs-delta agent=bench\n", repository.commit), &mut body);
    body.extend_from_slice(b"0000");
    packet(&format!("have {}\n", repository.commit), &mut body);
    packet("done\n", &mut body);
    let address = &server.target.address;
    let request = post(address, &repository.name(), "upload-pack", 0, &body);
    let mut connection = Connection::open(address)?;
    connection.send(&request, |_| {})?;
    let began = Instant::now();
    for _ in 0..FETCHES {
        let mut text = Vec::new();
        connection.send(&request, |piece| text.extend_from_slice(piece))?;
        ensure!(text.windows(4).any(|bytes| bytes == b"PACK"), "there is no pack");
    }
    let ours = began.elapsed() / FETCHES;
    let began = Instant::now();
    let request = Request { path: "git-upload-pack", query: "", version: 0, body: &body };
    http_backend::run(options, repository, &request)?;
    let git = began.elapsed();
    println!("| a fetch of version 0 without objects: ms | {:.1} | {:.1} |", milliseconds(ours), milliseconds(git));
    Ok(())
}
