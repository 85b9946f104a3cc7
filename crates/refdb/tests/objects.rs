//! The classes of objects, and the names by which they can be found, are those of real git: loose or packed, with both
//! hashes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use bstr::{BStr, BString, ByteSlice};
use refdb::{
    Cursor, Environment, HashKind, Ident, LogEntry, NameError, ObjectId, Objects, Probe, RefName, RefView, Repository,
    Result, Snapshot, Store, Target,
    backend::Answers,
    objects::ObjectKind,
    resolve_name,
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_testkit::{RefFormat, Repo};
use refdb_vfs::{Fs, LockTimeout};
use reftable::stack::{Stack, StackError, StackOptions};
use std::{collections::BTreeMap, fs, ops::ControlFlow, os::unix::fs::PermissionsExt, path::PathBuf};

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

fn objects(repo: &Repo) -> Objects {
    Objects::in_dir(repo.git_dir().join("objects"), repo.hash())
}

fn missing(hash: HashKind) -> ObjectId {
    ObjectId::from_bytes(hash, &vec![0xab; hash.len_bytes()]).unwrap()
}

/// Writes an object, however malformed its content is.
fn literally(repo: &Repo, kind: &str, content: &str) -> ObjectId {
    let hex = repo.git_with_input(["hash-object", "-t", kind, "-w", "--literally", "--stdin"], content);
    ObjectId::from_hex(repo.hash(), hex.as_bytes()).unwrap()
}

fn tag(repo: &Repo, target: ObjectId, kind: &str) -> ObjectId {
    literally(repo, "tag", &format!("object {target}\ntype {kind}\ntag t\ntagger a <b> 1 +0000\n\nx\n"))
}

/// Returns the path of a loose object, and makes the file writable.
fn loose(repo: &Repo, id: ObjectId) -> PathBuf {
    let hex = id.to_string();
    let path = repo.git_dir().join("objects").join(&hex[..2]).join(&hex[2..]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    path
}

/// Whether git would let a ref point at the object.
fn git_accepts(repo: &Repo, id: ObjectId) -> bool {
    repo.try_git(["update-ref", "refs/any/ref", &id.to_string()], "").status.success()
}

#[test]
fn objects_are_classified_wherever_they_lie() {
    for hash in HASHES {
        let repo = Repo::bare(RefFormat::Files, hash);
        let commits = repo.commits(20);
        let blob = repo.blob("content");
        let tag_of_commit = repo.tag_object(commits[3], "one");
        let tag_of_tag = repo.tag_object(tag_of_commit, "two");
        let tag_of_blob = repo.tag_object(blob, "three");
        let tree = repo.rev_parse(&format!("{}^{{tree}}", commits[0]));
        let check = |objects: &Objects| {
            for commit in &commits {
                assert_eq!(objects.classify(commit).unwrap(), ObjectClass::Commit);
            }
            for _ in 0..2 {
                assert_eq!(objects.classify(&blob).unwrap(), ObjectClass::Other);
                assert_eq!(objects.classify(&tree).unwrap(), ObjectClass::Other);
                assert_eq!(objects.classify(&tag_of_commit).unwrap(), ObjectClass::Tag(Some(commits[3])));
                assert_eq!(objects.classify(&tag_of_tag).unwrap(), ObjectClass::Tag(Some(commits[3])));
                assert_eq!(objects.classify(&tag_of_blob).unwrap(), ObjectClass::Tag(Some(blob)));
                assert_eq!(objects.classify(&missing(hash)).unwrap(), ObjectClass::Missing);
            }
            assert_eq!(objects.peel(&tag_of_tag).unwrap(), Some(commits[3]));
            assert_eq!(objects.peel(&blob).unwrap(), Some(blob));
            assert_eq!(objects.peel(&missing(hash)).unwrap(), None);
            assert!(objects.exists(&tree).unwrap() && !objects.exists(&missing(hash)).unwrap());
            let header = objects.header(&blob).unwrap().unwrap();
            assert_eq!((header.kind, header.size_bytes), (ObjectKind::Blob, 7));
            assert_eq!(objects.header(&missing(hash)).unwrap(), None);
        };
        let before = objects(&repo);
        check(&objects(&repo));
        repo.create_refs([("refs/tags/a", tag_of_tag), ("refs/tags/b", tag_of_blob), ("refs/heads/m", commits[19])]);
        repo.git(["repack", "-adq"]);
        check(&objects(&repo));
        check(&before);
        repo.git(["multi-pack-index", "write"]);
        check(&objects(&repo));
        // Through an alternate, as in a fork.
        let fork = Repo::bare(RefFormat::Files, hash);
        let alternate = format!("{}\n", repo.git_dir().join("objects").display());
        fs::create_dir_all(fork.git_dir().join("objects/info")).unwrap();
        fs::write(fork.git_dir().join("objects/info/alternates"), alternate).unwrap();
        check(&objects(&fork));
    }
}

#[test]
fn objects_that_appear_later_are_found() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let first = repo.commit();
    let objects = objects(&repo);
    assert_eq!(objects.classify(&first).unwrap(), ObjectClass::Commit);
    assert_eq!(objects.classify(&missing(HashKind::Sha1)).unwrap(), ObjectClass::Missing);
    let blob = repo.blob("late");
    assert_eq!(objects.classify(&blob).unwrap(), ObjectClass::Other);
    repo.create_refs([("refs/heads/m", first), ("refs/tags/b", blob)]);
    for round in 0..40 {
        let late = repo.blob(&format!("later {round}"));
        repo.git(["update-ref", &format!("refs/tags/{round}"), &late.to_string()]);
        repo.git(["repack", "-dq"]);
        assert_eq!(objects.classify(&late).unwrap(), ObjectClass::Other, "pack {round}");
    }
}

#[test]
fn packs_may_be_rewritten_under_an_open_database() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let commits = repo.commits(600);
    repo.create_refs([("refs/heads/m", commits[599])]);
    let objects = objects(&repo);
    for (round, share) in commits.chunks(100).enumerate() {
        // Each time, the commits are deltas against deltas in another order.
        repo.git(["repack", "-adfq", "--depth=20", &format!("--window={}", round + 5)]);
        for commit in share {
            assert_eq!(objects.classify(commit).unwrap(), ObjectClass::Commit, "round {round}");
        }
        repo.blob(&round.to_string());
    }
    let deltas = repo.git(["cat-file", "--batch-all-objects", "--batch-check=%(deltabase)"]);
    let null = ObjectId::null(HashKind::Sha1).to_string();
    assert!(deltas.lines().filter(|base| *base != null).count() > 300, "the commits are no deltas");
}

