//! The `git` that passes ref commands to refdb, as `refdb-exec-path` sets it up. Git itself starts these commands too.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use refdb_testkit::{Git, RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A folder for `PATH` and `GIT_EXEC_PATH`, whose refdb logs each of its calls.
struct Shim {
    folder: tempfile::TempDir,
}

impl Shim {
    fn new() -> Self {
        let shim = Shim { folder: tempfile::tempdir().unwrap() };
        let refdb = shim.folder.path().join("refdb");
        let calls = shim.calls_file();
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$*\" >>'{}'\nexec '{REFDB}' \"$@\"\n", calls.display());
        fs::write(&refdb, script).unwrap();
        fs::set_permissions(&refdb, fs::Permissions::from_mode(0o755)).unwrap();
        shim.make(&refdb);
        fs::write(calls, "").unwrap();
        shim
    }

    fn make(&self, refdb: &Path) {
        let maker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build/refdb-exec-path");
        let made = Command::new(maker).arg(self.programs()).arg(Git::find().program()).env("REFDB", refdb).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("it's programs")
    }

    fn calls_file(&self) -> PathBuf {
        self.folder.path().join("calls")
    }

    /// Returns the calls of refdb since this method was last called.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.calls_file()).unwrap();
        fs::write(self.calls_file(), "").unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// Runs a program with the folder first in `PATH` and as `GIT_EXEC_PATH`.
    fn run(&self, repo: &Repo, program: &str, words: &[&str]) -> Output {
        let clean = Git::find().command(repo.dir());
        let path = format!("{}:{}", self.programs().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(if program == "git" { self.programs().join("git") } else { program.into() });
        command.args(words).current_dir(repo.dir()).env_clear();
        command.envs(clean.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", path).env("GIT_EXEC_PATH", self.programs()).output().unwrap()
    }

    /// Runs the folder's `git`, which must answer as the real git does, and returns the calls of refdb.
    fn same(&self, repo: &Repo, words: &[&str]) -> Vec<String> {
        let ours = self.run(repo, "git", words);
        let gits = repo.try_git(words, "");
        let tell = |output: &Output| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        assert_eq!(tell(&ours), tell(&gits), "{words:?}");
        self.calls()
    }
}

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

fn repo(format: RefFormat) -> Repo {
    let repo = Repo::with_worktree(format, HashKind::Sha1);
    let commits = repo.commits(3);
    repo.create_refs([("refs/heads/main", commits[2]), ("refs/heads/a", commits[0]), ("refs/tags/v1", commits[1])]);
    repo.git(["reset", "-q", "--hard"]);
    repo
}

#[test]
fn ref_commands_are_handed_over_and_nothing_else_is() {
    let shim = Shim::new();
    for format in RefFormat::ALL {
        let repo = repo(format);
        for words in [
            &["show-ref"][..],
            &["for-each-ref", "--format=%(refname)"],
            &["symbolic-ref", "HEAD"],
            &["update-ref", "refs/heads/b", "main"],
            &["check-ref-format", "refs/heads/x"],
            &["pack-refs", "--all"],
            &["refs", "exists", "refs/heads/a"],
            &["refs", "list"],
            &["refs", "verify"],
            &["branch", "-v"],
            &["tag", "--list", "v*"],
            &["-c", "core.abbrev=9", "-C", ".", "--no-pager", "branch", "-v"],
            &["--git-dir", ".git", "show-ref", "refs/tags/v1"],
        ] {
            assert_eq!(shim.same(&repo, words), [words.join(" ")], "{words:?}");
        }
        for words in [
            &["status", "--short"][..],
            &["rev-parse", "HEAD"],
            &["refs", "nothing"],
            &["log", "--oneline", "tag"],
            &["-c", "show-ref", "rev-parse", "a"],
            &["-p", "branch"],
            &["nothing"],
            &["--version"],
            // Git ends at these options and does not run the command.
            &["--html-path", "branch"],
            &["--list-cmds=main", "branch"],
            &["--no-such-option", "branch"],
            &["-cx.y=z", "tag"],
        ] {
            assert!(shim.same(&repo, words).is_empty(), "{words:?}");
        }
        // Passed to refdb, which delegates them to git.
        assert_eq!(shim.same(&repo, &["tag", "-d", "none"]), ["tag -d none"]);
        assert_eq!(shim.same(&repo, &["branch", "--no-such-option"]), ["branch --no-such-option"]);
    }
}

/// Git lets no alias replace one of its own commands, so a program in front of git may pass these commands on
/// without looking at aliases.
#[test]
fn an_alias_does_not_replace_a_command() {
    let repo = repo(RefFormat::Files);
    let own = repo.git(["show-ref"]);
    assert_eq!(repo.git(["-c", "alias.show-ref=!false", "show-ref"]), own);
}

#[test]
fn what_git_itself_starts_is_handed_over() {
    let shim = Shim::new();
    for format in RefFormat::ALL {
        let repo = repo(format);
        let done = |program: &str, words: &[&str]| {
            let output = shim.run(&repo, program, words);
            assert!(output.status.success(), "{words:?}: {output:?}");
            shim.calls()
        };
        let calls = done("git", &["gc", "--quiet"]);
        assert!(calls.iter().any(|call| call.starts_with("pack-refs ")), "{calls:?}");
        // A program of git's that is a shell script.
        let calls = done("git", &["filter-branch", "-f", "--msg-filter", "cat", "a"]);
        assert!(calls.iter().any(|call| call.starts_with("for-each-ref")), "{calls:?}");
        // The dashed name, which old scripts use.
        let dashed = shim.programs().join("git-for-each-ref");
        assert_eq!(done(dashed.to_str().unwrap(), &["refs/heads/a"]), ["for-each-ref refs/heads/a"]);
        // A hook and an alias of the user's own.
        let hook = repo.git_dir().join("hooks/post-commit");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, "#!/bin/sh\ngit show-ref --quiet refs/heads/main\n").unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(done("git", &["commit", "-q", "--allow-empty", "-m", "x"]), ["show-ref --quiet refs/heads/main"]);
        assert_eq!(done("git", &["-c", "alias.heads=!git show-ref --branches", "heads"]), ["show-ref --branches"]);
        repo.verify();
    }
}

#[test]
fn the_folder_can_be_made_again_and_for_itself_alone() {
    let shim = Shim::new();
    let refdb = shim.folder.path().join("refdb");
    shim.make(&refdb);
    shim.calls();
    let repo = repo(RefFormat::Files);
    assert_eq!(shim.same(&repo, &["show-ref"]), ["show-ref"]);
    fs::write(shim.programs().join("mine"), "").unwrap();
    let maker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build/refdb-exec-path");
    let output =
        Command::new(maker).arg(shim.programs()).arg(Git::find().program()).env("REFDB", refdb).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("/mine' is in the way"), "{told}");
}
