//! git's ref commands on refdb's engine.

use std::{ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    // Servers call a link to the program by the name `git-receive-pack`.
    let name = words.next().map(std::path::PathBuf::from);
    let is_receive_pack = name.is_some_and(|name| name.file_name().is_some_and(|name| name == "git-receive-pack"));
    let words: Vec<OsString> = is_receive_pack.then(|| "receive-pack".into()).into_iter().chain(words).collect();
    refdb_cli::run(&words).into()
}
