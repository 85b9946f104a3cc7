//! Finds the first bad commit between a good and a bad one, and repeats every verdict until it is certain. The parts
//! are [`rounds`] (measurements), [`state`] (pure decisions), [`search`] (the loop), [`history`] (real commits) and
//! [`words`] (the report).

pub mod history;
pub mod rounds;
pub mod search;
pub mod state;
pub mod words;
