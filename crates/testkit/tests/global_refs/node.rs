//! A node: takes the lock if it uses one, reads the value, puts its own value, and finds out what became of the put.

use crate::Fault;
use crate::etcd::{Answer, Change, Etcd, Id, Mark, Outcome, Request};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stage {
    /// The node takes its next step.
    Ready,
    /// The node has read this value, and puts its own next.
    HasRead(Option<Id>),
    /// The node waits for the answer to this transaction.
    Sent(Id, Change),
    /// The node waits for the answer to the closing of its mark.
    Closing(Id, Change),
    Crashed,
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Node {
    pub(crate) index: usize,
    start: u8,
    number: u8,
    locks: bool,
    puts: u8,
    token: Option<u8>,
    pub(crate) stage: Stage,
}

/// The result that a node reports to its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Report {
    Success(Id),
    Failure(Id),
}

impl Node {
    pub(crate) fn new(index: usize, locks: bool, puts: u8) -> Self {
        Node { index, start: 0, number: 0, locks, puts, token: None, stage: Stage::Ready }
    }

    /// Takes the next step, if that does not depend on an answer: reads, or returns a request to send.
    pub(crate) fn act(&mut self, etcd: &Etcd) -> Option<Request> {
        match self.stage {
            Stage::Ready if self.puts == 0 => {
                self.stage = Stage::Ended;
                None
            }
            Stage::Ready if self.locks && self.token.is_none() => Some(self.send(Change::Lock)),
            Stage::Ready => {
                self.stage = Stage::HasRead(etcd.value);
                None
            }
            Stage::HasRead(expected) => Some(self.send(Change::Put { expected, token: self.token })),
            _ => unreachable!("waits, or is no more"),
        }
    }

    pub(crate) fn can_act(&self) -> bool {
        matches!(self.stage, Stage::Ready | Stage::HasRead(_))
    }

    fn send(&mut self, change: Change) -> Request {
        self.number += 1;
        let id = Id { node: self.index, start: self.start, number: self.number };
        self.stage = Stage::Sent(id, change);
        Request::Transaction(id, change)
    }

    /// Returns whether the node waits for the answer to this request.
    pub(crate) fn waits_for(&self, request: Request) -> bool {
        match self.stage {
            Stage::Sent(id, change) => request == Request::Transaction(id, change),
            Stage::Closing(id, _) => request == Request::Close(id),
            _ => false,
        }
    }

    /// Handles a timeout: no answer came in time.
    pub(crate) fn time_out(&mut self, etcd: &Etcd, fault: Fault) -> (Option<Request>, Option<Report>) {
        let (Stage::Sent(id, change) | Stage::Closing(id, change)) = self.stage else {
            unreachable!("waits for nothing")
        };
        match (fault, change) {
            (Fault::LostAnswerIsSuccess, Change::Put { .. }) => (None, self.ended(id, change, Outcome::Done, None)),
            (Fault::PlainReadOfTheMark, Change::Put { .. }) => {
                let outcome =
                    if let Answer::Outcome(outcome, _) = etcd.told(id, fault) { outcome } else { Outcome::Void };
                (None, self.ended(id, change, outcome, None))
            }
            _ => {
                self.stage = Stage::Closing(id, change);
                (Some(Request::Close(id)), None)
            }
        }
    }

    pub(crate) fn hear(&mut self, answer: Answer) -> Option<Report> {
        let (Stage::Sent(id, change) | Stage::Closing(id, change)) = self.stage else {
            unreachable!("waits for nothing")
        };
        let Answer::Outcome(outcome, revision) = answer else { unreachable!("only its own process uses a mark") };
        self.ended(id, change, outcome, revision)
    }

    fn ended(&mut self, id: Id, change: Change, outcome: Outcome, revision: Option<u8>) -> Option<Report> {
        self.stage = Stage::Ready;
        match (change, outcome) {
            (Change::Lock, Outcome::Done) => {
                // If the lease expired before the answer arrived, another node may have the lock by now.
                self.token = revision;
                None
            }
            (Change::Lock, _) => {
                self.puts = 0;
                None
            }
            (Change::Put { .. }, outcome) => {
                self.puts -= 1;
                Some(if outcome == Outcome::Done { Report::Success(id) } else { Report::Failure(id) })
            }
        }
    }

    /// Restarts after a crash, and claims its mark, so that nothing from before the crash can be applied any more.
    pub(crate) fn start_again(&mut self, etcd: &mut Etcd, fault: Fault) {
        assert_eq!(self.stage, Stage::Crashed);
        let mark = &mut etcd.marks[self.index];
        self.start += 1;
        if fault != Fault::MarksNotClaimed {
            *mark = Mark { start: self.start, number: 0, outcome: Outcome::Void, revision: None };
        }
        (self.number, self.token, self.locks, self.stage) = (0, None, false, Stage::Ended);
    }

    /// Returns whether a transaction belongs to a process that has been replaced.
    pub(crate) fn is_followed(&self, id: Id) -> bool {
        id.start < self.start
    }
}
