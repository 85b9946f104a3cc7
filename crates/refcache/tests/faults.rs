//! Faults that caches of refs are known to have. Each test fails on a cache that has the fault. The numbers in the
//! names of tests only tell the faults apart.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use bstr::{BStr, BString};
use common::{believing, commit, delete, direct, each, edit, listed, names, open, prefixed, set, unsynced};
use refdb::{
    Change, Precondition, RefName, RejectionClass, Target,
    backend::{OptimizeOptions, Peeled},
};
use refdb_refcache::{Batch, ListOptions, Storage, TrustSettings, View, ViewSettings, Views, ViewsSettings};
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;
use std::{
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::Arc,
    time::Duration,
};

fn with_roots() -> ListOptions {
    ListOptions::new().root_refs(true)
}

#[test]
fn fault_01_head_follows_the_branch_it_names() {
    each(|repo| {
        let ids = repo.commits(2);
        let view = believing(repo);
        commit(&view, vec![set("refs/heads/main", ids[0], Precondition::Any)]);
        assert_eq!(view.resolve("HEAD".into()).unwrap().found.unwrap().target, Target::Direct(ids[0]));
        commit(&view, vec![set("refs/heads/main", ids[1], Precondition::Any)]);
        assert_eq!(view.resolve("HEAD".into()).unwrap().found.unwrap().target, Target::Direct(ids[1]));
        let head = Target::Symbolic(RefName::new("refs/heads/main").unwrap());
        let all = listed(&view, &with_roots());
        assert_eq!(all, [("HEAD".into(), head), ("refs/heads/main".into(), Target::Direct(ids[1]))]);
    });
}

#[test]
fn fault_02_an_update_through_head_is_seen_under_the_branchs_name() {
    each(|repo| {
        let ids = repo.commits(2);
        let view = believing(repo);
        commit(&view, vec![set("refs/heads/main", ids[0], Precondition::Any)]);
        assert_eq!(direct(&view, "refs/heads/main"), Some(ids[0]));
        commit(&view, vec![set("HEAD", ids[1], Precondition::MustMatch(Target::Direct(ids[0])))]);
        assert_eq!(direct(&view, "refs/heads/main"), Some(ids[1]));
        assert_eq!(direct(&view, "HEAD"), None, "it stays symbolic");
    });
}

#[test]
fn fault_03_an_unborn_head_is_a_link_to_nothing() {
    each(|repo| {
        let head = open(repo).resolve("HEAD".into()).unwrap();
        assert_eq!((head.links.len(), head.name, head.found), (1, "refs/heads/main".into(), None));
    });
}

#[test]
fn fault_04_pseudo_refs_are_found_while_they_exist() {
    each(|repo| {
        let ids = repo.commits(2);
        let view = open(repo);
        for name in ["ORIG_HEAD", "FETCH_HEAD"] {
            assert_eq!(direct(&view, name), None);
        }
        repo.git(["update-ref", "ORIG_HEAD", &ids[0].to_string()]);
        let line = format!("{}\t\tbranch 'main' of elsewhere\n", ids[1]);
        std::fs::write(repo.git_dir().join("FETCH_HEAD"), line).unwrap();
        assert_eq!(direct(&view, "ORIG_HEAD"), Some(ids[0]));
        assert_eq!(direct(&view, "FETCH_HEAD"), Some(ids[1]));
        repo.git(["update-ref", "-d", "ORIG_HEAD"]);
        std::fs::remove_file(repo.git_dir().join("FETCH_HEAD")).unwrap();
        for name in ["ORIG_HEAD", "FETCH_HEAD"] {
            assert_eq!(direct(&view, name), None);
        }
    });
}

#[test]
fn fault_05_other_writers_are_seen_at_once() {
    each(|repo| {
        let ids = repo.commits(4);
        let view = open(repo);
        for id in &ids {
            repo.git(["update-ref", "refs/heads/main", &id.to_string()]);
            assert_eq!(direct(&view, "refs/heads/main"), Some(*id));
            repo.git(["pack-refs", "--all"]);
            assert_eq!(direct(&view, "refs/heads/main"), Some(*id));
            assert_eq!(view.pointing_at(id).unwrap(), ["refs/heads/main"]);
        }
        repo.git(["update-ref", "-d", "refs/heads/main"]);
        assert_eq!(direct(&view, "refs/heads/main"), None);
    });
}

