//! Lists refs as `git show-ref` does, but a symbolic ref as `-> TARGET NAME`: `cargo run --example list -- REPOSITORY
//! [PREFIX]`.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: list REPOSITORY [PREFIX]");
        return ExitCode::from(2);
    };
    match list(&path, &arguments.next().unwrap_or_else(|| "refs/".into())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn list(path: &str, prefix: &str) -> refdb::Result<()> {
    for found in refdb::Store::open(path)?.refs(prefix)? {
        match found {
            Ok(found) => match found.target {
                refdb::Target::Direct(id) => println!("{id} {}", found.name),
                refdb::Target::Symbolic(target) => println!("-> {target} {}", found.name),
            },
            // One bad file hides no other ref.
            Err(error) => eprintln!("{error}"),
        }
    }
    Ok(())
}
