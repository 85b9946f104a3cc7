//! Groups about whose members the global ref database decides, one by one.

#[cfg(test)]
mod tests;

use super::{
    Accepted, Answer, Asker, Groups, Job,
    ballot::{Ballot, BallotGuard, Question, Vote},
    member::OwnStep,
    union_of,
};
use refdb::{
    Locked, Store,
    global::{GlobalIntents, GlobalRef, refs_of},
    reftable::ReftableLocked,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError},
    time::Duration,
};

/// The longest time for which a leader waits for the votes of the members. It is meant to exceed the timeout of every
/// arbiter, so that only a thread that hangs makes the leader wait this long. A thread that panics votes against its
/// batch.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(60);

impl Groups {
    /// Writes the batches about which the global ref database agrees or does not decide, and removes the others from
    /// `accepted`. The threads of the batches about which the database decides ask at the same time, and each finishes
    /// its own batch if that batch is left out.
    pub(super) fn make_agreed(
        &self,
        store: &Store,
        mut locked: ReftableLocked,
        accepted: &mut Vec<Accepted>,
        own: &Job,
        asker: &mut Asker<'_>,
    ) -> refdb::Result<()> {
        let intents = store.global_intents();
        let mut refs = refs_that_may_be_asked(&intents, accepted);
        let all = union_of(accepted);
        if !all.is_empty() {
            locked.stage(&all)?;
        }
        let ballot = Arc::new(Ballot::default());
        let guard = BallotGuard(&ballot);
        let mut asked = Vec::new();
        for (at, member) in accepted.iter().enumerate() {
            let refs = std::mem::take(&mut refs[at]);
            if !refs.is_empty() {
                asked.push(at);
                member.job.answer(Answer::Ask(ballot.question(refs)));
            }
        }
        // The lock is taken so that a thread that is about to wait sees its answer or the notification.
        drop(self.queue());
        self.done.notify_all();
        if let Some(question) = own.take_question() {
            own.put(question, store, asker);
        }
        let votes = ballot.close(self.answer_max);
        drop(guard);
        assert_eq!(votes.len(), asked.len(), "each question has a vote");
        let (mut out, mut settled) = (BTreeSet::new(), Vec::new());
        for (at, vote) in asked.into_iter().zip(votes) {
            match vote {
                Vote::Agreed(intent) => settled.extend(intent),
                Vote::Open | Vote::Out => drop(out.insert(at)),
            }
        }
        let mut at = 0..;
        accepted.retain(|_| at.next().is_some_and(|at| !out.contains(&at)));
        let agreed = union_of(accepted);
        if agreed.is_empty() {
            return Ok(());
        }
        if !out.is_empty() {
            locked.restage(&agreed)?;
        }
        // If the disk fails now, the intents stay: the database has agreed to the updates, so whoever settles the
        // intents will finish the updates.
        Box::new(locked).commit(&agreed)?;
        for intent in settled {
            // An intent that cannot be removed now is settled later.
            intents.remove(&intent).ok();
        }
        Ok(())
    }
}

impl Job {
    /// Takes the question that the job's thread is to ask, if the leader has answered with one.
    fn take_question(&self) -> Option<Question> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        match answer.take() {
            Some(Answer::Ask(question)) => Some(question),
            other => {
                *answer = other;
                None
            }
        }
    }

    /// Asks the global ref database. Without an agreement in time, the job is finished with the reason.
    pub(super) fn put(&self, question: Question, store: &Store, asker: &mut Asker<'_>) {
        let Some(arbiter) = asker else { unreachable!("a batch without an arbiter is not asked about") };
        if let Err(error) = question.put(&store.global_intents(), *arbiter) {
            self.finish(Err(error.into()));
        }
    }
}

/// The refs about which the database has to be asked, for each member; empty for a member about which the database does
/// not decide. A batch that [`GlobalIntents::bar`] refuses, for instance because of an open intent, is removed and
/// finished with that error.
fn refs_that_may_be_asked(intents: &GlobalIntents, accepted: &mut Vec<Accepted>) -> Vec<Vec<GlobalRef>> {
    let mut all = Vec::new();
    accepted.retain(|member| {
        let refs = if member.job.asks { refs_of_steps(&member.steps) } else { Vec::new() };
        let barred = if refs.is_empty() { Ok(()) } else { intents.bar(&refs) };
        match barred {
            Ok(()) => all.push(refs),
            Err(error) => {
                member.job.finish(Err(error.into()));
                return false;
            }
        }
        true
    });
    assert_eq!(all.len(), accepted.len(), "each member has a list of refs, maybe an empty one");
    all
}

fn refs_of_steps(steps: &[OwnStep]) -> Vec<GlobalRef> {
    refs_of(&super::Union::new([steps]))
}
