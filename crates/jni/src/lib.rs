//! The native half of the Java module `engine`: refdb's refs and key-value cache, called through JNI.
//!
//! Each entry point decodes its arguments, calls the engine and encodes the answer. Bytes from Java are trusted no more
//! than bytes from a disk.
//!
//! Reading order: `call` (the frame of every entry point), `failure` (how an error becomes a Java exception), `handle`
//! (the numbers by which Java refers to open objects), `wire` (requests and answers in one array), `buffer` (memory
//! that Java lends), and then one file for each area: `library` (versions), `refs` (repositories), `cache` (the
//! key-value cache).

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
