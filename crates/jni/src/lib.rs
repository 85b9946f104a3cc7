//! The bridge: refdb's engine, called from Java.
//!
//! It is thin: each entry point decodes its arguments, makes one call and encodes the answer. Bytes from Java are
//! trusted no more than bytes from a disk.
//!
//! First read `call` (the frame of every entry point) and `failure` (how an error becomes a Java exception). Then read
//! `handle` (Java's substitute for pointers), `wire` (lists packed into one array) and `buffer` (memory that Java
//! lends). A file an area follows: `library` (versions), `refs` (the ref store), `cache` (the key-value cache).

// Java finds entry points by their unmangled names; the other unsafe code is the slices in `buffer` and `call`.
#![allow(unsafe_code)]

mod buffer;
mod cache;
mod call;
mod failure;
mod handle;
mod library;
mod refs;
mod wire;

// A panic must reach Java as an exception; with `panic = "abort"` it would end the server.
#[cfg(not(panic = "unwind"))]
compile_error!("refdb-jni must be built with panic = \"unwind\"");
