//! Keeps what is known about a branch that is measured as it grows: [`record`] and [`ledger`] are the history on the
//! disk, and [`state`] derives from it what to do next.

pub mod ledger;
pub mod record;
pub mod state;
