//! A repository whose reftable stack is replaced for each case, and how git, JGit and this crate read it.

use crate::common::{OwnLog, OwnRef, OwnValue};
use bstr::{BStr, BString, ByteSlice};
use refdb_testkit::{Git, JGit, Listed, RefFormat, Repo};
use refdb_vfs::{Fs, LockTimeout};
use reftable::{
    HashKind, ObjectId, WriteOptions,
    stack::{Stack, StackOptions},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

pub(crate) const LOCK_TIMEOUT: LockTimeout = LockTimeout::For(Duration::from_secs(60));

/// The branches that git and JGit add so that there is something to compact.
const ADDED: [&str; 2] = ["refs/heads/gits", "refs/heads/jgits"];

/// The records that a stack must show: refs by name, and log entries by name and update index.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Content {
    pub(crate) refs: BTreeMap<BString, OwnValue>,
    pub(crate) logs: BTreeMap<(BString, u64), OwnLog>,
}

/// A repository, and a process with JGit if JGit knows the hash function.
pub(crate) struct Others {
    pub(crate) repo: Repo,
    pub(crate) commits: Vec<ObjectId>,
    /// Tag objects, with the commits to which they lead.
    pub(crate) tags: Vec<(ObjectId, ObjectId)>,
    jgit: Option<JGit>,
    usual_config: String,
}

impl Others {
    pub(crate) fn new(hash: HashKind) -> Self {
        let repo = Repo::bare(RefFormat::Reftable, hash);
        let commits = repo.commits(64);
        let tags = (0..4).map(|at| (repo.tag_object(commits[at], &format!("v{at}")), commits[at])).collect();
        let jgit = (hash == HashKind::Sha1).then(|| JGit::open(&repo));
        let usual_config = fs::read_to_string(repo.git_dir().join("config")).unwrap();
        Others { repo, commits, tags, jgit, usual_config }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.repo.git_dir().join("reftable")
    }

    /// Begins a case with a folder without tables, and a configuration with which git and JGit write as `options` say,
    /// except for the alignment of blocks.
    pub(crate) fn begin(&self, options: WriteOptions) -> StackOptions {
        let WriteOptions { block_size, restart_interval, index_objects, .. } = options;
        let config = format!(
            "{}[reftable]\n\tblockSize = {block_size}\n\trestartInterval = {restart_interval}\n\tindexObjects = \
             {index_objects}\n",
            self.usual_config
        );
        fs::write(self.repo.git_dir().join("config"), config).unwrap();
        replace(&self.folder(), &[("tables.list".into(), Vec::new())]);
        StackOptions::new(options)
    }

    /// Returns what this crate reads, without the branches in [`ADDED`].
    pub(crate) fn read(&self, options: &StackOptions) -> Content {
        let stack = Stack::open(Fs::real(), &self.folder(), options.clone()).unwrap();
        let snapshot = stack.refresh().unwrap();
        let (mut refs, mut logs, mut content) =
            (snapshot.merged().refs(), snapshot.merged().logs(), Content::default());
        while let Some(record) = refs.next().unwrap() {
            let OwnRef { name, value, .. } = OwnRef::of(record);
            content.refs.insert(name, value);
        }
        while let Some(record) = logs.next().unwrap() {
            let log = OwnLog::of(record);
            content.logs.insert((log.name.clone(), log.update_index), log);
        }
        for added in ADDED {
            content.refs.remove(BStr::new(added));
            content.logs.retain(|(name, _), _| name != added);
        }
        content
    }

    /// Has git and JGit list and rewrite the stack, each in its first state. Panics if either misses anything.
    pub(crate) fn list_and_rewrite(&mut self, options: &StackOptions, expected: &Content, what: &str) {
        let before = tables(&self.folder());
        self.list(options, expected, what);
        self.git(REWRITE, what);
        assert_same(&self.read(options), expected, &format!("{what}: rewritten by git"));
        self.list_with_git(expected, &format!("{what}: rewritten by itself"));
        replace(&self.folder(), &before);
        self.rewrite_with_jgit(options, expected, what);
    }

