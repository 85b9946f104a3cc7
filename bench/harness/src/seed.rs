//! The repositories that jobs start from. Real git makes them once; they are kept outside the tree and copied for each run.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    process::{Line, Program},
    size::Size,
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
    /// git's name for it.
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
}

/// The cache of repositories for one size.
#[derive(Debug)]
pub struct Seeds {
    dir: PathBuf,
    git: Program,
    size: Size,
}

/// The distinct commits of a repository. Their order is that of their creation, not that of their ids.
pub type Commits = Vec<String>;

/// Part of a cached folder's name. To be raised when what is written here changes, so that no old cache is used.
const LAYOUT: u32 = 1;

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
        };
        let dir = self.dir.join(format!("{name}.{}", format.name()));
        if !dir.exists() {
            let part = dir.with_extension("part");
            fs::remove_dir_all(&part).ok();
            self.build(&part, format, content).with_context(|| format!("cannot make the repository {name}"))?;
            fs::rename(&part, &dir)?;
        }
        Ok(dir)
    }

    /// The commits that every repository of this size has.
    pub fn commits(&self) -> Result<Commits> {
        let marks = self.repository(Format::Files, Content::Empty)?.join("commits");
        let lines = BufReader::new(File::open(&marks)?).lines();
        lines.map(|line| Ok(line?.split(' ').next_back().unwrap_or_default().to_owned())).collect()
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
        Ok(())
    }

    fn write_packed_refs(&self, dir: &Path, content: Content) -> Result<()> {
        let mut names: Vec<String> = match content {
            Content::Empty => return Ok(()),
            Content::Existing => (0..self.size.existing).map(existing).collect(),
            Content::Big => (0..self.size.big).map(change).collect(),
        };
        names.sort_unstable();
        let commits = self.commits()?;
        let mut out = BufWriter::new(File::create(dir.join("packed-refs"))?);
        writeln!(out, "# pack-refs with: peeled fully-peeled sorted ")?;
        for (n, name) in names.iter().enumerate() {
            writeln!(out, "{} {name}", commits[n % commits.len()])?;
        }
        out.flush()?;
        Ok(())
    }
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
