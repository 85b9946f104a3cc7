//! The rows of bench/kv-workload.md, in their order.

use super::{
    drive::{Ask, Outcome, insert, mixed},
    workload::{Draws, Shapes, Zipf, mix},
};
use anyhow::{Context, Result};
use clap::Parser;
use refdb_kvcache::{Cache, Durability, Options};
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// What the program is told.
#[derive(Parser, Debug)]
#[command(about = "Measures the persistent key-value cache; see bench/kv-workload.md")]
pub struct Settings {
    /// An empty folder on the disk to measure, or with --reopen the one of --die; only --die and --reopen leave files
    /// in it
    #[arg(long)]
    pub dir: PathBuf,
    /// How many entries are loaded
    #[arg(long, default_value_t = 500_000)]
    pub entries: u64,
    /// Seconds for each row that mixes gets and puts
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Only load, restart, and rows whose name contains this; pressure rows only if this begins with "pressure"
    #[arg(long)]
    pub only: Option<String>,
    /// Keys of 16 bytes and values of 8, to measure what an entry costs by itself
    #[arg(long)]
    pub small: bool,
    /// The limit of the cache, in GiB; the rows called pressure have one of 300 MB
    #[arg(long, default_value_t = 4)]
    pub limit_gib: u64,
    /// Load only, then die as from a kill, and leave the files for --reopen
    #[arg(long)]
    pub die: bool,
    /// Open what --die left, and say how long that takes
    #[arg(long)]
    pub reopen: bool,
}

const PRESSURE_BYTES: u64 = 300_000_000;
const HOT_KEYS: u64 = 2_000;

/// Runs the rows that `settings` ask for, and prints a table.
pub fn run(settings: &Settings, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "| row | kop/s | get p50 | p95 | p99 | p99.9 | max ms | put p50 | p95 | p99 | p99.9 | max ms | hit | refused | \
         wrong | RSS MB | disk MB | background % |"
    )?;
    writeln!(out, "|{}", "-|".repeat(18))?;
    let bench = Bench { settings, shapes: Shapes::new(settings.small), round: 0 };
    bench.run(out)
}

struct Bench<'a> {
    settings: &'a Settings,
    shapes: Shapes,
    round: u64,
}

