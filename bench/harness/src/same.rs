//! Whoever did a job, the repository must end the same: real git is asked, whatever program wrote it.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    process::{Line, Program},
    seed::listing,
};

/// Fails unless git lists the same refs in both repositories and finds the second one sound.
pub fn same_refs(git: &Program, expected: &Path, found: &Path) -> Result<()> {
    let (expected, found_refs) = (listing(git, expected)?, listing(git, found)?);
    compare(&expected, &found_refs).context("the refs differ from those git leaves")?;
    git.output(found, &["refs", "verify"]).context("git finds fault with the repository")?;
    Ok(())
}

/// Fails unless `git reflog show NAME` prints the same in both repositories for each of `names`.
pub fn same_reflogs(git: &Program, expected: &Path, found: &Path, names: &[String]) -> Result<()> {
    for name in names {
        let args = ["reflog", "show", "--format=%H %gn %ge %gs", name];
        let lines = git.output(expected, &args)?;
        ensure!(!lines.is_empty(), "git left no reflog of {name}");
        compare(&lines, &git.output(found, &args)?).with_context(|| format!("the reflog of {name} differs"))?;
    }
    Ok(())
}

/// Fails unless both programs print the same for `line` in `dir`.
pub fn same_output(expected: &Program, found: &Program, dir: &Path, line: &Line, scratch: &Path) -> Result<()> {
    let print = |program: &Program| -> Result<Vec<u8>> {
        let path = scratch.join("output");
        let mut command = program.command(dir, line)?;
        let status = command.stdout(fs::File::create(&path)?).status()?;
        ensure!(status.success(), "{} {} failed: {status}", program.name, line.args.join(" "));
        let text = fs::read(&path)?;
        fs::remove_file(&path)?;
        Ok(text)
    };
    let wanted = print(expected)?;
    compare(&wanted, &print(found)?).with_context(|| format!("{} prints something else", found.name))
}

/// Fails with the first line that differs.
fn compare(expected: &[u8], found: &[u8]) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let lines = |text: &'_ [u8]| -> Vec<String> {
        text.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    };
    let (expected, found) = (lines(expected), lines(found));
    let at = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
    let line = |of: &[String]| of.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
    bail!("line {}: expected '{}', found '{}'", at + 1, line(&expected), line(&found))
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert!(compare(b"a\nb\n", b"a\nb\n").is_ok());
        let error = compare(b"a\nb\n", b"a\nc\n").unwrap_err().to_string();
        assert_eq!(error, "line 2: expected 'b', found 'c'");
    }
}
