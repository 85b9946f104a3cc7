//! A sign of life for work that takes long, shown only to people.

use indicatif::{ProgressBar, ProgressStyle};
use std::{io::IsTerminal, time::Duration};

/// A spinner on standard error if that is a terminal. It appears after a second, so that quick work stays quiet.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Starts to spin.
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

    /// Shows how much was done so far.
    pub fn count(&self, what: &str, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_message(format!("{what}: {done}"));
        }
    }

    /// Leaves nothing behind.
    pub fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}
