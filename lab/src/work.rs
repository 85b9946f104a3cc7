//! Describes in sentences the work of one run, and how the work of two runs differs.

use std::collections::{BTreeMap, BTreeSet};

use crate::stock::Stock;

/// The work of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// The number of times that each command line was started.
    pub programs: BTreeMap<String, u64>,
    /// Threads started.
    pub threads: u64,
    /// Bytes written to files, but not to pipes, sockets and devices.
    pub written: u64,
    /// Bytes written to files that were synced afterwards, under the same name.
    pub synced: u64,
    /// Calls of fsync and fdatasync, but not of syncfs.
    pub syncs: u64,
    /// Successful opens of files with `O_CREAT` or by `creat`, whether or not the files existed.
    pub created: u64,
    /// The part of [`Work::created`] for files whose names end with `.lock`.
    pub locked: u64,
    /// Files and folders renamed.
    pub renamed: u64,
    /// Files linked.
    pub linked: u64,
    /// Files removed, and folders that `unlinkat` removed.
    pub removed: u64,
    /// The programs that replaced `packed-refs`: the command line of each, preceded by those of its ancestors, the
    /// first ancestor first.
    pub packers: BTreeSet<Vec<String>>,
    /// System calls, whose number differs a little from run to run if threads wait for each other.
    pub calls: u64,
    /// The repositories that the run left, by path.
    pub repositories: BTreeMap<String, Stock>,
}

