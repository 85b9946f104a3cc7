//! gitoxide's reference types over [`refdb`]: find, iterate, peel and edit, in loose refs, packed-refs and reftables.
//!
//! Begin with [`Store::at`]. Names, values and edits are those of [`gix_ref`]; [`ReferenceExt`] follows and peels
//! references of this store.
#![forbid(unsafe_code)]

mod convert;
mod edit;
mod error;
mod iter;
mod names;
mod reference;
mod store;

/// The types of refs, names and edits.
pub use gix_ref;
/// The engine. Each [`Store`] of this crate wraps a [`refdb::Store`].
pub use refdb;

pub use bstr;
pub use edit::{Prepared, Transaction};
pub use error::{Error, Result};
pub use iter::{Iter, Platform};
pub use reference::ReferenceExt;
pub use store::Store;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
