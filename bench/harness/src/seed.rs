//! The repositories that jobs start from. Real git makes them once; they are kept outside the tree and copied for the
//! runs.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result};

use crate::{
    place::make_once,
    process::{Line, Program},
    size::{LARGE_FILE_BYTES, Size},
};

/// How a repository keeps its refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Loose files and packed-refs.
    Files,
    /// A stack of reftables.
    Reftable,
}

impl Format {
    /// git's name for the format.
    pub fn name(self) -> &'static str {
        match self {
            Format::Files => "files",
            Format::Reftable => "reftable",
        }
    }
}

/// What a repository holds when a job starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// No ref at all.
    Empty,
    /// [`Size::existing`] branches, packed.
    Existing,
    /// [`Size::big`] refs named as Gerrit names them, packed.
    Big,
    /// [`Size::branches`] branches and tags at every second commit, packed, and `main` at the last.
    Branches,
}

/// The cache of repositories for one size.
#[derive(Debug)]
pub struct Seeds {
    dir: PathBuf,
    git: Program,
    size: Size,
}

/// The ids of the distinct commits of a repository, in the order in which they were created.
pub type Commits = Vec<String>;

/// Part of a cached folder's name. To be raised when the content written here changes, so that no old cache is used.
const LAYOUT: u32 = 3;

impl Seeds {
    /// The repositories of `size`, under the folder `cache`.
    pub fn new(cache: &Path, git: Program, size: Size) -> Seeds {
        Seeds { dir: cache.join(format!("seeds-{LAYOUT}-{}", size.name)), git, size }
    }

    /// The repository with `content` in `format`, made if it is not there yet.
    pub fn repository(&self, format: Format, content: Content) -> Result<PathBuf> {
        let name = match content {
            Content::Empty => "empty",
            Content::Existing => "existing",
            Content::Big => "big",
            Content::Branches => "branches",
        };
        let dir = self.dir.join(format!("{name}.{}", format.name()));
        make_once(&dir, |part| self.build(part, format, content))
            .with_context(|| format!("cannot make the repository {name}"))?;
        Ok(dir)
    }

    /// The commits that every repository of this size has.
    pub fn commits(&self) -> Result<Commits> {
        marked(&self.repository(Format::Files, Content::Empty)?)
    }

    fn build(&self, dir: &Path, format: Format, content: Content) -> Result<()> {
        if content == Content::Empty && format == Format::Files {
            return self.build_objects(dir);
        }
        crate::place::copy_folder(&self.repository(Format::Files, Content::Empty)?, dir)?;
        self.write_packed_refs(dir, content)?;
        // git rewrites what was written above, so that only git's own bytes are measured.
        self.git.output(dir, &["pack-refs", "--all"])?;
        if format == Format::Reftable {
            self.git.output(dir, &["refs", "migrate", "--ref-format=reftable"])?;
            self.git.output(dir, &["pack-refs", "--all"])?;
        }
        Ok(())
    }

    /// An empty repository with [`Size::edits`] commits in one pack, and their ids in the file `commits`.
    fn build_objects(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        self.git.output(dir, &["init", "-q", "--bare", "--ref-format=files", "--template=", "."])?;
        let input = dir.with_extension("import");
        let mut out = BufWriter::new(File::create(&input)?);
        for n in 1..=self.size.edits {
            writeln!(
                out,
                "commit refs/heads/made\nmark :{n}\ncommitter C <c@example.com> {} +0000",
                1_700_000_000 + n
            )?;
            writeln!(out, "data <<E\ncommit {n}\nE\n")?;
        }
        out.flush()?;
        let line = Line {
            args: ["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--export-marks=commits"]
                .map(str::to_owned)
                .to_vec(),
            input: Some(input.clone()),
        };
        self.git.measure(dir, &line)?;
        self.git.output(dir, &["update-ref", "-d", "refs/heads/made"])?;
        self.git.output(dir, &["symbolic-ref", "HEAD", "refs/heads/main"])?;
        fs::remove_file(input)?;
        self.build_forward(dir)?;
        self.build_large(dir)
    }

    fn write_packed_refs(&self, dir: &Path, content: Content) -> Result<()> {
        let commits = self.commits()?;
        let (mut names, step): (Vec<String>, _) = match content {
            Content::Empty => return Ok(()),
            Content::Existing => ((0..self.size.existing).map(existing).collect(), 1),
            Content::Big => ((0..self.size.big).map(change).collect(), 1),
            Content::Branches => ((0..self.size.branches).map(branch).collect(), 2),
        };
        names.sort_unstable();
        let mut refs: Vec<_> = names.iter().map(String::as_str).zip(commits.iter().step_by(step).cycle()).collect();
        if content == Content::Branches {
            refs.extend(commits.last().map(|last| (MAIN, last)));
            refs.sort_unstable();
        }
        let mut out = BufWriter::new(File::create(dir.join("packed-refs"))?);
        writeln!(out, "# pack-refs with: peeled fully-peeled sorted ")?;
        for (name, commit) in refs {
            writeln!(out, "{commit} {name}")?;
        }
        out.flush()?;
        Ok(())
    }

