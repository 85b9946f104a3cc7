//! The repository that is served.

use crate::Options;
use anyhow::{Context, Result, ensure};
use refdb_bench::place::make_once;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A repository, and the commit to which all of its refs point at the start.
pub(crate) struct Repository {
    pub(crate) path: PathBuf,
    pub(crate) commit: String,
}

impl Repository {
    /// The name of the repository's folder, which is its path in URLs.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Runs git, or refdb in its place, in a repository with this input, and returns the standard output.
pub(crate) fn git(program: &Path, path: &Path, words: &[&str], input: impl AsRef<[u8]>) -> Result<String> {
    use std::io::Write;
    let identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"];
    let mut command = Command::new(program);
    command.arg("-C").arg(path).args(identity).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run git")?;
    child.stdin.take().context("git has no input")?.write_all(input.as_ref())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "git {words:?}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs git, or refdb in its place, as [`git`] does, but lets it wait a minute for locks that others hold, for which
/// git's defaults are short.
pub(crate) fn git_patiently(program: &Path, path: &Path, words: &[&str], input: impl AsRef<[u8]>) -> Result<String> {
    let timeouts = ["reftable.lockTimeout=60000", "core.filesRefLockTimeout=60000", "core.packedRefsTimeout=60000"];
    let settings = timeouts.iter().flat_map(|setting| ["-c", setting]);
    git(program, path, &settings.chain(words.iter().copied()).collect::<Vec<_>>(), input)
}

/// Makes the repository, unless it is there already.
pub(crate) fn make(options: &Options, root: &Path, format: &str) -> Result<Repository> {
    let path = root.join(format!("{format}.git"));
    make_once(&path, |part| {
        fs::create_dir_all(part)?;
        init(options, part, format)?;
        let commit = commit(options, part)?;
        let mut names: Vec<_> =
            (1..options.refs).map(|at| format!("refs/changes/{:02}/{:06}/{}x", at % 100, at / 4, at % 4)).collect();
        names.push("refs/heads/main".into());
        if format == "files" {
            // Creating them would make a lock file for each.
            names.sort_unstable();
            let rows: String = names.iter().map(|name| format!("{commit} {name}\n")).collect();
            fs::write(part.join("packed-refs"), format!("# pack-refs with: peeled fully-peeled sorted \n{rows}"))?;
        } else {
            let commands: String = names.iter().map(|name| format!("create {name} {commit}\n")).collect();
            let refdb = options.serve.with_file_name("refdb");
            git(&refdb, part, &["update-ref", "--stdin"], &commands)?;
        }
        git(&options.git, part, &["symbolic-ref", "HEAD", "refs/heads/main"], "")?;
        Ok(())
    })?;
    let commit = git(&options.git, &path, &["rev-parse", "refs/heads/main"], "")?;
    Ok(Repository { path, commit })
}

pub(crate) fn init(options: &Options, path: &Path, format: &str) -> Result<()> {
    let format = format!("--ref-format={format}");
    git(&options.git, path, &["init", "--quiet", "--bare", &format], "")?;
    git(&options.git, path, &["config", "http.receivepack", "true"], "")?;
    // Without it, JGit does not see what others write.
    git(&options.git, path, &["config", "reftable.autoRefresh", "true"], "")?;
    // Garbage of one server's pushes shall not be collected while another one is measured.
    git(&options.git, path, &["config", "gc.auto", "0"], "")?;
    git(&options.git, path, &["config", "maintenance.auto", "false"], "")?;
    // Synced, as a server should be.
    git(&options.git, path, &["config", "core.fsync", "reference,loose-object,pack,pack-metadata"], "")?;
    Ok(())
}

/// Makes a commit without files, and returns its id.
pub(crate) fn commit(options: &Options, path: &Path) -> Result<String> {
    let tree = git(&options.git, path, &["mktree"], "")?;
    git(&options.git, path, &["commit-tree", "-m", "bench", &tree], "")
}
