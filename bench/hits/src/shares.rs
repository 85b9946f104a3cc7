//! Caches with room for a share of all entries of a trace.

use crate::{
    files::{self, Requests},
    policies::{Foyer, Lru, Moka, Policy, Quick, S3Fifo, Sieve},
    store::{self, ENTRY_BYTES, Store},
    traces,
};
use anyhow::ensure;
use std::path::Path;

/// The rooms, in percent of all entries.
const SHARES: [u64; 3] = [1, 10, 50];
/// The smallest limit of the real store: a smaller one would consist of reserves. The entries are made larger instead.
const LEAST_LIMIT: u64 = 16 << 20;

/// The share of all requests, or of the bytes that they ask for, that hit.
#[derive(Default)]
struct Ratios {
    requests: u64,
    request_hits: u64,
    bytes: u64,
    byte_hits: u64,
}

impl Ratios {
    fn of(trace: &Requests, mut hit: impl FnMut(u64, u32) -> anyhow::Result<bool>) -> anyhow::Result<Self> {
        let mut ratios = Ratios::default();
        for key in &trace.keys {
            let size = trace.sizes.get(*key as usize).copied().unwrap_or(1);
            let found = hit(*key, size)?;
            ratios.requests += 1;
            ratios.bytes += u64::from(size);
            if found {
                ratios.request_hits += 1;
                ratios.byte_hits += u64::from(size);
            }
        }
        Ok(ratios)
    }

    fn cell(&self, with_bytes: bool) -> String {
        let requests = format!("{:.3}", self.request_hits as f64 / self.requests as f64);
        match with_bytes {
            true => format!("{requests} / {:.3}", self.byte_hits as f64 / self.bytes as f64),
            false => requests,
        }
    }
}

/// Prints a table of the trace of a real Gerrit and those in `files`.
pub fn print(files: &[String], base: &Path) -> anyhow::Result<()> {
    println!(
        "| trace | requests | keys | room, % | refdb | LRU | S3-FIFO | SIEVE | moka | foyer | quick_cache | no limit |"
    );
    println!("|-|-|-|-|-|-|-|-|-|-|-|-|");
    let gerrit = traces::gerrit()?.0;
    rows(gerrit.name, &Requests { keys: gerrit.keys, sizes: Vec::new() }, base)?;
    for file in files {
        let path = Path::new(file);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        rows(name.split('.').next().unwrap_or_default(), &files::read(path)?, base)?;
    }
    Ok(())
}

fn rows(name: &str, trace: &Requests, base: &Path) -> anyhow::Result<()> {
    ensure!(!trace.keys.is_empty(), "{name} has no requests");
    let keys = trace.distinct();
    let with_bytes = !trace.sizes.is_empty();
    let all = if with_bytes { trace.sizes.iter().map(|size| u64::from(*size)).sum() } else { keys };
    let mut seen = vec![false; keys as usize];
    let no_limit = Ratios::of(trace, |key, _| Ok(std::mem::replace(&mut seen[key as usize], true)))?.cell(with_bytes);
    for share in SHARES {
        let room = (all * share / 100).max(1);
        let entries = (keys * share / 100).max(1) as usize;
        let mut row = format!("| {name} | {} | {keys} | {share} | ", trace.keys.len());
        row += &of_store(trace, room, base)?.cell(with_bytes);
        let rivals: [Box<dyn Policy>; 6] = [
            Box::new(Lru::new(room)),
            Box::new(S3Fifo::new(room)),
            Box::new(Sieve::new(room)),
            Box::new(if with_bytes { Moka::of_costs(room) } else { Moka::of_entries(room) }),
            Box::new(Foyer::new(room)),
            Box::new(Quick::new(room, entries)),
        ];
        for mut rival in rivals {
            let ratios = Ratios::of(trace, |key, size| Ok(rival.get_or_put(key, size)))?;
            row += &format!(" | {}", ratios.cell(with_bytes));
        }
        println!("{row} | {no_limit} |");
    }
    Ok(())
}

/// The hits of the real store. `room` is a number of units; an entry takes as many units as its size, or one unit if
/// the trace has no sizes.
fn of_store(trace: &Requests, room: u64, base: &Path) -> anyhow::Result<Ratios> {
    let least_unit = if trace.sizes.is_empty() { u64::from(ENTRY_BYTES) } else { 1 };
    // A multiple of 16, so that records of one size need no padding.
    let unit = least_unit.max(LEAST_LIMIT.div_ceil(room).next_multiple_of(16));
    let unit = if room * least_unit >= LEAST_LIMIT { least_unit } else { unit };
    let limit = room * unit;
    let dir = tempfile::tempdir_in(base)?;
    let mut store = Store::open(dir.path(), limit)?;
    let ratios = Ratios::of(trace, |key, size| store.get_or_put(key, u32::try_from(u64::from(size) * unit)?))?;
    let du = store::du(dir.path())?;
    ensure!(du <= limit, "{du} bytes on the disk, the limit is {limit}");
    Ok(ratios)
}
