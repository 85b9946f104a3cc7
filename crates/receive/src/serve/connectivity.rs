//! Checks whether every object that is reachable from the new ids exists. This is as safe as git's check, and its cost
//! usually depends only on the size of the push.
//!
//! ```text
//! walk    from the new ids through the pushed objects, to the first that are not pushed   incoming, walk
//! bound   each such commit or tag must be the value of a ref, as the server reads it now  tips
//! trees   each such tree or blob must be in the tree of a commit at this boundary         trees
//! ask     git about the rest: first against a few tips, for a short time, then fully      here
//! ```
//!
//! The mere existence of an object proves nothing, because it may remain from a history that was partly pruned.
//! Commands are refused only if git's full check fails or exceeds a limit.

mod incoming;
mod tips;
mod trees;
mod walk;

use super::{
    ServeError,
    child::{Alive, Input, Output},
    deadline::{Deadline, WALKS},
    session::Session,
};
use incoming::Incoming;
use refdb::{
    Snapshot,
    objects::ObjectKind,
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_types::ObjectId;
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use trees::{Bounds, Trees};

/// Maximum time that git may spend on a walk against a few tips before it is asked to walk against all refs.
const TIMEOUT: Duration = Duration::from_millis(300);

/// The result of the walk in this process.
enum Walked {
    /// All objects exist.
    Connected,
    /// Git must be asked. The value holds commits that refs lead to and that are probably close to the new ones.
    Open(Vec<ObjectId>),
}

/// The result of the check by git for some ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Connected,
    /// An object is missing, or git failed or could not be run.
    Disconnected,
    /// The check was ended because it exceeded a limit.
    Ended,
}

/// Maximum number of times that git is asked which ids are at fault; one more is possible if the last group has two
/// halves. That suffices to find a single id at fault among a million ids, and all ids at fault among 32. The number of
/// programs must not grow with the number of commands.
const ASKED_MAX: usize = 64;

/// The prefix of the refs that replace objects.
const REPLACEMENTS: &str = "refs/replace/";

const BEYOND_LIMIT: &str = "the check of its objects exceeded a limit";

impl Session<'_, '_> {
    /// Refuses the commands whose new ids git does not find to be connected, and perhaps some others if git would have
    /// to be asked more than [`ASKED_MAX`] times to tell them apart. If git's full check exceeds a limit, refuses all
    /// commands that set a ref, or all commands of an atomic push. Does nothing if the call skips the check.
    pub(super) fn check_connected(&mut self) -> Result<(), ServeError> {
        let new: Vec<_> = self.request.commands.iter().map(|command| command.new).filter(|id| !id.is_null()).collect();
        let distinct: HashSet<_> = new.iter().copied().collect();
        if distinct.is_empty() || self.call.skip_connectivity {
            return Ok(());
        }
        let mut lines = Vec::with_capacity(new.len() * (self.store.hash().len_hex() + 1));
        add_lines(&distinct, "", &mut lines);
        let walked = if self.is_history_changed()? { Walked::Open(Vec::new()) } else { self.walk(&distinct)? };
        let Walked::Open(tips) = walked else { return Ok(()) };
        self.channel.check_client()?;
        self.make_lacking_quarantine()?;
        if self.is_connected_to(&lines, &tips)? {
            return Ok(());
        }
        let (at_fault, reason) = match self.is_connected(&lines, Output::ToUser)? {
            Answer::Connected => return Ok(()),
            Answer::Ended => (distinct, BEYOND_LIMIT),
            Answer::Disconnected => self.find_disconnected(distinct)?,
        };
        for at in 0..self.outcomes.len() {
            if at_fault.contains(&self.request.commands.get(at).new) {
                self.refuse(at, reason);
            }
        }
        if reason == BEYOND_LIMIT {
            self.refuse_rest_if_atomic();
        }
        Ok(())
    }

