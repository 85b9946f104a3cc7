//! The votes of those members of a group about which the global ref database decides. The thread of each asks the
//! database, while the leader holds the lock and waits; only those to which the database agreed in time are written.

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
pub(super) struct Ballot {
    votes: Mutex<Votes>,
    voted: Condvar,
}

#[derive(Default)]
struct Votes {
    members: Vec<Vote>,
    /// Whether the leader has gone on or died, so that later votes are ignored.
    is_over: bool,
}

/// The vote of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Vote {
    /// The member's thread has not voted yet.
    Open,
    /// The member may be written; once it is written, the intent of this id, if there is one, is removed.
    Agreed(Option<String>),
    /// The member must not be written.
    Out,
}

impl Ballot {
    /// Adds a member, and returns the question that its thread is to ask.
    pub(super) fn question(self: &Arc<Self>, refs: Vec<GlobalRef>) -> Question {
        let mut votes = self.votes();
        assert!(!votes.is_over, "members are asked before the ballot is over");
        votes.members.push(Vote::Open);
        Question { ballot: Arc::clone(self), at: votes.members.len() - 1, refs }
    }

    /// Waits for all votes, and returns them in the order of the questions. A member that has not voted within the
    /// timeout is not written.
    pub(super) fn close(&self, timeout: Duration) -> Vec<Vote> {
        let is_open = |votes: &mut Votes| votes.members.contains(&Vote::Open);
        let waited = self.voted.wait_timeout_while(self.votes(), timeout, is_open);
        let mut votes = waited.unwrap_or_else(PoisonError::into_inner).0;
        assert!(!votes.is_over, "a group counts its votes once");
        votes.is_over = true;
        mem::take(&mut votes.members)
    }

    /// Records a vote. Returns whether it was in time.
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

/// Held by the leader. Dropping it ends the ballot, however the leader ends, so that no vote counts once the lock is
/// gone.
pub(super) struct BallotGuard<'r>(pub(super) &'r Ballot);

impl Drop for BallotGuard<'_> {
    fn drop(&mut self) {
        self.0.votes().is_over = true;
    }
}

/// The question of a member. If it is dropped without a vote, the member is left out.
pub(super) struct Question {
    ballot: Arc<Ballot>,
    at: usize,
    refs: Vec<GlobalRef>,
}

impl Question {
    /// Asks the global ref database. An error means that the member is left out.
    pub(super) fn put(self, intents: &GlobalIntents, arbiter: &mut dyn Arbiter) -> Result<()> {
        let mut within_ballot = BallotArbiter { question: &self, arbiter, intent: None };
        let agreed = ask(intents, &self.refs, &mut within_ballot)?;
        assert_eq!(agreed, within_ballot.intent, "an agreement was a vote that came in time");
        Ok(())
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut votes = self.ballot.votes();
        if !votes.is_over && votes.members[self.at] == Vote::Open {
            votes.members[self.at] = Vote::Out;
            self.ballot.voted.notify_all();
        }
    }
}

/// An arbiter whose agreement is valid only as long as the leader holds the lock.
struct BallotArbiter<'a> {
    question: &'a Question,
    arbiter: &'a mut dyn Arbiter,
    intent: Option<String>,
}

impl BallotArbiter<'_> {
    fn agree(&self) -> bool {
        self.question.ballot.vote(self.question.at, Vote::Agreed(self.intent.clone()))
    }
}

impl Arbiter for BallotArbiter<'_> {
    fn begin(&mut self, refs: &[GlobalRef]) -> Result<Option<Mark>> {
        let mark = self.arbiter.begin(refs)?;
        self.intent = mark.as_ref().map(|mark| mark.id.clone());
        if mark.is_none() && !self.agree() {
            return Err(Undecided::NotAgreed.into());
        }
        Ok(mark)
    }

    fn ask(&mut self) -> Verdict {
        // Checked after the intent was recorded: if the leader has gone on by now, the database is not asked; otherwise
        // the next holder of the lock finds the intent.
        if self.question.ballot.votes().is_over {
            return Verdict::Refused;
        }
        match self.arbiter.ask() {
            // Others may hold the lock by now, so the intent stays and is settled later.
            Verdict::Agreed if !self.agree() => Verdict::Unknown,
            verdict => verdict,
        }
    }
}
