use crate::Result;

/// The states of a transaction that githooks(5) names for `reference-transaction`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookState {
    /// All edits are known, nothing is locked. The hook can still say no.
    Preparing,
    /// Everything is locked and staged. The hook can still say no.
    Prepared,
    /// It is done.
    Committed,
    /// It will not be done.
    Aborted,
}

impl HookState {
    /// The hook's argument.
    pub fn as_str(self) -> &'static str {
        match self {
            HookState::Preparing => "preparing",
            HookState::Prepared => "prepared",
            HookState::Committed => "committed",
            HookState::Aborted => "aborted",
        }
    }

    /// Whether a failure of the hook ends the transaction.
    pub fn can_refuse(self) -> bool {
        matches!(self, HookState::Preparing | HookState::Prepared)
    }
}

/// What runs at each state of a transaction: the reference-transaction hook, or nothing.
pub trait Hook: Sync {
    /// Whether there is anything to run. It is asked once a transaction, and decides for all its states.
    fn is_wanted(&self) -> Result<bool>;

    /// Runs it; `lines` is its stdin, `OLD NEW NAME` a line. `Ok(false)` if it failed.
    fn run(&self, state: HookState, lines: &[u8]) -> Result<bool>;
}

/// For callers that want no hook.
#[derive(Clone, Copy, Debug)]
pub struct NoHook;

impl Hook for NoHook {
    fn is_wanted(&self) -> Result<bool> {
        Ok(false)
    }
    fn run(&self, _: HookState, _: &[u8]) -> Result<bool> {
        Ok(true)
    }
}