    /// Lists the stack with this crate, git and JGit, and compares the lists with `expected`.
    pub(crate) fn list(&mut self, options: &StackOptions, expected: &Content, what: &str) {
        assert_same(&self.read(options), expected, &format!("{what}: read here"));
        self.list_with_git(expected, what);
        self.list_with_jgit(expected, what);
    }

    fn list_with_git(&self, expected: &Content, what: &str) {
        let said = self.git(LIST, what);
        let (refs, logs) = said.split_once_str("==\n").unwrap();
        assert_lines(refs, &listed_by_git(expected), &format!("{what}: git's list"));
        assert_lines(logs, &names_of_logs(expected), &format!("{what}: git's list of reflogs"));
    }

    fn list_with_jgit(&mut self, expected: &Content, what: &str) {
        let Some(jgit) = &mut self.jgit else { return };
        let direct = |name: &BString, value: &OwnValue| match (value, name) {
            (OwnValue::Direct(oid) | OwnValue::Peeled(oid, _), _) => *oid,
            (OwnValue::Symbolic(target), _) => match &expected.refs[target] {
                OwnValue::Direct(oid) => *oid,
                other => panic!("{what}: {name} leads to {other:?}"),
            },
            (OwnValue::Deletion, _) => panic!("{what}: tombstones are hidden"),
        };
        let refs = expected.refs.iter().filter(|(name, _)| name.starts_with(b"refs/"));
        let refs: Vec<Listed> = refs
            .map(|(name, value)| {
                let symref = if let OwnValue::Symbolic(target) = value { Some(target.clone()) } else { None };
                Listed { name: name.clone(), oid: direct(name, value), symref }
            })
            .collect();
        let listed = jgit.list("refs/").unwrap_or_else(|error| panic!("{what}: JGit: {error}"));
        assert_eq!(listed.len(), refs.len(), "{what}: JGit's list");
        assert!(listed == refs, "{what}: JGit's list");
        for Listed { name, oid, .. } in refs.iter().step_by(1 + refs.len() / 5) {
            let name = name.to_string();
            assert_eq!(jgit.get(&name).unwrap().map(|found| found.oid), Some(*oid), "{what}: JGit looks up {name}");
            let pointing = jgit.points_at(*oid).unwrap();
            assert!(pointing.iter().any(|found| *found == name), "{what}: JGit finds {name} by its object");
        }
        let logged = names_of_logs(expected).into_iter().filter(|name| expected.refs.contains_key(name));
        for name in logged.collect::<Vec<_>>().iter() {
            let entries = jgit.reflog(&name.to_string()).unwrap_or_else(|error| panic!("{what}: {name}: {error}"));
            let own = expected.logs.values().filter(|log| log.name == *name);
            assert_eq!(entries, own.map(line_of_jgit).collect::<Vec<_>>(), "{what}: JGit's reflog of {name}");
        }
    }

    pub(crate) fn rewrite_with_jgit(&mut self, options: &StackOptions, expected: &Content, what: &str) {
        let Some(jgit) = &mut self.jgit else { return };
        let updated = jgit.update(ADDED[1], self.commits[0], None, "made");
        assert!(matches!(updated.as_deref(), Ok("NEW")), "{what}: JGit: {updated:?}");
        jgit.compact().unwrap_or_else(|error| panic!("{what}: JGit: {error}"));
        let list = fs::read_to_string(self.folder().join("tables.list")).unwrap();
        assert_eq!(list.lines().count(), 1, "{what}: JGit compacts");
        let what = format!("{what}: rewritten by JGit");
        assert_same(&self.read(options), expected, &what);
        // Git is asked about the refs alone, because it cannot read every log index that JGit writes.
        let said = self.git(LIST, &what);
        assert_lines(said.split_once_str("==\n").unwrap().0, &listed_by_git(expected), &what);
    }

