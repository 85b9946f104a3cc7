//! Holds a finished comparison: what was compared, by which rules, and all runs. Reports are made from it.

use std::path::PathBuf;

use crate::{
    compare::{Comparison, Outcome, Rules},
    counter::Counter,
    scenario::{Scenario, Values},
    work::Work,
};

/// One side: a revision as the caller calls it, and where it was built.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// The revision in the caller's words.
    pub name: String,
    /// Its commit.
    pub commit: String,
    /// The folder that it was built into.
    pub build: PathBuf,
}

/// A comparison of two sides that is over.
#[derive(Debug)]
pub struct Finished<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The parameters.
    pub values: &'a Values,
    /// A and B.
    pub sides: [&'a Side; 2],
    /// The rules it went by.
    pub rules: Rules,
    /// What counted instructions.
    pub counter: Counter,
    /// Whether both runs of a pair happened at the same time.
    pub side_by_side: bool,
    /// All runs.
    pub comparison: Comparison,
    /// What they say.
    pub outcome: Outcome,
    /// The work of A and of B, or why it is not known.
    pub work: std::result::Result<[Work; 2], String>,
}
