//! Explores every order of events: steps of nodes, late and repeated requests, lost answers, and crashes.

use crate::Fault;
use crate::etcd::{Answer, Etcd, Id, Outcome, Request};
use crate::node::{Node, Report, Stage};
use refdb_testkit::orders::{Explorable, every_order};
use std::ops::AddAssign;

/// The maximum number of occurrences of each kind of trouble.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Answers that are lost.
    pub(crate) lost: u8,
    /// Requests that are served twice, because the client sent them again.
    pub(crate) twice: u8,
    pub(crate) timeouts: u8,
    pub(crate) crashes: u8,
    /// Leases that expire, which takes the lock from its holder.
    pub(crate) leases: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    etcd: Etcd,
    nodes: [Node; 2],
    /// Requests in flight. A request that is lost stays here for ever.
    sent: Vec<Request>,
    applied: Ids,
    failed: Ids,
    budget: Budget,
}

/// A set of transactions, with a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Ids(u32);

impl Ids {
    fn bit(id: Id) -> u32 {
        assert!(id.node < 2 && id.start < 2 && id.number < 8);
        1 << (id.node * 16 + usize::from(id.start) * 8 + usize::from(id.number))
    }

    fn contains(self, id: Id) -> bool {
        self.0 & Self::bit(id) != 0
    }

    /// Adds a transaction. Returns whether it was not in the set before.
    fn insert(&mut self, id: Id) -> bool {
        let new = !self.contains(id);
        self.0 |= Self::bit(id);
        new
    }
}

/// Statistics of the exploration.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) successes: usize,
    pub(crate) refusals: usize,
    /// Puts that were refused only because of the revision of the lock.
    pub(crate) fenced: usize,
    /// Transactions whose success was known only from their marks.
    pub(crate) told_by_the_mark: usize,
    /// Marks that were closed before their transactions arrived.
    pub(crate) closed_in_time: usize,
    /// Transactions that arrived after their marks were closed.
    pub(crate) late_requests: usize,
}

impl AddAssign for Explored {
    fn add_assign(&mut self, other: Self) {
        self.states += other.states;
        self.successes += other.successes;
        self.refusals += other.refusals;
        self.fenced += other.fenced;
        self.told_by_the_mark += other.told_by_the_mark;
        self.closed_in_time += other.closed_in_time;
        self.late_requests += other.late_requests;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Act(usize),
    /// A request is served. The flags say whether the answer arrives, and whether the request arrives a second time.
    Serve {
        request: Request,
        answered: bool,
        again: bool,
    },
    TimeOut(usize),
    LeaseRunsOut,
    Crash(usize),
    StartAgain(usize),
}

impl World {
    pub(crate) fn new(locks: [bool; 2], puts: [u8; 2], budget: Budget) -> Self {
        let nodes = [Node::new(0, locks[0], puts[0]), Node::new(1, locks[1], puts[1])];
        World { etcd: Etcd::new(), nodes, sent: Vec::new(), applied: Ids::default(), failed: Ids::default(), budget }
    }

    /// Adds a request to those in flight, whose order makes no difference.
    fn send(&mut self, request: Option<Request>) {
        if let Some(request) = request
            && let Err(at) = self.sent.binary_search(&request)
        {
            self.sent.insert(at, request);
        }
    }

    fn serve(
        &mut self,
        request: Request,
        answered: bool,
        again: bool,
        fault: Fault,
        explored: &mut Explored,
    ) -> Result<(), String> {
        let before = self.etcd;
        let (answer, broken) = self.etcd.serve(request, fault);
        self.count(request, &before, answer, explored);
        if let Some(broken) = broken {
            return Err(format!("{request:?} {broken}"));
        }
        if let Request::Transaction(id, _) = request
            && self.etcd.value == Some(id)
            && before.value != Some(id)
        {
            if self.failed.contains(id) {
                return Err(format!("{id:?} applies after its failure was reported"));
            }
            if !self.applied.insert(id) {
                return Err(format!("{id:?} applies a second time"));
            }
            if self.nodes[id.node].is_followed(id) {
                return Err(format!("{id:?} applies, of a process that was followed by another"));
            }
        }
        if again {
            self.budget.twice -= 1;
        } else {
            self.sent.retain(|one| *one != request);
        }
        if !answered {
            self.budget.lost -= 1;
            return Ok(());
        }
        let (Request::Transaction(id, _) | Request::Close(id)) = request;
        if !self.nodes[id.node].waits_for(request) {
            return Ok(());
        }
        let report = self.nodes[id.node].hear(answer);
        self.report(report, explored)
    }

