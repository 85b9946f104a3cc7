//! The `stats` file, in which a cache publishes its statistics for other programs and, for its next run, the latest
//! time that it has seen.

use crate::{error::Result, regular_file, stats::Stats};
use refdb_vfs::Fs;
use std::path::Path;

/// Name of the line with the latest time that the cache had seen, in milliseconds since 1970.
const SEEN_MS: &str = "seen_ms";
/// Maximum number of bytes that are read. The file that [`write()`] makes is always shorter.
const MOST_BYTES: u64 = 64 << 10;

/// Writes the numbers as lines `name value`, replacing the file atomically.
pub(crate) fn write(fs: &Fs, dir: &Path, stats: &Stats, seen_ms: u64) -> Result<()> {
    let (temp, place) = (dir.join("stats.tmp"), dir.join("stats"));
    regular_file::check_place(fs, &place)?;
    match fs.remove_file(&temp) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    let numbers = stats.named().into_iter().chain([(SEEN_MS, seen_ms)]);
    let text: String = numbers.map(|(name, value)| format!("{name} {value}\n")).collect();
    fs.create_new(&temp, 0o600)?.write_all(text.as_bytes())?;
    fs.rename(&temp, &place)?;
    Ok(())
}

/// Reads the numbers, with 0 for those that are missing; `None` if there is no file.
pub(crate) fn read(fs: &Fs, dir: &Path) -> Result<Option<Stats>> {
    Ok(text(fs, dir)?.map(|text| Stats::from_named(numbers(&text))))
}

/// The latest time that an earlier run published; 0 if there is none.
pub(crate) fn seen_ms(fs: &Fs, dir: &Path) -> Result<u64> {
    let text = text(fs, dir)?.unwrap_or_default();
    Ok(numbers(&text).find(|(name, _)| *name == SEEN_MS).map_or(0, |(_, seen_ms)| seen_ms))
}

fn text(fs: &Fs, dir: &Path) -> Result<Option<String>> {
    match regular_file::read(fs, &dir.join("stats"), MOST_BYTES) {
        Err(error) if error.is_not_found() => Ok(None),
        bytes => Ok(Some(String::from_utf8_lossy(&bytes?).into_owned())),
    }
}

fn numbers(text: &str) -> impl Iterator<Item = (&str, u64)> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(name, value)| Some((name, value.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_come_back_and_others_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::real();
        assert_eq!((read(&fs, dir.path()).unwrap(), seen_ms(&fs, dir.path()).unwrap()), (None, 0));
        let stats = Stats { hits: 7, limit_bytes: u64::MAX, ..Default::default() };
        write(&fs, dir.path(), &stats, 5).unwrap();
        write(&fs, dir.path(), &stats, 6).unwrap();
        assert_eq!((read(&fs, dir.path()).unwrap(), seen_ms(&fs, dir.path()).unwrap()), (Some(stats), 6));
        std::fs::write(dir.path().join("stats"), "hits 3\nnonsense\nhits x\nunknown 4\n\u{fffd}").unwrap();
        assert_eq!(read(&fs, dir.path()).unwrap(), Some(Stats { hits: 3, ..Default::default() }));
        assert_eq!(seen_ms(&fs, dir.path()).unwrap(), 0);
    }
}
