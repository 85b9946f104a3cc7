//! Synthetic repositories for the lab, whose builds are copies of a commit's files. Most commits contain the cost of
//! their own build.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test that cannot go on shall panic, and needs no manual")]
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod history;
pub(crate) mod numbered;
pub(crate) mod watched;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// A repository whose history the test creates, with a scenario and a cache for it.
pub(crate) struct Synthetic {
    folder: TempDir,
}

/// The build script, which copies the folder. A folder that contains the file `broken` does not build.
const BUILD: &str = "if test -e broken; then echo 'no rule to make it' >&2; exit 2; fi; cp -R . \"$BUILD\"\n";

impl Synthetic {
    pub(crate) fn new(command: &str, more: &str) -> Synthetic {
        let folder = tempfile::tempdir().unwrap();
        let synthetic = Synthetic { folder };
        fs::create_dir(synthetic.repository()).unwrap();
        synthetic.git(&["init", "-q", "-b", "main"]);
        let text = format!("build = '''{BUILD}'''\ncommand = '''{command}'''\n{more}\n");
        fs::write(synthetic.scenario(), text).unwrap();
        synthetic
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    pub(crate) fn scenario(&self) -> PathBuf {
        self.folder.path().join("planted.toml")
    }

    /// Creates an empty folder outside of the repository, in which builds and runs keep files of the test.
    pub(crate) fn folder_of_luck(&self) -> PathBuf {
        let folder = self.folder.path().join("luck");
        fs::create_dir(&folder).unwrap();
        folder
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", "/");
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "A U Thor").env(format!("GIT_{who}_EMAIL"), "author@example.com");
            git.env(format!("GIT_{who}_DATE"), "1700000000 +0000");
        }
        let output = finish(git.arg("-C").arg(self.repository()).args(args));
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits the file `name` with `content`. Returns the id of the commit.
    pub(crate) fn commit(&self, name: &str, content: &str) -> String {
        fs::write(self.repository().join(name), content).unwrap();
        self.commit_all(&format!("{name}: {content}"))
    }

    /// Commits the current content of the folder. Returns the id of the commit.
    pub(crate) fn commit_all(&self, subject: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", subject]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Adds lines to the build script.
    pub(crate) fn build_more(&self, lines: &str) {
        let text = fs::read_to_string(self.scenario()).unwrap();
        fs::write(self.scenario(), text.replacen(BUILD, &format!("{BUILD}{lines}"), 1)).unwrap();
    }

    /// Runs the lab with these revisions.
    pub(crate) fn lab(&self, action: &str, revisions: &str, more: &[&str]) -> Output {
        finish(&mut self.command(action, revisions, more))
    }

    pub(crate) fn command(&self, action: &str, revisions: &str, more: &[&str]) -> Command {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
        lab.arg(action).arg(self.scenario()).arg("--revisions").arg(self.repository()).arg(revisions);
        lab.arg("--cache").arg(self.cache()).args(["--seed", "1"]).args(more);
        lab
    }

    /// Runs the lab, which must succeed, and returns its output.
    pub(crate) fn said(&self, action: &str, revisions: &str, more: &[&str]) -> String {
        let output = self.lab(action, revisions, more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the lab, which must fail, and returns the last line of its error message.
    pub(crate) fn complaint(&self, action: &str, revisions: &str, more: &[&str]) -> String {
        let output = self.lab(action, revisions, more);
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).lines().last().unwrap().to_owned()
    }
}

/// Runs `program` to its end, which must come within four minutes even if something in it hangs. Its output goes to
/// files, because a pipe that a stray process holds open would delay the end.
pub(crate) fn finish(program: &mut Command) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    program.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let status = end(program.spawn().unwrap());
    Output { status, stdout: fs::read(out).unwrap(), stderr: fs::read(err).unwrap() }
}

/// Waits until a program that was started has ended, within four minutes.
pub(crate) fn end(mut child: Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > Duration::from_secs(240) {
            child.kill().unwrap();
            panic!("the program hangs");
        }
        sleep(Duration::from_millis(5));
    }
}

/// Returns the number of subfolders that contain an entry called `name`.
pub(crate) fn files_named(folder: &Path, name: &str) -> usize {
    let entries = fs::read_dir(folder).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().path().join(name).exists()).count()
}
