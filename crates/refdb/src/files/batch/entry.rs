//! The journal entry of a small batch, and how it is encoded and parsed. docs/formats/intent.md has the format.

use crate::files::strategy::REFS_MAX;
use bstr::{BString, ByteSlice};
use refdb_types::{HashKind, ObjectId, RefName, Scope};

/// The maximum length of an entry, which has at most [`REFS_MAX`] refs, each with a name and perhaps a reflog line.
/// refdb never writes a longer entry.
pub(crate) const LEN_MAX_BYTES: usize = 1 << 20;

/// What a small batch is about to change. It is written before the first ref changes, so that another process can
/// complete or drop the batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalEntry {
    /// The hash function of all ids.
    pub hash: HashKind,
    /// Whether the entry, and what it relies on, was on stable storage before the first ref changed.
    pub synced: bool,
    /// Linux' `boot_id` when the entry was written.
    pub boot: String,
    /// The refs in ascending byte order of their names.
    pub refs: Vec<JournalRef>,
}

/// One ref of a journal entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalRef {
    /// The name of a shared ref below `refs/`.
    pub name: RefName,
    /// The value before the batch; `None` if the ref did not exist.
    pub old: Option<ObjectId>,
    /// The value after the batch, never the null id.
    pub new: ObjectId,
    /// The line to append to the ref's reflog, without its newline; `None` for no line.
    pub log: Option<BString>,
}

/// Why bytes are not a journal entry, or not a [`GlobalIntent`](crate::global::GlobalIntent).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {offset}: {what}")]
pub struct JournalFault {
    /// The byte offset at which the faulty line begins, at which a line is missing, or at which the longest entry or
    /// intent ends.
    pub offset: usize,
    /// What is wrong there.
    pub what: &'static str,
}

const MAGIC: &str = "refdb batch 1";

/// The byte offset of the entry in a journal file. Disks write sectors of this size as a unit, so a torn write of the
/// entry leaves the signing line at the start of the file intact.
pub(crate) const ENTRY_AT: usize = 512;

impl JournalEntry {
    /// The bytes of the entry in its file.
    ///
    /// # Panics
    ///
    /// Panics if the entry has no ref, or more than a small batch may have.
    pub fn encode(&self) -> Vec<u8> {
        assert!((1..=REFS_MAX).contains(&self.refs.len()), "a small batch has a few refs: {}", self.refs.len());
        let synced = if self.synced { "synced" } else { "unsynced" };
        let mut out = format!("{MAGIC} {} {synced} {}\n", self.hash.name(), self.boot).into_bytes();
        for entry in &self.refs {
            out.extend_from_slice(b"ref ");
            entry.old.unwrap_or(ObjectId::null(self.hash)).write_hex(&mut out);
            out.push(b' ');
            entry.new.write_hex(&mut out);
            out.push(b' ');
            out.extend_from_slice(&entry.name);
            out.push(b'\n');
            if let Some(log) = &entry.log {
                debug_assert!(!log.contains(&b'\n'), "an entry of a reflog is one line");
                out.extend_from_slice(b"log ");
                out.extend_from_slice(log);
                out.push(b'\n');
            }
        }
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(format!("sum {sum:08x}\n").as_bytes());
        debug_assert_eq!(JournalEntry::parse(&out).as_ref(), Ok(self), "an entry is read as it was written");
        out
    }

    /// Parses an entry. The checksum, the names and their order, and the ids are checked, because other users of a
    /// shared repository may write the file and a disk may lose bytes.
    ///
    /// # Errors
    ///
    /// Returns the fault of an entry that is too long or incomplete or has a wrong checksum, or else that of the first
    /// line that is not valid, or else that there is no ref.
    pub fn parse(bytes: &[u8]) -> Result<Self, JournalFault> {
        let fault = |offset, what| Err(JournalFault { offset, what });
        if bytes.len() > LEN_MAX_BYTES {
            return fault(LEN_MAX_BYTES, "longer than any journal entry");
        }
        let body = summed(bytes)?;
        let mut lines = journal_lines(body);
        let Some(mut parsed) = lines.next().and_then(|(_, first)| head(first)) else {
            return fault(0, "no first line of a journal entry");
        };
        for (offset, line) in lines {
            match line.split_once_str(" ") {
                Some((b"ref", rest)) if parsed.refs.len() < REFS_MAX => match journal_ref(parsed.hash, rest) {
                    Ok(entry) if parsed.refs.last().is_none_or(|before| before.name < entry.name) => {
                        parsed.refs.push(entry);
                    }
                    Ok(_) => return fault(offset, "names out of order"),
                    Err(what) => return fault(offset, what),
                },
                Some((b"ref", _)) => return fault(offset, "more refs than a journal entry may have"),
                Some((b"log", rest)) => match parsed.refs.last_mut() {
                    Some(entry) if entry.log.is_none() => entry.log = Some(rest.into()),
                    _ => return fault(offset, "a reflog's line without its ref"),
                },
                _ => return fault(offset, "a line of no known kind"),
            }
        }
        if parsed.refs.is_empty() {
            return fault(body.len(), "no ref");
        }
        Ok(parsed)
    }
}

