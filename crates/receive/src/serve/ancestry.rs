//! Decides whether one commit is an ancestor of another, with one cache of commits for all commands of a push.

use super::deadline::{Deadline, WALKS};
use bstr::ByteSlice;
use refdb::{
    Objects,
    objects::{ObjectKind, links},
};
use refdb_types::ObjectId;
use std::{
    collections::{BinaryHeap, HashMap},
    rc::Rc,
    time::{Duration, Instant},
};

/// Maximum number of commits in the cache, which is cleared before another commit is added to a full one.
const KNOWN_MAX: usize = 200_000;

/// Flag of commits that are reachable from the older commit.
const OLD: u8 = 1;
/// Flag of commits that are reachable from the newer commit.
const NEW: u8 = 2;

/// The part of a commit that the walk needs.
#[derive(Debug)]
struct Commit {
    parents: Vec<ObjectId>,
    seconds: i64,
}

/// Walks through the history of a repository, and caches the commits.
#[derive(Debug)]
pub(super) struct Ancestry<'o> {
    objects: &'o Objects,
    /// Maximum size in bytes of a commit that is read.
    read_max_bytes: u64,
    /// The time that is left for walks.
    left: Duration,
    /// When the present walk has to end.
    deadline: Deadline,
    known: HashMap<ObjectId, Rc<Commit>>,
}

impl<'o> Ancestry<'o> {
    pub(super) fn new(objects: &'o Objects, read_max_bytes: u64) -> Self {
        Ancestry { objects, read_max_bytes, left: WALKS, deadline: Deadline::after(WALKS), known: HashMap::new() }
    }

    /// Returns whether `old` is reachable from `new`, or `None` if one of the objects that the walk visits is not a
    /// commit, cannot be read or is too large, if this walk and those before it take longer than [`WALKS`], or if a
    /// signal arrives.
    pub(super) fn leads_to(&mut self, new: ObjectId, old: ObjectId) -> Option<bool> {
        let begun = Instant::now();
        self.deadline = Deadline::after(self.left);
        let found = self.walk(new, old);
        self.left = self.left.saturating_sub(begun.elapsed());
        found
    }

    fn walk(&mut self, new: ObjectId, old: ObjectId) -> Option<bool> {
        let mut walk = Walk::default();
        walk.reach(old, OLD, self)?;
        walk.reach(new, NEW, self)?;
        // No ancestor of `old` can lead to `old`. The walk therefore ends when every commit in the queue is known to be
        // reachable from `old`.
        while !walk.is_found(&old) && walk.open > 0 {
            let (id, by) = walk.next()?;
            for parent in &self.commit(id)?.parents {
                walk.reach(*parent, by, self)?;
            }
        }
        Some(walk.is_found(&old))
    }

    fn commit(&mut self, id: ObjectId) -> Option<Rc<Commit>> {
        if let Some(known) = self.known.get(&id) {
            return Some(Rc::clone(known));
        }
        let commit = Rc::new(self.read(&id)?);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(id, Rc::clone(&commit));
        Some(commit)
    }

    fn read(&self, id: &ObjectId) -> Option<Commit> {
        self.deadline.check()?;
        let header = self.objects.header(id).ok()??;
        if header.kind != ObjectKind::Commit || header.size_bytes > self.read_max_bytes {
            return None;
        }
        let mut data = Vec::new();
        let kind = self.objects.content(id, &mut data).ok()??;
        let mut parents = Vec::new();
        links(kind, &data, id.kind(), &mut |link| {
            if link.kind == ObjectKind::Commit {
                parents.push(link.id);
            }
        })?;
        Some(Commit { parents, seconds: seconds(&data).unwrap_or(0) })
    }
}

/// Returns the time of a commit in seconds. The time affects only the order in which commits are visited, not the
/// result.
fn seconds(data: &[u8]) -> Option<i64> {
    let line = data.lines().take_while(|line| !line.is_empty()).find_map(|line| line.strip_prefix(b"committer "))?;
    let time = line.rsplit(|byte| *byte == b'>').next()?.to_str().ok()?;
    time.split_whitespace().next()?.parse().ok()
}

