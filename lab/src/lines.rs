//! Files of lines to which the lab appends: histories of comparisons, and records of `gate`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Appends lines to a file, which is created if it does not exist. Fails if it is the history of a watch.
pub fn append(file: &Path, mut lines: String) -> Result<()> {
    check(file)?;
    // A lab that was killed may have left a part of a line. A line feed keeps the new lines apart from it.
    if fs::read(file).is_ok_and(|before| before.last().is_some_and(|last| *last != b'\n')) {
        lines.insert(0, '\n');
    }
    let open = fs::OpenOptions::new().append(true).create(true).open(file);
    let mut open = open.with_context(|| format!("cannot open '{}'", file.display()))?;
    open.write_all(lines.as_bytes()).with_context(|| format!("cannot write '{}'", file.display()))
}

/// Fails if `file` is the history of a watch. That watch could not go on after lines of another kind.
pub fn check(file: &Path) -> Result<()> {
    let Ok(open) = fs::File::open(file) else { return Ok(()) };
    let mut first = String::new();
    // A first line that is no text is not that of a watch.
    BufReader::new(open.take(START_MAX)).read_line(&mut first).ok();
    let is_start = serde_json::from_str::<Value>(&first).is_ok_and(|line| line["kind"] == "start");
    let folder = file.parent().unwrap_or(Path::new(""));
    ensure!(
        !is_start,
        "'{}' is the history of a watch, which only that watch may write: name another file, such as '{}', and give \
         both to 'report'",
        file.display(),
        folder.join("others.jsonl").display()
    );
    Ok(())
}

/// Maximum length of the first line of a watch's history, in bytes.
const START_MAX: u64 = 1 << 20;
