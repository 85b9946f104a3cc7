//! Lists the commits of the watched branch.

use std::{
    collections::HashSet,
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{
    process::{finish, finish_within, output},
    revision::Builds,
};

/// A branch, as it is at one moment.
#[derive(Debug)]
pub struct Branch<'a> {
    builds: &'a Builds,
    /// The id of the branch's last commit.
    pub tip: String,
    all_commits: bool,
}

/// The commits of a branch after the anchor, the commit beside which the others are measured.
#[derive(Debug)]
pub struct Line {
    /// The commits, ancestors first, without the anchor.
    pub commits: Vec<String>,
    fresh: HashSet<String>,
}

impl Line {
    /// Returns whether no commit that was measured contains this one.
    pub fn is_new(&self, commit: &str) -> bool {
        self.fresh.contains(commit)
    }
}

impl Branch<'_> {
    /// Looks a branch up. Unless `all_commits` is set, only the merge of a topic counts, not the commits of the topic.
    pub fn find<'a>(builds: &'a Builds, name: &str, all_commits: bool) -> Result<Branch<'a>> {
        Ok(Branch { builds, tip: builds.commit(name)?, all_commits })
    }

    /// Returns whether the branch contains a commit. It does not contain one that is no longer in the repository.
    pub fn contains(&self, commit: &str) -> Result<bool> {
        is_ancestor(self.builds, commit, &self.tip)
    }

    /// Returns the commits after `anchor`, which the branch must contain. Those that do not descend from it are left
    /// out, because they may lack what `anchor` has; the merge that brings them is judged instead.
    pub fn since(&self, anchor: &str, measured: &[String]) -> Result<Line> {
        let descend: HashSet<String> = self.list(&["--ancestry-path"], &[anchor.to_owned()])?.into_iter().collect();
        let first_parent = if self.all_commits { None } else { Some("--first-parent") };
        let options: Vec<&str> = ["--reverse", "--topo-order"].into_iter().chain(first_parent).collect();
        let mut commits = self.list(&options, &[anchor.to_owned()])?;
        commits.retain(|commit| descend.contains(commit));
        let fresh = self.list(&["--ignore-missing"], measured)?.into_iter().collect();
        Ok(Line { commits, fresh })
    }

    /// Returns those ancestors of the tip, itself included, that `git rev-list` lists with these options and that are
    /// not ancestors of any of `without`.
    fn list(&self, options: &[&str], without: &[String]) -> Result<Vec<String>> {
        let mut git = self.builds.git();
        git.arg("rev-list").args(options).arg("--stdin").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut listing = git.spawn().context("cannot run git")?;
        let input: String = without.iter().map(|commit| format!("^{commit}\n")).collect();
        let mut stdin = listing.stdin.take().context("git has an input")?;
        stdin.write_all(format!("{}\n{input}", self.tip).as_bytes()).context("cannot name commits to git")?;
        drop(stdin);
        let done = listing.wait_with_output()?;
        ensure!(done.status.success(), "git cannot list the commits of the branch ({})", done.status);
        Ok(String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect())
    }

    /// Returns the last commit that the branch has in common with `commit`; `None` if git finds none.
    pub fn common_with(&self, commit: &str) -> Option<String> {
        let base = output(self.builds.git().args(["merge-base", commit, &self.tip])).ok()?;
        Some(base.trim().to_owned()).filter(|base| !base.is_empty())
    }
}

/// Returns whether `commit` is `other` or an ancestor of it; `false` also if git does not find one of them.
pub fn is_ancestor(builds: &Builds, commit: &str, other: &str) -> Result<bool> {
    Ok(finish(builds.git().args(["merge-base", "--is-ancestor", commit, other]))?.status.success())
}

/// Fetches from all remotes of the repository.
pub fn fetch(git: &mut Command) -> Result<()> {
    let ended = finish_within(git.args(["fetch", "--quiet", "--all"]), FETCH_LIMIT_SECONDS, true);
    let ended = ended.context("cannot fetch")?;
    ensure!(ended.status.success(), "cannot fetch: {}", ended.said.trim());
    Ok(())
}

/// Maximum duration of a fetch, which may be the first one of a large repository.
const FETCH_LIMIT_SECONDS: u64 = 6 * 60 * 60;
