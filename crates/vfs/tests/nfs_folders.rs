//! Held folders on two clients of a modelled NFS server: every operation of one client on the entries of its folder is
//! interrupted, before each of its calls of the operating system, by the operations of the other one.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use refdb_testkit::nfs_client::{Replaced, SharedFolder};
use refdb_vfs::{Folder, Fs, Result};
use std::{collections::BTreeMap, ffi::OsStr, io::ErrorKind, path::Path};

/// What the first client does. `top` is the folder that it holds open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    Read,
    List,
    Enter,
    Create,
    MakeFolder,
    RenameOut,
    RenameWithin,
    Link,
    Remove,
    RemoveFolder,
}

const OPS: [Op; 10] = [
    Op::Read,
    Op::List,
    Op::Enter,
    Op::Create,
    Op::MakeFolder,
    Op::RenameOut,
    Op::RenameWithin,
    Op::Link,
    Op::Remove,
    Op::RemoveFolder,
];

/// One step of the second client.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Replaces `top/file`.
    Replace,
    Remove(&'static str),
    RemoveFolder(&'static str),
    MakeFolder(&'static str),
    Create(&'static str),
}

const OTHERS: [&[Step]; 6] = [
    &[Step::Replace],
    &[Step::Remove("top/file"), Step::Create("top/file")],
    &[Step::RemoveFolder("top/sub"), Step::MakeFolder("top/sub")],
    &[Step::RemoveFolder("other"), Step::MakeFolder("other")],
    &[Step::Remove("top/file"), Step::RemoveFolder("top/sub"), Step::RemoveFolder("top")],
    &[
        Step::Remove("top/file"),
        Step::RemoveFolder("top/sub"),
        Step::RemoveFolder("top"),
        Step::MakeFolder("top"),
        Step::Create("top/file"),
    ],
];

/// The answer to an operation: what was found, or the kind of the error.
type Answer = std::result::Result<String, ErrorKind>;

fn act(root: &Path, top: &Folder, op: Op) -> Answer {
    let (file, sub, new) = (OsStr::new("file"), OsStr::new("sub"), OsStr::new("new"));
    let done: Result<String> = match op {
        Op::Read => top.open(file).and_then(|file| file.read_len(100)).map(|bytes| String::from_utf8(bytes).unwrap()),
        Op::List => top.entries().map(|mut entries| {
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            entries.iter().map(|(name, kind)| format!("{} {kind:?} ", name.escape_ascii())).collect()
        }),
        Op::Enter => top.below(Path::new("sub")).and_then(|sub| sub.entries()).map(|entries| entries.len().to_string()),
        Op::Create => top.create_new(new, 0o666).map(|_| String::new()),
        Op::MakeFolder => top.create_dir(new, 0o777).map(|()| String::new()),
        Op::RenameOut => top.rename(file, &root.join("other/file")).map(|()| String::new()),
        Op::RenameWithin => top.rename_within(file, new).map(|()| String::new()),
        Op::Link => top.hard_link(file, &root.join("other/file")).map(|()| String::new()),
        Op::Remove => top.remove_file(file).map(|()| String::new()),
        Op::RemoveFolder => top.remove_dir(sub).map(|()| String::new()),
    };
    done.map_err(|error| error.source.kind())
}

fn step(fs: &Fs, root: &Path, step: Step) {
    match step {
        Step::Replace => {
            fs.create_new(&root.join("top/replacement"), 0o666).unwrap().write_all(b"second").unwrap();
            fs.rename(&root.join("top/replacement"), &root.join("top/file")).unwrap();
        }
        // What the first client has taken away need not be removed.
        Step::Remove(path) => drop(fs.remove_file(&root.join(path))),
        Step::RemoveFolder(path) => drop(fs.remove_dir(&root.join(path))),
        Step::MakeFolder(path) => drop(fs.create_dir(&root.join(path), 0o777)),
        Step::Create(path) => drop(fs.create_new(&root.join(path), 0o666)),
    }
}

/// What the folders hold: the content of each file, and nothing for each folder.
type State = BTreeMap<String, Option<String>>;

fn state(root: &Path) -> State {
    fn add(state: &mut State, root: &Path, folder: &Path) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            state.insert(name, (!path.is_dir()).then(|| std::fs::read_to_string(&path).unwrap()));
            if path.is_dir() {
                add(state, root, &path);
            }
        }
    }
    let mut all = State::new();
    add(&mut all, root, root);
    all
}

fn prepare(root: &Path) {
    for folder in ["top/sub", "other"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::write(root.join("top/file"), "first").unwrap();
}

/// The answer and the end if the operation is carried out between two of the others, `at` of which come first.
fn alone(op: Op, others: &[Step], at: usize) -> (Answer, State) {
    let temp = tempfile::tempdir().unwrap();
    let (fs, root) = (Fs::real(), temp.path());
    prepare(root);
    let top = fs.folder(&root.join("top")).unwrap();
    others[..at].iter().for_each(|other| step(&fs, root, *other));
    let answer = act(root, &top, op);
    others[at..].iter().for_each(|other| step(&fs, root, *other));
    (answer, state(root))
}

/// One run: `op` is interrupted before its call number `at`. Returns whether it has that many calls.
fn run(op: Op, others: &'static [Step], at: usize) -> std::result::Result<bool, String> {
    let temp = tempfile::tempdir().unwrap();
    let (root, held) = (temp.path().join("shared"), temp.path().join("held"));
    [&root, &held].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    prepare(&root);
    let shared = SharedFolder::new(&root, &held);
    let (client, other) = (shared.client(Replaced::Stale), shared.client(Replaced::Stale));
    let [fs, other] = [client.clone(), other].map(|client| Fs::with_hook(client).at(&root).unwrap());
    let top = fs.folder(&root.join("top")).unwrap();
    // The client remembers all names.
    for path in ["top/file", "top/sub", "top/new", "other/file"] {
        let _ = fs.find_link(&root.join(path));
    }
    let place = root.clone();
    client.interrupt_at(client.steps() + at, move || {
        others.iter().for_each(|other_step| step(&other, &place, *other_step))
    });
    let answer = act(&root, &top, op);
    let was_interrupted = !client.interrupt_now();
    let end = state(&root);
    let is_right = (0..=others.len()).any(|at| alone(op, others, at) == (answer.clone(), end.clone()));
    if is_right { Ok(was_interrupted) } else { Err(format!("no order explains {answer:?}: {end:?}")) }
}

#[test]
fn an_entry_that_another_machine_replaced_is_looked_up_again() {
    let (mut runs, mut broken) = (0, Vec::new());
    for op in OPS {
        for others in OTHERS {
            let mut at = 0;
            loop {
                runs += 1;
                match run(op, others, at) {
                    Ok(true) => at += 1,
                    Ok(false) => break,
                    Err(how) => {
                        broken.push(format!("{others:?} before call {at} of {op:?}: {how}"));
                        break;
                    }
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} of {runs} runs:\n{}", broken.len(), broken.join("\n"));
}

/// Previously, the line went into the replaced file, which a program on the other machine kept alive.
#[test]
fn a_line_is_appended_to_the_file_that_has_the_name_now() {
    let temp = tempfile::tempdir().unwrap();
    let (root, held) = (temp.path().join("shared"), temp.path().join("held"));
    [&root, &held].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    prepare(&root);
    let shared = SharedFolder::new(&root, &held);
    let [fs, other] = [(); 2].map(|()| Fs::with_hook(shared.client(Replaced::OldFile)).at(&root).unwrap());
    let path = root.join("top/file");
    let append = |line: &str| fs.append(&path, 0o666).unwrap().write_all(line.as_bytes()).unwrap();
    append(" 1");
    step(&other, &root, Step::Replace);
    append(" 2");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "second 2");
    step(&other, &root, Step::Remove("top/file"));
    append("3");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "3");
}

/// Previously, such a change was reported as failed.
#[test]
fn a_change_whose_reply_was_lost_has_succeeded() {
    let temp = tempfile::tempdir().unwrap();
    let (root, held) = (temp.path().join("shared"), temp.path().join("held"));
    for op in [Op::RenameOut, Op::RenameWithin, Op::Link] {
        let _ = std::fs::remove_dir_all(&root);
        let _ = std::fs::create_dir(&held);
        std::fs::create_dir(&root).unwrap();
        prepare(&root);
        let client = SharedFolder::new(&root, &held).client(Replaced::Stale);
        let fs = Fs::with_hook(client.clone()).at(&root).unwrap();
        let top = fs.folder(&root.join("top")).unwrap();
        client.lose_reply_after(0);
        assert_eq!(act(&root, &top, op), Ok(String::new()), "{op:?}");
        assert!(!client.keep_replies(), "{op:?}: a reply was lost");
    }
}