#[test]
fn content_that_git_refuses_is_refused() {
    for hash in HASHES {
        let repo = Repo::bare(RefFormat::Files, hash);
        let id = missing(hash);
        let parent = "12".repeat(hash.len_bytes());
        for (kind, content) in [
            ("commit", format!("tree {id}\nauthor x\n")),
            ("commit", format!("tree {id}\nparent {parent}\nauthor x\n")),
            ("commit", format!("tree {id}\n")),
            ("commit", format!("tre {id}\nauthor x\n")),
            ("commit", format!("tree {id}\nparent 123\nauthor x\n")),
            ("commit", format!("tree {id}x\nauthor x\n")),
            ("commit", String::new()),
            ("tag", format!("object {id}\n")),
            ("tag", format!("object {id}\ntype commit\ntag x\n")),
            ("tag", format!("object {id}\ntype commit\ntag x\ntagger foo\n")),
            ("tag", format!("object {id}\ntype commit\ntag x\ntagger a <b> 1 +0000\n\nx\n")),
            ("tag", format!("object {id}\ntype foo\ntag x\ntagger foo\n")),
            ("tag", String::new()),
            ("tree", "garbage".to_owned()),
            ("blob", String::new()),
        ] {
            let id = literally(&repo, kind, &content);
            let ours = objects(&repo).classify(&id).unwrap() != ObjectClass::Missing;
            assert_eq!(ours, git_accepts(&repo, id), "{kind} {content:?}");
        }
    }
}

