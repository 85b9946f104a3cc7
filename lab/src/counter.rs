//! Selects how instructions are counted on this machine.

use crate::{emulator, measure::Measure, perf};

/// A means of counting instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// The processor counts instructions in user space and in the kernel.
    Processor,
    /// An emulator counts instructions in user space. It needs a separate run, which takes long.
    Emulator,
    /// Nothing counts instructions.
    Nothing,
}

impl Counter {
    /// Returns the processor if its counters are accessible, or else the emulator if it is installed and `judge` is
    /// instructions, or else nothing.
    pub fn find(judge: Measure) -> Counter {
        if perf::works() {
            Counter::Processor
        } else if judge == Measure::Instructions && emulator::version().is_some() {
            Counter::Emulator
        } else {
            Counter::Nothing
        }
    }

    /// Returns the sentence about the counter in a report, or an empty string.
    pub fn words(self) -> &'static str {
        match self {
            Counter::Emulator => "instructions: those in user space, emulated by valgrind\n",
            Counter::Processor | Counter::Nothing => "",
        }
    }
}
