//! Counts instructions where the processor's counters are not available: valgrind's callgrind emulates a command and
//! everything that it starts. It counts user space only, and a string instruction once for each repetition.

use std::{ffi::OsString, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::process::output;

/// The options of callgrind. They make callgrind write full names, and one line of costs for each function, for
/// [`crate::profile`]. A process that forks writes its counts to a file first, and both processes continue from zero;
/// otherwise, a child that executes no other program would count the work of its parent again.
const OPTIONS: [&str; 9] = [
    "--quiet",
    // Messages of valgrind must not hide those of a command that fails.
    "--log-file=/dev/null",
    "--tool=callgrind",
    "--vgdb=no",
    "--trace-children=yes",
    "--dump-before=*fork",
    "--compress-strings=no",
    "--compress-pos=no",
    "--dump-line=no",
];

/// Returns the name and version of the emulator; `None` if it cannot run a program.
pub fn version() -> Option<String> {
    let said = |words: &[&str]| Some(output(Command::new("valgrind").args(words)).ok()?.trim().to_owned());
    said(&["-q", "--tool=callgrind", "--callgrind-out-file=/dev/null", "true"])?;
    said(&["--version"])
}

/// Returns the arguments that precede a command to count its instructions, with the results in the empty folder
/// `counts`.
pub fn words(counts: &Path) -> Vec<OsString> {
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(counts.join("%p"));
    let start = ["valgrind"].into_iter().chain(OPTIONS).map(OsString::from);
    start.chain([file, OsString::from("--")]).collect()
}

/// Returns the sum of the instructions in all files in `counts`. A file without a total is not counted: its process was
/// killed, or is about to end in the background after the command.
pub fn total(counts: &Path) -> Result<f64> {
    let mut sum = 0;
    for entry in fs::read_dir(counts)? {
        let path = entry?.path();
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        sum += parse(&String::from_utf8_lossy(&text)).unwrap_or(0);
    }
    ensure!(sum > 0, "callgrind counted nothing");
    Ok(sum as f64)
}

/// Returns the total at the end of a file of callgrind; `None` if its line is not there yet, or not whole.
fn parse(text: &str) -> Option<u64> {
    let (whole, _) = text.rsplit_once('\n')?;
    whole.lines().rev().find_map(|line| line.strip_prefix("totals: ")).and_then(|total| total.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_and_a_file_that_is_still_being_written_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("1"), "events: Ir\nsummary: 6\n\nfn=(1) main\n0 6\n\ntotals: 7").unwrap();
        assert!(total(folder.path()).is_err_and(|error| error.to_string() == "callgrind counted nothing"));
        fs::write(folder.path().join("2"), "events: Ir\nsummary: 6\n\nfn=(1) main\n0 6\n\ntotals: 7\n").unwrap();
        assert_eq!(total(folder.path()).unwrap(), 7.0);
    }

    /// Returns the number of instructions that `sh` takes to run `script`.
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
