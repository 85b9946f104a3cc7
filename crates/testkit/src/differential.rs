//! A differential test of command lines: one program's answers and changes beside real git's.
//!
//! A [`Plan`] is a repository in parts, and steps: command lines with their input. [`plan`](Plan::random) makes one up from a
//! seed. A [`Bench`] builds the repository twice, lets git do each step on one copy and the program that is tested on the
//! other, and compares what they say and what they leave ([`State`]). What differs on purpose is a [`Difference`], with its
//! reason. [`minimise`] cuts a plan that shows a difference down to what is needed for it.

mod bench;
mod difference;
mod for_each_ref;
mod generate;
mod minimise;
mod objects;
mod parts;
mod plan;
mod state;
mod update_ref;
mod vocabulary;

pub use bench::{Bench, Divergence, Ran};
pub use difference::{Difference, Left, Said};
pub use minimise::minimise;
pub use plan::{Areas, Part, Place, Plan, Step};
pub use state::{Changed, State};