/// The length of the checksum line, together with the newline before it.
const LAST_LINE_LEN: usize = "\nsum 01234567\n".len();

/// Returns the entry in the bytes of a journal file; `None` if there is none, or only a part of one. A part means that
/// writing or wiping the entry was interrupted, so that its batch had not begun, or was complete.
pub fn entry_in_journal_file(bytes: &[u8]) -> Option<&[u8]> {
    let place = bytes.get(ENTRY_AT..)?;
    let len = place.iter().rposition(|byte| *byte != 0)? + 1;
    Some(&place[..len]).filter(|entry| !is_torn(entry))
}

/// Returns whether an entry is incomplete: it lacks its last line, or zeros stand where it was not written yet or is
/// already wiped.
fn is_torn(bytes: &[u8]) -> bool {
    let last = bytes.len().checked_sub(LAST_LINE_LEN).map_or(&[][..], |start| &bytes[start..]);
    let is_end = last.starts_with(b"\nsum ") && last.ends_with(b"\n");
    !is_end || bytes.contains(&0) && JournalEntry::parse(bytes).is_err()
}

/// Returns the bytes before the checksum line, if that line is the last one and its checksum is right.
pub(crate) fn summed(bytes: &[u8]) -> Result<&[u8], JournalFault> {
    const LEN: usize = "sum 01234567\n".len();
    let torn = JournalFault { offset: bytes.len(), what: "its checksum is missing: it is incomplete" };
    let start = bytes.len().checked_sub(LEN).ok_or_else(|| torn.clone())?;
    let (body, sum) = bytes.split_at(start);
    if !sum.starts_with(b"sum ") || !sum.ends_with(b"\n") || !body.ends_with(b"\n") {
        return Err(torn);
    }
    if sum != format!("sum {:08x}\n", crc32fast::hash(body)).as_bytes() {
        return Err(JournalFault { offset: start, what: "its checksum is wrong" });
    }
    Ok(body)
}

/// Parses the first line into an entry without refs.
fn head(line: &[u8]) -> Option<JournalEntry> {
    let mut words = line.to_str().ok()?.strip_prefix(MAGIC)?.strip_prefix(' ')?.split(' ');
    let (hash, synced, boot) = (words.next()?, words.next()?, words.next()?);
    let synced = match synced {
        "synced" => true,
        "unsynced" => false,
        _ => return None,
    };
    let is_over = words.next().is_none() && !boot.is_empty();
    is_over.then_some(JournalEntry {
        hash: HashKind::from_name(hash)?,
        synced,
        boot: boot.to_owned(),
        refs: Vec::new(),
    })
}

/// Parses a `ref` line, without its first word.
fn journal_ref(hash: HashKind, text: &[u8]) -> Result<JournalRef, &'static str> {
    match ref_line(hash, text)? {
        (name, old, Some(new)) => Ok(JournalRef { name, old, new, log: None }),
        (_, _, None) => Err("a deletion, which no journal entry has"),
    }
}

/// Parses `OLD SP NEW SP NAME`, where the null id stands for no ref.
pub(crate) fn ref_line(
    hash: HashKind,
    text: &[u8],
) -> Result<(RefName, Option<ObjectId>, Option<ObjectId>), &'static str> {
    let len = hash.len_hex();
    let id = |at: usize| ObjectId::from_hex(hash, text.get(at..at + len)?).ok();
    let (Some(old), Some(new)) = (id(0), id(len + 1)) else { return Err("no two object ids") };
    if text[len] != b' ' || text.get(2 * len + 1) != Some(&b' ') {
        return Err("no two object ids");
    }
    // The rules are those for a push: a name that git accepts, below `refs/`, that is not a per-worktree ref.
    let name = RefName::new(&text[2 * len + 2..]).map_err(|_| "a bad refname")?;
    if !name.starts_with(b"refs/") || Scope::of(&name) != Scope::Shared {
        return Err("a ref that is not shared, or not below refs/");
    }
    Ok((name, Some(old).filter(|id| !id.is_null()), Some(new).filter(|id| !id.is_null())))
}

/// The lines of an entry with their byte offsets, without their newlines. An unterminated last line is left out.
pub(crate) fn journal_lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    Lines { bytes, at: 0 }
}

struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.at..];
        let len = rest.find_byte(b'\n')?;
        let offset = self.at;
        self.at += len + 1;
        Some((offset, &rest[..len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(hash: HashKind, byte: u8) -> ObjectId {
        ObjectId::from_bytes(hash, &[byte; 32][..hash.len_bytes()]).unwrap()
    }

    fn sample(hash: HashKind) -> JournalEntry {
        let entry = |name: &str, old: Option<u8>, log: Option<&str>| JournalRef {
            name: RefName::new(name).unwrap(),
            old: old.map(|byte| id(hash, byte)),
            new: id(hash, 9),
            log: log.map(BString::from),
        };
        let refs = vec![
            entry("refs/changes/45/12345/1", None, Some("0 1 A <a@b> 1 +0000\tcreated")),
            entry("refs/changes/45/12345/meta", Some(3), None),
            entry("refs/heads/\u{fc}", Some(4), Some("")),
        ];
        JournalEntry { hash, synced: true, boot: "9c1e-boot".into(), refs }
    }

    /// Appends a correct checksum to the bytes.
    fn with_sum(body: &[u8]) -> Vec<u8> {
        [body, format!("sum {:08x}\n", crc32fast::hash(body)).as_bytes()].concat()
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            for synced in [true, false] {
                let entry = JournalEntry { synced, ..sample(hash) };
                assert_eq!(JournalEntry::parse(&entry.encode()), Ok(entry));
            }
        }
    }

    #[test]
    fn an_entry_that_is_cut_or_has_another_byte_is_none() {
        let whole = sample(HashKind::Sha1).encode();
        for at in 0..whole.len() {
            assert!(JournalEntry::parse(&whole[..at]).is_err(), "cut at {at}");
            for other in [0, b'\n', b' ', whole[at] ^ 1, 0xff].into_iter().filter(|byte| *byte != whole[at]) {
                let mut bytes = whole.clone();
                bytes[at] = other;
                assert!(JournalEntry::parse(&bytes).is_err(), "{other} at {at}");
            }
        }
        assert!(JournalEntry::parse(&vec![b'x'; LEN_MAX_BYTES + 1]).is_err());
        assert!(JournalEntry::parse(&vec![0; whole.len()]).is_err());
    }

    #[test]
    fn no_entry_names_what_a_push_could_not() {
        let (old, new) = (id(HashKind::Sha1, 1), id(HashKind::Sha1, 2));
        let null = ObjectId::null(HashKind::Sha1);
        let with =
            |lines: &str| JournalEntry::parse(&with_sum(format!("{MAGIC} sha1 synced boot\n{lines}").as_bytes()));
        assert!(with(&format!("ref {old} {new} refs/heads/a\n")).is_ok());
        for name in [
            "HEAD",
            "refs/heads/../../config",
            "refs/heads/a..b",
            "refs/heads/a.lock",
            "refs/../x",
            "/etc/x",
            "refs/",
            "refs/bisect/bad",
            "refs/worktree/x",
            "main-worktree/refs/heads/a",
            "worktrees/w/HEAD",
            "",
        ] {
            assert!(with(&format!("ref {old} {new} {name}\n")).is_err(), "{name}");
        }
        for lines in [
            String::new(),
            format!("ref {old} {null} refs/heads/a\n"),
            format!("ref {old} refs/heads/a\n"),
            format!("log x\nref {old} {new} refs/heads/a\n"),
            format!("ref {old} {new} refs/heads/a\nlog x\nlog y\n"),
            format!("ref {old} {new} refs/heads/b\nref {old} {new} refs/heads/a\n"),
            format!("ref {old} {new} refs/heads/a\nref {old} {new} refs/heads/a\n"),
            format!("rev {old} {new} refs/heads/a\n"),
            (0..=REFS_MAX).map(|at| format!("ref {old} {new} refs/heads/{at:03}\n")).collect(),
        ] {
            assert!(with(&lines).is_err(), "{lines}");
        }
        for first in
            ["refdb batch 2 sha1 synced boot\n", "refdb batch 1 md5 synced boot\n", "refdb batch 1 sha1 synced\n"]
        {
            assert!(
                JournalEntry::parse(&with_sum(format!("{first}ref {old} {new} refs/heads/a\n").as_bytes())).is_err()
            );
        }
    }

    fn slot(record: &[u8]) -> Vec<u8> {
        [&[b'x'; ENTRY_AT][..], record, &[0; 3000]].concat()
    }

    #[test]
    fn a_slot_has_the_record_that_was_written_whole_and_no_other() {
        let record = sample(HashKind::Sha1).encode();
        assert_eq!(entry_in_journal_file(&slot(&record)), Some(&record[..]));
        for none in [&b""[..], &b"x"[..], &[b'x'; ENTRY_AT], &[b'x'; ENTRY_AT + 1], &slot(b"")] {
            assert_eq!(entry_in_journal_file(none), None);
        }
        for at in 0..record.len() {
            // The entry may be torn at either end while it is written, and while it is wiped.
            assert_eq!(entry_in_journal_file(&slot(&record[..at])), None, "the first {at} bytes");
            let zeros = [&vec![0; at.max(1)], &record[at.max(1)..]].concat();
            assert_eq!(entry_in_journal_file(&slot(&zeros)), None, "zeros for the first {at} bytes");
        }
        // A byte that the disk has damaged is no reason to forget the batch.
        let mut harmed = record.clone();
        harmed[7] = b'y';
        assert_eq!(entry_in_journal_file(&slot(&harmed)), Some(&harmed[..]));
    }
}
