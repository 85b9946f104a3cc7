//! `refdb receive-pack` beside git's, with git's own client; and what trouble may leave.

mod beside_git;
mod common;
mod processes;
mod trouble;
