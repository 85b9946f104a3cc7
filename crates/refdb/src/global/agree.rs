//! A transaction that is committed only if the global ref database agrees.

use super::{
    intent::{GlobalRef, Mark},
    intents::GlobalIntents,
};
use crate::{
    RefName, Result, Scope, TargetView, Undecided,
    backend::{NewValue, Steps},
    transaction::{Committed, Prepared},
};

/// Asks the global ref database whether a prepared transaction may be committed. An implementation can keep details
/// beyond the verdict for the code that created it.
pub trait Arbiter {
    /// Receives the changes while their refs are locked. Returns the mark under which the database will be asked, or
    /// `None` if the database does not decide about these refs. An error refuses the transaction.
    fn begin(&mut self, refs: &[GlobalRef]) -> Result<Option<Mark>>;

    /// Asks the database for its verdict. Called after the intent was put on stable storage, and again after each
    /// [`Verdict::Again`].
    fn ask(&mut self) -> Verdict;
}

/// The answer of the database about a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The database has the new values.
    Agreed,
    /// The database has other values, or could not be reached, and will never get the new values from this transaction.
    Refused,
    /// It is not known whether the database has the new values.
    Unknown,
    /// The database has changed nothing, and must be asked again under this mark, which must have the same id.
    Again(Mark),
}

/// Commits a transaction if the arbiter agrees or does not decide about its refs, else aborts it. A transaction without
/// any of the changes that [`refs_of`] returns is committed without asking. If an open intent bars the transaction, or
/// an intent cannot be read, the transaction is aborted without asking.
pub fn commit_agreed(prepared: Prepared<'_>, intents: &GlobalIntents, arbiter: &mut dyn Arbiter) -> Result<Committed> {
    let refs = refs_of(prepared.steps());
    if refs.is_empty() {
        return prepared.commit();
    }
    let intent = match intents.bar(&refs).and_then(|()| ask(intents, &refs, arbiter)) {
        Ok(intent) => intent,
        Err(error) => {
            // Why the database refused matters more than a hook that cannot be told of it.
            prepared.abort().ok();
            return Err(error);
        }
    };
    // If the disk fails now, the intent stays: the database has agreed, so the update will be finished later.
    prepared.commit_then(|| {
        // The intent would bar a transaction that the hook makes. If it cannot be removed now, it is settled later.
        if let Some(id) = intent {
            intents.remove(&id).ok();
        }
    })
}

/// Commits a transaction that settles an intent: one that gives refs the values that the global ref database has
/// according to this intent. If the intent is gone, because somebody else has settled it, the transaction is aborted
/// and `None` is returned.
///
/// The intent is looked for while the refs are locked. As long as it is there, no transaction that asks the database
/// changes its refs ([`GlobalIntents::bar`]), so nobody has changed them since the intent was settled. Otherwise a ref
/// that has its old value again by a later transaction would get the intent's new value a second time.
pub fn commit_settling(prepared: Prepared<'_>, intents: &GlobalIntents, id: &str) -> Result<Option<Committed>> {
    if intents.is_open(id)? {
        return prepared.commit().map(Some);
    }
    prepared.abort()?;
    Ok(None)
}

/// Asks the arbiter about changes whose refs are locked and checked, and which no intent bars.
///
/// Returns the id of the intent if the arbiter agrees; the caller removes the intent once the changes are made, and not
/// before. Returns `None` if the arbiter does not decide about these refs. After an error the caller must not make the
/// changes; an intent that is left then, because the answer is unknown or because the intent could not be removed, is
/// settled later.
///
/// # Panics
///
/// If `refs` is empty, if a mark is not as the fields of [`Mark`] demand, or if [`Verdict::Again`] has a mark with
/// another id.
pub fn ask(intents: &GlobalIntents, refs: &[GlobalRef], arbiter: &mut dyn Arbiter) -> Result<Option<String>> {
    assert!(!refs.is_empty(), "a transaction that changes no ref asks nobody");
    let Some(mut mark) = arbiter.begin(refs)? else { return Ok(None) };
    loop {
        if let Err(error) = intents.place(&mark, refs) {
            // The intent may have been written all the same. The database was not asked or changed nothing, so settling
            // the intent drops it.
            intents.remove(&mark.id).ok();
            return Err(error);
        }
        match arbiter.ask() {
            Verdict::Agreed => return Ok(Some(mark.id)),
            Verdict::Refused => {
                intents.remove(&mark.id).ok();
                return Err(Undecided::NotAgreed.into());
            }
            Verdict::Unknown => return Err(Undecided::Unknown(intents.path(&mark.id)).into()),
            Verdict::Again(next) => {
                assert_eq!(next.id, mark.id, "a transaction that asks again keeps its intent");
                mark = next;
            }
        }
    }
}

/// Returns the changes of shared refs with valid names below `refs/` that add, replace or remove an object.
pub fn refs_of(steps: &dyn Steps) -> Vec<GlobalRef> {
    let mut refs = Vec::new();
    for at in 0..steps.count() {
        let step = steps.step(at);
        let Some(new) = step.new else { continue };
        let Ok(name) = RefName::new(step.name.to_vec()) else { continue };
        if !name.starts_with(b"refs/") || Scope::of(&name) != Scope::Shared {
            continue;
        }
        let old = match step.old {
            Some(TargetView::Direct(id)) => Some(id).filter(|id| !id.is_null()),
            Some(TargetView::Symbolic(_)) | None => None,
        };
        let new = match new {
            NewValue::Direct(id, _) => Some(id).filter(|id| !id.is_null()),
            NewValue::Symbolic(_) | NewValue::Deleted => None,
        };
        if old.is_some() || new.is_some() {
            refs.push(GlobalRef { name, old, new });
        }
    }
    debug_assert!(refs.is_sorted_by(|one, other| one.name < other.name), "steps are in order, each ref once");
    refs
}
