//! `%(trailers)`: selects and formats the trailers of a message (git-interpret-trailers(1)).

use crate::failure::{Result, fatal};
use bstr::{BStr, BString, ByteSlice};
use refdb::config::parse_boolean;
use refdb_types::space::{trim, trim_end, trim_start};

mod block;

pub use block::{TrailerRules, trailers};

/// Which trailers are shown, and how: the options in `%(trailers:OPTIONS)`; see "trailers" in git-log(1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrailerForm {
    /// The keys of the trailers that are shown; `None` for all.
    keys: Option<Vec<BString>>,
    /// Whether lines that are not trailers are omitted.
    only: bool,
    /// Whether each trailer is shown on one line.
    unfold: bool,
    /// Whether values are omitted.
    key_only: bool,
    /// Whether keys are omitted.
    value_only: bool,
    separator: Option<BString>,
    key_value_separator: Option<BString>,
}

/// A trailer, or a line between trailers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trailer {
    /// The key; `None` if the value is a line that is not a trailer.
    pub key: Option<BString>,
    pub value: BString,
}

impl TrailerForm {
    /// Parses what follows the colon in `%(trailers:OPTIONS)`.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let mut form = TrailerForm::default();
        let mut rest = text;
        while !rest.is_empty() {
            let (word, tail) = rest.split_once_str(",").map_or((rest, None), |(word, tail)| (word, Some(tail)));
            let is_last = tail.is_none_or(|tail| tail.is_empty());
            if !form.set(word, is_last)? {
                return fatal!["unknown %(trailers) argument: ", word];
            }
            rest = tail.unwrap_or_default();
        }
        Ok(form)
    }

    /// Parses one option. Returns `false` if it is unknown.
    fn set(&mut self, word: &[u8], is_last: bool) -> Result<bool> {
        let (name, value) = word.split_once_str("=").map_or((word, None), |(name, value)| (name, Some(value)));
        let switch = match name {
            b"key" => {
                let Some(key) = value else { return fatal!["expected %(trailers:key=<value>)"] };
                self.keys.get_or_insert_default().push(key.strip_suffix(b":").unwrap_or(key).into());
                self.only = true;
                return Ok(true);
            }
            b"separator" => {
                self.separator = Some(expand(value.unwrap_or_default()));
                return Ok(true);
            }
            b"key_value_separator" => {
                self.key_value_separator = Some(expand(value.unwrap_or_default()));
                return Ok(true);
            }
            b"only" => &mut self.only,
            b"unfold" => &mut self.unfold,
            b"keyonly" => &mut self.key_only,
            b"valueonly" => &mut self.value_only,
            _ => return Ok(false),
        };
        match parse_boolean(value.map(BStr::new)) {
            Some(on) => *switch = on,
            // As in git, a value that is not a boolean is noticed only if nothing follows.
            None if is_last => return fatal!["unknown %(trailers) argument: "],
            None => {}
        }
        Ok(true)
    }

    /// Returns whether the trailers are shown as they are in the message.
    fn is_plain(&self) -> bool {
        let TrailerForm { keys, only, unfold, key_only, value_only, separator, key_value_separator } = self;
        let changes = *only || *unfold || *key_only || *value_only;
        !changes && keys.is_none() && separator.is_none() && key_value_separator.is_none()
    }

    /// Appends the trailers of a message.
    pub fn show(&self, message: &[u8], rules: &TrailerRules, out: &mut Vec<u8>) {
        let block = block::find(message, rules);
        let start = out.len();
        if self.is_plain() {
            out.extend_from_slice(block);
        } else {
            for trailer in trailers(block, rules) {
                self.show_one(&trailer, rules, start, out);
            }
        }
        // Git's values end at a NUL.
        let len = out[start..].find_byte(0).unwrap_or(out.len() - start);
        out.truncate(start + len);
    }

    fn show_one(&self, trailer: &Trailer, rules: &TrailerRules, start: usize, out: &mut Vec<u8>) {
        let separate = |out: &mut Vec<u8>| match &self.separator {
            Some(separator) if out.len() > start => out.extend_from_slice(separator),
            _ => {}
        };
        match &trailer.key {
            None if self.only => return,
            None => {
                separate(out);
                out.extend_from_slice(&trailer.value);
                if self.separator.is_some() {
                    // As in git, everything that was collected is trimmed at its end.
                    let len = trim_end(&out[start..]).len();
                    out.truncate(start + len);
                }
            }
            Some(key) => {
                let is_wanted = |keys: &Vec<BString>| keys.iter().any(|wanted| wanted.eq_ignore_ascii_case(key));
                if !self.keys.as_ref().is_none_or(is_wanted) {
                    return;
                }
                separate(out);
                if !self.value_only {
                    out.extend_from_slice(key);
                }
                if !self.key_only && !self.value_only {
                    let between = self.key_value_separator.as_ref().map(|text| text.to_vec());
                    out.extend(between.unwrap_or_else(|| rules.between(key)));
                }
                if !self.key_only {
                    let value = if self.unfold { unfolded(&trailer.value) } else { trailer.value.clone() };
                    out.extend_from_slice(&value);
                }
            }
        }
        if self.separator.is_none() {
            out.push(b'\n');
        }
    }
}