impl Bench<'_> {
    /// Returns whether a row is asked for by a part of its name, or a group of rows by the name of one of them, which
    /// begins with that of the group.
    fn wants(&self, name: &str) -> bool {
        self.settings.only.as_ref().is_none_or(|only| name.contains(only.as_str()) || only.starts_with(name))
    }

    fn run(mut self, out: &mut dyn Write) -> Result<()> {
        let base = self.settings.dir.join("base");
        let n = self.settings.entries;
        if self.settings.reopen {
            return self.reopened(out, &base);
        }
        let cache = Cache::open(&base, Options::new(self.settings.limit_gib << 30))?;
        self.row(out, "load", &cache, &base, |bench| insert(&cache, &bench.shapes, 0, n, 8, |_, _| {}))?;
        cache.flush(Durability::Written)?;
        if self.settings.die {
            std::process::abort();
        }
        let zipf = Zipf::new(n);
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get() as u64);
        for (name, gets) in [("get100", 100), ("mix95", 95), ("mix50", 50)] {
            for threads in [cores, 4 * cores] {
                self.mixed_row(out, &format!("{name} {threads} threads"), &cache, &base, &zipf, gets, threads, None)?;
            }
        }
        self.mixed_row(out, "paced95 8 threads", &cache, &base, &zipf, 95, 8, Some(10_000.0))?;
        self.overwritten(out, &cache, &base, &zipf)?;
        self.restart(out, cache, &base)?;
        std::fs::remove_dir_all(&base)?;
        if self.wants("pressure") {
            self.pressure(out)?;
        }
        Ok(())
    }

    /// Opens what `--die` left, and shows how many of a sample of the keys are found while the index is filled.
    fn reopened(&self, out: &mut dyn Write, dir: &Path) -> Result<()> {
        const SAMPLES: u64 = 2_000;
        let n = self.settings.entries;
        let (start, before) = (Instant::now(), processor_ms()?);
        let (cache, opened, processor) = opened(dir, self.settings)?;
        writeln!(out, "\nopen {opened:.1} ms ({processor} ms of all processors)")?;
        let (mut key, mut shown) = (Vec::new(), 0);
        loop {
            let (entries, at) = (cache.stats().entries, start.elapsed().as_secs_f64() * 1000.0);
            if entries >= n {
                writeln!(
                    out,
                    "{entries} entries after {at:.1} ms ({} ms of all processors)\n",
                    processor_ms()? - before
                )?;
                return Ok(());
            }
            if entries > shown {
                shown = entries;
                let is_found = |i: &u64| {
                    self.shapes.key(i * (n / SAMPLES), &mut key);
                    cache.contains(&key)
                };
                let found = (0..SAMPLES).filter(is_found).count();
                writeln!(out, "after {at:.1} ms, {} % of the keys are found", found as u64 * 100 / SAMPLES)?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is a column of the definition")]
    fn mixed_row(
        &mut self,
        out: &mut dyn Write,
        name: &str,
        cache: &Cache,
        dir: &Path,
        zipf: &Zipf,
        gets: u64,
        threads: u64,
        rate: Option<f64>,
    ) -> Result<()> {
        self.round += 1;
        let time = Duration::from_secs_f64(self.settings.seconds);
        let ask = Ask { round: self.round, gets, threads, rate, time };
        self.row(out, name, cache, dir, |bench| mixed(cache, &bench.shapes, zipf, &ask))
    }

    fn row(
        &self,
        out: &mut dyn Write,
        name: &str,
        cache: &Cache,
        dir: &Path,
        work: impl FnOnce(&Self) -> Outcome,
    ) -> Result<()> {
        if !self.wants(name) && name != "load" {
            return Ok(());
        }
        let before = Processor::used()?;
        let outcome = work(self);
        let background = Processor::used()?.background_share(&before);
        let Outcome { gets, puts, hits, wrong, refused, seconds } = &outcome;
        let rate = (gets.count() + puts.count()) as f64 / seconds / 1000.0;
        write!(out, "| {name} | {rate:.1} |")?;
        for times in [gets, puts] {
            for share in [0.5, 0.95, 0.99, 0.999] {
                write!(out, " {:.2} |", times.quantile_us(share))?;
            }
            write!(out, " {:.1} |", times.max_us() / 1000.0)?;
        }
        let hit = *hits as f64 / gets.count().max(1) as f64;
        let disk = disk_bytes(dir)? as f64 / 1e6;
        writeln!(out, " {hit:.4} | {refused} | {wrong} | {} | {disk:.0} | {background:.1} |", resident_mb()?)?;
        let stats = cache.stats();
        anyhow::ensure!(stats.disk_bytes <= stats.limit_bytes, "over the limit: {stats:?}");
        out.flush()?;
        Ok(())
    }

    /// Measures overwriting puts, how large the files are meanwhile, and how many records are written for one put.
    fn overwritten(&mut self, out: &mut dyn Write, cache: &Cache, dir: &Path, zipf: &Zipf) -> Result<()> {
        let (before, done) = (cache.stats(), AtomicBool::new(false));
        let sizes = std::thread::scope(|scope| {
            let sizes = scope.spawn(|| {
                let mut sizes = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let live = cache.stats().live_bytes as f64;
                    sizes.extend(disk_bytes(dir).ok().map(|disk| disk as f64 / live));
                    std::thread::sleep(Duration::from_millis(20));
                }
                sizes.sort_by(f64::total_cmp);
                sizes
            });
            let outcome = self.mixed_row(out, "overwrite 8 threads", cache, dir, zipf, 0, 8, None);
            done.store(true, Ordering::Relaxed);
            outcome.map(|()| sizes.join().expect("looking at sizes does not panic"))
        })?;
        if !self.wants("overwrite") {
            return Ok(());
        }
        let stats = cache.stats();
        let puts = (stats.puts - before.puts) as f64;
        let copies = (stats.kept + stats.compacted - before.kept - before.compacted) as f64;
        let (median, most) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
        writeln!(
            out,
            "\nfiles while overwriting: median {median:.3}, at most {most:.3} times the records; records written for \
             one put: {:.2}",
            1.0 + copies / puts
        )?;
        self.settled(out, cache, dir)
    }

    /// Prints how large the files are once the cache has had time to tidy up.
    fn settled(&self, out: &mut dyn Write, cache: &Cache, dir: &Path) -> Result<()> {
        let start = Instant::now();
        let (mut before, mut same) = (0, 0);
        while same < 10 && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
            let now = disk_bytes(dir)?;
            same = if now == before { same + 1 } else { 0 };
            before = now;
        }
        let stats = cache.stats();
        let (disk, live) = (before as f64 / 1e6, stats.live_bytes as f64 / 1e6);
        writeln!(
            out,
            "\nsettled after {:.1} s: {disk:.0} MB on disk for {live:.0} MB of records, {:.3} times",
            start.elapsed().as_secs_f64(),
            disk / live
        )?;
        writeln!(out, "{stats:?}\n")?;
        Ok(())
    }

    fn restart(&self, out: &mut dyn Write, cache: Cache, dir: &Path) -> Result<()> {
        let entries = cache.stats().entries;
        let start = Instant::now();
        cache.close()?;
        drop(cache);
        let closed = start.elapsed().as_secs_f64() * 1000.0;
        let (cache, opened, processor) = opened(dir, self.settings)?;
        anyhow::ensure!(cache.stats().entries == entries, "{entries} entries before, {:?} now", cache.stats());
        let start = Instant::now();
        cache.clear()?;
        let cleared = start.elapsed().as_secs_f64() * 1000.0;
        writeln!(
            out,
            "\nrestart with {entries} entries: close {closed:.1} ms, open {opened:.1} ms ({processor} ms of all \
             processors); clear {cleared:.3} ms\n"
        )?;
        Ok(())
    }

    /// Inserts entries (by default twice the limit), then half as many beside hot keys, and then mixes gets and puts.
    fn pressure(&mut self, out: &mut dyn Write) -> Result<()> {
        let dir = self.settings.dir.join("pressure");
        let cache = Cache::open(&dir, Options::new(PRESSURE_BYTES))?;
        let n = self.settings.entries;
        let zipf = Zipf::new(n);
        self.row(out, "pressure inserts", &cache, &dir, |bench| {
            insert(&cache, &bench.shapes, 0, n, 8, |i, client| {
                let mut draws = Draws::new(mix(i));
                client.get(zipf.key(&mut draws) % (i + 1));
            })
        })?;
        let shapes = &self.shapes;
        let mut hot_client = super::drive::Client::new(&cache, shapes);
        let hot: Vec<u64> = (0..HOT_KEYS).map(|i| n * 2 + i).collect();
        hot.iter().for_each(|i| hot_client.put(*i));
        let before = hot.iter().filter(|i| hot_client.get(**i)).count();
        let turn = AtomicU64::new(0);
        self.row(out, "pressure beside hot keys", &cache, &dir, |bench| {
            insert(&cache, &bench.shapes, n, n + n / 2, 8, |_, client| {
                client.get(hot[turn.fetch_add(1, Ordering::Relaxed) as usize % hot.len()]);
            })
        })?;
        let after = hot.iter().filter(|i| hot_client.get(**i)).count();
        writeln!(out, "\nhot keys {before} -> {after}; {:?}", cache.stats())?;
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get() as u64);
        for threads in [cores, 4 * cores] {
            self.mixed_row(out, &format!("pressure mix95 {threads} threads"), &cache, &dir, &zipf, 95, threads, None)?;
        }
        drop(cache);
        std::fs::remove_dir_all(&dir).context("removing the folder")?;
        Ok(())
    }
}

