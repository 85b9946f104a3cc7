//! Serves one connection of a shim, from its request to its end.

use super::{
    message::{HandOver, Reply, Request},
    passed::{receive, receive_client, tell},
    session::Session,
    variables::{difference, for_git_alone, variables},
};
use crate::{
    gate::Turn,
    http::{Server, at_disk},
    repository::Served,
    roots::shown,
};
use arc_swap::ArcSwap;
use refdb::messages::say;
use rustix::process::geteuid;
use std::{io, os::unix::fs::MetadataExt, sync::Arc, time::Duration};
use tokio::{io::AsyncReadExt, net::UnixStream, sync::watch, time::timeout};

/// The time that a shim has to send its request, and again to pass its client after the server has accepted.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Serves the client of a shim. If the shim ends, the server stops serving and closes the client's connection, because
/// sshd waits until no process has the connection open.
pub(crate) async fn attend(mut stream: UnixStream, server: Arc<ArcSwap<Server>>, is_ending: watch::Receiver<bool>) {
    let records = Arc::clone(&server.load().records);
    match serve(&mut stream, server, is_ending).await {
        Ok(answer) => records.shim(answer),
        Err(error) => {
            records.shim("failed");
            say("warning: ", format!("a connection to the socket for shims failed: {error}").as_bytes());
        }
    }
}

/// Serves the client of a shim. Returns how that ended, as a label of the metric `shims`.
async fn serve(
    stream: &mut UnixStream,
    server: Arc<ArcSwap<Server>>,
    is_ending: watch::Receiver<bool>,
) -> io::Result<&'static str> {
    if stream.peer_cred()?.uid() != geteuid().as_raw() {
        tell(stream, &Reply::Declined("the process belongs to another user than the server".into())).await?;
        return Ok("foreign");
    }
    let request = timeout(REQUEST_TIME, receive(stream)).await??;
    let (served, turns) = match find(&server.load(), &request) {
        Ok(found) => found,
        Err(why) => {
            tell(stream, &Reply::Declined(why)).await?;
            return Ok("declined");
        }
    };
    tell(stream, &Reply::Accepted).await?;
    let client = timeout(REQUEST_TIME, receive_client(stream)).await??;
    let reply = match Session::new(server, served, request, client, is_ending) {
        Ok(session) => tokio::select! {
            reply = session.run() => reply,
            _ = stream.read_u8() => return Ok("left"),
        },
        // Nothing has been read or written yet, so git can serve the client from the beginning.
        Err(error) => {
            say("warning: ", format!("git serves the client of a shim: {error}").as_bytes());
            Reply::Continue(HandOver::default())
        }
    };
    drop(turns);
    tell(stream, &reply).await?;
    Ok(if matches!(reply, Reply::Continue(_)) { "continued by git" } else { "served" })
}

/// Finds the repository of a request. Fails with the reason for the shim if git has to serve the client.
fn find(server: &Server, request: &Request) -> Result<(Arc<Served>, Vec<Turn>), String> {
    let folder = request.folder.display();
    if let Some(name) = for_git_alone(&request.variables) {
        return Err(format!("only git can obey the variable {}", name.display()));
    }
    if let Some(name) = difference(&request.variables, &variables()) {
        return Err(format!("the variable {} differs from the server's", name.display()));
    }
    if !server.roots.hold(&request.folder) {
        return Err(format!("{folder} is not in a folder that the server serves"));
    }
    let turns = turns(server, request)?;
    let text = |error: io::Error| error.to_string();
    at_disk(true, || {
        // If the server sees other mounts than the shim, the path may name another folder there.
        let ours = request.folder.metadata().map_err(text)?;
        // A path through a link could lead out of the roots.
        let is_plain = request.folder.canonicalize().map_err(text)? == request.folder;
        if !is_plain || (ours.dev(), ours.ino()) != request.folder_id {
            return Err(format!("{folder} is not the same folder for the server"));
        }
        let known = server.repositories.known(&request.folder);
        let served = known.map_or_else(|| server.repositories.open(&request.folder), Ok).map_err(text)?;
        let facts = served.facts().map_err(text)?;
        if served.has_grafts(&facts) {
            return Err("the repository is shallow or has grafts".into());
        }
        Ok((served, turns))
    })
}

fn turns(server: &Server, request: &Request) -> Result<Vec<Turn>, String> {
    let client = if request.address.is_empty() { "a shim" } else { &request.address };
    let busy = |_| "the server is at one of its limits".to_owned();
    let mut turns = server.gate.enter(client).map_err(busy)?;
    turns.push(server.gate.enter_repository(&shown(&request.folder)).map_err(busy)?);
    Ok(turns)
}
