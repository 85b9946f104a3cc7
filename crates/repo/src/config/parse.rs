//! Parses the syntax of git-config(1) into pairs of key and value.

use bstr::ByteSlice;
use refdb_types::space::is_space;

/// Parses a file, one variable after the other.
pub(crate) struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    /// The line of the next byte, counted from 1.
    line: u32,
    past_end: bool,
    /// The offset in `text` at which the last section header or variable begins.
    start: usize,
    /// The canonical key, `section.Sub section.name`. The part before the name, which the section header sets, is kept
    /// from one variable to the next.
    key: Vec<u8>,
    section_len: usize,
    value: Vec<u8>,
}

pub(crate) struct Variable<'a> {
    /// The canonical key: the section and the name in lower case, and a quoted subsection in its own case, with its
    /// escapes resolved. In the old form `[section.subsection]`, the subsection is in lower case too.
    pub(crate) key: &'a [u8],
    /// The value, or `None` for a variable without `=`, which means true.
    pub(crate) value: Option<&'a [u8]>,
    /// The line on which the variable ends.
    pub(crate) line: u32,
}

/// A piece of a file other than a comment.
pub(super) enum Piece {
    /// The header of a section.
    Section,
    /// A variable, and whether it has a value.
    Variable(bool),
    End,
}

