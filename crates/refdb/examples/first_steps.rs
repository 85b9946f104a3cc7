//! Makes, moves and lists refs, in memory. With a folder it lists the refs of the repository there, and changes none:
//! `cargo run --example first_steps -- REPOSITORY`.

use refdb::{Error, HashKind, ObjectId, Store, Target, was};

fn main() -> refdb::Result<()> {
    let store = match std::env::args_os().nth(1) {
        Some(folder) => Store::open(folder)?,
        None => in_memory()?,
    };
    for found in store.refs("refs/")? {
        let found = found?;
        match found.target {
            Target::Direct(id) => println!("{id} {}", found.name),
            Target::Symbolic(target) => println!("-> {target} {}", found.name),
        }
    }
    Ok(())
}

/// A store without a repository, with a branch that moved and a tag.
pub fn in_memory() -> refdb::Result<Store> {
    let store = Store::in_memory();
    let [old, new] = [1, 2].map(|byte| ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).expect("an id has 20 bytes"));
    let mut tx = store.transaction();
    tx.create("refs/heads/main", old).create("refs/tags/v1", old).message("made");
    tx.commit()?;

    let mut tx = store.transaction();
    tx.update("refs/heads/main", new, was(old)).message("moved");
    tx.commit()?;

    let mut late = store.transaction();
    late.update("refs/heads/main", old, was(old));
    assert!(matches!(late.commit(), Err(Error::Rejected(_))), "the branch has moved");
    Ok(store)
}
