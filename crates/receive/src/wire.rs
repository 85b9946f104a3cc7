//! The protocol of a push, gitprotocol-pack(5), without I/O.
//!
//! A push uses, in this order: [`Offer`] (the capabilities of the server), [`Advertisement`] (the refs),
//! [`RequestReader`] (the client's commands) and [`report`] (their outcome), all in the packet lines of [`pkt`].
//! [`Limits`] bounds the memory of a request.

mod advertise;
mod command;
mod error;
mod limits;
mod offer;
mod pack_header;
pub mod pkt;
pub mod report;
mod request;
#[cfg(test)]
mod tests;
mod version;

pub use advertise::Advertisement;
pub use command::{Command, Commands};
pub use error::{Fault, ProtocolError};
pub use limits::Limits;
pub use offer::{Capabilities, Offer, ReportFormat};
pub use pack_header::{PackHeader, PackHeaderError};
pub use request::{Request, RequestReader};
pub use version::Version;
