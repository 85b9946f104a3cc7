//! The `stats` file: what a cache has and did, for programs that look at it from outside.

use crate::{error::Result, stats::Stats};
use refdb_vfs::Fs;
use std::path::Path;

/// Writes the numbers as `name value` lines; replaced as a whole.
pub(crate) fn write(fs: &Fs, dir: &Path, stats: &Stats) -> Result<()> {
    let temp = dir.join("stats.tmp");
    match fs.remove_file(&temp) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    let text: String = stats.named().iter().map(|(name, value)| format!("{name} {value}\n")).collect();
    fs.create_new(&temp, 0o600)?.write_all(text.as_bytes())?;
    fs.rename(&temp, &dir.join("stats"))?;
    Ok(())
}

/// What the file says: the numbers it knows, 0 for those it lacks. None if there is no file.
pub(crate) fn read(fs: &Fs, dir: &Path) -> Result<Option<Stats>> {
    let bytes = match fs.read(&dir.join("stats")) {
        Err(error) if error.is_not_found() => return Ok(None),
        bytes => bytes?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let numbers = text.lines().filter_map(|line| line.split_once(' ')).filter_map(|(name, value)| {
        let value = value.parse().ok()?;
        Some((name, value))
    });
    Ok(Some(Stats::from_named(numbers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_come_back_and_others_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let fs = Fs::real();
        assert_eq!(read(&fs, dir.path()).unwrap(), None);
        let stats = Stats { hits: 7, limit_bytes: u64::MAX, ..Default::default() };
        write(&fs, dir.path(), &stats).unwrap();
        write(&fs, dir.path(), &stats).unwrap();
        assert_eq!(read(&fs, dir.path()).unwrap(), Some(stats));
        std::fs::write(dir.path().join("stats"), "hits 3\nnonsense\nhits x\nunknown 4\n\u{fffd}").unwrap();
        assert_eq!(read(&fs, dir.path()).unwrap(), Some(Stats { hits: 3, ..Default::default() }));
    }
}
