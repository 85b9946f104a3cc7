//! refdb-kvcache beside other Rust stores, on the workloads by which those measure themselves. Prints tables.
//!
//! ```text
//! refdb-bench-rivals-kv FOLDER [--quick] [NAME...]
//! ```
//!
//! A database's: load small entries, read them at random, overwrite them. A hybrid cache's: read through, zipfian, with
//! a disk limit of a quarter of the requested entries. A memory cache's: few small entries, all of them hot.

mod stores;

use anyhow::{Context, Result, ensure};
use refdb_bench::kv::{
    histogram::Histogram,
    workload::{Draws, Zipf, mix},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use stores::{Bounds, NAMES, Store, open};

fn main() -> Result<()> {
    let mut args = env::args().skip(1);
    let dir = PathBuf::from(args.next().context("usage: refdb-bench-rivals-kv FOLDER [--quick] [NAME...]")?);
    let (flags, mut names): (Vec<String>, Vec<String>) = args.partition(|arg| arg.starts_with("--"));
    ensure!(flags.iter().all(|flag| flag == "--quick"), "the only flag is --quick");
    if names.is_empty() {
        names = NAMES.map(str::to_owned).to_vec();
    }
    let scale = if flags.is_empty() { 1 } else { 20 };
    database(&dir, &names, 500_000 / scale, Duration::from_secs(10) / scale as u32)?;
    hybrid(&dir, &names, 400_000 / scale, (256 << 20) / scale, Duration::from_secs(20) / scale as u32)?;
    memory(&dir, &names, 10_000, Duration::from_secs(5) / scale as u32)
}

/// The key of the entry `number`, whose value ([`value`]) begins with that number.
fn key(number: u64) -> [u8; 24] {
    let mut key = [0; 24];
    for (part, chunk) in key.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&mix(number ^ ((part as u64) << 56)).to_le_bytes());
    }
    key
}

fn value(number: u64, len: usize) -> Vec<u8> {
    let mut value = vec![0; len];
    for (at, chunk) in value.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&mix(number.wrapping_add(at as u64)).to_le_bytes()[..chunk.len()]);
    }
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

fn is_right(found: &[u8], number: u64, len: usize) -> bool {
    found.len() == len && found[..8] == number.to_le_bytes()
}

/// What threads did in some time.
#[derive(Default)]
struct Done {
    times: Histogram,
    hits: u64,
    seconds: f64,
    processor: Duration,
}

impl Done {
    fn rate(&self) -> f64 {
        self.times.count() as f64 / self.seconds / 1000.0
    }

    fn cells(&self) -> String {
        let us = |share| self.times.quantile_us(share);
        let each = self.processor.as_secs_f64() * 1e6 / self.times.count().max(1) as f64;
        format!("{:.0} | {:.2} | {:.2} | {:.2} | {each:.2}", self.rate(), us(0.5), us(0.99), us(0.999))
    }
}

const COLUMNS: &str = "kop/s | p50 us | p99 us | p99.9 us | processor us an operation";

