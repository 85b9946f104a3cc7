//! A line of a reflog, and how it is encoded and parsed.
//!
//! ```text
//! OLD SP NEW SP NAME SP <EMAIL> SP SECONDS SP (+|-)HHMM [TAB MESSAGE] LF
//! ```

use crate::backend::LogLine;
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, Ident, LogEntry, ObjectId};

/// Appends the line of a new entry.
pub(crate) fn encode(line: &LogLine<'_>, out: &mut Vec<u8>) {
    line.old.write_hex(out);
    out.push(b' ');
    line.new.write_hex(out);
    out.push(b' ');
    let Ident { name, email, time_seconds, offset_decimal } = line.committer;
    // Like git and JGit, this leaves out of names and emails what would end the line or a part of it.
    let is_plain = |byte: &&u8| !b"<>\n\0".contains(*byte);
    out.extend(name.iter().filter(is_plain));
    // git writes the space after an empty name, too.
    out.extend_from_slice(b" <");
    out.extend(email.iter().filter(is_plain));
    let sign = if *offset_decimal < 0 { '-' } else { '+' };
    out.extend_from_slice(format!("> {time_seconds} {sign}{:04}", offset_decimal.unsigned_abs()).as_bytes());
    if !line.message.is_empty() {
        out.push(b'\t');
        // A newline in the message would forge an entry.
        out.extend(line.message.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
    }
    out.push(b'\n');
}

/// The parts of a line, as they are in its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) old: ObjectId,
    pub(crate) new: ObjectId,
    /// The name and email: everything between the ids and the time, up to and with the `>`, unchecked.
    who: &'a BStr,
    pub(crate) time_seconds: u64,
    offset_decimal: i32,
    pub(crate) message: &'a BStr,
}

impl<'a> Line<'a> {
    /// Parses a line without its newline; `None` for a broken one, which git skips.
    ///
    /// The parser is as lenient as git's, so that a reflog that loses one entry keeps all others that git shows.
    pub(crate) fn read(hash: HashKind, line: &'a [u8]) -> Option<Self> {
        let len_hex = hash.len_hex();
        let old = ObjectId::from_hex(hash, line.get(..len_hex)?).ok()?;
        let new = ObjectId::from_hex(hash, line.get(len_hex + 1..2 * len_hex + 1)?).ok()?;
        if line[len_hex] != b' ' || line.get(2 * len_hex + 1) != Some(&b' ') {
            return None;
        }
        let rest = &line[2 * len_hex + 2..];
        // git ends a line at a NUL.
        let end = rest.find_byteset(b">\0").filter(|end| rest[*end] == b'>')? + 1;
        let (time_seconds, rest) = seconds(rest[end..].strip_prefix(b" ")?)?;
        let (sign, digits) = match rest.strip_prefix(b" ")?.split_first()? {
            (b'+', digits) => (1, digits),
            (b'-', digits) => (-1, digits),
            _ => return None,
        };
        digits.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        // git reads all digits of the time zone, but begins the message after the fourth.
        let (offset, _) = number(digits);
        let message = &digits[4..];
        Some(Line {
            old,
            new,
            who: line[2 * len_hex + 2..][..end].as_bstr(),
            time_seconds,
            offset_decimal: sign * i32::try_from(offset).unwrap_or(i32::MAX),
            message: message.strip_prefix(b"\t").unwrap_or(message).as_bstr(),
        })
    }

    /// Appends the line with another old value, in the form in which git rewrites it.
    pub(crate) fn write(&self, old: ObjectId, out: &mut Vec<u8>) {
        debug_assert!(old.kind() == self.new.kind(), "a log has ids of one kind");
        debug_assert!(self.who.ends_with(b">") && !self.message.contains(&b'\n'), "a line is one");
        old.write_hex(out);
        out.push(b' ');
        self.new.write_hex(out);
        out.push(b' ');
        out.extend_from_slice(self.who);
        out.extend_from_slice(format!(" {} {:+05}\t", self.time_seconds, self.offset_decimal).as_bytes());
        out.extend_from_slice(self.message);
        out.push(b'\n');
    }
}

/// Parses the seconds since 1970 as C's `strtoumax` does; returns them and the rest of the text. Returns `None` if
/// there are no digits, and for 0, which git does not accept as a time.
fn seconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | b'\r');
    let text = &text[text.iter().take_while(|byte| is_space(byte)).count()..];
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    let (number, len) = number(digits);
    let seconds = if is_negative && number != u64::MAX { number.wrapping_neg() } else { number };
    (len > 0 && seconds != 0).then_some((seconds, &digits[len..]))
}

/// Parses the leading digits; returns the number, or `u64::MAX` if it is larger, and the count of digits.
fn number(text: &[u8]) -> (u64, usize) {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    (text[..len].iter().fold(0, add), len)
}

