//! The protocol of a push, gitprotocol-pack(5), without I/O.
//!
//! Read in this order: [`pkt`] (the frames), [`Offer`] (a server's abilities), [`Advertisement`] (its first words).
//! Then read [`RequestReader`] (the client's wishes) and [`report`] (their outcome). [`Limits`] bound memory use.

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

pub use advertise::Advertisement;
pub use command::{Command, Commands};
pub use error::{Fault, ProtocolError};
pub use limits::Limits;
pub use offer::{Capabilities, Offer, ReportFormat};
pub use pack_header::{PackHeader, PackHeaderError};
pub use request::{Request, RequestReader};
