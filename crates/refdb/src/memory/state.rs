//! All refs and reflogs, and how the steps of a transaction change them.

use crate::{
    Error, Result, Step, TargetView,
    backend::{NewValue, Peeled, Steps},
};
use bstr::{BString, ByteSlice};
use refdb_types::{LogEntry, ObjectId, RefName, Target};
use std::collections::BTreeMap;

/// All refs and reflogs at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) refs: BTreeMap<BString, Entry>,
    /// Reflogs, the oldest entry first. A log without entries exists all the same.
    pub(super) logs: BTreeMap<BString, Vec<LogEntry>>,
}

/// The value of a ref.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) target: Target,
    pub(super) peeled: Peeled,
}

impl Entry {
    pub(super) fn direct(id: ObjectId, peeled: Option<ObjectId>) -> Self {
        Entry { target: Target::Direct(id), peeled: peeled.map_or(Peeled::NotTag, Peeled::To) }
    }
}

impl State {
    /// The state of a new repository, in which `HEAD` leads to `refs/heads/main`, which does not exist yet.
    pub(super) fn initial() -> Self {
        let main = RefName::new("refs/heads/main").expect("this is a refname");
        let head = Entry { target: Target::Symbolic(main), peeled: Peeled::Unknown };
        State { refs: BTreeMap::from([("HEAD".into(), head)]), logs: BTreeMap::new() }
    }

    /// The state after these steps.
    pub(super) fn with(&self, steps: &dyn Steps) -> Result<Self> {
        let mut next = self.clone();
        for at in 0..steps.count() {
            let step = steps.step(at);
            next.set_ref(&step)?;
            if let Some(source) = steps.log_source(at) {
                // The log is read from the state before the steps, because the deletion of its source removes it.
                match self.logs.get(source) {
                    Some(log) => drop(next.logs.insert(step.name.to_owned(), log.clone())),
                    None => drop(next.logs.remove(step.name)),
                }
            }
            next.add_log_entry(&step);
        }
        Ok(next)
    }

    fn set_ref(&mut self, step: &Step<'_>) -> Result<()> {
        let entry = match step.new {
            None => return Ok(()),
            Some(NewValue::Deleted) => {
                self.refs.remove(step.name);
                if !matches!(step.old, Some(TargetView::Symbolic(_))) {
                    self.logs.remove(step.name);
                }
                return Ok(());
            }
            Some(NewValue::Direct(id, peeled)) => Entry::direct(id, peeled),
            Some(NewValue::Symbolic(target)) => {
                let bad = || Error::BadTarget { name: step.name.to_owned(), target: target.to_owned() };
                let target = RefName::new_safe(target.to_vec()).ok_or_else(bad)?;
                Entry { target: Target::Symbolic(target), peeled: Peeled::Unknown }
            }
        };
        self.refs.insert(step.name.to_owned(), entry);
        Ok(())
    }

    /// Adds the step's entry to the reflog of its ref. An entry from nothing to nothing only creates the log.
    fn add_log_entry(&mut self, step: &Step<'_>) {
        let Some(line) = step.log else { return };
        let log = self.logs.entry(step.name.to_owned()).or_default();
        if !(line.old.is_null() && line.new.is_null()) {
            log.push(LogEntry {
                old: line.old,
                new: line.new,
                committer: line.committer.clone(),
                message: line.message.as_bytes().into(),
            });
        }
    }
}
