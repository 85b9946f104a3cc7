use bstr::{BStr, BString, ByteSlice};
use reftable::{LogValue, Merged, RefValue, Source, Table, stack::table_names};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Beginnings of the names of files beside `HEAD` that have nothing to do with refs.
const OTHER_FILES: [&str; 6] = ["config", "description", "index", "gitdir", "commondir", "locked"];

/// Beginnings of the names of folders beside `HEAD` that have nothing to do with refs, or are read separately. A dry
/// run of `git refs migrate` leaves a folder `ref_migration.` with a random ending.
const OTHER_FOLDERS: [&str; 6] = ["objects", "refs", "logs", "reftable", "worktrees", "ref_migration."];

/// The refs and reflogs of a repository: the bytes of files, and the records of reftables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State(BTreeMap<BString, BString>);

/// A ref, reflog or file that is not the same in both copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// The name of the ref, reflog or file.
    pub name: BString,
    /// The value before the step.
    pub before: Option<BString>,
    /// The value after the step with git.
    pub git: Option<BString>,
    /// The value after the step with the other program.
    pub other: Option<BString>,
}

impl State {
    /// Reads the state of a repository, including all its worktrees.
    pub fn of(git_dir: &Path) -> Self {
        let mut state = State(BTreeMap::new());
        state.folder(git_dir, "");
        if let Ok(entries) = fs::read_dir(git_dir.join("worktrees")) {
            for entry in entries.flatten() {
                state.folder(&entry.path(), &format!("worktrees/{}/", entry.file_name().to_string_lossy()));
            }
        }
        state
    }

    /// Returns the value of the ref, reflog or file with this name.
    pub fn get(&self, name: &BStr) -> Option<&BStr> {
        self.0.get(name.as_bytes()).map(|value| value.as_bstr())
    }

    /// Returns the names of all refs, reflogs and files.
    pub fn names(&self) -> impl Iterator<Item = &BString> {
        self.0.keys()
    }

    /// Returns the values of all refs, reflogs and files.
    pub fn values(&self) -> impl Iterator<Item = &BStr> {
        self.0.values().map(|value| value.as_bstr())
    }

    /// Returns the differences between git's copy, `self`, and the other one. `before` is the state that both had
    /// before the step.
    pub fn differences(&self, other: &State, before: &State) -> Vec<Changed> {
        let names: BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let changed = names.into_iter().filter(|name| self.0.get(*name) != other.0.get(*name));
        let values = |name: &BString| [before, self, other].map(|state| state.0.get(name).cloned());
        changed
            .map(|name| {
                let [before, git, other] = values(name);
                Changed { name: name.clone(), before, git, other }
            })
            .collect()
    }

    fn folder(&mut self, dir: &Path, lead: &str) {
        self.files(&dir.join("refs"), &format!("{lead}refs"));
        self.files(&dir.join("logs"), &format!("{lead}logs"));
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            // Names that are not allowed for refs count too, because git creates some files with such names and finds
            // them again.
            let is_one = |others: &[&str]| others.iter().any(|other| name.as_bytes().starts_with(other.as_bytes()));
            let full = format!("{lead}{}", name.to_string_lossy());
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !is_one(&OTHER_FILES) {
                    self.file(&entry.path(), full);
                }
            } else if !is_one(&OTHER_FOLDERS) {
                // git also makes refs such as `main/HEAD`.
                self.files(&entry.path(), &full);
            }
        }
        if dir.join("reftable").is_dir() {
            self.stack(&dir.join("reftable"), lead);
        }
    }

    /// Adds all files below a folder, with the targets of symbolic links as their contents.
    fn files(&mut self, dir: &Path, lead: &str) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let mut name = BString::from(format!("{lead}/"));
            name.extend_from_slice(entry.file_name().as_bytes());
            let kind = entry.file_type();
            if kind.is_ok_and(|kind| kind.is_dir()) {
                self.files(&entry.path(), &name.to_string());
            } else {
                self.file(&entry.path(), name.to_string());
            }
        }
    }

    fn file(&mut self, path: &Path, name: String) {
        let value = match fs::read_link(path) {
            Ok(target) => [b"link to ", target.as_os_str().as_bytes()].concat().into(),
            Err(_) => fs::read(path).map_or_else(|error| error.to_string().into(), BString::from),
        };
        self.0.insert(name.into(), value);
    }

    fn stack(&mut self, dir: &Path, lead: &str) {
        let mut add = |name: String, value: String| {
            self.0.insert(format!("{lead}{name}").into(), value.into());
        };
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".lock") {
                add(format!("reftable/{name}"), "a lock".to_owned());
            }
        }
        match open_stack(dir) {
            Ok(merged) => read_stack(&merged, &mut add),
            Err(error) => add("reftable".to_owned(), error),
        }
    }
}

fn open_stack(dir: &Path) -> Result<Merged, String> {
    let list = fs::read(dir.join("tables.list")).map_err(|error| error.to_string())?;
    let names = table_names(&list).map_err(|fault| format!("{fault:?}"))?;
    let open = |name: &reftable::stack::TableName| {
        let bytes = fs::read(name.path_in(dir)).map_err(|error| error.to_string())?;
        Table::open(Source::Memory(bytes.into()), name.as_bstr()).map_err(|error| error.to_string())
    };
    let tables = names.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    Merged::new(tables).map_err(|error| error.to_string())
}

fn read_stack(merged: &Merged, add: &mut impl FnMut(String, String)) {
    let mut refs = merged.refs();
    while let Ok(Some(record)) = refs.next() {
        let value = match record.value {
            RefValue::Deletion => "deleted".to_owned(),
            RefValue::Direct(id) => id.to_string(),
            RefValue::Peeled { target, peeled } => format!("{target} peeled {peeled}"),
            RefValue::Symbolic(target) => format!("ref: {target}"),
        };
        add(record.name.to_string(), value);
    }
    let mut logs = merged.logs();
    let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while let Ok(Some(record)) = logs.next() {
        let LogValue::Update { old, new, name, email, time_seconds, tz_offset, message } = record.value else {
            continue;
        };
        // This record only says that the reflog exists. After a compaction by git, its message has an additional line
        // feed.
        if old.is_null() && new.is_null() && email.is_empty() {
            entries.entry(format!("log of {}", record.name)).or_default();
            continue;
        }
        let line = format!("{old} {new} {name} <{email}> {time_seconds} {tz_offset} {:?}", message.as_bstr());
        entries.entry(format!("log of {}", record.name)).or_default().push(line);
    }
    for (name, lines) in entries {
        add(name, lines.join("\n"));
    }
}
