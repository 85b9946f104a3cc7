//! One connection of a shim, from its request to its end.

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
            say("warning: ", format!("a connection to the socket for shims: {error}").as_bytes());
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
        // Nothing was read or written yet.
        Err(error) => {
            say("warning: ", format!("the client of a shim is left to git: {error}").as_bytes());
            Reply::Continue(HandOver::default())
        }
    };
    drop(turns);
    tell(stream, &reply).await?;
    Ok(if matches!(reply, Reply::Continue(_)) { "continued by git" } else { "served" })
}

/// Finds the repository of a request. Fails with the reason why the shim has to do the work.
fn find(server: &Server, request: &Request) -> Result<(Arc<Served>, Vec<Turn>), String> {
    let folder = request.folder.display();
    if let Some(name) = for_git_alone(&request.variables) {
        return Err(format!("the variable {} is for git alone", name.display()));
    }
    if let Some(name) = difference(&request.variables, &variables()) {
        return Err(format!("the variable {} is not the server's", name.display()));
    }
    if !server.roots.hold(&request.folder) {
        return Err(format!("{folder} is not below a folder that is served"));
    }
    let turns = turns(server, request)?;
    let text = |error: io::Error| error.to_string();
    at_disk(true, || {
        // The path may be another folder's for the server, if that sees other mounts.
        let ours = request.folder.metadata().map_err(text)?;
        // Another path could lead out of the roots.
        let is_plain = request.folder.canonicalize().map_err(text)? == request.folder;
        if !is_plain || (ours.dev(), ours.ino()) != request.folder_id {
            return Err(format!("{folder} is another folder for the server"));
        }
        let known = server.repositories.known(&request.folder);
        let served = known.map_or_else(|| server.repositories.open(&request.folder), Ok).map_err(text)?;
        if served.facts().map_err(text)?.has_grafts() {
            return Err("the repository is shallow or has grafts".into());
        }
        Ok((served, turns))
    })
}

fn turns(server: &Server, request: &Request) -> Result<Vec<Turn>, String> {
    let client = if request.address.is_empty() { "a shim" } else { &request.address };
    let busy = |_| "the server has too much to do".to_owned();
    let mut turns = server.gate.enter(client).map_err(busy)?;
    turns.push(server.gate.enter_repository(&shown(&request.folder)).map_err(busy)?);
    Ok(turns)
}