    /// Returns the ids to refuse, at least one, and the reason: those at fault, or all ids if a check exceeds a limit.
    /// Git is asked about one half of the ids, and about the other half unless the first is connected; a half that is
    /// at fault is halved in turn, and so on, until git was asked [`ASKED_MAX`] times. An id that is then still grouped
    /// with one at fault is refused too. Until then, git is asked about each id at fault on its own, so that it writes
    /// the missing objects to the log of the server.
    fn find_disconnected(&mut self, ids: HashSet<ObjectId>) -> Result<(HashSet<ObjectId>, &'static str), ServeError> {
        // Groups of ids, each with whether git was asked about it.
        let mut groups = vec![(Vec::from_iter(ids.iter().copied()), false)];
        let mut at_fault = HashSet::new();
        let mut asked = 0;
        while let Some((mut group, was_asked)) = groups.pop() {
            if asked >= ASKED_MAX || (group.len() == 1 && was_asked) {
                at_fault.extend(group);
                continue;
            }
            let halves = if group.len() == 1 { vec![group] } else { vec![group.split_off(group.len() / 2), group] };
            let is_alone = halves.len() == 1;
            let mut others_are_connected = false;
            for half in halves {
                // One half is at fault if the other is not.
                if others_are_connected {
                    groups.push((half, false));
                    continue;
                }
                asked += 1;
                let mut lines = Vec::new();
                add_lines(&half, "", &mut lines);
                match self.is_connected(&lines, Output::ToLog)? {
                    // An id that was the cause of a group's failure stays at fault, even if git accepts it alone.
                    Answer::Connected if !is_alone => others_are_connected = true,
                    Answer::Connected | Answer::Disconnected => groups.push((half, true)),
                    Answer::Ended => return Ok((ids, BEYOND_LIMIT)),
                }
            }
        }
        Ok((at_fault, "missing necessary objects"))
    }

    /// Walks from the new ids to objects to which refs point, in this process.
    fn walk(&self, new: &HashSet<ObjectId>) -> Result<Walked, ServeError> {
        // One deadline holds for all readings, which are repeated when a network file system loses a file.
        let deadline = Deadline::after(WALKS);
        self.store.read(ServeError::is_stale, |snapshot| self.walk_to_refs_of(snapshot, new, deadline))
    }

    fn walk_to_refs_of(
        &self,
        snapshot: &dyn Snapshot,
        new: &HashSet<ObjectId>,
        deadline: Deadline,
    ) -> Result<Walked, ServeError> {
        let near = self.near_tips(snapshot)?;
        let open = |near: &HashSet<ObjectId>| {
            let commits = near.iter().filter(|id| matches!(self.objects.classify(id), Ok(ObjectClass::Commit)));
            Ok(Walked::Open(commits.copied().collect()))
        };
        let incoming = match &self.quarantine {
            Some(quarantine) if self.pack_objects > 0 => {
                Incoming::of(quarantine.folder().to_owned(), self.store.hash(), self.settings.read_max_bytes, deadline)
            }
            _ => Some(Incoming::nothing(self.store.hash(), deadline)),
        };
        let Some(incoming) = incoming else { return open(&near) };
        let Some(reached) = walk::history(&incoming, new) else { return open(&near) };
        let boundary = self.boundary(snapshot, &near, &reached.edges)?;
        if boundary.len() < reached.edges.len() {
            return open(&near.into_iter().chain(boundary.into_iter().take(tips::NEAR_MAX)).collect());
        }
        if reached.roots.is_empty() && reached.blobs.is_empty() {
            return Ok(Walked::Connected);
        }
        let mut old = Vec::new();
        for commit in &boundary {
            if self.is_too_large(commit)? {
                return open(&near);
            }
            old.extend(self.objects.commit(commit).map_err(refdb::Error::from)?.map(|commit| commit.tree));
        }
        let bounds = Bounds { depth: self.settings.tree_depth, read_bytes: self.settings.read_max_bytes, deadline };
        let trees = Trees::new(&incoming, self.objects, old, reached.met, bounds);
        if trees.are_whole(&reached.roots, &reached.blobs) { Ok(Walked::Connected) } else { open(&near) }
    }

    /// Returns whether an object of the server is too large to be read in this process.
    fn is_too_large(&self, id: &ObjectId) -> Result<bool, ServeError> {
        let header = self.objects.header(id).map_err(refdb::Error::from)?;
        Ok(header.is_some_and(|header| header.size_bytes > self.settings.read_max_bytes))
    }

