//! Compares the answers and changes of a program with those of real git. [`Plan::random`] generates a repository and
//! steps from a seed. A [`Bench`] builds the repository, copies it, runs the steps with each program in one of the
//! copies, and compares the results ([`State`]). A [`Difference`] is an intended deviation and has its reason.
//! [`minimise`] reduces a plan to the steps that show a difference.

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
