//! From a good and a bad commit to the first bad one. Every verdict is repeated until it is sure.
//! The parts are [`state`] (pure decisions), [`search`] (the loop), [`history`] (real commits) and [`words`] (its
//! report).

pub mod history;
pub mod search;
pub mod state;
pub mod words;
