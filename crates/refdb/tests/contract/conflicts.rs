use crate::common::{Subject, create, delete, everywhere, on_disk, set, verify};
use refdb::{
    Change, Edit, HashKind, Precondition, RejectionClass, Target, Transaction, TransactionOptions, transaction::Mode,
};
use refdb_testkit::RefFormat;
use refdb_types::RefName;
use refdb_vfs::Fs;

#[test]
fn a_ref_and_a_folder_cannot_have_one_name() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.create_refs([("refs/heads/a", ids[0]), ("refs/heads/x/y/z", ids[0])]);
        subject.pack();
        subject.create_refs([("refs/heads/loose", ids[0]), ("refs/heads/l/m", ids[0])]);
        for (name, text) in [
            ("refs/heads/a/b", "'refs/heads/a' exists; cannot create 'refs/heads/a/b'"),
            ("refs/heads/a/b/c", "'refs/heads/a' exists; cannot create 'refs/heads/a/b/c'"),
            ("refs/heads/x", "'refs/heads/x/y/z' exists; cannot create 'refs/heads/x'"),
            ("refs/heads/x/y", "'refs/heads/x/y/z' exists; cannot create 'refs/heads/x/y'"),
            ("refs/heads/loose/b", "'refs/heads/loose' exists; cannot create 'refs/heads/loose/b'"),
            ("refs/heads/l", "'refs/heads/l/m' exists; cannot create 'refs/heads/l'"),
            ("HEAD/x", "'HEAD' exists; cannot create 'HEAD/x'"),
        ] {
            let said = subject.refusal([create("refs/heads/innocent", ids[0]), create(name, ids[0])]);
            assert!(said.ends_with(text), "{said}");
            // Git requires the name to be free even if nothing is to be created.
            let said = subject.refusal([verify(name, Precondition::MustNotExist)]);
            assert!(said.ends_with(text), "{said}");
        }
        // Names that only begin alike are no conflict.
        subject.succeed(
            ["a-b", "a.b", "a0", "x-y", "x/y-z", "x/y0", "x/y/zz"]
                .map(|name| create(&format!("refs/heads/{name}"), ids[0])),
        );
    });
}

#[test]
fn a_transaction_cannot_create_a_ref_and_its_folder() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        for (names, text) in [
            (["refs/heads/p", "refs/heads/p/q"], "cannot process 'refs/heads/p' and 'refs/heads/p/q' at the same time"),
            (["refs/heads/p/q", "refs/heads/p"], "cannot process 'refs/heads/p/q' and 'refs/heads/p' at the same time"),
            (["refs/a/b/c/d", "refs/a/b"], "cannot process 'refs/a/b/c/d' and 'refs/a/b' at the same time"),
        ] {
            let between = create("refs/heads/p-1", ids[0]);
            let said = subject.refusal([create(names[0], ids[0]), between, create(names[1], ids[0])]);
            // With files, the lock of the inner ref creates a folder with the name of the outer one, which then cannot
            // be locked.
            let (outer, inner) = (names[1], names[0]);
            let as_files =
                format!("cannot lock ref '{outer}': cannot process '{outer}' and '{inner}' at the same time");
            assert!(said == text || (inner.starts_with(outer) && said == as_files), "{said}");
        }
    });
}

#[test]
fn a_ref_in_the_way_is_told_of_before_an_edit_that_would_be_as_git_does() {
    on_disk(|subject| {
        let ids = subject.commits(1);
        subject.create_refs([("refs/heads/x/z", ids[0])]);
        let said = subject.refusal([create("refs/heads/x", ids[0]), create("refs/heads/x/y", ids[0])]);
        let input = format!("create refs/heads/x {0}\ncreate refs/heads/x/y {0}\n", ids[0]);
        let git = subject.repo.try_git(["update-ref", "--stdin"], &input);
        assert!(said.ends_with("'refs/heads/x/z' exists; cannot create 'refs/heads/x'"), "{said}");
        assert_eq!(git.stderr, format!("fatal: {said}\n").as_bytes());
    });
}

