//! A tiny server of refs on this machine alone: `cargo run --example server -- REPOSITORY`. It prints its port. Each
//! line that a client sends is a refname, and each line of the answer an object id, `none`, or `error:` with a message.

use bstr::ByteSlice;
use refdb_refcache::{View, ViewSettings, Views, ViewsSettings};
use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

/// The limit on a line, which no usual refname exceeds, so that no client can make the server remember more. A longer
/// line is taken for several.
const LINE_MAX: u64 = 4096;
/// The connection to a client that sends nothing for so long is closed.
const SILENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).unwrap_or_else(|| ".git".into());
    let views = Views::new(&ViewsSettings::default());
    let view = views.open(Path::new(&path), &ViewSettings::default())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    for client in listener.incoming() {
        let view = Arc::clone(&view);
        thread::spawn(move || client.map_err(Into::into).and_then(|client| serve(client, &view)));
    }
    Ok(())
}

fn serve(client: TcpStream, view: &View) -> Result<(), Box<dyn Error + Send + Sync>> {
    client.set_read_timeout(Some(SILENCE))?;
    let mut requests = BufReader::new(client.try_clone()?);
    let mut answers = client;
    let mut line = Vec::new();
    loop {
        line.clear();
        if requests.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        match view.resolve(line.trim_end().as_bstr()).map(|resolved| resolved.found.and_then(|found| found.target.id()))
        {
            Ok(Some(id)) => writeln!(answers, "{id}")?,
            Ok(None) => writeln!(answers, "none")?,
            Err(error) => writeln!(answers, "error: {error}")?,
        }
    }
}
