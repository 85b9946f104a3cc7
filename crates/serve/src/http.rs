//! Git's smart HTTP protocol, as `git http-backend` serves it; see git-http-backend(1) and gitprotocol-http(5).

mod answer;
mod begin;
mod failure;
mod route;
mod service;

pub(crate) use answer::at_disk;
pub(crate) use service::{Peer, Server};
