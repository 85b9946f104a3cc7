//! `--sort=version:refname`: numbers in names are compared by value, and `versionsort.suffix` orders pre-releases.

use crate::failure::say;
use bstr::BString;
use refdb::config::Config;
use std::cmp::Ordering;

/// `versionsort.suffix` (git-config(1)): suffixes of version numbers, in the order in which they sort.
#[derive(Debug, Default)]
pub struct Suffixes(Vec<BString>);

impl Suffixes {
    /// Reads the configuration. A setting that occurs without a value counts as not set, with git's error.
    pub fn configured(config: &Config) -> Self {
        const NAME: &str = "versionsort.suffix";
        const OLD_NAME: &str = "versionsort.prereleasesuffix";
        let (new, old) = (Self::all(config, NAME), Self::all(config, OLD_NAME));
        if new.is_some() && old.is_some() {
            say("warning: ", format!("ignoring {OLD_NAME} because {NAME} is set").as_bytes());
        }
        Suffixes(new.or(old).unwrap_or_default())
    }

    /// Returns the values of a setting, or `None` if there are none or one has no value.
    fn all(config: &Config, name: &str) -> Option<Vec<BString>> {
        config.last(name)?;
        let values: Option<Vec<BString>> = config.all(name).map(|value| value.raw.map(Into::into)).collect();
        if values.is_none() {
            say("error: ", format!("missing value for '{name}'").as_bytes());
        }
        values
    }

    /// Compares two texts whose first difference is at `differ`. Returns `None` if their suffixes do not decide.
    fn compare(&self, one: &[u8], two: &[u8], differ: usize) -> Option<Ordering> {
        let (one, two) = (self.place(one, differ), self.place(two, differ));
        match (one, two) {
            (Some(one), Some(two)) if one != two => Some(one.cmp(&two)),
            (Some(_), None) => Some(Ordering::Less),
            (None, Some(_)) => Some(Ordering::Greater),
            _ => None,
        }
    }

    /// Returns the number of the suffix that extends to the difference or starts there. If there are several, the one
    /// that starts first is chosen, and of those the longest.
    fn place(&self, text: &[u8], differ: usize) -> Option<usize> {
        let begins = |suffix: &BString| {
            (differ.saturating_sub(suffix.len())..=differ.min(text.len())).find(|at| text[*at..].starts_with(suffix))
        };
        let found =
            self.0.iter().enumerate().filter_map(|(place, suffix)| Some((begins(suffix)?, suffix.len(), place)));
        found.min_by_key(|(begin, len, _)| (*begin, std::cmp::Reverse(*len))).map(|(_, _, place)| place)
    }
}

/// Compares two versions by their suffixes, or else by their numbers.
pub fn compare(one: &[u8], two: &[u8], suffixes: &Suffixes) -> Ordering {
    if !suffixes.0.is_empty() && one != two {
        let differ = first_difference(one, two);
        if let Some(order) = suffixes.compare(one, two, differ) {
            return order;
        }
    }
    compare_numbers(one, two)
}

fn first_difference(one: &[u8], two: &[u8]) -> usize {
    one.iter().zip(two).position(|(one, two)| one != two).unwrap_or(one.len().min(two.len()))
}

/// Compares like `strverscmp(3)`: runs of digits by value, except that a run with a leading zero is a fraction.
fn compare_numbers(one: &[u8], two: &[u8]) -> Ordering {
    let differ = first_difference(one, two);
    let bytes = || one[differ..].first().cmp(&two[differ..].first());
    // The first difference may be inside a run of digits whose beginning both texts share.
    let start = one[..differ].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    let (one_run, two_run) = (digits(&one[start..]), digits(&two[start..]));
    let is_number = |run: &[u8]| run.first().is_some_and(|digit| *digit != b'0');
    if is_number(one_run) && is_number(two_run) {
        return one_run.len().cmp(&two_run.len()).then_with(bytes);
    }
    let common = &one[start..differ];
    let goes_on = one_run.len() > common.len() || two_run.len() > common.len();
    if !common.is_empty() && common.iter().all(|digit| *digit == b'0') && goes_on {
        // After common leading zeros, a run that goes on is a fraction. It is less than a run that ends, which is the
        // integer zero.
        let rank = |run: &[u8]| run.get(common.len()).copied().unwrap_or(u8::MAX);
        return rank(one_run).cmp(&rank(two_run)).then_with(bytes);
    }
    bytes()
}

fn digits(text: &[u8]) -> &[u8] {
    &text[..text.iter().take_while(|byte| byte.is_ascii_digit()).count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in the manual page strverscmp(3): 000 < 00 < 01 < 010 < 09 < 0 < 1 < 9 < 10.
    #[test]
    fn numbers_are_ordered_as_the_manual_page_says() {
        let ordered = ["000", "00", "01", "010", "09", "0", "1", "9", "10"];
        for (at, one) in ordered.iter().enumerate() {
            for (other, two) in ordered.iter().enumerate() {
                assert_eq!(compare_numbers(one.as_bytes(), two.as_bytes()), at.cmp(&other), "{one} {two}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_ordered_by_bytes() {
        for (one, two) in [("v1.9", "v1.10"), ("v1", "v1.1"), ("a", "b"), ("v2", "v10"), ("v1-rc1", "v1.0"), ("", "a")]
        {
            assert_eq!(compare_numbers(one.as_bytes(), two.as_bytes()), Ordering::Less, "{one} {two}");
            assert_eq!(compare_numbers(two.as_bytes(), one.as_bytes()), Ordering::Greater, "{one} {two}");
        }
        assert_eq!(compare_numbers(b"v1.0", b"v1.0"), Ordering::Equal);
    }
    #[test]
    fn suffixes_are_ordered_as_they_are_configured() {
        let suffixes = |list: &[&str]| Suffixes(list.iter().map(|suffix| (*suffix).into()).collect());
        for (list, ordered) in [
            (&["-rc"][..], &["1.0-rc1", "1.0-rc2", "1.0", "1.0-pre1", "1.1"][..]),
            (&["-pre", "-rc"], &["1.0-pre2", "1.0-rc1", "1.0"]),
            (&["-rc", "", "-ck", "-bfs"], &["4.8-rc1", "4.8", "4.8-ck1", "4.8-bfs1"]),
            (&["-alpha", "-alpha-beta", "-al"], &["1-alphax", "1-alpha-beta", "1-alter"]),
        ] {
            for (at, one) in ordered.iter().enumerate() {
                for (other, two) in ordered.iter().enumerate() {
                    let order = compare(one.as_bytes(), two.as_bytes(), &suffixes(list));
                    assert_eq!(order, at.cmp(&other), "{one} {two} with {list:?}");
                }
            }
        }
    }
}
