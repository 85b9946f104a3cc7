//! Doing the jobs: prepare a repository, check that both programs leave the same, then measure.

use std::cell::RefCell;

use anyhow::{Context, Result};
use refdb_lab::{process::Usage, progress::progress};
use serde::Serialize;

use crate::{
    bench::{Bench, Work},
    instructions::{Counts, Measure},
    job::{Job, Reach},
    paired::{Pairs, Spread, Who, in_turn},
    place::Disk,
    process::{Line, Program},
    same::{same_output, same_reflogs, same_refs},
    seed::{Format, fresh},
    size::Size,
};

/// One row of a table: one step of one job.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The job's id.
    pub job: &'static str,
    /// The step's place in the job.
    pub step: usize,
    /// The step's title.
    pub title: String,
    /// `files` or `reftable`.
    pub format: &'static str,
    /// `tmpfs` or `ext4`.
    pub disk: &'static str,
    /// What the program under test cost, or why it has no figures: for example, it failed or left other refs than git.
    pub own: Result<Figures, String>,
    /// What git cost.
    pub git: Figures,
    /// The part of git's wall time that the program under test took.
    pub wall: Option<Spread>,
    /// Targets, only at the size they are stated for.
    #[serde(skip)]
    pub reach: Reach,
    /// The floor, only at the size it is stated for.
    #[serde(skip)]
    pub floor: Option<f64>,
}

/// What one step cost one program.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// Millions of instructions.
    pub millions: Option<f64>,
    /// Median wall time in seconds.
    pub wall: f64,
    /// Median CPU time in user space, seconds.
    pub user: f64,
    /// Median CPU time in the kernel, seconds.
    pub system: f64,
    /// Peak memory in MiB, the median of the runs.
    pub peak: f64,
    /// System calls.
    pub syscalls: Option<u64>,
    /// Whether the command was ended at the limit: time and instructions are lower bounds.
    pub cut: bool,
}

