//! One question to the global ref database a member. Each member's own thread puts it, while the leader holds the lock
//! and waits. Only those that it agreed to in time are made.

#[cfg(test)]
mod tests;

use refdb::{
    Result, Undecided,
    global::{Arbiter, GlobalIntents, GlobalRef, Mark, Verdict, ask},
};
use std::{
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The votes of a group.
#[derive(Default)]
pub(super) struct Round {
    votes: Mutex<Votes>,
    voted: Condvar,
}

#[derive(Default)]
struct Votes {
    members: Vec<Vote>,
    /// The leader goes on, or is gone: nobody's word counts any more.
    is_over: bool,
}

/// The word of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Vote {
    /// Its thread has not said anything.
    Open,
    /// It may be made; after that the intent of this id goes.
    Agreed(Option<String>),
    /// It must not be made.
    Out,
}

impl Round {
    /// A question for a member more.
    pub(super) fn question(self: &Arc<Self>, refs: Vec<GlobalRef>) -> Question {
        let mut votes = self.votes();
        assert!(!votes.is_over, "who is asked belongs to the group from its beginning");
        votes.members.push(Vote::Open);
        Question { round: Arc::clone(self), at: votes.members.len() - 1, refs }
    }

    /// Waits for the votes, each in the place of its question. Who says nothing for this long must not be made.
    pub(super) fn close(&self, patience: Duration) -> Vec<Vote> {
        let is_open = |votes: &mut Votes| votes.members.contains(&Vote::Open);
        let waited = self.voted.wait_timeout_while(self.votes(), patience, is_open);
        let mut votes = waited.unwrap_or_else(PoisonError::into_inner).0;
        assert!(!votes.is_over, "a group counts its votes once");
        votes.is_over = true;
        mem::take(&mut votes.members)
    }

    /// Whether it was in time.
    fn vote(&self, at: usize, vote: Vote) -> bool {
        let mut votes = self.votes();
        if votes.is_over {
            return false;
        }
        let before = mem::replace(&mut votes.members[at], vote);
        assert_eq!(before, Vote::Open, "a member votes once");
        self.voted.notify_all();
        true
    }

    fn votes(&self) -> MutexGuard<'_, Votes> {
        self.votes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The leader's hold on a round: whatever ends the leader, no member asks after the lock is gone.
pub(super) struct Chair<'r>(pub(super) &'r Round);

impl Drop for Chair<'_> {
    fn drop(&mut self) {
        self.0.votes().is_over = true;
    }
}

/// A member's question. One that is dropped without an answer leaves its member out.
pub(super) struct Question {
    round: Arc<Round>,
    at: usize,
    refs: Vec<GlobalRef>,
}

impl Question {
    /// Asks. An error says that the member is left out, and what became of its intent.
    pub(super) fn put(self, intents: &GlobalIntents, arbiter: &mut dyn Arbiter) -> Result<()> {
        let mut timely = Timely { question: &self, arbiter, intent: None };
        let agreed = ask(intents, &self.refs, &mut timely)?;
        assert_eq!(agreed, timely.intent, "who is agreed to has said so to the leader, in time");
        Ok(())
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut votes = self.round.votes();
        if !votes.is_over && votes.members[self.at] == Vote::Open {
            votes.members[self.at] = Vote::Out;
            self.round.voted.notify_all();
        }
    }
}

/// An arbiter whose word counts only as long as the leader holds the lock.
struct Timely<'a> {
    question: &'a Question,
    arbiter: &'a mut dyn Arbiter,
    intent: Option<String>,
}

impl Timely<'_> {
    fn agree(&self) -> bool {
        self.question.round.vote(self.question.at, Vote::Agreed(self.intent.clone()))
    }
}

impl Arbiter for Timely<'_> {
    fn begin(&mut self, refs: &[GlobalRef]) -> Result<Option<Mark>> {
        let mark = self.arbiter.begin(refs)?;
        self.intent = mark.as_ref().map(|mark| mark.id.clone());
        if mark.is_none() && !self.agree() {
            return Err(Undecided::NotAgreed.into());
        }
        Ok(mark)
    }

    fn ask(&mut self) -> Verdict {
        // The intent is there. So the next one who has the lock meets it, or nobody was asked.
        if self.question.round.votes().is_over {
            return Verdict::Refused;
        }
        match self.arbiter.ask() {
            // Others may have the lock: the intent stays, and is settled.
            Verdict::Agreed if !self.agree() => Verdict::Unknown,
            verdict => verdict,
        }
    }
}
