use crate::common::{Subject, everywhere, on_disk, rest, show};
use bstr::ByteSlice;
use refdb::{HashKind, TargetView};
use refdb_testkit::{RefFormat, Rng};
use refdb_vfs::Fs;
use std::ops::ControlFlow;

#[test]
fn what_git_writes_and_packs_we_read() {
    on_disk(|subject| {
        let ids = subject.commits(3);
        let names = subject.fill(1500, &ids);
        let tag = subject.tag(ids[1], "v1");
        subject.create_refs([("refs/tags/v1", tag), ("refs/bisect/bad", ids[0]), ("refs/heads/main", ids[2])]);
        subject.remove("refs/heads/load/000/000007");
        let git: Vec<_> = subject.git_lists();
        let ours = |subject: &crate::common::Subject, root: bool| {
            let snapshot = subject.backend.snapshot().unwrap();
            let mut cursor = snapshot.cursor(root).unwrap();
            rest(&mut *cursor)
        };
        assert_eq!(ours(subject, true), git);
        assert_eq!(ours(subject, false), git[1..]);
        assert_eq!(git.len(), names.len() + 3);
        subject.pack();
        assert_eq!(ours(subject, true), git);
        let snapshot = subject.backend.snapshot().unwrap();
        let mut pointing = Vec::new();
        snapshot
            .pointing_at(&ids[1], &mut |view| {
                assert!(matches!(view.target, TargetView::Direct(_)));
                pointing.push(view.name.to_string());
                Ok(())
            })
            .unwrap();
        let expected = subject.repo.git(["for-each-ref", "--format=%(refname)", &format!("--points-at={}", ids[1])]);
        assert_eq!(pointing, expected.lines().collect::<Vec<_>>());
    });
}

#[test]
fn loops_that_break_off_and_single_steps_give_each_ref_once() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        let tag = subject.tag(ids[1], "v1");
        subject.fill(300, &ids);
        subject.create_refs([("refs/tags/v1", tag), ("refs/bisect/bad", ids[0])]);
        subject.pack();
        subject.create_refs([("refs/heads/a", ids[0]), ("refs/heads/load/000/000100x", ids[0])]);
        subject.make_symbolic("refs/heads/s", "refs/heads/a");
        subject.remove("refs/heads/load/000/000007");
        let snapshot = subject.backend.snapshot().unwrap();
        let expected = rest(&mut *snapshot.cursor(true).unwrap());
        for turn in [1, 2, 7, 100, 1000] {
            let (mut cursor, mut found) = (snapshot.cursor(true).unwrap(), Vec::new());
            loop {
                let mut left = turn;
                let flow = cursor.for_each(&mut |view| {
                    found.push(show(view));
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                match flow.unwrap() {
                    ControlFlow::Continue(()) => break,
                    ControlFlow::Break(()) => found.extend(cursor.next().unwrap().as_ref().map(show)),
                }
            }
            assert_eq!(found, expected, "{turn} at a time");
        }
    });
}

#[test]
fn a_cursor_can_be_put_anywhere() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.fill(300, &ids);
        let snapshot = subject.backend.snapshot().unwrap();
        let mut cursor = snapshot.cursor(true).unwrap();
        for (to, next) in [
            ("refs/heads/load/000/000250", Some("refs/heads/load/000/000250")),
            ("refs/heads/load/000/000010x", Some("refs/heads/load/000/000011")),
            ("refs/heads/load/000/000012", Some("refs/heads/load/000/000012")),
            ("refs/heads/m", None),
            ("", Some("refs/heads/load/000/000000")),
        ] {
            cursor.seek(to.into()).unwrap();
            let found = cursor.next().unwrap().map(|view| view.name.to_string());
            assert_eq!(found.filter(|name| name != "HEAD").as_deref(), next.filter(|_| !to.is_empty()), "{to:?}");
        }
    });
}

/// Previously, a cursor over files passed over names if it was moved to a later name and then, before any read there,
/// to an earlier one.
#[test]
fn a_cursor_finds_the_same_wherever_it_was_put_before() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        let folders = ["refs/heads/", "refs/heads/f/", "refs/tags/f/", "refs/tags/f/g/", "refs/x/"];
        let name = |at: usize| format!("{}{at:03}", folders[at % folders.len()]);
        subject.create_refs((0..60).map(|at| (name(at), ids[0])));
        subject.pack();
        subject.create_refs((60..120).map(|at| (name(at), ids[0])));
        let mut names: Vec<_> = (0..120).map(name).collect();
        names.sort();
        let snapshot = subject.backend.snapshot().unwrap();
        let mut cursor = snapshot.cursor(false).unwrap();
        let mut rng = Rng::new(7);
        for _ in 0..2000 {
            let mut wanted = rng.pick(&names).clone();
            match rng.below(4) {
                0 => wanted.truncate(wanted.rfind('/').unwrap() + 1),
                1 => wanted.push('x'),
                _ => {}
            }
            cursor.seek(wanted.as_str().into()).unwrap();
            let first = names.partition_point(|name| *name < wanted);
            for expected in names.iter().map(Some).chain([None]).skip(first).take(rng.below(3)) {
                let found = cursor.next().unwrap().map(|view| view.name.to_string());
                assert_eq!(found.as_ref(), expected, "at {wanted}");
            }
        }
    });
}

#[test]
fn a_root_ref_that_leads_to_a_name_no_ref_can_have_is_listed_with_the_others() {
    let subject = Subject::new(RefFormat::Reftable, HashKind::Sha1, Fs::real());
    let ids = subject.commits(1);
    subject.repo.create_refs([("refs/heads/main", ids[0])]);
    subject.repo.git(["symbolic-ref", "ORIG_HEAD", "refs/heads/no__ref"]);
    subject.repo.git(["pack-refs"]);
    for file in refdb_testkit::files_below(&subject.repo.git_dir().join("reftable")) {
        let path = subject.repo.git_dir().join("reftable").join(file);
        let content = std::fs::read(&path).unwrap();
        std::fs::write(&path, content.replace("no__ref", "n/../rf")).unwrap();
    }
    let snapshot = subject.backend.snapshot().unwrap();
    let listed = rest(&mut *snapshot.cursor(true).unwrap());
    let main = format!("refs/heads/main {}", ids[0]);
    assert_eq!(listed, ["HEAD -> refs/heads/main", "ORIG_HEAD -> refs/heads/n/../rf", &main]);
}
