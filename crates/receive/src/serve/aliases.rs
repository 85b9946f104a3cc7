//! Checks the commands for symbolic refs, except those that were refused before: a command whose ref cannot be resolved
//! is refused. If another command names the ref to which a symbolic ref leads, the command for the symbolic ref is not
//! executed, and both are refused if they differ. As in git, two symbolic refs that lead to one ref are not compared
//! with each other.

use super::{ServeError, session::Session};
use bstr::{BStr, BString, ByteSlice};
use refdb::{
    Snapshot, TargetView,
    backend::{Answers, Probe},
};
use refdb_types::{ObjectId, RefName, SYMREF_DEPTH_MAX, Target};
use std::collections::HashMap;

impl Session<'_, '_> {
    /// Refuses commands for symbolic refs that cannot be resolved. If one command names a symbolic ref and another
    /// command names the ref to which it resolves, marks the first as a duplicate if both make the same change, and
    /// refuses both otherwise. Commands for symbolic refs that were refused before are left alone.
    pub(super) fn check_aliases(&mut self) -> Result<(), ServeError> {
        let commands = &self.request.commands;
        let mut order: Vec<usize> = (0..commands.len()).collect();
        order.sort_by(|a, b| commands.get(*a).name.cmp(commands.get(*b).name));
        order.dedup_by(|a, b| commands.get(*a).name == commands.get(*b).name);
        let ends = self.store.read(ServeError::is_stale, |snapshot| {
            let mut symbolic = Symbolic::default();
            let mut probes = order.iter().map(|at| Probe { name: commands.get(*at).name, below: false });
            snapshot.probe(&mut probes, &mut symbolic)?;
            let mut ends = HashMap::new();
            for (position, target) in symbolic.found {
                ends.insert(commands.get(order[position]).name.to_owned(), follow(snapshot, target)?);
            }
            Ok::<_, ServeError>(ends)
        })?;
        if ends.is_empty() {
            return Ok(());
        }
        for at in 0..self.outcomes.len() {
            let name = self.request.commands.get(at).name;
            if self.outcomes[at].refusal.is_some() {
                continue;
            }
            match ends.get(name) {
                None => {}
                Some(None) => {
                    let text = format!("refusing update to broken symref '{name}'");
                    self.channel.error(text.as_bytes())?;
                    self.refuse(at, "broken symref");
                }
                Some(Some(end)) => {
                    let find = order.binary_search_by(|at| self.request.commands.get(*at).name.cmp(end.as_bstr()));
                    if let Ok(found) = find {
                        self.judge_alias(at, order[found])?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Compares the command `link` for a symbolic ref with the command `end` for the ref it resolves to.
    fn judge_alias(&mut self, link: usize, end: usize) -> Result<(), ServeError> {
        let (one, other) = (self.request.commands.get(link), self.request.commands.get(end));
        if (one.old, one.new) == (other.old, other.new) {
            self.outcomes[link].is_duplicate = true;
            return Ok(());
        }
        let text = format!(
            "refusing inconsistent update between symref '{}' ({}..{}) and its target '{}' ({}..{})",
            one.name,
            self.short(&one.old)?,
            self.short(&one.new)?,
            other.name,
            self.short(&other.old)?,
            self.short(&other.new)?
        );
        self.channel.error(text.as_bytes())?;
        for at in [link, end] {
            self.outcomes[at].refusal = Some("inconsistent aliased update".into());
        }
        Ok(())
    }

    fn short(&self, id: &ObjectId) -> Result<String, ServeError> {
        let digits = self.objects.abbreviate(id, None).map_err(refdb::Error::from)?;
        Ok(id.to_string().chars().take(digits).collect())
    }
}

/// Returns the ref at the end of a chain of symbolic refs that continues with `target`, whether or not it exists.
/// Returns `None` if the chain is circular or too long, or ends at a broken ref or an invalid name.
fn follow(snapshot: &dyn Snapshot, target: BString) -> Result<Option<RefName>, ServeError> {
    let Ok(mut name) = RefName::new(target) else { return Ok(None) };
    // Resolving the symbolic ref itself was the first step.
    for _ in 1..SYMREF_DEPTH_MAX {
        match snapshot.get(name.as_bstr()) {
            Ok(None | Some(Target::Direct(_))) => return Ok(Some(name)),
            Ok(Some(Target::Symbolic(next))) => match RefName::new(next.as_bytes()) {
                Ok(next) => name = next,
                Err(_) => return Ok(None),
            },
            Err(error) if error.is_broken_ref() => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// The probed names that are symbolic refs.
#[derive(Default)]
struct Symbolic {
    found: Vec<(usize, BString)>,
}

impl Answers for Symbolic {
    fn value(&mut self, probe: usize, value: Option<TargetView<'_>>) -> refdb::Result<()> {
        if let Some(TargetView::Symbolic(target)) = value {
            self.found.push((probe, target.to_owned()));
        }
        Ok(())
    }

    fn broken(&mut self, _probe: usize, _broken: refdb::BrokenRef) -> refdb::Result<()> {
        // The transaction will report the broken ref.
        Ok(())
    }

    fn below(&mut self, _probe: usize, _child: &BStr) -> refdb::Result<()> {
        Ok(())
    }
}
