//! Places the commits of a plot from left to right.

use std::collections::HashMap;

use super::history::{Point, Series};

/// The commits of a plot, each with its place from left to right.
#[derive(Debug)]
pub struct Places<'a> {
    names: Vec<&'a str>,
    places: HashMap<&'a str, usize>,
}

impl<'a> Places<'a> {
    /// Returns the places of all commits of the series: first those of the longest series, then the others, both in the
    /// order in which they were measured.
    pub fn of(few: &[&'a Series]) -> Places<'a> {
        let mut all: Vec<&Point> = few.iter().flat_map(|series| &series.points).collect();
        all.sort_by_key(|point| point.time);
        // The commits of the longest series keep its order, because the times change if a commit is measured again.
        let longest = few.iter().max_by_key(|series| series.points.len());
        let first = longest.iter().flat_map(|series| &series.points);
        let (mut names, mut places) = (Vec::new(), HashMap::new());
        for point in first.chain(all) {
            places.entry(point.commit.as_str()).or_insert_with(|| {
                names.push(point.commit.as_str());
                names.len() - 1
            });
        }
        Places { names, places }
    }

    /// Returns the commits, from left to right.
    pub fn names(&self) -> &[&'a str] {
        &self.names
    }

    /// Returns the place of a commit, counted from 0; 0 also for a commit of none of the series.
    pub fn index(&self, commit: &str) -> usize {
        self.places.get(commit).copied().unwrap_or_default()
    }

    /// Returns the place of a commit as a part of the width.
    pub fn part(&self, commit: &str) -> f64 {
        let last = self.names.len().saturating_sub(1).max(1);
        self.index(commit) as f64 / last as f64
    }
}