/// Runs `step` again and again on some threads for a while. `step` returns whether it hit.
fn timed(threads: u64, time: Duration, step: impl Fn(&mut Draws, &mut Vec<u8>) -> Result<bool> + Sync) -> Result<Done> {
    let (start, processor) = (Instant::now(), processor_time());
    let parts = thread::scope(|scope| {
        let run = |thread: u64| {
            let step = &step;
            scope.spawn(move || {
                let (mut draws, mut buffer) = (Draws::new(mix(thread)), Vec::new());
                let mut done = Done::default();
                while start.elapsed() < time {
                    let before = Instant::now();
                    done.hits += u64::from(step(&mut draws, &mut buffer)?);
                    done.times.add(before.elapsed().as_nanos() as u64);
                }
                anyhow::Ok(done)
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().map(|thread| thread.join().expect("a thread does not panic")).collect::<Vec<_>>()
    });
    let mut total = Done::default();
    for part in parts {
        let part = part?;
        total.times.merge(&part.times);
        total.hits += part.hits;
    }
    total.seconds = start.elapsed().as_secs_f64();
    total.processor = processor_time() - processor;
    Ok(total)
}

/// Opens each library in a new folder, does `work` with it, prints the error if there was one, and removes the folder.
fn each(
    dir: &Path,
    names: &[String],
    bounds: Bounds,
    mut work: impl FnMut(&str, Box<dyn Store>, &Path) -> Result<()>,
) -> Result<()> {
    for name in names {
        let place = dir.join("store");
        let outcome = open(name, &place, bounds).and_then(|store| work(name, store, &place));
        fs::remove_dir_all(&place)?;
        if let Err(error) = outcome {
            println!("| {name} | failed: {error:#} |");
        }
    }
    println!();
    Ok(())
}

/// The workload of redb and fjall: small entries, all of them kept.
fn database(dir: &Path, names: &[String], entries: u64, time: Duration) -> Result<()> {
    const LEN: usize = 150;
    println!("A database's: {entries} entries of 24 and {LEN} bytes, memory for a tenth of them.\n");
    println!("| | job | {COLUMNS} | MB of files |\n|-|-|-|-|-|-|-|-|");
    let bytes = entries * (24 + LEN as u64);
    each(dir, names, Bounds { disk: 4 * bytes, memory: bytes / 10 }, |name, store, place| {
        if name == "moka + files" {
            println!("| {name} | not run: a file for each small entry |");
            return Ok(());
        }
        let (start, processor) = (Instant::now(), processor_time());
        store.load(&mut (0..entries).map(|n| (key(n).to_vec(), value(n, LEN))))?;
        let (seconds, processor) = (start.elapsed().as_secs_f64(), processor_time() - processor);
        let processor = processor.as_secs_f64() * 1e6 / entries as f64;
        println!("| {name} | load | {:.0} | | | | {processor:.2} | |", entries as f64 / seconds / 1000.0);
        for threads in [1, 4] {
            let read = timed(threads, time, |draws, buffer| {
                let number = draws.draw() % entries;
                let hit = store.get(&key(number), buffer)?;
                ensure!(!hit || is_right(buffer, number, LEN), "{name} gave a wrong value");
                Ok(hit)
            })?;
            let missing = read.times.count() - read.hits;
            let note = if missing > 0 { format!(", {missing} not found") } else { String::new() };
            println!("| {name} | random reads, {threads} threads{note} | {} | |", read.cells());
        }
        let written = timed(1, time, |draws, _| {
            let number = draws.draw() % entries;
            store.put(&key(number), &value(number, LEN)).map(|()| true)
        })?;
        println!("| {name} | random overwrites | {} | {} |", written.cells(), disk_mb(place)?);
        let start = Instant::now();
        store.close()?;
        let closed = start.elapsed();
        let store = open(name, place, Bounds { disk: 4 * bytes, memory: bytes / 10 })?;
        let mut buffer = Vec::new();
        let found = store.get(&key(entries / 2), &mut buffer)?;
        let opened = start.elapsed() - closed;
        println!(
            "| {name} | close {closed:.0?}, open and first read {opened:.0?}{} |",
            if found { "" } else { ", a miss" }
        );
        store.close()
    })
}

/// The workload of foyer: larger entries, read through, more than fit.
fn hybrid(dir: &Path, names: &[String], numbers: u64, disk: u64, time: Duration) -> Result<()> {
    let len = |number: u64| 512 + (mix(number) % 7680) as usize;
    println!(
        "A hybrid cache's: {numbers} keys, values of 0.5 to 8 KiB, zipfian 0.99, a miss is put; {} MiB of disk, an",
        disk >> 20
    );
    println!("eighth of it in memory, 4 threads. A database knows no limit: it keeps everything.\n");
    println!("| | {COLUMNS} | hits, second half | MB of files |\n|-|-|-|-|-|-|-|-|");
    let zipf = Zipf::new(numbers);
    each(dir, names, Bounds { disk, memory: disk / 8 }, |name, store, place| {
        let step = |draws: &mut Draws, buffer: &mut Vec<u8>| {
            let number = zipf.key(draws);
            let hit = store.get(&key(number), buffer)?;
            if hit {
                ensure!(is_right(buffer, number, len(number)), "{name} gave a wrong value");
            } else {
                store.put(&key(number), &value(number, len(number)))?;
            }
            Ok(hit)
        };
        timed(4, time / 2, step)?;
        let done = timed(4, time / 2, step)?;
        let hits = done.hits as f64 / done.times.count() as f64;
        println!("| {name} | {} | {hits:.3} | {} |", done.cells(), disk_mb(place)?);
        store.close()
    })
}

/// The workload of moka: everything is hot and small.
fn memory(dir: &Path, names: &[String], entries: u64, time: Duration) -> Result<()> {
    const LEN: usize = 100;
    println!("A memory cache's: {entries} entries of 24 and {LEN} bytes, memory for all, zipfian 0.99, reads only.\n");
    println!("| | threads | {COLUMNS} |\n|-|-|-|-|-|-|-|");
    let zipf = Zipf::new(entries);
    each(dir, names, Bounds { disk: 256 << 20, memory: 64 << 20 }, |name, store, _| {
        store.load(&mut (0..entries).map(|n| (key(n).to_vec(), value(n, LEN))))?;
        for threads in [1, 4] {
            let done = timed(threads, time, |draws, buffer| {
                let number = zipf.key(draws);
                let hit = store.get(&key(number), buffer)?;
                ensure!(!hit || is_right(buffer, number, LEN), "{name} gave a wrong value");
                Ok(hit)
            })?;
            println!("| {name} | {threads} | {} |", done.cells());
        }
        store.close()
    })
}

/// The megabytes of the blocks that the files below `dir` take.
fn disk_mb(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.blocks() * 512,
                Err(_) => {} // gone meanwhile
            }
        }
    }
    Ok(bytes / 1_000_000)
}

/// Returns the processor time of all threads of this process, in user space and in the kernel.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
