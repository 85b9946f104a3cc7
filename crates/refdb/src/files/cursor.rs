use super::{
    loose::{
        self, At, LooseRef,
        listing::{self, Entry, Rivals, unreadable},
    },
    packed::{
        cache::PackedFile,
        order::Misplaced,
        read::{Packed, PackedWalk},
    },
    store::Store,
};
use crate::{
    BrokenRef, Cursor, Error, RefView, Result, TargetView,
    backend::{Lines, Peeled},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{Scope, is_root_ref};
use std::{collections::VecDeque, ffi::OsStr, ops::ControlFlow, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// Merges the loose refs, listed folder by folder as they are reached, with packed-refs.
///
/// Packed-refs is validated again after `refs/` and each folder below it is listed, and after every listed file that
/// turns out to be gone, so that a ref that is packed meanwhile is found there.
///
/// On a network file system packed-refs can be lost while it is read, because another machine has replaced it. The walk
/// then continues in the current file after the ref that was returned last.
pub(super) struct FilesCursor<'s> {
    store: &'s Store,
    root_refs: bool,
    /// The full names of the loose refs and folders still to come; those of folders end with `/`. Each level is in
    /// descending order, so that its next entry is last; these last entries ascend from the innermost level to the
    /// outermost.
    levels: Vec<Vec<BString>>,
    packed: Option<Arc<PackedFile>>,
    /// The position of the next record of packed-refs.
    position: usize,
    /// The position of the first record that does not come before the next loose entry.
    limit: usize,
    /// Refs before this name are not returned.
    floor: BString,
    last: Last,
    /// The position in packed-refs from which this walk has gone on without a gap: where it began, or continued after a
    /// seek or in another file.
    begun: usize,
    /// Refs that this walk has missed in a packed-refs that turned out not to be sorted.
    left_out: VecDeque<Misplaced>,
    misplaced: Option<Misplaced>,
    broken: bool,
    /// The number of files that may still be lost without progress; one more loss is an error.
    losses_left: usize,
    buffer: Vec<u8>,
    /// Whether packed-refs is skipped.
    only_loose: bool,
    /// The names of the loose files that the walk has passed, even of broken ones and of those that were gone; `None`
    /// if they are not wanted or are too many.
    noted: Option<Vec<BString>>,
}

/// The most loose files that are noted.
const NOTED_MAX: usize = 1 << 16;

/// How many times in a row the server of a network file system may lose packed-refs (`ESTALE`) while it is read, with
/// no packed ref returned in between.
const LOSSES_MAX: usize = 16;

/// The ref that the walk returned or skipped last, or the name at which it continued in another packed-refs.
enum Last {
    Nothing,
    Packed(usize),
    Loose(BString),
}

/// What was read from a listed file.
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
            begun: 0,
            left_out: VecDeque::new(),
            misplaced: None,
            broken: false,
            losses_left: LOSSES_MAX,
            buffer: Vec::new(),
            only_loose: false,
            noted: None,
        };
        cursor.rewind()?;
        Ok(cursor)
    }

    /// Skips packed-refs.
    pub(super) fn only_loose(self) -> Self {
        FilesCursor { only_loose: true, ..self }
    }

    /// Notes the names of the loose files that the walk passes from here on.
    pub(super) fn noting_loose(self) -> Self {
        FilesCursor { noted: Some(Vec::new()), ..self }
    }

    /// The noted names, in order; `None` if they are too many.
    pub(super) fn into_noted(self) -> Option<Vec<BString>> {
        self.noted
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
        self.left_out.clear();
        self.last = Last::Nothing;
        Ok(())
    }

    fn list(&self, folder: &Path, prefix: &[u8]) -> Result<Vec<BString>> {
        let entries = listing::list(&self.store.options.fs, folder, usize::MAX, Rivals::Possible)?.unwrap_or_default();
        Ok(entries.into_iter().map(|Entry { name, .. }| [prefix, &name].concat().into()).collect())
    }

    /// Lists `folder`, which ends with `/`: the worktree's own entries and the shared ones.
    fn children(&self, folder: &BStr) -> Result<Vec<BString>> {
        debug_assert!(folder.ends_with(b"/"), "a folder's name ends with a slash: {folder}");
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
        debug_assert!(names.is_sorted() && names.iter().all(|name| name.starts_with(folder)), "sorted, all below it");
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

    /// Drops the loose entries before the floor, except for a folder that contains it.
    fn drop_before_floor(&mut self) {
        let floor = std::mem::take(&mut self.floor);
        while self.head().is_some_and(|head| *head < floor && !(head.last() == Some(&b'/') && floor.starts_with(head)))
        {
            self.pop_head();
        }
        self.floor = floor;
    }

    /// Validates packed-refs. If it was replaced, the walk continues in the new file at `from`.
    fn validate_packed(&mut self, from: &BStr) -> Result<()> {
        if self.only_loose {
            return Ok(());
        }
        let file = self.store.packed().inspect_err(|_| self.broken = true)?;
        if !self.packed.as_ref().is_some_and(|known| Arc::ptr_eq(known, &file)) {
            self.continue_in(file, from)?;
        }
        Ok(())
    }

    /// Continues the walk in another packed-refs file at `from`, which does not come before any ref that was returned.
    fn continue_in(&mut self, file: Arc<PackedFile>, from: &BStr) -> Result<()> {
        let from = from.max(self.floor.as_bstr()).to_owned();
        let placed = self.place_present(file, from.as_bstr()).inspect_err(|_| self.broken = true);
        let (file, position) = placed?;
        (self.position, self.begun) = (position, position);
        // A position in the old file is no longer needed, because everything before `from` was returned.
        self.last = Last::Loose(from);
        self.packed = Some(file);
        Ok(())
    }

    /// Calls [`place`](Self::place) for a whole file, or for the file that has replaced it if the server loses it
    /// meanwhile.
    fn place_present(&mut self, mut file: Arc<PackedFile>, name: &BStr) -> Result<(Arc<PackedFile>, usize)> {
        loop {
            let start = file.packed.start();
            match self.place(file, start, name) {
                Err(error) if self.is_loss(&error) => file = self.store.packed()?,
                placed => return placed,
            }
        }
    }

    /// Returns whether an error says that the server has lost the packed-refs that was being read, and the walk may go
    /// on in the file that is there now, because losses are left. Counts the loss.
    fn is_loss(&mut self, error: &Error) -> bool {
        let is_loss = self.losses_left > 0 && error.is_stale();
        self.losses_left -= usize::from(is_loss);
        is_loss
    }

    /// Continues in the current packed-refs after the ref that was returned last, because the server has lost the file
    /// that was being read.
    fn replace_lost(&mut self) -> Result<()> {
        let last = self.last_name().map(BStr::to_owned);
        if last.is_none() && !matches!(self.last, Last::Nothing) {
            self.broken = true;
            return Err(refdb_vfs::Error::stale("read", &self.store.layout.packed_path()).into());
        }
        let file = self.store.packed().inspect_err(|_| self.broken = true)?;
        // The least name after the last one is the last one with a zero byte appended.
        let behind = last.as_ref().map_or_else(Vec::new, |last| [last.as_bytes(), b"\0"].concat());
        self.continue_in(file, behind.as_bstr())?;
        self.last = last.map_or(Last::Nothing, Last::Loose);
        self.set_limit()
    }

    /// Finds the first ref at or after the position `from` that does not come before `name`. If names around it are out
    /// of order, the file is treated as unsorted from then on, and the file sorted in memory is returned instead.
    fn place(&self, file: Arc<PackedFile>, from: usize, name: &BStr) -> Result<(Arc<PackedFile>, usize)> {
        let position = file.packed.seek(from, name)?;
        if file.packed.is_in_order_around(position)? {
            return Ok((file, position));
        }
        let sorted = self.store.packed()?;
        let position = sorted.packed.lower_bound(name)?;
        Ok((sorted, position))
    }

    /// Limits the packed records to those before the next loose entry, or to all if there is none.
    fn set_limit(&mut self) -> Result<()> {
        let Some(file) = self.packed.clone() else { return Ok(()) };
        self.limit = match self.head() {
            None => file.packed.end(),
            Some(head) => {
                let head = head.clone();
                match file.packed.seek(self.position, head.as_bstr()) {
                    Err(error) if self.is_loss(&error) => return self.replace_lost(),
                    limit => limit.inspect_err(|_| self.broken = true)?,
                }
            }
        };
        debug_assert!(self.limit <= file.packed.end(), "a walk ends with the records, at the latest");
        Ok(())
    }

    /// Makes the entries of a folder the next ones. A folder that may not be read has none, and is returned as a broken
    /// ref.
    fn enter(&mut self, folder: &BStr) -> Result<Option<BrokenRef>> {
        let (mut names, unreadable) = match self.children(folder) {
            Err(Error::Io(error)) => (Vec::new(), Some(unreadable(folder, error)?)),
            names => (names?, None),
        };
        names.reverse();
        self.levels.push(names);
        Ok(unreadable)
    }

    /// Enters a folder and validates packed-refs. A folder that may not be read is returned as a broken ref and does
    /// not end the walk.
    fn expand(&mut self, folder: &BStr) -> Result<Option<BrokenRef>> {
        let unreadable = self.enter(folder)?;
        self.drop_before_floor();
        self.validate_packed(folder)?;
        Ok(unreadable)
    }

    fn read(&mut self, name: &BStr) -> Result<Content> {
        let options = &self.store.options;
        let Some(path) = self.store.layout.ref_path(name) else { return Ok(Content::Gone) };
        let len = match loose::read(&options.fs, options.hash, &path, Rivals::Possible, &mut self.buffer)? {
            At::Ref(LooseRef::Direct(id)) => return Ok(Content::Direct(id)),
            At::Ref(LooseRef::Symbolic(target)) => {
                let target = target.to_vec();
                self.buffer[..target.len()].copy_from_slice(&target);
                target.len()
            }
            At::Broken(why) => return Err(BrokenRef { name: name.to_owned(), path, why }.into()),
            At::Missing | At::Folder => return Ok(Content::Gone),
        };
        Ok(Content::Symbolic(len))
    }

    /// Reads the loose entry that was just taken off the levels. Returns `None` if it is a folder, or a file that is
    /// gone.
    fn next_loose(&mut self, name: BString) -> Result<Option<Content>> {
        if name.last() == Some(&b'/') {
            let unreadable = self.expand(name.as_bstr())?;
            self.set_limit()?;
            return unreadable.map_or(Ok(None), |folder| Err(folder.into()));
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
        if let Some(noted) = &mut self.noted {
            noted.push(name.clone());
        }
        self.noted.take_if(|noted| noted.len() > NOTED_MAX);
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
                self.losses_left = LOSSES_MAX;
                Ok(Some(record.view()))
            }
            Err(error) => {
                self.position = file.packed.after_line(at);
                Err(error)
            }
        }
    }

    /// Returns `false`, and notes the disorder, if the next record of packed-refs shows that the file is not sorted
    /// although its header says so.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be read.
    fn is_packed_in_order(&self) -> Result<bool> {
        let Some(file) = &self.packed else { return Ok(true) };
        let record = file.packed.record(self.position)?;
        let Some(last) = self.last_name() else { return Ok(true) };
        // A loose ref that was skipped may be packed by now.
        let is_same = record.name == last && matches!(self.last, Last::Loose(_));
        Ok(record.name > last || is_same || !file.packed.note_disorder(self.position, record.name))
    }

    /// Checks for disorder where the caller ends a walk, for instance at the first name after a prefix: if that name
    /// is misplaced, the record after it has a lesser name.
    fn look_ahead(&self) {
        if let Some(file) = &self.packed
            && self.position < file.packed.end()
        {
            // A record that cannot be read comes after what was asked for, so the error is ignored.
            let _is_in_order = self.is_packed_in_order();
        }
    }

    /// Continues in the file sorted in memory, because packed-refs turned out not to be sorted, beginning with the refs
    /// that this walk has missed. Fails with `ESTALE` if packed-refs is another file by now.
    fn set_right(&mut self) -> Result<()> {
        let Some(old) = self.packed.clone() else { return Ok(()) };
        let present = self.store.packed().and_then(|file| old.check_same(&file).map(|()| file));
        let file = present.inspect_err(|_| self.broken = true)?;
        let last = self.last_name().unwrap_or_default().to_owned();
        let behind = BString::from([last.as_bytes(), b"\0"].concat());
        let given = self.begun..self.position;
        let left_out = old.packed.left_out(given, &file.packed, self.floor.as_bstr(), Some(behind.as_bstr()))?;
        for misplaced in left_out {
            // A ref with a loose file has been returned already.
            let Some(path) = self.store.layout.ref_path(misplaced.0.as_bstr()) else { continue };
            let options = &self.store.options;
            let mut buffer = Vec::new();
            let loose = loose::read(&options.fs, options.hash, &path, Rivals::Possible, &mut buffer);
            if matches!(loose, Ok(At::Missing | At::Folder)) {
                self.left_out.push_back(misplaced);
            }
        }
        self.position = file.packed.lower_bound(behind.as_bstr())?;
        self.begun = self.position;
        self.packed = Some(file);
        self.last = Last::Loose(last);
        self.set_limit()
    }

    /// Visits the records of packed-refs up to the limit.
    fn for_each_packed(
        &mut self,
        walk_over: impl FnOnce(&Packed, &mut PackedWalk, usize) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let Some(file) = self.packed.clone() else { return Ok(ControlFlow::Continue(())) };
        let before = match &self.last {
            Last::Packed(_) => self.last_name().unwrap_or_default().to_owned(),
            Last::Nothing | Last::Loose(_) => BString::default(),
        };
        let mut walk = PackedWalk { before, last: None, next: self.position };
        let walked = walk_over(&file.packed, &mut walk, self.limit);
        debug_assert!(self.position <= walk.next, "a walk goes forward: {}", walk.next);
        if let Some(last) = walk.last {
            self.last = Last::Packed(last);
        }
        if let Err(error) = &walked
            && self.is_loss(error)
        {
            self.replace_lost()?;
            return Ok(ControlFlow::Continue(()));
        }
        self.position = if walked.is_err() { file.packed.after_line(walk.next) } else { walk.next };
        walked
    }

    /// The name that [`Last`] stands for.
    fn last_name(&self) -> Option<&BStr> {
        match &self.last {
            Last::Nothing => None,
            Last::Loose(name) => Some(name.as_bstr()),
            Last::Packed(at) => {
                self.packed.as_ref().and_then(|file| file.packed.record(*at).ok()).map(|last| last.name)
            }
        }
    }

    /// Returns whether the walk may have returned or skipped a ref that does not come before `name`.
    fn is_behind(&self, name: &BStr) -> bool {
        name < self.floor.as_bstr() || self.last_name().is_some_and(|last| name <= last)
    }
}

