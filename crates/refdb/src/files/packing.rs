//! Writing packed-refs.
//!
//! [`write`] makes a new file by copying what does not change. Transactions that write many refs use [`bulk`];
//! pack-refs is [`optimize`], and [`background`] does the same beside writers without keeping them waiting.

pub(super) mod background;
pub(super) mod bulk;
pub(super) mod optimize;
pub(super) mod write;
