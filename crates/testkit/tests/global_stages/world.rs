//! Explores every order of events: steps of nodes and cleaners, late and repeated requests, and lost answers.

use crate::Fault;
use crate::etcd::{Answer, Cell, Decider, Etcd, Request, Value, value_of};
use crate::node::{Kind, Node, Report, Stage};
use refdb_testkit::orders::{Explorable, every_order};
use std::ops::AddAssign;

/// The maximum number of occurrences of each kind of trouble.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Requests that are served twice.
    pub(crate) twice: u8,
    /// Answers that do not arrive in time. Whether they arrive later makes no difference.
    pub(crate) timeouts: u8,
    pub(crate) crashes: u8,
    /// Batches that another process closes, because it believes that their node is dead.
    pub(crate) voids: u8,
    /// Requests of cleaners to clear a stage or to remove a deciding key.
    pub(crate) clears: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    etcd: Etcd,
    nodes: [Node; 2],
    /// Requests in flight. A request that is lost stays here for ever.
    sent: Vec<Request>,
    /// The values of the refs according to what was applied.
    truth: [Value; 2],
    applied: [bool; 2],
    failed: [bool; 2],
    budget: Budget,
}

/// Statistics of the exploration.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) decided: usize,
    /// Decisions that arrived after another node had closed the deciding key.
    pub(crate) voided: usize,
    /// Stages that were put on top of a stage that was decided but not cleared.
    pub(crate) staged_over: usize,
    /// Batches whose success was known only from their recovered intents.
    pub(crate) settled: usize,
    /// Deciding keys that were removed.
    pub(crate) removed: usize,
}

impl AddAssign for Explored {
    fn add_assign(&mut self, other: Self) {
        self.states += other.states;
        self.decided += other.decided;
        self.voided += other.voided;
        self.staged_over += other.staged_over;
        self.settled += other.settled;
        self.removed += other.removed;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Act(usize),
    Put(usize),
    GiveUp(usize),
    TimeOut(usize),
    Crash(usize),
    Settle(usize),
    /// A cleaner sends this request.
    ClearUp(Request),
    /// A request is served. The flag says whether it arrives a second time.
    Serve {
        request: Request,
        again: bool,
    },
}

impl World {
    pub(crate) fn new(kinds: [Kind; 2], budget: Budget) -> Self {
        World {
            etcd: Etcd::new(),
            nodes: [Node::new(0, kinds[0]), Node::new(1, kinds[1])],
            sent: Vec::new(),
            truth: [0; 2],
            applied: [false; 2],
            failed: [false; 2],
            budget,
        }
    }

    /// Adds a request to those in flight, whose order makes no difference.
    fn send(&mut self, request: Option<Request>) {
        if let Some(request) = request
            && let Err(at) = self.sent.binary_search(&request)
        {
            self.sent.insert(at, request);
        }
    }

    /// Adds what any process may do about a batch, given what it reads at this moment.
    fn clear_up(&self, fault: Fault, events: &mut Vec<Event>) {
        for batch in 0..2 {
            let decider = self.etcd.deciders[batch];
            if decider == Decider::Open && self.budget.voids > 0 {
                events.push(Event::ClearUp(Request::Void { batch }));
            }
            let may_clear = match decider {
                Decider::Done | Decider::Void => true,
                Decider::Open => fault == Fault::VoidIsGuessed,
                Decider::Absent => false,
            };
            if !may_clear || self.budget.clears == 0 {
                continue;
            }
            for at in (0..2).filter(|at| self.etcd.parts[batch][*at]) {
                let to = match self.etcd.cells[at] {
                    Cell::Staged { old, new, .. } => {
                        if decider == Decider::Done {
                            new
                        } else {
                            old
                        }
                    }
                    Cell::Value(value) => value,
                };
                let revision = self.etcd.revisions[at];
                events.push(Event::ClearUp(Request::Clear { batch, at, revision, to }));
            }
            if self.etcd.parts[batch] == [false; 2] || fault == Fault::DeciderGoesFirst {
                events.push(Event::ClearUp(Request::RemoveDecider { batch }));
            }
        }
    }

