//! The parts of commits and annotated tags that fields show.

use super::{
    atom::{Contents, Role},
    date::Time,
};
use bstr::{BStr, ByteSlice};

/// A commit or tag, parsed as far as fields need it.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    data: &'a [u8],
}

/// The message of a commit or tag.
#[derive(Clone, Copy, Debug)]
struct Message<'a> {
    subject: &'a [u8],
    /// Everything after the subject, including the signature.
    body: &'a [u8],
    signature: &'a [u8],
    /// The message from the subject to the end.
    whole: &'a [u8],
}

impl<'a> Parsed<'a> {
    /// Parses the content of a commit or tag. As in git, a NUL ends the content: neither headers nor the message go on
    /// behind it.
    pub fn new(data: &'a [u8]) -> Self {
        Parsed { data: &data[..data.find_byte(0).unwrap_or(data.len())] }
    }

    /// Returns the values of all headers called `name`.
    pub fn headers(&self, name: &'static str) -> impl Iterator<Item = &'a BStr> {
        let lines = self.data.lines_with_terminator().take_while(|line| line.len() > 1);
        lines.filter_map(move |line| {
            let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b" ")?;
            Some(value.strip_suffix(b"\n").unwrap_or(value).as_bstr())
        })
    }

    /// Returns the value of the first header called `name`.
    pub fn header(&self, name: &'static str) -> Option<&'a BStr> {
        self.headers(name).next()
    }

    /// Returns the seconds since 1970 in a person's line, by which dates are sorted, or 0 if there is no such line or
    /// time.
    pub fn seconds(&self, role: Role) -> u64 {
        self.line(role).and_then(|line| Time::of(line)).map_or(0, |time| time.seconds())
    }

    /// Returns the line of a person.
    pub fn line(&self, role: Role) -> Option<&'a BStr> {
        match role {
            Role::Author => self.header("author"),
            Role::Committer => self.header("committer"),
            Role::Tagger => self.header("tagger"),
            Role::Creator => self.header("committer").or_else(|| self.header("tagger")),
        }
    }

    /// Appends the first paragraph as one line. The end of each line, LF or CRLF, becomes a blank.
    pub fn subject(&self, out: &mut Vec<u8>) {
        for (at, line) in self.message().subject.split(|byte| *byte == b'\n').enumerate() {
            if at > 0 {
                if out.last() == Some(&b'\r') {
                    out.pop();
                }
                out.push(b' ');
            }
            out.extend_from_slice(line);
        }
    }

    /// Appends the subject in a form that suits a file name. Runs of bytes other than ASCII letters, digits, `.` and
    /// `_` become one dash, and runs of dots become one dot. No dash remains at the start, and neither a dash nor a dot
    /// at the end.
    pub fn sanitized_subject(&self, out: &mut Vec<u8>) {
        let mut subject = Vec::new();
        self.subject(&mut subject);
        let start = out.len();
        let mut gap = false;
        for (at, &byte) in subject.iter().enumerate() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') {
                if gap && out.len() > start {
                    out.push(b'-');
                }
                gap = false;
                if byte != b'.' || at == 0 || subject[at - 1] != b'.' {
                    out.push(byte);
                }
            } else {
                gap = true;
            }
        }
        while out.len() > start && matches!(out.last(), Some(b'.' | b'-')) {
            out.pop();
        }
    }

    /// Appends everything after the subject.
    pub fn body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.message().body);
    }

    /// Appends a part of the message.
    pub fn contents(&self, contents: Contents, out: &mut Vec<u8>) {
        let message = self.message();
        match contents {
            Contents::Whole => out.extend_from_slice(message.whole),
            Contents::Size => out.extend_from_slice(message.whole.len().to_string().as_bytes()),
            Contents::Subject => self.subject(out),
            Contents::Body => {
                out.extend_from_slice(
                    &message.body[..message.body.len() - message.signature.len().min(message.body.len())],
                );
            }
            Contents::Signature => out.extend_from_slice(message.signature),
            Contents::Lines(count) => {
                for (turn, line) in self.unsigned().lines_with_terminator().take(count).enumerate() {
                    let line = line.strip_suffix(b"\n").unwrap_or(line);
                    if turn > 0 {
                        out.extend_from_slice(b"\n    ");
                    }
                    out.extend_from_slice(line);
                }
            }
        }
    }

    /// Returns the message without the signature at its end.
    pub fn unsigned(&self) -> &'a [u8] {
        let message = self.message();
        &message.whole[..message.whole.len() - message.signature.len()]
    }

    fn message(&self) -> Message<'a> {
        let start = self.data.find(b"\n\n").map_or(&self.data[self.data.len()..], |blank| &self.data[blank + 2..]);
        let whole = start.trim_start_with(|byte| byte == '\n');
        let signature = &whole[signature_start(whole)..];
        let unsigned = &whole[..whole.len() - signature.len()];
        // A blank line that ends in LF ends the subject wherever it is; a blank line that ends in CRLF does so only if
        // there is none with LF.
        let end = whole.find(b"\n\n").or_else(|| whole.find(b"\r\n\r\n"));
        let subject_len = end.map_or(unsigned.len(), |end| end.min(unsigned.len()));
        let subject = whole[..subject_len].trim_end_with(is_end_of_line);
        let body = whole[subject_len..].trim_start_with(is_end_of_line);
        Message { subject, body, signature, whole }
    }
}

fn is_end_of_line(byte: char) -> bool {
    matches!(byte, '\n' | '\r')
}

/// Returns the start of the signature, which begins with the last line that starts with one of the marks. Returns the
/// end of the text if there is no signature.
fn signature_start(text: &[u8]) -> usize {
    const MARKS: [&[u8]; 4] = [
        b"-----BEGIN PGP SIGNATURE-----",
        b"-----BEGIN PGP MESSAGE-----",
        b"-----BEGIN SIGNED MESSAGE-----",
        b"-----BEGIN SSH SIGNATURE-----",
    ];
    let (mut at, mut start) = (0, text.len());
    for line in text.lines_with_terminator() {
        if MARKS.iter().any(|mark| line.starts_with(mark)) {
            start = at;
        }
        at += line.len();
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &[u8] = b"object 1234567890123456789012345678901234567890\ntype commit\ntag v1\n\
        tagger A B <a.b@c.d> 1151968725 +0200\n\nfirst\nline\n\nbody\n-----BEGIN PGP SIGNATURE-----\nx\n";

    fn shown(show: impl FnOnce(&Parsed<'_>, &mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        show(&Parsed::new(TAG), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_message_falls_into_subject_body_and_signature() {
        let signature = "-----BEGIN PGP SIGNATURE-----\nx\n";
        assert_eq!(shown(|tag, out| tag.subject(out)), "first line");
        assert_eq!(shown(|tag, out| tag.sanitized_subject(out)), "first-line");
        assert_eq!(shown(|tag, out| tag.body(out)), format!("body\n{signature}"));
        assert_eq!(shown(|tag, out| tag.contents(Contents::Body, out)), "body\n");
        assert_eq!(shown(|tag, out| tag.contents(Contents::Signature, out)), signature);
        assert_eq!(shown(|tag, out| tag.contents(Contents::Lines(3), out)), "first\n    line\n    ");
        assert_eq!(Parsed::new(TAG).header("tag"), Some("v1".into()));
        assert_eq!(Parsed::new(TAG).header("first"), None);
    }
}
