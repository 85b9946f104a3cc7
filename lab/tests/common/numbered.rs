//! A history without merges, whose commits are numbers.

/// Returns the commits behind the last of `goods` up to `bad`, those in the middle first.
pub(crate) fn suspects(bad: &str, goods: &[String]) -> Vec<String> {
    let bad: usize = bad.parse().unwrap();
    let good: usize = goods.iter().map(|good| good.parse().unwrap()).max().unwrap();
    let mut suspects: Vec<usize> = (good + 1..=bad).collect();
    suspects.sort_by_key(|commit| (commit * 2).abs_diff(good + bad));
    suspects.iter().map(usize::to_string).collect()
}

pub(crate) fn parent(commit: &str) -> String {
    (commit.parse::<usize>().unwrap() - 1).to_string()
}
