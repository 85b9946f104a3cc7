//! A transaction that adds one entry to a reflog and changes no ref.

use super::{
    Context, HookState,
    conflicts::in_the_way,
    hook::{ask, tell},
    names::refuse_other_files,
    normalize_message,
};
use crate::{
    Misuse, Rejection, RejectionReason, Result, Step,
    backend::{Claim, ClaimKind, LogLine, Standing},
};
use bstr::{BStr, ByteSlice};
use refdb_types::{ObjectId, RefName};

/// Implements [`Store::append_log`](crate::Store::append_log).
pub(crate) fn append_log(
    context: Context<'_>,
    name: &RefName,
    old: ObjectId,
    new: ObjectId,
    message: &BStr,
) -> Result<()> {
    if let Some(why) = context.forbidden {
        return Err(why.clone().into());
    }
    if let Some(id) = [old, new].into_iter().find(|id| id.kind() != context.hash) {
        return Err(Misuse::BadId(id.to_string()).into());
    }
    refuse_other_files(name)?;
    let committer = (context.committer)()?;
    let message = normalize_message(message);
    let plain = context.backend.canonical_name(name.as_bstr());
    let log = Some(LogLine { old, new, committer: &committer, message: message.as_bstr() });
    let steps = vec![Step { name: plain, old: None, is_broken: false, new: None, log }];
    // git runs the hook for such a transaction too, but without any input.
    let mut hook = context.hooks.find()?;
    ask(&mut hook, &Vec::new, HookState::Preparing, ())?;
    debug_assert!(message.lines().count() <= 1, "an entry is one line");
    let mut locked = context.backend.lock(&vec![Claim { name: plain, kind: ClaimKind::Hold }])?;
    if let Some((_, why)) = locked.refused().first() {
        return Err(Rejection::of(name.clone(), why.clone()).into());
    }
    // In files, as in git, no reflog is written for a ref that does not exist if its name conflicts with another ref's.
    let standing = locked.standing(plain);
    if standing != Standing::NoFiles
        && matches!(locked.snapshot().get(plain), Ok(None))
        && let Some(with) = in_the_way(locked.snapshot(), plain)?
    {
        return Err(Rejection::of(
            name.clone(),
            RejectionReason::Conflict { with, is_new: false, prevents_lock: standing == Standing::Folder },
        )
        .into());
    }
    locked.stage(&steps)?;
    let locked = ask(&mut hook, &Vec::new, HookState::Prepared, locked)?;
    locked.commit(&steps)?;
    tell(&mut hook, &Vec::new, HookState::Committed)
}
