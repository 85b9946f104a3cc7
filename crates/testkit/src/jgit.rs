use crate::{Listed, Repo};
use bstr::BString;
use refdb_types::{HashKind, ObjectId};
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

/// A Java process in which JGit holds one repository open. [`JGit::open`] and [`JGit::open_with_ssh`] set
/// `reftable.autoRefresh` in the repository's configuration.
///
/// JGit supports only SHA-1. An `Err` contains the message of the exception in JGit; the result of a change is the name
/// that JGit gives it, such as `NEW`, `LOCK_FAILURE` or `REJECTED_OTHER_REASON`.
#[derive(Debug)]
pub struct JGit {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl JGit {
    /// Starts JGit on a repository.
    ///
    /// # Panics
    ///
    /// If the driver was not built, or if the repository does not use SHA-1.
    pub fn open(repo: &Repo) -> Self {
        Self::open_with_ssh(repo, None)
    }

    /// Starts JGit on a repository, with a program that it calls instead of its own ssh.
    ///
    /// # Panics
    ///
    /// If the driver was not built, or if the repository does not use SHA-1.
    pub fn open_with_ssh(repo: &Repo, ssh: Option<&Path>) -> Self {
        assert_eq!(repo.hash(), HashKind::Sha1, "JGit knows SHA-1 only");
        repo.config("reftable.autoRefresh", "true");
        Self::start(repo.git_dir(), ssh, &|java| repo.command(java))
    }

    /// Starts JGit on a repository, under strace, which delays it by `pause` whenever it has opened `file` and not yet
    /// read it.
    ///
    /// # Panics
    ///
    /// If the driver was not built, or if strace is not installed.
    pub fn open_slow_to_read(repo: &Repo, file: &Path, pause: Duration) -> Self {
        let delay = format!("inject=openat:delay_exit={}", pause.as_micros());
        let file = file.to_str().expect("a test's path is UTF-8");
        let options = ["-qq", "-f", "--seccomp-bpf", "-o", "/dev/null", "-P", file, "-e", "trace=openat", "-e", &delay];
        Self::start(repo.git_dir(), None, &|java| {
            let mut command = repo.command("strace");
            command.args(options).arg(java);
            command
        })
    }

    /// Starts JGit on a repository that was not created by the testkit, without changing its configuration.
    ///
    /// # Panics
    ///
    /// If the driver was not built.
    pub fn open_dir(git_dir: &Path) -> Self {
        Self::start(git_dir, None, &|java| Command::new(java))
    }

