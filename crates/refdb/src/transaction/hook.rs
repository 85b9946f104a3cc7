use crate::{Error, HookFailure, HookState, Result};
use refdb_repo::hooks::{HookPrograms, RepositoryHooks};
use refdb_vfs::interrupt;

/// Finds the hook of each transaction.
pub trait HookSource: Sync {
    /// The hook of one transaction; `None` if there is none. Called at most once per transaction.
    fn find(&self) -> Result<Option<Box<dyn Hook>>>;
}

/// The reference-transaction hooks of one transaction.
pub trait Hook {
    /// Runs the hook with `lines` as its stdin, each of them `OLD NEW NAME`. Returns `Ok(false)` if the hook refuses,
    /// which has an effect only in the states [`Preparing`](HookState::Preparing) and
    /// [`Prepared`](HookState::Prepared).
    fn run(&mut self, state: HookState, lines: &[u8]) -> Result<bool>;
}

/// A source without any hook.
#[derive(Clone, Copy, Debug)]
pub struct NoHook;

impl HookSource for NoHook {
    fn find(&self) -> Result<Option<Box<dyn Hook>>> {
        Ok(None)
    }
}

/// Runs the hook in a state in which it can refuse, and returns the locks that are `held` meanwhile. If it refuses, they
/// are released, it is run again in the state `aborted`, and the transaction fails. `lines` returns its stdin.
pub(super) fn ask<L>(
    hook: &mut Option<Box<dyn Hook>>,
    lines: &dyn Fn() -> Vec<u8>,
    state: HookState,
    held: L,
) -> Result<L> {
    debug_assert!(matches!(state, HookState::Preparing | HookState::Prepared), "nothing has been decided: {state:?}");
    let Some(hook) = hook else { return Ok(held) };
    let lines = lines();
    if hook.run(state, &lines)? {
        return Ok(held);
    }
    drop(held);
    hook.run(HookState::Aborted, &lines)?;
    Err(HookFailure::Refused(state).into())
}

/// Runs the hook in a state in which a refusal has no effect.
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
        HookPrograms::run(self, state.as_str(), lines).map_err(|error| match interrupt::check() {
            Err(stopped) => Error::Interrupted(stopped),
            Ok(()) => HookFailure::NotRun(error).into(),
        })
    }
}
