//! One program's answers and changes beside real git's. [`Plan::random`] makes up a repository and steps from a seed. A
//! [`Bench`] builds it twice, does the steps with each program and compares ([`State`]). A [`Difference`] is on purpose
//! and has its reason. [`minimise`] cuts a plan down to the steps that show a difference.

mod bench;
mod difference;
mod for_each_ref;
mod generate;
mod lists;
mod minimise;
mod objects;
mod parts;
mod plan;
mod reflogs;
mod refs;
mod state;
mod surroundings;
mod update_ref;
mod vocabulary;

pub use bench::{Bench, Divergence, Ran};
pub use difference::{Difference, Left, Said};
pub use minimise::minimise;
pub use plan::{Areas, Part, Place, Plan, Step};
pub use state::{Changed, State};
