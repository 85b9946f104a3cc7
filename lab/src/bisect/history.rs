//! Implements `refdb-lab bisect` on the commits of a real repository. Each commit is built and run only when it is
//! needed.

use std::{collections::BTreeMap, io::Write, path::Path};

use anyhow::{Context, Result, ensure};
use refdb_vfs::interrupt;

use super::{
    search::{Commits, Judged, search},
    words,
};
use crate::{
    coin::Coin,
    compare::{Which, first, pair},
    counter::Counter,
    emulator,
    measure::Sample,
    options::Common,
    process::output,
    profile::changes,
    progress::progress,
    revision::Builds,
    scenario::{Scenario, Values, describe},
    stage::{Stage, together, traces},
    work::differences,
};

/// The commits of a repository, and the stages of the commits that are being run.
#[derive(Debug)]
pub struct Repository<'a> {
    /// Builds the commits, and knows their order.
    pub builds: &'a Builds,
    /// The scenario that each commit runs.
    pub scenario: &'a Scenario,
    /// The values of the scenario's parameters.
    pub values: &'a Values,
    /// The folder in which runs happen.
    pub place: &'a Path,
    /// How instructions are counted.
    pub counter: Counter,
    /// Whether both sides of a pair run at the same time.
    pub side_by_side: bool,
    /// The commits that are ready to run; none in the beginning.
    pub stages: BTreeMap<String, Stage<'a>>,
}

/// Finds the first bad commit between the two revisions that the options name, and writes a report to `out`.
pub fn run(options: &Common, out: &mut impl Write) -> Result<()> {
    let scenario = options.chosen.scenario()?;
    let rules = options.rules(&scenario)?;
    let combinations = scenario.combinations();
    let [values] = combinations.as_slice() else {
        let all: Vec<String> = combinations.iter().map(describe).collect();
        anyhow::bail!("a search needs one value of each parameter (--parameter-list): choose from {}", all.join("; "));
    };
    let (repository, good, bad) = options.revisions()?;
    let builds = Builds::new(repository, &options.cache.cache()?, &scenario)?;
    let (good, bad) = (builds.commit(good)?, builds.commit(bad)?);
    ensure!(good != bad, "good and bad are the same commit, {good}");
    builds.check_order(&good, &bad)?;
    let mut coin = options.seed.map_or_else(Coin::unforeseen, Coin::new);
    let mut commits = Repository {
        builds: &builds,
        scenario: &scenario,
        values,
        place: &options.chosen.place(),
        counter: Counter::find(rules.judge),
        side_by_side: options.side_by_side,
        stages: BTreeMap::new(),
    };
    let found = search(&mut commits, &good, &bad, rules, &mut coin)?;
    progress("");
    write!(out, "{}", words::report(&found, &rules, |commit| builds.subject(commit))?)?;
    Ok(())
}

impl Repository<'_> {
    fn stage(&self, commit: &str) -> Result<&Stage<'_>> {
        self.stages.get(commit).context("a commit runs after it was made ready")
    }
}

impl Commits for Repository<'_> {
    fn suspects(&mut self, bad: &str, goods: &[String]) -> Result<Vec<String>> {
        let suspects = self.builds.suspects(bad, goods)?;
        progress(&format!("{} suspects left", suspects.len()));
        Ok(suspects)
    }

    fn between(&mut self, bad: &str, goods: &[String]) -> Result<Vec<String>> {
        self.builds.between(bad, goods)
    }

    fn parent(&mut self, commit: &str) -> Result<Option<String>> {
        // The commit itself comes first.
        let parents = output(self.builds.git().args(["rev-list", "--parents", "-1", commit]))?;
        Ok(parents.split_whitespace().nth(1).map(str::to_owned))
    }

    fn prepare(&mut self, commit: &str, beside: &[&str]) -> Result<Result<(), String>> {
        // The stages of earlier commits are dropped, because all of them together would fill the memory.
        self.stages.retain(|known, _| known == commit || beside.contains(&known.as_str()));
        if self.stages.contains_key(commit) {
            return Ok(Ok(()));
        }
        let build = match self.builds.build(commit)? {
            Ok(build) => build,
            Err(said) => return Ok(Err(format!("it does not build: {said}"))),
        };
        let mut said = String::new();
        // A command that fails once does not make the commit one that cannot be judged.
        for _ in 0..2 {
            let stage = Stage::new(self.scenario, self.values, &build, self.place, self.counter)
                .and_then(|stage| stage.sample().map(|_| stage));
            match stage {
                Ok(stage) => {
                    self.stages.insert(commit.to_owned(), stage);
                    return Ok(Ok(()));
                }
                Err(error) => said = format!("{error:#}"),
            }
            interrupt::check()?;
        }
        Ok(Err(said))
    }

    fn sample(&mut self, commit: &str) -> Result<Sample> {
        self.stage(commit)?.sample().with_context(|| commit.to_owned())
    }

    fn both(&mut self, [a, b]: [&str; 2], coin: &mut Coin) -> Result<[Sample; 2]> {
        if !self.side_by_side {
            return pair(coin, |which| self.sample(if which == Which::A { a } else { b }));
        }
        let [of_a, of_b] = together([self.stage(a)?, self.stage(b)?], first(coin))?;
        Ok([of_a.with_context(|| a.to_owned())?, of_b.with_context(|| b.to_owned())?])
    }

    fn work(&mut self, a: &str, b: &str) -> Result<Vec<String>> {
        let (Some(parent), Some(commit)) = (self.stages.get(a), self.stages.get(b)) else { return Ok(Vec::new()) };
        let names = ["its parent", "it"];
        let mut said = Vec::new();
        if traces() {
            match parent.traced().and_then(|parent| Ok((parent, commit.traced()?))) {
                Ok((a, b)) => said.extend(differences((names[0], &a), (names[1], &b))),
                Err(error) => said.push(format!("the work of both was not compared: {error:#}")),
            }
            interrupt::check()?;
        }
        if emulator::version().is_none() {
            said.push("where the instructions went is not known, since there is no valgrind here".to_owned());
            return Ok(said);
        }
        progress("counting the instructions of both by function");
        match parent.profiled().and_then(|parent| Ok((parent, commit.profiled()?))) {
            Ok((a, b)) => said.extend(changes((names[0], &a), (names[1], &b))),
            Err(_) if interrupt::received().is_some() => interrupt::check()?,
            Err(error) => said.push(format!("where the instructions went is not known: {error:#}")),
        }
        Ok(said)
    }

    fn hear(&mut self, judged: &Judged, _verdicts: u32) -> Result<()> {
        progress(&format!("{}: {}", judged.commit, words::answer(&judged.answer, judged.runs)));
        Ok(())
    }
}
