//! git's ref commands on refdb's engine.

fn main() {}
