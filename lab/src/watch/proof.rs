//! Proves a change again, with a fresh clone, fresh builds and another order of the runs, and compares the work of both
//! sides.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use refdb_vfs::interrupt;

use super::{
    conclusion::{Conclusion, Evidence, conclude},
    rounds::Setting,
};
use crate::{
    coin::Coin,
    compare::{Comparison, Outcome, Referee, Rules, Verdict, Which, compare, outcome, pair},
    emulator,
    guard::remove_folder,
    measure::Measure,
    process::tool,
    profile::{Profile, changes},
    progress::progress,
    revision::{Builds, without_local_variables},
    series::detector::Direction,
    stage::{Stage, traces},
    stats::centre,
    work::{Work, differences},
};

/// What a proof measured.
#[derive(Debug)]
pub struct Proof {
    /// The verdict on the later commit.
    pub outcome: Outcome,
    /// The number of runs of each side.
    pub runs: usize,
    /// The seed of the order of the runs.
    pub seed: u64,
    /// Sentences about how the work and the instructions differ, or why that is not known.
    pub work: Vec<String>,
    /// Whether the change is one of the program.
    pub conclusion: Conclusion,
}

impl Proof {
    /// Returns whether the change was found again.
    pub fn confirms(&self, direction: Direction) -> bool {
        self.outcome.verdict
            == match direction {
                Direction::Worse => Verdict::Worse,
                Direction::Better => Verdict::Better,
            }
    }
}

