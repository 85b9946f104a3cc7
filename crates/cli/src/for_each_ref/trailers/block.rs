//! Finds the trailers of a message: git-interpret-trailers(1), "DESCRIPTION".

use super::Trailer;
use bstr::{BString, ByteSlice};
use refdb::config::Config;
use refdb_types::space::{is_space, trim, trim_end};

/// What the configuration says about trailers.
#[derive(Clone, Debug)]
pub struct TrailerRules {
    /// The characters that may follow a key.
    separators: BString,
    /// The configured trailers, in order.
    known: Vec<Known>,
    /// The start of a comment line.
    comment: BString,
}

/// A configured trailer.
#[derive(Clone, Debug)]
struct Known {
    alias: BString,
    /// The key that is shown in place of the alias.
    key: Option<BString>,
}

impl Known {
    /// Returns whether a key in a message abbreviates this trailer's alias or the key that is shown in its place.
    fn is(&self, key: &[u8]) -> bool {
        let begins = |name: &BString| name.get(..key.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(key));
        begins(&self.alias) || self.key.as_ref().is_some_and(begins)
    }
}

/// The rest, after the comment character, of the line at which a message ends.
const SCISSORS: &[u8] = b" ------------------------ >8 ------------------------\n";

/// The starts of lines that git itself adds.
const ADDED_BY_GIT: [&[u8]; 2] = [b"Signed-off-by: ", b"(cherry picked from commit "];

impl Default for TrailerRules {
    fn default() -> Self {
        TrailerRules { separators: ":".into(), known: Vec::new(), comment: "#".into() }
    }
}

impl TrailerRules {
    /// Reads `trailer.*`, `core.commentChar` and `core.commentString`.
    pub fn of(config: &Config) -> Self {
        let mut rules = TrailerRules::default();
        for value in config.iter() {
            let Some(text) = value.raw else { continue };
            let key = value.key.as_bytes();
            match key {
                b"core.commentchar" | b"core.commentstring" if text != "auto" && !text.is_empty() => {
                    rules.comment = text.into();
                }
                b"trailer.separators" => rules.separators = text.into(),
                _ => {
                    let alias = key.strip_prefix(b"trailer.").and_then(|rest| rest.rsplit_once_str("."));
                    let Some((alias, variable)) = alias else { continue };
                    if matches!(variable, b"key" | b"where" | b"ifexists" | b"ifmissing" | b"command" | b"cmd") {
                        let known = rules.known(alias);
                        if variable == b"key" {
                            known.key = Some(text.into());
                        }
                    }
                }
            }
        }
        rules
    }

    /// Returns the trailer with this alias, compared without regard to case, and adds it if there is none.
    fn known(&mut self, alias: &[u8]) -> &mut Known {
        let is_it = |known: &Known| known.alias.eq_ignore_ascii_case(alias);
        let at = self.known.iter().position(is_it).unwrap_or(self.known.len());
        if at == self.known.len() {
            self.known.push(Known { alias: alias.into(), key: None });
        }
        &mut self.known[at]
    }

    /// Returns what is between a key and its value, which is nothing if the key itself ends with a separator.
    pub(super) fn between(&self, key: &[u8]) -> Vec<u8> {
        let ends = trim_end(key).last().is_some_and(|byte| self.separators.contains(byte));
        match self.separators.first() {
            Some(first) if !ends => vec![*first, b' '],
            _ => Vec::new(),
        }
    }

    /// Returns the position of the separator in a line, or `None` if the line is not a trailer.
    fn separator(&self, line: &[u8]) -> Option<usize> {
        let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        let key = line.iter().take_while(|byte| is_key(byte)).count();
        let blanks = line[key..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let at = key + blanks;
        let is_separator = line.get(at).is_some_and(|byte| self.separators.contains(byte));
        (key > 0 && is_separator).then_some(at)
    }

    /// Returns the configured trailer for a key.
    fn of_key(&self, key: &[u8]) -> Option<&Known> {
        self.known.iter().find(|known| known.is(key))
    }

    fn is_comment(&self, line: &[u8]) -> bool {
        line.starts_with(&self.comment)
    }
}

/// Returns the lines of a message that contain its trailers, if there are any.
///
/// These lines are the last paragraph, unless it is also the first one. Comments aside, either all lines of the
/// paragraph must be trailers, or at least a quarter must be trailers and one of them must be configured or one that
/// git itself adds.
pub(super) fn find<'m>(message: &'m [u8], rules: &TrailerRules) -> &'m [u8] {
    let end = end_of_text(message, rules);
    let text = &message[..end];
    let lines: Vec<&[u8]> = text.lines_with_terminator().collect();
    let is_title = |line: &&&[u8]| rules.is_comment(line) || !is_blank(line);
    let title = lines.iter().take_while(is_title).count();
    let mut seen = Seen::default();
    let mut start = end;
    for line in lines[title..].iter().rev() {
        if is_blank(line) && seen.is_any {
            return if seen.are_trailers() { &text[start..] } else { b"" };
        }
        start -= line.len();
        if !is_blank(line) {
            seen.is_any |= !rules.is_comment(line);
            seen.note(line, rules);
        }
    }
    b""
}

