//! A group of which the global ref database decides, member by member.

#[cfg(test)]
mod tests;

use super::{
    Accepted, Answer, Asker, Groups, Job,
    member::OwnStep,
    round::{Chair, Question, Round, Vote},
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

/// Longer than an arbiter takes that gives up by itself. So a leader waits this long only for a thread that is no more.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(60);

impl Groups {
    /// Makes those of the batches that the global ref database agrees to, and takes the others out of `accepted`. The
    /// thread of each asks for it, at the same time as the others, and knows why it is out.
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
        let round = Arc::new(Round::default());
        let chair = Chair(&round);
        let mut asked = Vec::new();
        for (at, member) in accepted.iter().enumerate() {
            let refs = std::mem::take(&mut refs[at]);
            if !refs.is_empty() {
                asked.push(at);
                member.job.answer(Answer::Ask(round.question(refs)));
            }
        }
        // Who looks for its answer at this moment does not wait yet.
        drop(self.queue());
        self.done.notify_all();
        if let Some(question) = own.take_question() {
            own.put(question, store, asker);
        }
        let votes = round.close(self.answer_max);
        drop(chair);
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
        // If the disk fails now the intents stay: the updates are agreed, and will be finished.
        Box::new(locked).commit(&agreed)?;
        for intent in settled {
            // One that stays is settled by the next writer of its refs.
            intents.remove(&intent).ok();
        }
        Ok(())
    }
}

impl Job {
    /// The question that its thread is to put, if that is its answer.
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

    /// Asks. A batch that is left out has its outcome then.
    pub(super) fn put(&self, question: Question, store: &Store, asker: &mut Asker<'_>) {
        let Some(arbiter) = asker else { unreachable!("a batch without an arbiter is not asked about") };
        if let Err(error) = question.put(&store.global_intents(), *arbiter) {
            self.finish(Err(error.into()));
        }
    }
}

/// What the database has to be asked about, member by member: nothing for those of which it does not decide. A batch
/// that an open intent bars is taken out, and knows why.
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
    assert_eq!(all.len(), accepted.len(), "each member has refs, if only none");
    all
}

fn refs_of_steps(steps: &[OwnStep]) -> Vec<GlobalRef> {
    refs_of(&super::Union::new([steps]))
}
