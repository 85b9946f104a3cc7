use super::{
    backend::Store,
    listing::{self, Entry, Rivals},
    loose::{self, At, LooseRef},
    packed_cache::PackedFile,
    packed_read::PackedWalk,
};
use crate::{Cursor, RefView, Result, TargetView, backend::Peeled};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{Scope, is_root_ref};
use std::{ffi::OsStr, ops::ControlFlow, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// Merges the loose refs, folder by folder as they are reached, with packed-refs.
///
/// After every folder that is listed and every listed file that turns out to be gone, packed-refs is validated again,
/// so a ref that is packed meanwhile is found there.
pub(super) struct FilesCursor<'s> {
    store: &'s Store,
    root_refs: bool,
    /// The loose refs and folders still to come: in each level the next one is last, and the levels' last entries
    /// come in order from the innermost to the outermost. Full names; those of folders end with `/`.
    levels: Vec<Vec<BString>>,
    packed: Option<Arc<PackedFile>>,
    /// The next record of packed-refs, and the first one that does not come before the next loose entry.
    position: usize,
    limit: usize,
    /// No ref before this is wanted.
    floor: BString,
    last: Last,
    broken: bool,
    buffer: Vec<u8>,
}

/// What `next` returned last.
enum Last {
    Nothing,
    Packed(usize),
    Loose(BString),
}

/// What lies behind the name of a listed file.
enum Content {
    Gone,
    Direct(refdb_types::ObjectId),
    Symbolic(usize),
}

impl<'s> FilesCursor<'s> {
    pub(super) fn new(store: &'s Store, root_refs: bool) -> Result<Self> {
        let mut cursor = FilesCursor {
            store,
            root_refs,
            levels: Vec::new(),
            packed: None,
            position: 0,
            limit: 0,
            floor: BString::default(),
            last: Last::Nothing,
            broken: false,
            buffer: Vec::new(),
        };
        cursor.rewind()?;
        Ok(cursor)
    }

    fn rewind(&mut self) -> Result<()> {
        let mut level: Vec<BString> = vec!["refs/".into()];
        if self.root_refs {
            let entries = self.list(&self.store.layout.git_dir, b"")?;
            let roots = entries.into_iter().filter(|name| is_root_ref(name.as_bstr()));
            level.extend(roots.collect::<Vec<_>>().into_iter().rev());
        }
        self.levels = vec![level];
        self.packed = None;
        self.last = Last::Nothing;
        Ok(())
    }

    fn list(&self, folder: &Path, prefix: &[u8]) -> Result<Vec<BString>> {
        let entries = listing::list(&self.store.options.fs, folder, usize::MAX, Rivals::Possible)?.unwrap_or_default();
        Ok(entries.into_iter().map(|Entry { name }| [prefix, &name].concat().into()).collect())
    }

    /// The entries of the folder of refs `folder`, which ends with `/`: the worktree's own and the shared ones.
    fn children(&self, folder: &BStr) -> Result<Vec<BString>> {
        let layout = &self.store.layout;
        let path = |base: &Path| base.join(OsStr::from_bytes(folder));
        let (base, ..) = layout.base(folder);
        let mut names = self.list(&path(base), folder)?;
        if folder == "refs/" && layout.git_dir != layout.common_dir {
            names.retain(|name| Scope::of(name.as_bstr()) == Scope::Shared);
            let own = self.list(&path(&layout.git_dir), folder)?;
            names.extend(own.into_iter().filter(|name| Scope::of(name.as_bstr()) == Scope::Worktree));
            names.sort_unstable();
        }
        Ok(names)
    }

    fn head(&mut self) -> Option<&BString> {
        while self.levels.last().is_some_and(Vec::is_empty) {
            self.levels.pop();
        }
        self.levels.last().and_then(|level| level.last())
    }

    fn pop_head(&mut self) -> Option<BString> {
        self.head()?;
        self.levels.last_mut().and_then(Vec::pop)
    }

    /// Drops loose entries before the floor, but for a folder that the floor lies in.
    fn drop_before_floor(&mut self) {
        let floor = std::mem::take(&mut self.floor);
        while self.head().is_some_and(|head| *head < floor && !(head.last() == Some(&b'/') && floor.starts_with(head)))
        {
            self.pop_head();
        }
        self.floor = floor;
    }

    /// Validates packed-refs. If it was replaced, goes on in the new one with what does not come before `from`.
    fn validate_packed(&mut self, from: &BStr) -> Result<()> {
        let file = self.store.packed().inspect_err(|_| self.broken = true)?;
        if !self.packed.as_ref().is_some_and(|known| Arc::ptr_eq(known, &file)) {
            let from = from.max(self.floor.as_bstr());
            self.position = file.packed.seek(file.packed.start(), from).inspect_err(|_| self.broken = true)?;
            // Where it pointed into the old file nobody needs to know: everything before `from` was given out.
            self.last = Last::Loose(from.to_owned());
            self.packed = Some(file);
        }
        Ok(())
    }

    /// Makes the loose entry at the head, or the end, the limit for packed records.
    fn set_limit(&mut self) -> Result<()> {
        let Some(file) = self.packed.clone() else { return Ok(()) };
        self.limit = match self.head() {
            None => file.packed.end(),
            Some(head) => {
                let head = head.clone();
                file.packed.seek(self.position, head.as_bstr()).inspect_err(|_| self.broken = true)?
            }
        };
        Ok(())
    }

