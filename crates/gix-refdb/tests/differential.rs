//! Applies random edits to gix-ref's own file store and to this crate. The results and the refs must be the same, and
//! so must the refs that real git sees; of two edits that fail together, the errors may differ.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

use gix_hash::ObjectId;
use gix_ref::{
    FullName, Reference, Target,
    file::transaction::prepare::{MustNotExist, ReferenceOutOfDate},
    transaction::{LogChange, PreviousValue, RefEdit, RefLog},
};
use gix_refdb::{Error, ReferenceExt, Store};
use refdb_testkit::{RefFormat, Repo, Rng};

// Some edits are left out on purpose. gix-ref accepts edits with missing objects, or with `a` beside `a/b`, which
// refdb refuses as git does. When a branch moves, git continues the reflog of HEAD, and gix-ref does not. HEAD beside
// other edits is left out. So are deletions through a symbolic ref that expect a value, because gix-ref refuses all of
// them.
const DIRECT: [&str; 7] = [
    "refs/heads/a",
    "refs/heads/c/d",
    "refs/heads/main",
    "refs/notes/n",
    "refs/remotes/o/x",
    "refs/tags/t",
    "refs/tags/u",
];
const SYMBOLIC: [&str; 3] = ["HEAD", "refs/heads/link", "refs/remotes/o/HEAD"];
const TARGETS: [&str; 3] = ["refs/heads/a", "refs/heads/main", "refs/heads/missing"];
const PARTIAL: [&str; 10] = ["a", "main", "t", "o", "o/x", "HEAD", "heads/a", "nope", "refs/heads/c/d", "notes/n"];

/// The outcome of an edit: the edits that were made, or the reason of the failure, which is `Other` if one of the
/// crates has no type for it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Made(Vec<RefEdit>),
    OutOfDate(String, Target),
    MustNotExist(String, Target),
    NotFound,
    Other,
}

struct Sides {
    gix_repo: Repo,
    gix: gix_ref::file::Store,
    our_repo: Repo,
    ours: Store,
    objects: gix_odb::Handle,
    ids: Vec<ObjectId>,
    tag: ObjectId,
}

impl Sides {
    fn new(format: RefFormat, hash: refdb::HashKind) -> Self {
        let (gix_repo, our_repo) = (Repo::with_worktree(RefFormat::Files, hash), Repo::with_worktree(format, hash));
        let [theirs, ours] = [&gix_repo, &our_repo].map(|repo| {
            let commits = repo.commits(4);
            (repo.tag_object(commits[1], "t"), commits)
        });
        assert_eq!(theirs, ours, "both have the same objects");
        let kind = if hash == refdb::HashKind::Sha1 { gix_hash::Kind::Sha1 } else { gix_hash::Kind::Sha256 };
        let id = |id: &refdb::ObjectId| ObjectId::from_bytes_or_panic(id.as_bytes());
        Sides {
            gix: gix_ref::file::Store::at(gix_repo.git_dir().to_owned(), kind),
            ours: Store::at(our_repo.git_dir()).unwrap(),
            objects: gix_odb::at(our_repo.git_dir().join("objects"), kind).unwrap(),
            ids: ours.1.iter().map(id).collect(),
            tag: id(&ours.0),
            gix_repo,
            our_repo,
        }
    }

    fn edit(&self, rng: &mut Rng, names: &[&str]) -> RefEdit {
        let name = *rng.pick(names);
        let full: FullName = name.try_into().unwrap();
        let is_symbolic = SYMBOLIC.contains(&name);
        let deref = rng.one_in(2);
        let expected = match rng.below(8) {
            0..3 => PreviousValue::Any,
            3 => PreviousValue::MustExist,
            4 => PreviousValue::MustNotExist,
            5 => PreviousValue::ExistingMustMatch(self.value(rng, name, !deref && is_symbolic)),
            _ => match self.gix.try_find(full.as_ref()).unwrap() {
                Some(now) => PreviousValue::MustExistAndMatch(now.target),
                None => PreviousValue::MustExistAndMatch(self.value(rng, name, false)),
            },
        };
        // Git does not recognise a repository without HEAD.
        let head = || self.gix.try_find("HEAD").unwrap().is_some_and(|head| head.target.try_name().is_some());
        let may_go = name != "HEAD" || deref && head();
        if rng.one_in(4) && expected != PreviousValue::MustNotExist && may_go {
            let is_value =
                matches!(expected, PreviousValue::MustExistAndMatch(_) | PreviousValue::ExistingMustMatch(_));
            let expected = if is_symbolic && deref && is_value { PreviousValue::Any } else { expected };
            return RefEdit::delete(full, expected).with_deref(deref);
        }
        let becomes_symbolic = !deref && is_symbolic && rng.one_in(2);
        let new = self.value(rng, name, becomes_symbolic);
        let force_create_reflog = rng.one_in(3);
        let log = LogChange { mode: RefLog::AndReference, force_create_reflog, message: "why".into() };
        RefEdit::update_with_log(full, new, expected, log).with_deref(deref)
    }

    fn value(&self, rng: &mut Rng, name: &str, symbolic: bool) -> Target {
        if symbolic {
            return Target::Symbolic((*rng.pick(&TARGETS)).try_into().unwrap());
        }
        let may_be_tag = name.starts_with("refs/tags/");
        Target::Object(if may_be_tag && rng.one_in(2) { self.tag } else { *rng.pick(&self.ids) })
    }

