//! The model has git's rules: both accept and refuse the same random transactions, with the same result.

use refdb_testkit::{Model, ModelEdit, RefFormat, Repo, Rng, names};
use refdb_types::{HashKind, ObjectId, RefName, Target};

#[test]
fn random_transactions_end_in_the_model_as_they_end_in_git() {
    for (format, seed) in
        [(RefFormat::Files, 1), (RefFormat::Reftable, 2), (RefFormat::Files, 3), (RefFormat::Reftable, 4)]
    {
        let repo = Repo::with_worktree(format, HashKind::Sha1);
        let commits = repo.commits(4);
        let (mut model, mut rng) = (Model::new(format), Rng::new(seed));
        let mut accepted = 0;
        for turn in 0..300 {
            let count = 1 + rng.below(3);
            // Edits that git's commands cannot express are left to the tests of the library.
            let edits = (0..count).map(|_| ModelEdit::random(&mut rng, &model, &commits));
            let (edits, input): (Vec<_>, Vec<_>) =
                edits.filter_map(|edit| edit.for_git().map(|text| (edit, text))).unzip();
            let output = repo.try_git(["update-ref", "-z", "--stdin"], input.concat());
            let done = model.apply(&edits);
            let story = format!(
                "{format:?} seed {seed} turn {turn}: {edits:#?}\nmodel: {done:?} {:?}\ngit: {output:?}",
                model.refs()
            );
            assert_eq!(output.status.success(), done.is_ok(), "{story}");
            accepted += usize::from(done.is_ok() && !edits.is_empty());
        }
        assert!(accepted > 50, "only {accepted} transactions of 300 were accepted");
        compare(&repo, &model);
    }
}

fn compare(repo: &Repo, model: &Model) {
    for (name, target) in model.refs() {
        match target {
            Target::Direct(id) => assert_eq!(repo.rev_parse(&name.to_string()), *id),
            Target::Symbolic(to) => assert_eq!(repo.git(["symbolic-ref", &name.to_string()]), to.to_string()),
        }
        let log = repo.reflog(&name.to_string());
        let expected = model.log(name);
        assert_eq!(log.len(), expected.len(), "{name}: {log:?} instead of {expected:?}");
        for (line, (old, new)) in log.iter().zip(expected) {
            let old = old.unwrap_or(ObjectId::null(repo.hash()));
            assert!(line.starts_with(format!("{old} {new} ").as_bytes()), "{name}: {log:?}");
        }
    }
    for listed in repo.refs() {
        let name = RefName::new(listed.name).expect("git lists valid names");
        assert!(model.refs().contains_key(&name), "{name} is not in the model");
    }
}

#[test]
fn git_accepts_the_nasty_names_beside_each_other_and_refuses_the_invalid_ones() {
    for format in RefFormat::ALL {
        let repo = Repo::bare(format, HashKind::Sha1);
        let commit = repo.commit();
        let names = names::nasty();
        repo.create_refs(names.iter().map(|name| (name, commit)));
        let listed: Vec<_> = repo.refs().into_iter().map(|listed| listed.name).collect();
        assert_eq!(listed, names);
        for name in names::invalid() {
            assert!(RefName::new(name.clone()).is_err(), "{name:?}");
            let mut input = b"create ".to_vec();
            input.extend_from_slice(&name);
            input.extend_from_slice(format!("\0{commit}\0").as_bytes());
            assert!(!repo.try_git(["update-ref", "-z", "--stdin"], &input).status.success(), "{name:?}");
        }
    }
}