/// A single walk, which takes the youngest commit first.
#[derive(Debug, Default)]
struct Walk {
    reached: HashMap<ObjectId, Reached>,
    queue: BinaryHeap<(i64, ObjectId)>,
    /// The number of commits in the queue that, as far as the walk knows, are reachable only from the newer commit.
    open: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    by: u8,
    is_queued: bool,
}

impl Reached {
    fn is_open(self) -> bool {
        self.is_queued && self.by == NEW
    }
}

impl Walk {
    fn is_found(&self, old: &ObjectId) -> bool {
        self.reached.get(old).is_some_and(|reached| reached.by & NEW != 0)
    }

    fn reach(&mut self, id: ObjectId, by: u8, ancestry: &mut Ancestry<'_>) -> Option<()> {
        let before = self.reached.get(&id).copied().unwrap_or_default();
        let after = Reached { by: before.by | by, is_queued: true };
        if after.by == before.by {
            return Some(());
        }
        if !before.is_queued {
            self.queue.push((ancestry.commit(id)?.seconds, id));
        }
        self.reached.insert(id, after);
        self.open = self.open + usize::from(after.is_open()) - usize::from(before.is_open());
        Some(())
    }

    fn next(&mut self) -> Option<(ObjectId, u8)> {
        let (_, id) = self.queue.pop()?;
        let reached = self.reached.get_mut(&id)?;
        self.open -= usize::from(reached.is_open());
        reached.is_queued = false;
        Some((id, reached.by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_testkit::{RefFormat, Repo, Rng};
    use refdb_types::HashKind;
    use std::{collections::HashSet, fmt::Write};

    /// Creates commits with up to three parents each and times in random order, as `git fast-import` can.
    fn tangled(repo: &Repo, rng: &mut Rng, count: usize) -> Vec<ObjectId> {
        let mut stream = String::new();
        for at in 1..=count {
            let time = 1_000_000 + rng.below(50);
            writeln!(stream, "commit refs/heads/{at}\nmark :{at}\ncommitter A <a@x> {time} +0000\ndata 0").unwrap();
            let parents: HashSet<usize> = (0..rng.below(4).min(at - 1)).map(|_| 1 + rng.below(at - 1)).collect();
            for (position, parent) in parents.iter().enumerate() {
                writeln!(stream, "{} :{parent}", if position == 0 { "from" } else { "merge" }).unwrap();
            }
            writeln!(stream, "M 100644 inline f\ndata <<E\n{at}\nE\n").unwrap();
        }
        repo.git_with_input(["fast-import", "--quiet"], stream);
        (1..=count).map(|at| repo.rev_parse(&format!("refs/heads/{at}"))).collect()
    }

    #[test]
    fn one_commit_leads_to_another_as_git_says_whatever_their_times() {
        let mut rng = Rng::new(7);
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let commits = tangled(&repo, &mut rng, 60);
        let objects = Objects::in_dir(repo.git_dir().join("objects"), HashKind::Sha1);
        let mut ancestry = Ancestry::new(&objects, 1 << 20);
        let mut found = 0;
        for new in &commits {
            let listed = repo.git(["rev-list", &new.to_string()]);
            let listed: HashSet<&str> = listed.lines().collect();
            for old in &commits {
                let expected = listed.contains(&*old.to_string());
                assert_eq!(ancestry.leads_to(*new, *old), Some(expected), "{new} to {old}");
                found += usize::from(expected);
            }
        }
        assert!(found > 200 && found < 3400, "{found} of 3600 pairs");
        let missing = ObjectId::from_hex(HashKind::Sha1, "12".repeat(20).as_bytes()).unwrap();
        assert_eq!(ancestry.leads_to(commits[0], missing), None);
        assert_eq!(Ancestry::new(&objects, 1).leads_to(commits[0], commits[1]), None);
        // The time is up.
        let mut late = Ancestry { left: Duration::ZERO, ..Ancestry::new(&objects, 1 << 20) };
        assert_eq!(late.leads_to(commits[59], commits[0]), None);
    }
}
