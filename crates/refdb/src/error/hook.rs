//! The states in which the reference-transaction hook runs, and its failures.

/// The reference-transaction hook refused a transaction, or could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookFailure {
    /// The hook refused the transaction in this state. No ref has changed.
    #[error("in '{}' phase, update aborted by the reference-transaction hook", .0.as_str())]
    Refused(HookState),
    /// One of the hook's programs could not be run.
    #[error(transparent)]
    NotRun(#[from] refdb_repo::hooks::HookError),
}

/// The states of a transaction that githooks(5) names for `reference-transaction`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookState {
    /// All edits are known and nothing is locked. The hook can still refuse.
    Preparing,
    /// Everything is locked and staged. The hook can still refuse.
    Prepared,
    /// The refs have changed.
    Committed,
    /// The refs will not change.
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