    /// Returns the commits at the boundary of the walk. `edges` are the commits and tags that the walk reached and that
    /// are not in the push. Each edge to which a ref currently points adds a commit: itself, or the one to which the
    /// tag leads. An edge adds none if it is of another kind than expected, or leads to no commit.
    fn boundary(
        &self,
        snapshot: &dyn Snapshot,
        near: &HashSet<ObjectId>,
        edges: &HashMap<ObjectId, Option<ObjectKind>>,
    ) -> Result<Vec<ObjectId>, ServeError> {
        let mut far: HashSet<_> = edges.keys().filter(|id| !near.contains(*id)).copied().collect();
        self.remove_held(snapshot, &mut far)?;
        let classify = |id: &ObjectId| self.objects.classify(id).map_err(refdb::Error::from);
        let mut commits = Vec::new();
        for (id, expected) in edges.iter().filter(|(id, _)| !far.contains(*id)) {
            match (classify(id)?, expected) {
                (ObjectClass::Commit, None | Some(ObjectKind::Commit)) => commits.push(*id),
                (ObjectClass::Tag(Some(peeled)), None | Some(ObjectKind::Tag))
                    if classify(&peeled)? == ObjectClass::Commit =>
                {
                    commits.push(peeled);
                }
                _ => {}
            }
        }
        Ok(commits)
    }

    /// Returns whether git confirms within a short time that the ids are connected to these tips. `false` proves
    /// nothing.
    fn is_connected_to(&mut self, lines: &[u8], tips: &[ObjectId]) -> Result<bool, ServeError> {
        if tips.is_empty() {
            return Ok(false);
        }
        let mut lines = lines.to_vec();
        add_lines(tips, "^", &mut lines);
        let mut git = self.limited_git("rev-list");
        git.words(["--objects", "--stdin", "--quiet"]);
        git.timeout = Some(TIMEOUT);
        Ok(git.run(Input::Bytes(&lines), Output::Nowhere, Alive::Always, &mut self.channel)?.success())
    }

    /// Lets git check whether all objects exist that are reachable from the ids, but neither from a ref that is not
    /// hidden nor from a ref of an alternate.
    fn is_connected(&mut self, lines: &[u8], output: Output) -> Result<Answer, ServeError> {
        let mut git = self.limited_git("rev-list");
        git.words([
            "--objects",
            "--stdin",
            "--not",
            "--exclude-hidden=receive",
            "--all",
            "--quiet",
            "--alternate-refs",
        ]);
        let ended = git.run(Input::Bytes(lines), output, Alive::Always, &mut self.channel)?;
        if !ended.started() {
            self.channel.error(b"Could not run 'git rev-list'")?;
        }
        Ok(match (ended.success(), ended.is_excessive()) {
            (true, _) => Answer::Connected,
            (false, true) => Answer::Ended,
            (false, false) => Answer::Disconnected,
        })
    }

    /// Returns whether replacements, grafts or a shallow boundary may change the history, or a remote may have promised
    /// missing objects.
    pub(super) fn is_history_changed(&self) -> Result<bool, ServeError> {
        let repository = self.store.repository();
        for file in ["info/grafts", "shallow"] {
            if self.fs.find(&repository.common_dir().join(file))?.is_some() {
                return Ok(true);
            }
        }
        let environment = self.store.environment();
        let is_elsewhere = ["GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE"]
            .iter()
            .any(|name| environment.get(name).is_some());
        if is_elsewhere || repository.is_partial_clone() || !self.request.shallow.is_empty() {
            return Ok(true);
        }
        let has_replacements = self.store.read(refdb::Error::is_stale, |snapshot| {
            let mut cursor = snapshot.cursor(false)?;
            cursor.seek(REPLACEMENTS.into())?;
            match cursor.next() {
                Ok(found) => Ok(found.is_some_and(|view| view.name.starts_with(REPLACEMENTS.as_bytes()))),
                // A broken replacement is left to git. Other refs do not matter.
                Err(refdb::Error::BrokenRef(broken)) => Ok(broken.name.starts_with(REPLACEMENTS.as_bytes())),
                Err(error) => Err(error),
            }
        })?;
        Ok(has_replacements)
    }
}

fn add_lines<'i>(ids: impl IntoIterator<Item = &'i ObjectId>, start: &str, lines: &mut Vec<u8>) {
    for id in ids {
        lines.extend_from_slice(start.as_bytes());
        id.write_hex(lines);
        lines.push(b'\n');
    }
}