/// Parses a line without its newline; `None` for a broken one, which git skips.
pub fn parse(hash: HashKind, line: &[u8]) -> Option<LogEntry> {
    let Line { old, new, who, time_seconds, offset_decimal, message } = Line::read(hash, line)?;
    let who = who.strip_suffix(b">").unwrap_or(who);
    let (name, email) = who.split_once_str("<").unwrap_or((who, b""));
    Some(LogEntry {
        old,
        new,
        committer: Ident {
            name: name.trim_end().into(),
            email: email.into(),
            time_seconds,
            // A zone beyond the range becomes the farthest on its side of UTC.
            offset_decimal: offset_decimal.clamp(i16::MIN.into(), i16::MAX.into()) as i16,
        },
        message: message.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bstr::BString;

    #[test]
    fn a_time_zone_beyond_the_range_keeps_its_sign() {
        for (zone, expected) in
            [("-12345", -12345), ("+32768", i16::MAX), ("-32769", i16::MIN), ("-99999999999999999999", i16::MIN)]
        {
            let line = format!("{} {} a <a@b> 1700000000 {zone}\tm", id(1), id(2));
            let entry = parse(HashKind::Sha1, line.as_bytes()).unwrap();
            assert_eq!(entry.committer.offset_decimal, expected, "{zone}");
        }
    }

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap()
    }

    fn line(name: &str, message: &str) -> (Ident, BString) {
        let ident = Ident { name: name.into(), email: "a@b".into(), time_seconds: 1_700_000_000, offset_decimal: -130 };
        (ident, message.into())
    }

    #[test]
    fn what_is_encoded_parses_to_the_same() {
        for (name, message) in [("A U Thor", "commit: x"), ("", ""), ("a, b", "tab\there")] {
            let (committer, message) = line(name, message);
            let encoded = LogLine { old: id(0), new: id(1), committer: &committer, message: message.as_bstr() };
            let mut bytes = Vec::new();
            encode(&encoded, &mut bytes);
            let parsed = parse(HashKind::Sha1, bytes.strip_suffix(b"\n").unwrap());
            assert_eq!(parsed.unwrap(), LogEntry { old: id(0), new: id(1), committer, message });
        }
    }

    /// Previously, such a name forged an entry or made its own unreadable, and the batch of a transaction that ended in
    /// the middle could not be recovered.
    #[test]
    fn no_name_or_email_breaks_its_line() {
        let forged = format!("A <a@b> 1 +0000\n{} {} B <b@b> 2 +0000\n", id(1), id(2));
        let (mut committer, message) = line(&forged, "m");
        committer.email = "<a>@\n\0b".into();
        let mut bytes = Vec::new();
        encode(&LogLine { old: id(0), new: id(1), committer: &committer, message: message.as_bstr() }, &mut bytes);
        let parsed = parse(HashKind::Sha1, bytes.strip_suffix(b"\n").unwrap()).unwrap();
        committer.name = forged.replace(['<', '>', '\n'], "").into();
        committer.email = "a@b".into();
        assert_eq!(parsed, LogEntry { old: id(0), new: id(1), committer, message });
    }

    #[test]
    fn a_newline_in_a_message_forges_no_entry() {
        let (committer, message) = line("A", "a\nb");
        let mut bytes = Vec::new();
        encode(&LogLine { old: id(0), new: id(1), committer: &committer, message: message.as_bstr() }, &mut bytes);
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
    }

    #[test]
    fn no_mutation_of_a_line_makes_the_parser_panic() {
        let (committer, message) = line("A", "m");
        let mut seed = Vec::new();
        encode(&LogLine { old: id(0), new: id(1), committer: &committer, message: message.as_bstr() }, &mut seed);
        for at in 0..seed.len() {
            for byte in [0, b' ', b'>', b'<', b'\t', b'9', 0xff] {
                let mut bytes = seed.clone();
                bytes[at] = byte;
                let _ = parse(HashKind::Sha1, &bytes);
                let _ = parse(HashKind::Sha1, &bytes[..at]);
            }
        }
    }

    /// The second value is how git 2.55 rewrites a line, without its ids; `None` if git drops the line.
    #[test]
    fn a_line_is_written_anew_as_git_does() {
        for (given, written) in [
            ("A <a@b.c> 1700001000 +0000", Some("A <a@b.c> 1700001000 +0000\t")),
            (" A B  <a@b.c> 1700001002 +0000\tm", Some(" A B  <a@b.c> 1700001002 +0000\tm")),
            ("A <a@b.c> 01700001003 +0130\tm\tx", Some("A <a@b.c> 1700001003 +0130\tm\tx")),
            ("A <a@b.c> 1700001004 -0000\t  lead", Some("A <a@b.c> 1700001004 +0000\t  lead")),
            ("A <a@b.c> 1700001005 +000\tm", None),
            ("A <a@b.c> 1700001006 +00000\tm", Some("A <a@b.c> 1700001006 +0000\t0\tm")),
            ("A <a@b.c> 1700001007 +0000 m", Some("A <a@b.c> 1700001007 +0000\t m")),
            ("A <a@b.c> 1700001009  +0000\tm", None),
            ("A <a@b.c> 1700001010 0000\tm", None),
            ("<a@b.c> 1700001011 +0000\tm", Some("<a@b.c> 1700001011 +0000\tm")),
            ("A a@b.c 1700001012 +0000\tm", None),
            ("A \0 <a@b.c> 1700001012 +0000\tm", None),
            ("A <a@b.c> 0 +0000\tm", None),
            ("A <a>b.c> 1700001013 +0000\tm", None),
            ("A <a@b.c> -5 +0000\tm", Some("A <a@b.c> 18446744073709551611 +0000\tm")),
            ("A <a@b.c> 99999999999999999999999 +0000\tm", Some("A <a@b.c> 18446744073709551615 +0000\tm")),
            ("A <a@b.c> 1700001015 +9999\tm\r", Some("A <a@b.c> 1700001015 +9999\tm\r")),
            ("A <a@b.c> 1700001016 -1234\tm", Some("A <a@b.c> 1700001016 -1234\tm")),
            ("A <a@b.c> 1700001017 +00-1\tm", None),
            ("A <a@b.c>  1700001019 +0000\tm", Some("A <a@b.c> 1700001019 +0000\tm")),
        ] {
            let text = format!("{} {} {given}", id(1), id(2));
            let line = Line::read(HashKind::Sha1, text.as_bytes());
            let anew = line.map(|line| {
                let mut out = Vec::new();
                line.write(id(3), &mut out);
                BString::from(out)
            });
            let expected = written.map(|written| BString::from(format!("{} {} {written}\n", id(3), id(2))));
            assert_eq!(anew, expected, "{given}");
        }
    }
}
