use super::{Command, Opt, Value};
use crate::failure::Failure;
use bstr::BString;

/// The column in which descriptions start.
const HELP_COLUMN: usize = 26;

/// The column in which lines begin that a tab leads. Such lines belong to options that git describes once for commands
/// of several names.
const COMMON_COLUMN: usize = 32;

/// How much of the usage was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// `-h`.
    Short,
    /// `--help-all`, which shows hidden options too.
    Full,
}

impl Command {
    /// The word that names it among those with the same first word: `list` of `refs list`.
    pub fn last_word(&self) -> &'static str {
        self.words().last().unwrap_or(self.name)
    }

    /// The words of the name. Those that may be left out stand in brackets there.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.name.split(' ').map(|word| word.trim_matches(['[', ']']))
    }

    /// Why a command line was not understood, with the usage.
    pub fn wrong_use(&self, message: Option<BString>) -> Failure {
        Failure::Usage(message, self.usage(Asked::Short))
    }

    /// Adds the forms of use to those of other commands, or begins with them.
    pub(crate) fn push_forms(&self, text: &mut String) {
        for form in self.synopsis {
            let lead = if text.is_empty() { "usage: " } else { "   or: " };
            let lead = format!("{lead}{} {} ", self.program, self.name);
            for (turn, line) in form.split('\n').enumerate() {
                match line.strip_prefix('\t') {
                    _ if turn == 0 => text.push_str(&format!("{}\n", format!("{lead}{line}").trim_end())),
                    Some(line) => text.push_str(&format!("{:COMMON_COLUMN$}{line}\n", "")),
                    None => text.push_str(&format!("{:1$}{line}\n", "", lead.len())),
                }
            }
        }
    }

    /// The text that `-h` and wrong use show.
    pub fn usage(&self, asked: Asked) -> String {
        let mut text = String::new();
        self.push_forms(&mut text);
        text.push('\n');
        for opt in self.options.iter().filter(|opt| asked == Asked::Full || !opt.hidden) {
            push_row(&mut text, &opt.spelling(), opt.help);
            if let Some(bare) = opt.name.strip_prefix("no-").filter(|_| opt.negatable) {
                push_row(&mut text, &format!("--{bare}"), &format!("opposite of --{}", opt.name));
            }
        }
        if !self.options.is_empty() {
            text.push('\n');
        }
        text
    }
}

impl Command {
    /// The options for a shell that completes words: those that are often wanted, `--`, and their opposites.
    pub fn completions(&self, hidden_too: bool) -> String {
        let shown = |opt: &&Opt| opt.is_long() && (hidden_too || !opt.hidden);
        let mut words = Vec::new();
        for opt in self.options.iter().filter(shown) {
            let equals = if matches!(opt.value, Value::Required(_)) { "=" } else { "" };
            words.push(format!("--{}{equals}", opt.name));
        }
        let negatable = || self.options.iter().filter(shown).filter(|opt| opt.negatable);
        let (bare, negated): (Vec<_>, Vec<_>) = negatable().partition(|opt| opt.name.starts_with("no-"));
        let bare = bare.iter().map(|opt| format!("--{}", &opt.name[3..]));
        let negated = negated.iter().map(|opt| format!("--no-{}", opt.name));
        words.extend(bare);
        // One opposite at least is shown before the others.
        let shown_already = self.options.iter().filter(shown).any(|opt| opt.name.starts_with("no-"));
        for (turn, word) in negated.enumerate() {
            words.extend((turn == usize::from(!shown_already)).then(|| "--".to_owned()));
            words.push(word);
        }
        let lead = if self.options.first().is_none_or(Opt::is_long) { "" } else { " " };
        format!("{lead}{}\n", words.join(" "))
    }
}

fn push_row(text: &mut String, spelling: &str, help: &str) {
    let row = format!("    {spelling}");
    let gap = if row.len() < HELP_COLUMN {
        " ".repeat(HELP_COLUMN - row.len())
    } else {
        format!("\n{}", " ".repeat(HELP_COLUMN))
    };
    text.push_str(&format!("{row}{gap}{help}\n"));
}

impl Opt {
    /// The option as usages show it: `-s, --[no-]hash[=<n>]`.
    fn spelling(&self) -> String {
        let mut text = String::new();
        if let Some(letter) = self.short {
            text.push('-');
            text.push(char::from(letter));
            text.push_str(if self.is_long() { ", " } else { "" });
        }
        if self.is_long() {
            text.push_str(if self.negatable && !self.name.starts_with("no-") { "--[no-]" } else { "--" });
            text.push_str(self.name);
        }
        match self.value {
            Value::None => {}
            Value::Required(value) | Value::UnlessLast(value) => text.push_str(&format!(" <{value}>")),
            Value::Optional(value) => text.push_str(&format!("[=<{value}>]")),
        }
        text
    }
}
