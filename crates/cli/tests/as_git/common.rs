//! Runs one command line through git and through refdb and compares what they say.

use refdb_testkit::Git;
use std::{
    ffi::OsStr,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

/// A folder in which both programs run.
pub(crate) struct Repo {
    folder: tempfile::TempDir,
}

impl Repo {
    /// A folder that is no repository.
    pub(crate) fn outside() -> Self {
        Repo { folder: tempfile::tempdir().unwrap() }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs git.
    pub(crate) fn git<S: AsRef<OsStr>>(&self, words: &[S], input: &[u8]) -> Output {
        run(Git::find().program(), self.path(), words, input)
    }

    /// Runs refdb.
    pub(crate) fn refdb<S: AsRef<OsStr>>(&self, words: &[S], input: &[u8]) -> Output {
        run(Path::new(env!("CARGO_BIN_EXE_refdb")), self.path(), words, input)
    }

    /// Runs both, for a command that changes nothing, and requires the same output, messages and exit code.
    pub(crate) fn same<S: AsRef<OsStr>>(&self, words: &[S]) {
        let shown = || words.iter().map(|word| word.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
        assert_same(&shown(), &self.git(words, b""), &self.refdb(words, b""));
    }
}

/// Requires that two runs said the same and ended the same.
pub(crate) fn assert_same(what: &str, git: &Output, refdb: &Output) {
    let tell = |output: &Output| {
        format!(
            "{}\n-- stdout\n{}\n-- stderr\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            without_descriptions(&String::from_utf8_lossy(&output.stderr))
        )
    };
    let (git, refdb) = (tell(git), tell(refdb));
    assert!(git == refdb, "{what}\n==== git: {git}\n==== refdb: {refdb}");
}

/// A usage without its list of options: the descriptions are in our own words.
fn without_descriptions(text: &str) -> String {
    let mut list = false;
    let mut kept = String::new();
    for line in text.lines() {
        list |= line.is_empty() && kept.contains("usage: git ");
        if !list {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn run<S: AsRef<OsStr>>(program: &Path, folder: &Path, words: &[S], input: &[u8]) -> Output {
    let clean = Git::find().command(folder);
    let mut child = Command::new(program)
        .args(words)
        .current_dir(folder)
        .env_clear()
        .envs(clean.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that ends without reading closes the pipe; that is no mistake of the test.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}
