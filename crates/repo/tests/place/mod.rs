//! Repositories of all kinds, in which refdb's answers are compared with git's.
#![allow(dead_code, reason = "each test program needs some of it")]

use refdb_repo::{Environment, Repository};
use refdb_testkit::Git;
use refdb_vfs::Fs;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// A folder with repositories of all kinds, and comparisons in it.
pub(crate) struct Place {
    pub(crate) temp: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Place { temp: TempDir::with_prefix("refdb-discovery-").unwrap() };
        place.git("", &["init", "-q", "main"]);
        place.git("main", &["commit", "-q", "--allow-empty", "-m", "x"]);
        place.git("main", &["worktree", "add", "-q", "../linked"]);
        place.git("", &["init", "-q", "--bare", "bare.git"]);
        place.git("", &["init", "-q", "--ref-format=reftable", "tables"]);
        place.git("", &["init", "-q", "--object-format=sha256", "long"]);
        fs::create_dir_all(place.path("main/sub/deep")).unwrap();
        fs::create_dir_all(place.path("none/deep")).unwrap();
        place
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(below)
    }

    pub(crate) fn git(&self, dir: &str, args: &[&str]) -> String {
        let output = Git::find().command(&self.path(dir)).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What git answers in `dir` with these variables: what it found, or what it printed to stderr.
    pub(crate) fn gits_answer(&self, dir: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let mut command = Git::find().command(&self.path(dir));
        command.args(["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"]);
        command.args(["--show-ref-format", "--show-object-format", "--is-bare-repository"]);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).unwrap());
        }
        assert_eq!(output.status.code(), Some(128));
        Err(String::from_utf8(output.stderr).unwrap())
    }

    pub(crate) fn environment(&self, dir: &str, variables: &[(&str, &str)]) -> Environment {
        let mut environment = Environment::empty(self.path(dir)).with("GIT_CONFIG_NOSYSTEM", "1");
        environment = environment.with("GIT_CONFIG_GLOBAL", "/dev/null").with("HOME", "/nonexistent");
        for (name, value) in variables {
            environment = environment.with(*name, *value);
        }
        environment
    }

    pub(crate) fn our_answer(&self, dir: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        match Repository::discover(&Fs::real(), &self.environment(dir, variables)) {
            Err(error) => Err(error.report()),
            Ok(found) => {
                let shown = |path: &Path| path.canonicalize().unwrap().display().to_string();
                Ok(format!(
                    "{}\n{}\n{}\n{}\n{}\n",
                    shown(found.git_dir()),
                    shown(found.common_dir()),
                    found.ref_format().name(),
                    found.hash().name(),
                    found.is_bare()
                ))
            }
        }
    }

    #[track_caller]
    pub(crate) fn compare(&self, dir: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let git = self.gits_answer(dir, variables);
        assert_eq!(self.our_answer(dir, variables), git, "in {dir} with {variables:?}");
        git
    }

    #[track_caller]
    pub(crate) fn same(&self, dir: &str, variables: &[(&str, &str)]) {
        self.compare(dir, variables).expect("git finds a repository");
    }

    #[track_caller]
    pub(crate) fn same_error(&self, dir: &str, variables: &[(&str, &str)]) {
        self.compare(dir, variables).expect_err("git finds no repository");
    }
}
