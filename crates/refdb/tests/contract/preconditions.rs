use crate::common::{With, at, create, delete, everywhere, set, symbolic, verify};
use refdb::{Precondition, RejectionClass, transaction::Mode};
use refdb_testkit::files_below;

#[test]
fn what_is_created_is_listed_by_git_and_by_us() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        let tag = subject.tag(ids[0], "v1");
        let edits = [create("refs/heads/b", ids[1]), create("refs/tags/v1", tag), create("refs/heads/a/b", ids[0])];
        subject.succeed(edits);
        let expected =
            [format!("refs/heads/a/b {}", ids[0]), format!("refs/heads/b {}", ids[1]), format!("refs/tags/v1 {tag}")];
        assert_eq!(subject.lists(), expected);
        assert_eq!(subject.git_lists(), expected);
        assert_eq!(subject.rev_parse("refs/tags/v1^{}"), ids[0]);
    });
}

#[test]
fn refs_are_updated_and_deleted() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.create_refs([("refs/heads/a", ids[0]), ("refs/heads/b", ids[0]), ("refs/heads/c", ids[0])]);
        subject.succeed([
            set("refs/heads/a", ids[1]).expecting(at(ids[0])),
            delete("refs/heads/b").expecting(at(ids[0])),
            verify("refs/heads/c", at(ids[0])),
        ]);
        assert_eq!(subject.git_lists(), [format!("refs/heads/a {}", ids[1]), format!("refs/heads/c {}", ids[0])]);
        subject.succeed([delete("refs/heads/a"), delete("refs/heads/none"), create("refs/heads/b", ids[1])]);
        assert_eq!(subject.git_lists(), [format!("refs/heads/b {}", ids[1]), format!("refs/heads/c {}", ids[0])]);
    });
}

#[test]
fn a_wrong_expectation_refuses_everything_in_gits_words() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.create_refs([("refs/heads/a", ids[0])]);
        subject.make_symbolic("refs/heads/s", "refs/heads/a");
        subject.make_symbolic("refs/heads/d", "refs/heads/none");
        let (zero, one) = (ids[0], ids[1]);
        let wrong = format!("is at {zero} but expected {one}");
        let must = |target: &str| Precondition::MustMatch(symbolic(target));
        for (edit, text) in [
            (create("refs/heads/a", one), "cannot lock ref 'refs/heads/a': reference already exists".to_owned()),
            (set("refs/heads/a", zero).expecting(at(one)), format!("cannot lock ref 'refs/heads/a': {wrong}")),
            (verify("refs/heads/a", at(one)), format!("cannot lock ref 'refs/heads/a': {wrong}")),
            (set("refs/heads/s", zero).expecting(at(one)), format!("cannot lock ref 'refs/heads/s': {wrong}")),
            (
                set("refs/heads/n", zero).expecting(at(one)),
                "cannot lock ref 'refs/heads/n': unable to resolve reference 'refs/heads/n'".to_owned(),
            ),
            (
                set("refs/heads/d", zero).expecting(at(one)),
                "cannot lock ref 'refs/heads/d': unable to resolve reference 'refs/heads/none'".to_owned(),
            ),
            (
                set("refs/heads/d", zero).expecting(at(one)).no_deref(),
                format!("cannot lock ref 'refs/heads/d': reference is missing but expected {one}"),
            ),
            (
                create("refs/heads/d", zero).no_deref(),
                "cannot lock ref 'refs/heads/d': dangling symref already exists".to_owned(),
            ),
            (
                delete("refs/heads/a").expecting(must("refs/heads/x")).no_deref(),
                "cannot lock ref 'refs/heads/a': expected symref with target 'refs/heads/x': but is a regular ref"
                    .to_owned(),
            ),
            (
                verify("refs/heads/s", must("refs/heads/x")).no_deref(),
                "verifying symref target: 'refs/heads/s': is at refs/heads/a but expected refs/heads/x".to_owned(),
            ),
        ] {
            assert_eq!(subject.refusal([create("refs/heads/innocent", one), edit]), text);
        }
    });
}

