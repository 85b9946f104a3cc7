//! Reads and writes recorded counts: a file with a line of JSON for each record, the latest last.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::accepted::{self, Accepted};
use crate::lines;

/// The counts of one build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The time of the record, in seconds since 1970.
    pub time: u64,
    /// The commit that was checked out, with a `+` if tracked files other than that of the records differed from it, or
    /// "no commit" if git named none.
    pub commit: String,
    /// The name of the release, if the build is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The names and values that must be the same for counts to be comparable.
    pub machine: BTreeMap<String, String>,
    /// The instructions of each job.
    pub counts: BTreeMap<String, u64>,
}

/// A record with the line that it was read from.
#[derive(Debug, Clone)]
pub struct Line {
    /// The record that the line contains.
    pub record: Record,
    text: String,
}

/// All records of a file.
#[derive(Debug)]
pub struct History {
    file: PathBuf,
    /// The records, with the latest last.
    pub records: Vec<Line>,
}

impl History {
    /// Reads a file. A file that does not exist has no records.
    pub fn read(file: &Path) -> Result<History> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.with_context(|| format!("cannot read '{}'", file.display()))?,
        };
        let line = |(number, text): (usize, &str)| {
            let record = serde_json::from_str(text)
                .with_context(|| format!("line {} of '{}' is no record", number + 1, file.display()))?;
            Ok(Line { record, text: text.to_owned() })
        };
        let records = text.lines().enumerate().map(line).collect::<Result<_>>()?;
        Ok(History { file: file.to_owned(), records })
    }

    /// Returns the slowdowns that commits accept since `line` was added to the file.
    pub fn accepted(&self, line: &Line) -> Result<Accepted> {
        accepted::since(&self.file, &line.text)
    }
}

/// Appends a record to the file, on a line of its own even if the last line lacks its line feed.
pub fn append(file: &Path, record: &Record) -> Result<()> {
    lines::append(file, format!("{}\n", serde_json::to_string(record)?))
}

/// Returns the id of the commit that is checked out where `file` lies, followed by `+` if other tracked files differ
/// from that commit; "no commit" if git names none.
pub fn head(file: &Path) -> String {
    let Some(commit) = accepted::git(file, &["rev-parse", "HEAD"]) else { return "no commit".to_owned() };
    let own = format!(":(exclude,literal){}", file.file_name().unwrap_or_default().to_string_lossy());
    let status = ["status", "--porcelain", "--untracked-files=no", "--", ":/", &own];
    let differs = accepted::git(file, &status).is_some_and(|changes| !changes.is_empty());
    format!("{}{}", commit.trim(), if differs { "+" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Previously, a change of any file counted as none if its name ended with that of the records.
    #[test]
    fn only_the_records_themselves_may_differ_from_the_commit() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("below/records"), folder.path().join("other-records"));
        let git = |words: &[&str]| assert!(accepted::git(&file, words).is_some(), "{words:?}");
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(&file, "1").unwrap();
        fs::write(&other, "1").unwrap();
        git(&["init", "-q", ".."]);
        git(&["add", ".."]);
        git(&["-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "x"]);
        assert!(!head(&file).ends_with('+'));
        fs::write(&file, "2").unwrap();
        assert!(!head(&file).ends_with('+'));
        fs::write(&other, "2").unwrap();
        assert!(head(&file).ends_with('+'));
    }

    /// Previously, the new record was glued to the last one if a kill had kept the line feed of that one from the file.
    #[test]
    fn a_record_after_one_without_a_line_feed_has_its_own_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("records");
        let record = |time| Record {
            time,
            commit: "no commit".to_owned(),
            release: None,
            machine: BTreeMap::new(),
            counts: BTreeMap::new(),
        };
        fs::write(&file, serde_json::to_string(&record(1)).unwrap()).unwrap();
        append(&file, &record(2)).unwrap();
        let times: Vec<_> = History::read(&file).unwrap().records.iter().map(|line| line.record.time).collect();
        assert_eq!(times, [1, 2]);
    }
}
