use crate::common::{With, at, create, delete, everywhere, on_disk, set, symbolic, verify};
use refdb::{
    Precondition, Target,
    transaction::{HookState, Mode},
};

#[test]
fn an_edit_follows_symbolic_refs_unless_told_not_to() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.create_refs([("refs/heads/main", ids[0])]);
        subject.make_symbolic("refs/heads/s", "refs/heads/main");
        subject.make_symbolic("refs/heads/ss", "refs/heads/s");
        subject.succeed([set("HEAD", ids[1]).expecting(at(ids[0]))]);
        assert_eq!(subject.get("refs/heads/main"), Some(Target::Direct(ids[1])));
        subject.succeed([set("refs/heads/ss", ids[0]).expecting(at(ids[1]))]);
        assert_eq!(subject.get("refs/heads/main"), Some(Target::Direct(ids[0])));
        assert_eq!(subject.get("refs/heads/ss"), Some(symbolic("refs/heads/s")));
        subject.succeed([set("refs/heads/ss", ids[1]).no_deref()]);
        assert_eq!(subject.get("refs/heads/ss"), Some(Target::Direct(ids[1])));
        subject.succeed([delete("refs/heads/s")]);
        assert_eq!(subject.get("refs/heads/main"), None);
        assert_eq!(subject.get("refs/heads/s"), Some(symbolic("refs/heads/main")));
        subject.succeed([delete("refs/heads/s").no_deref()]);
        assert_eq!(subject.get("refs/heads/s"), None);
        // HEAD leads to a branch that does not exist any more.
        subject.succeed([create("HEAD", ids[0])]);
        assert_eq!(
            subject.git_lists(),
            [
                "HEAD -> refs/heads/main".to_owned(),
                format!("refs/heads/main {}", ids[0]),
                format!("refs/heads/ss {}", ids[1]),
            ]
        );
    });
}

#[test]
fn symbolic_refs_are_created_moved_and_verified() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.create_refs([("refs/heads/main", ids[0])]);
        let expects = |target: &str| Precondition::MustMatch(symbolic(target));
        subject.succeed([
            set("refs/heads/s", "refs/heads/main").expecting(Precondition::MustNotExist),
            set("refs/remotes/o/HEAD", "refs/remotes/o/main"),
        ]);
        subject.succeed([
            set("refs/heads/s", "refs/heads/other").expecting(expects("refs/heads/main")).no_deref(),
            set("HEAD", "refs/heads/new").expecting(expects("refs/heads/main")).no_deref(),
            verify("refs/remotes/o/HEAD", expects("refs/remotes/o/main")).no_deref(),
        ]);
        assert_eq!(subject.leads_to("HEAD"), "refs/heads/new");
        assert_eq!(subject.leads_to("refs/heads/s"), "refs/heads/other");
        assert_eq!(subject.leads_to("refs/remotes/o/HEAD"), "refs/remotes/o/main");
        subject.succeed([delete("refs/heads/s").expecting(expects("refs/heads/other")).no_deref()]);
        assert_eq!(subject.get("refs/heads/s"), None);
    });
}

#[test]
fn two_edits_that_lead_to_one_ref_are_refused() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.create_refs([("refs/heads/main", ids[0])]);
        for (from, to) in [("a", "b"), ("b", "a"), ("self", "self")] {
            subject.make_symbolic(&format!("refs/heads/{from}"), &format!("refs/heads/{to}"));
        }
        let both = [set("refs/heads/main", ids[0]), set("HEAD", ids[0])];
        let text = |name: &str, via: &str| {
            format!("multiple updates for '{name}' (including one via symref '{via}') are not allowed")
        };
        assert_eq!(subject.refusal(both), text("refs/heads/main", "HEAD"));
        assert_eq!(subject.refusal([set("refs/heads/self", ids[0])]), text("refs/heads/self", "refs/heads/self"));
        assert_eq!(subject.refusal([delete("refs/heads/a")]), text("refs/heads/a", "refs/heads/b"));
        let edits = [set("refs/heads/main", ids[0]), set("HEAD", ids[0]), create("refs/heads/other", ids[0])];
        let committed = subject.transaction(Mode::PerEdit, edits).unwrap().commit().unwrap();
        let rejected: Vec<_> = committed.rejected.iter().map(|(at, why)| (*at, why.to_string())).collect();
        assert_eq!(rejected, [(1, text("refs/heads/main", "HEAD"))]);
        subject.succeed([delete("refs/heads/self").no_deref(), delete("refs/heads/a").no_deref()]);
    });
}

#[test]
fn a_symbolic_ref_to_a_branch_takes_any_object_as_in_git() {
    on_disk(|subject| {
        let ids = subject.commits(1);
        let blob = subject.blob();
        subject.create_refs([("refs/heads/main", ids[0])]);
        subject.make_symbolic("refs/foo/s", "refs/heads/main");
        subject.make_symbolic("refs/foo/new", "refs/heads/new");
        for (name, target) in [("refs/foo/s", "refs/heads/main"), ("refs/foo/new", "refs/heads/new")] {
            subject.repo.git(["update-ref", name, &blob.to_string()]);
            subject.repo.git(["update-ref", "--no-deref", "-d", target]);
            subject.succeed([set(name, blob)]);
            assert_eq!(subject.rev_parse(target), blob);
        }
        let said = subject.refusal([set("HEAD", blob)]);
        assert_eq!(said, format!("trying to write non-commit object {blob} to branch 'HEAD'"));
    });
}

