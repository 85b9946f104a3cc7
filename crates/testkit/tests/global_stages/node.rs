//! A node: either stages its batch part by part, decides it, and finds out what became of it, or puts single refs.

use crate::Fault;
use crate::etcd::{Answer, Base, Cell, Decider, Etcd, Outcome, Request, Value};

/// The kind of work of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    /// Changes both refs at once.
    Batch,
    /// Changes the second ref, then the first.
    Put,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stage {
    /// The node reads next which values it replaces.
    Ready,
    /// The node stages this part next, on top of the value that it expects in etcd.
    Guessing(usize),
    /// The node finds out next whether this part was staged, and if not, why.
    Looking(usize),
    Deciding,
    /// The node waits for the answer to this request.
    Waits(Request),
    /// Neither the decision nor the closing of its mark was answered, so the intent is kept for recovery.
    Unknown,
    Crashed,
    /// The node puts this ref next, on top of this revision and value.
    Putting(usize, u8, Value),
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Node {
    pub(crate) index: usize,
    pub(crate) kind: Kind,
    pub(crate) stage: Stage,
    expected: [Value; 2],
    number: u8,
    token: u8,
}

/// The result that a node reports to its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Report {
    Success,
    Failure,
}

impl Node {
    pub(crate) fn new(index: usize, kind: Kind) -> Self {
        Node { index, kind, stage: Stage::Ready, expected: [0; 2], number: 1, token: 0 }
    }

    pub(crate) fn can_act(&self) -> bool {
        matches!(self.stage, Stage::Ready | Stage::Guessing(_) | Stage::Looking(_) | Stage::Deciding)
    }

    /// Takes the next step of a node that [`can_act`](Self::can_act). Returns the request that the node sends and the
    /// result that it reports. Reading both refs is one atomic step.
    pub(crate) fn act(&mut self, etcd: &Etcd, fault: Fault) -> (Option<Request>, Option<Report>) {
        match self.stage {
            Stage::Ready => {
                self.expected = [0, 1].map(|at| etcd.effective(at).expect("else a promise is broken already"));
                self.stage = match self.kind {
                    Kind::Batch => Stage::Guessing(0),
                    Kind::Put => self.putting(1, etcd, fault),
                };
                (None, None)
            }
            Stage::Guessing(at) => (Some(self.send_stage(at, Base::Value(self.expected[at]))), None),
            Stage::Looking(at) => self.look(at, etcd, fault),
            Stage::Deciding => {
                let request = Request::Decide { batch: self.index, number: self.number, token: self.token };
                self.stage = Stage::Waits(request);
                (Some(request), None)
            }
            _ => unreachable!("waits, or is no more"),
        }
    }

    /// Returns `Putting` if the ref can be put now, `Ready` if an undecided batch has staged it, and `Ended` if it has
    /// no value.
    fn putting(&self, at: usize, etcd: &Etcd, fault: Fault) -> Stage {
        match etcd.effective(at) {
            Some(_) if etcd.open_stage(at).is_some() && fault != Fault::PutOverStage => Stage::Ready,
            Some(value) => Stage::Putting(at, etcd.revisions[at], value),
            None => Stage::Ended,
        }
    }

    /// Continues after a put that was applied or refused.
    pub(crate) fn has_put(&mut self, at: usize, etcd: &Etcd, fault: Fault) {
        self.stage = if at == 1 { self.putting(0, etcd, fault) } else { Stage::Ended };
        if self.stage == Stage::Ready {
            self.stage = Stage::Ended;
        }
    }

    fn send_stage(&mut self, at: usize, base: Base) -> Request {
        let request = Request::Stage { batch: self.index, at, base, old: self.expected[at] };
        self.stage = Stage::Waits(request);
        request
    }

