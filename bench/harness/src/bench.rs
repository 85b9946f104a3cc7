//! What every measurement starts from: the programs, the jobs, and fresh copies of repositories.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    job::Job,
    paired::Who,
    place::{Place, copy_folder},
    process::{Line, Program},
    seed::{Commits, Content, Format, Seeds},
    size::Size,
};

/// Everything a run needs.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The program under test; absent when only git is measured.
    pub own: Option<&'a Program>,
    /// The git that the program under test is compared with, and that judges all results.
    pub git: &'a Program,
    /// The numbers of refs, commits and runs.
    pub size: Size,
    /// Repositories to start from.
    pub seeds: &'a Seeds,
    /// The commits that the repositories have.
    pub commits: &'a Commits,
    /// The work to be done.
    pub jobs: &'a [Job],
    /// Where inputs and repositories are kept between runs.
    pub cache: PathBuf,
    /// Whether system calls are counted.
    pub syscalls: bool,
}

/// A copy of a repository, in a temporary folder.
#[derive(Debug)]
pub struct Work {
    place: Place,
}

impl Work {
    /// The temporary folder, which is removed when this is dropped.
    pub fn dir(&self) -> &Path {
        self.place.dir()
    }

    /// The repository.
    pub fn repository(&self) -> PathBuf {
        self.place.dir().join("repository")
    }
}

impl Bench<'_> {
    /// The job called `id`.
    pub fn job(&self, id: &str) -> Result<&Job> {
        self.jobs.iter().find(|job| job.id == id).with_context(|| format!("no job is called {id}"))
    }

    /// The program meant by `who`; git for [`Who::Own`] too if only git is measured.
    pub fn program(&self, who: Who) -> &Program {
        match who {
            Who::Own => self.own.unwrap_or(self.git),
            Who::Rival => self.git,
        }
    }

    /// The command lines of `job`, with their inputs written.
    pub fn lines(&self, job: &Job) -> Result<Vec<Line>> {
        let inputs = self.cache.join(format!("inputs-{}", self.size.name));
        fs::create_dir_all(&inputs)?;
        let seed = self.seeds.repository(Format::Files, Content::Empty)?;
        job.steps.iter().map(|step| step.line(&inputs, &seed, self.commits)).collect()
    }

    /// A fresh copy of the job's repository.
    pub fn start(&self, job: &Job) -> Result<Work> {
        let seed = self.seeds.repository(job.format, job.content)?;
        let work = Work { place: Place::new(job.disk, &self.cache)? };
        make_repository(&seed, &work.repository(), job.reflogs)?;
        Ok(work)
    }
}

/// Makes a repository from the one in `seed`, with or without reflogs.
pub fn make_repository(seed: &Path, to: &Path, reflogs: bool) -> Result<()> {
    copy_folder(seed, to)?;
    if reflogs {
        let mut config = fs::OpenOptions::new().append(true).open(to.join("config"))?;
        config.write_all(b"[core]\n\tlogAllRefUpdates = true\n")?;
    }
    Ok(())
}
