//! Migrations of refs to the other format: all refs are there afterwards, whatever ends the migration half-way.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod crash;
mod late;
mod late_logs;
mod random;
mod refused;
mod unchanged;
