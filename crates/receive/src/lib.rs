//! The server's side of a Git push: what `git receive-pack` does.
//!
//! [`wire`] is the protocol without I/O: bytes go in, values come out, and the reverse. A server
//!
//! 1. writes its refs with an [`Advertisement`](wire::Advertisement),
//! 2. reads as many bytes as a [`RequestReader`](wire::RequestReader) wants, until it holds a [`Request`](wire::Request),
//! 3. reads a [`PackHeader`](wire::PackHeader) and the pack, unless every command deletes a ref,
//! 4. answers with [`wire::report`], in a [side band](wire::pkt::band) where the client asked for one.
#![forbid(unsafe_code)]

pub mod wire;
