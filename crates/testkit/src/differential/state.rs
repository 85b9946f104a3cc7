use bstr::{BStr, BString, ByteSlice};
use reftable::{LogValue, Merged, RefValue, Source, Table, stack::table_names};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// How files begin that have nothing to do with refs and lie beside `HEAD`.
const OTHER_FILES: [&str; 6] = ["config", "description", "index", "gitdir", "commondir", "locked"];

/// What a repository's refs and reflogs are: of files their bytes, of reftables what they say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State(BTreeMap<BString, BString>);

/// A ref, a reflog or a file that is not the same in both copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Its name.
    pub name: BString,
    /// What it was before the step.
    pub before: Option<BString>,
    /// What git left.
    pub git: Option<BString>,
    /// What the other program left.
    pub other: Option<BString>,
}

impl State {
    /// Takes down the state of a repository, all its worktrees included.
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

    /// What a ref, a reflog or a file of this name holds.
    pub fn get(&self, name: &BStr) -> Option<&BStr> {
        self.0.get(name.as_bytes()).map(|value| value.as_bstr())
    }

    /// What all of them hold.
    pub fn values(&self) -> impl Iterator<Item = &BStr> {
        self.0.values().map(|value| value.as_bstr())
    }

    /// What git's copy (`self`) has and the other has not, or has otherwise; `before` is what both had.
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
            // Also those that no ref may be called: git makes some of them, and finds them again.
            let is_other = OTHER_FILES.iter().any(|other| name.as_bytes().starts_with(other.as_bytes()));
            if !is_other && !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.file(&entry.path(), format!("{lead}{}", name.to_string_lossy()));
            }
        }
        if dir.join("reftable").is_dir() {
            self.stack(&dir.join("reftable"), lead);
        }
    }

    /// All files below a folder; symbolic links as what they say.
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
        // What only says that there is a reflog; its message is a line feed more after git's compaction.
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