/// The UTF-8 byte order mark, which git skips at the start of a file.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The number of a line that cannot be parsed, counted from 1.
pub(crate) struct BadLine(pub(crate) u32);

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        Parser { text, at: 0, line: 1, past_end: false, start: 0, key: Vec::new(), section_len: 0, value: Vec::new() }
    }

    /// Returns the next variable, or `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Variable<'_>>, BadLine> {
        loop {
            match self.piece()? {
                Piece::End => return Ok(None),
                Piece::Section => {}
                Piece::Variable(has_value) => {
                    // As in git, where values are C's strings, a NUL ends one.
                    let len = self.value.find_byte(0).unwrap_or(self.value.len());
                    let value = has_value.then_some(&self.value[..len]);
                    debug_assert!(self.line > 1, "a variable ends with its line, or with the file");
                    // The newline has been consumed already, so the count is one too high.
                    return Ok(Some(Variable { key: &self.key, value, line: self.line - 1 }));
                }
            }
        }
    }

    /// Returns the next header or variable, or `Piece::End` at the end of the file.
    #[inline]
    pub(super) fn piece(&mut self) -> Result<Piece, BadLine> {
        loop {
            match self.byte() {
                b'\n' if self.past_end => return Ok(Piece::End),
                byte if is_space(&byte) => {}
                b'#' | b';' => self.skip_line(),
                b'[' => {
                    self.start = self.at - 1;
                    self.section()?;
                    debug_assert!(
                        self.key.ends_with(b".") && self.key.len() == self.section_len,
                        "a section's key is whole"
                    );
                    return Ok(Piece::Section);
                }
                byte if byte.is_ascii_alphabetic() => {
                    self.start = self.at - 1;
                    return self.variable(byte).map(Piece::Variable);
                }
                _ => return Err(BadLine(self.line)),
            }
        }
    }

    /// Returns the canonical key of the piece that was returned last. The key of a section ends with a dot.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the range of the piece that was returned last, counted from the end of the byte order mark, if there is
    /// one. The range of a variable includes the end of its line.
    pub(super) fn span(&self) -> std::ops::Range<usize> {
        debug_assert!(self.start < self.at, "a piece has a byte at least");
        self.start..self.at.min(self.text.len())
    }

    /// Returns the next byte. CR LF is returned as a single LF, and the end of the file as one more LF.
    fn byte(&mut self) -> u8 {
        let mut byte = match self.text.get(self.at) {
            Some(byte) => *byte,
            None => {
                self.past_end = true;
                b'\n'
            }
        };
        self.at += 1;
        if byte == b'\r' && self.text.get(self.at) == Some(&b'\n') {
            self.at += 1;
            byte = b'\n';
        }
        self.line += u32::from(byte == b'\n');
        byte
    }

    fn skip_line(&mut self) {
        while self.byte() != b'\n' {}
    }

    /// Parses the rest of `[section]`, `[section.subsection]` or `[section "Sub section"]` after the bracket.
    fn section(&mut self) -> Result<(), BadLine> {
        self.key.clear();
        loop {
            match self.byte() {
                b']' if self.key.is_empty() => return Err(BadLine(self.line)),
                b']' => break,
                _ if self.past_end => return Err(BadLine(self.line)),
                byte if is_space(&byte) => {
                    self.subsection(byte)?;
                    break;
                }
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    self.key.push(byte.to_ascii_lowercase());
                }
                _ => return Err(BadLine(self.line)),
            }
        }
        self.key.push(b'.');
        self.section_len = self.key.len();
        Ok(())
    }

    /// Parses `"Sub section"]` after the blank `byte`, which has been read.
    fn subsection(&mut self, mut byte: u8) -> Result<(), BadLine> {
        while is_space(&byte) {
            if byte == b'\n' {
                return self.bad_line_end();
            }
            byte = self.byte();
        }
        if byte != b'"' {
            return Err(BadLine(self.line));
        }
        self.key.push(b'.');
        loop {
            match self.byte() {
                b'\n' => return self.bad_line_end(),
                b'"' => break,
                b'\\' => match self.byte() {
                    b'\n' => return self.bad_line_end(),
                    byte => self.key.push(byte),
                },
                byte => self.key.push(byte),
            }
        }
        if self.byte() == b']' { Ok(()) } else { Err(BadLine(self.line)) }
    }

    /// Returns the error for a line that ended too early. The line's newline has been consumed, so the faulty line is
    /// the previous one.
    fn bad_line_end<T>(&self) -> Result<T, BadLine> {
        Err(BadLine(self.line - 1))
    }

    /// Parses `name = value` or `name`, whose first byte has been read. Returns whether there is a value.
    fn variable(&mut self, first: u8) -> Result<bool, BadLine> {
        debug_assert!(self.section_len <= self.key.len(), "the key begins with its section's");
        self.key.truncate(self.section_len);
        let mut byte = first;
        while byte.is_ascii_alphanumeric() || byte == b'-' {
            self.key.push(byte.to_ascii_lowercase());
            byte = self.byte();
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.byte();
        }
        match byte {
            b'\n' => Ok(false),
            b'=' => self.value().map(|()| true),
            _ => Err(BadLine(self.line)),
        }
    }

    /// Consumes a run of ordinary bytes at once. Most values consist of such bytes alone.
    fn plain_run(&mut self, kept: &mut usize) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
        if len > 0 {
            self.value.extend_from_slice(&rest[..len]);
            self.at += len;
            *kept = self.value.len();
        }
    }

    /// Parses the value up to the end of its line and of the lines that continue it.
    fn value(&mut self) -> Result<(), BadLine> {
        self.value.clear();
        let (mut quoted, mut comment) = (false, false);
        // The length of what has been read of the value, without blanks at its end.
        let mut kept = 0;
        loop {
            if !comment {
                self.plain_run(&mut kept);
            }
            let byte = self.byte();
            match byte {
                b'\n' if quoted => return self.bad_line_end(),
                b'\n' => {
                    debug_assert!(kept <= self.value.len(), "only blanks at the end are dropped");
                    self.value.truncate(kept);
                    return Ok(());
                }
                _ if comment => {}
                _ if is_space(&byte) && !quoted => {
                    // Blanks in front of the value are skipped.
                    if kept > 0 {
                        self.value.push(byte);
                    }
                }
                b'#' | b';' if !quoted => comment = true,
                b'"' => {
                    quoted = !quoted;
                    kept = self.value.len();
                }
                b'\\' => {
                    match self.byte() {
                        b'\n' => {}
                        b't' => self.value.push(b'\t'),
                        b'b' => self.value.push(8),
                        b'n' => self.value.push(b'\n'),
                        byte @ (b'\\' | b'"') => self.value.push(byte),
                        _ => return Err(BadLine(self.line)),
                    }
                    kept = self.value.len();
                }
                _ => {
                    self.value.push(byte);
                    kept = self.value.len();
                }
            }
        }
    }
}

/// Returns whether a byte surely stands for itself in a value, unless a backslash precedes it.
fn is_plain(byte: u8) -> bool {
    byte > b' ' && !matches!(byte, b'"' | b'#' | b';' | b'\\')
}

