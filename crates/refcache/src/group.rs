//! Group commit: batches of several threads share one addition to the stack, and therefore one sync. Where a global ref
//! database decides, the members of a group ask it at the same time.

mod agreed;
mod ballot;
mod member;
#[cfg(test)]
mod tests;

use crate::{
    Batch, Error, Outcome, Result,
    batch::{beyond_global, commit_agreed_in, commit_in},
};
use agreed::ANSWER_MAX;
use ballot::Question;
use member::{Deferral, Group, OwnStep, Union, is_in_main};
use refdb::{
    Change, Locked, Store, Target,
    backend::{Claim, ClaimKind},
    global::Arbiter,
    reftable::{ReftableBackend, ReftableLocked},
    transaction::{Context, NoHook},
};
use refdb_vfs::AskingOnce;
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A leader waits for the members of the previous group, which may commit again, for at most the time that the previous
/// group took, divided by this number.
const PART_OF_GROUP: u32 = 16;

/// The longest time for which a leader waits for the members of the previous group.
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// Maximum number of batches in a group. Each member waits until all of them have been checked.
const MEMBERS_MAX: usize = 256;

/// The batches of one stack that wait to be written.
///
/// While one thread, the leader, waits for the stack's lock or for the disk, the batches of others queue up. A leader
/// that has got the lock writes those that wait by then, up to [`MEMBERS_MAX`], as one addition. Each batch is checked
/// as if it were alone. A batch joins the group only if none of its names equals a name of an earlier batch of the
/// group, or conflicts with one as a folder; otherwise it waits for the next group, when the earlier batches are in the
/// stack. So each batch is checked against its predecessors, a rejected batch leaves nothing behind, and a group writes
/// each name once.
pub(crate) struct Groups {
    queue: Mutex<Queue>,
    /// Signalled when a waiting thread has an answer or may lead.
    done: Condvar,
    arrived: Condvar,
    /// The longest time for which a leader waits until the other members have the answers of the global ref database.
    answer_max: Duration,
}

impl Default for Groups {
    fn default() -> Self {
        Groups { queue: Mutex::default(), done: Condvar::new(), arrived: Condvar::new(), answer_max: ANSWER_MAX }
    }
}

/// The arbiter of a batch about which the global ref database decides; `None` for any other batch.
type Asker<'a> = Option<&'a mut dyn Arbiter>;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Job>>,
    has_leader: bool,
    /// The size of the last group, and how long it took.
    last_members: usize,
    last_took: Duration,
}

/// A batch whose thread waits for the outcome.
struct Job {
    batch: Batch,
    /// Whether the global ref database decides about the batch.
    asks: bool,
    answer: Mutex<Option<Answer>>,
}

/// A batch that has passed all checks and is to be written with the others of its group.
struct Accepted {
    job: Arc<Job>,
    outcome: Outcome,
    steps: Vec<OwnStep>,
}

/// What a leader answers to the thread of a batch.
enum Answer {
    Made(Result<Outcome>),
    /// The batch needs more than the stack, for instance because a symbolic ref leads out of the stack, which is found
    /// out only under the lock. The batch's own thread must then write the batch.
    Alone,
    /// The batch's own thread is to ask the global ref database. The leader waits for its vote.
    Ask(Question),
}

impl Job {
    fn new(store: &Store, batch: &Batch, asks: bool) -> Result<Self> {
        Ok(Job { batch: with_classes(store, batch)?, asks, answer: Mutex::default() })
    }

    fn context<'s>(&self, store: &'s Store) -> Context<'s> {
        if self.asks { beyond_global(store.context()) } else { store.context() }
    }

    fn finish(&self, outcome: Result<Outcome>) {
        self.answer(Answer::Made(outcome));
    }

    fn answer(&self, answer: Answer) {
        let before = self.answer.lock().unwrap_or_else(PoisonError::into_inner).replace(answer);
        assert!(before.is_none(), "a batch is made once, and told once what came of it");
    }

    fn take(&self) -> Option<Answer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns whether a batch can be written together with others: the store is that of the main worktree and has