#[test]
fn damaged_objects_are_refused() {
    for hash in HASHES {
        let repo = Repo::bare(RefFormat::Files, hash);
        let (commit, blob) = (repo.commit(), repo.blob("x"));
        let other = repo.blob("y");
        fs::copy(loose(&repo, other), loose(&repo, blob)).unwrap();
        assert_eq!(objects(&repo).classify(&blob).unwrap(), ObjectClass::Missing, "another object's content");
        assert!(!git_accepts(&repo, blob));
        fs::write(loose(&repo, other), "garbage").unwrap();
        assert_eq!(objects(&repo).classify(&other).unwrap(), ObjectClass::Missing, "no object at all");
        assert!(!git_accepts(&repo, other));
        // A flipped bit in a pack is noticed, unless it is not part of this object.
        repo.create_refs([("refs/heads/m", commit)]);
        repo.git(["repack", "-adq"]);
        let pack = fs::read_dir(repo.git_dir().join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        let pack = pack.into_iter().find(|path| path.extension().is_some_and(|end| end == "pack")).unwrap();
        fs::set_permissions(&pack, fs::Permissions::from_mode(0o644)).unwrap();
        let whole = fs::read(&pack).unwrap();
        let mut seen = 0;
        for at in 12..whole.len() - hash.len_bytes() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&pack, &damaged).unwrap();
            match objects(&repo).classify(&commit).unwrap() {
                ObjectClass::Missing => seen += 1,
                class => assert_eq!(class, ObjectClass::Commit),
            }
        }
        assert!(seen > 50, "{seen}");
    }
}

#[test]
fn tags_are_peeled_only_to_what_exists_and_is_what_they_say() {
    for hash in HASHES {
        let repo = Repo::bare(RefFormat::Files, hash);
        let (commit, blob) = (repo.commit(), repo.blob("x"));
        let good = tag(&repo, commit, "commit");
        for (target, kind, peeled) in [
            (commit, "commit", Some(commit)),
            (good, "tag", Some(commit)),
            (blob, "blob", Some(blob)),
            (missing(hash), "commit", None),
            (missing(hash), "tag", None),
            (blob, "commit", None),
            (commit, "tag", None),
            (good, "commit", None),
            (commit, "tree", None),
            (tag(&repo, missing(hash), "commit"), "tag", None),
        ] {
            let id = tag(&repo, target, kind);
            assert_eq!(objects(&repo).classify(&id).unwrap(), ObjectClass::Tag(peeled), "{target} {kind}");
            repo.git(["update-ref", "refs/tags/t", &id.to_string()]);
            let git = repo.try_git(["for-each-ref", "--format=%(*objectname)", "refs/tags/t"], "");
            let git = git.status.success().then(|| String::from_utf8(git.stdout).unwrap());
            assert_eq!(git, peeled.map(|peeled| format!("{peeled}\n")), "{target} {kind}");
        }
    }
}

/// Previously, a process that had read a tag before its target was there never peeled the tag.
#[test]
fn a_tag_is_peeled_once_its_target_is_there() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let commit = repo.commit();
    let inner = tag(&repo, commit, "commit");
    for (target, kind) in [(commit, "commit"), (inner, "tag")] {
        let id = tag(&repo, target, kind);
        let (path, away) = (loose(&repo, target), repo.git_dir().join("away"));
        fs::rename(&path, &away).unwrap();
        let objects = objects(&repo);
        assert_eq!(objects.classify(&id).unwrap(), ObjectClass::Tag(None));
        fs::rename(&away, &path).unwrap();
        assert_eq!(objects.classify(&id).unwrap(), ObjectClass::Tag(Some(commit)));
    }
}

