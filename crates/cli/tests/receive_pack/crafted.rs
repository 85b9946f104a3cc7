//! Writes packs that no client of git's writes, entry by entry.

use flate2::{Compression, write::ZlibEncoder};
use refdb_types::{HashKind, ObjectId};
use std::io::Write;

/// Types of objects, with their numbers in packs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Commit = 1,
    Tree = 2,
    Blob = 3,
    Tag = 4,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        ["commit", "tree", "blob", "tag"][self as usize - 1]
    }
}

const REF_DELTA: u8 = 7;

fn id(digest: gix_hash::ObjectId) -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, digest.as_slice()).unwrap()
}

fn digest(parts: &[&[u8]]) -> gix_hash::ObjectId {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    parts.iter().for_each(|part| hasher.update(part));
    hasher.try_finalize().unwrap()
}

pub(crate) fn id_of(kind: Kind, content: &[u8]) -> ObjectId {
    id(digest(&[format!("{} {}\0", kind.name(), content.len()).as_bytes(), content]))
}

pub(crate) fn commit(tree: ObjectId, parents: &[ObjectId], message: &str) -> Vec<u8> {
    let parents: String = parents.iter().map(|parent| format!("parent {parent}\n")).collect();
    format!("tree {tree}\n{parents}author A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\n{message}").into_bytes()
}

pub(crate) fn tag(target: ObjectId, kind: Kind, message: &str) -> Vec<u8> {
    format!("object {target}\ntype {}\ntag t\ntagger T <t@x> 1 +0000\n\n{message}", kind.name()).into_bytes()
}

pub(crate) fn tree(entries: &[(&str, &str, ObjectId)]) -> Vec<u8> {
    let entry =
        |(mode, name, id): &(&str, &str, ObjectId)| [format!("{mode} {name}\0").as_bytes(), id.as_bytes()].concat();
    entries.iter().flat_map(entry).collect()
}

/// A pack that is being written.
#[derive(Default)]
pub(crate) struct Pack {
    entries: Vec<u8>,
    count: u32,
}

impl Pack {
    fn entry(&mut self, number: u8, base: &[u8], data: &[u8]) {
        let mut size = data.len();
        let mut byte = number << 4 | (size & 15) as u8;
        size >>= 4;
        while size > 0 {
            self.entries.push(byte | 0x80);
            byte = (size & 0x7f) as u8;
            size >>= 7;
        }
        self.entries.push(byte);
        self.entries.extend_from_slice(base);
        let mut deflated = ZlibEncoder::new(Vec::new(), Compression::fast());
        deflated.write_all(data).unwrap();
        self.entries.extend(deflated.finish().unwrap());
        self.count += 1;
    }

    pub(crate) fn whole(&mut self, kind: Kind, content: &[u8]) -> ObjectId {
        self.entry(kind as u8, b"", content);
        id_of(kind, content)
    }

    /// Adds a delta that keeps the start that `content` and `base` have in common, up to 65,535 bytes, and inserts the
    /// rest.
    pub(crate) fn delta(&mut self, kind: Kind, base: &[u8], content: &[u8]) -> ObjectId {
        let same = base.iter().zip(content).take_while(|(a, b)| a == b).count().min(0xffff);
        let mut delta = [varint(base.len()), varint(content.len())].concat();
        if same > 0 {
            delta.extend(copy(0, same));
        }
        for insert in content[same..].chunks(127) {
            delta.push(insert.len() as u8);
            delta.extend_from_slice(insert);
        }
        self.entry(REF_DELTA, id_of(kind, base).as_bytes(), &delta);
        id_of(kind, content)
    }

    /// Adds the base `start` plus `rest`, and a delta whose content is `start` followed by `times` copies of `rest`.
    pub(crate) fn repeating(&mut self, kind: Kind, start: &[u8], rest: &[u8], times: usize) -> ObjectId {
        let base = [start, rest].concat();
        self.whole(kind, &base);
        let content = [start, &rest.repeat(times)].concat();
        let mut delta = [varint(base.len()), varint(content.len())].concat();
        if !start.is_empty() {
            delta.extend(copy(0, start.len()));
        }
        (0..times).for_each(|_| delta.extend(copy(start.len(), rest.len())));
        self.entry(REF_DELTA, id_of(kind, &base).as_bytes(), &delta);
        id_of(kind, &content)
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let head = [&b"PACK\0\0\0\x02"[..], &self.count.to_be_bytes()].concat();
        let trailer = digest(&[&head, &self.entries]);
        [&head, &self.entries, trailer.as_slice()].concat()
    }
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns a delta instruction that copies 1 to 65,535 bytes of the base from an offset below 64 KiB.
fn copy(offset: usize, len: usize) -> [u8; 5] {
    assert!(offset <= 0xffff && (1..=0xffff).contains(&len));
    let [low, high] = (offset as u16).to_le_bytes();
    let [len_low, len_high] = (len as u16).to_le_bytes();
    [0xb3, low, high, len_low, len_high]
}

/// Returns a request that creates refs, followed by a pack.
pub(crate) fn request(refs: &[(&str, ObjectId)], pack: Vec<u8>) -> Vec<u8> {
    let commands: Vec<_> = refs.iter().map(|(name, new)| (*name, ObjectId::null(HashKind::Sha1), *new)).collect();
    change(&commands, pack)
}

/// Returns a request that changes refs from one id to another, followed by a pack.
pub(crate) fn change(commands: &[(&str, ObjectId, ObjectId)], pack: Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, (name, old, new)) in commands.iter().enumerate() {
        let capabilities = if at == 0 { "\0report-status" } else { "" };
        let line = format!("{old} {new} {name}{capabilities}");
        bytes.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
    }
    bytes.extend_from_slice(b"0000");
    bytes.extend(pack);
    bytes
}
