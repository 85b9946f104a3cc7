//! Changes a variable in the text of a configuration file, and leaves other variables, other sections, the order and
//! the comments on other lines as they are. New lines are laid out like git's.

use super::{
    BadLine,
    parse::{BYTE_ORDER_MARK, Piece},
};
use std::ops::Range;

/// The text of a file that is being changed.
pub(crate) struct Edit {
    text: Vec<u8>,
}

/// A section in the text.
struct Section {
    key: Vec<u8>,
    /// From its header to the next header, or to the end of the file.
    all: Range<usize>,
    /// The offset after its last variable. Without one, the offset after its header, and after the rest of the header's
    /// line if that is blank or a comment.
    end: usize,
    variables: usize,
}

impl Edit {
    /// Starts a change. Fails if the text cannot be parsed.
    pub(crate) fn new(text: &[u8]) -> Result<Self, BadLine> {
        let edit = Edit { text: text.to_vec() };
        edit.scan(b"")?;
        Ok(edit)
    }

    /// Returns the text with all changes.
    pub(crate) fn into_text(self) -> Vec<u8> {
        self.text
    }

    /// Sets a variable. The last line that sets it is replaced, and loses its comment. If no line sets it, a line is
    /// added to the last section of that name, or to a new one.
    pub(crate) fn set(&mut self, section: &str, name: &str, value: &str) -> Result<(), BadLine> {
        let line = format!("\t{name} = {value}\n");
        let (sections, found) = self.scan(format!("{section}.{name}").as_bytes())?;
        let header = format!("{section}.");
        let place = match (found.last(), sections.iter().rfind(|known| known.key == header.as_bytes())) {
            (Some(variable), _) => variable.clone(),
            (None, Some(known)) => known.end..known.end,
            (None, None) => {
                self.splice(self.text.len()..self.text.len(), &format!("[{section}]\n{line}"));
                return Ok(());
            }
        };
        self.splice(place, &line);
        Ok(())
    }

    /// Removes all values of a variable, with the comments on their lines. A section that becomes empty is removed too,
    /// unless another comment is left in it, or its header contains a `#` or `;`.
    pub(crate) fn unset(&mut self, section: &str, name: &str) -> Result<(), BadLine> {
        let mut left = usize::MAX;
        loop {
            let (sections, found) = self.scan(format!("{section}.{name}").as_bytes())?;
            assert!(found.len() < left, "each round removes one, or this would go on for ever");
            left = found.len();
            let Some(variable) = found.last().cloned() else { return Ok(()) };
            let around = sections.iter().find(|known| known.all.contains(&variable.start));
            match around.filter(|known| known.variables == 1 && !self.has_comment(known, &variable)) {
                Some(lonely) => drop(self.text.drain(lonely.all.clone())),
                None => self.splice(variable, ""),
            }
        }
    }

    fn has_comment(&self, section: &Section, variable: &Range<usize>) -> bool {
        let rest = [&self.text[section.all.start..variable.start], &self.text[variable.end..section.all.end]];
        rest.iter().any(|part| part.iter().any(|byte| matches!(byte, b'#' | b';')))
    }

    /// Replaces the range `place` by `line`, or inserts `line` if the range is empty.
    fn splice(&mut self, place: Range<usize>, line: &str) {
        debug_assert!(place.end <= self.text.len(), "a place lies in the text: {place:?}");
        let blanks = self.text[..place.start].iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let start = place.start - blanks;
        let is_at_line_start = start == 0 || self.text[start - 1] == b'\n';
        let before = &self.text[..start];
        // A backslash at the end of the file continues the line into the next one, so an empty line has to follow.
        let goes_on =
            place.end == self.text.len() && [&b"\\"[..], b"\\\n", b"\\\r\n"].iter().any(|end| before.ends_with(end));
        let line = [if is_at_line_start { "" } else { "\n" }, if goes_on { "\n" } else { "" }, line].concat();
        self.text.splice(start..place.end, line.into_bytes());
    }

