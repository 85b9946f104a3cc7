//! Runs one command line with git and with refdb, and compares their output and effects.

use bstr::BString;
use refdb_testkit::{Git, RefFormat, Repo, files_below};
use std::{
    cell::RefCell,
    ffi::OsStr,
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

const REFDB: &str = env!("CARGO_BIN_EXE_refdb");

/// A folder in which both programs run the same command lines.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// Creates a folder that is not a repository.
    pub(crate) fn outside() -> Self {
        Folder { folder: tempfile::tempdir().unwrap() }
    }

    /// Runs `words` with both programs, and requires the same output, messages and exit code.
    pub(crate) fn same<S: AsRef<OsStr>>(&self, words: &[S]) {
        same(self.folder.path(), words, b"");
    }
}

/// Runs a command that changes nothing with both programs, and requires the same output, messages and exit code.
pub(crate) fn same<S: AsRef<OsStr>>(folder: &Path, words: &[S], input: &[u8]) {
    assert_same(&shown(words, input), &git(folder, words, input), &refdb(folder, words, input));
}

/// Two repositories with the same content, for commands that change something: git works on one, refdb on the other.
pub(crate) struct Twins {
    pub(crate) git: Repo,
    pub(crate) refdb: Repo,
    format: RefFormat,
    /// Environment variables that both programs get in addition.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Git's last listing of the refs and reflogs of either repository.
    said: [RefCell<Option<Said>>; 2],
}

/// Git's listing of a repository's refs and reflogs.
struct Said {
    /// The repository's files at that time: as long as they are unchanged, git need not be asked again.
    files: Vec<(String, Option<Vec<u8>>)>,
    refs: String,
    logs: Vec<Vec<BString>>,
}

impl Said {
    fn now(repo: &Repo, files: Vec<(String, Option<Vec<u8>>)>) -> Said {
        let refs = repo.git(["for-each-ref", "--include-root-refs", "--format=%(refname) %(objectname) %(symref)"]);
        let names = ["HEAD", "refs/heads/main", "refs/heads/new", "refs/heads/other", "refs/notes/x"];
        Said { files, refs, logs: names.map(|name| repo.reflog(name)).into() }
    }
}

/// Lists the files of a repository with their bytes, or with their names alone if they are objects.
fn files(repo: &Repo) -> Vec<(String, Option<Vec<u8>>)> {
    let bytes = |name: &str| {
        let is_object = name.starts_with("objects/");
        let file = repo.git_dir().join(name);
        let target = || fs::read_link(&file).ok().map(|target| target.into_os_string().into_encoded_bytes());
        let is_file = fs::symlink_metadata(&file).is_ok_and(|found| found.is_file());
        if is_object {
            None
        } else if is_file {
            fs::read(&file).ok()
        } else {
            target()
        }
    };
    files_below(repo.git_dir()).into_iter().map(|name| (name.clone(), bytes(&name))).collect()
}

impl Twins {
    /// Creates both repositories, and has real git set them up alike.
    pub(crate) fn new(format: RefFormat, set_up: &dyn Fn(&Repo)) -> Self {
        let make = || {
            let repo = Repo::with_worktree(format, refdb_types::HashKind::Sha1);
            set_up(&repo);
            repo
        };
        let git = make();
        // Copying a repository takes less time than the git programs that make one.
        let refdb = git.twin().unwrap_or_else(make);
        Twins { git, refdb, format, environment: Vec::new(), said: Default::default() }
    }

    /// Runs git on one repository and refdb on the other, and requires the same output, messages, exit code, refs, and
    /// reflogs of HEAD and four refs.
    pub(crate) fn same<S: AsRef<OsStr>>(&self, words: &[S], input: &[u8]) {
        self.same_in(self.git.dir(), self.refdb.dir(), words, input);
    }

    /// Runs git in `gits` and refdb in `refdbs`, which are folders of the two repositories, and compares as
    /// [`Self::same`] does.
    pub(crate) fn same_in<S: AsRef<OsStr>>(&self, gits: &Path, refdbs: &Path, words: &[S], input: &[u8]) {
        let what = format!("{}: {}", self.format.name(), shown(words, input));
        let [git, refdb] = [(Git::find().program(), gits), (Path::new(REFDB), refdbs)]
            .map(|(program, folder)| run(program, folder, words, input, &self.environment));
        assert_same(&what, &git, &refdb);
        self.assert_same_refs(&what);
    }

    /// Runs a git command and a refdb command that must both succeed or both fail, and have the same effect on refs and
    /// on the reflogs that [`Self::same`] compares.
    pub(crate) fn do_the_same(&self, of_git: &[&str], of_refdb: &[&str]) {
        let git = git(self.git.dir(), of_git, b"");
        let refdb = refdb(self.refdb.dir(), of_refdb, b"");
        assert_eq!(git.status.success(), refdb.status.success(), "{of_refdb:?}: {git:?} {refdb:?}");
        self.assert_same_refs(&format!("{}: {of_refdb:?}", self.format.name()));
    }