    fn git(&self, script: &str, what: &str) -> Vec<u8> {
        let output = self.try_git(script);
        assert!(output.status.success(), "{what}: git: {:?}", output.stderr.as_bstr());
        output.stdout
    }

    /// Runs a script in which `$git` is git and `$id` a commit, with limits on time and file size, because git's writer
    /// fills the disk if names are too long for an index.
    fn try_git(&self, script: &str) -> Output {
        let mut command = self.repo.command("timeout");
        command.args(["120", "sh", "-c", &format!("set -e; ulimit -f 100000; {script}")]);
        command.env("git", Git::find().program()).env("id", self.commits[0].to_string()).output().unwrap()
    }
}

const LIST: &str = r#"
    "$git" for-each-ref --include-root-refs \
        --format='%(refname) %(if)%(symref)%(then)%(symref)%(else)%(objectname)%(end)' |
        grep -v '^refs/heads/j*gits ' || :
    echo ==
    "$git" reflog list | grep -v '^refs/heads/j*gits$' || :
"#;

const REWRITE: &str = r#"
    "$git" refs verify --strict
    "$git" update-ref refs/heads/gits "$id"
    "$git" pack-refs --all
    test "$(wc -l <reftable/tables.list)" = 1
"#;

fn names_of_logs(content: &Content) -> Vec<BString> {
    let mut names: Vec<_> = content.logs.keys().map(|(name, _)| name.clone()).collect();
    names.dedup();
    names
}

/// Returns the list of refs that [`LIST`] must print.
fn listed_by_git(content: &Content) -> Vec<BString> {
    let line = |(name, value): (&BString, &OwnValue)| match value {
        OwnValue::Direct(id) | OwnValue::Peeled(id, _) => format!("{name} {id}").into(),
        OwnValue::Symbolic(target) => format!("{name} {target}").into(),
        OwnValue::Deletion => panic!("tombstones are hidden"),
    };
    content.refs.iter().map(line).collect()
}

/// Returns an entry as the JGit driver prints it. JGit takes the stored offset, such as 130 for +0130, for minutes.
fn line_of_jgit(log: &OwnLog) -> BString {
    let (old, new, name, email, seconds, offset, message) = log.entry.as_ref().unwrap();
    let (sign, minutes) = (if *offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
    let message = message.trim_end_with(|c| c == '\n').as_bstr();
    format!("{old} {new} {name} <{email}> {seconds} {sign}{:02}{:02}\t{message}", minutes / 60, minutes % 60).into()
}

/// Compares lines without printing thousands of long names.
fn assert_lines(said: &[u8], expected: &[BString], what: &str) {
    assert_eq!(said.lines().count(), expected.len(), "{what}");
    let differs = said.lines().zip(expected).find(|(said, expected)| said != expected);
    assert_eq!(differs.map(|(said, expected)| (said.as_bstr(), expected)), None, "{what}");
}

pub(crate) fn assert_same(found: &Content, expected: &Content, what: &str) {
    assert_eq!((found.refs.len(), found.logs.len()), (expected.refs.len(), expected.logs.len()), "{what}");
    let differs = found.refs.iter().zip(&expected.refs).find(|(found, expected)| found != expected);
    assert_eq!(differs, None, "{what}");
    let differs = found.logs.iter().zip(&expected.logs).find(|(found, expected)| found != expected);
    assert_eq!(differs, None, "{what}");
}

/// Returns the files of a stack with their content.
fn tables(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let list = fs::read(folder.join("tables.list")).unwrap();
    let names = list.lines().map(|name| PathBuf::from(name.to_str().unwrap()));
    let mut files: Vec<_> = names.map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect();
    files.push(("tables.list".into(), list));
    files
}

/// Replaces everything in the folder by these files.
pub(crate) fn replace(folder: &Path, files: &[(PathBuf, Vec<u8>)]) {
    for entry in fs::read_dir(folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}
