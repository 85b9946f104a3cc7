//! Counts instructions where the processor's counters are not available: valgrind's callgrind emulates a command and
//! everything that it starts. It counts user space only, and a string instruction once for each repetition.

use std::{ffi::OsString, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::process::output;

/// How callgrind counts. The file of a program has no abbreviations, and one line a function ([`crate::profile`] reads
/// it). A process that forks leaves what it has counted in a file, and both go on from nothing. Else it would count
/// twice in a child that starts no other program.
const OPTIONS: [&str; 9] = [
    "--quiet",
    // A command that fails is to be heard first.
    "--log-file=/dev/null",
    "--tool=callgrind",
    "--vgdb=no",
    "--trace-children=yes",
    "--dump-before=*fork",
    "--compress-strings=no",
    "--compress-pos=no",
    "--dump-line=no",
];

/// The emulator with its version, as it calls itself; absent where it cannot run a program.
pub fn version() -> Option<String> {
    let said = |words: &[&str]| Some(output(Command::new("valgrind").args(words)).ok()?.trim().to_owned());
    said(&["-q", "--tool=callgrind", "--callgrind-out-file=/dev/null", "true"])?;
    said(&["--version"])
}

/// The words that come before a command, so that its counts end up in the empty folder `counts`.
pub fn words(counts: &Path) -> Vec<OsString> {
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(counts.join("%p"));
    let start = ["valgrind"].into_iter().chain(OPTIONS).map(OsString::from);
    start.chain([file, OsString::from("--")]).collect()
}

/// The instructions that all files in `counts` name together.
pub fn total(counts: &Path) -> Result<f64> {
    let mut sum = 0;
    for entry in fs::read_dir(counts)? {
        let path = entry?.path();
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        sum += parse(&String::from_utf8_lossy(&text))
            .with_context(|| format!("callgrind left no total in '{}'", path.display()))?;
    }
    ensure!(sum > 0, "callgrind counted nothing");
    Ok(sum as f64)
}

/// The sum at the end of a file of callgrind's.
fn parse(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("totals: ")).and_then(|total| total.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_and_a_file_without_one_is_noticed() {
        assert_eq!(parse("events: Ir\nsummary: 6\n\nfn=(1) main\n0 6\n\ntotals: 7\n"), Some(7));
        assert_eq!(parse("events: Ir\nsummary: 6\n"), None);
    }

    /// What `sh` costs that runs `script`.
    fn cost(script: &str) -> f64 {
        let folder = tempfile::tempdir().unwrap();
        let words = words(folder.path());
        let status = Command::new(&words[0]).args(&words[1..]).args(["sh", "-c", script]).status().unwrap();
        assert!(status.success());
        total(folder.path()).unwrap()
    }

    #[test]
    fn children_count_and_nothing_counts_twice() {
        assert!(version().is_some_and(|version| version.starts_with("valgrind-")), "valgrind is there");
        let count = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; ";
        let (one, forked) = (cost(count), cost(&format!("{count} (:); (:); (:)")));
        assert!((0.8..1.2).contains(&(forked / one)), "subshells do not repeat what was counted: {one}, {forked}");
        let (two, started) = (cost(&format!("{count} {count}")), cost(&format!("{count} sh -c '{count}'")));
        assert!((0.8..1.2).contains(&(started / two)), "a program that is started counts: {two}, {started}");
    }
}
