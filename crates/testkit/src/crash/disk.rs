use super::record::Seen;
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Component, Path, PathBuf},
    rc::Rc,
};

/// The guarantees that a disk and its file system are assumed to give when power is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disk {
    /// Changes of folders reach the disk in the order in which they were made, and any sync makes all earlier ones
    /// durable, as with the journals of XFS and, by default, ext4. The content of a file is durable once that file or
    /// the whole file system has been synced; until then it may be lost, whichever other files and folders are synced.
    Journaled,
    /// Anything that was not synced may be lost, in any combination. Syncing a file makes its content durable, and
    /// syncing a folder its entries. POSIX promises no more than this.
    Unordered,
    /// As unordered, and the bytes of a file may reach the disk in any order too.
    Scattered,
}

/// A file, folder or link, identified independently of its names.
type Inode = usize;

#[derive(Clone)]
enum Node {
    File { content: Rc<Vec<u8>>, synced: Rc<Vec<u8>> },
    Link(PathBuf),
    Folder(BTreeMap<OsString, Inode>),
}

/// The part of the changes of a file's content since its last sync that survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// All changes survive.
    Whole,
    /// No change survives.
    Nothing,
    /// The first half of the changed bytes survives.
    Half,
    /// The new length survives, with zeros instead of the new bytes. If bytes were overwritten in place, the second
    /// half of the changed bytes survives instead.
    Zeros,
    /// As [`Rest::Whole`], with zeros instead of the middle third of the new bytes. If bytes were overwritten in place,
    /// as [`Rest::Zeros`].
    Ends,
}

/// A change of the tree of names, which a crash either keeps or loses as a whole.
#[derive(Clone, Debug)]
struct Change {
    edits: Vec<(Inode, OsString, Option<Inode>)>,
}

/// A file system in memory that keeps track of what was synced.
pub(super) struct Model {
    assumed: Disk,
    /// The tree as programs see it.
    nodes: Vec<Node>,
    /// The folders as they are on the disk.
    synced_folders: BTreeMap<Inode, BTreeMap<OsString, Inode>>,
    /// Changes of folders that may or may not have reached the disk, oldest first.
    pending: Vec<Change>,
    /// The inode that was created at each path, for files that are written or synced after they were renamed.
    made: BTreeMap<PathBuf, Inode>,
}

const ROOT: Inode = 0;

impl Model {
    /// Loads the folder `start`, all of which counts as synced.
    pub(super) fn load(start: &Path, assumed: Disk) -> io::Result<Self> {
        let mut model = Model {
            assumed,
            nodes: vec![Node::Folder(BTreeMap::new())],
            synced_folders: BTreeMap::new(),
            pending: Vec::new(),
            made: BTreeMap::new(),
        };
        model.load_folder(start, ROOT)?;
        Ok(model)
    }