#[test]
fn edit_by_edit_one_of_two_conflicting_edits_happens() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        for names in [["refs/heads/p", "refs/heads/p/q"], ["refs/heads/x/y", "refs/heads/x"]] {
            let edits = names.map(|name| create(name, ids[0]));
            let committed = subject.transaction(Mode::PerEdit, edits).unwrap().commit().unwrap();
            assert_eq!(committed.rejected.len(), 1, "{:?}", committed.rejected);
            assert_eq!(committed.rejected[0].1.class(), RejectionClass::NameConflict);
            subject.verify();
        }
        assert_eq!(subject.git_lists().len(), 2);
    });
}

#[test]
fn edit_by_edit_a_folder_with_other_files_blocks_its_own_ref_alone() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        let names = ["one", "two", "free"].map(|name| format!("refs/heads/{name}"));
        for name in &names[..2] {
            let folder = subject.repo.git_dir().join(name);
            if subject.repo.format() == RefFormat::Files {
                std::fs::create_dir(&folder).unwrap();
                std::fs::write(folder.join("junk.lock"), "").unwrap();
            }
        }
        let edits = names.each_ref().map(|name| create(name, ids[0]));
        let committed = subject.transaction(Mode::PerEdit, edits).unwrap().commit().unwrap();
        let rejected: Vec<(usize, RejectionClass)> =
            committed.rejected.iter().map(|(at, rejection)| (*at, rejection.class())).collect();
        if subject.repo.format() == RefFormat::Files {
            assert_eq!(rejected, [(0, RejectionClass::NameConflict), (1, RejectionClass::NameConflict)]);
            assert_eq!(subject.git_lists(), [format!("refs/heads/free {}", ids[0])]);
        } else {
            assert_eq!(rejected, []);
        }
    });
}

#[test]
fn deleting_a_folder_to_make_a_ref_is_refused_as_by_git() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.create_refs([("refs/heads/a", ids[0]), ("refs/heads/x/y", ids[0])]);
        let said = subject.refusal([delete("refs/heads/a"), create("refs/heads/a/b", ids[0])]);
        assert!(said.ends_with("'refs/heads/a' exists; cannot create 'refs/heads/a/b'"), "{said}");
        let said = subject.refusal([delete("refs/heads/x/y"), create("refs/heads/x", ids[0])]);
        assert!(said.ends_with("'refs/heads/x/y' exists; cannot create 'refs/heads/x'"), "{said}");
    });
}

#[test]
fn jgits_callers_may_replace_folders_by_refs() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.create_refs([("refs/heads/a", ids[0]), ("refs/heads/x/y", ids[0]), ("refs/heads/x/z", ids[0])]);
        // Packed, because a loose ref is a file in the place of the folder even while it is being deleted.
        subject.pack();
        let options = TransactionOptions::new().allow_replacing_parents(true);
        let commit = |edits: Vec<refdb::Edit>| {
            let mut transaction = Transaction::new(subject.context(), options);
            edits.into_iter().try_for_each(|edit| transaction.add(edit)).unwrap();
            transaction.commit()
        };
        let said = commit(vec![delete("refs/heads/x/y"), create("refs/heads/x", ids[0])]).unwrap_err().to_string();
        assert!(said.ends_with("'refs/heads/x/z' exists; cannot create 'refs/heads/x'"), "{said}");
        let mut edits = vec![delete("refs/heads/a"), create("refs/heads/a/b", ids[0])];
        let mut expected = vec![format!("refs/heads/a/b {}", ids[0])];
        if subject.repo.format() == RefFormat::Reftable {
            let below = [delete("refs/heads/x/y"), delete("refs/heads/x/z"), create("refs/heads/x", ids[0])];
            edits.extend(below);
            expected.push(format!("refs/heads/x {}", ids[0]));
        } else {
            // With files, the locks of the refs below lie in the folder that would have to be removed.
            expected.extend(["y", "z"].map(|name| format!("refs/heads/x/{name} {}", ids[0])));
        }
        commit(edits).unwrap_or_else(|error| panic!("{:?}: {error}", subject.repo.format()));
        subject.verify();
        assert_eq!(subject.git_lists(), expected);
    });
}

