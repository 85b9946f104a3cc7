//! Whether everything that the new ids lead to is there.

use super::{
    ServeError,
    child::{Alive, Input, Output},
    session::Session,
};
use refdb::{
    TargetView,
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_types::ObjectId;
use std::collections::HashSet;

/// For how many ids the refs are searched before git is asked.
const SEARCHES_MAX: usize = 8;

impl Session<'_, '_> {
    /// Refuses the commands whose new ids lead to something that is missing.
    pub(super) fn check_connected(&mut self) -> Result<(), ServeError> {
        let new: Vec<_> = self.request.commands.iter().map(|command| command.new).filter(|id| !id.is_null()).collect();
        let distinct: HashSet<_> = new.iter().copied().collect();
        if distinct.is_empty() || self.call.skip_connectivity || self.are_at_refs(&distinct)? {
            return Ok(());
        }
        let mut lines = Vec::with_capacity(new.len() * (self.store.hash().len_hex() + 1));
        for id in &new {
            id.write_hex(&mut lines);
            lines.push(b'\n');
        }
        if self.rev_list(&lines, Output::ToUser)? {
            return Ok(());
        }
        // One of them is at fault, or more.
        let mut disconnected = HashSet::new();
        for id in distinct {
            if !self.rev_list(format!("{id}\n").as_bytes(), Output::ToLog)? {
                disconnected.insert(id);
            }
        }
        for at in 0..self.outcomes.len() {
            if disconnected.contains(&self.request.commands.get(at).new) {
                self.refuse(at, "missing necessary objects");
            }
        }
        Ok(())
    }

    /// Git's own check, of all that is new.
    fn rev_list(&mut self, lines: &[u8], output: Output) -> Result<bool, ServeError> {
        let mut git = self.git("rev-list");
        git.words([
            "--objects",
            "--stdin",
            "--not",
            "--exclude-hidden=receive",
            "--all",
            "--quiet",
            "--alternate-refs",
        ]);
        Ok(git.run(Input::Bytes(lines), output, Alive::Always, &mut self.channel)?.success())
    }

    /// Whether a ref holds each of these ids now, and each is a commit, or a tag that leads to one: git would find
    /// nothing new to walk then. An id that a client merely says is a ref's proves nothing.
    ///
    /// Where history is replaced or grafted, git is asked.
    fn are_at_refs(&mut self, ids: &HashSet<ObjectId>) -> Result<bool, ServeError> {
        if ids.len() > SEARCHES_MAX || self.is_history_changed()? {
            return Ok(false);
        }
        let snapshot = self.store.snapshot()?;
        for id in ids {
            let leads_to_commit = match self.objects.classify(id).map_err(refdb::Error::from)? {
                ObjectClass::Commit => true,
                ObjectClass::Tag(Some(peeled)) => {
                    self.objects.classify(&peeled).map_err(refdb::Error::from)? == ObjectClass::Commit
                }
                ObjectClass::Tag(None) | ObjectClass::Other | ObjectClass::Missing => false,
            };
            let mut is_at_ref = false;
            snapshot.pointing_at(id, &mut |view| {
                is_at_ref |= view.target == TargetView::Direct(*id) && !self.settings.hidden.covers(view.name);
                Ok(())
            })?;
            if !leads_to_commit || !is_at_ref {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_history_changed(&self) -> Result<bool, ServeError> {
        let grafts = self.store.repository().common_dir().join("info/grafts");
        if self.fs.find(&grafts)?.is_some() || self.store.environment().get("GIT_GRAFT_FILE").is_some() {
            return Ok(true);
        }
        let snapshot = self.store.snapshot()?;
        let mut cursor = snapshot.cursor(false)?;
        cursor.seek("refs/replace/".into())?;
        Ok(cursor.next()?.is_some_and(|view| view.name.starts_with(b"refs/replace/")))
    }
}
