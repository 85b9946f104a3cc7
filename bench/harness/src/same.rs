//! Both programs must leave the same repository. Real git reads each, independent of which program wrote it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    process::{Line, Program},
    seed::LISTING,
};

/// Fails unless git lists the same refs in both repositories, in the same format, and finds the second one sound.
pub fn same_refs(git: &Program, expected: &Path, found: &Path) -> Result<()> {
    let format = |dir: &Path| git.output(dir, &["rev-parse", "--show-ref-format"]);
    compare(&format(expected)?[..], &format(found)?[..]).context("the format of the refs differs")?;
    let line = Line { args: LISTING.map(str::to_owned).to_vec(), input: None };
    let list = |dir: &Path| print(git, dir, &line, &dir.with_extension("list"));
    compare_files(&list(expected)?, &list(found)?).context("the refs differ from those git leaves")?;
    git.output(found, &["refs", "verify"]).context("git finds fault with the repository")?;
    Ok(())
}

/// Fails unless `git reflog show NAME` prints the same in both repositories for each of `names`.
pub fn same_reflogs(git: &Program, expected: &Path, found: &Path, names: &[String]) -> Result<()> {
    for name in names {
        let args = ["reflog", "show", "--format=%H %gn %ge %gs", name];
        let lines = git.output(expected, &args)?;
        ensure!(!lines.is_empty(), "git left no reflog of {name}");
        compare(&lines[..], &git.output(found, &args)?[..]).with_context(|| format!("the reflog of {name} differs"))?;
    }
    Ok(())
}

/// Fails unless both programs print the same for `line` in `dir`.
pub fn same_output(expected: &Program, found: &Program, dir: &Path, line: &Line, scratch: &Path) -> Result<()> {
    let wanted = print(expected, dir, line, &scratch.join("expected"))?;
    let printed = print(found, dir, line, &scratch.join("found"))?;
    compare_files(&wanted, &printed).with_context(|| format!("{} prints something else", found.name))
}

/// Writes the output to a file. In memory it would count towards the peak memory of every command started later,
/// because a new process is a copy of its parent until it executes another program.
fn print(program: &Program, dir: &Path, line: &Line, file: &Path) -> Result<PathBuf> {
    program.print(File::create(file)?, dir, line)?;
    Ok(file.to_owned())
}

/// Compares two files and removes them.
fn compare_files(expected: &Path, found: &Path) -> Result<()> {
    let outcome = compare(File::open(expected)?, File::open(found)?);
    fs::remove_file(expected)?;
    fs::remove_file(found)?;
    outcome
}

/// Fails with the first line that differs.
fn compare(expected: impl Read, found: impl Read) -> Result<()> {
    let (mut expected, mut found) = (BufReader::new(expected), BufReader::new(found));
    let (mut wanted, mut line) = (Vec::new(), Vec::new());
    for number in 1.. {
        wanted.clear();
        line.clear();
        let ended = expected.read_until(b'\n', &mut wanted)? + found.read_until(b'\n', &mut line)? == 0;
        if wanted != line {
            let text = |line: &[u8]| String::from_utf8_lossy(line).trim_end().to_owned();
            bail!("line {number}: expected '{}', found '{}'", text(&wanted), text(&line));
        }
        if ended {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert!(compare(&b"a\nb\n"[..], &b"a\nb\n"[..]).is_ok());
        let error = compare(&b"a\nb\n"[..], &b"a\nc\n"[..]).unwrap_err().to_string();
        assert_eq!(error, "line 2: expected 'b', found 'c'");
    }
}
