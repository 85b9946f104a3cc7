use super::{
    cursor::FilesCursor,
    loose::{self, At, listing::Rivals},
    probe, reflog,
    store::Store,
};
use crate::{
    BrokenRef, Cursor, Error, Probe, RefView, Result, Snapshot, TargetView,
    backend::{Answers, Peeled},
};
use bstr::BStr;
use refdb_types::{LogEntry, ObjectId, RefName, Target};
use std::{ops::ControlFlow, sync::Arc};

/// A snapshot of files. It looks at the files again for each query, so two answers may show different states.
#[derive(Debug)]
pub(super) struct FilesSnapshot {
    store: Arc<Store>,
    rivals: Rivals,
}

impl FilesSnapshot {
    pub(super) fn new(store: Arc<Store>, rivals: Rivals) -> Self {
        FilesSnapshot { store, rivals }
    }
}

impl Snapshot for FilesSnapshot {
    fn get(&self, name: &BStr) -> Result<Option<Target>> {
        let Some(path) = self.store.layout.ref_path(name) else { return Ok(None) };
        let options = &self.store.options;
        match loose::read(&options.fs, options.hash, &path, self.rivals, &mut Vec::new())? {
            At::Ref(content) => match content.to_target() {
                Ok(target) => Ok(Some(target)),
                Err(why) => Err(BrokenRef { name: name.to_owned(), path, why }.into()),
            },
            At::Broken(why) => Err(BrokenRef { name: name.to_owned(), path, why }.into()),
            At::Missing | At::Folder => {
                let found = self.store.read_packed(|packed| probe::look_up(packed, &mut 0, name))?;
                Ok(found.map(Target::Direct))
            }
        }
    }

    fn probe(&self, probes: &mut dyn Iterator<Item = Probe<'_>>, answers: &mut dyn Answers) -> Result<()> {
        probe::probe(&self.store, self.rivals, probes, answers)
    }

    fn cursor(&self, root_refs: bool) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(FilesCursor::new(&self.store, root_refs)?))
    }

    fn pointing_at(&self, id: &ObjectId, found: &mut dyn FnMut(RefView<'_>) -> Result<()>) -> Result<()> {
        let mut cursor = FilesCursor::new(&self.store, false)?;
        loop {
            match cursor.next() {
                Ok(None) => return Ok(()),
                Ok(Some(view)) => {
                    if view.target == TargetView::Direct(*id) || view.peeled == Peeled::To(*id) {
                        found(view)?;
                    }
                }
                // A broken loose ref points to no object.
                Err(Error::BrokenRef(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn has_log(&self, name: &BStr) -> Result<bool> {
        reflog::exists(&self.store, name)
    }

    fn having_logs(
        &self,
        names: &mut dyn Iterator<Item = &BStr>,
        found: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        reflog::having(&self.store, names, found)
    }

    fn log(&self, name: &BStr, entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>) -> Result<bool> {
        reflog::read(&self.store, name, entry)
    }

    fn log_names(&self) -> Result<Vec<RefName>> {
        reflog::names(&self.store)
    }

    fn log_names_elsewhere(&self, worktree: Option<&BStr>) -> Result<Vec<RefName>> {
        reflog::names_elsewhere(&self.store, worktree)
    }
}
