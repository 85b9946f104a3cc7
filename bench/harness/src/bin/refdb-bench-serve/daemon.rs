//! A client of `git daemon`: gitprotocol-pack(5), "Git Transport".

use crate::client::{Answer, PATIENCE, packet};
use anyhow::{Context, Result, ensure};
use std::{
    io::{BufReader, Read, Write},
    net::TcpStream,
    time::Instant,
};

/// Asks `git upload-pack` of version 2 for its capabilities over a new connection, and then sends it a request over the
/// same one. The lines of the second answer are passed to `line`.
pub(crate) fn ask(address: &str, repository: &str, request: &[u8], mut line: impl FnMut(&[u8])) -> Result<Answer> {
    let mut stream = TcpStream::connect(address).context("cannot connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut greeting = Vec::new();
    packet(&format!("git-upload-pack /{repository}\0host={address}\0\0version=2\0"), &mut greeting);
    stream.write_all(&greeting)?;
    let mut input = BufReader::with_capacity(1 << 16, stream.try_clone()?);
    read_lines(&mut input, |_| {})?;
    let began = Instant::now();
    stream.write_all(request)?;
    let (mut bytes, mut first) = (0, None);
    read_lines(&mut input, |content| {
        first.get_or_insert_with(|| began.elapsed());
        bytes += content.len() as u64 + 4;
        line(content);
    })?;
    Ok(Answer { status: 200, bytes, first: first.unwrap_or_default() })
}

/// Reads lines to the flush packet.
fn read_lines(input: &mut impl Read, mut line: impl FnMut(&[u8])) -> Result<()> {
    let (mut length, mut content) = ([0; 4], Vec::new());
    loop {
        input.read_exact(&mut length)?;
        let length = usize::from_str_radix(str::from_utf8(&length)?, 16)?;
        if length == 0 {
            return Ok(());
        }
        ensure!(length >= 4, "an unknown packet");
        content.resize(length - 4, 0);
        input.read_exact(&mut content)?;
        line(&content);
    }
}
