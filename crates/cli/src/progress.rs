//! Progress of long operations, shown only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::{io::IsTerminal, time::Duration};

/// A spinner on standard error, if that is a terminal. It appears after a second, so that quick operations stay quiet.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Starts the spinner.
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

    /// Removes the spinner.
    pub fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}