    fn assert_same_refs(&self, what: &str) {
        for (repo, said) in [&self.git, &self.refdb].into_iter().zip(&self.said) {
            let files = files(repo);
            if said.borrow().as_ref().is_none_or(|said| said.files != files) {
                *said.borrow_mut() = Some(Said::now(repo, files));
            }
        }
        let [git, refdb] = self.said.each_ref().map(RefCell::borrow);
        let state = |said: &Option<Said>| said.as_ref().map(|said| (said.refs.clone(), said.logs.clone()));
        assert_eq!(state(&git), state(&refdb), "{what}");
    }
}

fn shown<S: AsRef<OsStr>>(words: &[S], input: &[u8]) -> String {
    let words = words.iter().map(|word| word.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
    format!("{words} <<< {:?}", String::from_utf8_lossy(input))
}

/// Requires that two runs have the same output, messages and exit code, apart from the descriptions of options in
/// usages, and from the exit code and the stream of usages, which git 2.56 has changed.
fn assert_same(what: &str, git: &Output, refdb: &Output) {
    let tell = |output: &Output| {
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let (usage, stderr) = usage_behind_an_error(output, &stderr);
        format!(
            "{}\n-- stdout\n{}\n-- stderr\n{}",
            if is_usage_of_newer_git(output) { "exit status: 129".to_owned() } else { output.status.to_string() },
            without_descriptions(&(stdout + usage)),
            without_descriptions(stderr)
        )
    };
    let (git, refdb) = (tell(git), tell(refdb));
    assert!(git == refdb, "{what}\n==== git: {git}\n==== refdb: {refdb}");
}

/// Whether git 2.56 or newer has printed a requested usage, with exit code 0. Git 2.55 and refdb exit with 129.
fn is_usage_of_newer_git(output: &Output) -> bool {
    Git::find().version() >= (2, 56) && output.status.success() && output.stdout.starts_with(b"usage: git ")
}

/// Splits stderr into the usage and the text before it, if it begins with "ambiguous option": git 2.56 prints both to
/// stderr, git 2.55 the usage to stdout.
fn usage_behind_an_error<'o>(output: &Output, stderr: &'o str) -> (&'o str, &'o str) {
    let is_newer = Git::find().version() >= (2, 56) && output.status.code() == Some(129) && output.stdout.is_empty();
    let at = stderr.find("usage: git ").filter(|_| is_newer && stderr.starts_with("error: ambiguous option"));
    at.map_or(("", stderr), |at| (&stderr[at..], &stderr[..at]))
}

/// Removes the list of options from a usage, because refdb describes the options in its own words.
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

/// Runs both programs with an environment variable set, and requires the same output, messages and exit code.
pub(crate) fn same_with<S: AsRef<OsStr>>(folder: &Path, variable: (&'static str, &str), words: &[S]) {
    let environment = [(variable.0, variable.1.to_owned())];
    let [git, refdb] =
        [Git::find().program(), Path::new(REFDB)].map(|program| run(program, folder, words, b"", &environment));
    assert_same(&format!("{variable:?} {}", shown(words, b"")), &git, &refdb);
}

/// Runs git alone.
pub(crate) fn git<S: AsRef<OsStr>>(folder: &Path, words: &[S], input: &[u8]) -> Output {
    run(Git::find().program(), folder, words, input, &[])
}

/// Runs refdb alone.
pub(crate) fn refdb<S: AsRef<OsStr>>(folder: &Path, words: &[S], input: &[u8]) -> Output {
    run(Path::new(REFDB), folder, words, input, &[])
}

/// Runs refdb alone with a variable set.
pub(crate) fn refdb_with<S: AsRef<OsStr>>(folder: &Path, variable: (&'static str, &str), words: &[S]) -> Output {
    run(Path::new(REFDB), folder, words, b"", &[(variable.0, variable.1.to_owned())])
}

/// Runs refdb alone, and fails if it has not ended after 60 seconds, as in an endless loop.
pub(crate) fn within<S: AsRef<OsStr>>(folder: &Path, words: &[S], input: &[u8]) -> Output {
    let mut all: Vec<&OsStr> = vec!["60".as_ref(), REFDB.as_ref()];
    all.extend(words.iter().map(AsRef::as_ref));
    let output = run(Path::new("timeout"), folder, &all, input, &[]);
    assert_ne!(output.status.code(), Some(124), "{} does not end", shown(words, input));
    output
}

fn run<S: AsRef<OsStr>>(
    program: &Path,
    folder: &Path,
    words: &[S],
    input: &[u8],
    environment: &[(&str, String)],
) -> Output {
    let clean = Git::find().command(folder);
    let mut child = Command::new(program)
        .args(words)
        .current_dir(folder)
        .env_clear()
        .envs(clean.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The write fails if the program ends without reading its input, which is not a fault of the test.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}
