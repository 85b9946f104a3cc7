//! Holds a finished comparison: what was compared, by which rules, and all runs. Reports are generated from it.

use std::path::PathBuf;

use crate::{
    compare::{Comparison, Outcome, Rules},
    counter::Counter,
    scenario::{Scenario, Values},
    work::Work,
};

/// One side: a revision, and the folder with its build.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// The name by which the caller referred to the revision.
    pub name: String,
    /// The id of the commit.
    pub commit: String,
    /// The folder into which the revision was built.
    pub build: PathBuf,
}

/// A finished comparison of two sides.
#[derive(Debug)]
pub struct Finished<'a> {
    /// The scenario that was run.
    pub scenario: &'a Scenario,
    /// The values of the parameters.
    pub values: &'a Values,
    /// The sides A and B.
    pub sides: [&'a Side; 2],
    /// The rules of the comparison.
    pub rules: Rules,
    /// The means by which instructions were counted.
    pub counter: Counter,
    /// Whether both runs of a pair happened at the same time.
    pub side_by_side: bool,
    /// All runs.
    pub comparison: Comparison,
    /// The result of the runs.
    pub outcome: Outcome,
    /// The work of A and of B, or the reason why it is not known.
    pub work: std::result::Result<[Work; 2], String>,
}