/// Opens a cache, and returns with it the milliseconds that this took, first of wall time and then of all processors.
fn opened(dir: &Path, settings: &Settings) -> Result<(Cache, f64, u64)> {
    let (start, before) = (Instant::now(), processor_ms()?);
    let cache = Cache::open(dir, Options::new(settings.limit_gib << 30))?;
    let opened = start.elapsed().as_secs_f64() * 1000.0;
    Ok((cache, opened, processor_ms()? - before))
}

fn disk_bytes(dir: &Path) -> Result<u64> {
    let files = std::fs::read_dir(dir)?.filter_map(Result::ok);
    Ok(files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum())
}

/// The processor time of this process, and the part of that time which the cache's own threads used.
struct Processor {
    all_ms: u64,
    background_ms: u64,
}

impl Processor {
    fn used() -> Result<Self> {
        let mut background_ms = 0;
        for thread in std::fs::read_dir("/proc/self/task")?.filter_map(Result::ok) {
            let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            if name.starts_with("refdb-kv") {
                background_ms += processor_ms_of(&thread.path().join("stat"))?;
            }
        }
        Ok(Processor { all_ms: processor_ms()?, background_ms })
    }

    /// The share of the cache's own threads in the processor time since `before`, in percent.
    fn background_share(&self, before: &Self) -> f64 {
        let background = self.background_ms.saturating_sub(before.background_ms);
        background as f64 * 100.0 / (self.all_ms - before.all_ms).max(1) as f64
    }
}

/// What all threads of this process used of the processors, in steps of 10 ms.
fn processor_ms() -> Result<u64> {
    processor_ms_of(Path::new("/proc/self/stat"))
}

fn processor_ms_of(stat: &Path) -> Result<u64> {
    let stat = std::fs::read_to_string(stat)?;
    // The name, in parentheses, may hold anything.
    let fields = stat.rsplit_once(") ").context("no name in /proc/self/stat")?.1;
    let ticks: Vec<u64> = fields.split(' ').skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() * 10)
}

/// Resident memory of this process in megabytes, without mapped files, which the kernel can take back at any
/// time.
fn resident_mb() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon in /proc/self/status")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok((kib << 10) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_runs_at_a_tiny_size() {
        let temp = tempfile::tempdir().unwrap();
        let settings = Settings {
            dir: temp.path().to_owned(),
            entries: 3_000,
            seconds: 0.05,
            only: None,
            small: false,
            limit_gib: 4,
            die: false,
            reopen: false,
        };
        let mut out = Vec::new();
        run(&settings, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("| "))
            .skip(1)
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        assert_eq!(rows.len(), 13, "{text}");
        assert!(rows.iter().all(|row| row[15] == "0"), "wrong values: {text}");
    }
}