#[test]
fn a_partial_clone_asks_for_what_is_missing() {
    let source = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let (commit, blob) = (source.commit(), source.blob("far away"));
    source.create_refs([("refs/heads/main", commit), ("refs/tags/far", blob)]);
    source.config("uploadpack.allowFilter", "true");
    source.config("uploadpack.allowAnySHA1InWant", "true");
    let clone = source.scratch().join("clone");
    let url = format!("file://{}", source.git_dir().display());
    source.git([
        "clone",
        "-q",
        "--bare",
        "--filter=blob:none",
        "--branch=main",
        "--single-branch",
        "--no-tags",
        &url,
        clone.to_str().unwrap(),
    ]);
    let environment = Environment::empty(&clone).with("GIT_CONFIG_NOSYSTEM", "1");
    let repository = Repository::discover(&Fs::real(), &environment).unwrap();
    assert!(repository.is_partial_clone());
    assert!(!objects_in(&repository).exists(&blob).unwrap());
    assert_eq!(Objects::of(&repository, &environment).classify(&blob).unwrap(), ObjectClass::Other);
    assert!(objects_in(&repository).exists(&blob).unwrap());
}

fn objects_in(repository: &Repository) -> Objects {
    Objects::in_dir(repository.common_dir().join("objects"), repository.hash())
}

/// Refs and reflogs as git reports them.
struct FromGit {
    refs: BTreeMap<BString, Target>,
    logs: BTreeMap<BString, Vec<LogEntry>>,
}

impl FromGit {
    fn new(repo: &Repo) -> Self {
        let refs: BTreeMap<_, _> = repo
            .refs()
            .into_iter()
            .map(|listed| {
                let target = match listed.symref {
                    Some(symref) => Target::Symbolic(RefName::new(Vec::from(symref)).unwrap()),
                    None => Target::Direct(listed.oid),
                };
                (listed.name, target)
            })
            .collect();
        let logs = refs.keys().map(|name| {
            let entries =
                repo.reflog(name.to_str().unwrap()).into_iter().rev().map(|line| entry(repo.hash(), line.as_bstr()));
            (name.clone(), entries.collect())
        });
        FromGit { logs: logs.collect(), refs }
    }
}

fn entry(hash: HashKind, line: &BStr) -> LogEntry {
    let mut fields = line.splitn_str(2, "\t");
    let ids: Vec<_> = fields.next().unwrap().split_str(" ").take(2).map(|hex| ObjectId::from_hex(hash, hex)).collect();
    LogEntry {
        old: ids[0].unwrap(),
        new: ids[1].unwrap(),
        committer: Ident { name: "".into(), email: "".into(), time_seconds: 0, offset_decimal: 0 },
        message: fields.next().unwrap_or_default().into(),
    }
}

impl Snapshot for &FromGit {
    fn get(&self, name: &BStr) -> Result<Option<Target>> {
        Ok(self.refs.get(name).cloned())
    }

    fn probe(&self, _: &mut dyn Iterator<Item = Probe<'_>>, _: &mut dyn Answers) -> Result<()> {
        unreachable!("names are looked up one by one")
    }

    fn cursor(&self, _: bool) -> Result<Box<dyn Cursor + '_>> {
        unreachable!("no name makes all refs be listed")
    }

    fn pointing_at(&self, _: &ObjectId, _: &mut dyn FnMut(RefView<'_>) -> Result<()>) -> Result<()> {
        unreachable!("no name asks for it")
    }

    fn has_log(&self, name: &BStr) -> Result<bool> {
        Ok(self.logs.get(name).is_some_and(|log| !log.is_empty()))
    }

    fn log(&self, name: &BStr, entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>) -> Result<bool> {
        let Some(log) = self.logs.get(name).filter(|log| !log.is_empty()) else { return Ok(false) };
        let _ = log.iter().try_for_each(entry);
        Ok(true)
    }

    fn log_names(&self) -> Result<Vec<RefName>> {
        unreachable!("no name asks for it")
    }

    fn log_names_elsewhere(&self, _: Option<&BStr>) -> Result<Vec<RefName>> {
        unreachable!("no name asks for it")
    }
}

