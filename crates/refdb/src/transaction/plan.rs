use super::{
    Context,
    edits::{Action, Edits, Item, Value},
};
use crate::{
    Result,
    backend::{LogLine, NewValue, Step, Steps, TargetView},
};
use bstr::BStr;
use refdb_types::{HashKind, Ident, ObjectId};
use std::collections::{HashMap, HashSet};

/// All that a transaction knows: its edits, the items that follow from them, and finally the steps for the backend.
pub(super) struct Plan {
    pub(super) edits: Edits,
    pub(super) resolved: Resolved,
    committer: Option<Ident>,
    /// The items that change a ref or a reflog, in order of name.
    steps: Vec<u32>,
    hash: HashKind,
}

/// The objects to which symbolic values lead, by item.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) old: HashMap<u32, ObjectId>,
    pub(super) new: HashMap<u32, ObjectId>,
    /// Items whose old symbolic value leads to a broken ref, in a circle, through too many refs, or to a name that no
    /// ref may have.
    pub(super) unreadable: HashSet<u32>,
}

impl Resolved {
    /// The item that a chain of symbolic refs ends at, and what it does.
    pub(super) fn leaf(&self, edits: &Edits, mut at: u32) -> (u32, Action) {
        loop {
            match edits.items[at as usize].action {
                // The loop ends, because `Edits::follow` makes an item lead to a newer one, and no item leads to one
                // that `Edits::log_also` has added.
                Action::LogOnly(next) => {
                    debug_assert_ne!(next, at, "a chain of symbolic refs ends");
                    at = next;
                }
                action => return (at, action),
            }
        }
    }
}

impl Plan {
    pub(super) fn new(hash: HashKind) -> Self {
        Plan { edits: Edits::default(), resolved: Resolved::default(), committer: None, steps: Vec::new(), hash }
    }

    pub(super) fn reset(&mut self, added: usize) {
        self.edits.reset(added);
        self.resolved = Resolved::default();
    }

    /// Forgets what the attempts so far have found out about the first `added` items, and drops all other items.
    pub(super) fn start_over(&mut self, added: usize) {
        self.edits.items.iter_mut().for_each(|item| item.left_out = false);
        self.reset(added);
    }

    /// Makes steps of the items that change a ref or a reflog, and determines the committer if there is something to
    /// log.
    pub(super) fn finish(&mut self, context: Context<'_>) -> Result<()> {
        debug_assert!(self.edits.is_sorted(), "steps are sorted by name, and no ref has two");
        let mut steps = std::mem::take(&mut self.edits.order);
        steps.retain(|at| {
            let item = &self.edits.items[*at as usize];
            !item.rejected && (item.logs || self.changes(item))
        });
        if self.committer.is_none() && steps.iter().any(|at| self.edits.items[*at as usize].logs) {
            self.committer = Some((context.committer)()?);
        }
        self.steps = steps;
        Ok(())
    }

    /// Returns whether the item gives its ref another value or removes it.
    fn changes(&self, item: &Item) -> bool {
        match (item.action, item.old) {
            (Action::Verify | Action::LogOnly(_), _) => false,
            (Action::Delete, None) => item.is_broken,
            (Action::Delete, Some(_)) | (Action::Set(_), None) => true,
            (Action::Set(Value::Direct(new)), Some(Value::Direct(old))) => new != old,
            (Action::Set(new), Some(old)) => self.edits.view(new) != self.edits.view(old),
        }
    }

    fn new_value(&self, item: &Item) -> Option<NewValue<'_>> {
        if !self.changes(item) {
            return None;
        }
        match item.action {
            Action::Set(Value::Direct(id)) => Some(NewValue::Direct(self.edits.ids.get(id), self.edits.ids.peeled(id))),
            Action::Set(Value::Symbolic(name)) => Some(NewValue::Symbolic(self.edits.text(name))),
            Action::Delete => Some(NewValue::Deleted),
            Action::Verify | Action::LogOnly(_) => unreachable!("what gets another value is set or deleted"),
        }
    }

    fn log_line(&self, at: u32) -> Option<LogLine<'_>> {
        let item = &self.edits.items[at as usize];
        debug_assert!(!item.logs || self.committer.is_some(), "an entry of a reflog tells who it was");
        let committer = self.committer.as_ref().filter(|_| item.logs)?;
        let (leaf, action) = self.resolved.leaf(&self.edits, at);
        let null = ObjectId::null(self.hash);
        let old = self.edits.id(self.edits.items[leaf as usize].old);
        let new = match action {
            Action::Set(value) => self.edits.id(Some(value)),
            _ => None,
        };
        Some(LogLine {
            old: old.or_else(|| self.resolved.old.get(&leaf).copied()).unwrap_or(null),
            new: new.or_else(|| self.resolved.new.get(&leaf).copied()).unwrap_or(null),
            committer,
            message: self.edits.message(item),
        })
    }

    /// Returns the hook's input: a line for each edit, in the order in which the edits were added. An edit that has
    /// been followed through a symbolic ref has its line at the end instead, with the name of the ref to which the
    /// symbolic one leads. As in git, rejected edits are included, except those that
    /// [`Transaction::add`](super::Transaction::add) rejected.
    pub(super) fn hook_lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for (at, item) in self.edits.items.iter().enumerate() {
            let new = match item.action {
                Action::LogOnly(_) => continue,
                Action::Set(value) => Some(value),
                Action::Delete | Action::Verify => None,
            };
            self.write_value(item.expected.value().copied(), &mut lines);
            lines.push(b' ');
            self.write_value(new, &mut lines);
            lines.push(b' ');
            lines.extend_from_slice(self.edits.shown(at as u32));
            lines.push(b'\n');
        }
        lines
    }

    fn write_value(&self, value: Option<Value>, out: &mut Vec<u8>) {
        match value.map(|value| self.edits.view(value)) {
            None => ObjectId::null(self.hash).write_hex(out),
            Some(TargetView::Direct(id)) => id.write_hex(out),
            Some(TargetView::Symbolic(name)) => {
                out.extend_from_slice(b"ref:");
                out.extend_from_slice(name);
            }
        }
    }
}

impl Steps for Plan {
    fn count(&self) -> usize {
        self.steps.len()
    }

    fn name(&self, at: usize) -> &BStr {
        self.edits.name(self.steps[at])
    }

    fn log_source(&self, at: usize) -> Option<&BStr> {
        self.edits.source(self.steps[at])
    }

    fn step(&self, at: usize) -> Step<'_> {
        let at = self.steps[at];
        let item = &self.edits.items[at as usize];
        debug_assert!(!item.rejected, "a rejected edit does not happen");
        Step {
            name: self.edits.text(item.name),
            old: item.old.map(|old| self.edits.view(old)),
            is_broken: item.is_broken,
            new: self.new_value(item),
            log: self.log_line(at),
        }
    }
}
