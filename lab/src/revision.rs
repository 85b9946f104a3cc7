//! Builds revisions of a repository, each in a temporary worktree. A build that succeeds is kept by commit and build
//! recipe.

use std::{
    cell::RefCell,
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use refdb_vfs::interrupt;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::{
    cache::{self, Access},
    complaint::{self, Complaint},
    guard::{end_strays, remove_folder},
    process::{finish, output, tool, wait},
    progress::progress,
    scenario::Scenario,
};

/// Maximum number of attempts to build a revision before it is taken as one that does not build, because a build may be
/// flaky.
const ATTEMPTS: usize = 2;

/// Variables of the environment that concern one repository: some of those that `git rev-parse --local-env-vars` lists,
/// and the namespace.
const LOCAL_VARIABLES: [&str; 10] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
];

/// The repository from which revisions come, and how they are built.
#[derive(Debug)]
pub struct Builds {
    repository: PathBuf,
    cache: PathBuf,
    recipe: String,
    /// The maximum duration of a build, in seconds.
    limit: u64,
    /// The locks of the builds in use, which keep others from removing them.
    in_use: RefCell<Vec<File>>,
}

/// The folder of a revision that was built, or the line of the output of a failed build that says why it failed, with
/// what to install if something is missing.
pub type Built = std::result::Result<PathBuf, String>;

impl Builds {
    /// Prepares to build revisions of `repository` as `scenario` says. The builds are kept in `cache`.
    pub fn new(repository: &Path, cache: &Path, scenario: &Scenario) -> Result<Builds> {
        let repository = fs::canonicalize(repository)
            .with_context(|| format!("cannot find the repository '{}'", repository.display()))?;
        fs::create_dir_all(cache).with_context(|| format!("cannot make '{}'", cache.display()))?;
        let cache = fs::canonicalize(cache)?;
        let (recipe, limit) = (scenario.build.clone(), scenario.build_limit);
        Ok(Builds { repository, cache, recipe, limit, in_use: RefCell::default() })
    }

    /// Returns a git command for the repository, without `GIT_DIR` and other variables by which the caller's
    /// environment may name another one or change its settings.
    pub fn git(&self) -> Command {
        let mut git = without_local_variables("git");
        git.arg("-C").arg(&self.repository);
        git
    }

    /// Returns the id of the commit that `revision` names.
    pub fn commit(&self, revision: &str) -> Result<String> {
        let name = format!("{revision}^{{commit}}");
        let mut git = self.git();
        let found = finish(git.args(["rev-parse", "--verify", "--quiet", "--end-of-options", &name]))?;
        let said = found.said.trim();
        ensure!(
            found.status.success(),
            "'{revision}' names no commit of '{}'{}{said}",
            self.repository.display(),
            if said.is_empty() { "" } else { ": git: " }
        );
        Ok(String::from_utf8_lossy(&found.output).trim().to_owned())
    }

    /// Returns the folder of a build of `commit`, which is built now unless it was built before.
    pub fn build(&self, commit: &str) -> Result<Built> {
        let home = self.home(commit);
        let (built, recipe) = (home.join("built"), home.join("recipe"));
        // The recipe is written last, so that an interrupted build is begun again.
        let is_built = || fs::read_to_string(&recipe).is_ok_and(|known| known == self.recipe) && built.is_dir();
        loop {
            let lock = cache::lock(&home, Access::Use, self.timeout())?;
            if is_built() {
                lock.set_modified(SystemTime::now())?;
                self.in_use.borrow_mut().push(lock);
                return Ok(Ok(built));
            }
            drop(lock);
            let lock = cache::lock(&home, Access::Change, self.timeout())?;
            // Another lab may have built the commit in the meantime.
            let made = if is_built() { Ok(Ok(())) } else { self.make(commit, &home, &lock) };
            // Without this, programs that a build has left in the background would keep the lock.
            lock.unlock()?;
            if let Err(said) = made? {
                return Ok(Err(said));
            }
        }
    }

    /// Builds a commit in its folder, which is locked.
    fn make(&self, commit: &str, home: &Path, lock: &File) -> Result<std::result::Result<(), String>> {
        let built = home.join("built");
        let made = self.attempts(commit, home, &built, lock);
        match &made {
            Ok(Ok(())) => fs::write(home.join("recipe"), &self.recipe)?,
            Ok(Err(_)) => remove_folder(&built)?,
            Err(_) => remove_folder(home)?,
        }
        made
    }

    /// Lets others remove the builds that were returned so far.
    pub fn release(&self) {
        self.in_use.borrow_mut().clear();
    }

    /// Returns the maximum time for which another lab may hold the lock of a build: the limits of all its attempts,
    /// and some minutes to create worktrees.
    fn timeout(&self) -> Duration {
        Duration::from_secs(self.limit.saturating_mul(ATTEMPTS as u64).saturating_add(600))
    }

    /// Builds a commit, and tries once more if that fails, unless [`complaint::Missing::is_certain`] says that this is
    /// in vain.
    fn attempts(
        &self,
        commit: &str,
        home: &Path,
        built: &Path,
        lock: &File,
    ) -> Result<std::result::Result<(), String>> {
        let mut said = String::new();
        for attempt in 1..=ATTEMPTS {
            progress(&format!("building {commit}{}", if attempt > 1 { " once more" } else { "" }));
            let Err((complaint, how)) = self.attempt(commit, home, built, lock)? else { return Ok(Ok(())) };
            let advice =
                complaint.missing.as_ref().map_or_else(String::new, |missing| format!("{}; ", missing.advice()));
            said = format!("{} ({advice}{how}; all of it is in '{}')", complaint.line, log_of(home).display());
            if complaint.missing.is_some_and(|missing| missing.is_certain()) {
                break;
            }
        }
        Ok(Err(said))
    }

