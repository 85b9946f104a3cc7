//! Sessions: encrypted on disk, a logout that survives a loss of power, and a change of the key.
//!
//! ```text
//! cargo run --release -p refdb-kvcache --example secrets -- FOLDER
//! ```

use refdb_kvcache::{Cache, Durability, Key, Options, PutOptions};
use std::{env, error::Error, path::Path, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1).ok_or("usage: secrets FOLDER")?;
    run(Path::new(&folder))?;
    println!("one session is left, and the key was changed");
    Ok(())
}

/// Logs two users in and one out, then opens the cache with another key.
pub fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    // A real program reads 32 random bytes from where it keeps its secrets.
    let (old, new) = (Key::new([1; 32]), Key::new([2; 32]));
    let durable = PutOptions::new().durability(Durability::Synced);
    {
        let sessions = Cache::open(folder, options(&old, &[]))?;
        sessions.put_with(b"cookie of anna", b"account 1", durable)?;
        sessions.put_with(b"cookie of ben", b"account 2", durable)?;
        // When this returns, nobody is logged in with the cookie again, whatever happens to the machine.
        sessions.remove_with(b"cookie of ben", Durability::Synced)?;
        sessions.close()?;
    }
    // With the new key alone the cache would start empty, and `notices` would say why.
    let sessions = Cache::open(folder, options(&new, std::slice::from_ref(&old)))?;
    assert_eq!(sessions.get(b"cookie of anna").map(|found| found.value), Some(b"account 1".to_vec()));
    assert!(sessions.get(b"cookie of ben").is_none());
    Ok(sessions.close()?)
}

fn options(key: &Key, old_keys: &[Key]) -> Options {
    Options::new(16 << 20).key(key.clone()).old_keys(old_keys).max_age(Duration::from_secs(12 * 3600))
}
