//! A member of a group: one change of one ref, made by a thread of its own.

/// The refs of the model. `Child` is below `Folder`, so both cannot exist at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ref {
    Folder,
    Child,
    Other,
}

impl Ref {
    /// Returns whether both are the same ref, or cannot exist at the same time.
    pub(crate) fn is_near(self, other: Ref) -> bool {
        (self == Ref::Other) == (other == Ref::Other)
    }

    /// Returns the ref that cannot exist beside this one.
    pub(crate) fn rival(self) -> Option<Ref> {
        match self {
            Ref::Folder => Some(Ref::Child),
            Ref::Child => Some(Ref::Folder),
            Ref::Other => None,
        }
    }
}

/// A change that creates or deletes a ref.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Change {
    pub(crate) name: Ref,
    pub(crate) creates: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stage {
    /// The member is in the queue.
    Waiting,
    /// The leader has checked the member, which writes its intent next.
    Checked,
    /// The member asks etcd next.
    Placed,
    /// The member's request was sent, and there is no answer yet.
    Asked,
    /// The member has told the leader that etcd agreed.
    Agreed,
    /// The member's thread hangs, and has not reported a result.
    Hangs,
    /// The member's caller has received a result, or no longer exists.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Mark {
    Open,
    Done,
    Refused,
    /// The mark was closed before the request arrived.
    Void,
}

/// The result that a caller receives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Told {
    Success,
    Failure,
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Member {
    pub(crate) change: Change,
    pub(crate) stage: Stage,
    pub(crate) has_intent: bool,
    /// Whether the member's request is in flight.
    pub(crate) is_sent: bool,
    pub(crate) mark: Mark,
    /// Whether the leader is still waiting for the member's report.
    pub(crate) is_waited_for: bool,
    /// Whether the member's change has ever been on the disk.
    pub(crate) is_made: bool,
    pub(crate) told: Option<Told>,
}

impl Member {
    pub(crate) fn new(change: Change) -> Self {
        Member {
            change,
            stage: Stage::Waiting,
            has_intent: false,
            is_sent: false,
            mark: Mark::Open,
            is_waited_for: false,
            is_made: false,
            told: None,
        }
    }

    pub(crate) fn end(&mut self, told: Told) {
        (self.stage, self.is_waited_for, self.told) = (Stage::Ended, false, Some(told));
    }
}