    fn look(&mut self, at: usize, etcd: &Etcd, fault: Fault) -> (Option<Request>, Option<Report>) {
        let decider = etcd.deciders[self.index];
        if matches!(etcd.cells[at], Cell::Staged { batch, .. } if batch == self.index) && decider == Decider::Open {
            if at == 0 {
                self.token = etcd.tokens[self.index];
            }
            self.stage = Self::after(at);
            return (None, None);
        }
        let begun = if at == 0 { Decider::Absent } else { Decider::Open };
        if decider != begun && !(fault == Fault::StageWithoutDecider && at == 1) {
            return self.give_up();
        }
        if etcd.open_stage(at).is_some() && fault != Fault::StageOverStage {
            // The node waits, but may give up at any time.
            return (None, None);
        }
        if etcd.effective(at) != Some(self.expected[at]) {
            return self.give_up();
        }
        (Some(self.send_stage(at, Base::Revision(etcd.revisions[at]))), None)
    }

    fn after(at: usize) -> Stage {
        if at == 0 { Stage::Guessing(1) } else { Stage::Deciding }
    }

    /// Ends a batch that is not decided and never will be, and withdraws it. The caller gets the same result whether or
    /// not the request to withdraw the batch arrives.
    pub(crate) fn give_up(&mut self) -> (Option<Request>, Option<Report>) {
        self.stage = Stage::Ended;
        (Some(Request::Withdraw { batch: self.index, number: self.number }), Some(Report::Failure))
    }

    /// Handles a timeout: no answer came in time.
    pub(crate) fn time_out(&mut self, etcd: &Etcd, fault: Fault) -> (Option<Request>, Option<Report>) {
        match self.stage {
            Stage::Waits(Request::Stage { at, .. }) => {
                self.stage = Stage::Looking(at);
                (None, None)
            }
            Stage::Waits(Request::Decide { .. }) if fault == Fault::LostAnswerIsSuccess => {
                self.stage = Stage::Ended;
                (None, Some(Report::Success))
            }
            Stage::Waits(Request::Decide { .. }) if fault == Fault::PlainRead => {
                self.stage = Stage::Ended;
                let is_done = etcd.deciders[self.index] == Decider::Done;
                (None, Some(if is_done { Report::Success } else { Report::Failure }))
            }
            Stage::Waits(Request::Decide { batch, number, .. }) => {
                let request = Request::CloseMark { batch, number };
                self.stage = Stage::Waits(request);
                (Some(request), None)
            }
            Stage::Waits(_) => {
                self.stage = Stage::Unknown;
                (None, None)
            }
            _ => unreachable!("waits for nothing"),
        }
    }

    pub(crate) fn hear(&mut self, request: Request, answer: Answer) -> (Option<Request>, Option<Report>) {
        match (request, answer) {
            (Request::Stage { at, .. }, Answer::Applied | Answer::Begun(_)) => {
                if let Answer::Begun(token) = answer {
                    self.token = token;
                }
                self.stage = Self::after(at);
                (None, None)
            }
            (Request::Stage { at, .. }, _) => {
                self.stage = Stage::Looking(at);
                (None, None)
            }
            (_, Answer::Closed(Outcome::Done)) => {
                self.stage = Stage::Ended;
                (None, Some(Report::Success))
            }
            (_, Answer::Closed(Outcome::Refused)) => {
                // Another node has closed the deciding key.
                self.stage = Stage::Ended;
                (None, Some(Report::Failure))
            }
            (_, Answer::Closed(Outcome::Void)) if self.number == 1 => {
                self.number = 2;
                self.stage = Stage::Deciding;
                (None, None)
            }
            (_, Answer::Closed(Outcome::Void)) => {
                self.number += 1;
                self.give_up()
            }
            _ => unreachable!("no answer to this: {request:?} {answer:?}"),
        }
    }

    /// Recovers the intent that was left: closes the mark and the deciding key, after which the values determine the
    /// outcome.
    pub(crate) fn settle(&mut self, etcd: &mut Etcd, fault: Fault) -> Report {
        let batch = self.index;
        if fault != Fault::DroppedWhileOpen {
            etcd.serve(Request::CloseMark { batch, number: self.number }, Fault::None);
            etcd.serve(Request::Void { batch }, Fault::None);
        }
        self.stage = Stage::Ended;
        let new = Some(crate::etcd::value_of(batch));
        if (0..2).any(|at| etcd.effective(at) == new) { Report::Success } else { Report::Failure }
    }
}
