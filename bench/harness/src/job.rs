//! A job: commands that work on a repository, and the targets they are to reach.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    place::{Disk, make_once},
    process::Line,
    push::Push,
    seed::{Commits, Content, Format, fresh},
};

/// A job, the same for every program.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name on the command line and in results.
    pub id: &'static str,
    /// The format of the repository.
    pub format: Format,
    /// What the repository holds at the start.
    pub content: Content,
    /// Where the repository lies.
    pub disk: Disk,
    /// Whether the repository writes reflogs.
    pub reflogs: bool,
    /// Whether the commands only read, so that one copy of the repository serves every run.
    pub reads: bool,
    /// How many of the first steps the judge, git, does too. In a job that writes, they lead to the refs that the last
    /// step leaves; in a job that reads, their outputs are compared, and with 0 nothing is.
    pub judged: usize,
    /// The steps, one after the other; each has a row of its own.
    pub steps: Vec<Step>,
}

/// One command of a job.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Its row's title.
    pub title: String,
    /// The arguments after the program's name.
    pub args: Vec<String>,
    /// Standard input.
    pub input: Option<Input>,
    /// The targets at the full size.
    pub reach: Reach,
    /// What a minimal program that moves the same bytes costs at the full size, in millions of instructions.
    pub floor: Option<f64>,
}

/// Targets, at the full size; absent where none is set.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reach {
    /// Millions of instructions.
    pub millions: Option<f64>,
    /// The part of git's instructions.
    pub part: Option<f64>,
    /// The part of git's wall time.
    pub wall: Option<f64>,
    /// Peak memory in MiB.
    pub peak: Option<f64>,
}

/// Lines for `update-ref --stdin`, one transaction, or what a client sends to `receive-pack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Creates this many branches that all point at one commit.
    Create(usize),
    /// Creates this many branches, each at a commit of its own as far as the repository has enough.
    CreateDistinct(usize),
    /// Deletes this many branches.
    Delete(usize),
    /// What a client sends for this push.
    Push(Push),
}

impl Input {
    /// The file name under which the input is kept.
    fn file_name(self) -> String {
        match self {
            Input::Create(count) => format!("create-{count}"),
            Input::CreateDistinct(count) => format!("create-distinct-{count}"),
            Input::Delete(count) => format!("delete-{count}"),
            Input::Push(push) => push.file_name(),
        }
    }

    /// Writes the input into the folder `dir`, unless it is there. The packs that clients push, and the ids of their
    /// commits, lie in the folder `seed` and beside it.
    pub fn write(self, dir: &Path, seed: &Path, commits: &Commits) -> Result<PathBuf> {
        let path = dir.join(self.file_name());
        make_once(&path, |part| {
            let mut out = BufWriter::new(File::create(part)?);
            match self {
                Input::Create(count) => {
                    for n in 0..count {
                        writeln!(out, "create {} {}", fresh(n), commits[0])?;
                    }
                }
                Input::CreateDistinct(count) => {
                    for n in 0..count {
                        writeln!(out, "create {} {}", fresh(n), commits[n % commits.len()])?;
                    }
                }
                Input::Delete(count) => {
                    for n in 0..count {
                        writeln!(out, "delete {}", fresh(n))?;
                    }
                }
                Input::Push(push) => push.write(&mut out, seed, commits)?,
            }
            Ok(out.flush()?)
        })?;
        Ok(path)
    }
}

impl Job {
    /// Marks the job as one whose commands only read.
    pub fn reading(self) -> Job {
        Job { reads: true, ..self }
    }

    /// The job with these targets of its last step.
    pub fn reach(mut self, reach: Reach) -> Job {
        self.steps.iter_mut().next_back().into_iter().for_each(|step| step.reach = reach);
        self
    }

    /// The job with this floor of its last step.
    pub fn floor(mut self, millions: f64) -> Job {
        self.steps.iter_mut().next_back().into_iter().for_each(|step| step.floor = Some(millions));
        self
    }
}

/// A target of instructions alone.
pub fn millions(most: f64) -> Reach {
    Reach { millions: Some(most), ..Reach::default() }
}

impl Step {
    /// The step as a command line; its input is written into `inputs`.
    pub fn line(&self, inputs: &Path, seed: &Path, commits: &Commits) -> Result<Line> {
        let input = self.input.map(|input| input.write(inputs, seed, commits)).transpose()?;
        Ok(Line { args: self.args.clone(), input })
    }
}
