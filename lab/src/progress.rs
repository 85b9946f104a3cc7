//! Prints the progress of a run to standard error.

use std::io::{IsTerminal, Write};

use crate::shown::shown;

/// Shows the current step: on a terminal in a single line that is overwritten, and otherwise in a line of its own.
pub fn progress(step: &str) {
    let (mut out, step) = (std::io::stderr(), shown(step.trim_end()));
    if out.is_terminal() {
        write!(out, "\r\x1b[K{step}").ok();
        out.flush().ok();
    } else if !step.is_empty() {
        writeln!(out, "{step}").ok();
    }
}
