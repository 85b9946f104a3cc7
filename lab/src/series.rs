//! Finds the commits at which the cost of a program changed, with pure functions over a series of commits that were
//! measured one after the other. [`detector`] decides when a series has changed and since when, and [`levels`] what a
//! change means in the light of earlier ones. docs/decisions/0108-a-watch-bets-on-every-start.md explains the method.

pub mod detector;
pub mod levels;
