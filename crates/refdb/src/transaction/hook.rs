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
}

/// Where transactions find who may forbid them, or wants to hear of them.
pub trait HookSource: Sync {
    /// What runs at each state of one transaction; `None` if there is nothing. Asked once a transaction.
    fn find(&self) -> Result<Option<Box<dyn Hook>>>;
}

/// What runs at each state of a transaction: the reference-transaction hooks.
pub trait Hook {
    /// Runs it; `lines` is its stdin, `OLD NEW NAME` a line. `Ok(false)` if it failed, which counts only before the
    /// transaction is committed.
    fn run(&mut self, state: HookState, lines: &[u8]) -> Result<bool>;
}

/// For callers that want no hook.
#[derive(Clone, Copy, Debug)]
pub struct NoHook;

impl HookSource for NoHook {
    fn find(&self) -> Result<Option<Box<dyn Hook>>> {
        Ok(None)
    }
}
