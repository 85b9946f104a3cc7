//! Measures one commit beside the anchor and the reference, in rounds in which each commit runs once, in random order.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use refdb_vfs::interrupt;
use rustix::fs::statvfs;

use crate::{
    coin::Coin,
    counter::Counter,
    measure::{Measure, Sample},
    progress::progress,
    revision::Builds,
    scenario::{Scenario, Values},
    series::detector::Detector,
    stage::Stage,
};

/// What runs are made of, and where.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The scenario that is run.
    pub scenario: &'a Scenario,
    /// The values of the scenario's parameters.
    pub values: &'a Values,
    /// Builds the commits.
    pub builds: &'a Builds,
    /// The folder in which runs happen.
    pub place: &'a Path,
    /// The folder of the builds.
    pub cache: &'a Path,
    /// How instructions are counted.
    pub counter: Counter,
    /// The measure that decides.
    pub judge: Measure,
    /// Maximum number of rounds for one commit.
    pub runs_max: usize,
}

/// The runs of one commit and of those beside it.
#[derive(Debug, Default)]
pub struct Rounds {
    /// The runs of the anchor.
    pub anchor: Vec<Sample>,
    /// The runs of the commit.
    pub commit: Vec<Sample>,
    /// The runs of the reference; none if it is the anchor.
    pub reference: Vec<Sample>,
}

/// The commits that run in turn.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'a> {
    /// The commit beside which the other one is judged.
    pub anchor: &'a str,
    /// The commit that is judged.
    pub commit: &'a str,
    /// The commit that runs in each round so that costs can be stated as multiples of its cost. It may be the anchor.
    pub reference: &'a str,
}

/// The free space, in bytes, below which a failure is blamed on the disk.
const ROOM: u64 = 16 * 1024 * 1024;

impl<'a> Setting<'a> {
    /// Measures a commit in rounds until `detector`, which learns the result of each, needs no more of them. The inner
    /// error is the reason why the commit cannot be measured.
    ///
    /// # Errors
    ///
    /// Fails, for example, if the anchor or the reference cannot be measured, git fails, a disk is full or cannot be
    /// examined, or a signal arrives.
    pub fn measure(
        &self,
        sides: Sides<'_>,
        detector: &mut Detector,
        coin: &mut Coin,
    ) -> Result<Result<Rounds, String>> {
        let beside = if sides.reference == sides.anchor { None } else { Some(sides.reference) };
        let mut stages = Vec::new();
        for commit in [Some(sides.anchor), beside].into_iter().flatten() {
            stages.push(self.ready(commit)?.map_err(|why| anyhow::anyhow!("{commit} cannot be run now: {why}"))?);
        }
        match self.ready(sides.commit)? {
            Ok(stage) => stages.insert(1, stage),
            Err(why) => return Ok(Err(why)),
        }
        let mut all: Vec<Vec<Sample>> = stages.iter().map(|_| Vec::new()).collect();
        detector.enter();
        while !detector.is_enough(all[0].len(), self.runs_max) {
            progress(&format!("{}: round {}", sides.commit, all[0].len() + 1));
            for side in shuffled(stages.len(), coin) {
                match stages[side].sample() {
                    Ok(sample) => all[side].push(sample),
                    Err(error) => {
                        interrupt::check()?;
                        self.check_room()?;
                        if side != 1 {
                            let failed = if side == 0 { sides.anchor } else { sides.reference };
                            return Err(error.context(format!("{failed} cannot be run now")));
                        }
                        return Ok(Err(format!("{error:#} (in round {})", all[0].len() + 1)));
                    }
                }
            }
            let cost = |side: usize| all[side][all[side].len() - 1].deciding(self.judge);
            if let Some(reference) = beside {
                cost(2).with_context(|| format!("{reference} cannot be measured now"))?;
            }
            match (cost(0)?, cost(1)) {
                (anchor, Ok(commit)) => detector.add(commit.ln() - anchor.ln()),
                (_, Err(error)) => return Ok(Err(format!("{error:#}"))),
            }
        }
        let mut all = all.into_iter();
        let mut next = || all.next().unwrap_or_default();
        Ok(Ok(Rounds { anchor: next(), commit: next(), reference: next() }))
    }

    /// Builds a commit, sets it up, and runs it once, with caches that may be cold, without keeping the sample. If the
    /// setup or the run fails, both are tried once more. The inner error is the reason why the commit cannot be built
    /// or run.
    pub fn ready(&self, commit: &str) -> Result<Result<Stage<'a>, String>> {
        let build = match self.builds.build(commit)? {
            Ok(build) => build,
            Err(said) => {
                interrupt::check()?;
                self.check_room()?;
                if said.contains("No space left on device") {
                    bail!("{commit} cannot be built, because a disk is full: {said}");
                }
                return Ok(Err(format!("it does not build: {said}")));
            }
        };
        let mut said = String::new();
        for _ in 0..2 {
            progress(&format!("setting up {commit}"));
            let stage = Stage::new(self.scenario, self.values, &build, self.place, self.counter)
                .and_then(|stage| stage.sample().map(|_| stage));
            match stage {
                Ok(stage) => return Ok(Ok(stage)),
                Err(error) => said = format!("{error:#}"),
            }
            interrupt::check()?;
            self.check_room()?;
        }
        Ok(Err(said))
    }

    /// Fails if the disk of the builds or of the runs is full, because then a commit is not to blame.
    pub fn check_room(&self) -> Result<()> {
        for folder in [self.cache, self.place] {
            let found = statvfs(folder).with_context(|| format!("cannot look at '{}'", folder.display()))?;
            if found.f_bavail.saturating_mul(found.f_frsize) < ROOM {
                bail!("the disk of '{}' is full: make room", folder.display());
            }
        }
        Ok(())
    }
}

/// Returns the numbers below `count` in random order (Fisher and Yates).
fn shuffled(count: usize, coin: &mut Coin) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, (coin.bits() % (last as u64 + 1)) as usize);
    }
    order
}

/// Returns the model of the processors and the number of those that this process may use, on which times depend;
/// [`crate::gate::machine`] finds the other properties of a machine.
pub fn hardware() -> Vec<(String, String)> {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let model = model.trim_start_matches([' ', '\t', ':']).to_owned();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    vec![("model".to_owned(), model), ("processors".to_owned(), processors.to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_is_as_likely_as_any_other() {
        let mut coin = Coin::new(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            *counts.entry(shuffled(3, &mut coin)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6, "{counts:?}");
        assert!(counts.values().all(|count| (880..1120).contains(count)), "{counts:?}");
    }
}