    fn load_folder(&mut self, from: &Path, inode: Inode) -> io::Result<()> {
        let mut entries = BTreeMap::new();
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let child = self.nodes.len();
            if kind.is_dir() {
                self.nodes.push(Node::Folder(BTreeMap::new()));
                self.load_folder(&entry.path(), child)?;
            } else if kind.is_symlink() {
                self.nodes.push(Node::Link(fs::read_link(entry.path())?));
            } else {
                let content = Rc::new(fs::read(entry.path())?);
                self.nodes.push(Node::File { synced: content.clone(), content });
            }
            entries.insert(entry.file_name(), child);
        }
        self.synced_folders.insert(inode, entries.clone());
        self.nodes[inode] = Node::Folder(entries);
        Ok(())
    }

    /// Applies an operation of the workload. Because the I/O hook is called before an operation is attempted, some
    /// recorded operations have failed, for example because a folder was missing or a name was taken; those change
    /// nothing.
    pub(super) fn apply(&mut self, op: &Seen) {
        if self.is_refused(op) {
            return;
        }
        match op {
            Seen::Create(path) => {
                let inode = self.add(Node::File { content: Rc::default(), synced: Rc::default() });
                self.made.insert(path.clone(), inode);
                self.enter(&[(path, Some(inode))]);
            }
            Seen::Write(path, bytes) => self.extend(path, bytes),
            Seen::Overwrite(path, offset, bytes) => self.overwrite(path, *offset as usize, bytes),
            Seen::Copy { from, offset, len, to } => {
                let source = self.content(from);
                let range = *offset as usize..(offset + len) as usize;
                let bytes = source.get(range).unwrap_or_else(|| panic!("{op} reads past the end")).to_vec();
                self.extend(to, &bytes);
            }
            Seen::Sync(path) => self.sync_file(path),
            Seen::SyncDir(path) => self.sync_folder(path),
            Seen::Rename(from, to) => {
                let inode = self.find(from);
                self.enter(&[(from, None), (to, Some(inode))]);
            }
            Seen::Exchange(one, other) => {
                let (gives, gets) = (self.find(one), self.find(other));
                self.enter(&[(one, Some(gets)), (other, Some(gives))]);
            }
            Seen::SyncAll => self.sync_all(),
            Seen::Link(from, to) => {
                let inode = self.find(from);
                self.enter(&[(to, Some(inode))]);
            }
            Seen::Symlink(path, content) => {
                let inode = self.add(Node::Link(content.clone()));
                self.enter(&[(path, Some(inode))]);
            }
            Seen::MakeDir(path) => {
                let inode = self.add(Node::Folder(BTreeMap::new()));
                self.synced_folders.insert(inode, BTreeMap::new());
                self.enter(&[(path, Some(inode))]);
            }
            Seen::Remove(path) | Seen::RemoveDir(path) => self.enter(&[(path, None)]),
            Seen::SetMode(_) | Seen::SetModified(_) => {}
        }
    }

    /// Returns whether the operating system refuses the operation because of which names exist.
    fn is_refused(&self, op: &Seen) -> bool {
        let folder_missing = |path: &Path| {
            let folder = path.parent().and_then(|parent| self.lookup(parent));
            !folder.is_some_and(|folder| matches!(self.nodes[folder], Node::Folder(_)))
        };
        let taken = |path: &Path| self.lookup(path).is_some();
        let holds = |path: &Path| {
            let inode = self.lookup(path).map(|inode| &self.nodes[inode]);
            matches!(inode, Some(Node::Folder(entries)) if !entries.is_empty())
        };
        match op {
            Seen::Create(path) | Seen::MakeDir(path) | Seen::Symlink(path, _) => folder_missing(path) || taken(path),
            Seen::Link(from, to) => !taken(from) || folder_missing(to) || taken(to),
            Seen::Rename(from, to) => !taken(from) || folder_missing(to) || holds(to),
            Seen::Exchange(one, other) => !taken(one) || !taken(other),
            Seen::Remove(path) => !taken(path),
            Seen::RemoveDir(path) => !taken(path) || holds(path),
            Seen::Write(..)
            | Seen::Overwrite(..)
            | Seen::Copy { .. }
            | Seen::Sync(_)
            | Seen::SyncDir(_)
            | Seen::SyncAll
            | Seen::SetMode(_)
            | Seen::SetModified(_) => false,
        }
    }

    /// Returns the number of changes of folders that may or may not have reached the disk.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns whether changes of folders are lost only from some point on, rather than in any combination.
    pub(super) fn is_ordered(&self) -> bool {
        self.assumed == Disk::Journaled
    }

    /// Returns what may be left of a file's changes.
    pub(super) fn rests(&self) -> &'static [Rest] {
        const ALL: [Rest; 5] = [Rest::Nothing, Rest::Whole, Rest::Half, Rest::Zeros, Rest::Ends];
        if self.assumed == Disk::Scattered { &ALL } else { &ALL[..4] }
    }

    /// Returns the files whose current content was not synced.
    pub(super) fn unsynced(&self) -> Vec<Inode> {
        let is_unsynced = |node: &Node| matches!(node, Node::File { content, synced } if content != synced);
        (0..self.nodes.len()).filter(|inode| is_unsynced(&self.nodes[*inode])).collect()
    }

    /// Returns the disk after a loss of power. `keep` says which pending changes have survived, and `rests` which
    /// parts of the unsynced files.
    pub(super) fn image(&self, keep: impl Fn(usize) -> bool, rests: &[(Inode, Rest)]) -> Image {
        let mut folders = self.synced_folders.clone();
        for change in self.pending.iter().enumerate().filter(|(at, _)| keep(*at)).map(|(_, change)| change) {
            change.apply(&mut folders);
        }
        let mut entries = Vec::new();
        self.picture(ROOT, Path::new(""), &folders, rests, &mut entries);
        Image(entries)
    }

    fn picture(
        &self,
        folder: Inode,
        at: &Path,
        folders: &BTreeMap<Inode, BTreeMap<OsString, Inode>>,
        rests: &[(Inode, Rest)],
        out: &mut Vec<(PathBuf, Picture)>,
    ) {
        for (name, &inode) in &folders[&folder] {
            let path = at.join(name);
            match &self.nodes[inode] {
                Node::Folder(_) => {
                    out.push((path.clone(), Picture::Folder));
                    self.picture(inode, &path, folders, rests, out);
                }
                Node::Link(content) => out.push((path, Picture::Link(content.clone()))),
                Node::File { content, synced } => {
                    let rest = rests.iter().find(|(of, _)| *of == inode).map_or(Rest::Whole, |(_, rest)| *rest);
                    out.push((path, Picture::File(what_is_left(content, synced, rest))));
                }
            }
        }
    }

    fn add(&mut self, node: Node) -> Inode {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Changes names in the tree; all of these changes reach the disk together.
    fn enter(&mut self, names: &[(&PathBuf, Option<Inode>)]) {
        let mut edits = Vec::new();
        for (path, inode) in names {
            let folder = self.find(path.parent().expect("the root is never changed"));
            let name = path.file_name().expect("a path has a name").to_owned();
            let Node::Folder(entries) = &mut self.nodes[folder] else { panic!("{} is no folder", path.display()) };
            set(entries, &name, *inode);
            edits.push((folder, name, *inode));
        }
        self.pending.push(Change { edits });
    }

    fn lookup(&self, path: &Path) -> Option<Inode> {
        path.components().filter(|part| *part != Component::CurDir).try_fold(ROOT, |inode, part| {
            let Node::Folder(entries) = &self.nodes[inode] else { return None };
            entries.get(part.as_os_str()).copied()
        })
    }

    /// Returns the inode at a path, or the one that was created there, because an open file may have been renamed.
    fn find(&self, path: &Path) -> Inode {
        let made = || self.made.get(path).copied();
        self.lookup(path)
            .or_else(made)
            .unwrap_or_else(|| panic!("the workload knows '{}', the model does not", path.display()))
    }

    fn content(&self, path: &Path) -> Rc<Vec<u8>> {
        match &self.nodes[self.find(path)] {
            Node::File { content, .. } => content.clone(),
            _ => panic!("{} is no file", path.display()),
        }
    }

    fn extend(&mut self, path: &Path, bytes: &[u8]) {
        let inode = self.find(path);
        let Node::File { content, .. } = &mut self.nodes[inode] else { panic!("{} is no file", path.display()) };
        Rc::make_mut(content).extend_from_slice(bytes);
    }

    fn overwrite(&mut self, path: &Path, offset: usize, bytes: &[u8]) {
        let inode = self.find(path);
        let Node::File { content, .. } = &mut self.nodes[inode] else { panic!("{} is no file", path.display()) };
        let content = Rc::make_mut(content);
        let end = offset + bytes.len();
        content.resize(content.len().max(end), 0);
        content[offset..end].copy_from_slice(bytes);
    }

    fn sync_file(&mut self, path: &Path) {
        let inode = self.find(path);
        let Node::File { content, synced } = &mut self.nodes[inode] else { panic!("{} is no file", path.display()) };
        *synced = content.clone();
        if self.is_ordered() {
            self.persist(|_| true);
        }
    }

    fn sync_folder(&mut self, path: &Path) {
        let folder = self.find(path);
        let ordered = self.is_ordered();
        // A rename between folders is a single change, which a sync of the folder that gains the name makes durable.
        self.persist(|change| ordered || change.edits.last().is_some_and(|(of, ..)| *of == folder));
    }

    fn sync_all(&mut self) {
        for node in &mut self.nodes {
            if let Node::File { content, synced } = node {
                *synced = content.clone();
            }
        }
        self.persist(|_| true);
    }

    fn persist(&mut self, which: impl Fn(&Change) -> bool) {
        let (done, pending): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(which);
        self.pending = pending;
        done.iter().for_each(|change| change.apply(&mut self.synced_folders));
    }
}