/// The search for the ref that stays once went on in that ref's name, which is shorter, and panicked.
#[test]
fn a_ref_that_stays_below_a_new_one_is_reported_whatever_its_length_and_place() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        let options = TransactionOptions::new().allow_replacing_parents(true);
        for (goes, stays, new) in [
            ("refs/heads/a/bbbbbbbb/c", "refs/heads/a/x", "refs/heads/a"),
            ("refs/heads/b/c", "refs/heads/b/d/e/f", "refs/heads/b"),
            // No walk lists this one.
            ("refs/heads/unrelated", "foo/bar", "foo"),
        ] {
            subject.create_refs([(goes, ids[0]), (stays, ids[0])]);
            subject.pack();
            let mut transaction = Transaction::new(subject.context(), options);
            [delete(goes), create(new, ids[0])].into_iter().try_for_each(|edit| transaction.add(edit)).unwrap();
            let said = transaction.commit().unwrap_err().to_string();
            // In files, no refs are sought below a root ref, but the folder is in the way of the new ref's file.
            let blocked = stays == "foo/bar" && said.ends_with("blocking reference 'foo'");
            assert!(blocked || said.ends_with(&format!("'{stays}' exists; cannot create '{new}'")), "{said}");
            assert!(subject.get(goes).is_some() && subject.get(stays).is_some());
        }
        subject.verify();
    });
}

#[test]
fn a_loose_ref_whose_name_is_not_utf_8_may_be_replaced_by_one_below_it() {
    on_disk(|subject| {
        let ids = subject.commits(1);
        let name = |bytes: &[u8]| RefName::new(bytes.to_vec()).unwrap();
        subject.create_refs([(b"refs/heads/\xff", ids[0])]);
        let options = TransactionOptions::new().atomic_visibility(true).allow_replacing_parents(true);
        let mut transaction = Transaction::new(subject.context(), options);
        let set = Change::Set(Target::Direct(ids[0]));
        transaction.add(Edit::new(name(b"refs/heads/\xff"), Change::Delete, Precondition::Any)).unwrap();
        transaction.add(Edit::new(name(b"refs/heads/\xff/b"), set, Precondition::MustNotExist)).unwrap();
        transaction.commit().unwrap_or_else(|error| panic!("{:?}: {error}", subject.repo.format()));
        subject.verify();
        let left: Vec<_> = subject.repo.refs().into_iter().map(|listed| listed.name).collect();
        assert!(left.contains(&b"refs/heads/\xff/b".into()) && !left.contains(&b"refs/heads/\xff".into()), "{left:?}");
    });
}

#[test]
fn edit_by_edit_an_edit_whose_refs_are_all_locked_is_rejected_once() {
    let mut subject = Subject::new(RefFormat::Files, HashKind::Sha1, Fs::real());
    subject.wait_briefly_for_locks();
    let ids = subject.commits(1);
    subject.make_symbolic("HEAD", "refs/heads/a/b");
    let git_dir = subject.repo.git_dir();
    std::fs::create_dir_all(git_dir.join("refs/heads/a")).unwrap();
    for locked in ["HEAD", "refs/heads/a/b"] {
        std::fs::write(git_dir.join(format!("{locked}.lock")), "").unwrap();
    }
    let edits = [set("HEAD", ids[0]), create("refs/heads/a", ids[0]), create("refs/heads/free", ids[0])];
    let committed = subject.transaction(Mode::PerEdit, edits).unwrap().commit().unwrap();
    let rejected: Vec<usize> = committed.rejected.iter().map(|(at, _)| *at).collect();
    assert_eq!(rejected, [0, 1], "{:?}", committed.rejected);
    assert_eq!(subject.git_lists(), [format!("refs/heads/free {}", ids[0])]);
}
