//! `refdb-bench-hits [--quick | --shares [FILE...]]`: how often a cache of 16 MiB (2 MiB with `--quick`) hits, the real
//! store beside other policies on the same traces; or how often caches hit that have room for 1, 10 and 50 % of all
//! entries of a trace, that of a real Gerrit and those in the files.
//!
//! A rival holds as many entries as the limit has room for. The store keeps its reserves, its files and its folder
//! within the limit. The trace of Gerrit runs with room for a third of its keys instead.

mod files;
mod policies;
mod shares;
mod store;
mod traces;

use anyhow::{bail, ensure};
use policies::{Lru, Moka, Policy, Quick, S3Fifo};
use std::path::{Path, PathBuf};
use store::{ENTRY_BYTES, Store};
use traces::Trace;

const LIMIT: u64 = 16 << 20;
const QUICK_LIMIT: u64 = 2 << 20;

/// The share of hits of all requests but those that only fill the cache.
fn ratio(trace: &Trace, mut hit: impl FnMut(u64) -> anyhow::Result<bool>) -> anyhow::Result<f64> {
    let mut hits = 0;
    for (at, key) in trace.keys.iter().enumerate() {
        let found = hit(*key)?;
        hits += usize::from(found && at >= trace.warm);
    }
    Ok(hits as f64 / (trace.keys.len() - trace.warm) as f64)
}

/// The row of one trace.
fn row(trace: &Trace, room: u64, limit: u64, base: &Path) -> anyhow::Result<String> {
    let dir = tempfile::tempdir_in(base)?;
    let mut store = Store::open(dir.path(), limit)?;
    let own = ratio(trace, |key| store.get_or_put(key, ENTRY_BYTES))?;
    let du = store::du(dir.path())?;
    ensure!(du <= limit, "{du} bytes on the disk, the limit is {limit}");
    let quick = Quick::new(room, room as usize);
    let rivals: [Box<dyn Policy>; 4] =
        [Box::new(Lru::new(room)), Box::new(S3Fifo::new(room)), Box::new(Moka::of_entries(room)), Box::new(quick)];
    let mut row = format!("| {} | {own:.3}", trace.name);
    for mut rival in rivals {
        row += &format!(" | {:.3}", ratio(trace, |key| Ok(rival.get_or_put(key, 1)))?);
    }
    Ok(format!("{row} | {:.1} | {:.3} |", store.copies_a_put()?, du as f64 / limit as f64))
}

/// The share of hits in the first requests, as many as it takes to put `room` entries.
fn of_a_cache_full(found: impl Iterator<Item = bool>, room: u64) -> f64 {
    let (mut hits, mut puts) = (0, 0);
    for found in found {
        if found {
            hits += 1
        } else {
            puts += 1
        }
        if puts == room {
            break;
        }
    }
    hits as f64 / (hits + puts) as f64
}

/// The hit ratios of the last cache-full before a restart and of the first one after it.
fn restart(room: u64, limit: u64, base: &Path) -> anyhow::Result<(f64, f64)> {
    let trace = traces::restart(room);
    let dir = tempfile::tempdir_in(base)?;
    let run = |keys: &[u64]| -> anyhow::Result<Vec<bool>> {
        let mut store = Store::open(dir.path(), limit)?;
        keys.iter().map(|key| store.get_or_put(*key, ENTRY_BYTES)).collect()
    };
    let (before, after) = trace.keys.split_at(trace.warm);
    let last = of_a_cache_full(run(before)?.into_iter().rev(), room);
    Ok((last, of_a_cache_full(run(after)?.into_iter(), room)))
}

fn main() -> anyhow::Result<()> {
    let shm = PathBuf::from("/dev/shm");
    let base = if shm.is_dir() { shm } else { std::env::temp_dir() };
    let limit = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => LIMIT,
        [quick] if quick == "--quick" => QUICK_LIMIT,
        [shares, files @ ..] if shares == "--shares" => return shares::print(files, &base),
        other => bail!("{other:?} are no options; there are --quick and --shares"),
    };
    let entry_bytes = u64::from(ENTRY_BYTES);
    let room = limit / entry_bytes;
    println!("{room} entries of {ENTRY_BYTES} bytes in {} MiB, ten times as many keys\n", limit >> 20);
    println!("| trace | refdb | LRU | S3-FIFO | moka | quick_cache | refdb's copies a put | du / limit |");
    println!("|-|-|-|-|-|-|-|-|");
    for trace in traces::all(room) {
        println!("{}", row(&trace, room, limit, &base)?);
    }
    let (real, keys) = traces::gerrit()?;
    let third = keys / 3;
    println!("{}", row(&real, third, third * entry_bytes, &base)?);
    println!("\n{}: {} look-ups of {keys} keys, room for {third} of them.", real.name, real.keys.len());
    let (last, first) = restart(room, limit, &base)?;
    println!("\nThe first cache-full after a restart: {first:.3}; the last one before it: {last:.3}.");
    Ok(())
}
