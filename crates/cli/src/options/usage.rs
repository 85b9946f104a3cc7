use super::{Command, Opt, Value};
use crate::failure::Failure;
use bstr::BString;

/// The column in which descriptions start.
const HELP_COLUMN: usize = 26;

/// The column at which lines start that begin with a tab. Such lines belong to options that git describes once for
/// commands with several names.
const COMMON_COLUMN: usize = 32;

/// How much of the usage is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// `-h`.
    Short,
    /// `--help-all`, which also shows hidden options.
    Full,
}

impl Command {
    /// Returns the word that distinguishes the command from others with the same first word, such as `list` of `refs
    /// list`.
    pub fn last_word(&self) -> &'static str {
        self.words().last().unwrap_or(self.name)
    }

    /// Returns the words of the command's name, without the brackets in which the name has optional ones.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.name.split(' ').map(|word| word.trim_matches(['[', ']']))
    }

    /// Makes a failure with the reason why the command line was not understood, and the usage.
    pub fn wrong_use(&self, message: Option<BString>) -> Failure {
        Failure::Usage(message, self.usage(Asked::Short))
    }

    /// Appends the synopses to those of other commands, or starts the list.
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

    /// Returns the text for `-h`, for `--help-all` and for wrong usage.
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
    /// Returns the options for a shell's completion: first the options under their own names and the opposites of those
    /// whose names begin with `no-`, then the other negations. A `--` stands before these negations if an option's own
    /// name begins with `no-`, and otherwise after the first of them if others follow.
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
        // As in git, at least one word that begins with `--no-` precedes the `--`.
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
    /// Formats the option for usages: `-s, --[no-]hash[=<n>]`.
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
