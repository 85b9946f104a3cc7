use super::{Command, Opt, Value};
use crate::failure::Asked;

/// The column in which descriptions start.
const HELP_COLUMN: usize = 26;

impl Command {
    /// The text that `-h` and wrong use show.
    pub fn usage(&self, asked: Asked) -> String {
        let mut text = String::new();
        for (turn, form) in self.synopsis.iter().enumerate() {
            let lead = if turn == 0 { "usage: git " } else { "   or: git " };
            let indent = " ".repeat(lead.len() + self.name.len() + 1);
            let form = form.replace('\n', &format!("\n{indent}"));
            text.push_str(&format!("{lead}{} {form}\n", self.name));
        }
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
