use crate::{Git, git, template};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{HashKind, ObjectId};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// The ref storage format of a repository.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefFormat {
    /// Loose refs and packed-refs.
    Files,
    /// A stack of reftables.
    Reftable,
}

impl RefFormat {
    /// Both formats.
    pub const ALL: [RefFormat; 2] = [RefFormat::Files, RefFormat::Reftable];

    /// Returns the name of the format for `git init --ref-format`.
    pub fn name(self) -> &'static str {
        match self {
            RefFormat::Files => "files",
            RefFormat::Reftable => "reftable",
        }
    }
}

/// A repository that real git created in a temporary folder, which is removed when this value is dropped.
#[derive(Debug)]
pub struct Repo {
    temp: TempDir,
    dir: PathBuf,
    git_dir: PathBuf,
    format: RefFormat,
    hash: HashKind,
}

/// A ref as `git for-each-ref` lists it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Listed {
    /// The full name.
    pub name: BString,
    /// The object to which the ref points, with symbolic refs resolved.
    pub oid: ObjectId,
    /// The ref to which it points, if it is symbolic.
    pub symref: Option<BString>,
}

/// Options with which git ends only after the maintenance that it starts, for example after `git commit`. In the
/// background, the lock file of that maintenance could vanish while a test copies or compares the repository.
const FOREGROUND: [&str; 2] = ["-c", "maintenance.autoDetach=false"];

impl Repo {
    /// Every combination of ref format and hash function.
    pub const KINDS: [(RefFormat, HashKind); 4] = [
        (RefFormat::Files, HashKind::Sha1),
        (RefFormat::Files, HashKind::Sha256),
        (RefFormat::Reftable, HashKind::Sha1),
        (RefFormat::Reftable, HashKind::Sha256),
    ];

    /// Creates a bare repository, as servers have them. It has no reflogs unless `core.logAllRefUpdates` is set.
    pub fn bare(format: RefFormat, hash: HashKind) -> Self {
        Self::init(format, hash, true)
    }

    /// Creates a repository with a worktree, and therefore with reflogs.
    pub fn with_worktree(format: RefFormat, hash: HashKind) -> Self {
        Self::init(format, hash, false)
    }

    fn init(format: RefFormat, hash: HashKind, bare: bool) -> Self {
        let temp = tempfile::Builder::new().prefix("refdb-test-").tempdir().expect("a temporary folder can be made");
        let dir = temp.path().join("repo");
        let git_dir = if bare { dir.clone() } else { dir.join(".git") };
        template::init(&dir, format.name(), hash, bare);
        Repo { temp, dir, git_dir, format, hash }
    }

    /// Returns a copy of the repository and of everything else in its scratch folder. Returns `None` if a symbolic link
    /// or a file outside of folders `objects` names that folder, as files of linked worktrees do, because the copy
    /// would lead back to the original, or if something there cannot be copied, such as a pipe.
    ///
    /// # Panics
    ///
    /// If a file cannot be read or written.
    pub fn twin(&self) -> Option<Self> {
        let temp = tempfile::Builder::new().prefix("refdb-test-").tempdir().expect("a temporary folder can be made");
        let is_copied = template::copy_unless_it_leads_back(self.scratch(), temp.path());
        let moved = |path: &Path| temp.path().join(path.strip_prefix(self.scratch()).expect("it lies below"));
        let (dir, git_dir) = (moved(&self.dir), moved(&self.git_dir));
        let twin = Repo { temp, dir, git_dir, format: self.format, hash: self.hash };
        is_copied.expect("a repository can be copied").then_some(twin)
    }

    /// Returns the folder in which commands run: the top of the worktree, or the bare repository.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the repository itself: `.git`, or the bare repository.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Returns the folder that contains the repository, for whatever else a test needs. It is removed with the
    /// repository.
    pub fn scratch(&self) -> &Path {
        self.temp.path()
    }

    /// Returns the ref storage format.
    pub fn format(&self) -> RefFormat {
        self.format
    }