    fn start(git_dir: &Path, ssh: Option<&Path>, command: &dyn Fn(&str) -> Command) -> Self {
        let driver = driver();
        let java = std::fs::read_to_string(driver.join("java")).expect("the driver names its java");
        // JGit spends seconds on measuring the clock of the file system, once for each home folder.
        let home = driver.join("home");
        let mut command = command(java.trim());
        // A fast start matters more than a fast run, because tests ask at most a few thousand questions.
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]);
        command.arg(format!("-Duser.home={}", home.display())).env("HOME", &home).env("XDG_CONFIG_HOME", &home);
        command.envs(ssh.map(|ssh| ("GIT_SSH", ssh)));
        command.arg("-jar").arg(driver.join("jgit-driver.jar")).arg(git_dir);
        let mut child = spawn(command);
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        JGit { child, stdin, stdout }
    }

    /// Returns a ref, if it exists.
    pub fn get(&mut self, name: &str) -> Result<Option<Listed>, String> {
        Ok(self.ask(&["get", name], &[])?.first().map(|line| listed(line)))
    }

    /// Returns the refs whose names begin with `prefix`, sorted.
    pub fn list(&mut self, prefix: &str) -> Result<Vec<Listed>, String> {
        let mut refs: Vec<_> = self.ask(&["list", prefix], &[])?.iter().map(|line| listed(line)).collect();
        refs.sort();
        Ok(refs)
    }

    /// Returns the names of the refs that point to an object, directly or through an annotated tag.
    pub fn points_at(&mut self, oid: ObjectId) -> Result<Vec<BString>, String> {
        let lines = self.ask(&["points-at", &oid.to_string()], &[])?;
        let mut names: Vec<_> = lines.iter().map(|line| listed(line).name).collect();
        names.sort();
        Ok(names)
    }

    /// Sets a ref, even if that is not a fast-forward. If `old` is given, it must match; the null id means that the
    /// ref must not exist.
    pub fn update(
        &mut self,
        name: &str,
        new: ObjectId,
        old: Option<ObjectId>,
        message: &str,
    ) -> Result<String, String> {
        let old = old.map_or(String::new(), |old| old.to_string());
        self.ask_word(&["update", name, &new.to_string(), &old, message])
    }

    /// Deletes a ref regardless of its value.
    pub fn delete(&mut self, name: &str) -> Result<String, String> {
        self.ask_word(&["delete", name])
    }

    /// Makes `name` a symbolic ref that points to `target`.
    pub fn link(&mut self, name: &str, target: &str) -> Result<String, String> {
        self.ask_word(&["link", name, target])
    }

    /// Changes many refs, each given as `(name, old, new)`, where the null id means that there is no ref. Returns a
    /// result for each, in order.
    pub fn batch(&mut self, atomic: bool, edits: &[(&str, ObjectId, ObjectId)]) -> Result<Vec<String>, String> {
        let mut lines: Vec<String> = edits.iter().map(|(name, old, new)| format!("{name}\t{old}\t{new}")).collect();
        lines.push(".".into());
        let answer = self.ask(&["batch", if atomic { "atomic" } else { "each" }], &lines)?;
        let word = |line: &String| line.rsplit('\t').next().expect("a field").to_owned();
        Ok(answer.iter().map(word).collect())
    }

    /// Returns a reflog, oldest entry first, in the same form as [`Repo::reflog`]. Unlike that function, this one also
    /// separates the entries that JGit wrote to a reftable: JGit stores their messages without the newline with which
    /// git ends a message, so that [`Repo::reflog`] returns several entries as one line.
    pub fn reflog(&mut self, name: &str) -> Result<Vec<BString>, String> {
        Ok(self.ask(&["reflog", name], &[])?.into_iter().rev().map(BString::from).collect())
    }

    /// Packs all refs like `pack-refs --all` of JGit.
    pub fn pack(&mut self) -> Result<(), String> {
        self.ask(&["pack"], &[]).map(drop)
    }

    /// Pushes `SOURCE:REF...`. Returns the result of each update and the messages of the server, as lines.
    pub fn push(&mut self, url: &str, specs: &[String]) -> Result<Vec<String>, String> {
        let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
        self.ask(&[&["push", url], &specs[..]].concat(), &[])
    }

    /// Merges a reftable stack into one table.
    pub fn compact(&mut self) -> Result<(), String> {
        self.ask(&["compact"], &[]).map(drop)
    }

    fn ask_word(&mut self, fields: &[&str]) -> Result<String, String> {
        let lines = self.ask(fields, &[])?;
        Ok(lines.into_iter().next().expect("a result"))
    }

    fn ask(&mut self, fields: &[&str], more: &[String]) -> Result<Vec<String>, String> {
        assert!(fields.iter().all(|field| !field.contains(['\t', '\n'])), "{fields:?}: the driver cannot be told this");
        let mut text = fields.join("\t");
        for line in more {
            text.push('\n');
            text.push_str(line);
        }
        text.push('\n');
        self.stdin.write_all(text.as_bytes()).and_then(|()| self.stdin.flush()).expect("the JGit driver listens");
        let mut answer = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line).expect("the JGit driver answers");
            assert_ne!(read, 0, "the JGit driver ended while it did {fields:?}; its stderr says why");
            let line = line.trim_end_matches('\n');
            if let Some(data) = line.strip_prefix('=') {
                answer.push(data.to_owned());
            } else if line.is_empty() && !answer.is_empty() {
                // A message that git or refdb wrote ends with a newline, and JGit returns it as it is stored.
            } else if let Some(reason) = line.strip_prefix("error ") {
                return Err(reason.to_owned());
            } else {
                assert_eq!(line, "ok", "from the JGit driver");
                return Ok(answer);
            }
        }
    }
}

impl Drop for JGit {
    fn drop(&mut self) {
        // The process has nothing to clean up, and tests of crashes need it killed anyway.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the folder `jgit-driver`, which `scripts/build/build-jgit-driver` creates in the target folder of cargo,
/// above the test programs.
fn driver() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its path");
    let found = test.ancestors().map(|dir| dir.join("jgit-driver")).find(|dir| dir.join("java").is_file());
    found.unwrap_or_else(|| panic!("no jgit-driver above '{}': run scripts/build/build-jgit-driver", test.display()))
}

fn spawn(mut command: Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"))
}

fn listed(line: &str) -> Listed {
    let id = |hex: &str| ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).expect("JGit prints ids");
    let fields: Vec<&str> = line.split('\t').collect();
    match fields[1].strip_prefix("-> ") {
        Some(target) => Listed { name: fields[0].into(), oid: id(fields[2]), symref: Some(target.into()) },
        None => Listed { name: fields[0].into(), oid: id(fields[1]), symref: None },
    }
}
