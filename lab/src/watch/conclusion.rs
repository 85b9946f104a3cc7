//! Concludes, with pure functions, whether a change is one of the program or of what surrounds it.

use std::path::Path;

use serde::Serialize;

use crate::{
    measure::Measure,
    profile::Profile,
    series::detector::Direction,
    work::{Work, differences, grouped},
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
    /// The cause in a few words, such as `maintenance` or `threads`.
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
    /// Whether both builds have the same files, byte for byte.
    pub is_same_build: bool,
    /// The work of the commit before and of the commit itself, if it was traced.
    pub work: Option<[&'a Work; 2]>,
    /// The instructions of both commits, if they were counted.
    pub profiles: Option<[&'a Profile; 2]>,
}

/// Words in a command line that say that it maintains a repository instead of doing what the user asked for.
const MAINTENANCE: [&str; 8] =
    ["maintenance", "gc", "repack", "pack-refs", "prune", "prune-packed", "commit-graph", "multi-pack-index"];

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
    let more = evidence.profiles.map(|[a, b]| (a.total(), b.total()));
    let is_same_count = more.map(|(a, b)| a.abs_diff(b).saturating_mul(1000) <= a);
    match (evidence.work.map(|[a, b]| is_same_work(a, b)), is_same_count) {
        (Some(true), Some(true)) => same_work(evidence),
        (None, _) | (Some(true), None) => {
            made(Kind::CannotTell, "unknown", "cannot tell whether it is real: the work was not compared".to_owned())
        }
        _ => {
            let cause = cause(evidence);
            let sentence = format!("real: the program itself does other work; {cause}");
            made(Kind::Real, cause.split(':').next().unwrap_or(&cause), sentence)
        }
    }
}

/// Returns the conclusion about sides with the same programs and files, and nearly as many system calls and
/// instructions.
fn same_work(evidence: &Evidence<'_>) -> Conclusion {
    let is_time = [Measure::Wall, Measure::User, Measure::System, Measure::Cpu].contains(&evidence.judge);
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
    let is_git = line.split_whitespace().next().is_some_and(|word| Path::new(word).ends_with("git"));
    // The words of a shell's script are no command that was started; git's `-c` begins a setting.
    let mut words = line.split_whitespace().take_while(|word| is_git || *word != "-c" && *word != "-ec");
    words.any(|word| MAINTENANCE.contains(&word) || MAINTENANCE.iter().any(|kind| is_program(word, kind)))
}

fn is_program(word: &str, kind: &str) -> bool {
    let name = Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or(word);
    name.strip_prefix("git-") == Some(kind)
}

/// Returns whether a command line of the other side differs from this one in nothing but settings given by `-c`.
fn has_other_settings(line: &str, others: &[&String]) -> bool {
    others.iter().any(|other| without_settings(line) == without_settings(other))
}

fn without_settings(line: &str) -> Vec<&str> {
    let mut all = line.split_whitespace();
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

/// Returns the most important difference: of threads, programs, syncs and some kinds of files, or else of the
/// instructions, or else of any other work.
fn cause(evidence: &Evidence<'_>) -> String {
    let counted = |name: &str, [a, b]: [u64; 2]| format!("{name}: {} before, {} after", grouped(a), grouped(b));
    if let Some([a, b]) = evidence.work {
        type Figure = (&'static str, fn(&Work) -> u64);
        let figures: [Figure; 6] = [
            ("threads", |work| work.threads),
            ("programs", |work| work.programs.values().sum()),
            ("syncs", |work| work.syncs),
            ("locks", |work| work.locked),
            ("files created", |work| work.created),
            ("files renamed", |work| work.renamed),
        ];
        for (name, figure) in figures {
            if figure(a) != figure(b) {
                return counted(name, [figure(a), figure(b)]);
            }
        }
        if let Some([a, b]) = evidence.profiles
            && a.total().abs_diff(b.total()).saturating_mul(1000) > a.total()
        {
            return counted("instructions", [a.total(), b.total()]);
        }
        return match differences(("before", a), ("after", b)).into_iter().next() {
            Some(difference) => difference,
            None => counted("system calls", [a.calls, b.calls]),
        };
    }
    "its cause is unknown".to_owned()
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
        is_same_build: false,
        work: None,
        profiles: None,
    };

    fn concluded(works: Option<[Work; 2]>, counts: Option<[u64; 2]>, direction: Direction) -> Conclusion {
        let profiles = counts.map(|counts| counts.map(profile));
        conclude(&Evidence {
            direction,
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
        for line in ["git -c a=1 gc", "/usr/bin/git -C x -c a=1 -c b=2 pack-refs"] {
            let set = [work(&["git fetch"], 0), work(&["git fetch", line], 0)];
            assert_eq!(concluded(Some(set), None, Direction::Worse).cause, "maintenance", "{line}");
        }
        let script = [work(&["sh"], 0), work(&["sh", "sh -c gc"], 0)];
        assert_eq!(concluded(Some(script), None, Direction::Worse).kind, Kind::Real, "a word in a script is none");
    }

    #[test]
    fn threads_and_instructions_are_real() {
        let threads = concluded(Some([work(&["p"], 1), work(&["p"], 300)]), Some([1000, 1000]), Direction::Worse);
        assert_eq!((threads.kind, threads.cause.as_str()), (Kind::Real, "threads"));
        assert!(threads.sentence.ends_with("threads: 1 before, 300 after"), "{threads:?}");
        let counted = concluded(Some([work(&["p"], 1), work(&["p"], 1)]), Some([1000, 2000]), Direction::Worse);
        assert_eq!((counted.kind, counted.cause.as_str()), (Kind::Real, "instructions"));
    }

    #[test]
    fn settings_caches_and_the_harness_are_artefacts() {
        let settings = [work(&["git -c a=1 gone"], 0), work(&["git -c a=2 gone"], 0)];
        assert_eq!(concluded(Some(settings), None, Direction::Worse).cause, "configuration");
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