#[test]
fn names_lead_where_git_says() {
    for hash in HASHES {
        let repo = Repo::with_worktree(RefFormat::Files, hash);
        let commits = repo.commits(30);
        let merge = literally(
            &repo,
            "commit",
            &format!(
                "tree {}\nparent {}\nparent {}\nauthor a <b> 1 +0000\ncommitter a <b> 1 +0000\n\nx\n",
                repo.rev_parse(&format!("{}^{{tree}}", commits[0])),
                commits[20],
                commits[10]
            ),
        );
        let (file, folder) = (repo.blob("file"), repo.blob("other"));
        let tree =
            |entries: String| ObjectId::from_hex(hash, repo.git_with_input(["mktree"], entries).as_bytes()).unwrap();
        let below = tree(format!("100644 blob {folder}\tdeep\n"));
        let top = tree(format!("100644 blob {file}\ta\n040000 tree {below}\tdir\n"));
        let with_files =
            literally(&repo, "commit", &format!("tree {top}\nauthor a <b> 1 +0000\ncommitter a <b> 1 +0000\n\nx\n"));
        let annotated = repo.tag_object(commits[5], "v1");
        let outer = repo.tag_object(annotated, "v2");
        for (name, id) in [
            ("refs/heads/main", commits[1]),
            ("refs/heads/main", commits[2]),
            ("refs/heads/main", merge),
            ("refs/heads/side", commits[4]),
            ("refs/tags/v1", annotated),
            ("refs/tags/outer", outer),
            ("refs/tags/both", commits[6]),
            ("refs/heads/both", commits[7]),
            ("refs/remotes/origin/main", commits[8]),
            ("refs/heads/abcd", commits[9]),
            ("refs/tags/blob", repo.blob("x")),
            ("ORIG_HEAD", commits[3]),
            ("refs/heads/files", with_files),
        ] {
            repo.git(["update-ref", "-m", "made", name, &id.to_string()]);
        }
        repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
        repo.git(["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
        repo.git(["checkout", "-q", "-f", "side"]);
        repo.git(["checkout", "-q", "-f", "v1"]);
        repo.git(["checkout", "-q", "-f", "main"]);
        let (refs, objects) = (FromGit::new(&repo), objects(&repo));
        let short = |id: ObjectId, len: usize| id.to_string()[..len].to_owned();
        let mut texts: Vec<String> = [
            "main",
            "HEAD",
            "@",
            "heads/main",
            "refs/heads/main",
            "both",
            "tags/both",
            "heads/both",
            "origin",
            "origin/main",
            "abcd",
            "ORIG_HEAD",
            "v1",
            "v1^0",
            "v1^{}",
            "v1^{commit}",
            "v1^{tag}",
            "v1^{tree}",
            "v1^{blob}",
            "v1^{object}",
            "outer^{tag}",
            "outer^{}",
            "outer~2",
            "blob",
            "blob^{blob}",
            "blob^{commit}",
            "blob^0",
            "main^",
            "main^1",
            "main^2",
            "main^3",
            "main^0",
            "main~0",
            "main~1",
            "main~3",
            "main~300",
            "main^2~2^",
            "main^^^",
            "main^{commit}~1",
            "main~",
            "main@{0}",
            "main@{1}",
            "main@{2}",
            "@{0}",
            "@{1}",
            "HEAD@{1}",
            "HEAD@{2}",
            "side@{0}",
            "main@{1}^",
            "v1@{0}",
            "main@{1}~1^{tree}",
            "@{-1}",
            "@{-2}",
            "@{-3}",
            "@{-4}",
            "@{-1}~1",
            "nope",
            "",
            "^",
            "~",
            "main^x",
            "main^{nope}",
            "main^{",
            "main@{",
            "main}",
            "dangling",
            "nope@{0}",
            "main..side",
            "-1",
            "refs/heads",
            "heads",
            "m in",
            "@^",
            "@~2",
            "abc",
            "x-gabcd",
            "0000000000",
            "main^-1",
            "main@{-1}",
            "files:",
            "files:a",
            "files:dir",
            "files:dir/",
            "files:dir/deep",
            "files:a/b",
            "files:a/",
            "files:/a",
            "files:dir//deep",
            "files:dir/deep/",
            "files:nope",
            "files^0:a",
            "files@{0}:a",
            "files^{tree}:dir/deep",
            "files:dir:deep",
            "blob:a",
            "nope:a",
            "@{}",
        ]
        .map(str::to_owned)
        .into();
        for len in [4, 7, 12, hash.len_hex() - 1, hash.len_hex()] {
            texts.extend([commits[0], merge, annotated].map(|id| short(id, len)));
        }
        texts.push(commits[0].to_string().to_uppercase());
        texts.push(short(commits[0], 10).to_uppercase());
        texts.push(format!("{}^", short(merge, 10)));
        texts.push(format!("{}^{{tree}}", short(annotated, 10)));
        texts.push(format!("v1-3-g{}", short(commits[0], 9)));
        texts.push(format!("{}~1", commits[3]));
        texts.push(missing(hash).to_string());
        for text in texts {
            let mut warnings = Vec::new();
            let ours = resolve_name(&|| Ok(Box::new(&refs)), &objects, text.as_str().into(), false, &mut |text| {
                warnings.push(text)
            });
            // `rev-parse --verify` takes exactly one object name, as update-ref does.
            let git = repo.try_git(["rev-parse", "--verify", "--end-of-options", &text], "");
            let warned = git.stderr.lines().filter_map(|line| line.strip_prefix(b"warning: refname"));
            let warned: Vec<_> = warned.map(|rest| format!("refname{}", rest.as_bstr())).collect();
            assert_eq!(warnings, warned, "{text:?}");
            let git = git.status.success().then(|| String::from_utf8(git.stdout).unwrap().trim_end().to_owned());
            assert_eq!(ours.as_ref().ok().map(ToString::to_string), git, "{text:?}: {ours:?}");
        }
        let too_far = resolve_name(&|| Ok(Box::new(&refs)), &objects, "main@{9}".into(), false, &mut drop).unwrap_err();
        assert_eq!(too_far.to_string(), "log for 'main' only has 3 entries");
        assert!(repo.try_git(["rev-parse", "main@{9}"], "").stderr.contains_str(too_far.to_string()));
        // Git takes so great a number for a time, which is not understood.
        for (text, is_time) in [("main@{99999999}", false), ("main@{100000000}", true), ("@{1700000000}", true)] {
            let found = resolve_name(&|| Ok(Box::new(&refs)), &objects, text.into(), false, &mut drop);
            assert_eq!(matches!(found, Err(NameError::NotFound(_))), is_time, "{text}: {found:?}");
            let git = repo.try_git(["rev-parse", "--verify", text], "").stderr;
            assert_eq!(git.contains_str("only has 3 entries"), !is_time, "{text}");
        }
        // If HEAD leads to a ref that is no branch, messages about `@` call it HEAD.
        repo.git(["symbolic-ref", "refs/heads/on", "refs/remotes/o/main"]);
        repo.git(["update-ref", "--create-reflog", "refs/remotes/o/main", &commits[0].to_string()]);
        repo.git(["symbolic-ref", "HEAD", "refs/heads/on"]);
        let refs = FromGit::new(&repo);
        let too_far = resolve_name(&|| Ok(Box::new(&refs)), &objects, "@{9}".into(), false, &mut drop).unwrap_err();
        assert_eq!(too_far.to_string(), "log for 'HEAD' only has 1 entries");
        assert!(repo.try_git(["rev-parse", "@{9}"], "").stderr.contains_str(too_far.to_string()));
    }
}

#[test]
fn ambiguous_digits_are_an_error_unless_the_kind_decides() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    // Creates so many objects that some of them share their first four digits.
    let mut ids: Vec<_> = repo.commits(2000);
    ids.extend((0..150).map(|number| repo.blob(&number.to_string())));
    let mut by_digits: BTreeMap<String, Vec<ObjectId>> = BTreeMap::new();
    for id in ids {
        by_digits.entry(id.to_string()[..4].to_owned()).or_default().push(id);
    }
    let objects = objects(&repo);
    let refs = FromGit::new(&repo);
    let resolve = |text: &str| resolve_name(&|| Ok(Box::new(&refs)), &objects, text.into(), false, &mut drop);
    let mut ambiguous = 0;
    for (digits, ids) in by_digits.iter().filter(|(_, ids)| ids.len() > 1) {
        match resolve(digits) {
            Err(NameError::Ambiguous { candidates, .. }) => assert_eq!(candidates.len(), ids.len()),
            other => panic!("{digits}: {other:?}"),
        }
        let suffixed = format!("{digits}^{{commit}}");
        let git = repo.try_git(["rev-parse", "--verify", "-q", &suffixed], "");
        assert_eq!(resolve(&suffixed).is_ok(), git.status.success(), "{suffixed}");
        ambiguous += 1;
    }
    assert!(ambiguous > 0, "the objects share no four digits: take more of them");
}

#[test]
fn a_name_with_very_many_suffixes_is_resolved() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    repo.create_refs([("refs/heads/main", id)]);
    let (objects, refs) = (objects(&repo), FromGit::new(&repo));
    let resolve = |text: &str| resolve_name(&|| Ok(Box::new(&refs)), &objects, text.into(), false, &mut drop);
    assert_eq!(resolve(&format!("main{}", "^0".repeat(100_000))).unwrap(), id);
    assert_eq!(resolve(&format!("main{}", "^{commit}".repeat(100_000))).unwrap(), id);
    assert!(matches!(resolve(&format!("main{}", "^".repeat(100_000))), Err(NameError::NotFound(_))));
}

