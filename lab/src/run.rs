//! Implements `refdb-lab run`, which compares two revisions for every combination of the parameters, with one verdict
//! for each combination.

use std::{io::Write, time::Instant};

use anyhow::{Context, Result, anyhow};
use refdb_vfs::interrupt;

use crate::{
    coin::Coin,
    compare::{Referee, Rules, Which, compare, first, outcome, pair},
    counter::Counter,
    finished::{Finished, Side},
    lines,
    measure::Sample,
    options::{Common, RunOptions},
    out as results,
    progress::progress,
    report,
    revision::Builds,
    scenario::{Scenario, Values},
    stage::{Stage, together, traces},
};

/// Compares the two revisions that the options name, writes a report of each combination to `out`, and exports all
/// results to the files that the options name.
pub fn run(options: &RunOptions, out: &mut impl Write) -> Result<()> {
    let (options, exports) = (&options.common, &options.exports);
    // The history of a watch is refused now, because after hours of runs their results would be lost.
    exports.history.as_deref().map_or(Ok(()), lines::check)?;
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
        let finished = one(&scenario, values, &sides, rules, options, counter, &mut coin)?;
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
    options: &Common,
    counter: Counter,
    coin: &mut Coin,
) -> Result<Finished<'a>> {
    let stage = |side: &Side| {
        progress(&format!("setting up {}", side.name));
        Stage::new(scenario, values, &side.build, &options.chosen.place(), counter).with_context(|| side.name.clone())
    };
    let stages = [stage(&sides[0])?, stage(&sides[1])?];
    let named = |number: usize, sample: Result<Sample>| sample.with_context(|| sides[number].name.clone());
    let sample = |which: Which| {
        let number = usize::from(which == Which::B);
        named(number, stages[number].sample())
    };
    // The first run of each side has cold caches, so its result is discarded.
    for which in [Which::A, Which::B] {
        sample(which)?;
    }
    let (start, mut count) = (Instant::now(), 0);
    let both = |coin: &mut Coin| -> Result<[Sample; 2]> {
        let samples = if options.side_by_side {
            let [a, b] = together([&stages[0], &stages[1]], first(coin))?;
            [named(0, a)?, named(1, b)?]
        } else {
            pair(coin, sample)?
        };
        count += 1;
        progress(&remaining(count, rules.pairs_max, start.elapsed().as_secs_f64()));
        Ok(samples)
    };
    let mut referee = Referee::new(rules);
    let comparison = compare(rules.judge, coin, |differences| referee.is_settled(differences), both)?;
    let outcome = outcome(&comparison, &rules);
    progress("tracing the work of both");
    let work = match traces().then(|| stages[0].traced().and_then(|a| Ok([a, stages[1].traced()?]))) {
        Some(Ok(both)) => Ok(both),
        Some(Err(error)) => {
            interrupt::check()?;
            Err(format!("{error:#}"))
        }
        None => Err("strace is missing or may not trace here".to_owned()),
    };
    Ok(Finished {
        work,
        counter,
        side_by_side: options.side_by_side,
        scenario,
        values,
        sides: [&sides[0], &sides[1]],
        rules,
        comparison,
        outcome,
    })
}

/// Describes the progress of the runs, with the time that is left if the maximum number of runs is needed.
fn remaining(done: usize, most: usize, seconds: f64) -> String {
    let left = seconds / done as f64 * most.saturating_sub(done) as f64;
    format!("pair {done} of at most {most}, at most {left:.0} s left")
}
