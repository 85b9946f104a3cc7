//! The intent of a transaction about which a global ref database decides, and how it is encoded and parsed.
//! docs/formats/intent.md has the format.

use crate::files::{JournalFault, journal_lines, ref_line, summed};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{HashKind, ObjectId, RefName};

/// The maximum length of an intent's file. refdb never writes a longer one.
pub(super) const LEN_MAX_BYTES: usize = 16 << 20;

/// The maximum length of a mark. refdb never writes a longer one.
const MARK_MAX_BYTES: usize = 512;

const MAGIC: &str = "refdb global 1";

/// Identifies a transaction to the database, and names its intent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The name of the intent's file: 1 to 128 letters, digits, dashes and underscores. No other transaction in
    /// progress has the same id.
    pub id: String,
    /// The text that the intent records: one line of 1 to 512 printable ASCII characters.
    pub text: BString,
}

/// What a transaction was about to do when the global ref database was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlobalIntent {
    /// The hash function of the object ids.
    pub hash: HashKind,
    /// The text of the [`Mark`], which is one line. Its first word names the node; this crate does not interpret the
    /// rest.
    pub mark: BString,
    /// The changed refs, in order of name.
    pub refs: Vec<GlobalRef>,
}

/// One ref of a transaction about which the global ref database decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlobalRef {
    /// A valid name of a shared ref below `refs/`.
    pub name: RefName,
    /// The object before; `None` if the ref held none.
    pub old: Option<ObjectId>,
    /// The object after; `None` if the ref then holds none.
    pub new: Option<ObjectId>,
}

impl GlobalIntent {
    /// The node that began the transaction, to be shown to people.
    pub fn owner(&self) -> &BStr {
        self.mark.split(|byte| *byte == b' ').next().unwrap_or_default().as_bstr()
    }

    /// Encodes the intent as it is stored in its file.
    ///
    /// # Panics
    ///
    /// If the mark is not a line as [`Mark::text`] describes it.
    pub fn encode(&self) -> Vec<u8> {
        assert!(is_mark(&self.mark), "a mark is a line: {}", self.mark);
        let mut out = format!("{MAGIC} {} ", self.hash.name()).into_bytes();
        out.extend_from_slice(&self.mark);
        out.push(b'\n');
        let null = ObjectId::null(self.hash);
        for entry in &self.refs {
            out.extend_from_slice(b"ref ");
            entry.old.unwrap_or(null).write_hex(&mut out);
            out.push(b' ');
            entry.new.unwrap_or(null).write_hex(&mut out);
            out.push(b' ');
            out.extend_from_slice(&entry.name);
            out.push(b'\n');
        }
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(format!("sum {sum:08x}\n").as_bytes());
        debug_assert!(
            out.len() > LEN_MAX_BYTES || GlobalIntent::parse(&out).as_ref() == Ok(self),
            "a record is read as it was written"
        );
        out
    }

    /// Parses an intent, and checks its checksum, its mark, and the names, order and ids of its refs.
    pub fn parse(bytes: &[u8]) -> Result<Self, JournalFault> {
        let fault = |offset, what| Err(JournalFault { offset, what });
        if bytes.len() > LEN_MAX_BYTES {
            return fault(LEN_MAX_BYTES, "longer than any record");
        }
        let mut lines = journal_lines(summed(bytes)?);
        let Some((_, first)) = lines.next() else { return fault(0, "nothing but a checksum") };
        let Some(mut intent) = head(first) else { return fault(0, "no first line of a record") };
        for (offset, line) in lines {
            let Some(rest) = line.strip_prefix(b"ref ") else { return fault(offset, "a line of no known kind") };
            match ref_line(intent.hash, rest) {
                Ok((name, old, new)) if intent.refs.last().is_none_or(|before| before.name < name) => {
                    intent.refs.push(GlobalRef { name, old, new });
                }
                Ok(_) => return fault(offset, "names out of order"),
                Err(what) => return fault(offset, what),
            }
        }
        if intent.refs.is_empty() {
            return fault(bytes.len(), "no ref");
        }
        Ok(intent)
    }
}

/// Parses the first line into an intent without refs.
fn head(line: &[u8]) -> Option<GlobalIntent> {
    let rest = line.strip_prefix(MAGIC.as_bytes())?.strip_prefix(b" ")?;
    let (hash, mark) = rest.split_once_str(" ")?;
    let hash = HashKind::from_name(hash.to_str().ok()?)?;
    is_mark(mark).then(|| GlobalIntent { hash, mark: mark.into(), refs: Vec::new() })
}

fn is_mark(mark: &[u8]) -> bool {
    (1..=MARK_MAX_BYTES).contains(&mark.len()) && mark.iter().all(|byte| (b' '..=b'~').contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(hash: HashKind) -> GlobalIntent {
        let id = |byte: u8| ObjectId::from_bytes(hash, &[byte; 32][..hash.len_bytes()]).unwrap();
        let entry = |name: &str, old, new| GlobalRef { name: RefName::new(name).unwrap(), old, new };
        let refs = vec![
            entry("refs/changes/45/12345/1", None, Some(id(1))),
            entry("refs/heads/\u{fc}", Some(id(2)), Some(id(3))),
            entry("refs/tags/gone", Some(id(4)), None),
        ];
        GlobalIntent { hash, mark: "node 3 start 17".into(), refs }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let intent = sample(hash);
            assert_eq!(GlobalIntent::parse(&intent.encode()), Ok(intent));
        }
    }

    #[test]
    fn a_record_that_is_cut_or_has_another_byte_is_none() {
        let whole = sample(HashKind::Sha1).encode();
        for at in 0..whole.len() {
            assert!(GlobalIntent::parse(&whole[..at]).is_err(), "cut at {at}");
            for other in [0, b'\n', b' ', whole[at] ^ 1, 0xff].into_iter().filter(|byte| *byte != whole[at]) {
                let mut bytes = whole.clone();
                bytes[at] = other;
                assert!(GlobalIntent::parse(&bytes).is_err(), "{other} at {at}");
            }
        }
        assert!(GlobalIntent::parse(&vec![b'x'; LEN_MAX_BYTES + 1]).is_err());
    }

    #[test]
    fn no_record_names_what_a_server_would_not_write() {
        let id = ObjectId::from_bytes(HashKind::Sha1, &[1; 20]).unwrap();
        let with = |first: &str, lines: &str| {
            let body = format!("{first}\n{lines}");
            let sum = crc32fast::hash(body.as_bytes());
            GlobalIntent::parse(format!("{body}sum {sum:08x}\n").as_bytes())
        };
        let first = format!("{MAGIC} sha1 node 3 start 17");
        assert!(with(&first, &format!("ref {id} {id} refs/heads/a\n")).is_ok());
        for name in ["HEAD", "refs/heads/../../config", "refs/worktree/x", "refs/", "/etc/x", ""] {
            assert!(with(&first, &format!("ref {id} {id} {name}\n")).is_err(), "{name}");
        }
        for lines in [
            String::new(),
            format!("log x\nref {id} {id} refs/heads/a\n"),
            format!("ref {id} {id} refs/heads/b\nref {id} {id} refs/heads/a\n"),
            format!("ref {id} {id} refs/heads/a\nref {id} {id} refs/heads/a\n"),
        ] {
            assert!(with(&first, &lines).is_err(), "{lines}");
        }
        for first in ["refdb batch 1 sha1 x", "refdb global 2 sha1 x", "refdb global 1 md5 x", "refdb global 1 sha1 "] {
            assert!(with(first, &format!("ref {id} {id} refs/heads/a\n")).is_err(), "{first}");
        }
    }
}