/// The state of a scan of a paragraph from its end.
#[derive(Default)]
struct Seen {
    trailers: usize,
    others: usize,
    /// The number of lines that continue the trailer before them, if there is one.
    folded: usize,
    is_known: bool,
    is_any: bool,
}

impl Seen {
    fn note(&mut self, line: &[u8], rules: &TrailerRules) {
        if rules.is_comment(line) {
            self.others += std::mem::take(&mut self.folded);
            return;
        }
        let begins_blank = line.first().is_some_and(is_space);
        if ADDED_BY_GIT.iter().any(|begin| line.starts_with(begin)) {
            self.trailers += 1;
            self.folded = 0;
            self.is_known = true;
        } else if begins_blank {
            self.folded += 1;
        } else if let Some(separator) = rules.separator(line) {
            self.trailers += 1;
            self.folded = 0;
            self.is_known |= rules.of_key(&line[..separator]).is_some();
        } else {
            self.others += 1 + std::mem::take(&mut self.folded);
        }
    }

    fn are_trailers(&self) -> bool {
        let others = self.others + self.folded;
        (self.is_known && self.trailers * 3 >= others) || (self.trailers > 0 && others == 0)
    }
}

/// Returns where the text of a message ends: before the scissors line, if there is one, and before trailing empty
/// lines, comments and a list of conflicts.
fn end_of_text(message: &[u8], rules: &TrailerRules) -> usize {
    let mut end = 0;
    let mut at = 0;
    let mut in_conflicts = false;
    for line in message.lines_with_terminator() {
        if line.strip_prefix(rules.comment.as_bytes()) == Some(SCISSORS) {
            break;
        }
        at += line.len();
        if line == b"\n" || rules.is_comment(line) {
            continue;
        }
        if line == b"Conflicts:\n" {
            in_conflicts = true;
        } else if !(in_conflicts && line.starts_with(b"\t")) {
            in_conflicts = false;
            end = at;
        }
    }
    end
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(is_space)
}

/// Returns the trailers of a paragraph and the lines between them, without comments.
pub fn trailers(block: &[u8], rules: &TrailerRules) -> Vec<Trailer> {
    let mut lines: Vec<(BString, bool)> = Vec::new();
    for line in block.lines_with_terminator() {
        match lines.last_mut() {
            // Only a trailer can be folded.
            Some((last, true)) if line.first().is_some_and(is_space) => {
                last.extend_from_slice(line);
            }
            _ => lines.push((line.into(), rules.separator(line).is_some())),
        }
    }
    let comment = |line: &BString| rules.is_comment(line);
    let lines = lines.into_iter().filter(|(line, _)| !comment(line));
    lines.map(|(line, _)| parse(&line, rules)).collect()
}

fn parse(line: &[u8], rules: &TrailerRules) -> Trailer {
    match rules.separator(line) {
        Some(at) => {
            let key = trim(&line[..at]);
            let name = key.trim_end_with(|char| !char.is_ascii_alphanumeric());
            let shown = rules.of_key(name).and_then(|known| known.key.clone());
            Trailer { key: Some(shown.unwrap_or_else(|| key.into())), value: trim(&line[at + 1..]).into() }
        }
        None => Trailer { key: None, value: line.strip_suffix(b"\n").unwrap_or(line).into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(message: &str) -> String {
        String::from_utf8(find(message.as_bytes(), &TrailerRules::default()).to_vec()).unwrap()
    }

    #[test]
    fn trailers_are_the_last_paragraph_if_it_is_one_of_trailers() {
        for (message, expected) in [
            ("", ""),
            ("a: b\n", ""),
            ("s\n\na: b\n", "a: b\n"),
            ("s\n\na: b", "a: b"),
            ("s\n\na: b\nx\n", ""),
            ("s\n\na: b\nx\nSigned-off-by: c\n", "a: b\nx\nSigned-off-by: c\n"),
            ("s\n\nx\nx\nx\nx\nSigned-off-by: c\n", ""),
            ("s\n\na: b\n\nc: d\n\n# e\n", "c: d\n"),
            ("s\n\na: b\n c\n", "a: b\n c\n"),
            ("s\n\n c\na: b\n", ""),
            ("s\n\na b: c\n", ""),
            ("s\n\na: b\nConflicts:\n\tc\n", "a: b\n"),
            ("s\n\na: b\n# ------------------------ >8 ------------------------\nx\n", "a: b\n"),
        ] {
            assert_eq!(found(message), expected, "{message:?}");
        }
    }
}
