use super::{Settings, is_secret, refuse_another_users, say_lost};
use crate::{failure::Result, output::Output, progress::Progress};
use bstr::ByteSlice;
use refdb_kvcache::{Cache, Options, Verified};
use std::{cmp::Reverse, collections::BinaryHeap, path::Path};

const SHOWN: u64 = 20;

/// Checks the record of every entry. The exit code is 1 if a record is damaged or cannot be read, or if something was
/// wrong with the files when the cache was opened.
pub(super) fn verify(folder: &Path) -> Result<u8> {
    let cache = Cache::open_to_inspect(folder)?;
    say_lost(&cache);
    let progress = Progress::start("Verifying the cache");
    let Verified { good, bad } = cache.verify();
    progress.finish();
    say(&format!("{good} entries are whole, {bad} are harmed and would be misses\n"))?;
    Ok(u8::from(bad > 0 || !cache.notices().is_empty()))
}

/// Prints the largest entries.
pub(super) fn top(folder: &Path, settings: &Settings) -> Result<u8> {
    let secret = is_secret(folder)?;
    let cache = Cache::open_read_only(folder, settings.key.as_ref())?;
    say_lost(&cache);
    let count = settings.count.unwrap_or(SHOWN);
    let mut largest: BinaryHeap<Reverse<(u64, u64, Vec<u8>)>> = BinaryHeap::new();
    let progress = Progress::start("Reading the cache");
    let walked: std::result::Result<_, std::convert::Infallible> = cache.for_each(|key, _, info| {
        let key = if secret { b"(secret)".to_vec() } else { key.to_vec() };
        largest.push(Reverse((info.disk_bytes, info.created_ms, key)));
        if largest.len() as u64 > count {
            largest.pop();
        }
        Ok(())
    });
    progress.finish();
    let Ok(Verified { bad, .. }) = walked;
    let mut text = String::new();
    for Reverse((bytes, created_ms, key)) in largest.into_sorted_vec() {
        text.push_str(&format!("{bytes:>10} bytes, created {created_ms} ms: {}\n", key.as_bstr().escape_ascii()));
    }
    if bad > 0 {
        text.push_str(&format!("{bad} entries are harmed\n"));
    }
    say(&text)?;
    Ok(0)
}

/// Evicts entries beyond the limit, and then frees dead space as [`Cache::compact`] does. No other process may have the
/// cache open for writing.
pub(super) fn compact(folder: &Path, settings: &Settings) -> Result<u8> {
    refuse_another_users(folder)?;
    let mut options = Options::new(limit(folder, settings)?);
    options.key = settings.key.clone();
    // With a wrong key, opening the cache would empty it.
    drop(Cache::open_read_only(folder, settings.key.as_ref())?);
    let cache = Cache::open(folder, options)?;
    say_lost(&cache);
    let progress = Progress::start("Compacting the cache");
    let freed = cache.compact()?;
    cache.close()?;
    progress.finish();
    say(&format!("{freed} bytes freed\n"))?;
    Ok(0)
}

/// Returns the limit that was given. Without one, it is the larger of the limit that was last reported and twice the
/// size on disk, brought into the range that a cache accepts.
fn limit(folder: &Path, settings: &Settings) -> Result<u64> {
    if let Some(limit) = settings.limit {
        return Ok(limit);
    }
    let reported = Cache::reported_stats(folder)?.map_or(0, |stats| stats.limit_bytes);
    let disk = Cache::open_to_inspect(folder)?.stats().disk_bytes;
    Ok(reported.max(disk * 2).clamp(Options::SMALLEST_LIMIT_BYTES, Options::LARGEST_LIMIT_BYTES))
}

fn say(text: &str) -> Result<()> {
    let mut output = Output::default();
    output.buffer().extend_from_slice(text.as_bytes());
    output.flush()
}
