//! Concludes, with pure functions, whether a change is one of the program or of what surrounds it.

use std::path::Path;

use serde::Serialize;

use crate::{
    measure::Measure,
    profile::Profile,
    series::detector::Direction,
    shell,
    work::{BYTES, COUNTS, SYNCS, Work, differences, grouped},
};

/// What a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The program itself does more, or less.
    Real,
    /// Something else makes the difference: maintenance, configuration, the state of caches, or the harness.
    Artefact,
    /// Too little is known.
    CannotTell,
}

/// The conclusion about a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conclusion {
    /// What the change is.
    pub kind: Kind,
    /// The cause in a few words, such as `maintenance` or `threads started`.
    pub cause: String,
    /// One sentence for people.
    pub sentence: String,
}

/// What is known about both sides of a change.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Whether the later commit costs more or less.
    pub direction: Direction,
    /// The measure that decides.
    pub judge: Measure,
    /// The logarithm of the ratio by that measure.
    pub ratio: f64,
    /// The logarithm of the ratio by processor time.
    pub cpu: f64,
    /// The change in seconds: by the measure that decides, or in wall time if that is no time.
    pub seconds: f64,
    /// Whether both builds have the same files, byte for byte.
    pub is_same_build: bool,
    /// The work of the commit before and of the commit itself, if it was traced.
    pub work: Option<[&'a Work; 2]>,
    /// The instructions of both commits, if they were counted.
    pub profiles: Option<[&'a Profile; 2]>,
}

/// The subcommands of git that maintain a repository instead of doing what the user asked for.
const MAINTENANCE: [&str; 8] =
    ["maintenance", "gc", "repack", "pack-refs", "prune", "prune-packed", "commit-graph", "multi-pack-index"];

/// The options of git, before its subcommand, whose value is the next word.
const VALUED: [&str; 7] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source"];

/// A change of at least this part of the cost's change, as logarithms of ratios, explains it.
const SENSIBLE: f64 = 0.25;

/// The time that a thread, or a file that is created, locked, renamed, linked or removed, takes at most, in seconds. A
/// single one explains no change of many milliseconds, though it may be infinitely more than none.
const COUNT_SECONDS_MAX: f64 = 0.0002;

/// The time that a sync takes at most, in seconds.
const SYNC_SECONDS_MAX: f64 = 0.05;

/// The number that is added to the bytes of each side before they are compared, because a few bytes cost nothing.
const PAGE: u64 = 4096;

/// Returns the conclusion.
pub fn conclude(evidence: &Evidence<'_>) -> Conclusion {
    let made = |kind, cause: &str, sentence: String| Conclusion { kind, cause: cause.to_owned(), sentence };
    let verb = if evidence.direction == Direction::Worse { "added" } else { "removed" };
    if evidence.is_same_build {
        return made(
            Kind::Artefact,
            "harness",
            "artefact of the harness: both builds are the same, byte for byte".to_owned(),
        );
    }
    if let Some([slow, fast]) = evidence.work.map(|work| slower_first(work, evidence.direction)) {
        let only: Vec<&String> = slow.programs.keys().filter(|line| !fast.programs.contains_key(*line)).collect();
        if let Some(line) = only.iter().find(|line| maintains(line)) {
            let sentence = format!("artefact: the change {verb} maintenance, `{line}`, to the same work");
            return made(Kind::Artefact, "maintenance", sentence);
        }
        let missing: Vec<&String> = fast.programs.keys().filter(|line| !slow.programs.contains_key(*line)).collect();
        if let Some(line) = only.iter().find(|line| has_other_settings(line, &missing)) {
            let sentence =
                format!("artefact of configuration: the side that costs more ran `{line}` with other settings");
            return made(Kind::Artefact, "configuration", sentence);
        }
    }
    let is_same_count = evidence.profiles.map(|_| instructions(evidence).is_none());
    match (evidence.work.map(|[a, b]| is_same_work(a, b)), is_same_count) {
        (Some(true), Some(true)) => same_work(evidence),
        (None, _) | (Some(true), None) => {
            made(Kind::CannotTell, "unknown", "cannot tell whether it is real: the work was not compared".to_owned())
        }
        (Some(_), _) => match cause(evidence) {
            Some((cause, figures)) => {
                made(Kind::Real, cause, format!("real: the program itself does other work; {figures}"))
            }
            None => {
                let sentence = format!(
                    "cannot tell whether it is real: no work changed in the same direction and by a sensible part of \
                     it; {}",
                    small_differences(evidence)
                );
                made(Kind::CannotTell, "unexplained", sentence)
            }
        },
    }
}

/// Returns the conclusion about sides with the same programs and files, and nearly as many system calls and
/// instructions.
fn same_work(evidence: &Evidence<'_>) -> Conclusion {
    let is_time = evidence.judge.is_time();
    // A program that waits longer needs no more processor time.
    let is_computing = evidence.cpu.abs() >= evidence.ratio.abs() / 2.0 && evidence.cpu * evidence.ratio > 0.0;
    let same = "both sides have the same programs, files, system calls and instructions";
    let (kind, cause, sentence) = if is_time && is_computing {
        let sentence = format!("artefact of caches or of the places of code and data: {same}");
        (Kind::Artefact, "cache state", sentence)
    } else if is_time {
        (Kind::CannotTell, "waiting", format!("cannot tell whether it is real: one side waits longer, and {same}"))
    } else {
        (Kind::CannotTell, "unknown", format!("cannot tell whether it is real: {same}"))
    };
    Conclusion { kind, cause: cause.to_owned(), sentence }
}

fn slower_first<T>([a, b]: [T; 2], direction: Direction) -> [T; 2] {
    if direction == Direction::Worse { [b, a] } else { [a, b] }
}

fn maintains(line: &str) -> bool {
    subcommand(line).is_some_and(|word| MAINTENANCE.contains(&word.as_str()))
}

/// Returns the subcommand of a command line of git, such as `git -C x gc` or `git-gc`; `None` if the program is not
/// git, whatever its arguments are.
fn subcommand(line: &str) -> Option<String> {
    let mut words = shell::split(line).into_iter();
    let program = words.next()?;
    let name = Path::new(&program).file_name()?.to_str()?;
    if name != "git" {
        return name.strip_prefix("git-").map(str::to_owned);
    }
    loop {
        let word = words.next()?;
        if VALUED.contains(&word.as_str()) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
}

/// Returns whether a command line of git on the other side differs from this one in nothing but settings given by `-c`.
fn has_other_settings(line: &str, others: &[&String]) -> bool {
    subcommand(line).is_some() && others.iter().any(|other| without_settings(line) == without_settings(other))
}

fn without_settings(line: &str) -> Vec<String> {
    let mut all = shell::split(line).into_iter();
    let mut words = Vec::new();
    while let Some(word) = all.next() {
        if word == "-c" {
            all.next();
        } else {
            words.push(word);
        }
    }
    words
}

/// Returns whether two sides did the same, with up to two per cent fewer system calls in one of them.
fn is_same_work(a: &Work, b: &Work) -> bool {
    differences(("a", a), ("b", b)).is_empty() && a.calls.abs_diff(b.calls) * 50 <= a.calls.max(b.calls)
}

/// Returns the most important difference that explains the change, by its name and with its figures: of programs,
/// threads, syncs and files, or else of the instructions, of the bytes or of the system calls.
fn cause(evidence: &Evidence<'_>) -> Option<(&'static str, String)> {
    let [a, b] = evidence.work?;
    let explains = |[a, b]: [u64; 2]| explains([a, b], evidence.ratio);
    let told = |name, both: [u64; 2]| Some((name, counted(name, both)));
    let [slow, fast] = slower_first([a, b], evidence.direction);
    // Nobody knows how much a program does that the other side did not run at all.
    let is_fresh = slow.programs.keys().any(|line| !fast.programs.contains_key(line));
    let programs = [a, b].map(|work| work.programs.values().sum());
    let [of_slow, of_fast] = slower_first(programs, evidence.direction);
    if explains(programs) || is_fresh && of_slow > of_fast {
        return told("programs", programs);
    }
    for (name, figure) in COUNTS {
        let both = [figure(a), figure(b)];
        let seconds_max = if name == SYNCS { SYNC_SECONDS_MAX } else { COUNT_SECONDS_MAX };
        let takes_at_most = both[0].abs_diff(both[1]) as f64 * seconds_max;
        if explains(both) && takes_at_most >= SENSIBLE * evidence.seconds.abs() {
            return told(name, both);
        }
    }
    if let Some(both) = instructions(evidence)
        && explains(both)
    {
        return told("instructions", both);
    }
    for (name, figure) in BYTES {
        if explains([figure(a), figure(b)].map(|bytes| bytes.saturating_add(PAGE))) {
            return told(name, [figure(a), figure(b)]);
        }
    }
    let calls = [a.calls, b.calls];
    explains(calls).then(|| told("system calls", calls)).flatten()
}

/// Returns the instructions of both sides, if they were counted and differ by more than a thousandth.
fn instructions(evidence: &Evidence<'_>) -> Option<[u64; 2]> {
    let [a, b] = evidence.profiles?.map(Profile::total);
    (a.abs_diff(b).saturating_mul(1000) > a).then_some([a, b])
}

/// Returns whether a figure changed in the direction of the cost and by a sensible part of it.
fn explains([a, b]: [u64; 2], ratio: f64) -> bool {
    let change = (b as f64 / a as f64).ln() * ratio.signum();
    a != b && change > 0.0 && change >= SENSIBLE * ratio.abs()
}

fn counted(name: &str, [a, b]: [u64; 2]) -> String {
    format!("{name}: {} before, {} after", grouped(a), grouped(b))
}

/// Maximum number of differences that are listed if none of them explains the change.
const LISTED_MAX: usize = 3;

/// Lists differences that do not explain the change: of the instructions first, and of the system calls last.
fn small_differences(evidence: &Evidence<'_>) -> String {
    let mut said: Vec<String> = instructions(evidence).map(|both| counted("instructions", both)).into_iter().collect();
    if let Some([a, b]) = evidence.work {
        said.extend(differences(("before", a), ("after", b)));
        if a.calls != b.calls {
            said.push(counted("system calls", [a.calls, b.calls]));
        }
    }
    said.truncate(LISTED_MAX);
    said.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(lines: &[&str], threads: u64) -> Work {
        let programs = lines.iter().map(|line| ((*line).to_owned(), 1)).collect();
        Work { programs, threads, calls: 1000, ..Work::default() }
    }

    fn profile(instructions: u64) -> Profile {
        let mut profile = Profile::default();
        profile.add(&format!("events: Ir\nfn=main\n0 {instructions}\n"));
        profile
    }

    /// Evidence of two sides of which the later one takes longer and computes longer.
    const SLOWER: Evidence<'_> = Evidence {
        direction: Direction::Worse,
        judge: Measure::Wall,
        ratio: 0.1,
        cpu: 0.1,
        seconds: 0.02,
        is_same_build: false,
        work: None,
        profiles: None,
    };

    fn concluded(works: Option<[Work; 2]>, counts: Option<[u64; 2]>, direction: Direction) -> Conclusion {
        let profiles = counts.map(|counts| counts.map(profile));
        let sign = if direction == Direction::Worse { 1.0 } else { -1.0 };
        conclude(&Evidence {
            direction,
            ratio: sign * SLOWER.ratio,
            cpu: sign * SLOWER.cpu,
            work: works.as_ref().map(|[a, b]| [a, b]),
            profiles: profiles.as_ref().map(|[a, b]| [a, b]),
            ..SLOWER
        })
    }

    #[test]
    fn maintenance_that_only_the_slower_side_runs_is_an_artefact() {
        let (plain, more) = (work(&["git fetch"], 0), work(&["git fetch", "git maintenance run --auto"], 0));
        for (pair, direction) in
            [([plain.clone(), more.clone()], Direction::Worse), ([more.clone(), plain.clone()], Direction::Better)]
        {
            let said = concluded(Some(pair), Some([10_000, 90_000]), direction);
            assert_eq!((said.kind, said.cause.as_str()), (Kind::Artefact, "maintenance"), "{said:?}");
        }
        let faster = concluded(Some([plain, more]), Some([90_000, 10_000]), Direction::Better);
        assert_eq!(faster.kind, Kind::Real, "what the faster side does is not what the slower one suffers from");
        for line in ["git -c a=1 gc", "git -c 'a=1 2' gc", "/usr/bin/git -C x -c a=1 -c b=2 pack-refs"] {
            let set = [work(&["git fetch"], 0), work(&["git fetch", line], 0)];
            assert_eq!(concluded(Some(set), None, Direction::Worse).cause, "maintenance", "{line}");
        }
        let script = [work(&["sh"], 0), work(&["sh", "sh -c gc"], 0)];
        assert_eq!(concluded(Some(script), None, Direction::Worse).kind, Kind::Real, "a word in a script is none");
    }

    #[test]
    fn only_a_git_with_such_a_subcommand_maintains() {
        for line in ["/usr/lib/git-core/git-repack -d", "git --git-dir=x --no-pager gc", "/a/git --git-dir x prune"] {
            assert!(maintains(line), "{line}");
        }
        for line in [
            "grep -q repack x gc",
            "git grep gc",
            "git remote prune origin",
            "git push origin maintenance",
            "git -C gc status",
            "git",
            "git-upload-pack gc",
            "cat git-gc",
            "sh -c gc",
        ] {
            assert!(!maintains(line), "{line}");
        }
    }

    #[test]
    fn work_that_changed_too_little_or_the_other_way_explains_nothing() {
        let plain = work(&["p"], 4);
        let twin = |changed: Work| Some([plain.clone(), changed]);
        for (works, counts, direction) in [
            (twin(plain.clone()), [100_000, 100_130], Direction::Better),
            (twin(plain.clone()), [100_000, 101_000], Direction::Worse),
            (twin(Work { written: 1, ..plain.clone() }), [100_000, 100_000], Direction::Worse),
            (twin(Work { written: 900_000, ..plain.clone() }), [100_000, 100_000], Direction::Better),
            (twin(Work { calls: 1500, ..plain.clone() }), [100_000, 100_000], Direction::Better),
            (twin(Work { created: 1, ..plain.clone() }), [100_000, 100_000], Direction::Better),
            (twin(work(&["p", "q"], 4)), [100_000, 101_000], Direction::Better),
            // Previously, one file that there was not before explained any change.
            (twin(Work { created: 1, ..plain.clone() }), [100_000, 100_000], Direction::Worse),
            (twin(work(&["p"], 6)), [100_000, 100_000], Direction::Worse),
        ] {
            let said = concluded(works, Some(counts), direction);
            assert_eq!((said.kind, said.cause.as_str()), (Kind::CannotTell, "unexplained"), "{said:?}");
            assert!(said.sentence.contains(" after"), "{said:?}");
        }
        for (works, cause) in [
            (twin(Work { written: 900_000, ..plain.clone() }), "bytes written"),
            (twin(Work { calls: 1500, ..plain.clone() }), "system calls"),
            (twin(work(&["p", "q"], 4)), "programs"),
            (twin(Work { created: 30, ..plain.clone() }), "files created"),
            (twin(Work { syncs: 1, ..plain.clone() }), "syncs"),
        ] {
            let said = concluded(works, Some([100_000, 100_000]), Direction::Worse);
            assert_eq!((said.kind, said.cause.as_str()), (Kind::Real, cause), "{said:?}");
        }
    }

    #[test]
    fn threads_and_instructions_are_real() {
        let threads = concluded(Some([work(&["p"], 1), work(&["p"], 300)]), Some([1000, 1000]), Direction::Worse);
        assert_eq!((threads.kind, threads.cause.as_str()), (Kind::Real, "threads started"));
        assert!(threads.sentence.ends_with("threads started: 1 before, 300 after"), "{threads:?}");
        let counted = concluded(Some([work(&["p"], 1), work(&["p"], 1)]), Some([1000, 2000]), Direction::Worse);
        assert_eq!((counted.kind, counted.cause.as_str()), (Kind::Real, "instructions"));
    }

    #[test]
    fn settings_caches_and_the_harness_are_artefacts() {
        for (program, cause) in [("git", "configuration"), ("python3", "unexplained")] {
            let settings = ["1", "2"].map(|value| work(&[&format!("{program} -c a={value} gone")], 0));
            assert_eq!(concluded(Some(settings), None, Direction::Worse).cause, cause, "{program}");
        }
        let same = [work(&["p"], 1), work(&["p"], 1)];
        assert_eq!(concluded(Some(same.clone()), Some([10_000, 10_001]), Direction::Worse).cause, "cache state");
        assert_eq!(conclude(&Evidence { is_same_build: true, ..SLOWER }).cause, "harness");
        let [a, b] = &same;
        let (before, after) = (profile(10_000), profile(10_000));
        let equal = Evidence { work: Some([a, b]), profiles: Some([&before, &after]), ..SLOWER };
        assert_eq!(conclude(&Evidence { cpu: 0.0, ..equal }).cause, "waiting");
        assert_eq!(conclude(&Evidence { judge: Measure::Reported, ..equal }).kind, Kind::CannotTell);
        assert_eq!(concluded(Some(same), None, Direction::Worse).kind, Kind::CannotTell);
        assert_eq!(concluded(None, Some([1, 2]), Direction::Worse).kind, Kind::CannotTell);
    }
}
