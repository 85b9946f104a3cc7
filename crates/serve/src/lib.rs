//! `refdb serve`: a resident Git server over HTTP, and for processes that ssh and others start.
//!
//! A poll (discovery and `ls-refs`) is answered from the views of `refdb-refcache`, which prove each answer fresh. Real
//! `git upload-pack` is started when a client fetches objects; a push is received by `refdb-receive`.
//!
//! ```text
//! options, settings    the command line; the file of `serve.*` settings
//! roots, service       which repository a path names; the services of git's protocol
//! repository/          a served repository: its view, and what its configuration says, as fresh as the files
//! upload/              upload-pack without objects: capabilities, `ls-refs`, the advertisement of versions 0 and 1
//! program              git's programs, whose input and output are the bodies of a request and its answer
//! push, upkeep         pushes, which threads of the server receive; git's maintenance after them
//! inflow               the body of a request
//! gate                 whether a request may be served: its user, the authorizer, rates and numbers of requests
//! http/                requests and answers, as `git http-backend` makes them
//! shim/                the socket through which processes of sshd, git daemon and CGI pass their clients on
//! listen               sockets, connections, signals
//! record               counters, and the access log
//! ```
#![forbid(unsafe_code)]

mod gate;
mod http;
mod inflow;
mod listen;
mod options;
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
    /// Returns a request of a shim encoded again, and `None` if it is none.
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

use refdb::messages::say;
use std::process::ExitCode;

/// Does what the command line asks for: serves until a signal ends the process, or shows the state of a running server.
/// Returns the exit code of the process: 0 if all went well, as after SIGTERM or SIGINT, and 1 if not.
pub fn run(wanted: &Wanted) -> ExitCode {
    let done = match wanted {
        Wanted::Serve(options) => listen::serve(options).map_err(|error| error.to_string()),
        Wanted::Status(address) => listen::show_status(*address).map_err(|error| error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say("fatal: ", error.to_string().as_bytes());
            ExitCode::FAILURE
        }
    }
}
