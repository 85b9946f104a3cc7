//! Random changes by a view, by another view and by git, with packing in between. After each change the first view
//! shows the same refs as git, and at the end a verification finds both views right.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use bstr::BString;
use common::{delete, each, listed, open, set};
use refdb::{Precondition, Target, backend::OptimizeOptions};
use refdb_refcache::{Batch, ListOptions, View};
use refdb_testkit::{Repo, Rng};
use refdb_types::ObjectId;

const STEPS: usize = 70;

#[test]
fn a_view_says_what_git_says_also_where_others_write() {
    each(|repo| {
        let ids = repo.commits(5);
        let mut rng = Rng::new(17);
        let (ours, theirs) = (open(repo), open(repo));
        for step in 0..STEPS {
            let name = name(&mut rng);
            let id = *rng.pick(&ids);
            match rng.below(8) {
                0 | 1 => by_view(&ours, &mut rng, &name, id),
                2 => by_view(&theirs, &mut rng, &name, id),
                3 | 4 => drop(repo.try_git(["update-ref", &name, &id.to_string()], "")),
                5 => drop(repo.try_git(["update-ref", "-d", &name], "")),
                6 => drop(repo.git(["pack-refs", "--all"])),
                _ => {
                    let all = OptimizeOptions::new().all(true);
                    theirs.optimize(&all).unwrap();
                }
            }
            compare(repo, &ours, &name, step);
        }
        for view in [&ours, &theirs] {
            let report = view.verify().unwrap();
            assert_eq!(report.differences, []);
        }
        repo.verify();
    });
}

fn by_view(view: &View, rng: &mut Rng, name: &str, id: ObjectId) {
    let edit = if rng.one_in(3) { delete(name) } else { set(name, id, Precondition::Any) };
    // A name that conflicts with another one is refused, by git as well.
    let _ = view.commit(&Batch::atomic(vec![edit]));
}

/// Returns one of few names, some of which are folders of others.
fn name(rng: &mut Rng) -> String {
    let folder = rng.pick(&["refs/heads", "refs/tags", "refs/heads/a", "refs/changes/01/1"]);
    format!("{folder}/{}", rng.pick(&["a", "b", "c", "meta"]))
}

fn compare(repo: &Repo, view: &View, name: &str, step: usize) {
    let git: Vec<(BString, Target)> =
        repo.refs().into_iter().map(|listed| (listed.name, Target::Direct(listed.oid))).collect();
    let ours = listed(view, &ListOptions::default());
    assert_eq!(ours, git, "{:?}, step {step}", repo.format());
    let one = git.iter().find(|(listed, _)| listed == name).map(|(_, target)| target.clone());
    assert_eq!(view.get(name.into()).unwrap().map(|found| found.target), one, "{:?}, step {step}", repo.format());
    // The names are out of order, one is asked for twice, and some have no ref.
    let mut names: Vec<&str> = git.iter().rev().map(|(name, _)| std::str::from_utf8(name).unwrap()).collect();
    names.extend([name, "refs/heads", "refs/heads/a/../b", "HEAD", "refs/tags/zz", name]);
    let names: Vec<&bstr::BStr> = names.into_iter().map(Into::into).collect();
    let many = view.get_many(&names).unwrap();
    for (name, found) in names.iter().zip(many) {
        assert_eq!(found, view.get(name).unwrap(), "{:?}, step {step}, {name}", repo.format());
    }
    if let Some((_, Target::Direct(id))) = git.first() {
        let pointing: Vec<_> =
            git.iter().filter(|(_, target)| target.id() == Some(*id)).map(|(name, _)| name).collect();
        assert_eq!(view.pointing_at(id).unwrap().iter().collect::<Vec<_>>(), pointing);
    }
}

#[test]
fn a_verification_finds_what_a_view_was_told_to_believe_and_is_not_so() {
    each(|repo| {
        let ids = repo.commits(2);
        repo.git(["update-ref", "refs/heads/main", &ids[0].to_string()]);
        let view = common::believing(repo);
        assert_eq!(common::direct(&view, "refs/heads/main"), Some(ids[0]));
        assert_eq!(view.verify().unwrap().differences, []);
        repo.git(["update-ref", "refs/heads/main", &ids[1].to_string()]);
        let report = view.verify().unwrap();
        assert_eq!(report.differences.len(), 1, "{report:?}");
        let difference = &report.differences[0];
        assert_eq!(difference.view, Some(Target::Direct(ids[0])));
        assert_eq!(difference.disk, Some(Target::Direct(ids[1])));
        assert_eq!((view.stats().stale, view.stats().verifications), (1, 2));
        view.invalidate();
        assert_eq!(view.verify().unwrap().differences, []);
    });
}