#[test]
fn fault_06_a_failed_compare_and_set_refreshes_the_ref() {
    each(|repo| {
        let ids = repo.commits(3);
        repo.git(["update-ref", "refs/heads/main", &ids[0].to_string()]);
        let view = believing(repo);
        assert_eq!(direct(&view, "refs/heads/main"), Some(ids[0]));
        repo.git(["update-ref", "refs/heads/main", &ids[1].to_string()]);
        assert_eq!(direct(&view, "refs/heads/main"), Some(ids[0]), "this view believes for an hour");
        let stale = set("refs/heads/main", ids[2], Precondition::MustMatch(Target::Direct(ids[0])));
        let error = view.commit(&Batch::atomic(vec![stale])).unwrap_err();
        let Some(refdb::Error::Rejected(rejection)) = error.store() else { panic!("{error}") };
        assert_eq!(rejection.class(), RejectionClass::IncorrectOldValue);
        let now = direct(&view, "refs/heads/main").unwrap();
        assert_eq!(now, ids[1], "a second attempt would fail for ever");
        commit(&view, vec![set("refs/heads/main", ids[2], Precondition::MustMatch(Target::Direct(now)))]);
    });
}

#[test]
fn fault_07_a_slow_writer_does_not_put_its_older_value_over_a_newer_one() {
    each(|repo| {
        let ids = repo.commits(3);
        let (ours, theirs) = (believing(repo), believing(repo));
        for _ in 0..20 {
            commit(&ours, vec![set("refs/heads/main", ids[1], Precondition::Any)]);
            commit(&theirs, vec![set("refs/heads/main", ids[2], Precondition::Any)]);
            // The value that the first writer has committed is not the present one. The first writer keeps nothing of a
            // commit but that refs have changed, so it reads the present value from the disk.
            assert_eq!(direct(&ours, "refs/heads/main"), Some(ids[2]));
        }
    });
}

#[test]
fn fault_08_a_ref_that_is_deleted_right_after_a_commit_is_missing_and_no_failure() {
    each(|repo| {
        let id = repo.commit();
        let (view, other) = (open(repo), open(repo));
        for _ in 0..10 {
            commit(&view, vec![set("refs/heads/a", id, Precondition::Any)]);
            commit(&other, vec![delete("refs/heads/a")]);
            assert_eq!(direct(&view, "refs/heads/a"), None);
            assert_eq!(names(&view, &ListOptions::default()), Vec::<String>::new());
        }
    });
}

#[test]
fn fault_09_the_six_prefixes_of_a_fetch_find_the_branch() {
    each(|repo| {
        let id = repo.commit();
        repo.git(["update-ref", "refs/heads/main", &id.to_string()]);
        let six = prefixed(&[
            "main",
            "refs/main",
            "refs/tags/main",
            "refs/heads/main",
            "refs/remotes/main",
            "refs/remotes/main/HEAD",
        ]);
        assert_eq!(names(&open(repo), &six), ["refs/heads/main"]);
    });
}

#[test]
fn fault_10_all_questions_give_the_same_answer() {
    each(|repo| {
        let ids = repo.commits(2);
        let name = BStr::new("refs/heads/main");
        repo.git(["update-ref", "refs/heads/main", &ids[0].to_string()]);
        for view in [open(repo), believing(repo)] {
            assert_eq!(direct(&view, "refs/heads/main"), Some(ids[0]));
        }
        let view = open(repo);
        repo.git(["update-ref", "refs/heads/main", &ids[1].to_string()]);
        let expected = Target::Direct(ids[1]);
        assert_eq!(view.get(name).unwrap().unwrap().target, expected);
        assert_eq!(view.get_many(&[name, name]).unwrap()[1].as_ref().unwrap().target, expected);
        assert_eq!(view.resolve("HEAD".into()).unwrap().found.unwrap().target, expected);
        assert_eq!(listed(&view, &ListOptions::default()), [("refs/heads/main".into(), expected)]);
        assert_eq!(view.pointing_at(&ids[1]).unwrap(), ["refs/heads/main"]);
        assert!(view.pointing_at(&ids[0]).unwrap().is_empty());
    });
}

#[test]
fn fault_11_packing_refs_packs_them() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let view = open(&repo);
    commit(&view, vec![set("refs/heads/main", id, Precondition::Any)]);
    assert_eq!(view.get("refs/heads/main".into()).unwrap().unwrap().storage, Storage::Loose);
    let all = OptimizeOptions::new().all(true);
    view.optimize(&all).unwrap();
    assert!(!repo.git_dir().join("refs/heads/main").exists());
    assert_eq!(view.get("refs/heads/main".into()).unwrap().unwrap().storage, Storage::Packed);
}