    fn expand(&mut self, folder: &BStr) -> Result<()> {
        let mut names = self.children(folder)?;
        names.reverse();
        self.levels.push(names);
        self.drop_before_floor();
        self.validate_packed(folder)
    }

    fn read(&mut self, name: &BStr) -> Result<Content> {
        let options = &self.store.options;
        let Some(path) = self.store.layout.ref_path(name) else { return Ok(Content::Gone) };
        let len = match loose::read(&options.fs, options.hash, &path, &mut self.buffer)? {
            At::Ref(LooseRef::Direct(id)) => return Ok(Content::Direct(id)),
            At::Ref(LooseRef::Symbolic(target)) => {
                let target = target.to_vec();
                self.buffer[..target.len()].copy_from_slice(&target);
                target.len()
            }
            At::Broken(error) => return Err(error),
            At::Missing | At::Folder => return Ok(Content::Gone),
        };
        Ok(Content::Symbolic(len))
    }

    /// Takes what is next of the loose entries: `None` if it was a folder, or a file that is gone.
    fn next_loose(&mut self, name: BString) -> Result<Option<Content>> {
        if name.last() == Some(&b'/') {
            self.expand(name.as_bstr())?;
            self.set_limit()?;
            return Ok(None);
        }
        let content = self.read(name.as_bstr());
        if matches!(content, Ok(Content::Gone)) {
            self.validate_packed(name.as_bstr())?;
        } else if let Some(file) = &self.packed
            && self.position < file.packed.end()
        {
            let same = file.packed.record(self.position).is_ok_and(|record| record.name == name);
            if same {
                self.position = file.packed.record(self.position)?.next;
            }
        }
        self.last = Last::Loose(name);
        self.set_limit()?;
        match content? {
            Content::Gone => Ok(None),
            content => Ok(Some(content)),
        }
    }

    /// The loose ref that was read last.
    fn loose_view(&self, content: &Content) -> Option<RefView<'_>> {
        let Last::Loose(name) = &self.last else { return None };
        let target = match content {
            Content::Direct(id) => TargetView::Direct(*id),
            Content::Symbolic(len) => TargetView::Symbolic(self.buffer[..*len].as_bstr()),
            Content::Gone => return None,
        };
        Some(RefView { name: name.as_bstr(), target, peeled: Peeled::Unknown })
    }

    fn next_packed(&mut self) -> Result<Option<RefView<'_>>> {
        let Some(file) = &self.packed else { return Ok(None) };
        let at = self.position;
        match file.packed.record(at) {
            Ok(record) => {
                self.position = record.next;
                self.last = Last::Packed(at);
                Ok(Some(record.view()))
            }
            Err(error) => {
                self.position = file.packed.after_line(at);
                Err(error)
            }
        }
    }

    /// Hands over the records of packed-refs up to the limit.
    fn for_each_packed(&mut self, visit: &mut dyn FnMut(&RefView<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        let Some(file) = self.packed.clone() else { return Ok(ControlFlow::Continue(())) };
        let mut walk = PackedWalk { last: None, next: self.position };
        let walked = file.packed.for_each(&mut walk, self.limit, visit);
        self.position = if walked.is_err() { file.packed.after_line(walk.next) } else { walk.next };
        if let Some(last) = walk.last {
            self.last = Last::Packed(last);
        }
        walked
    }

    /// Whether something that does not come before `name` was given out or passed over.
    fn is_behind(&self, name: &BStr) -> bool {
        if name < self.floor.as_bstr() {
            return true;
        }
        match &self.last {
            Last::Nothing => false,
            Last::Loose(last) => name <= last.as_bstr(),
            Last::Packed(at) => {
                let record = self.packed.as_ref().map(|file| file.packed.record(*at));
                record.is_some_and(|record| record.is_ok_and(|record| name <= record.name))
            }
        }
    }
}

impl Cursor for FilesCursor<'_> {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        if self.is_behind(name) {
            self.rewind()?;
        }
        self.floor = name.to_owned();
        self.drop_before_floor();
        if let Some(file) = &self.packed {
            self.position = file.packed.seek(self.position, name)?;
        }
        self.set_limit()
    }

    fn next(&mut self) -> Result<Option<RefView<'_>>> {
        let content = loop {
            if self.broken {
                return Ok(None);
            }
            if self.position < self.limit && self.packed.is_some() {
                break None;
            }
            let Some(name) = self.pop_head() else { return Ok(None) };
            match self.next_loose(name)? {
                None => {}
                content => break content,
            }
        };
        match content {
            Some(content) => Ok(self.loose_view(&content)),
            None => self.next_packed(),
        }
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(&RefView<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        loop {
            let flow = match self.next()? {
                None => return Ok(ControlFlow::Continue(())),
                Some(view) => visit(&view),
            };
            if flow.is_break() || self.for_each_packed(visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

/// Calls `act` with the name of each loose file below `refs/`, in order.
pub(super) fn loose_names(store: &Store, act: &mut dyn FnMut(&BStr) -> Result<()>) -> Result<()> {
    let mut cursor = FilesCursor::new(store, false)?;
    while let Some(name) = cursor.pop_head() {
        if name.last() == Some(&b'/') {
            let mut names = cursor.children(name.as_bstr())?;
            names.reverse();
            cursor.levels.push(names);
        } else {
            act(name.as_bstr())?;
        }
    }
    Ok(())
}
