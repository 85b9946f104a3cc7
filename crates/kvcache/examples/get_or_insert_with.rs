//! A slow function whose results outlive the process. Run it twice: the second run computes nothing.
//!
//! ```text
//! cargo run --release -p refdb-kvcache --example get_or_insert_with -- FOLDER
//! ```

use refdb_kvcache::{Cache, Options};
use std::{convert::Infallible, env, error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1).ok_or("usage: get_or_insert_with FOLDER")?;
    let computed = run(Path::new(&folder))?;
    println!("computed {computed} of 20 results");
    Ok(())
}

/// Asks for 20 results; returns how many had to be computed.
pub fn run(folder: &Path) -> Result<u32, Box<dyn Error>> {
    let cache = Cache::open(folder, Options::new(64 << 20))?;
    let mut computed = 0;
    for n in 0..20_u64 {
        let steps = cache.get_or_insert_with(&n.to_le_bytes(), || {
            computed += 1;
            Ok::<_, Infallible>(collatz_steps(n + 1).to_le_bytes().to_vec())
        })?;
        assert_eq!(steps, collatz_steps(n + 1).to_le_bytes());
    }
    cache.close()?; // dropping it does the same, but tells of no error
    Ok(computed)
}

/// Stands for something slow.
fn collatz_steps(mut n: u64) -> u64 {
    let mut steps = 0;
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}
