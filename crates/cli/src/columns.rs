//! Lists in columns: `--column` and the settings `column.*`. git-column(1) lays them out; git-config(1) explains the
//! settings.

use crate::{
    failure::{Result, fatal, system_text},
    options::Setting,
    output, real_git,
};
use refdb::{Environment, config::Config};
use std::{
    io::{self, Write},
    process::Stdio,
};

/// Whether, and how, a list is laid out in columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    when: When,
    layout: &'static str,
    density: &'static str,
    /// Whether the command line has `--column` or `--no-column`.
    pub asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Always,
    Never,
    /// If the list goes to a terminal or a pager.
    Auto,
}

impl Columns {
    /// Reads the settings for a command. Returns `None` if one is invalid.
    pub fn configured(config: &Config, command: &str) -> Option<Self> {
        let mut columns = Columns { when: When::Never, layout: "column", density: "nodense", asked: false };
        let own = format!("column.{command}");
        for value in config.iter().filter(|value| value.key == "column.ui" || value.key == own) {
            columns.read(value.raw?)?;
        }
        Some(columns)
    }

    /// Applies the value of `--column`. Returns `None` if it is invalid.
    pub fn set(&mut self, setting: Setting<'_>) -> Option<()> {
        self.asked = true;
        self.when = if setting.is_on() { When::Always } else { When::Never };
        setting.value().map_or(Some(()), |value| self.read(value))
    }

    /// Applies a list of words. If a word names a layout and no word says when columns are used, they are always used.
    /// A density alone does not switch them on.
    fn read(&mut self, text: &[u8]) -> Option<()> {
        let (mut says_when, mut says_how) = (false, false);
        for word in text.split(|byte| b" ,".contains(byte)).filter(|word| !word.is_empty()) {
            match word {
                b"always" => (self.when, says_when) = (When::Always, true),
                b"never" => (self.when, says_when) = (When::Never, true),
                b"auto" => (self.when, says_when) = (When::Auto, true),
                b"column" => (self.layout, says_how) = ("column", true),
                b"row" => (self.layout, says_how) = ("row", true),
                b"plain" => (self.layout, says_how) = ("plain", true),
                b"dense" => self.density = "dense",
                b"nodense" => self.density = "nodense",
                _ => return None,
            }
        }
        if says_how && !says_when {
            self.when = When::Always;
        }
        Some(())
    }

    /// Returns whether the list is laid out in columns.
    pub fn are_wanted(self) -> bool {
        match self.when {
            When::Always => true,
            When::Never => false,
            When::Auto => output::is_for_people(),
        }
    }

    /// Writes lines in columns to standard output, with `padding` spaces between columns. Returns the exit code of the
    /// git that does so.
    pub fn arrange(self, environment: &Environment, lines: &[u8], padding: usize) -> Result<u8> {
        let (layout, density) = (self.layout, self.density);
        let words = [format!("--mode=always,{layout},{density}"), format!("--padding={padding}")];
        let mut command = real_git::command(environment);
        let child = command.arg("column").args(words).stdin(Stdio::piped()).spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => {
                let program = real_git::program(environment);
                return Err(real_git::not_run(&program, "column", "a list in columns", &error));
            }
        };
        let fed = match child.stdin.take().map_or(Ok(()), |mut input| input.write_all(lines)) {
            // Git has ended early, and its exit code says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            fed => fed,
        };
        match fed.and_then(|()| child.wait()) {
            Ok(status) => Ok(real_git::exit_code(status)),
            Err(error) => fatal!["'git column' does not take the list: ", system_text(&error)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Columns> {
        let mut columns = Columns { when: When::Never, layout: "column", density: "nodense", asked: false };
        columns.read(text.as_bytes()).map(|()| columns)
    }

    #[test]
    fn words_say_when_and_how() {
        for (text, when, layout, density) in [
            ("", When::Never, "column", "nodense"),
            ("always", When::Always, "column", "nodense"),
            ("row", When::Always, "row", "nodense"),
            ("row,never", When::Never, "row", "nodense"),
            ("auto plain,dense", When::Auto, "plain", "dense"),
        ] {
            let columns = read(text).unwrap();
            assert_eq!((columns.when, columns.layout, columns.density), (when, layout, density), "{text}");
        }
        assert_eq!(read("rows"), None);
    }
}