    /// Returns the hash function.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns a command that runs `program` in this repository, in the same clean environment as git, so that both
    /// can be compared.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        git::clean(&mut command, &self.dir);
        command
    }

    /// Runs git, and returns its standard output without the last newline.
    ///
    /// # Panics
    ///
    /// If git fails.
    pub fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        self.git_with_input(args, "")
    }

    /// Runs git with `input` on its standard input, and returns its standard output without the last newline.
    ///
    /// # Panics
    ///
    /// If git fails.
    pub fn git_with_input<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: impl AsRef<[u8]>,
    ) -> String {
        let mut command = self.command(Git::find().program());
        command.args(FOREGROUND).args(args);
        let mut text = String::from_utf8_lossy(&git::run_ok(command, input.as_ref())).into_owned();
        if text.ends_with('\n') {
            text.pop();
        }
        text
    }

    /// Runs git, and returns its exit status, standard output and standard error, even if it fails.
    pub fn try_git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, input: impl AsRef<[u8]>) -> Output {
        let mut command = self.command(Git::find().program());
        command.args(FOREGROUND).args(args);
        git::run(command, input.as_ref())
    }

    /// Runs any program, for example refdb, in the same way as [`Repo::try_git`] runs git.
    pub fn try_run<S: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = S>,
        input: impl AsRef<[u8]>,
    ) -> Output {
        let mut command = self.command(program);
        command.args(args);
        git::run(command, input.as_ref())
    }

    /// Runs refdb, or another program of its tests, with a planted fault.
    pub fn run_with_fault(&self, program: impl AsRef<OsStr>, fault: &str, args: &[&str]) -> Output {
        self.run_with_fault_and_input(program, fault, args, b"")
    }

    /// As [`run_with_fault`](Self::run_with_fault), with this standard input.
    pub fn run_with_fault_and_input(
        &self,
        program: impl AsRef<OsStr>,
        fault: &str,
        args: &[&str],
        input: &[u8],
    ) -> Output {
        let mut command = self.command(program);
        command.env("REFDB_PLANTED_FAULT", fault).args(args);
        git::run(command, input)
    }

    /// Sets a configuration value.
    pub fn config(&self, key: &str, value: &str) {
        self.git(["config", key, value]);
    }

    /// Writes `count` commits, each the parent of the next, to which no ref points. Their ids are the same in every
    /// run.
    pub fn commits(&self, count: usize) -> Vec<ObjectId> {
        let ids = template::commits(&self.git_dir.join("objects"), self.hash, count);
        let ids: Vec<_> = ids.iter().map(|id| self.oid(id.as_bytes())).collect();
        assert_eq!(ids.len(), count);
        ids
    }

    /// Writes one commit, as [`Repo::commits`] does.
    pub fn commit(&self) -> ObjectId {
        self.commits(1)[0]
    }

    /// Writes a blob.
    pub fn blob(&self, content: &str) -> ObjectId {
        self.oid(self.git_with_input(["hash-object", "-w", "--stdin"], content).as_bytes())
    }

    /// Writes an annotated tag, to which no ref points.
    pub fn tag_object(&self, target: ObjectId, name: &str) -> ObjectId {
        let kind = self.git(["cat-file", "-t", &target.to_string()]);
        let tag =
            format!("object {target}\ntype {kind}\ntag {name}\ntagger T <t@example.com> 1700000000 +0000\n\n{name}\n");
        self.oid(self.git_with_input(["mktag"], tag).as_bytes())
    }

    /// Creates refs in one transaction of git.
    ///
    /// # Panics
    ///
    /// If git refuses to create them, for example because one of them exists.
    pub fn create_refs<N: AsRef<[u8]>>(&self, refs: impl IntoIterator<Item = (N, ObjectId)>) {
        let mut input = Vec::new();
        for (name, oid) in refs {
            input.extend_from_slice(b"create ");
            input.extend_from_slice(name.as_ref());
            input.push(0);
            oid.write_hex(&mut input);
            input.push(0);
        }
        self.git_with_input(["update-ref", "-z", "--stdin"], input);
    }

    /// Adds `count` branches `refs/heads/load/NNN/NNNNNN`, which point to `commits` in turn, to a repository without
    /// packed refs. Returns their names. In the files format this writes packed-refs directly, because git would write
    /// a file for each ref, which takes long.
    pub fn fill(&self, count: usize, commits: &[ObjectId]) -> Vec<BString> {
        let names: Vec<BString> =
            (0..count).map(|i| format!("refs/heads/load/{:03}/{i:06}", i / 1000).into()).collect();
        let refs = names.iter().zip(commits.iter().cycle().copied());
        match self.format {
            RefFormat::Reftable => self.create_refs(refs),
            RefFormat::Files => {
                let path = self.git_dir.join("packed-refs");
                assert!(!path.exists(), "fill is for repositories without packed refs");
                // The names of up to a million refs are sorted, because the numbers have a fixed width.
                let mut text = b"# pack-refs with: peeled fully-peeled sorted \n".to_vec();
                for (name, oid) in refs {
                    oid.write_hex(&mut text);
                    text.push(b' ');
                    text.extend_from_slice(name);
                    text.push(b'\n');
                }
                std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
        names
    }

    /// Returns the object that a revision names, as git resolves it.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn rev_parse(&self, revision: &str) -> ObjectId {
        self.oid(self.git(["rev-parse", "--verify", "--end-of-options", revision]).as_bytes())
    }

    /// Returns all refs as git lists them, including root refs such as HEAD.
    pub fn refs(&self) -> Vec<Listed> {
        let mut command = self.command(Git::find().program());
        command.args(["for-each-ref", "--include-root-refs", "--format=%(refname) %(objectname) %(symref)"]);
        let text = git::run_ok(command, b"");
        text.lines()
            .map(|line| {
                let mut fields = line.splitn_str(3, " ").map(BStr::new);
                let mut field = || fields.next().expect("three fields");
                let (name, oid, symref) = (field(), field(), field());
                let symref = (!symref.is_empty()).then(|| symref.to_owned());
                Listed { name: name.to_owned(), oid: self.oid(oid), symref }
            })
            .collect()
    }

    /// Returns the output of git when it lists all refs, including its messages about refs whose objects are missing.
    pub fn refs_or_broken(&self) -> Vec<u8> {
        let words = ["for-each-ref", "--include-root-refs", "--format=%(refname) %(symref) %(objectname)"];
        let output = self.try_git(words, "");
        [output.stdout, output.stderr].concat()
    }

    /// Returns a ref's reflog, oldest entry first, as lines `OLD NEW IDENT TIME ZONE<tab>MESSAGE`. The list is empty
    /// if the ref has no reflog.
    pub fn reflog(&self, name: &str) -> Vec<BString> {
        let mut command = self.command(Git::find().test_tool());
        command.args(["ref-store", "main", "for-each-reflog-ent", name]);
        // The exit status is 1 for a ref without a reflog and for a ref that does not exist.
        git::run(command, b"").stdout.lines().map(BString::from).collect()
    }

    /// Lets git verify the whole ref database.
    ///
    /// # Panics
    ///
    /// If git reports anything.
    pub fn verify(&self) {
        let output = self.try_git(["refs", "verify", "--strict"], "");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success() && said.is_empty(), "git refs verify: {}", said.as_bstr());
    }

    fn oid(&self, hex: &[u8]) -> ObjectId {
        ObjectId::from_hex(self.hash, hex)
            .unwrap_or_else(|_| panic!("git printed {:?} for an object id", hex.as_bstr()))
    }
}
