//! Progress of long operations, shown only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::{io::IsTerminal, time::Duration};

/// A line on standard error, if that is a terminal, with the time since its start, which is updated every second.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Starts the line, which is shown at once.
    pub fn start(what: &'static str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress(None);
        }
        let style =
            ProgressStyle::with_template("{msg}: {elapsed}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style).with_message(what);
        bar.enable_steady_tick(Duration::from_secs(1));
        Progress(Some(bar))
    }

    /// Shows how much has been done.
    pub fn count(&self, what: &str, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_message(format!("{what}: {done}"));
        }
    }

    /// Removes the line.
    pub fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}