#[test]
fn fault_12_head_is_right_after_its_branch_is_renamed() {
    each(|repo| {
        let id = repo.commit();
        let view = believing(repo);
        commit(&view, vec![set("refs/heads/main", id, Precondition::Any)]);
        assert!(view.resolve("HEAD".into()).unwrap().found.is_some());
        let to = Change::Set(Target::Symbolic(RefName::new("refs/heads/other").unwrap()));
        let head = refdb::Edit { deref: false, ..edit("HEAD", to, Precondition::Any) };
        commit(&view, vec![set("refs/heads/other", id, Precondition::MustNotExist)]);
        commit(&view, vec![head]);
        commit(&view, vec![delete("refs/heads/main")]);
        let head = view.resolve("HEAD".into()).unwrap();
        assert_eq!((head.name, head.found.unwrap().target), ("refs/heads/other".into(), Target::Direct(id)));
    });
}

#[test]
fn fault_13_tags_are_found_by_the_object_they_lead_to() {
    each(|repo| {
        let ids = repo.commits(2);
        let tag = repo.tag_object(ids[0], "v1");
        let view = open(repo);
        commit(
            &view,
            vec![set("refs/tags/v1", tag, Precondition::Any), set("refs/heads/a", ids[0], Precondition::Any)],
        );
        repo.git(["pack-refs", "--all"]);
        assert_eq!(view.pointing_at(&ids[0]).unwrap(), ["refs/heads/a", "refs/tags/v1"]);
        assert_eq!(view.pointing_at(&tag).unwrap(), ["refs/tags/v1"]);
        assert_eq!(view.get("refs/tags/v1".into()).unwrap().unwrap().peeled, Peeled::To(ids[0]));
        // A newer value hides what the index of older files says.
        repo.git(["update-ref", "refs/heads/a", &ids[1].to_string()]);
        assert_eq!(view.pointing_at(&ids[0]).unwrap(), ["refs/tags/v1"]);
        assert_eq!(view.pointing_at(&ids[1]).unwrap(), ["refs/heads/a"]);
    });
}

#[test]
fn a_tag_whose_peeled_line_git_left_out_is_found_by_the_object_it_leads_to() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let tag = repo.tag_object(id, "v1");
    // Git 2.55 takes a file without a header for `fully-peeled`, and adds no peeled line.
    let packed = repo.git_dir().join("packed-refs");
    std::fs::write(&packed, format!("{tag} refs/tags/v1\n{id} refs/tags/v2\n")).unwrap();
    repo.git(["update-ref", "refs/heads/a", &id.to_string()]);
    repo.git(["pack-refs", "--all"]);
    let text = std::fs::read_to_string(&packed).unwrap();
    assert!(text.contains("fully-peeled") && !text.contains('^'), "git has learnt it: {text}");
    for view in [open(&repo), believing(&repo)] {
        assert_eq!(view.pointing_at(&id).unwrap(), ["refs/heads/a", "refs/tags/v1", "refs/tags/v2"]);
        assert_eq!(view.pointing_at(&tag).unwrap(), ["refs/tags/v1"]);
    }
}

#[test]
fn fault_15_a_listing_brings_no_deleted_ref_back() {
    each(|repo| {
        let id = repo.commit();
        let view = believing(repo);
        let all: Vec<_> = (0..300).map(|at| set(&format!("refs/heads/{at}"), id, Precondition::Any)).collect();
        commit(&view, all);
        let mut listing = view.list(&ListOptions::default()).unwrap();
        listing.next().unwrap();
        commit(&view, vec![delete("refs/heads/99")]);
        while listing.next().unwrap().is_some() {}
        assert_eq!(direct(&view, "refs/heads/99"), None);
        assert_eq!(names(&view, &prefixed(&["refs/heads/99"])), Vec::<String>::new());
    });
}

#[test]
fn fault_17_a_listing_that_is_open_freezes_nothing_for_others() {
    each(|repo| {
        let ids = repo.commits(2);
        repo.git(["update-ref", "refs/heads/main", &ids[0].to_string()]);
        repo.git(["pack-refs", "--all"]);
        let view = open(repo);
        let mut held = view.list(&ListOptions::default()).unwrap();
        repo.git(["update-ref", "refs/heads/main", &ids[1].to_string()]);
        repo.git(["pack-refs", "--all"]);
        let there = view.clone();
        let seen = std::thread::spawn(move || direct(&there, "refs/heads/main")).join().unwrap();
        assert_eq!(seen, Some(ids[1]));
        assert!(held.next().unwrap().is_some());
    });
}

