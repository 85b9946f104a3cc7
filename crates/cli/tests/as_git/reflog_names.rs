//! `NAME@{N}` in a reflog whose entries do not fit together: git warns, and takes the current value at an unexpected
//! end.

use crate::common::{Twins, same};
use refdb_testkit::{RefFormat, Repo};
use std::fs;

/// Reflogs, oldest entry first. Each entry is an old and a new value: `0` is the null id, `a` the ref's current value,
/// and any other letter another commit.
const LOGS: &[&[&str]] = &[
    &["00"],
    &["0a"],
    &["0b"],
    &["ab"],
    &["00", "0a"],
    &["00", "ba"],
    &["0b", "ba"],
    &["0b", "ca"],
    &["0b", "cd"],
    &["0b", "b0", "0a"],
    &["b0", "00"],
    &["0c", "b0", "ca"],
];

#[test]
fn a_log_with_gaps_is_read_with_gits_warnings() {
    for log in LOGS {
        let twins = Twins::new(RefFormat::Files, &|repo| write_log(repo, log));
        for back in 0..4 {
            let name = format!("main@{{{back}}}");
            for words in [&["for-each-ref", "--points-at", &name][..], &["for-each-ref", "--merged", &name]] {
                same(twins.git.dir(), words, b"");
            }
            let input = format!("start\nupdate refs/heads/new main {name}\nprepare\nabort\n");
            twins.same(&["update-ref", "--stdin"], input.as_bytes());
        }
    }
}

fn write_log(repo: &Repo, log: &[&str]) {
    let commits = repo.commits(4);
    repo.create_refs([("refs/heads/main", commits[0])]);
    let id = |letter: char| match letter {
        '0' => "0".repeat(40),
        letter => commits[letter as usize - 'a' as usize].to_string(),
    };
    let line = |(turn, entry): (usize, &&str)| {
        let ids: Vec<String> = entry.chars().map(id).collect();
        format!("{} {} C <c@x> {} +0{turn}30\tm\n", ids[0], ids[1], 1_600_000_000 + turn * 100_000)
    };
    let text: String = log.iter().enumerate().map(line).collect();
    fs::create_dir_all(repo.git_dir().join("logs/refs/heads")).unwrap();
    fs::write(repo.git_dir().join("logs/refs/heads/main"), text).unwrap();
}