    /// Builds a commit once, in a fresh worktree that is removed afterwards. The inner error says why and how the build
    /// failed.
    fn attempt(
        &self,
        commit: &str,
        home: &Path,
        built: &Path,
        lock: &File,
    ) -> Result<std::result::Result<(), (Complaint, String)>> {
        let (tree, log) = (home.join("tree"), log_of(home));
        remove_folder(built)?;
        fs::create_dir(built)?;
        self.drop_tree(&tree)?;
        let added = tool(self.git().args(["worktree", "add", "--quiet", "--detach", "--force"]).arg(&tree).arg(commit));
        let outcome = added.and_then(|()| self.script(&tree, built, &log, lock));
        self.drop_tree(&tree)?;
        let how = match outcome? {
            Ok(status) if status.success() => {
                fs::remove_file(&log)?;
                return Ok(Ok(()));
            }
            Ok(status) => status.to_string(),
            Err(why) => why,
        };
        Ok(Err((complaint::of(&String::from_utf8_lossy(&fs::read(&log)?)), how)))
    }

    /// Runs the build script, with its output in the file `log`. The inner error says why the script was given up, for
    /// example because it did not end in time.
    ///
    /// The script and all programs that it starts hold the lock too, so that no other lab builds beside those that go
    /// on after this lab was killed.
    fn script(
        &self,
        tree: &Path,
        built: &Path,
        log: &Path,
        lock: &File,
    ) -> Result<std::result::Result<ExitStatus, String>> {
        let held = lock.try_clone()?;
        fcntl_setfd(&held, FdFlags::empty())?;
        let output = File::create(log).with_context(|| format!("cannot write '{}'", log.display()))?;
        let mut child = without_local_variables("sh")
            .args(["-ec", &self.recipe])
            .env("BUILD", built)
            .current_dir(tree)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot run sh")?;
        drop(held);
        if let Err(error) = wait(&mut child, self.limit) {
            interrupt::check()?;
            return Ok(Err(format!("{error:#}")));
        }
        let status = child.wait()?;
        end_strays()?;
        Ok(Ok(status))
    }

    /// Removes a worktree and the repository's entry of it, even if it is left over from a build that was killed. The
    /// entries of other worktrees stay, because their folders may only be unavailable at the moment.
    fn drop_tree(&self, tree: &Path) -> Result<()> {
        remove_folder(tree)?;
        // This fails if there is no entry. One that stays is replaced when the worktree is made again.
        let _ = tool(self.git().args(["worktree", "remove", "--force", "--force"]).arg(tree));
        Ok(())
    }

    /// Returns the folder of a commit that is built by this recipe. If two recipes have the same hash,
    /// [`Builds::build`] notices that and builds the commit again.
    fn home(&self, commit: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        self.recipe.hash(&mut hasher);
        self.cache.join(cache::name_of_build(commit, hasher.finish()))
    }

    /// Returns the commits that may be the first bad one: ancestors of `bad` that are not ancestors of any of `goods`.
    /// The best one to try comes first, as in `git bisect`. `bad` itself is among them.
    pub fn suspects(&self, bad: &str, goods: &[String]) -> Result<Vec<String>> {
        let mut git = self.git();
        git.args(["rev-list", "--bisect-all", bad]).args(goods.iter().map(|good| format!("^{good}")));
        let list = output(&mut git).context("cannot list the commits between good and bad")?;
        Ok(list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
    }

    /// Returns the same commits as [`Builds::suspects`], ancestors first, so that `bad` is the last.
    pub fn between(&self, bad: &str, goods: &[String]) -> Result<Vec<String>> {
        let mut git = self.git();
        git.args(["rev-list", "--topo-order", "--reverse", bad]).args(goods.iter().map(|good| format!("^{good}")));
        let list = output(&mut git).context("cannot list the commits between good and bad")?;
        Ok(list.lines().map(str::to_owned).collect())
    }

    /// Fails if the good commit is not an ancestor of the bad one, because then no path leads from one to the other.
    pub fn check_order(&self, good: &str, bad: &str) -> Result<()> {
        let asked = finish(self.git().args(["merge-base", "--is-ancestor", good, bad]))?;
        ensure!(asked.status.success(), "the good commit {good} is no ancestor of the bad one, {bad}");
        Ok(())
    }

    /// Returns the subject of a commit's message.
    pub fn subject(&self, commit: &str) -> Result<String> {
        Ok(output(self.git().args(["show", "-s", "--format=%s", commit]))?.trim().to_owned())
    }
}

/// Returns a command in which git finds the repository by the current folder, also where the lab was called by a hook.
pub(crate) fn without_local_variables(program: &str) -> Command {
    let mut command = Command::new(program);
    for name in LOCAL_VARIABLES {
        command.env_remove(name);
    }
    command
}

/// Returns the file with the output of a build that failed.
fn log_of(home: &Path) -> PathBuf {
    home.join("log")
}