/// Compares two commits of `repository` in a clone that is made, and removed, in `folder`. The inner error is the
/// reason why the commits cannot be run or measured.
///
/// # Errors
///
/// Fails, for example, if the clone cannot be made or removed, git fails in it, its builds cannot be read, a disk is
/// full, or a signal arrives.
pub fn prove(
    setting: Setting<'_>,
    repository: &Path,
    folder: &Path,
    commits: [&str; 2],
    direction: Direction,
    rules: Rules,
    seed: u64,
) -> Result<Result<Proof, String>> {
    remove_folder(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make '{}'", folder.display()))?;
    let (clone, cache) = (folder.join("clone"), folder.join("builds"));
    progress("cloning for the proof");
    // The clone borrows the objects, so it takes little room; its work trees and builds are its own.
    let mut git = without_local_variables("git");
    git.args(["clone", "--quiet", "--no-checkout", "--shared"]).arg(repository).arg(&clone);
    tool(&mut git).context("cannot clone the repository for the proof")?;
    let builds = Builds::new(&clone, &cache, setting.scenario)?;
    let fresh = Setting { builds: &builds, cache: &cache, ..setting };
    let proved = in_clone(fresh, commits, direction, rules, seed);
    remove_folder(folder)?;
    proved
}

fn in_clone(
    setting: Setting<'_>,
    commits: [&str; 2],
    direction: Direction,
    rules: Rules,
    seed: u64,
) -> Result<Result<Proof, String>> {
    let mut stages = Vec::new();
    for commit in commits {
        match setting.ready(commit)? {
            Ok(stage) => stages.push(stage),
            Err(why) => return Ok(Err(format!("{commit} cannot be run in a fresh clone: {why}"))),
        }
    }
    let [a, b] = [&stages[0], &stages[1]];
    let comparison = match runs([a, b], rules, seed) {
        Ok(comparison) => comparison,
        Err(error) => {
            interrupt::check()?;
            setting.check_room()?;
            return Ok(Err(format!("it cannot be measured in a fresh clone: {error:#}")));
        }
    };
    let names = ["before", "after"];
    let mut work = Vec::new();
    let traced = noted(traced([a, b]), &mut work)?;
    let profiled = noted(profiled([a, b]), &mut work)?;
    if let Some([a, b]) = &traced {
        work.extend(differences((names[0], a), (names[1], b)));
    }
    if let Some([a, b]) = &profiled {
        work.extend(changes((names[0], a), (names[1], b)));
    }
    let [first, second] = commits.map(|commit| setting.builds.build(commit));
    let is_same_build = matches!((first?, second?), (Ok(a), Ok(b)) if is_same(&a, &b)?);
    let outcome = outcome(&comparison, &rules);
    let conclusion = conclude(&Evidence {
        direction,
        judge: rules.judge,
        ratio: outcome.ratio.ln(),
        cpu: cpu(&comparison),
        seconds: seconds(&comparison, rules.judge),
        is_same_build,
        work: traced.as_ref().map(|[a, b]| [a, b]),
        profiles: profiled.as_ref().map(|[a, b]| [a, b]),
    });
    let runs = comparison.differences.len();
    Ok(Ok(Proof { outcome, runs, seed, work, conclusion }))
}

/// Returns the result, or notes why there is none.
fn noted<T>(found: Result<T, String>, work: &mut Vec<String>) -> Result<Option<T>> {
    interrupt::check()?;
    Ok(found.map_err(|why| work.push(why)).ok())
}

/// Returns the logarithm of the ratio by processor time: the median of the pairs. A pair in which a side has
/// none does not count; if there is no other pair, the result is 0.
fn cpu(comparison: &Comparison) -> f64 {
    let pairs = comparison.a.iter().zip(&comparison.b);
    let ratios = pairs.map(|(a, b)| (b.user + b.system).ln() - (a.user + a.system).ln());
    centre(&ratios.filter(|ratio| ratio.is_finite()).collect::<Vec<_>>())
}

/// Returns by how many seconds the sides differ, by `judge` or by wall time: the median of the pairs.
fn seconds(comparison: &Comparison, judge: Measure) -> f64 {
    let judge = if judge.is_time() { judge } else { Measure::Wall };
    let pairs = comparison.a.iter().zip(&comparison.b);
    centre(&pairs.filter_map(|(a, b)| Some(b.value(judge)? - a.value(judge)?)).collect::<Vec<_>>())
}

/// Runs both sides until the answer is certain, or until the rules permit no more pairs.
fn runs([a, b]: [&Stage<'_>; 2], rules: Rules, seed: u64) -> Result<Comparison> {
    let mut referee = Referee::new(rules);
    let mut count = 0;
    compare(
        rules.judge,
        &mut Coin::new(seed),
        |differences| referee.is_settled(differences),
        |coin| {
            count += 1;
            progress(&format!("proof: pair {count} of at most {}", rules.pairs_max));
            pair(coin, |which| if which == Which::A { a.sample() } else { b.sample() })
        },
    )
}

fn traced([a, b]: [&Stage<'_>; 2]) -> Result<[Work; 2], String> {
    if !traces() {
        return Err("the work of both was not compared, because strace is missing or may not trace here".to_owned());
    }
    progress("tracing the work of both");
    let both = a.traced().and_then(|a| Ok([a, b.traced()?]));
    both.map_err(|error| format!("the work of both was not compared: {error:#}"))
}

fn profiled([a, b]: [&Stage<'_>; 2]) -> Result<[Profile; 2], String> {
    if emulator::version().is_none() {
        return Err("where the instructions went is not known, since there is no valgrind here".to_owned());
    }
    progress("counting the instructions of both by function");
    let both = a.profiled().and_then(|a| Ok([a, b.profiled()?]));
    both.map_err(|error| format!("where the instructions went is not known: {error:#}"))
}

/// Returns whether two folders or files have the same content.
fn is_same(a: &Path, b: &Path) -> Result<bool> {
    let (about_a, about_b) = (fs::symlink_metadata(a)?, fs::symlink_metadata(b)?);
    if about_a.file_type() != about_b.file_type() {
        return Ok(false);
    }
    if about_a.is_symlink() {
        return Ok(fs::read_link(a)? == fs::read_link(b)?);
    }
    if !about_a.is_dir() {
        return Ok(about_a.len() == about_b.len() && fs::read(a)? == fs::read(b)?);
    }
    let names = |folder: &Path| -> Result<Vec<_>> {
        let mut names: Vec<_> = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
        names.sort();
        Ok(names)
    };
    let names_a = names(a)?;
    if names_a != names(b)? {
        return Ok(false);
    }
    for name in names_a {
        if !is_same(&a.join(&name), &b.join(&name))? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_the_same_only_if_every_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        for side in [&a, &b] {
            fs::create_dir_all(side.join("bin")).unwrap();
            fs::write(side.join("bin/program"), "one").unwrap();
        }
        assert!(is_same(&a, &b).unwrap());
        fs::write(b.join("bin/program"), "two").unwrap();
        assert!(!is_same(&a, &b).unwrap());
        fs::write(b.join("bin/program"), "one").unwrap();
        fs::write(b.join("more"), "").unwrap();
        assert!(!is_same(&a, &b).unwrap());
    }
}
