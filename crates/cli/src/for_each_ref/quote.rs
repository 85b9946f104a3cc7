//! `--shell`, `--perl`, `--python` and `--tcl`.

/// The language for whose string literals values are quoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Quote {
    /// Values are not quoted.
    #[default]
    None,
    Shell,
    Perl,
    Python,
    Tcl,
}

impl Quote {
    /// Appends `value` as a literal.
    pub fn append(self, value: &[u8], out: &mut Vec<u8>) {
        let mark = match self {
            Quote::None => {
                out.extend_from_slice(value);
                return;
            }
            Quote::Tcl => b'"',
            Quote::Shell | Quote::Perl | Quote::Python => b'\'',
        };
        out.push(mark);
        for &byte in value {
            match (self, byte) {
                // A quote is written as the end of the literal, the escaped quote, and the start of a new literal. So
                // is `!`, because of csh.
                (Quote::Shell, b'\'' | b'!') => out.extend_from_slice(&[b'\'', b'\\', byte, b'\'']),
                (Quote::Perl, b'\'' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
                (Quote::Python, b'\'' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
                (Quote::Python | Quote::Tcl, b'\n') => out.extend_from_slice(b"\\n"),
                (Quote::Tcl, b'\x0c') => out.extend_from_slice(b"\\f"),
                (Quote::Tcl, b'\r') => out.extend_from_slice(b"\\r"),
                (Quote::Tcl, b'\t') => out.extend_from_slice(b"\\t"),
                (Quote::Tcl, b'\x0b') => out.extend_from_slice(b"\\v"),
                (Quote::Tcl, b'[' | b']' | b'{' | b'}' | b'$' | b'\\' | b'"') => out.extend_from_slice(&[b'\\', byte]),
                _ => out.push(byte),
            }
        }
        out.push(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The literals were taken from git 2.55.
    #[test]
    fn each_language_gets_its_own_literals() {
        for (quote, expected) in [
            (Quote::None, "a'b\"[{$\\\n!"),
            (Quote::Shell, "'a'\\''b\"[{$\\\n'\\!''"),
            (Quote::Perl, "'a\\'b\"[{$\\\\\n!'"),
            (Quote::Python, "'a\\'b\"[{$\\\\\\n!'"),
            (Quote::Tcl, "\"a'b\\\"\\[\\{\\$\\\\\\n!\""),
        ] {
            let mut out = Vec::new();
            quote.append(b"a'b\"[{$\\\n!", &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