/// Brings a key that a user typed into its canonical form.
///
/// The section and the name may consist of letters, digits and `-`, and the name has to begin with a letter; the
/// subsection may contain anything but a newline.
///
/// # Errors
///
/// Returns the fault of the key.
pub(crate) fn canonical_key(key: &[u8]) -> Result<Vec<u8>, BadKey> {
    let last_dot = match key.iter().rposition(|byte| *byte == b'.') {
        None | Some(0) => return Err(BadKey::NoSection),
        Some(at) if at + 1 == key.len() => return Err(BadKey::NoName),
        Some(at) => at,
    };
    let first_dot = key.iter().position(|byte| *byte == b'.').unwrap_or(last_dot);
    let mut canonical = Vec::with_capacity(key.len());
    for (at, &byte) in key.iter().enumerate() {
        if first_dot <= at && at <= last_dot {
            if byte == b'\n' {
                return Err(BadKey::Newline);
            }
            canonical.push(byte);
        } else if byte.is_ascii_alphanumeric() || byte == b'-' {
            if at == last_dot + 1 && !byte.is_ascii_alphabetic() {
                return Err(BadKey::Invalid);
            }
            canonical.push(byte.to_ascii_lowercase());
        } else {
            return Err(BadKey::Invalid);
        }
    }
    debug_assert_eq!(canonical.len(), key.len(), "only the case of letters changes");
    Ok(canonical)
}

/// The fault of a key that a user typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadKey {
    /// The key has no dot, or nothing in front of its last dot.
    NoSection,
    /// Nothing follows the last dot.
    NoName,
    /// A byte is not allowed where it is.
    Invalid,
    /// The subsection contains a newline.
    Newline,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Result<Vec<String>, u32> {
        let mut parser = Parser::new(text);
        let mut found = Vec::new();
        while let Some(variable) = parser.next().map_err(|bad| bad.0)? {
            let value = variable.value.map(|value| format!("={}", value.escape_ascii())).unwrap_or_default();
            found.push(format!("{}{value}@{}", variable.key.escape_ascii(), variable.line));
        }
        Ok(found)
    }

    #[test]
    fn values_are_unquoted_and_trimmed() {
        assert_eq!(all(b"[a]b = 1 2 \t # x\n c=\"1  # x\" ; c\r\n d").unwrap(), ["a.b=1 2@1", "a.c=1  # x@2", "a.d@3"]);
        assert_eq!(
            all(b"[A]B=x\"y  \"  \n[a.B \"C\\\"\\q\"]d=\\t\\\nz").unwrap(),
            ["a.b=xy  @1", "a.b.C\\\"q.d=\\tz@3"]
        );
        assert_eq!(all(b"[a]b=\n[a]c= \"\"").unwrap(), ["a.b=@1", "a.c=@2"]);
        assert_eq!(all(b"[a]b=x  \\\n\n").unwrap(), ["a.b=x  @2"]);
        assert_eq!(all(b"\xef\xbb\xbf[a]b").unwrap(), ["a.b@1"]);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line) in [
            (&b"[a]b\n[]c=2\n"[..], 2),
            (b"[a]b=1\\\n2\n[x\n", 3),
            (b"[a]b=\"x\n", 1),
            (b"[a \"x\" ]b=1", 1),
            (b"[a]b #x\n", 1),
            (b"[a]b=\\q", 1),
            (b"[a]\n1b=1", 2),
            (b"[a_]", 1),
            (b"[a", 2),
            (b"[a \"b", 1),
            (b"[a]b=x \"y\\", 2),
        ] {
            assert_eq!(all(text), Err(line), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn no_input_makes_it_panic() {
        // All strings of up to five of the bytes that have a meaning.
        const BYTES: &[u8] = b"[]\"\\=#\na. \r";
        for len in 0..=5u32 {
            for number in 0..BYTES.len().pow(len) {
                let text: Vec<u8> =
                    (0..len).map(|digit| BYTES[number / BYTES.len().pow(digit) % BYTES.len()]).collect();
                let _ = all(&text);
            }
        }
    }

    #[test]
    fn typed_keys_are_checked_as_git_does() {
        assert_eq!(canonical_key(b"Core.Bare").unwrap(), b"core.bare");
        assert_eq!(canonical_key(b"A.B c.D.E").unwrap(), b"a.B c.D.e");
        for (key, error) in [
            (&b"foo"[..], BadKey::NoSection),
            (b".foo", BadKey::NoSection),
            (b"foo.", BadKey::NoName),
            (b"a.b.c*", BadKey::Invalid),
            (b"a.1", BadKey::Invalid),
            (b"a.b\nc.d", BadKey::Newline),
        ] {
            assert_eq!(canonical_key(key), Err(error));
        }
    }
}
