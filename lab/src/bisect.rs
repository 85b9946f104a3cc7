//! Finds the first bad commit between a good and a bad one, and runs commits until each verdict is certain or the
//! permitted number of runs is reached. The parts are [`rounds`] (measurements), [`state`] (pure decisions), [`search`]
//! (the loop), [`history`] (real commits) and [`words`] (the report).

pub mod history;
pub mod rounds;
pub mod search;
pub mod state;
pub mod words;
