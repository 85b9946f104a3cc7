//! Requests and answers over HTTP, as `git http-backend` makes them: git-http-backend(1), gitprotocol-http(5).

mod answer;
mod begin;
mod failure;
mod route;
mod service;

pub(crate) use answer::at_disk;
pub(crate) use service::{Peer, Server};