#[test]
fn fault_18_what_happened_of_a_batch_is_seen_whatever_became_of_the_rest() {
    each(|repo| {
        let ids = repo.commits(2);
        let view = believing(repo);
        commit(&view, vec![set("refs/heads/a", ids[0], Precondition::Any)]);
        for name in ["refs/heads/a", "refs/heads/b"] {
            direct(&view, name);
        }
        let edits = vec![
            set("refs/heads/a", ids[1], Precondition::MustNotExist),
            set("refs/heads/b", ids[1], Precondition::MustNotExist),
        ];
        let outcome = view.commit(&Batch::per_edit(edits)).unwrap();
        assert_eq!(outcome.rejected.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0]);
        assert_eq!(direct(&view, "refs/heads/a"), Some(ids[0]));
        assert_eq!(direct(&view, "refs/heads/b"), Some(ids[1]));
    });
}

#[test]
fn fault_19_a_hint_makes_a_view_look_and_a_lost_or_wrong_one_does_no_harm() {
    each(|repo| {
        let ids = repo.commits(2);
        repo.git(["update-ref", "refs/heads/main", &ids[0].to_string()]);
        let (told, unreported, trusting) = (believing(repo), believing(repo), open(repo));
        for view in [&told, &unreported, &trusting] {
            assert_eq!(direct(view, "refs/heads/main"), Some(ids[0]));
            // This is too early to have an effect, because nothing has changed.
            view.invalidate();
            assert_eq!(direct(view, "refs/heads/main"), Some(ids[0]));
        }
        repo.git(["update-ref", "refs/heads/main", &ids[1].to_string()]);
        told.invalidate();
        told.invalidate();
        assert_eq!(direct(&told, "refs/heads/main"), Some(ids[1]));
        assert_eq!(direct(&trusting, "refs/heads/main"), Some(ids[1]), "nothing hangs on a hint");
        assert_eq!(direct(&unreported, "refs/heads/main"), Some(ids[0]), "as long as it was told to believe");
    });
}

/// Opens two views of a repository by different paths, one through a link in the folder. They believe what they have
/// seen for an hour.
fn by_two_paths(repo: &Repo, folder: &Path) -> [Arc<View>; 2] {
    let link = folder.join("link");
    symlink(repo.git_dir(), &link).unwrap();
    let trust = TrustSettings::new().believe(Some(Duration::from_secs(3600)));
    let views = Views::new(&ViewsSettings::default());
    [repo.git_dir(), &link].map(|path| views.open(path, &unsynced(trust)).unwrap())
}

/// Previously, only the view that had written looked at the disk after such an error.
#[test]
fn what_one_view_writes_before_it_fails_each_view_of_the_repository_sees_at_once() {
    each(|repo| {
        let ids = repo.commits(2);
        let temp = tempfile::tempdir().unwrap();
        let [writer, reader] = by_two_paths(repo, temp.path());
        commit(&writer, vec![set("refs/heads/x", ids[0], Precondition::Any)]);
        assert_eq!(direct(&reader, "refs/heads/x"), Some(ids[0]));
        // The hook cannot be run any more once the refs are changed.
        let hook = repo.git_dir().join("hooks/reference-transaction");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "#!/bin/sh\ntest \"$1\" != prepared || echo '#!/no/such/program' >\"$0\"\n").unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let batch = Batch::atomic(vec![set("refs/heads/x", ids[1], Precondition::Any)]);
        let error = writer.commit(&batch).unwrap_err();
        assert!(matches!(error.store(), Some(refdb::Error::Hook(_))), "{error}");
        assert_eq!(repo.rev_parse("refs/heads/x"), ids[1]);
        assert_eq!(direct(&reader, "refs/heads/x"), Some(ids[1]));
    });
}