/// The name of a figure of the work, and the function that returns it.
pub type Figure = (&'static str, fn(&Work) -> u64);

/// The numbers of bytes, of which those that were synced explain more.
pub const BYTES: [Figure; 2] = [("bytes synced", |work| work.synced), ("bytes written", |work| work.written)];

/// The numbers of threads, syncs and files, those first that explain more.
pub const COUNTS: [Figure; 7] = [
    ("threads started", |work| work.threads),
    (SYNCS, |work| work.syncs),
    ("files locked", |work| work.locked),
    ("files created", |work| work.created),
    ("files renamed", |work| work.renamed),
    ("files linked", |work| work.linked),
    ("files removed", |work| work.removed),
];

/// The name of the number of syncs.
pub const SYNCS: &str = "syncs";

/// The name of a figure of a repository, and the function that returns it.
type Holding = (&'static str, fn(&Stock) -> u64);

const HOLDINGS: [Holding; 5] = [
    ("loose refs", |stock| stock.loose_refs),
    ("packed refs", |stock| stock.packed_refs),
    ("reftables", |stock| stock.tables),
    ("packs", |stock| stock.packs),
    ("loose objects", |stock| stock.loose_objects),
];

/// The name of a side, and its work.
type Side<'a> = (&'a str, &'a Work);

/// Returns sentences about how the work of the two sides differs; none if both did the same. Numbers of bytes may
/// differ by one per cent, and system calls are not compared.
pub fn differences(a: Side<'_>, b: Side<'_>) -> Vec<String> {
    let mut said = programs(a, b);
    let mut count = |name: &str, in_a: u64, in_b: u64| {
        said.push(format!("{name}: {} in {}, {} in {}", grouped(in_a), a.0, grouped(in_b), b.0));
    };
    // A difference of one per cent is allowed, because process ids and times that are written vary in their number of
    // digits.
    let few = |in_a: u64, in_b: u64| in_a.abs_diff(in_b) * 100 <= in_a.max(in_b);
    for (name, figure) in BYTES {
        if !few(figure(a.1), figure(b.1)) {
            count(name, figure(a.1), figure(b.1));
        }
    }
    for (name, figure) in COUNTS {
        if figure(a.1) != figure(b.1) {
            count(name, figure(a.1), figure(b.1));
        }
    }
    for path in union(&a.1.repositories, &b.1.repositories) {
        let stock = |work: &Work| work.repositories.get(path).copied().unwrap_or_default();
        for (name, holding) in HOLDINGS {
            let (in_a, in_b) = (holding(&stock(a.1)), holding(&stock(b.1)));
            if in_a != in_b {
                count(&format!("{name} in '{path}' afterwards"), in_a, in_b);
            }
        }
    }
    said
}

/// Returns the figures of both sides by name, except for those of repositories and those that are 0 in both.
pub fn figures(a: &Work, b: &Work) -> BTreeMap<String, [u64; 2]> {
    let calls: Figure = ("system calls", |work| work.calls);
    let of = |(name, figure): (&str, fn(&Work) -> u64)| (name.to_owned(), [figure(a), figure(b)]);
    [calls].into_iter().chain(BYTES).chain(COUNTS).map(of).filter(|(_, both)| *both != [0, 0]).collect()
}

/// Describes the programs that one side started more often.
fn programs(a: Side<'_>, b: Side<'_>) -> Vec<String> {
    let mut said = Vec::new();
    let fresh = |one: &Work, other: &Work, program: &str| {
        one.programs.contains_key(program) && !other.programs.contains_key(program)
    };
    for program in union(&a.1.programs, &b.1.programs) {
        let count = |work: &Work| work.programs.get(program).copied().unwrap_or_default();
        // Among the programs that only one side ran, the first ancestor is held responsible for the packing.
        let packed = |one: &Work, other: &Work| {
            let place = |chain: &Vec<String>| chain.iter().position(|line| fresh(one, other, line));
            let blamed = |chain: &&Vec<String>| place(chain).and_then(|place| chain.get(place)) == Some(program);
            let more = packed_refs(one).saturating_sub(packed_refs(other));
            let Some(chain) = one.packers.iter().find(blamed).filter(|_| more > 0) else { return String::new() };
            // Both sides ran the program that started this one. The measured command, which is the first of all, is not
            // mentioned.
            let starter = place(chain).and_then(|place| place.checked_sub(1)).filter(|place| *place > 0);
            let from = starter.map_or_else(String::new, |place| format!(" from `{}`", chain[place]));
            format!("{from}, which packed {} refs", grouped(more))
        };
        match (count(a.1), count(b.1)) {
            (in_a, in_b) if in_a == in_b => {}
            (0, count) => {
                said.push(format!("{} also ran `{program}`{}{}", b.0, times(count), packed(b.1, a.1)));
            }
            (count, 0) => {
                said.push(format!("only {} ran `{program}`{}{}", a.0, times(count), packed(a.1, b.1)));
            }
            (in_a, in_b) => said.push(format!("`{program}` ran {in_a} times in {}, {in_b} times in {}", a.0, b.0)),
        }
    }
    said
}

fn packed_refs(work: &Work) -> u64 {
    work.repositories.values().map(|stock| stock.packed_refs).sum()
}

fn union<'a, T>(a: &'a BTreeMap<String, T>, b: &'a BTreeMap<String, T>) -> BTreeSet<&'a String> {
    a.keys().chain(b.keys()).collect()
}

fn times(count: u64) -> String {
    if count == 1 { String::new() } else { format!(" {} times", grouped(count)) }
}

/// Formats a number with a comma before each group of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(programs: &[(&str, u64)]) -> Work {
        let programs = programs.iter().map(|(line, count)| ((*line).to_owned(), *count)).collect();
        Work { programs, ..Work::default() }
    }

    #[test]
    fn few_bytes_more_are_no_difference_and_many_are() {
        let with = |written: u64| Work { written, ..Work::default() };
        assert_eq!(differences(("A", &with(1000)), ("B", &with(1010))), Vec::<String>::new());
        assert_eq!(differences(("A", &with(1000)), ("B", &with(1100))), ["bytes written: 1,000 in A, 1,100 in B"]);
    }

    #[test]
    fn differences_are_named_and_equal_work_is_not() {
        let (a, b) = (running(&[("git push", 2)]), running(&[("git push", 1), ("git maintenance run --auto", 1)]));
        assert_eq!(differences(("A", &a), ("B", &a)), Vec::<String>::new());
        assert_eq!(
            differences(("A", &a), ("B", &b)),
            ["B also ran `git maintenance run --auto`", "`git push` ran 2 times in A, 1 times in B"]
        );
        let longer = Work { threads: 3, ..a.clone() };
        assert_eq!(differences(("A", &a), ("B", &longer)), ["threads started: 0 in A, 3 in B"]);
        assert_eq!(figures(&a, &longer), BTreeMap::from([("threads started".to_owned(), [0, 3])]));
    }

    #[test]
    fn the_first_program_that_only_one_side_started_is_said_to_have_packed() {
        let stock = |loose_refs, packed_refs| {
            BTreeMap::from([("target.git".to_owned(), Stock { loose_refs, packed_refs, ..Stock::default() })])
        };
        let a = Work { repositories: stock(10_000, 0), ..running(&[("git push", 1)]) };
        let lines = ["git push", "git maintenance run --auto", "git pack-refs --all"];
        let packers = BTreeSet::from([lines.map(str::to_owned).to_vec()]);
        let b = Work { repositories: stock(0, 10_000), packers, ..running(&lines.map(|line| (line, 1))) };
        let said = [
            "B also ran `git maintenance run --auto`, which packed 10,000 refs",
            "B also ran `git pack-refs --all`",
            "loose refs in 'target.git' afterwards: 10,000 in A, 0 in B",
            "packed refs in 'target.git' afterwards: 0 in A, 10,000 in B",
        ];
        assert_eq!(differences(("A", &a), ("B", &b)), said);
        let mirrored = differences(("A", &b), ("B", &a));
        assert_eq!(mirrored[0], "only A ran `git maintenance run --auto`, which packed 10,000 refs");
    }

    #[test]
    fn what_started_the_packing_is_named_where_both_sides_ran_it() {
        let stock =
            |packed_refs| BTreeMap::from([("target.git".to_owned(), Stock { packed_refs, ..Stock::default() })]);
        let lines = ["git fetch", "git maintenance run --auto", "git pack-refs --all"];
        let a = Work { repositories: stock(0), ..running(&[(lines[0], 1), (lines[1], 1)]) };
        let packers = BTreeSet::from([lines.map(str::to_owned).to_vec()]);
        let b = Work { repositories: stock(300), packers, ..running(&lines.map(|line| (line, 1))) };
        let said = differences(("A", &a), ("B", &b));
        assert_eq!(
            said[0],
            "B also ran `git pack-refs --all` from `git maintenance run --auto`, which packed 300 refs"
        );
    }

    #[test]
    fn long_numbers_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