impl Bench<'_> {
    /// Does all jobs and returns the rows of the tables.
    pub fn run(&self, measure: Measure) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let mut able = Vec::new();
        for job in self.jobs {
            progress(&format!("{} ({}, {})", job.id, job.format.name(), job.disk.name()));
            let checked = self.check(job).with_context(|| format!("job {}", job.id))?;
            let who: &[Who] = if checked.is_ok() { &[Who::Own, Who::Rival] } else { &[Who::Rival] };
            if job.disk == Disk::Tmpfs {
                able.extend(who.iter().map(|who| (job.id, *who)));
            }
            rows.extend(self.measure(job, who, checked)?);
        }
        if measure != Measure::Nothing && !able.is_empty() {
            progress(&format!("counting instructions of {} runs", able.len()));
            fill(&mut rows, &measure.count(self, &able)?);
        }
        progress("");
        Ok(rows)
    }

    /// Does the job once with the program under test, and its judged steps with git, and compares. The inner error is
    /// why the program under test is not measured.
    fn check(&self, job: &Job) -> Result<Result<(), String>> {
        let Some(own) = self.own else { return Ok(Err("not measured".to_owned())) };
        let expected = self.start(job)?;
        let lines = self.lines(job)?;
        for line in &lines[..job.judged] {
            self.git.measure(&expected.repository(), line)?;
        }
        let found = self.start(job)?;
        let outcome = lines
            .iter()
            .try_for_each(|line| own.measure(&found.repository(), line).map(drop))
            .and_then(|()| self.compare(job, own, &lines, &expected, &found));
        Ok(outcome.map_err(|error| format!("{error:#}")))
    }

    fn compare(&self, job: &Job, own: &Program, lines: &[Line], expected: &Work, found: &Work) -> Result<()> {
        if job.reads {
            return lines[..job.judged]
                .iter()
                .try_for_each(|line| same_output(self.git, own, &expected.repository(), line, expected.dir()));
        }
        same_refs(self.git, &expected.repository(), &found.repository())?;
        if job.reflogs {
            let last = fresh(self.size.edits - 1);
            same_reflogs(self.git, &expected.repository(), &found.repository(), &[fresh(0), last])?;
        }
        Ok(())
    }

    fn measure(&self, job: &Job, who: &[Who], checked: Result<(), String>) -> Result<Vec<Row>> {
        let lines = self.lines(job)?;
        // Readers leave the repository as it is, so all of them share one.
        let shared = if job.reads { Some(self.start(job)?) } else { None };
        let shared = RefCell::new(shared);
        let usages = |who: Who| -> Result<Vec<Usage>> {
            let mut shared = shared.borrow_mut();
            let own;
            let work = match &mut *shared {
                Some(work) => &*work,
                None => {
                    own = self.start(job)?;
                    &own
                }
            };
            lines.iter().map(|line| self.program(who).measure(&work.repository(), line)).collect()
        };
        let pairs = in_turn(self.size, who, usages)?;
        let mut rows: Vec<Row> =
            pairs.iter().enumerate().map(|(step, pairs)| self.row(job, step, pairs, &checked)).collect();
        if self.syscalls {
            for who in who {
                self.count_calls(job, *who, &lines, &mut rows)?;
            }
        }
        Ok(rows)
    }

    fn count_calls(&self, job: &Job, who: Who, lines: &[Line], rows: &mut [Row]) -> Result<()> {
        let work = self.start(job)?;
        for (row, line) in rows.iter_mut().zip(lines) {
            if row.figures_mut(who).is_none_or(|figures| figures.cut) {
                break;
            }
            let repository = work.repository();
            let calls = self.program(who).calls(&repository.with_extension("strace"), &repository, line)?;
            if let Some(figures) = row.figures_mut(who) {
                figures.syscalls = Some(calls);
            }
        }
        Ok(())
    }

    fn row(&self, job: &Job, step: usize, pairs: &Pairs, checked: &Result<(), String>) -> Row {
        let full = self.size.name == Size::FULL.name;
        let of = &job.steps[step];
        Row {
            job: job.id,
            step,
            title: of.title.clone(),
            format: job.format.name(),
            disk: job.disk.name(),
            own: checked.clone().map(|()| Figures::of(&pairs.own)),
            git: Figures::of(&pairs.rival),
            wall: pairs.wall_ratio(),
            reach: if full { of.reach } else { Reach::default() },
            floor: of.floor.filter(|_| full),
        }
    }
}

impl Row {
    /// Whether the row is of this format, for grouping rows into tables.
    pub fn is(&self, format: Format) -> bool {
        self.format == format.name()
    }

    fn figures_mut(&mut self, who: Who) -> Option<&mut Figures> {
        match who {
            Who::Own => self.own.as_mut().ok(),
            Who::Rival => Some(&mut self.git),
        }
    }
}

impl Figures {
    fn of(runs: &[Usage]) -> Figures {
        let median = |figure: fn(&Usage) -> f64| {
            Spread::of(runs.iter().map(figure).collect()).map_or(0.0, |spread| spread.median)
        };
        Figures {
            millions: None,
            wall: median(|usage| usage.wall.as_secs_f64()),
            user: median(|usage| usage.user.as_secs_f64()),
            system: median(|usage| usage.system.as_secs_f64()),
            peak: median(|usage| usage.peak as f64 / f64::from(1 << 20)),
            syscalls: None,
            cut: runs.iter().any(|usage| usage.cut),
        }
    }
}

fn fill(rows: &mut [Row], counts: &Counts) {
    for row in rows {
        for who in [Who::Own, Who::Rival] {
            match counts.get(&(row.job, who)) {
                Some(Ok(steps)) => {
                    let count = steps.get(row.step).copied();
                    if let Some(figures) = row.figures_mut(who) {
                        figures.millions = count.map(|count| count.millions);
                        figures.cut |= count.is_some_and(|count| count.cut);
                    }
                }
                Some(Err(error)) => progress(&format!("{}: no instruction count: {error}\n", row.job)),
                None => {}
            }
        }
    }
}
