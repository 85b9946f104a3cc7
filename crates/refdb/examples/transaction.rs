//! Moves a branch to where another is, and says why it could not:
//! `cargo run --example transaction -- REPOSITORY FROM TO`.

use refdb::{Error, Precondition, Rejection, RejectionReason, Store, was};
use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [path, from, to] = &arguments[..] else {
        eprintln!("usage: transaction REPOSITORY FROM TO");
        return ExitCode::from(2);
    };
    match move_to(path, from, to) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Rejected(rejection)) => {
            eprintln!("{}", advice(&rejection));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn move_to(path: &str, from: &str, to: &str) -> refdb::Result<()> {
    let store = Store::open(path)?;
    let Some(new) = store.id_of(from)? else {
        println!("{from} leads to no object");
        return Ok(());
    };
    let expected = store.id_of(to)?.map_or(Precondition::MustNotExist, was);
    let mut tx = store.transaction();
    tx.update(to, new, expected).message(format!("moved to {from}"));
    let prepared = tx.prepare()?;
    // Here the ref is locked and every check has passed: the place to ask others.
    prepared.commit()?;
    println!("{to} is at {new}");
    Ok(())
}

/// What to tell a person about a rejection. Its reason is a value, so no text has to be taken apart.
fn advice(rejection: &Rejection) -> String {
    match &rejection.reason {
        RejectionReason::Mismatch { .. } | RejectionReason::Exists { .. } | RejectionReason::Missing => {
            format!("{rejection}: someone was quicker; try again")
        }
        RejectionReason::Locked { age_seconds, .. } if *age_seconds > 60 => {
            format!("{rejection}: remove the lock if nobody works here")
        }
        _ => rejection.to_string(),
    }
}