    /// Puts what a client pushes into the folder of an empty repository: `forward.pack` has a new commit on the last
    /// one, its tree and a blob, and `forward` has the new commit's id.
    fn build_forward(&self, dir: &Path) -> Result<()> {
        let git = |words: &[&str], input: &str| -> Result<String> {
            let mut command =
                self.git.command(dir, &Line { args: words.iter().map(|&word| word.into()).collect(), input: None })?;
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
            let output = child.wait_with_output()?;
            anyhow::ensure!(output.status.success(), "git {} failed", words.join(" "));
            Ok(String::from_utf8(output.stdout)?.trim().to_owned())
        };
        let commits = marked(dir)?;
        let last = commits.last().context("there are commits")?;
        let blob = git(&["hash-object", "-w", "--stdin"], "new\n")?;
        let tree = git(&["mktree"], &format!("100644 blob {blob}\tnew\n"))?;
        let commit = git(&["commit-tree", "-p", last, "-m", "new", &tree], "")?;
        git(&["pack-objects", "--quiet", "--revs", "forward"], &format!("{commit}\n^{last}\n")).and_then(|name| {
            fs::rename(dir.join(format!("forward-{name}.pack")), dir.join("forward.pack"))?;
            Ok(fs::remove_file(dir.join(format!("forward-{name}.idx")))?)
        })?;
        fs::write(dir.join("forward"), commit)?;
        git(&["prune", "--expire=now"], "").map(drop)
    }

    /// Puts a large push beside the repositories, so that it is not copied with them: `large.pack` has a commit with
    /// [`Size::files`] files, and `large` has that commit's id.
    fn build_large(&self, dir: &Path) -> Result<()> {
        let client = dir.with_extension("client");
        fs::create_dir_all(&client)?;
        self.git.output(&client, &["init", "-q", "--bare", "--ref-format=files", "--template=", "."])?;
        let input = client.join("import");
        let mut out = BufWriter::new(File::create(&input)?);
        write!(out, "commit refs/heads/main\nmark :1\ncommitter C <c@example.com> 1700000000 +0000\ndata 0\n")?;
        // Marsaglia's xorshift: the same bytes each time.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for n in 0..self.size.files {
            writeln!(out, "M 100644 inline {}/{n}\ndata {LARGE_FILE_BYTES}", n / 100)?;
            for _ in 0..LARGE_FILE_BYTES / 8 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                out.write_all(&state.to_le_bytes())?;
            }
            writeln!(out)?;
        }
        out.flush()?;
        let words = ["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--export-marks=commits"];
        self.git.measure(&client, &Line { args: words.map(str::to_owned).to_vec(), input: Some(input) })?;
        let mut files = fs::read_dir(client.join("objects/pack"))?.flatten().map(|entry| entry.path());
        let pack = files.find(|path| path.extension().is_some_and(|extension| extension == "pack"));
        fs::rename(pack.context("a pack was made")?, dir.with_file_name("large.pack"))?;
        fs::write(dir.with_file_name("large"), marked(&client)?.concat())?;
        Ok(fs::remove_dir_all(client)?)
    }
}

fn marked(dir: &Path) -> Result<Commits> {
    let lines = BufReader::new(File::open(dir.join("commits"))?).lines();
    lines.map(|line| Ok(line?.split(' ').next_back().unwrap_or_default().to_owned())).collect()
}

/// The branch at the last commit, beside those of [`branch`].
pub const MAIN: &str = "refs/heads/main";

/// The name of the `n`-th ref of the repository with many branches and tags.
pub fn branch(n: usize) -> String {
    if n.is_multiple_of(2) { format!("refs/heads/b/{n:07}") } else { format!("refs/tags/t/{n:07}") }
}

/// The name of the `n`-th branch that is there before a job starts.
pub fn existing(n: usize) -> String {
    format!("refs/heads/old/{n:07}")
}

/// The name of the `n`-th branch that a job creates.
pub fn fresh(n: usize) -> String {
    format!("refs/heads/new/{n:07}")
}

/// The name of the `n`-th ref of the big repository: three patch sets a change, named as Gerrit does.
pub fn change(n: usize) -> String {
    let number = 100_000 + n / 3;
    format!("refs/changes/{:02}/{number}/{}", number % 100, n % 3 + 1)
}

/// How git lists all refs, one line a ref.
pub const LISTING: [&str; 2] = ["for-each-ref", "--format=%(objectname) %(refname) %(symref)"];