impl Change {
    fn apply(&self, folders: &mut BTreeMap<Inode, BTreeMap<OsString, Inode>>) {
        for (folder, name, inode) in &self.edits {
            set(folders.get_mut(folder).expect("every folder is known"), name, *inode);
        }
    }
}

fn set(entries: &mut BTreeMap<OsString, Inode>, name: &OsStr, inode: Option<Inode>) {
    match inode {
        Some(inode) => entries.insert(name.to_owned(), inode),
        None => entries.remove(name),
    };
}

fn what_is_left(content: &Rc<Vec<u8>>, synced: &Rc<Vec<u8>>, rest: Rest) -> Rc<Vec<u8>> {
    let mut left = synced.to_vec();
    match rest {
        Rest::Whole => return content.clone(),
        Rest::Nothing => return synced.clone(),
        Rest::Half | Rest::Zeros | Rest::Ends if !content.starts_with(synced) => {
            tear(content, &mut left, rest == Rest::Half)
        }
        Rest::Half => left.extend_from_slice(&content[synced.len()..synced.len() + (content.len() - synced.len()) / 2]),
        Rest::Zeros => left.resize(content.len(), 0),
        Rest::Ends => {
            let third = (content.len() - synced.len()) / 3;
            left.extend_from_slice(&content[synced.len()..]);
            left[synced.len() + third..content.len() - third].fill(0);
        }
    }
    Rc::new(left)
}