impl Cursor for FilesCursor<'_> {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        if self.is_behind(name) {
            self.rewind()?;
        }
        self.floor = name.to_owned();
        self.drop_before_floor();
        if let Some(file) = self.packed.clone() {
            let (placed, position) = match self.place(Arc::clone(&file), self.position, name) {
                Err(error) if self.is_loss(&error) => {
                    let present = self.store.packed()?;
                    self.place_present(present, name)?
                }
                placed => placed?,
            };
            if !Arc::ptr_eq(&placed, &file) {
                self.last = self.last_name().map_or(Last::Nothing, |last| Last::Loose(last.to_owned()));
                self.packed = Some(placed);
            }
            (self.position, self.begun) = (position, position);
        }
        self.left_out.clear();
        self.set_limit()
    }

    fn next(&mut self) -> Result<Option<RefView<'_>>> {
        let content = loop {
            if self.broken {
                return Ok(None);
            }
            self.misplaced = self.left_out.pop_front();
            if self.misplaced.is_some() {
                break None;
            }
            if self.position < self.limit && self.packed.is_some() {
                match self.is_packed_in_order() {
                    Ok(true) => break None,
                    Ok(false) => self.set_right()?,
                    Err(error) if self.is_loss(&error) => self.replace_lost()?,
                    // The error is reported when the record is read to be returned.
                    Err(_) => break None,
                }
                continue;
            }
            let Some(name) = self.pop_head() else { return Ok(None) };
            match self.next_loose(name)? {
                None => {}
                content => break content,
            }
        };
        match content {
            Some(content) => Ok(self.loose_view(&content)),
            None if self.misplaced.is_some() => Ok(self.misplaced.as_ref().map(|(name, id, peeled)| RefView {
                name: name.as_bstr(),
                target: TargetView::Direct(*id),
                peeled: *peeled,
            })),
            None => self.next_packed(),
        }
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(&RefView<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        loop {
            let flow = match self.next()? {
                None => return Ok(ControlFlow::Continue(())),
                Some(view) => visit(&view),
            };
            let walk_over = |packed: &Packed, walk: &mut _, limit| packed.for_each(walk, limit, &mut *visit);
            if flow.is_break() || self.for_each_packed(walk_over)?.is_break() {
                self.look_ahead();
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    fn for_each_line(&mut self, lines: &mut dyn Lines) -> Result<ControlFlow<()>> {
        loop {
            let flow = match self.next()? {
                None => return Ok(ControlFlow::Continue(())),
                Some(view) => lines.view(&view),
            };
            let walk_over = |packed: &Packed, walk: &mut _, limit| packed.for_each_line(walk, limit, &mut *lines);
            if flow.is_break() || self.for_each_packed(walk_over)?.is_break() {
                self.look_ahead();
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

/// Calls `act` with each name below `refs/` that has a loose file, or a lock file alone, in order.
pub(super) fn loose_names(store: &Store, act: &mut dyn FnMut(&BStr) -> Result<()>) -> Result<()> {
    let mut cursor = FilesCursor::new(store, false)?;
    while let Some(name) = cursor.pop_head() {
        if name.last() == Some(&b'/') {
            // A folder that may not be read is skipped.
            cursor.enter(name.as_bstr())?;
        } else {
            act(name.as_bstr())?;
        }
    }
    Ok(())
}
