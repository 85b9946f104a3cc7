//! Commits and their parents.

use crate::{
    failure::{Result, fatal, message, say},
    replaced,
    session::Session,
};
use bstr::ByteSlice;
use refdb::{Objects, Store, objects::ObjectKind};
use refdb_types::{HashKind, ObjectId};
use std::{
    cell::OnceCell,
    collections::{BinaryHeap, HashMap},
    fs,
    path::PathBuf,
};

/// The most tags that are followed one after the other. Only tags that `refs/replace/` replaces can form a circle.
pub(super) const TAGS_MAX: usize = 10_000;

/// The commits of a repository.
pub struct History<'a> {
    store: &'a Store,
    graft_file: PathBuf,
    shallow_file: PathBuf,
    /// The commits that have other parents than they say: those of a graft, or none at the end of a shallow clone.
    grafts: OnceCell<HashMap<ObjectId, Vec<ObjectId>>>,
}

/// A commit, as far as history is concerned.
#[derive(Clone, Debug)]
pub struct Commit {
    pub parents: Vec<ObjectId>,
    /// The committer's time in seconds since 1970.
    pub seconds: i64,
}

impl<'a> History<'a> {
    /// Returns the commits of the session's repository, which are read when they are asked for.
    pub fn of(session: &'a Session) -> Self {
        let own = session.store.environment().get("GIT_GRAFT_FILE").map(PathBuf::from);
        let graft_file = own.unwrap_or_else(|| session.paths.common_dir.join("info/grafts"));
        let shallow_file = session.paths.common_dir.join("shallow");
        History { store: &session.store, graft_file, shallow_file, grafts: OnceCell::new() }
    }

    /// Returns the objects, with replacements applied.
    pub fn objects(&self) -> refdb::Result<&'a Objects> {
        replaced::apply(self.store)?;
        Ok(self.store.objects())
    }

    /// Returns the parents that a commit has instead of those that it names, or `None` if it has the latter.
    pub fn grafted(&self, id: &ObjectId) -> Option<&[ObjectId]> {
        self.grafts.get_or_init(|| self.read_grafts(id.kind())).get(id).map(Vec::as_slice)
    }

    /// Reads the grafts and the ends of a shallow clone. Lines of the graft file that git does not accept are reported
    /// on standard error.
    fn read_grafts(&self, kind: HashKind) -> HashMap<ObjectId, Vec<ObjectId>> {
        let mut grafts = HashMap::new();
        let parse = |hex: &[u8]| ObjectId::from_hex(kind, hex).ok();
        for line in fs::read(&self.graft_file).unwrap_or_default().lines() {
            let line = line.trim_ascii_end();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let ids = line.split(u8::is_ascii_whitespace).map(parse).collect::<Option<Vec<_>>>();
            match ids.as_deref().and_then(<[_]>::split_first) {
                None => say("error: ", &message!["bad graft data: ", line]),
                Some((id, _)) if grafts.contains_key(id) => say("error: ", &message!["duplicate graft data: ", line]),
                Some((id, parents)) => drop(grafts.insert(*id, parents.to_vec())),
            }
        }
        let shallow = fs::read(&self.shallow_file).unwrap_or_default();
        grafts.extend(shallow.lines().filter_map(parse).map(|id| (id, Vec::new())));
        grafts
    }

    /// Returns a commit.
    ///
    /// # Errors
    ///
    /// Fails if there is no commit of that id, or if it cannot be read.
    pub fn commit(&self, id: &ObjectId) -> Result<Commit> {
        match self.find_commit(id)? {
            Some(commit) => Ok(commit),
            None => fatal!["missing commit ", id.to_string()],
        }
    }

    /// Returns a commit that another one leads to. A missing one is reported on standard error and has no parents.
    pub fn ancestor(&self, id: &ObjectId) -> Result<Commit> {
        Ok(self.find_commit(id)?.unwrap_or_else(|| {
            say("error: ", &message!["Could not read ", id.to_string()]);
            Commit { parents: Vec::new(), seconds: 0 }
        }))
    }

    /// Returns a commit, or `None` if there is none of that id.
    pub fn find_commit(&self, id: &ObjectId) -> refdb::Result<Option<Commit>> {
        let mut data = Vec::new();
        if self.objects()?.content(id, &mut data)? != Some(ObjectKind::Commit) {
            return Ok(None);
        }
        let header = || data.lines().take_while(|line| !line.is_empty());
        let parent = |line: &[u8]| ObjectId::from_hex(id.kind(), line.strip_prefix(b"parent ")?).ok();
        let parents = match self.grafted(id) {
            Some(parents) => parents.to_vec(),
            None => header().filter_map(parent).collect(),
        };
        let committer = header().find_map(|line| line.strip_prefix(b"committer "));
        let time = committer.and_then(|line| line.rsplit(|byte| *byte == b'>').next());
        let seconds = time.and_then(|time| time.trim_start().split(|byte| *byte == b' ').next()?.to_str().ok());
        Ok(Some(Commit { parents, seconds: seconds.and_then(|digits| digits.parse().ok()).unwrap_or(0) }))
    }

    /// Returns the commit that an object is or that a tag leads to. If the object is a tree or blob, or if a tag claims
    /// to lead to one, standard error says so. A missing object, a tag without a valid target, and a tag that leads to
    /// no commit although it claims to do so are not reported.
    pub fn named_commit(&self, named: ObjectId) -> Result<Option<ObjectId>> {
        let mut id = named;
        let Some(mut kind) = self.objects()?.kind(&id)? else { return Ok(None) };
        for _ in 0..TAGS_MAX {
            if kind != ObjectKind::Tag {
                break;
            }
            let Some(tagged) = self.tagged(&id)? else { return Ok(None) };
            (id, kind) = tagged;
        }
        if kind != ObjectKind::Commit {
            say("error: ", &message!["object ", named.to_string(), " is a ", kind.name(), ", not a commit"]);
            return Ok(None);
        }
        Ok((self.objects()?.kind(&id)? == Some(ObjectKind::Commit)).then_some(id))
    }

    /// Returns the commit that an object is or that a tag leads to. The result is `None` if there is no such commit
    /// and, as in git, if a tag claims another kind for its target than the target has.
    pub fn peel_to_commit(&self, mut id: ObjectId) -> refdb::Result<Option<ObjectId>> {
        let mut kind = self.objects()?.kind(&id)?;
        for _ in 0..TAGS_MAX {
            if kind != Some(ObjectKind::Tag) {
                break;
            }
            let Some((target, claimed)) = self.tagged(&id)? else { return Ok(None) };
            (id, kind) = (target, self.objects()?.kind(&target)?.filter(|actual| *actual == claimed));
        }
        Ok((kind == Some(ObjectKind::Commit)).then_some(id))
    }

    /// Returns the commit of a ref that is listed. A tag with a false claim about its target is reported on standard
    /// error.
    pub fn listed_commit(&self, mut id: ObjectId) -> Result<Option<ObjectId>> {
        for _ in 0..TAGS_MAX {
            if self.objects()?.kind(&id)? != Some(ObjectKind::Tag) {
                break;
            }
            let Some((target, claimed)) = self.tagged(&id)? else { return Ok(None) };
            if let Some(actual) = self.objects()?.kind(&target)?
                && actual != claimed
            {
                say_lie(&id, &target, actual, claimed.name().as_bytes());
                return Ok(None);
            }
            id = target;
        }
        Ok((self.objects()?.kind(&id)? == Some(ObjectKind::Commit)).then_some(id))
    }

    /// Returns the target of a tag and the kind that the tag claims for it.
    fn tagged(&self, tag: &ObjectId) -> refdb::Result<Option<(ObjectId, ObjectKind)>> {
        let mut data = Vec::new();
        self.objects()?.content(tag, &mut data)?;
        let value = |name: &[u8]| data.lines().find_map(|line| line.strip_prefix(name));
        let target = value(b"object ").and_then(|hex| ObjectId::from_hex(tag.kind(), hex).ok());
        Ok(target.zip(value(b"type ").and_then(ObjectKind::from_name)))
    }

    /// Returns the number of commits that can be reached from `one` but not from `two`, and the other way round.
    ///
    /// Walks back from both, the newest commit first, and ends soon after everything that is left can be reached from
    /// both. As in git, commits that are older than their parents may lead to a wrong result.
    pub fn ahead_behind(&self, one: ObjectId, two: ObjectId) -> Result<(usize, usize)> {
        let mut walk = BothWays { history: self, seen: HashMap::new(), queue: BinaryHeap::new(), one_sided: 0 };
        walk.paint(one, ONE)?;
        walk.paint(two, TWO)?;
        let mut oldest = i64::MAX;
        while let Some(&(seconds, id)) = walk.queue.peek()
            && (walk.one_sided > 0 || seconds >= oldest)
        {
            walk.queue.pop();
            let Some(found) = walk.seen.get_mut(&id) else { continue };
            found.is_queued = false;
            let (sides, parents) = (found.sides, found.commit.parents.clone());
            if sides != BOTH {
                walk.one_sided -= 1;
                oldest = oldest.min(seconds);
            }
            for parent in parents {
                walk.paint(parent, sides)?;
            }
        }
        let count = |sides| walk.seen.values().filter(|found| found.sides == sides).count();
        Ok((count(ONE), count(TWO)))
    }
}

