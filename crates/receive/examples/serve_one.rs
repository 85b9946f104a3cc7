//! Answers pushes to one repository: `serve_one REPOSITORY PORT`, then `git push git://localhost:PORT/ main`.

use refdb::{Reading, Store};
use refdb_receive::{Call, Facts, Settings, delegation_reason, serve};
use refdb_vfs::Fs;
use std::{error::Error, io::Read, net::TcpListener, net::TcpStream, os::fd::AsFd};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (folder, port) = words.next().zip(words.next()).ok_or("usage: serve_one REPOSITORY PORT")?;
    let listener = TcpListener::bind(("localhost", port.parse()?))?;
    println!("listening on {}", listener.local_addr()?.port());
    for stream in listener.incoming() {
        if let Err(error) = answer(&folder, &stream?) {
            eprintln!("error: {error}");
        }
    }
    Ok(())
}

fn answer(folder: &str, mut client: &TcpStream) -> Result<(), Box<dyn Error>> {
    // The first packet, `git-receive-pack /PATH`, is of use only to a server of several repositories.
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let length = usize::from_str_radix(std::str::from_utf8(&length)?, 16)?;
    client.read_exact(&mut vec![0; length.saturating_sub(4)])?;

    let store = Store::builder(folder).reading(Reading::Cached(1 << 20)).sync(true).open()?;
    let facts = Facts::of(&Fs::real(), store.repository(), store.environment())?;
    let settings = Settings::of(store.config())?;
    if let Some(reason) = delegation_reason(&settings, &facts) {
        return Err(format!("only git can receive pushes here: {reason}").into());
    }
    let call = Call::new("git".into(), "serve_one/1".into());
    Ok(serve(&store, &settings, &call, client.as_fd(), client.as_fd())?)
}
