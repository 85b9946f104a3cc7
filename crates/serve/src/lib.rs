//! `refdb serve`: a resident Git server that speaks HTTP, and takes over the clients of processes that sshd, git daemon
//! and CGI programs start.
//!
//! The server answers most polls of fetches (discovery and `ls-refs`) from caches of refs, the views of
//! `refdb-refcache`. A view checks before each answer, as the trust settings demand, whether refs have changed on disk.
//! When a client fetches objects over HTTP, the server starts real `git upload-pack`; `refdb-receive` receives pushes.
//!
//! ```text
//! options, settings    the command line; the file of `serve.*` settings
//! roots, service       finds the repository that a path names; the services of git's protocol
//! repository/          a served repository: its view, and its configuration, read again when a file changes
//! upload/              upload-pack without objects: capabilities, `ls-refs`, advertisements of versions 0 and 1, wants
//! program              runs git's programs; their input and output are the bodies of a request and its response
//! push, upkeep         receives pushes in threads of the server; runs git's maintenance after them
//! inflow               reads the body of a request
//! gate/                admits requests: the authorizer, rates, limits on concurrent requests
//! http/                git's smart HTTP protocol, as `git http-backend` serves it
//! shim/                the socket through which processes of sshd, git daemon and CGI pass their clients on
//! listen/              sockets, connections, signals
//! record/, cpu         counters; the access log, with the processor time of each request; messages on standard error
//! ```
#![forbid(unsafe_code)]

mod cpu;
mod gate;
mod http;
mod inflow;
mod listen;
mod options;
mod pieces;
mod program;
mod push;
mod record;
mod repository;
mod roots;
mod service;
mod settings;
pub mod shim;
mod upkeep;
mod upload;

pub use options::{Options, Wanted, command};

/// The parsers of what clients send, for fuzz targets.
#[doc(hidden)]
pub mod parsers {
    /// Decodes a request of a shim and encodes it again. Returns `None` if the bytes are not such a request.
    pub fn shim_request(body: &[u8]) -> Option<Vec<u8>> {
        crate::shim::Request::decode(body).ok().map(|request| request.encode())
    }

    pub use crate::{
        roots::decode,
        upload::{
            ls_refs::{LsRefs, Progress, RequestReader},
            wants::{Wants, WantsReader},
        },
    };
}

use prometheus_client::metrics::counter::Counter;
use refdb::messages::say;
use std::{fmt::Display, process::ExitCode, time::Duration};

/// Does what the command line asks for: serves until SIGTERM or SIGINT, or prints the state of a running server.
/// Returns the exit code of the process: 0 on success, also after these signals, and 1 if the server cannot start or
/// fails, or if its state cannot be fetched or printed. A server passes the messages and panics of the process to
/// a thread that writes them to standard error.
pub fn run(wanted: &Wanted) -> ExitCode {
    match wanted {
        Wanted::Status(address) => exit_code(listen::show_status(*address)),
        Wanted::Serve(options) => {
            let messages_lost = Counter::default();
            match record::Log::of_messages(messages_lost.clone()) {
                Ok(messages) => {
                    let code = exit_code(listen::serve(options, messages_lost));
                    messages.await_written(Duration::from_secs(1));
                    code
                }
                Err(error) => exit_code(Err(error)),
            }
        }
    }
}

/// Prints the error, if there is one.
fn exit_code(done: Result<(), impl Display>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say("fatal: ", error.to_string().as_bytes());
            ExitCode::FAILURE
        }
    }
}
