//! `refdb-lab run`: two revisions, every combination of the parameters, one verdict each.

use std::{io::Write, path::Path, time::Instant};

use anyhow::{Context, Result, anyhow};
use refdb_vfs::interrupt;

use crate::{
    coin::Coin,
    compare::{Referee, Rules, Which, compare, outcome},
    counter::Counter,
    finished::{Finished, Side},
    measure::Sample,
    options::RunOptions,
    out as results,
    progress::progress,
    report,
    revision::Builds,
    scenario::{Scenario, Values},
    stage::{Stage, traces},
};

/// Compares the two revisions that the options name, and writes a report of each combination to `out`.
pub fn run(options: &RunOptions, out: &mut impl Write) -> Result<()> {
    let (options, exports) = (&options.common, &options.exports);
    let scenario = options.chosen.scenario()?;
    let rules = options.rules(&scenario)?;
    let (repository, a, b) = options.revisions()?;
    let builds = Builds::new(repository, &options.cache.cache()?, &scenario)?;
    let sides = [side(&builds, a)?, side(&builds, b)?];
    let mut coin = options.seed.map_or_else(Coin::unforeseen, Coin::new);
    let counter = Counter::find(rules.judge);
    let combinations = scenario.combinations();
    let mut all = Vec::new();
    for values in &combinations {
        let finished = one(&scenario, values, &sides, rules, &options.chosen.place(), counter, &mut coin)?;
        progress("");
        write!(out, "{}", report::run(&finished))?;
        out.flush()?;
        all.push(finished);
    }
    results::write(exports, &all)
}

fn side(builds: &Builds, revision: &str) -> Result<Side> {
    let commit = builds.commit(revision)?;
    let build = builds.build(&commit)?.map_err(|said| anyhow!("{revision} ({commit}) does not build: {said}"))?;
    Ok(Side { name: revision.to_owned(), commit, build })
}

fn one<'a>(
    scenario: &'a Scenario,
    values: &'a Values,
    sides: &'a [Side; 2],
    rules: Rules,
    place: &Path,
    counter: Counter,
    coin: &mut Coin,
) -> Result<Finished<'a>> {
    let stage = |side: &Side| {
        progress(&format!("setting up {}", side.name));
        Stage::new(scenario, values, &side.build, place, counter).with_context(|| side.name.clone())
    };
    let stages = [stage(&sides[0])?, stage(&sides[1])?];
    let pick = |which: Which| match which {
        Which::A => 0,
        Which::B => 1,
    };
    // The first run of each side meets cold caches, so it is thrown away.
    for which in [Which::A, Which::B] {
        stages[pick(which)].sample().with_context(|| sides[pick(which)].name.clone())?;
    }
    let (start, mut count) = (Instant::now(), 0);
    let run = |which: Which| -> Result<Sample> {
        let sample = stages[pick(which)].sample().with_context(|| sides[pick(which)].name.clone())?;
        count += 1;
        progress(&remaining(count, 2 * rules.pairs_max, start.elapsed().as_secs_f64()));
        Ok(sample)
    };
    let mut referee = Referee::new(rules);
    let comparison = compare(rules.judge, coin, |differences| referee.is_settled(differences), run)?;
    let outcome = outcome(&comparison, &rules);
    progress("tracing the work of both");
    let work = match traces().then(|| stages[0].traced().and_then(|a| Ok([a, stages[1].traced()?]))) {
        Some(Ok(both)) => Ok(both),
        Some(Err(error)) => {
            interrupt::check()?;
            Err(format!("{error:#}"))
        }
        None => Err("there is no strace here".to_owned()),
    };
    Ok(Finished { work, counter, scenario, values, sides: [&sides[0], &sides[1]], rules, comparison, outcome })
}

/// How far the runs are, with the time that the rest takes if all are needed.
fn remaining(done: usize, most: usize, seconds: f64) -> String {
    let left = seconds / done as f64 * most.saturating_sub(done) as f64;
    format!("run {done} of at most {most}, at most {left:.0} s left")
}
