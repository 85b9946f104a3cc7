//! git's ref commands on refdb's engine.

use std::{ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    // Servers call links to the program by the names `git-receive-pack` and `git-upload-pack`.
    let name = words.next().map(std::path::PathBuf::from);
    let name = name.as_ref().and_then(|name| name.file_name()?.to_str()?.strip_prefix("git-"));
    let service = name.filter(|name| ["receive-pack", "upload-pack"].contains(name)).map(OsString::from);
    let words: Vec<OsString> = service.into_iter().chain(words).collect();
    refdb_cli::run(&words).into()
}