/// Reports a tag that claims another kind than its target has.
pub fn say_lie(tag: &ObjectId, target: &ObjectId, actual: ObjectKind, claimed: &[u8]) {
    let (tag, target) = (tag.to_string(), target.to_string());
    say("error: ", &message!["object ", target, " is a ", actual.name(), ", not a ", claimed]);
    say("error: ", &message!["bad tag pointer to ", target, " in ", tag]);
}

const ONE: u8 = 1;
const TWO: u8 = 2;
const BOTH: u8 = ONE | TWO;

/// A walk back from two commits.
struct BothWays<'h, 'o> {
    history: &'h History<'o>,
    seen: HashMap<ObjectId, Found>,
    queue: BinaryHeap<(i64, ObjectId)>,
    /// The number of queued commits that, as far as is known, can be reached from one side only.
    one_sided: usize,
}

struct Found {
    commit: Commit,
    sides: u8,
    is_queued: bool,
}

impl BothWays<'_, '_> {
    /// Records that a commit can be reached from `sides`. If a side is new, the commit is queued, so that its parents
    /// are painted too.
    fn paint(&mut self, id: ObjectId, sides: u8) -> Result<()> {
        if !self.seen.contains_key(&id) {
            let commit = self.history.ancestor(&id)?;
            self.seen.insert(id, Found { commit, sides: 0, is_queued: false });
        }
        let Some(found) = self.seen.get_mut(&id) else { return Ok(()) };
        let before = found.sides;
        found.sides |= sides;
        if found.sides == before {
            return Ok(());
        }
        if found.is_queued {
            // The commit was reachable from one side only until now.
            self.one_sided -= 1;
        } else {
            found.is_queued = true;
            self.queue.push((found.commit.seconds, id));
            self.one_sided += usize::from(found.sides != BOTH);
        }
        Ok(())
    }
}