    fn count(&self, request: Request, before: &Etcd, answer: Answer, explored: &mut Explored) {
        match (request, answer) {
            (Request::Close(_), Answer::Outcome(Outcome::Done, _)) => explored.told_by_the_mark += 1,
            (Request::Close(_), Answer::Outcome(Outcome::Void, _)) => explored.closed_in_time += 1,
            (Request::Transaction(..), Answer::Outcome(Outcome::Void, _)) => explored.late_requests += 1,
            (
                Request::Transaction(_, crate::etcd::Change::Put { expected, token: Some(token) }),
                Answer::Outcome(Outcome::Refused, _),
            ) if expected == before.value && before.lock != Some(token) => {
                explored.fenced += 1;
            }
            _ => {}
        }
    }

    fn report(&mut self, report: Option<Report>, explored: &mut Explored) -> Result<(), String> {
        match report {
            Some(Report::Success(id)) => {
                explored.successes += 1;
                if !self.applied.contains(id) {
                    return Err(format!("{id:?} is acknowledged and has not applied"));
                }
            }
            Some(Report::Failure(id)) => {
                explored.refusals += 1;
                if self.applied.contains(id) {
                    return Err(format!("{id:?} has applied, and its failure is reported"));
                }
                self.failed.insert(id);
            }
            None => {}
        }
        Ok(())
    }
}

impl Explorable for World {
    type Event = Event;
    type Fault = Fault;
    type Seen = Explored;

    fn events(&self, _fault: Fault) -> Vec<Event> {
        let mut events = Vec::new();
        for node in &self.nodes {
            match node.stage {
                Stage::Sent(..) | Stage::Closing(..) if self.budget.timeouts > 0 => {
                    events.push(Event::TimeOut(node.index))
                }
                Stage::Crashed => events.push(Event::StartAgain(node.index)),
                _ if node.can_act() => events.push(Event::Act(node.index)),
                _ => {}
            }
            if self.budget.crashes > 0 && !matches!(node.stage, Stage::Crashed | Stage::Ended) {
                events.push(Event::Crash(node.index));
            }
        }
        for &request in &self.sent {
            events.push(Event::Serve { request, answered: true, again: false });
            if self.budget.lost > 0 {
                events.push(Event::Serve { request, answered: false, again: false });
            }
            if self.budget.twice > 0 {
                events.push(Event::Serve { request, answered: true, again: true });
            }
        }
        if self.budget.leases > 0 && self.etcd.lock.is_some() {
            events.push(Event::LeaseRunsOut);
        }
        events
    }

    fn happen(&mut self, event: Event, fault: Fault, explored: &mut Explored) -> Result<(), String> {
        match event {
            Event::Act(node) => {
                let request = self.nodes[node].act(&self.etcd);
                self.send(request);
            }
            Event::Serve { request, answered, again } => return self.serve(request, answered, again, fault, explored),
            Event::TimeOut(node) => {
                self.budget.timeouts -= 1;
                let (request, report) = self.nodes[node].time_out(&self.etcd, fault);
                self.send(request);
                return self.report(report, explored);
            }
            Event::LeaseRunsOut => {
                self.budget.leases -= 1;
                self.etcd.lock = None;
            }
            Event::Crash(node) => {
                self.budget.crashes -= 1;
                self.nodes[node].stage = Stage::Crashed;
            }
            Event::StartAgain(node) => self.nodes[node].start_again(&mut self.etcd, fault),
        }
        Ok(())
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
