//! Parses callgrind's output into instruction counts per function, and describes in sentences how two such profiles
//! differ.

use std::collections::{BTreeMap, BTreeSet};

use crate::work::grouped;

/// Maximum number of functions that are named.
const FUNCTIONS_MAX: usize = 8;

/// Instructions in user space by function, for all programs of a run together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    functions: BTreeMap<String, u64>,
}

impl Profile {
    /// Adds a file that callgrind wrote for one program. Unknown lines are ignored.
    pub fn add(&mut self, text: &str) {
        let (mut object, mut function) = ("", String::new());
        let mut is_call = false;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("ob=") {
                object = name.rsplit('/').next().unwrap_or(name);
            } else if let Some(name) = line.strip_prefix("fn=") {
                function = named(name, object);
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if line.starts_with(|first: char| first.is_ascii_digit()) && !function.is_empty() {
                // The line after a call has the cost of the called function, which is counted there.
                let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok());
                if let (Some(cost), false) = (cost, is_call) {
                    let sum = self.functions.entry(function.clone()).or_default();
                    *sum = sum.saturating_add(cost);
                }
                is_call = false;
            }
        }
    }

    /// Returns the number of all instructions.
    pub fn total(&self) -> u64 {
        self.functions.values().fold(0, |sum, cost| sum.saturating_add(*cost))
    }

    fn of(&self, function: &str) -> u64 {
        self.functions.get(function).copied().unwrap_or_default()
    }

    fn share(&self, function: &str) -> f64 {
        100.0 * self.of(function) as f64 / self.total().max(1) as f64
    }
}

/// The start of the description of a function without a name.
const UNNAMED: &str = "a function without a name in ";

/// Returns the name of a function without the suffix for recursion. All nameless functions of one program or library
/// are treated as one.
fn named(name: &str, object: &str) -> String {
    if name.is_empty() || name.starts_with("0x") || name.starts_with("???") {
        return format!("{UNNAMED}{object}");
    }
    name.split('\'').next().unwrap_or(name).to_owned()
}

/// Describes how two profiles differ: the totals, and then the functions that changed most in the direction of the
/// total.
pub fn changes(a: (&str, &Profile), b: (&str, &Profile)) -> Vec<String> {
    let (in_a, in_b) = (a.1.total(), b.1.total());
    let millions = |count: u64| format!("{}.{:03} M", grouped(count / 1_000_000), count / 1000 % 1000);
    let mut said = vec![format!(
        "instructions in user space (callgrind, one run of each): {} in {}, {} in {}",
        millions(in_a),
        a.0,
        millions(in_b),
        b.0
    )];
    // A total difference of up to a thousandth is noise from addresses and hash seeds.
    let whole = in_b.abs_diff(in_a);
    if whole.saturating_mul(1000) <= in_a {
        said.push("  these are as many, so the difference is in the kernel, or in waiting".to_owned());
        return said;
    }
    let grows = in_b > in_a;
    let change = |function: &str| {
        let (before, after) = (a.1.of(function), b.1.of(function));
        if grows { after.saturating_sub(before) } else { before.saturating_sub(after) }
    };
    let all: BTreeSet<&String> = a.1.functions.keys().chain(b.1.functions.keys()).collect();
    let mut changed: Vec<(u64, &String)> = all.into_iter().map(|function| (change(function), function)).collect();
    changed.sort_by_key(|(change, _)| std::cmp::Reverse(*change));
    let told = changed.iter().take(FUNCTIONS_MAX).filter(|(change, _)| *change > whole / 50);
    for (change, function) in told {
        said.push(format!(
            "  {}{} in {function}, {:.1} % of all before, {:.1} % after",
            if grows { '+' } else { '-' },
            millions(*change),
            a.1.share(function),
            b.1.share(function)
        ));
    }
    let unnamed = changed.iter().filter(|(_, function)| function.starts_with(UNNAMED));
    if unnamed.fold(0_u64, |sum, (change, _)| sum.saturating_add(*change)) > whole / 2 {
        said.push("  most of it has no name: build the program with its symbols to see more".to_owned());
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> Profile {
        let mut profile = Profile::default();
        profile.add(text);
        profile
    }

    /// A file as callgrind 3.19 writes it.
    const FILE: &str = "# callgrind format\nversion: 1\npositions: line\nevents: Ir\nsummary: 3000500\n\n\
        ob=/usr/bin/git\nfl=refs.c\nfn=main\n0 500\ncob=/usr/lib/libc.so.6\ncfi=x.c\ncfn=0x0000000000012340\ncalls=4 \
        0\n0 2000000\n\
        cfn=write_ref\ncalls=1 0\n0 1000000\n\nfn=write_ref\n0 400000\nfi=wrapper.h\n0 500000\n\nfn=write_ref'2\n0 \
        100000\n\n\
        ob=/usr/lib/libc.so.6\nfl=???\nfn=0x0000000000012340\n0 1500000\n\nfn=???\n0 500000\n\ntotals: 3000500\n";

    #[test]
    fn each_function_has_its_own_instructions_and_not_those_it_called() {
        let found = profile(FILE);
        assert_eq!(found.total(), 3_000_500, "callgrind's own sum");
        assert_eq!(found.of("write_ref"), 1_000_000);
        assert_eq!(found.of("a function without a name in libc.so.6"), 2_000_000);
    }

    #[test]
    fn functions_whose_share_grew_are_named_the_most_grown_first() {
        let before = profile("fn=main\n0 9000000\nfn=hash\n0 1000000\n");
        let after = profile("fn=main\n0 8000000\nfn=hash\n0 4000000\nfn=sort\n0 2000000\nfn=tiny\n0 9\n");
        let said = [
            "instructions in user space (callgrind, one run of each): 10.000 M in A, 14.000 M in B",
            "  +3.000 M in hash, 10.0 % of all before, 28.6 % after",
            "  +2.000 M in sort, 0.0 % of all before, 14.3 % after",
        ];
        assert_eq!(changes(("A", &before), ("B", &after)), said);
        let back = changes(("A", &after), ("B", &before));
        assert_eq!(back[1], "  -3.000 M in hash, 28.6 % of all before, 10.0 % after");
    }

    #[test]
    fn missing_names_and_equal_counts_are_said() {
        let [before, after] = [1000, 3000].map(|cost| profile(&format!("ob=/bin/x\nfn=0x01\n0 {cost}\n")));
        let said = changes(("A", &before), ("B", &after));
        assert_eq!(said[1], "  +0.002 M in a function without a name in x, 100.0 % of all before, 100.0 % after");
        assert_eq!(said[2], "  most of it has no name: build the program with its symbols to see more");
        let same = changes(("A", &after), ("B", &after));
        assert_eq!(same[1], "  these are as many, so the difference is in the kernel, or in waiting");
    }

    #[test]
    fn no_file_is_too_strange() {
        let strange = "0 1\nfn=\n0\n0 x\ncalls=\n\n7 99999999999999999999\nfn=a\n0 18446744073709551615\n0 5\nob=";
        assert_eq!(profile(strange).total(), u64::MAX);
        assert_eq!(profile("").total(), 0);
        assert_eq!(changes(("A", &profile("")), ("B", &profile(strange))).len(), 2);
    }
}
