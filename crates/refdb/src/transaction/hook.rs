use crate::{Error, Result};
use refdb_repo::hooks::{HookPrograms, RepositoryHooks};

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

/// Runs the hook in a state where it can say no. If it does, it is told of the end that this makes, as by git. `lines` is
/// its stdin.
pub(super) fn ask(hook: &mut Option<Box<dyn Hook>>, lines: &dyn Fn() -> Vec<u8>, state: HookState) -> Result<()> {
    debug_assert!(matches!(state, HookState::Preparing | HookState::Prepared), "nothing has been decided: {state:?}");
    let Some(hook) = hook else { return Ok(()) };
    let lines = lines();
    if hook.run(state, &lines)? {
        return Ok(());
    }
    hook.run(HookState::Aborted, &lines)?;
    let state = state.as_str();
    Err(Error::Hook(format!("in '{state}' phase, update aborted by the reference-transaction hook")))
}

/// Runs the hook in a state where nobody cares what it says.
pub(super) fn tell(hook: &mut Option<Box<dyn Hook>>, lines: &dyn Fn() -> Vec<u8>, state: HookState) -> Result<()> {
    debug_assert!(matches!(state, HookState::Committed | HookState::Aborted), "it is over: {state:?}");
    let Some(hook) = hook else { return Ok(()) };
    hook.run(state, &lines()).map(drop)
}

impl HookSource for RepositoryHooks {
    fn find(&self) -> Result<Option<Box<dyn Hook>>> {
        Ok(RepositoryHooks::find(self)?.map(|programs| Box::new(programs) as Box<dyn Hook>))
    }
}

impl Hook for HookPrograms {
    fn run(&mut self, state: HookState, lines: &[u8]) -> Result<bool> {
        HookPrograms::run(self, state.as_str(), lines).map_err(|error| Error::Hook(error.to_string()))
    }
}