#[test]
fn what_may_exist_but_must_match_does_both() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        let expected = |id| Precondition::ExistingMustMatch(refdb::Target::Direct(id));
        subject.succeed([set("refs/heads/a", ids[0]).expecting(expected(ids[1]))]);
        subject.refusal([set("refs/heads/a", ids[1]).expecting(expected(ids[1]))]);
        subject.succeed([set("refs/heads/a", ids[1]).expecting(expected(ids[0]))]);
        assert_eq!(subject.git_lists(), [format!("refs/heads/a {}", ids[1])]);
    });
}

#[test]
fn bad_names_and_objects_are_refused_when_they_are_added() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        let (blob, missing) = (
            subject.blob(),
            refdb::ObjectId::from_bytes(subject.repo.hash(), &vec![7; subject.repo.hash().len_bytes()]).unwrap(),
        );
        for (edit, text) in [
            (set("FETCH_HEAD", ids[0]), "refusing to update pseudoref 'FETCH_HEAD'".to_owned()),
            (set("refs/heads/a", blob), format!("trying to write non-commit object {blob} to branch 'refs/heads/a'")),
            (set("HEAD", blob), format!("trying to write non-commit object {blob} to branch 'HEAD'")),
            (set("refs/x", missing), format!("trying to write ref 'refs/x' with nonexistent object {missing}")),
        ] {
            assert_eq!(subject.refusal([edit]), text);
        }
        let twice = [create("refs/heads/b", ids[0]), create("refs/heads/a", ids[0]), create("refs/heads/b", ids[0])];
        assert_eq!(subject.refusal(twice), "multiple updates for ref 'refs/heads/b' not allowed");
        subject.succeed([create("refs/tags/blob", blob)]);
    });
}

#[test]
fn edit_by_edit_the_possible_ones_happen() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        let blob = subject.blob();
        subject.create_refs([("refs/heads/a", ids[0]), ("refs/heads/m", ids[0])]);
        subject.make_symbolic("refs/heads/s", "refs/heads/m");
        let edits = [
            create("refs/heads/z", ids[0]),
            create("refs/heads/a", ids[0]),
            create("refs/heads/b", blob),
            create("refs/heads/a/x", ids[0]),
            delete("refs/heads/none").expecting(at(ids[0])),
            set("refs/heads/s", ids[1]).expecting(at(ids[1])),
            create("refs/heads/c", ids[1]),
        ];
        let committed = subject.transaction(Mode::PerEdit, edits).unwrap().commit().unwrap();
        let rejected: Vec<_> =
            committed.rejected.iter().map(|(at, why)| (*at, why.resolved.to_string(), why.class())).collect();
        let expected = [
            (1, "refs/heads/a", RejectionClass::CreateExists),
            (2, "refs/heads/b", RejectionClass::InvalidNewValue),
            (3, "refs/heads/a/x", RejectionClass::NameConflict),
            (4, "refs/heads/none", RejectionClass::NonexistentRef),
            (5, "refs/heads/m", RejectionClass::IncorrectOldValue),
        ];
        assert_eq!(rejected, expected.map(|(at, name, why)| (at, name.to_owned(), why)));
        subject.verify();
        let listed = [
            format!("refs/heads/a {}", ids[0]),
            format!("refs/heads/c {}", ids[1]),
            format!("refs/heads/m {}", ids[0]),
            "refs/heads/s -> refs/heads/m".to_owned(),
            format!("refs/heads/z {}", ids[0]),
        ];
        assert_eq!(subject.git_lists(), listed);
    });
}

#[test]
fn a_dropped_or_aborted_transaction_leaves_no_trace() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.create_refs([("refs/heads/a", ids[0])]);
        let before: Vec<_> = files(subject);
        let edits = || [delete("refs/heads/a"), create("refs/heads/b/c", ids[0])];
        drop(subject.transaction(Mode::Atomic, edits()).unwrap().prepare().unwrap());
        assert_eq!(files(subject), before);
        subject.transaction(Mode::Atomic, edits()).unwrap().prepare().unwrap().abort().unwrap();
        assert_eq!(files(subject), before);
        subject.succeed(edits());
        assert_eq!(subject.git_lists(), [format!("refs/heads/b/c {}", ids[0])]);
    });
}

/// Lists the refs, and all files of the repository except objects.
fn files(subject: &crate::common::Subject) -> Vec<String> {
    let all = files_below(subject.repo.git_dir()).into_iter();
    all.filter(|name| !name.starts_with("objects/")).chain(subject.git_lists()).collect()
}