    /// Checks that readers see exactly what was applied.
    fn check(&self) -> Result<(), String> {
        for at in 0..2 {
            match self.etcd.effective(at) {
                None => return Err(format!("ref {at} has a stage whose deciding key is gone")),
                Some(value) if value != self.truth[at] => {
                    return Err(format!("ref {at} is {value}, so {} is lost", self.truth[at]));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Applies an update of one ref, which compares the revision that the node has read. Lost answers to such updates
    /// are covered by another model.
    fn put(&mut self, node: usize, fault: Fault) -> Result<(), String> {
        let Stage::Putting(at, revision, value) = self.nodes[node].stage else { unreachable!("puts nothing") };
        if self.etcd.revisions[at] == revision {
            if self.truth[at] != value {
                return Err(format!("the put of ref {at} overwrites a value that it did not see"));
            }
            self.etcd.set(at, Cell::Value(value_of(node)));
            self.truth[at] = value_of(node);
        }
        self.nodes[node].has_put(at, &self.etcd, fault);
        Ok(())
    }

    fn serve(&mut self, request: Request, again: bool, fault: Fault, explored: &mut Explored) -> Result<(), String> {
        let before = self.etcd;
        let answer = self.etcd.serve(request, fault);
        match request {
            Request::Decide { batch, .. } => self.decided(batch, &before, answer, explored)?,
            Request::Stage { batch, at: 0, .. }
                if matches!(answer, Answer::Begun(_)) && before.marks[batch].number > 0 =>
            {
                return Err(format!("{request:?} begins after its mark was closed"));
            }
            Request::Stage { at, .. } if answer != Answer::Refused => {
                explored.staged_over += usize::from(matches!(before.cells[at], Cell::Staged { .. }));
            }
            Request::RemoveDecider { batch } if before.deciders[batch] != self.etcd.deciders[batch] => {
                explored.removed += 1;
            }
            _ => {}
        }
        if again {
            self.budget.twice -= 1;
        } else {
            self.sent.retain(|one| *one != request);
        }
        for at in 0..2 {
            if self.nodes[at].stage == Stage::Waits(request) {
                let told = self.nodes[at].hear(request, answer);
                return self.told(at, told);
            }
        }
        Ok(())
    }

    fn decided(&mut self, batch: usize, before: &Etcd, answer: Answer, explored: &mut Explored) -> Result<(), String> {
        let has_applied = before.deciders[batch] != Decider::Done && self.etcd.deciders[batch] == Decider::Done;
        if !has_applied {
            explored.voided += usize::from(before.deciders[batch] == Decider::Void && answer != Answer::Applied);
            return Ok(());
        }
        explored.decided += 1;
        if self.failed[batch] {
            return Err(format!("batch {batch} applies after its failure was reported"));
        }
        if before.deciders[batch] != Decider::Open {
            return Err(format!("batch {batch} is decided after it was closed"));
        }
        for at in 0..2 {
            match before.cells[at] {
                Cell::Staged { batch: by, old, .. } if by == batch && old == self.truth[at] => {}
                Cell::Staged { batch: by, .. } if by == batch => {
                    return Err(format!("batch {batch} overwrites a value of ref {at} that it did not see"));
                }
                _ => return Err(format!("ref {at} has no stage of batch {batch}, whose part is lost")),
            }
        }
        self.truth = [value_of(batch); 2];
        self.applied[batch] = true;
        Ok(())
    }

    fn told(&mut self, at: usize, (request, report): (Option<Request>, Option<Report>)) -> Result<(), String> {
        self.send(request);
        match report {
            Some(Report::Success) if !self.applied[at] => {
                Err(format!("batch {at} is acknowledged and has not applied"))
            }
            Some(Report::Failure) if self.applied[at] => {
                Err(format!("batch {at} has applied, and its failure is reported"))
            }
            Some(Report::Failure) => {
                self.failed[at] = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Explorable for World {
    type Event = Event;
    type Fault = Fault;
    type Seen = Explored;

    fn events(&self, fault: Fault) -> Vec<Event> {
        let mut events = Vec::new();
        for node in &self.nodes {
            match node.stage {
                Stage::Waits(_) if self.budget.timeouts > 0 => events.push(Event::TimeOut(node.index)),
                Stage::Crashed | Stage::Unknown => events.push(Event::Settle(node.index)),
                Stage::Putting(..) => events.push(Event::Put(node.index)),
                _ if node.can_act() => events.push(Event::Act(node.index)),
                _ => {}
            }
            if matches!(node.stage, Stage::Looking(_)) {
                events.push(Event::GiveUp(node.index));
            }
            let is_over = matches!(node.stage, Stage::Crashed | Stage::Ended | Stage::Ready);
            if self.budget.crashes > 0 && node.kind == Kind::Batch && !is_over {
                events.push(Event::Crash(node.index));
            }
        }
        for &request in &self.sent {
            events.push(Event::Serve { request, again: false });
            if self.budget.twice > 0 {
                events.push(Event::Serve { request, again: true });
            }
        }
        self.clear_up(fault, &mut events);
        events
    }

    fn happen(&mut self, event: Event, fault: Fault, explored: &mut Explored) -> Result<(), String> {
        match event {
            Event::Act(at) => {
                let told = self.nodes[at].act(&self.etcd, fault);
                self.told(at, told)
            }
            Event::Put(node) => self.put(node, fault),
            Event::GiveUp(at) => {
                let told = self.nodes[at].give_up();
                self.told(at, told)
            }
            Event::TimeOut(at) => {
                self.budget.timeouts -= 1;
                let told = self.nodes[at].time_out(&self.etcd, fault);
                self.told(at, told)
            }
            Event::Crash(at) => {
                self.budget.crashes -= 1;
                self.nodes[at].stage = Stage::Crashed;
                Ok(())
            }
            Event::Settle(at) => {
                let report = self.nodes[at].settle(&mut self.etcd, fault);
                match report {
                    Report::Success => {
                        explored.settled += 1;
                        self.told(at, (None, Some(report)))
                    }
                    // The batch may have been applied, and both refs may have changed since.
                    Report::Failure if self.applied[at] => Ok(()),
                    Report::Failure => self.told(at, (None, Some(report))),
                }
            }
            Event::ClearUp(request) => {
                match request {
                    Request::Void { .. } => self.budget.voids -= 1,
                    _ => self.budget.clears -= 1,
                }
                self.send(Some(request));
                Ok(())
            }
            Event::Serve { request, again } => self.serve(request, again, fault, explored),
        }?;
        self.check()
    }
}

/// Explores every order of events.
///
/// # Errors
///
/// The events that led to a broken promise, followed by that promise.
pub(crate) fn explore(world: World, fault: Fault) -> Result<Explored, Vec<String>> {
    let (states, seen) = every_order(&world, fault)?;
    Ok(Explored { states, ..seen })
}
