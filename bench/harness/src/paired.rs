//! Wall time on a shared machine. Two programs run in pairs, a coin decides who is first, and only the ratio within a
//! pair counts.

use std::time::Instant;

use anyhow::Result;
use refdb_lab::{
    coin::Coin,
    compare::{Which, pair},
    process::Usage,
    stats::quantile,
};
use serde::Serialize;

use crate::size::Size;

/// The median of some values, and between which quartiles half of them lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// A quarter of the values is below this.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// A quarter of the values is above this.
    pub high: f64,
    /// How many values there were.
    pub count: usize,
}

impl Spread {
    /// The spread of `values`; absent if there are none.
    pub fn of(values: Vec<f64>) -> Option<Spread> {
        let at = |part| quantile(&values, part);
        Some(Spread { low: at(0.25)?, median: at(0.5)?, high: at(0.75)?, count: values.len() })
    }
}

/// The usages of one step in every run.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    /// The usages of the program under test; empty if it cannot do the job.
    pub own: Vec<Usage>,
    /// The usages of its rival: as many as of the program under test, unless that has none.
    pub rival: Vec<Usage>,
}

impl Pairs {
    /// The part of the rival's wall time that the program took.
    pub fn wall_ratio(&self) -> Option<Spread> {
        let pairs = self.own.iter().zip(&self.rival);
        Spread::of(pairs.map(|(own, rival)| own.wall.as_secs_f64() / rival.wall.as_secs_f64()).collect())
    }
}

/// Who runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// The program under test.
    Own,
    /// The program it is compared with.
    Rival,
}

/// Runs as many pairs as the size asks for, or until a pair in which a program was ended at the limit. A coin decides
/// who is first. Runs the rival alone if `who` lacks [`Who::Own`]. `run` returns the usage of each step.
pub fn in_turn(size: Size, who: &[Who], mut run: impl FnMut(Who) -> Result<Vec<Usage>>) -> Result<Vec<Pairs>> {
    let (start, mut coin) = (Instant::now(), Coin::unforeseen());
    let (fewest, most) = size.pairs;
    let mut steps: Vec<Pairs> = Vec::new();
    for number in 0..most {
        if number >= fewest && start.elapsed() > size.timeout {
            break;
        }
        let [rival, own] = if who.contains(&Who::Own) {
            pair(&mut coin, |which| {
                run(match which {
                    Which::A => Who::Rival,
                    Which::B => Who::Own,
                })
            })?
        } else {
            [run(Who::Rival)?, Vec::new()]
        };
        steps.resize_with(rival.len(), Pairs::default);
        for (step, usage) in steps.iter_mut().zip(rival) {
            step.rival.push(usage);
        }
        for (step, usage) in steps.iter_mut().zip(own) {
            step.own.push(usage);
        }
        if steps.iter().any(|step| step.own.iter().chain(&step.rival).any(|usage| usage.cut)) {
            break;
        }
    }
    Ok(steps)
}
