//! A member of a group: one change of one ref, by a thread of its own.

/// The refs there are. `Child` is below `Folder`, so both cannot be there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ref {
    Folder,
    Child,
    Other,
}

impl Ref {
    /// Whether one is the other, or they cannot stand beside each other.
    pub(crate) fn is_near(self, other: Ref) -> bool {
        (self == Ref::Other) == (other == Ref::Other)
    }

    /// The one that cannot be there as well.
    pub(crate) fn rival(self) -> Option<Ref> {
        match self {
            Ref::Folder => Some(Ref::Child),
            Ref::Child => Some(Ref::Folder),
            Ref::Other => None,
        }
    }
}

/// The ref is there afterwards, or it is not; before it was the other way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Change {
    pub(crate) name: Ref,
    pub(crate) creates: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stage {
    /// In the queue.
    Waiting,
    /// The leader has checked it. It writes its intent next.
    Checked,
    /// It asks next.
    Placed,
    /// Its request is sent, and not answered.
    Asked,
    /// It has told the leader that it may be made.
    Agreed,
    /// Its thread does nothing any more, and has not said so.
    Hangs,
    /// Its caller was told something, or is gone.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Mark {
    Open,
    Done,
    Refused,
    /// Closed before the request came.
    Void,
}

/// What a caller hears.
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
    /// Whether its request is on its way.
    pub(crate) is_sent: bool,
    pub(crate) mark: Mark,
    /// Whether the leader still waits for its word.
    pub(crate) is_waited_for: bool,
    /// Whether a disk has ever had its change.
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
