//! `--stale-fix`: finds out whether a commit and everything that it leads to exist. What refs lead to is assumed to be
//! complete.

use super::reach::Reach;
use crate::{
    failure::{self, fatal},
    for_each_ref::history::History,
    session::Session,
};
use bstr::BString;
use refdb::{Result, objects::ObjectKind, objects::links};
use refdb_types::ObjectId;
use std::collections::{HashMap, HashSet};

/// Answers whether commits are complete, and remembers the answers.
pub(super) struct Complete<'a> {
    reach: Reach<'a>,
    /// Everything that refs lead to, including objects that are missing.
    below_refs: HashSet<ObjectId>,
    known: HashMap<ObjectId, bool>,
}

impl<'a> Complete<'a> {
    /// Reads everything that refs lead to. A broken ref, a ref with an invalid name and a ref whose object is missing
    /// are errors.
    pub(super) fn new(session: &'a Session, history: &'a History<'a>) -> failure::Result<Self> {
        let reach = Reach::new(session, history);
        let mut tips: Vec<(BString, Option<ObjectId>)> = Vec::new();
        let mut seen = HashSet::new();
        reach.for_each_ref(&mut |name, id| {
            if id.is_none_or(|id| seen.insert(id)) {
                tips.push((name.to_owned(), id));
            }
        })?;
        for (name, id) in &tips {
            let kind = match id {
                Some(id) => history.objects()?.kind(id)?,
                None => None,
            };
            if kind.is_none() {
                return fatal!["unable to parse object: ", name];
            }
        }
        let mut complete = Complete { reach, below_refs: seen, known: HashMap::new() };
        complete.mark()?;
        Ok(complete)
    }

    /// Adds all objects below the tips to `below_refs`. A missing object leads nowhere.
    fn mark(&mut self) -> Result<()> {
        let mut left: Vec<ObjectId> = self.below_refs.iter().copied().collect();
        let mut data = Vec::new();
        while let Some(id) = left.pop() {
            let Some(kind) = self.reach.objects()?.content(&id, &mut data)? else { continue };
            let found = &mut self.below_refs;
            let _ = links(kind, &data, id.kind(), &mut |link| {
                if found.insert(link.id) && link.kind != ObjectKind::Blob {
                    left.push(link.id);
                }
            });
        }
        Ok(())
    }

    /// Returns whether the value of an entry is null, a complete commit, or a tag that leads to one. Any other object
    /// is not complete.
    pub(super) fn is_whole(&mut self, id: ObjectId) -> Result<bool> {
        if id.is_null() {
            return Ok(true);
        }
        match self.reach.commit_of(id)? {
            Some(commit) => self.leads_to_all(commit),
            None => Ok(false),
        }
    }

    /// Returns whether an object and everything that it leads to exists. The walk is depth first, with an explicit
    /// stack.
    fn leads_to_all(&mut self, id: ObjectId) -> Result<bool> {
        let mut path: Vec<(ObjectId, Vec<(ObjectId, ObjectKind)>)> = Vec::new();
        let mut next = Some((id, ObjectKind::Commit));
        loop {
            if let Some((id, kind)) = next.take() {
                match self.answer(id, kind)? {
                    Answer::Known(true) => {}
                    Answer::Known(false) => {
                        self.known.extend(path.iter().map(|(id, _)| (*id, false)));
                        self.known.insert(id, false);
                        return Ok(false);
                    }
                    Answer::Links(links) => path.push((id, links)),
                }
            }
            match path.last_mut() {
                None => return Ok(true),
                Some((_, links)) => match links.pop() {
                    Some(link) => next = Some(link),
                    None => {
                        let (whole, _) = path.pop().expect("it is the last one");
                        self.known.insert(whole, true);
                    }
                },
            }
        }
    }

    fn answer(&mut self, id: ObjectId, kind: ObjectKind) -> Result<Answer> {
        if let Some(known) = self.known.get(&id) {
            return Ok(Answer::Known(*known));
        }
        let objects = self.reach.objects()?;
        if self.below_refs.contains(&id) {
            return Ok(Answer::Known(true));
        }
        if kind == ObjectKind::Blob {
            return Ok(Answer::Known(objects.exists(&id)?));
        }
        let mut data = Vec::new();
        if objects.content(&id, &mut data)? != Some(kind) {
            return Ok(Answer::Known(false));
        }
        let mut found = Vec::new();
        let parsed = links(kind, &data, id.kind(), &mut |link| found.push((link.id, link.kind)));
        Ok(if parsed.is_some() { Answer::Links(found) } else { Answer::Known(false) })
    }
}

/// What is known of an object.
enum Answer {
    Known(bool),
    /// The object exists, and names these objects.
    Links(Vec<(ObjectId, ObjectKind)>),
}
