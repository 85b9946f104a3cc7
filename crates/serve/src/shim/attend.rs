//! One connection of a shim, from its request to its end.

use super::{
    message::{Mode, Reply, Request},
    passed::{Direction, End, await_go, receive, tell},
    session::Session,
    variables::{difference, variables},
};
use crate::{
    gate::Turn,
    http::{Server, at_disk},
    roots::shown,
};
use arc_swap::ArcSwap;
use rustix::{fs::fstat, process::geteuid};
use std::{
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    sync::Arc,
    time::Duration,
};
use tokio::{io::AsyncReadExt, net::UnixStream, sync::watch, time::timeout};

/// How long a shim may take for its request, and to say that it leaves its client to the server.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Serves the client of a shim. The work ends at once if the shim does, because sshd waits until the last process has
/// closed the client's connection.
pub(crate) async fn attend(mut stream: UnixStream, server: Arc<ArcSwap<Server>>, is_ending: watch::Receiver<bool>) {
    let records = Arc::clone(&server.load().records);
    match serve(&mut stream, server, is_ending).await {
        Ok(answer) => records.shim(answer),
        Err(error) => {
            records.shim("failed");
            eprintln!("warning: a connection to the socket for shims: {error}");
        }
    }
}

/// Serves the client of a shim, and returns how that ended.
async fn serve(
    stream: &mut UnixStream,
    server: Arc<ArcSwap<Server>>,
    is_ending: watch::Receiver<bool>,
) -> io::Result<&'static str> {
    if stream.peer_cred()?.uid() != geteuid().as_raw() {
        tell(stream, &Reply::Declined("it belongs to another user".into())).await?;
        return Ok("foreign");
    }
    let (request, descriptors) = timeout(REQUEST_TIME, receive(stream)).await??;
    let (session, turns) = match begin(server, request, descriptors, is_ending) {
        Ok(begun) => begun,
        Err(why) => {
            tell(stream, &Reply::Declined(why)).await?;
            return Ok("declined");
        }
    };
    tell(stream, &Reply::Accepted).await?;
    timeout(REQUEST_TIME, await_go(stream)).await??;
    let reply = tokio::select! {
        reply = session.run() => reply,
        _ = stream.read_u8() => return Ok("left"),
    };
    drop(turns);
    tell(stream, &reply).await?;
    Ok(if matches!(reply, Reply::Continue(_)) { "continued by git" } else { "served" })
}

/// Begins the work for a client without touching its connection. Fails with the reason why the shim has to do it.
fn begin(
    server: Arc<ArcSwap<Server>>,
    request: Request,
    [folder, input, output]: [OwnedFd; 3],
    is_ending: watch::Receiver<bool>,
) -> Result<(Session, Vec<Turn>), String> {
    if let Some(name) = difference(&request.variables, &variables()) {
        return Err(format!("the variable {} is not the server's", name.display()));
    }
    let now = server.load_full();
    if !now.roots.hold(&request.folder) {
        return Err(format!("{} is not below a folder that is served", request.folder.display()));
    }
    if !is_folder_itself(&request, &folder).map_err(|error| error.to_string())? {
        return Err(format!("{} is another folder for the server", request.folder.display()));
    }
    let turns = turns(&now, &request)?;
    let served = at_disk(true, || match now.repositories.known(&request.folder) {
        Some(served) => Ok(served),
        None => now.repositories.open(&request.folder),
    });
    let served = served.map_err(|error| error.to_string())?;
    if at_disk(served.is_remote(), || served.facts()).map_err(|error| error.to_string())?.has_grafts() {
        return Err("the repository is shallow or has grafts".into());
    }
    let passed = |end: io::Result<End>| end.map_err(|error| format!("the client's connection: {error}"));
    let input = passed(if request.mode == Mode::Advertisement {
        // Nothing is read, and the input may be anything.
        End::new(output.try_clone().map_err(|error| error.to_string())?, Direction::Out)
    } else {
        End::new(input, Direction::In)
    })?;
    let output = passed(End::new(output, Direction::Out))?;
    Ok((Session { server, served, request, input, output, is_ending }, turns))
}

/// Returns whether the server finds the shim's folder by its path. It may not, if it sees other mounts.
fn is_folder_itself(request: &Request, folder: &OwnedFd) -> io::Result<bool> {
    let (theirs, ours) = (fstat(folder)?, request.folder.metadata()?);
    Ok((theirs.st_dev, theirs.st_ino) == (ours.dev(), ours.ino()) && ours.is_dir())
}

fn turns(server: &Server, request: &Request) -> Result<Vec<Turn>, String> {
    let client = if request.address.is_empty() { "a shim" } else { &request.address };
    let busy = |_| "the server has too much to do".to_owned();
    let mut turns = server.gate.enter(client).map_err(busy)?;
    turns.push(server.gate.enter_repository(&shown(&request.folder)).map_err(busy)?);
    Ok(turns)
}