/// reftables, all refs of the batch are in the common stack, and no hook has to run.
pub(crate) fn can_be_grouped(store: &Store, batch: &Batch) -> Result<bool> {
    let has_one_stack = store.backend_as::<ReftableBackend>().is_some() && store.repository().worktree_id().is_none();
    if !has_one_stack || !batch.edits.iter().all(|edit| is_in_main(edit.name.as_bstr())) {
        return Ok(false);
    }
    Ok(batch.options.skip_hook || store.context().hooks.find()?.is_none())
}

impl Groups {
    /// Commits a batch, together with those of other threads.
    pub(crate) fn commit(&self, store: &Store, batch: &Batch, mut asker: Asker<'_>) -> Result<Outcome> {
        debug_assert!(store.backend_as::<ReftableBackend>().is_some(), "only stacks are written in groups");
        let job = Arc::new(Job::new(store, batch, asker.is_some())?);
        let mut queue = self.queue();
        queue.waiting.push_back(Arc::clone(&job));
        self.arrived.notify_all();
        self.outcome_of(&job, store, &mut asker, queue)
    }

    /// Waits until a job is done. Whenever no thread leads meanwhile, this one does, and writes waiting jobs as one
    /// group.
    fn outcome_of<'q>(
        &'q self,
        job: &Arc<Job>,
        store: &Store,
        asker: &mut Asker<'_>,
        mut queue: MutexGuard<'q, Queue>,
    ) -> Result<Outcome> {
        loop {
            match job.take() {
                Some(Answer::Made(outcome)) => return outcome,
                Some(Answer::Alone) => {
                    drop(queue);
                    return match asker {
                        Some(arbiter) => commit_agreed_in(store, &job.batch, *arbiter),
                        None => commit_in(store.context(), &job.batch),
                    };
                }
                Some(Answer::Ask(question)) => {
                    drop(queue);
                    job.put(question, store, asker);
                    queue = self.queue();
                    continue;
                }
                None => {}
            }
            if queue.has_leader {
                queue = self.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if !queue.waiting.iter().any(|waiting| Arc::ptr_eq(waiting, job)) {
                // The leader that had taken the job panicked, so that nobody will ever answer.
                return Err(Error::Abandoned(store.repository().common_dir().to_owned()));
            }
            queue.has_leader = true;
            drop(self.gather(queue));
            // Ends the lead also if this thread panics, so that the others do not wait for ever.
            let leader = Leader { groups: self };
            self.lead(store, job, asker);
            drop(leader);
            queue = self.queue();
        }
    }

    /// Waits a moment for the members of the last group, unless that group was empty or they and the batches that wait
    /// are fewer than three. Without this pause, those members and the threads that waited meanwhile would form
    /// alternate groups of half the size.
    fn gather<'q>(&self, queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        debug_assert!(queue.has_leader, "only the leader gathers");
        let pause = (queue.last_took / PART_OF_GROUP).min(PAUSE_MAX);
        let expected = queue.waiting.len() + queue.last_members;
        if queue.last_members == 0 || expected < 3 {
            return queue;
        }
        let is_short = |queue: &mut Queue| queue.waiting.len() < expected;
        let gathered = self.arrived.wait_timeout_while(queue, pause, is_short);
        gathered.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Writes the waiting batches, up to [`MEMBERS_MAX`], as one group.
    fn lead(&self, store: &Store, own: &Arc<Job>, asker: &mut Asker<'_>) {
        debug_assert!(self.queue().has_leader, "one thread leads");
        let begun = Instant::now();
        let there = self.queue().waiting.len();
        let claims = vec![Claim { name: "HEAD".into(), kind: ClaimKind::Hold }];
        let backend = store.backend_as::<ReftableBackend>().expect("only stacks are written in groups");
        // Nobody else changes the stack while it is locked, so the server of a network file system need not be asked
        // about a folder again.
        let asking = AskingOnce::new();
        let locked = match backend.lock_stacks(&claims) {
            Ok(locked) => locked,
            // Batches that were added meanwhile have waited for less than the lock timeout, and wait on.
            Err(error) => return fail(self.take_waiting(there), error),
        };
        // Batches that were added while this thread waited for the lock join the group.
        let group = Group::new(backend, &locked);
        let mut accepted: Vec<(Arc<Job>, Outcome)> = Vec::new();
        let mut late = Vec::new();
        for job in self.take_waiting(MEMBERS_MAX) {
            let context = Context { backend: &group, hooks: &NoHook, ..job.context(store) };
            let outcome = commit_in(context, &job.batch);
            match (group.take_deferral(), outcome) {
                (Some(Deferral::Next), _) => late.push(job),
                (Some(Deferral::Alone), _) => job.answer(Answer::Alone),
                (None, Ok(outcome)) => {
                    if refdb_vfs::planted("refcache-group") {
                        job.finish(Ok(outcome.clone()));
                    }
                    accepted.push((job, outcome));
                }
                (None, Err(error)) => job.finish(Err(error)),
            }
        }
        self.queue().put_back(late);
        let members = group.into_members();
        assert_eq!(members.len(), accepted.len(), "each batch that was accepted is a member");
        let members = accepted.into_iter().zip(members);
        let mut accepted: Vec<Accepted> =
            members.map(|((job, outcome), steps)| Accepted { job, outcome, steps }).collect();
        let made = if accepted.iter().any(|member| member.job.asks) {
            // The answer may come from code that reads other refs.
            drop(asking);
            self.make_agreed(store, locked, &mut accepted, own, asker)
        } else {
            make(locked, &union_of(&accepted))
        };
        {
            let mut queue = self.queue();
            (queue.last_members, queue.last_took) = (accepted.len(), begun.elapsed());
        }
        match made {
            Ok(()) => {
                let group = accepted.len();
                for (at, Accepted { job, outcome, .. }) in accepted.into_iter().enumerate() {
                    job.finish(Ok(Outcome { group, leads: at == 0, ..outcome }));
                }
            }
            Err(error) => fail(accepted.into_iter().map(|member| member.job), error),
        }
    }

    /// Takes the batches that have waited longest, up to `most`.
    fn take_waiting(&self, most: usize) -> Vec<Arc<Job>> {
        let waiting = &mut self.queue().waiting;
        let count = waiting.len().min(most);
        waiting.drain(..count).collect()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Puts back batches that have to wait, so that they are the first of the next group.
    fn put_back(&mut self, late: Vec<Arc<Job>>) {
        for job in late.into_iter().rev() {
            self.waiting.push_front(job);
        }
    }
}

/// Held by the leader of a group. Dropping it, also during a panic, lets another thread lead.
struct Leader<'a> {
    groups: &'a Groups,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.groups.queue().has_leader = false;
        self.groups.done.notify_all();
    }
}

fn make(mut locked: ReftableLocked, union: &Union<'_>) -> refdb::Result<()> {
    if union.is_empty() {
        return Ok(());
    }
    locked.stage(union)?;
    Box::new(locked).commit(union)
}

fn union_of(accepted: &[Accepted]) -> Union<'_> {
    Union::new(accepted.iter().map(|member| member.steps.as_slice()))
}

fn fail(jobs: impl IntoIterator<Item = Arc<Job>>, error: refdb::Error) {
    let error = Arc::new(error);
    for job in jobs {
        job.finish(Err(Error::Shared(Arc::clone(&error))));
    }
}

/// Adds the types of all new objects to a batch. Each thread reads its own objects before it waits for a leader.
fn with_classes(store: &Store, batch: &Batch) -> Result<Batch> {
    let mut batch = batch.clone();
    let objects = store.context().objects;
    for edit in &batch.edits {
        if let Change::Set(Target::Direct(id)) = &edit.change
            && !batch.known.contains_key(id)
        {
            batch.known.insert(*id, objects.classify(id)?);
        }
    }
    Ok(batch)
}
