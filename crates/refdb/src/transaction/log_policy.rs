use super::{
    Context,
    edits::{Action, Edits, Value},
    plan::{Plan, Resolved},
};
use crate::{Result, backend::Snapshot};

/// Marks the items that get a reflog entry. Old values must be known. Rejected items get no entry.
pub(super) fn logs(plan: &mut Plan, snapshot: &dyn Snapshot, context: Context<'_>) -> Result<()> {
    let Plan { edits, resolved, .. } = plan;
    let keeps_symref_logs = context.backend.keeps_symref_logs();
    let mut doubtful = Vec::new();
    for position in 0..edits.order.len() {
        let at = edits.order[position];
        let item = &edits.items[at as usize];
        if item.rejected || item.suppress_log || !is_worth_logging(edits, resolved, at, keeps_symref_logs) {
            continue;
        }
        let is_continued = || edits.source(at).map_or(Ok(false), |source| snapshot.has_log(source));
        if item.force_log || context.log_policy.creates_log(edits.text(item.name)) || is_continued()? {
            edits.items[at as usize].logs = true;
        } else {
            doubtful.push(at);
        }
    }
    // A reflog that exists is continued, whatever the policy says.
    let mut logged = Vec::new();
    let mut names = doubtful.iter().map(|at| edits.name(*at));
    snapshot.having_logs(&mut names, &mut |found| {
        logged.push(doubtful[found]);
        Ok(())
    })?;
    for at in logged {
        edits.items[at as usize].logs = true;
    }
    debug_assert!(edits.items.iter().all(|item| !item.logs || !item.rejected), "what does not happen is not logged");
    Ok(())
}

/// Returns whether git would log what happens to this item. A ref that is set to the id that it has gets no entry, but
/// the symbolic refs that lead to it get one. A ref that is made symbolic gets an entry if its target leads to an
/// object. A ref that is deleted takes its reflog along, unless it is a symbolic ref whose reflog stays.
fn is_worth_logging(edits: &Edits, resolved: &Resolved, at: u32, keeps_symref_logs: bool) -> bool {
    let item = &edits.items[at as usize];
    match item.action {
        Action::Verify => false,
        Action::Delete => keeps_symref_logs && matches!(item.old, Some(Value::Symbolic(_))),
        Action::Set(value @ Value::Direct(_)) => item.old != Some(value),
        Action::Set(Value::Symbolic(_)) => resolved.new.contains_key(&at),
        Action::LogOnly(_) => match resolved.leaf(edits, at) {
            (_, Action::Verify | Action::LogOnly(_)) => false,
            (leaf, Action::Delete) => edits.items[leaf as usize].old.is_some(),
            (_, Action::Set(_)) => true,
        },
    }
}