/// Writes half of the bytes that differ, the first half or the second one, into the synced content of a file whose
/// bytes were overwritten in place. If the file has also changed its length, `left` gets the new one.
fn tear(content: &[u8], left: &mut Vec<u8>, is_first: bool) {
    left.resize(content.len(), 0);
    let differs: Vec<usize> = (0..content.len()).filter(|at| content[*at] != left[*at]).collect();
    let (first, second) = differs.split_at(differs.len() / 2);
    let new = if is_first { first } else { second };
    new.iter().for_each(|at| left[*at] = content[*at]);
}

/// The content of a folder after a loss of power.
#[derive(Hash)]
pub(super) struct Image(Vec<(PathBuf, Picture)>);

#[derive(Hash)]
enum Picture {
    Folder,
    File(Rc<Vec<u8>>),
    Link(PathBuf),
}

impl Image {
    /// Returns a hash of the image.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Writes the image to the real disk, into the folder `dir`, which must exist.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        self.0.iter().try_for_each(|(path, picture)| match picture {
            Picture::Folder => fs::create_dir(dir.join(path)),
            Picture::File(content) => fs::write(dir.join(path), content.as_slice()),
            Picture::Link(content) => std::os::unix::fs::symlink(content, dir.join(path)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Previously, a file that was overwritten and had grown always had its new length.
    #[test]
    fn a_file_has_all_changes_none_or_some_of_them() {
        let left = |content: &str, synced: &str, rest| {
            let [content, synced] = [content, synced].map(|text| Rc::new(text.as_bytes().to_vec()));
            String::from_utf8(what_is_left(&content, &synced, rest).to_vec()).unwrap()
        };
        for (content, synced, half, zeros, ends) in [
            ("abcdef", "ab", "abcd", "ab\0\0\0\0", "abc\0\0f"),
            ("xycdef", "ab", "xyc\0\0\0", "ab\0def", "ab\0def"),
            ("xy", "abcd", "xb", "ay", "ay"),
            ("ab", "ab", "ab", "ab", "ab"),
        ] {
            assert_eq!(left(content, synced, Rest::Whole), content);
            assert_eq!(left(content, synced, Rest::Nothing), synced);
            assert_eq!(left(content, synced, Rest::Half), half);
            assert_eq!(left(content, synced, Rest::Zeros), zeros);
            assert_eq!(left(content, synced, Rest::Ends), ends);
        }
    }
}
