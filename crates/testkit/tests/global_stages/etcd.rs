//! etcd as staged batches see it: two refs and, for each batch, a mark, a deciding key and a list of its parts.

use crate::Fault;

/// A value, which is the number of the node that put it plus one. 0 is the initial value.
pub(crate) type Value = u8;

/// The value of the key of a ref.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Cell {
    Value(Value),
    /// The stage of a batch: the old value of the ref, and the new value that the batch gives it.
    Staged {
        batch: usize,
        old: Value,
        new: Value,
    },
}

/// The state of the key that decides a batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Decider {
    Absent,
    Open,
    Done,
    Void,
}

/// The outcome of the last decision for which the mark was closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Outcome {
    Done,
    Refused,
    Void,
}

/// A mark, which closes the decisions of a batch up to `number`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Mark {
    pub(crate) number: u8,
    pub(crate) outcome: Outcome,
}

/// The state with which a stage compares its ref.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Base {
    Value(Value),
    Revision(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Request {
    Stage {
        batch: usize,
        at: usize,
        base: Base,
        old: Value,
    },
    Decide {
        batch: usize,
        number: u8,
        /// The token of the deciding key to which the stages belong.
        token: u8,
    },
    CloseMark {
        batch: usize,
        number: u8,
    },
    /// Closes both the mark and the deciding key of a batch that was never decided.
    Withdraw {
        batch: usize,
        number: u8,
    },
    Void {
        batch: usize,
    },
    /// Turns a stage into a value.
    Clear {
        batch: usize,
        at: usize,
        revision: u8,
        to: Value,
    },
    RemoveDecider {
        batch: usize,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Answer {
    Applied,
    /// The first part was applied, and created the deciding key with this token.
    Begun(u8),
    Refused,
    /// The mark is closed with this outcome.
    Closed(Outcome),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Etcd {
    pub(crate) cells: [Cell; 2],
    pub(crate) revisions: [u8; 2],
    pub(crate) deciders: [Decider; 2],
    /// The number of times that each deciding key was created, which is its current token.
    pub(crate) tokens: [u8; 2],
    pub(crate) parts: [[bool; 2]; 2],
    pub(crate) marks: [Mark; 2],
}

impl Etcd {
    pub(crate) fn new() -> Self {
        Etcd {
            cells: [Cell::Value(0); 2],
            revisions: [0; 2],
            deciders: [Decider::Absent; 2],
            tokens: [0; 2],
            parts: [[false; 2]; 2],
            marks: [Mark { number: 0, outcome: Outcome::Done }; 2],
        }
    }

    /// Returns the value of a ref as readers see it; `None` for a stage whose deciding key does not exist.
    pub(crate) fn effective(&self, at: usize) -> Option<Value> {
        match self.cells[at] {
            Cell::Value(value) => Some(value),
            Cell::Staged { batch, old, new } => match self.deciders[batch] {
                Decider::Absent => None,
                Decider::Open | Decider::Void => Some(old),
                Decider::Done => Some(new),
            },
        }
    }

    /// Returns the undecided batch of which a ref has a stage, if any.
    pub(crate) fn open_stage(&self, at: usize) -> Option<usize> {
        match self.cells[at] {
            Cell::Staged { batch, .. } if self.deciders[batch] == Decider::Open => Some(batch),
            _ => None,
        }
    }

    pub(crate) fn set(&mut self, at: usize, cell: Cell) {
        self.cells[at] = cell;
        self.revisions[at] += 1;
    }

    fn is_open(&self, batch: usize, number: u8) -> bool {
        self.marks[batch].number + 1 == number
    }

    /// Evaluates a request atomically.
    pub(crate) fn serve(&mut self, request: Request, fault: Fault) -> Answer {
        match request {
            Request::Stage { batch, at, base, old } => self.stage(batch, at, base, old, fault),
            Request::Decide { batch, number, token } => self.decide(batch, number, token, fault),
            Request::CloseMark { batch, number } => {
                if self.is_open(batch, number) {
                    self.marks[batch] = Mark { number, outcome: Outcome::Void };
                }
                Answer::Closed(self.marks[batch].outcome)
            }
            Request::Withdraw { batch, number } => {
                if self.is_open(batch, number) {
                    self.marks[batch] = Mark { number, outcome: Outcome::Void };
                    self.deciders[batch] = Decider::Void;
                }
                Answer::Closed(self.marks[batch].outcome)
            }
            Request::Void { batch } => {
                let is_open = self.deciders[batch] == Decider::Open;
                if is_open || fault == Fault::VoidWithoutCompare && self.deciders[batch] != Decider::Absent {
                    self.deciders[batch] = Decider::Void;
                }
                Answer::Applied
            }
            Request::Clear { batch, at, revision, to } => {
                if self.revisions[at] == revision || fault == Fault::ClearedWithoutCompare {
                    if matches!(self.cells[at], Cell::Staged { batch: by, .. } if by == batch)
                        || fault == Fault::ClearedWithoutCompare
                    {
                        self.set(at, Cell::Value(to));
                    }
                    self.parts[batch][at] = false;
                }
                Answer::Applied
            }
            Request::RemoveDecider { batch } => {
                let is_closed = matches!(self.deciders[batch], Decider::Done | Decider::Void);
                if is_closed && (self.parts[batch] == [false; 2] || fault == Fault::DeciderGoesFirst) {
                    self.deciders[batch] = Decider::Absent;
                }
                Answer::Applied
            }
        }
    }

    fn stage(&mut self, batch: usize, at: usize, base: Base, old: Value, fault: Fault) -> Answer {
        let is_its_turn = if at == 0 {
            let is_open = self.is_open(batch, 1) || fault == Fault::FirstPartWithoutMark;
            is_open && self.deciders[batch] == Decider::Absent
        } else {
            self.deciders[batch] == Decider::Open || fault == Fault::StageWithoutDecider
        };
        let is_as_expected = match base {
            Base::Value(value) => self.cells[at] == Cell::Value(value),
            Base::Revision(revision) => self.revisions[at] == revision,
        };
        if !is_its_turn || !is_as_expected && fault != Fault::StageWithoutCompare {
            return Answer::Refused;
        }
        self.parts[batch][at] = true;
        self.set(at, Cell::Staged { batch, old, new: value_of(batch) });
        if at > 0 {
            return Answer::Applied;
        }
        self.deciders[batch] = Decider::Open;
        self.tokens[batch] += 1;
        Answer::Begun(self.tokens[batch])
    }

    fn decide(&mut self, batch: usize, number: u8, token: u8, fault: Fault) -> Answer {
        if !self.is_open(batch, number) && fault != Fault::DecisionWithoutMark {
            return Answer::Closed(self.marks[batch].outcome);
        }
        let is_same = self.tokens[batch] == token || fault == Fault::DecisionWithoutToken;
        let is_open = self.deciders[batch] == Decider::Open && is_same || fault == Fault::DecisionWithoutDecider;
        let outcome = if is_open { Outcome::Done } else { Outcome::Refused };
        if is_open {
            self.deciders[batch] = Decider::Done;
        }
        self.marks[batch] = Mark { number, outcome };
        Answer::Closed(outcome)
    }
}

/// Returns the value that the batch or the put of a node gives its refs.
pub(crate) fn value_of(node: usize) -> Value {
    u8::try_from(node).expect("two nodes") + 1
}
