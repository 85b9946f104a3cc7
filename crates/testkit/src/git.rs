use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

/// Real git, which is the oracle of tests.
#[derive(Debug)]
pub struct Git {
    program: PathBuf,
}

/// The time of objects and reflog entries for which a test sets no other one, so that ids are the same in every run.
const DATE: &str = "1700000000 +0000";

impl Git {
    /// Returns real git: the one that `REFDB_GIT` names, or else the one that `scripts/setup/install-git` has built.
    ///
    /// # Panics
    ///
    /// If there is none, because a test without its oracle proves nothing.
    pub fn find() -> &'static Git {
        static FOUND: OnceLock<Git> = OnceLock::new();
        FOUND.get_or_init(|| {
            let program = env::var_os("REFDB_GIT").map_or_else(|| cache().join("git/built/bin/git"), PathBuf::from);
            assert!(program.is_file(), "no git at '{}': run scripts/setup/install-git first", program.display());
            Git { program }
        })
    }

    /// Returns the path of the git binary.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the major and minor version of git, for tests of behaviour that differs between versions.
    pub fn version(&self) -> (u32, u32) {
        static FOUND: OnceLock<(u32, u32)> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let output = Command::new(&self.program).arg("--version").output().expect("git can be run");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut numbers = text.split([' ', '.']).filter_map(|word| word.trim().parse().ok());
            numbers.next().zip(numbers.next()).unwrap_or_else(|| panic!("git calls its version {text:?}"))
        })
    }

    /// Returns a helper program of git's own test suite (`t/helper/test-tool`), which prints what no command does.
    ///
    /// # Panics
    ///
    /// If there is none, because `REFDB_GIT` names a git that `scripts/setup/install-git` has not built.
    pub fn test_tool(&self) -> PathBuf {
        let source = self.program.ancestors().nth(3).expect("git lies in SOURCE/built/bin");
        let tool = source.join("t/helper/test-tool");
        assert!(
            tool.is_file(),
            "no test-tool at '{}': REFDB_GIT must be a git of scripts/setup/install-git",
            tool.display()
        );
        tool
    }

    /// Returns a git command that runs in the folder `dir`, in the clean environment.
    pub fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.program);
        clean(&mut command, dir);
        command
    }
}

/// Returns the cache outside of the source tree that the scripts share: `REFDB_CACHE`, else `XDG_CACHE_HOME/refdb`,
/// else `~/.cache/refdb`.
fn cache() -> PathBuf {
    let var = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    var("REFDB_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("refdb")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/refdb")))
        .expect("HOME is set")
}

/// Makes `command` run in `dir` without any configuration of the machine or the user. Idents and dates are fixed, and
/// neither a locale nor `GIT_*` variables are inherited.
pub(crate) fn clean(command: &mut Command, dir: &Path) {
    let git = Git::find().program.parent().expect("a file has a folder");
    let mut path = git.as_os_str().to_owned();
    path.push(OsStr::new(":"));
    path.push(env::var_os("PATH").unwrap_or_default());
    command.current_dir(dir).env_clear();
    // Temporary files must lie where the caller wants them, and a build that measures coverage writes its profile to
    // LLVM_PROFILE_FILE. No answer of git or refdb depends on either.
    command.envs(env::vars_os().filter(|(name, _)| ["TMPDIR", "LLVM_PROFILE_FILE"].iter().any(|keep| name == keep)));
    command
        .env("PATH", path)
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "A U Thor")
        .env("GIT_AUTHOR_EMAIL", "author@example.com")
        .env("GIT_AUTHOR_DATE", DATE)
        .env("GIT_COMMITTER_NAME", "C O Mitter")
        .env("GIT_COMMITTER_EMAIL", "committer@example.com")
        .env("GIT_COMMITTER_DATE", DATE);
}

/// Runs a command to its end with `input` on its standard input. Input and output may both be large.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command that fails early closes its standard input; its exit status and its messages say why.
            let _ = std::io::Write::write_all(&mut stdin, input);
        });
        child.wait_with_output().unwrap_or_else(|error| panic!("cannot wait for {command:?}: {error}"))
    })
}

/// Runs a command to its end with `input` on its standard input, and returns its standard output.
///
/// # Panics
///
/// If the command fails, with its standard error.
pub(crate) fn run_ok(command: Command, input: &[u8]) -> Vec<u8> {
    let shown = format!("{command:?}");
    let output = run(command, input);
    assert!(output.status.success(), "{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    output.stdout
}
