//! Defines the values that are measured in a run, one of which decides a comparison.

use std::{
    str::FromStr,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Error, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::process::Usage;

/// Returns the present time, with which a measurement is recorded, in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A measure by which runs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Seconds from start to exit.
    #[default]
    Wall,
    /// Processor seconds in user space.
    User,
    /// Processor seconds in the kernel.
    System,
    /// Processor seconds in user space and in the kernel.
    Cpu,
    /// The maximum resident set size, in bytes.
    Peak,
    /// Instructions in user space and in the kernel; in user space only if they are emulated.
    Instructions,
    /// The number that the command itself writes to the file that `$COST` names.
    Reported,
}

impl Measure {
    /// Returns the name of the measure on the command line, in scenarios and in results.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Wall => "wall",
            Measure::User => "user",
            Measure::System => "system",
            Measure::Cpu => "cpu",
            Measure::Peak => "peak",
            Measure::Instructions => "instructions",
            Measure::Reported => "reported",
        }
    }

    /// Returns the name of the measure in a sentence: "B takes 2.1 times the WORDS of A".
    pub fn words(self) -> &'static str {
        match self {
            Measure::Wall => "wall time",
            Measure::User => "processor time in user space",
            Measure::System => "processor time in the kernel",
            Measure::Cpu => "processor time",
            Measure::Peak => "peak memory",
            Measure::Instructions => "instructions",
            Measure::Reported => "reported cost",
        }
    }

    /// Returns whether the measure is a time in seconds.
    pub fn is_time(self) -> bool {
        matches!(self, Measure::Wall | Measure::User | Measure::System | Measure::Cpu)
    }

    /// All measures.
    pub const ALL: [Measure; 7] = [
        Measure::Wall,
        Measure::User,
        Measure::System,
        Measure::Cpu,
        Measure::Peak,
        Measure::Instructions,
        Measure::Reported,
    ];
}

impl FromStr for Measure {
    type Err = Error;

    fn from_str(name: &str) -> Result<Measure> {
        let found = Measure::ALL.into_iter().find(|measure| measure.name() == name);
        found.with_context(|| {
            let names: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
            format!("no measure is called '{name}': there are {}", names.join(", "))
        })
    }
}

/// The resources that one run used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds from start to exit.
    pub wall: f64,
    /// Processor seconds in user space.
    pub user: f64,
    /// Processor seconds in the kernel.
    pub system: f64,
    /// The maximum resident set size, in bytes.
    pub peak: u64,
    /// The number of instructions, if they were counted.
    pub instructions: Option<f64>,
    /// The cost that the command reported, if it did.
    pub reported: Option<f64>,
}

impl Sample {
    /// Creates a sample from what the system measured.
    pub fn new(usage: Usage, instructions: Option<f64>, reported: Option<f64>) -> Sample {
        let seconds = |time: Duration| time.as_secs_f64();
        Sample {
            wall: seconds(usage.wall),
            user: seconds(usage.user),
            system: seconds(usage.system),
            peak: usage.peak,
            instructions,
            reported,
        }
    }

    /// Returns the value of `measure`; `None` if it was not measured.
    pub fn value(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Wall => Some(self.wall),
            Measure::User => Some(self.user),
            Measure::System => Some(self.system),
            Measure::Cpu => Some(self.user + self.system),
            Measure::Peak => Some(self.peak as f64),
            Measure::Instructions => self.instructions,
            Measure::Reported => self.reported,
        }
    }

    /// Returns the value of `measure` for a ratio.
    ///
    /// # Errors
    ///
    /// Fails if the value was not measured, or no ratio can be formed with it.
    pub fn deciding(&self, measure: Measure) -> Result<f64> {
        let Some(value) = self.value(measure) else {
            bail!(match measure {
                Measure::Reported => "the command left no number in the file that $COST names",
                _ =>
                    "instructions cannot be counted here: perf finds no counter, and there is no valgrind; judge by \
                     wall or cpu",
            });
        };
        ensure!(
            value > 0.0 && value.is_finite(),
            "the {} was {value}, which forms no ratio: judge by another measure, or let the command do more",
            measure.words()
        );
        Ok(value)
    }
}
