//! Reads which slowdowns commits accept, from a trailer of their messages: `Slower: JOBS: REASON`.

use std::{path::Path, process::Command};

use anyhow::Result;

use crate::process::output;

/// The slowdowns that the messages of some commits accept.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Accepted {
    /// Names of jobs, or the parts of such names before a slash, each with a reason.
    entries: Vec<(String, String)>,
}

impl Accepted {
    /// Parses values of the trailer, one on each line. Those without a reason accept nothing.
    pub fn parse(values: &str) -> Accepted {
        let mut entries = Vec::new();
        for (jobs, reason) in values.lines().filter_map(|line| line.split_once(':')) {
            let words = jobs.split([' ', ',']).filter(|job| !job.is_empty() && !reason.trim().is_empty());
            entries.extend(words.map(|job| (job.to_owned(), reason.trim().to_owned())));
        }
        Accepted { entries }
    }

    /// Returns the reason why `job` may be slower, if it may. An entry `list` stands for the job `list` and for all
    /// jobs whose names begin with `list/`.
    pub fn reason(&self, job: &str) -> Option<&str> {
        let means = |word: &str| job.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.entries.iter().find(|(word, _)| means(word)).map(|(_, reason)| reason.as_str())
    }
}

/// Returns the slowdowns that are accepted by the commits after the one that added `line` to `file`; none if git
/// finds no commit that added the line.
pub fn since(file: &Path, line: &str) -> Result<Accepted> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let added = git(file, &["log", "-1", "--format=%H", &format!("-S{line}"), "--", &name]).unwrap_or_default();
    // A line that is not committed yet is newer than all commits.
    if added.trim().is_empty() {
        return Ok(Accepted::default());
    }
    let range = format!("{}..HEAD", added.trim());
    let values = git(file, &["log", "--format=%(trailers:key=Slower,valueonly,unfold)", &range]);
    Ok(Accepted::parse(&values.unwrap_or_default()))
}

/// Returns the output of git in the folder of `file`; `None` if git fails, for example because the folder is in no
/// repository.
pub fn git(file: &Path, words: &[&str]) -> Option<String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    output(Command::new("git").arg("-C").arg(folder).args(words)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_accepts_the_jobs_that_it_names_and_only_with_a_reason() {
        let accepted = Accepted::parse("show/files, list: names are checked: twice\n\nset:\nreasonless\n");
        assert_eq!(accepted.reason("show/files"), Some("names are checked: twice"));
        assert_eq!(accepted.reason("list/reftable"), Some("names are checked: twice"));
        for other in ["show/reftable", "list-types/files", "set/files", "reasonless"] {
            assert_eq!(accepted.reason(other), None, "{other}");
        }
    }
}