/// Previously, the warning was missing for refs in tables.
#[test]
fn a_symbolic_ref_in_a_table_to_an_impossible_name_is_warned_of_as_by_git() {
    let repo = Repo::bare(RefFormat::Reftable, HashKind::Sha1);
    let options = StackOptions::new(reftable::WriteOptions::new(repo.hash()));
    let stack = Stack::open(Fs::real(), &repo.git_dir().join("reftable"), options).unwrap();
    let mut addition = stack.lock(LockTimeout::None).unwrap();
    let (update_index, value) = (addition.next_update_index(), reftable::RefValue::Symbolic("../x".into()));
    let link = reftable::RefRecord { name: "refs/heads/link".into(), update_index, value };
    addition.add_table::<StackError>(update_index..=update_index, 0, |writer| writer.add_ref(&link)).unwrap();
    drop(addition.commit().unwrap());
    let (store, mut said) = (Store::open(repo.git_dir()).unwrap(), Vec::new());
    let mut keep = |text| said.push(format!("warning: {text}\n"));
    resolve_name(&|| store.snapshot(), &objects(&repo), "link".into(), false, &mut keep).unwrap_err();
    let git = repo.try_git(["rev-parse", "--verify", "link"], "").stderr;
    assert!(said.len() == 1 && git.starts_with(said[0].as_bytes()), "{said:?} {}", git.as_bstr());
}
