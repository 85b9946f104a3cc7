//! Compares with git how `safe.directory` works in commands that open another user's repository.
#![allow(clippy::unwrap_used, reason = "tests")]

use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::{os::unix::fs::chown, path::Path, process::Output};

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");
/// The id of a user that does not exist, for tests that may give files away.
const STRANGER: u32 = 12_345;

/// Why the repository is somebody else's: because its folder is, or because a variable says so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Foreign {
    ByOwner,
    ByVariable,
}

fn run(repo: &Repo, program: &Path, foreign: Foreign, value: &str, words: &[&str]) -> Output {
    let mut command = repo.command(program);
    command.args(words).env("GIT_CONFIG_PARAMETERS", format!("'safe.directory'='{value}'"));
    if foreign == Foreign::ByVariable {
        command.env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    }
    command.env_remove("GIT_DIR").stdin(std::process::Stdio::null()).output().unwrap()
}

/// Runs both programs, which must agree, and returns whether they trust the repository and how many warnings of
/// relative values they print.
fn compare(repo: &Repo, foreign: Foreign, value: &str, words: &[&str]) -> (bool, usize) {
    let (git, ours) = (Git::find().program(), Path::new(REFDB));
    let [theirs, ours] = [git, ours].map(|program| run(repo, program, foreign, value, words));
    let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let warnings = |text: &str| text.lines().filter(|line| line.contains("not absolute")).map(str::to_owned).collect();
    let trusts = |text: &str| !text.contains("dubious ownership");
    let (theirs, ours) = (text(&theirs), text(&ours));
    let (said, expected): (Vec<String>, Vec<String>) = (warnings(&ours), warnings(&theirs));
    assert_eq!(said, expected, "safe.directory={value} {words:?}");
    assert_eq!(trusts(&ours), trusts(&theirs), "safe.directory={value} {words:?}: {ours}");
    (trusts(&ours), said.len())
}

fn values(repo: &Repo) -> Vec<String> {
    let folder = repo.git_dir().canonicalize().unwrap();
    let parent = folder.parent().unwrap().display();
    let folder = folder.display();
    [".", "./", "./.", "..", "*", "/*", "main", "/elsewhere", "~/"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("{folder}"), format!("{folder}/"), format!("{folder}/*"), format!("{parent}/*")])
        .chain([format!("./' 'safe.directory'='{folder}"), format!("{folder}' 'safe.directory'='x/")])
        .collect()
}

#[test]
fn each_command_trusts_what_git_trusts_and_warns_of_relative_values_also_where_another_one_trusts() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id)]);
    let mut ways = vec![Foreign::ByVariable];
    if refdb_vfs::effective_user() == 0 {
        ways.push(Foreign::ByOwner);
    }
    let commands: [&[&str]; 12] = [
        &["show-ref"],
        &["for-each-ref"],
        &["symbolic-ref", "HEAD"],
        &["update-ref", "refs/heads/x", "HEAD"],
        &["pack-refs"],
        &["branch"],
        &["tag"],
        &["reflog", "exists", "HEAD"],
        &["refs", "verify"],
        &["refs", "exists", "HEAD"],
        &["refs", "list"],
        &["receive-pack", "."],
    ];
    let (mut trusted, mut warned) = (0, 0);
    for foreign in ways {
        if foreign == Foreign::ByOwner {
            chown(repo.git_dir(), Some(STRANGER), None).unwrap();
        }
        for value in values(&repo) {
            for words in commands {
                let (is_trusted, warnings) = compare(&repo, foreign, &value, words);
                trusted += usize::from(is_trusted);
                warned += usize::from(is_trusted && warnings > 0);
            }
        }
    }
    assert!(trusted > 40 && warned >= 20, "{trusted} trusted, {warned} of them with a warning");
}
