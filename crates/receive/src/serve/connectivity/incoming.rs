//! The objects of a push, in its quarantine.

use crate::serve::deadline::Deadline;
use refdb::{
    Objects,
    objects::{Link, ObjectKind, links, pack_entries},
};
use refdb_types::{HashKind, ObjectId};
use std::{collections::HashMap, path::PathBuf};

/// Maximum number of objects of a push that refdb checks itself. Git checks larger pushes, because it needs less memory
/// for many objects.
const OBJECTS_MAX: usize = 50_000;

/// Maximum length of the delta chain of a commit, tree or tag. Git checks pushes with longer chains. Each object is
/// read from the start of its chain, so the cost of reading a whole chain grows with the square of its length.
const DELTAS_MAX: u32 = 100;

/// The objects of a quarantine. Their ids are trusted, because git has just computed them from the contents.
#[derive(Debug)]
pub(super) struct Incoming {
    objects: Objects,
    kinds: HashMap<ObjectId, ObjectKind>,
    deadline: Deadline,
}

impl Incoming {
    /// Reads which objects are in the folder. Returns `None` if git has to do the walk: there are too many objects,
    /// an object that must be read, or a base of its deltas, is larger than `read_max_bytes`, the object has too long a
    /// delta chain, or an object cannot be read. No object that takes more memory than `read_max_bytes` is read later.
    pub(super) fn of(folder: PathBuf, hash: HashKind, read_max_bytes: u64, deadline: Deadline) -> Option<Self> {
        let objects = Objects::in_dir(folder.clone(), hash);
        objects.limit_reads(read_max_bytes);
        let ids = objects.ids().ok().filter(|ids| ids.len() <= OBJECTS_MAX)?;
        let packed = pack_entries(&folder, hash).ok()?;
        let mut kinds = HashMap::with_capacity(ids.len());
        for id in ids {
            let (kind, bytes, deltas) = match packed.get(&id) {
                Some(entry) => (entry.kind, entry.largest_bytes, entry.deltas),
                None => objects.header(&id).ok()?.map(|header| (header.kind, header.size_bytes, 0))?,
            };
            let is_too_much = bytes > read_max_bytes || deltas > DELTAS_MAX;
            if kind != ObjectKind::Blob && is_too_much {
                return None;
            }
            kinds.insert(id, kind);
        }
        Some(Incoming { objects, kinds, deadline })
    }

    /// Returns the empty set, for a push without objects.
    pub(super) fn nothing(hash: HashKind, deadline: Deadline) -> Self {
        Incoming { objects: Objects::in_dir(PathBuf::new(), hash), kinds: HashMap::new(), deadline }
    }

    pub(super) fn has(&self, id: &ObjectId) -> bool {
        self.kinds.contains_key(id)
    }

    /// Returns the kind of an object, or `None` if it is not in the push.
    pub(super) fn kind(&self, id: &ObjectId) -> Option<ObjectKind> {
        self.kinds.get(id).copied()
    }

    /// Passes every link of an object to `found`, and returns the kind of the object. Returns `None` if the object is
    /// not in the push, cannot be read within the limits on memory and time, or is malformed. A blob has no links and
    /// is not read.
    pub(super) fn links(&self, id: &ObjectId, found: &mut dyn FnMut(Link<'_>)) -> Option<ObjectKind> {
        let kind = self.kind(id)?;
        if kind == ObjectKind::Blob {
            return Some(kind);
        }
        self.deadline.check()?;
        let mut data = Vec::new();
        let read = self.objects.content(id, &mut data).ok().flatten()?;
        links(read, &data, id.kind(), &mut |link| found(link))?;
        (read == kind).then_some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::deadline::WALKS;
    use refdb_testkit::{RefFormat, Repo, Rng};
    use std::{fmt::Write, time::Duration};

    /// Creates commits of 24,000 bytes each, every one with 4,000 bytes that the one before does not have, in one pack.
    fn deltas() -> Repo {
        let (repo, mut rng, mut stream) = (Repo::bare(RefFormat::Files, HashKind::Sha1), Rng::new(5), String::new());
        let mut message: Vec<_> = (0..24_000).map(|_| b'a' + rng.below(26) as u8).collect();
        for at in 0..20 {
            message.rotate_left(4_000);
            message[20_000..].fill_with(|| b'a' + rng.below(26) as u8);
            let text = str::from_utf8(&message).unwrap();
            writeln!(stream, "commit refs/heads/main\ncommitter A <a@x> {at} +0000\ndata 24000\n{text}").unwrap();
        }
        repo.git_with_input(["fast-import", "--quiet"], stream);
        repo.git(["repack", "-adfq", "--depth=50", "--window=10"]);
        repo
    }

    fn read(repo: &Repo, read_max_bytes: u64, time: Duration) -> (Incoming, usize) {
        let folder = repo.git_dir().join("objects");
        let incoming = Incoming::of(folder, HashKind::Sha1, read_max_bytes, Deadline::after(time)).unwrap();
        let read = incoming.kinds.keys().filter(|id| incoming.links(id, &mut |_| {}).is_some()).count();
        (incoming, read)
    }

    /// Regression: only the sizes of contents were limited, and deltas can together be far larger.
    #[test]
    fn deltas_and_time_are_limited_too() {
        let repo = deltas();
        let (incoming, count) = read(&repo, 1 << 20, WALKS);
        assert_eq!((incoming.kinds.len(), count), (21, 21));
        let (incoming, count) = read(&repo, 60_000, WALKS);
        assert!(incoming.kinds.len() == 21 && count < 20, "objects behind many deltas are not read: {count}");
        assert_eq!(read(&repo, 1 << 20, Duration::ZERO).1, 0);
    }
}
