//! Stacks as a store can write them: real git and JGit list the same refs and reflogs, and nothing is missing after
//! either of them has rewritten the stack. Also tables as older versions wrote them, of which git may not see every
//! ref.

#![allow(clippy::unwrap_used, reason = "a test may fail in its helpers too")]

mod common;
#[path = "interop_stacks/grid.rs"]
mod grid;
#[path = "interop_stacks/old.rs"]
mod old;
#[path = "interop_stacks/others.rs"]
mod others;
#[path = "interop_stacks/random.rs"]
mod random;