#[test]
fn what_one_view_writes_each_view_of_the_repository_sees_at_once_whatever_it_believes() {
    each(|repo| {
        let ids = repo.commits(2);
        let temp = tempfile::tempdir().unwrap();
        let [writer, reader] = by_two_paths(repo, temp.path());
        assert!(!Arc::ptr_eq(&writer, &reader));
        for id in ids {
            commit(&writer, vec![set("refs/heads/x", id, Precondition::Any)]);
            assert_eq!(direct(&reader, "refs/heads/x"), Some(id));
            assert_eq!(direct(&writer, "refs/heads/x"), Some(id));
        }
        commit(&writer, vec![delete("refs/heads/x")]);
        assert_eq!(direct(&reader, "refs/heads/x"), None);
    });
}

#[test]
fn fault_20_neither_listings_nor_look_ups_keep_writers_waiting() {
    each(|repo| {
        let id = repo.commit();
        let view = open(repo);
        commit(&view, (0..50).map(|at| set(&format!("refs/heads/{at}"), id, Precondition::Any)).collect());
        let mut held = view.list(&ListOptions::default()).unwrap();
        held.next().unwrap();
        // In the same thread, so that this would fail or never end if the listing held a lock.
        commit(&view, vec![set("refs/heads/new", id, Precondition::MustNotExist)]);
        assert_eq!(direct(&view, "refs/heads/new"), Some(id));
        let mut left = 0;
        while held.next().unwrap().is_some() {
            left += 1;
        }
        assert_eq!(left, 49);
    });
}

#[test]
fn fault_21_names_of_any_length_are_names() {
    each(|repo| {
        let id = repo.commit();
        let view = open(repo);
        let long = format!("refs/heads/{}", "x".repeat(200));
        commit(&view, vec![set(&long, id, Precondition::Any)]);
        assert_eq!(direct(&view, &long), Some(id));
        for absurd in ["refs/heads/".to_owned() + &"y".repeat(300), "refs/".to_owned() + &"z/".repeat(4000) + "z"] {
            // A file system may say that the name is too long; it is no crash, and the view goes on.
            match view.get(BStr::new(&absurd)) {
                Ok(found) => assert_eq!(found, None),
                Err(error) => assert!(error.to_string().contains("too long"), "{error}"),
            }
            assert_eq!(names(&view, &prefixed(&[&absurd])), Vec::<String>::new());
        }
        for bad in ["", "/", "refs/../../x", "a\0b", "..", "refs//heads"] {
            assert_eq!(view.get(BStr::new(bad)).unwrap(), None, "{bad:?}");
        }
    });
}

#[test]
fn fault_22_and_23_neither_a_first_look_up_nor_a_write_reads_all_refs() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit();
    let mut packed = String::from("# pack-refs with: peeled fully-peeled sorted \n");
    for at in 0..100_000 {
        packed += &format!("{id} refs/changes/{:02}/{at:06}/meta\n", at % 100 / 100);
    }
    let len = packed.len() as u64;
    std::fs::write(repo.git_dir().join("packed-refs"), packed).unwrap();
    let view = open(&repo);
    assert_eq!(direct(&view, "refs/changes/00/077777/meta"), Some(id));
    let after_look_up = view.stats().bytes;
    assert!(after_look_up < len / 10, "{after_look_up} of {len} bytes");
    commit(&view, vec![set("refs/changes/00/100000/1", id, Precondition::MustNotExist)]);
    let after_write = view.stats().bytes;
    assert!(after_write < len / 5, "{after_write} of {len} bytes");
    assert_eq!(direct(&view, "refs/changes/00/100000/1"), Some(id));
}

#[test]
fn all_caches_of_a_process_keep_to_one_bound() {
    const BOUND: usize = 4 << 20;
    let repos: Vec<Repo> = (0..3).map(|_| Repo::bare(RefFormat::Files, HashKind::Sha1)).collect();
    let views = Views::new(&ViewsSettings::new().memory_bytes(BOUND));
    let id = repos[0].commit();
    let names: Vec<BString> = (0..60_000).map(|at| format!("refs/changes/{at:06}/meta").into()).collect();
    let packed: String = names.iter().map(|name| format!("{id} {name}\n")).collect();
    let packed = format!("# pack-refs with: peeled fully-peeled sorted \n{packed}");
    for repo in &repos {
        std::fs::write(repo.git_dir().join("packed-refs"), &packed).unwrap();
    }
    for round in 0..2 {
        for repo in &repos {
            let view = views.open(repo.git_dir(), &ViewSettings::default()).unwrap();
            for name in names.iter().skip(round).step_by(37) {
                assert!(view.get(name.as_ref()).unwrap().is_some());
                assert!(views.held_bytes() < BOUND + BOUND / 4, "{}", views.held_bytes());
            }
        }
    }
}