    /// Finds all sections, and the lines that set the variable with this key.
    fn scan(&self, key: &[u8]) -> Result<(Vec<Section>, Vec<Range<usize>>), BadLine> {
        let skipped = if self.text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let mut parser = super::Parser::new(&self.text);
        let (mut sections, mut found): (Vec<Section>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
        loop {
            let piece = parser.piece()?;
            let span = parser.span().start + skipped..parser.span().end + skipped;
            debug_assert!(span.end <= self.text.len(), "a piece lies in the text: {span:?}");
            match piece {
                Piece::End => break,
                Piece::Section => {
                    if let Some(before) = sections.last_mut() {
                        before.all.end = span.start;
                    }
                    let end = self.line_end(span.end);
                    sections.push(Section {
                        key: parser.key().to_vec(),
                        all: span.start..self.text.len(),
                        end,
                        variables: 0,
                    });
                }
                Piece::Variable(_) => {
                    if let Some(section) = sections.last_mut() {
                        (section.end, section.variables) = (span.end, section.variables + 1);
                    }
                    if parser.key() == key {
                        found.push(span);
                    }
                }
            }
        }
        debug_assert!(sections.is_sorted_by(|a, b| a.all.end == b.all.start), "sections stand one behind the other");
        Ok((sections, found))
    }

    /// Returns the end of the line that contains `at` if only blanks or a comment follow; otherwise `at`.
    fn line_end(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        let newline = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |newline| newline + 1);
        match rest.get(blanks) {
            None | Some(b'\n' | b'#' | b';') => at + newline,
            Some(_) => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, section: &str, name: &str, value: &str) -> String {
        let mut edit = Edit::new(text.as_bytes()).ok().unwrap();
        edit.set(section, name, value).ok().unwrap();
        String::from_utf8(edit.into_text()).unwrap()
    }

    fn unset(text: &str, section: &str, name: &str) -> String {
        let mut edit = Edit::new(text.as_bytes()).ok().unwrap();
        edit.unset(section, name).ok().unwrap();
        String::from_utf8(edit.into_text()).unwrap()
    }

    #[test]
    fn a_variable_is_set_where_git_sets_it() {
        for (text, expected) in [
            ("", "[a]\n\tb = 1\n"),
            ("[c]\n\td=1", "[c]\n\td=1\n[a]\n\tb = 1\n"),
            ("[a] b = 0 # x\n\tc=1\n", "[a]\n\tb = 1\n\tc=1\n"),
            ("[a]\n\tc=1\n[d]\n", "[a]\n\tc=1\n\tb = 1\n[d]\n"),
            ("[a] ; x\n[d]\n", "[a] ; x\n\tb = 1\n[d]\n"),
            ("[A]\n  B=2\n[a]\nb=3\\\n4\nc", "[A]\n  B=2\n[a]\n\tb = 1\nc"),
            ("\u{feff}[a]\nb=0\n", "\u{feff}[a]\n\tb = 1\n"),
            // Text that is appended directly after the backslash becomes part of the last value.
            ("[c]\nd = e\\", "[c]\nd = e\\\n\n[a]\n\tb = 1\n"),
            ("[c]\nd = e\\\n", "[c]\nd = e\\\n\n[a]\n\tb = 1\n"),
            ("[a]\nd = e\\\n", "[a]\nd = e\\\n\n\tb = 1\n"),
        ] {
            assert_eq!(set(text, "a", "b", "1"), expected, "{text:?}");
        }
    }

    #[test]
    fn a_section_goes_with_its_last_variable_unless_it_has_a_comment() {
        for (text, expected) in [
            ("[c]\n[a]\n\tb = 1\n[d]\n", "[c]\n[d]\n"),
            ("[a]\n\tb = 1\n\tx\n", "[a]\n\tx\n"),
            ("[a] # why\n\tb = 1\n", "[a] # why\n"),
            ("[a]\n\tb = 1\n[a]\nb\n", ""),
            ("[a]\n", "[a]\n"),
        ] {
            assert_eq!(unset(text, "a", "b"), expected, "{text:?}");
        }
    }
}
