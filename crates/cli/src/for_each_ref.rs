//! `refdb for-each-ref`. See git-for-each-ref(1).

pub mod atom;
pub mod color;
pub mod format;
pub mod object;
pub mod quote;
pub mod render;
pub mod world;