    fn apply(&self, edits: &[RefEdit]) -> [Outcome; 2] {
        let committer =
            gix_actor::SignatureRef { name: "A".into(), email: "a@example.com".into(), time: "1700000000 +0130" };
        let fail = gix_lock::acquire::Fail::Immediately;
        let prepared = self.gix.transaction().prepare(edits.iter().cloned(), fail, fail);
        let theirs = match prepared.and_then(|prepared| prepared.commit(committer)) {
            Ok(edits) => Outcome::Made(edits),
            Err(error) => {
                if let Some(found) = error.downcast_any_ref::<ReferenceOutOfDate>() {
                    Outcome::OutOfDate(found.full_name.to_string(), found.actual.clone())
                } else if let Some(found) = error.downcast_any_ref::<MustNotExist>() {
                    Outcome::MustNotExist(found.full_name.to_string(), found.actual.clone())
                } else if error.is_not_found() {
                    Outcome::NotFound
                } else {
                    Outcome::Other
                }
            }
        };
        let ours = match self.ours.edit_references(edits.iter().cloned(), committer) {
            Ok(edits) => Outcome::Made(edits),
            Err(Error::OutOfDate(found)) => Outcome::OutOfDate(found.full_name.to_string(), found.actual),
            Err(Error::MustNotExist(found)) => Outcome::MustNotExist(found.full_name.to_string(), found.actual),
            Err(Error::NotFound(_)) => Outcome::NotFound,
            Err(_) => Outcome::Other,
        };
        [theirs, ours]
    }

    fn compare_refs(&self, context: &str) {
        let listed = |reference: Reference| (reference.name, reference.target);
        let theirs = self.gix.iter().unwrap();
        let theirs: Vec<_> = theirs.all().unwrap().map(|found| listed(found.unwrap())).collect();
        let ours: Vec<_> = self.ours.iter().unwrap().all().unwrap().map(|found| listed(found.unwrap())).collect();
        assert_eq!(theirs, ours, "{context}");
        for partial in PARTIAL {
            // gix-ref does not look for refs/remotes/o/HEAD in packed-refs; git does.
            let head = self.gix.try_find("refs/remotes/o/HEAD").unwrap();
            if partial == "o" && head.is_some_and(|head| head.target.try_id().is_some()) {
                continue;
            }
            let theirs = self.gix.try_find(partial).unwrap().map(listed);
            assert_eq!(theirs, self.ours.try_find(partial).unwrap().map(listed), "{context}: {partial}");
        }
        for name in DIRECT.iter().chain(&SYMBOLIC) {
            let Some(mut theirs) = self.gix.try_find(*name).unwrap() else { continue };
            let mut ours = self.ours.find(*name).unwrap();
            let left = gix_ref::file::ReferenceExt::peel_to_id(&mut theirs, &self.gix, &self.objects);
            let right = ReferenceExt::peel_to_id(&mut ours, &self.ours, &self.objects);
            assert_eq!(left.ok(), right.ok(), "{context}: {name}");
            assert_eq!(theirs, ours, "{context}: {name}");
        }
    }

    fn compare_in_git(&self, context: &str) {
        assert_eq!(self.gix_repo.refs(), self.our_repo.refs(), "{context}");
        for name in DIRECT {
            assert_eq!(self.gix_repo.reflog(name), self.our_repo.reflog(name), "{context}: {name}");
        }
    }
}

fn run(format: RefFormat, hash: refdb::HashKind, seed: u64, rounds: usize) {
    let (sides, mut rng) = (Sides::new(format, hash), Rng::new(seed));
    let (mut made, mut rejected) = (0, 0);
    for round in 0..rounds {
        let mut names: Vec<&str> = DIRECT.iter().chain(&SYMBOLIC).copied().collect();
        let first = sides.edit(&mut rng, &names);
        let mut edits = vec![first];
        if edits[0].name != "HEAD" && rng.one_in(3) {
            names.retain(|name| *name != "HEAD" && edits[0].name != *name);
            edits.push(sides.edit(&mut rng, &names));
        }
        let context = format!("{format:?}, seed {seed}, round {round}: {edits:?}");
        let [theirs, ours] = sides.apply(&edits);
        if edits.len() == 1 || matches!(theirs, Outcome::Made(_)) {
            assert_eq!(theirs, ours, "{context}");
        } else {
            assert!(!matches!(ours, Outcome::Made(_)), "{context}: {theirs:?} {ours:?}");
        }
        *if matches!(ours, Outcome::Made(_)) { &mut made } else { &mut rejected } += 1;
        sides.compare_refs(&context);
        if round % 20 == 19 {
            sides.compare_in_git(&context);
            for repo in [&sides.gix_repo, &sides.our_repo] {
                repo.git(["pack-refs", "--all"]);
            }
        }
    }
    sides.compare_in_git("at the end");
    sides.our_repo.verify();
    assert!(made > rounds / 3 && rejected > rounds / 10, "{made} were made, {rejected} were not");
}

#[test]
fn files_are_edited_as_by_gix_ref() {
    for seed in 0..3 {
        run(RefFormat::Files, refdb::HashKind::Sha1, seed, 200);
    }
}

#[test]
fn reftables_are_edited_as_files_by_gix_ref() {
    for seed in 10..13 {
        run(RefFormat::Reftable, refdb::HashKind::Sha1, seed, 200);
    }
}

#[test]
fn sha256_makes_no_difference() {
    run(RefFormat::Files, refdb::HashKind::Sha256, 20, 60);
    run(RefFormat::Reftable, refdb::HashKind::Sha256, 21, 60);
}