/// Joins the lines of a value: each line break, with the white space after it, becomes one blank.
fn unfolded(value: &BString) -> BString {
    let mut out = BString::default();
    let mut rest = value.as_bytes();
    while let Some(end) = rest.find_byte(b'\n') {
        out.extend_from_slice(&rest[..end]);
        out.push(b' ');
        rest = trim_start(&rest[end..]);
    }
    out.extend_from_slice(rest);
    trim(&out).into()
}

/// Expands `%n`, `%xNN` and `%%`; everything else stands for itself.
fn expand(text: &[u8]) -> BString {
    let mut out = BString::default();
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let (byte, len) = match (first, tail.first()) {
            (b'%', Some(b'n')) => (b'\n', 2),
            (b'%', Some(b'%')) => (b'%', 2),
            (b'%', Some(b'x')) => match (digit(1), digit(2)) {
                (Some(high), Some(low)) => ((high << 4 | low) as u8, 4),
                _ => (b'%', 1),
            },
            _ => (*first, 1),
        };
        out.push(byte);
        rest = &rest[len..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str =
        "subj\n\nbody\n\nA-b: one\nnot a trailer\nSigned-off-by: x <y>\n  folded\nA-b : two\nEmpty:\n";

    /// The values were taken from git 2.55.
    #[test]
    fn trailers_are_shown_as_git_shows_them() {
        for (form, expected) in [
            ("", "A-b: one\nnot a trailer\nSigned-off-by: x <y>\n  folded\nA-b : two\nEmpty:\n"),
            ("only", "A-b: one\nSigned-off-by: x <y>\n  folded\nA-b: two\nEmpty: \n"),
            ("unfold", "A-b: one\nnot a trailer\nSigned-off-by: x <y> folded\nA-b: two\nEmpty: \n"),
            ("keyonly,valueonly", "\nnot a trailer\n\n\n\n"),
            ("key=a-b:,separator=%x2c ", "A-b: one, A-b: two"),
            ("key=a-b,only=no", "A-b: one\nnot a trailer\nA-b: two\n"),
            ("separator=|,valueonly,unfold", "one|not a trailer|x <y> folded|two|"),
            ("separator=%zz%x2%%,key=empty,key=A-b,keyonly", "A-b%zz%x2%A-b%zz%x2%Empty"),
            ("only=x,key_value_separator=X,key=a-b", "A-bXone\nA-bXtwo\n"),
            ("separator=%x00", "A-b: one"),
            ("key=", ""),
        ] {
            let mut out = Vec::new();
            TrailerForm::parse(form.as_bytes()).unwrap().show(MESSAGE.as_bytes(), &TrailerRules::default(), &mut out);
            assert_eq!(BString::from(out), expected, "{form}");
        }
    }
}
