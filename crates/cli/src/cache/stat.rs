use crate::{
    failure::{Result, fatal, say, system_text},
    output::Output,
};
use refdb_kvcache::{Cache, Stats};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The number of levels of folders below the given one that are searched for caches: a folder for each cache's name,
/// and in it one for each version.
const DEPTH: usize = 2;

/// What is known about a cache.
#[derive(Serialize)]
struct Report {
    folder: String,
    encrypted: bool,
    entries: u64,
    /// The size of the entries' records in bytes.
    live_bytes: u64,
    disk_bytes: u64,
    /// The counts that a process with the cache open for writing last reported; `None` if none were ever reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<Counted>,
}

#[derive(Serialize)]
struct Counted {
    limit_bytes: u64,
    hits: u64,
    misses: u64,
    puts: u64,
    refused: u64,
    removed: u64,
    expired: u64,
    evicted: u64,
    corrupt: u64,
    disk_errors: u64,
    hit_ratio: Option<f64>,
    /// The estimated hit ratio with half the limit.
    hit_ratio_at_half: Option<f64>,
    hit_ratio_at_twice: Option<f64>,
}

impl Counted {
    fn new(stats: &Stats) -> Self {
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        Counted {
            limit_bytes: stats.limit_bytes,
            hits: stats.hits,
            misses: stats.misses,
            puts: stats.puts,
            refused: stats.refused,
            removed: stats.removed,
            expired: stats.expired,
            evicted: stats.evicted,
            corrupt: stats.corrupt,
            disk_errors: stats.disk_errors,
            hit_ratio: ratio(stats.hits, stats.hits + stats.misses),
            hit_ratio_at_half: ratio(stats.sampled_hits_half, stats.sampled),
            hit_ratio_at_twice: ratio(stats.sampled_hits_twice, stats.sampled),
        }
    }
}

/// Prints statistics of a cache, or of all caches up to [`DEPTH`] levels below a folder.
pub(super) fn run(folder: &Path, json: bool) -> Result<u8> {
    let mut caches = Vec::new();
    find(folder, DEPTH, &mut caches);
    caches.sort();
    if caches.is_empty() {
        if let Err(error) = std::fs::read_dir(folder) {
            return fatal!["cannot read '", folder.display().to_string(), "': ", system_text(&error)];
        }
        return fatal!["there is no cache in '", folder.display().to_string(), "'"];
    }
    let mut unread = 0;
    let mut reports = Vec::new();
    for folder in &caches {
        match report(folder) {
            Ok(report) => reports.push(report),
            // A cache of a newer program, or of another user, does not keep the others from being shown.
            Err(error) if caches.len() > 1 => {
                say("warning: ", error.to_string().as_bytes());
                unread = 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut output = Output::default();
    if json {
        match serde_json::to_vec_pretty(&reports) {
            Ok(text) => output.buffer().extend_from_slice(&text),
            Err(error) => return fatal![error.to_string()],
        }
        output.buffer().push(b'\n');
    } else {
        reports.iter().for_each(|report| output.buffer().extend_from_slice(report.text().as_bytes()));
    }
    output.flush()?;
    Ok(unread)
}

fn find(folder: &Path, depth: usize, caches: &mut Vec<PathBuf>) {
    if folder.join("format").is_file() {
        caches.push(folder.to_owned());
        return;
    }
    if depth > 0 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(std::result::Result::ok);
        entries.filter(|entry| entry.path().is_dir()).for_each(|entry| find(&entry.path(), depth - 1, caches));
    }
}

fn report(folder: &Path) -> refdb_kvcache::Result<Report> {
    let cache = Cache::open_to_inspect(folder)?;
    let stats = cache.stats();
    Ok(Report {
        folder: folder.display().to_string(),
        encrypted: Cache::is_encrypted(folder)?,
        entries: stats.entries,
        live_bytes: stats.live_bytes,
        disk_bytes: stats.disk_bytes,
        counted: Cache::reported_stats(folder)?.as_ref().map(Counted::new),
    })
}

impl Report {
    fn text(&self) -> String {
        let Report { folder, entries, live_bytes, disk_bytes, .. } = self;
        let encrypted = if self.encrypted { ", encrypted" } else { "" };
        let mut text = format!("{folder}: {entries} entries, {live_bytes} bytes of {disk_bytes} on disk{encrypted}\n");
        if let Some(counted) = &self.counted {
            let percent = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0));
            text.push_str(&format!(
                "  limit {}, hit ratio {} ({} at half the limit, {} at twice)\n",
                counted.limit_bytes,
                percent(counted.hit_ratio),
                percent(counted.hit_ratio_at_half),
                percent(counted.hit_ratio_at_twice),
            ));
            let Counted { puts, refused, removed, expired, evicted, corrupt, disk_errors, .. } = counted;
            text.push_str(&format!(
                "  puts {puts}, refused {refused}, removed {removed}, expired {expired}, evicted {evicted}, corrupt \
                 {corrupt}, disk errors {disk_errors}\n"
            ));
        }
        text
    }
}
