//! Instructions of the whole process tree, user space and kernel: the steady measure on a shared machine.
//!
//! Where the machine lets `perf` count them, perf does ([`perf`]). Most virtual machines do not. There the jobs run in
//! an emulator that counts every instruction it executes ([`emulator`] on this side, [`guest`] inside).

pub mod emulator;
pub mod guest;
pub mod perf;

use std::{collections::HashMap, path::Path};

use anyhow::Result;

use crate::{bench::Bench, paired::Who};

/// Which means of counting this machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The processor counts, through `perf stat`.
    Perf,
    /// qemu counts what it emulates.
    Emulator,
    /// Nothing counts here: tables have wall and CPU time only.
    Nothing,
}

/// The instructions of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// How many millions.
    pub millions: f64,
    /// Whether the command was ended at the limit; it would have taken more.
    pub cut: bool,
}

/// For each job and program, the instructions of each step, or why there are none.
pub type Counts = HashMap<(&'static str, Who), Result<Vec<Count>, String>>;

impl Measure {
    /// The best measure of this machine; `cache` holds the emulator's kernel.
    pub fn detect(cache: &Path) -> Measure {
        if refdb_lab::perf::works() {
            Measure::Perf
        } else if emulator::works(cache) {
            Measure::Emulator
        } else {
            Measure::Nothing
        }
    }

    /// What the tables say about this measure.
    pub fn describe(self) -> &'static str {
        match self {
            Measure::Perf => {
                "millions of instructions of the process tree, user and kernel, counted by the processor (perf)"
            }
            Measure::Emulator => {
                "millions of instructions of the process tree, user and kernel, counted by qemu while it emulates a \
                 machine with \
                 one processor and Debian's kernel, repositories on tmpfs"
            }
            Measure::Nothing => "not counted (no perf events and no qemu here, or not asked for)",
        }
    }

    /// Counts each job in `able` for the program that stands beside it; counts nothing with [`Measure::Nothing`].
    pub fn count(self, bench: &Bench<'_>, able: &[(&'static str, Who)]) -> Result<Counts> {
        match self {
            Measure::Perf => perf::count(bench, able),
            Measure::Emulator => emulator::count(bench, able),
            Measure::Nothing => Ok(Counts::new()),
        }
    }
}