#[test]
fn what_a_symbolic_ref_made_under_the_name_of_a_pseudoref_is_compared_and_deleted_through_it() {
    on_disk(|subject| {
        let ids = subject.commits(2);
        subject.make_symbolic("refs/heads/s", "MERGE_HEAD");
        let make = |edit| subject.transaction(Mode::Atomic, [edit]).unwrap().commit().unwrap();
        make(set("refs/heads/s", ids[0]));
        make(set("refs/heads/s", ids[1]).expecting(at(ids[0])));
        make(delete("refs/heads/s"));
        // Git would refuse to create a ref that still exists.
        let zero = refdb::ObjectId::null(subject.repo.hash());
        subject.repo.git(["update-ref", "refs/heads/s", &ids[0].to_string(), &zero.to_string()]);
        subject.repo.git(["symbolic-ref", "-d", "refs/heads/s"]);
    });
}

#[test]
fn a_symbolic_ref_without_a_target_costs_its_own_request_only() {
    on_disk(|subject| {
        if subject.repo.format() != refdb_testkit::RefFormat::Files {
            return; // the ref is a file that is written by hand
        }
        let ids = subject.commits(1);
        let file = subject.repo.git_dir().join("refs/heads/main");
        std::fs::write(&file, "ref: ").unwrap();
        assert!(subject.commit([set("HEAD", ids[0])]).is_err());
        let edits = [set("refs/heads/main", ids[0]), create("refs/heads/other", ids[0])];
        let committed = subject.transaction(Mode::PerEdit, edits).unwrap().commit().unwrap();
        assert_eq!(committed.rejected.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0]);
        assert_eq!(subject.rev_parse("refs/heads/other"), ids[0]);
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
fn a_symbolic_ref_to_a_folder_is_refused_by_the_folders_name() {
    on_disk(|subject| {
        if subject.repo.format() != refdb_testkit::RefFormat::Files {
            return; // the ref is a file that is written by hand
        }
        let ids = subject.commits(1);
        let file = subject.repo.git_dir().join("refs/heads/s");
        for target in ["refs/heads/", "refs/heads/none/", "refs/../x"] {
            std::fs::write(&file, format!("ref: {target}\n")).unwrap();
            let said = subject.commit([set("refs/heads/s", ids[0])]).unwrap_err().to_string();
            assert_eq!(said, format!("refusing to update ref with bad name '{target}'"));
        }
        std::fs::remove_file(file).unwrap();
    });
}

/// Previously, the error could not name the ref, and the write panicked.
#[test]
fn a_folder_or_reflogs_in_place_of_an_ill_formed_target_are_an_error() {
    on_disk(|subject| {
        if subject.repo.format() != refdb_testkit::RefFormat::Files {
            return; // the ref is a file that is written by hand
        }
        let ids = subject.commits(1);
        subject.policy = refdb::transaction::LogPolicy::Always;
        let dir = subject.repo.git_dir().to_owned();
        std::fs::write(dir.join("refs/heads/s"), "ref: foo..bar\n").unwrap();
        for folder in ["foo..bar/x", "logs/foo..bar/x"] {
            std::fs::create_dir_all(dir.join(folder)).unwrap();
            std::fs::write(dir.join(folder).join("file"), "").unwrap();
            let said = subject.commit([set("refs/heads/s", ids[0])]).unwrap_err().to_string();
            assert!(said.contains("foo..bar"), "{said}");
            std::fs::remove_dir_all(dir.join(folder).parent().unwrap()).unwrap();
        }
        std::fs::remove_file(dir.join("refs/heads/s")).unwrap();
    });
}

#[test]
fn the_hook_sees_what_gits_hook_sees() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.create_refs([("refs/heads/main", ids[0]), ("refs/heads/gone", ids[0])]);
        subject.hook_fails_in(None);
        let zero = refdb::ObjectId::null(subject.repo.hash());
        subject.succeed([
            create("refs/heads/z", ids[0]),
            set("HEAD", ids[1]).expecting(at(ids[0])),
            delete("refs/heads/gone"),
            verify("refs/heads/none", Precondition::MustNotExist),
            set("refs/heads/s", "refs/heads/z"),
        ]);
        let [a, b] = [ids[0], ids[1]];
        let common = format!(
            "{zero} {zero} refs/heads/gone, {zero} {zero} refs/heads/none, {zero} ref:refs/heads/z refs/heads/s"
        );
        let before = format!("{zero} {a} refs/heads/z, {a} {b} HEAD, {common}");
        let after = format!("{zero} {a} refs/heads/z, {common}, {a} {b} refs/heads/main");
        let expected = [format!("preparing: {before}"), format!("prepared: {after}"), format!("committed: {after}")];
        assert_eq!(subject.hook_calls(), expected);
    });
}

#[test]
fn the_hook_can_say_no_before_the_commit() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        let line = format!("{} {} refs/heads/a", refdb::ObjectId::null(subject.repo.hash()), ids[0]);
        for (state, calls) in [
            (HookState::Preparing, &["preparing", "aborted"][..]),
            (HookState::Prepared, &["preparing", "prepared", "aborted"]),
        ] {
            subject.hook_fails_in(Some(state));
            let said = subject.refusal([create("refs/heads/a", ids[0])]);
            let phase = state.as_str();
            assert_eq!(said, format!("in '{phase}' phase, update aborted by the reference-transaction hook"));
            let expected: Vec<_> = calls.iter().map(|call| format!("{call}: {line}")).collect();
            assert_eq!(subject.hook_calls(), expected);
        }
        subject.hook_fails_in(Some(HookState::Committed));
        subject.succeed([create("refs/heads/a", ids[0])]);
    });
}
