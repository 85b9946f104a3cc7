//! etcd as the protocol sees it: one value, one lock, and a mark for each node. Each request is evaluated atomically.

use crate::Fault;

/// The outcome of a transaction, as its mark records it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Outcome {
    Done,
    Refused,
    /// The node closed the mark before the transaction arrived, so the transaction will never be applied.
    Void,
}

/// Identifies a transaction by its node, the start of that node, and a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Id {
    pub(crate) node: usize,
    pub(crate) start: u8,
    pub(crate) number: u8,
}

/// The last transaction that was closed. The mark is open for the next one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Mark {
    pub(crate) start: u8,
    pub(crate) number: u8,
    pub(crate) outcome: Outcome,
    /// The revision at which the mark was closed, if the transaction took the lock. No other revision matters.
    pub(crate) revision: Option<u8>,
}

/// The change that a transaction makes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Change {
    Lock,
    /// Sets the value to the id of the transaction. `token` is the revision of the lock that the node has taken, if it
    /// uses one.
    Put {
        expected: Option<Id>,
        token: Option<u8>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Request {
    Transaction(Id, Change),
    /// Closes the mark of this transaction, if it is still open.
    Close(Id),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Answer {
    /// The outcome, and the revision of the lock that the transaction took, if it took one. That lock may be gone by
    /// now.
    Outcome(Outcome, Option<u8>),
    /// The mark belongs to a later transaction or start, and says nothing about this one.
    NotTold,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Etcd {
    pub(crate) value: Option<Id>,
    /// The revision of the lock that is held.
    pub(crate) lock: Option<u8>,
    /// The revision of the last lock that was taken.
    pub(crate) locks: u8,
    /// The node that took it.
    pub(crate) taker: usize,
    pub(crate) marks: [Mark; 2],
}

impl Etcd {
    pub(crate) fn new() -> Self {
        let fresh = Mark { start: 0, number: 0, outcome: Outcome::Done, revision: None };
        Etcd { value: None, lock: None, locks: 0, taker: 0, marks: [fresh; 2] }
    }

    /// Returns the outcome of a transaction as its mark records it.
    pub(crate) fn told(&self, id: Id, fault: Fault) -> Answer {
        let mark = &self.marks[id.node];
        if (mark.start, mark.number) == (id.start, id.number) {
            let revision = if fault == Fault::RevisionOfTheHeldLock { self.lock } else { mark.revision };
            Answer::Outcome(mark.outcome, revision)
        } else {
            Answer::NotTold
        }
    }

    fn is_open(&self, id: Id, fault: Fault) -> bool {
        let mark = &self.marks[id.node];
        assert!(id.number > 0);
        let same_number = mark.number + 1 == id.number;
        match fault {
            Fault::MarkNotCompared => true,
            Fault::MarkWithoutNumber => mark.start == id.start && mark.number < id.number + 2,
            _ => mark.start == id.start && same_number,
        }
    }

    /// Evaluates a request. Returns its answer, and the promise that it broke, if any.
    pub(crate) fn serve(&mut self, request: Request, fault: Fault) -> (Answer, Option<&'static str>) {
        match request {
            Request::Close(id) => {
                if self.is_open(id, Fault::None) {
                    self.close(id, Outcome::Void, None);
                }
                (self.told(id, fault), None)
            }
            Request::Transaction(id, _) if !self.is_open(id, fault) => (self.told(id, fault), None),
            Request::Transaction(id, Change::Lock) => {
                if self.lock.is_some() {
                    return (self.close(id, Outcome::Refused, None), None);
                }
                (self.locks, self.taker) = (self.locks + 1, id.node);
                self.lock = Some(self.locks);
                (self.close(id, Outcome::Done, self.lock), None)
            }
            Request::Transaction(id, Change::Put { expected, token }) => {
                let fenced = token.is_some() && token != self.lock && fault != Fault::NoFencing;
                let stale = expected != self.value && fault != Fault::PutWithoutCompare;
                if fenced || stale {
                    return (self.close(id, Outcome::Refused, None), None);
                }
                let broken = if expected != self.value {
                    Some("overwrites a value that it did not see")
                } else if token.is_some_and(|token| token != self.locks || self.taker != id.node) {
                    Some("applies though another node has had the lock since")
                } else {
                    None
                };
                self.value = Some(id);
                (self.close(id, Outcome::Done, None), broken)
            }
        }
    }

    fn close(&mut self, id: Id, outcome: Outcome, revision: Option<u8>) -> Answer {
        self.marks[id.node] = Mark { start: id.start, number: id.number, outcome, revision };
        Answer::Outcome(outcome, revision)
    }
}
