//! Random transactions on each backend, which must agree with a plain map with git's rules. Now and then git makes a
//! transaction itself, or reads the result.

use crate::common::{Subject, rest};
use refdb::{
    Change, Edit, Error, HashKind, ObjectId, Precondition, RejectionClass, Target,
    backend::OptimizeOptions,
    transaction::{LogPolicy, Mode},
};
use refdb_testkit::{Model, ModelChange, ModelEdit, Old, Refusal, Repo, Rng};
use refdb_vfs::Fs;

const ROUNDS: usize = 150;

#[test]
fn random_transactions_do_what_the_model_says() {
    let on_disk = Repo::KINDS.map(|(format, hash)| Subject::new(format, hash, Fs::real()));
    let in_memory = [HashKind::Sha1, HashKind::Sha256].map(Subject::in_memory);
    for (turn, mut subject) in on_disk.into_iter().chain(in_memory).enumerate() {
        let (format, seed) = (subject.repo.format(), 4711 + turn as u64);
        println!("{format:?} {:?} seed {seed}", subject.repo.hash());
        subject.policy = LogPolicy::Usual;
        subject.repo.config("core.logAllRefUpdates", "true");
        let ids = subject.commits(4);
        let (mut model, mut rng) = (Model::new(format), Rng::new(seed));
        for round in 0..ROUNDS {
            let most = if rng.one_in(10) { 40 } else { 6 };
            let count = 1 + rng.below(most);
            let edits: Vec<_> = (0..count).map(|_| ModelEdit::random(&mut rng, &model, &ids)).collect();
            match rng.below(10) {
                0 if !subject.is_in_memory() => by_git(&subject, &mut model, edits),
                1..=3 => edit_by_edit(&subject, &mut model, &edits),
                _ => atomically(&subject, &mut model, &edits),
            }
            tidy_up(&subject, &mut rng);
            if round % 10 == 0 || round + 1 == ROUNDS {
                subject.verify();
                agree(&subject, &model, &ids);
            }
        }
    }
}

fn edit(from: &ModelEdit) -> Edit {
    let change = match &from.change {
        ModelChange::Set(target) => Change::Set(target.clone()),
        ModelChange::Delete => Change::Delete,
        ModelChange::Verify => Change::Verify,
    };
    let expected = match &from.old {
        Old::Any => Precondition::Any,
        Old::Missing => Precondition::MustNotExist,
        Old::Is(target) => Precondition::MustMatch(target.clone()),
    };
    Edit { deref: false, ..Edit::new(from.name.clone(), change, expected) }
}

fn atomically(subject: &Subject, model: &mut Model, edits: &[ModelEdit]) {
    let result = subject.commit(edits.iter().map(edit));
    match (model.apply(edits), result) {
        (Ok(()), Ok(_)) => {}
        (Err(refused), Err(Error::Rejected(rejection))) => {
            let fits = |(at, refusal): &(usize, Refusal)| {
                edits[*at].name == rejection.resolved && is_same(*refusal, rejection.class())
            };
            assert!(refused.iter().any(fits), "{rejection}, but the model refuses {refused:?} of {edits:#?}");
        }
        (Err(refused), Err(Error::Misuse(text))) => {
            assert!(refused.iter().any(|(_, refusal)| *refusal == Refusal::Duplicate), "{text}: {refused:?}");
        }
        (model, ours) => panic!("the model says {model:?}, and we {ours:?} for {edits:#?}"),
    }
}

/// Commits the edits in per-edit mode: the model must accept those that were made, and refuse each of the others where
/// it gets them all. Nothing is done if two of the edits are of one ref.
fn edit_by_edit(subject: &Subject, model: &mut Model, edits: &[ModelEdit]) {
    let refused = model.clone().apply(edits).err().unwrap_or_default();
    if refused.iter().any(|(_, refusal)| *refusal == Refusal::Duplicate) {
        return;
    }
    let committed = subject.transaction(Mode::PerEdit, edits.iter().map(edit)).unwrap().commit().unwrap();
    for (at, rejection) in &committed.rejected {
        let is_known = refused.iter().any(|(known, refusal)| known == at && is_same(*refusal, rejection.class()));
        assert!(is_known, "{rejection} for {:?}, but the model says {refused:?}", edits[*at]);
    }
    let is_rejected = |at: usize| committed.rejected.iter().any(|(rejected, _)| *rejected == at);
    let rest: Vec<_> =
        edits.iter().enumerate().filter(|(at, _)| !is_rejected(*at)).map(|(_, edit)| edit.clone()).collect();
    model.apply(&rest).unwrap_or_else(|refused| panic!("we did {rest:#?}, but the model refuses {refused:?}"));
}

fn by_git(subject: &Subject, model: &mut Model, mut edits: Vec<ModelEdit>) {
    edits.retain(|edit| edit.for_git().is_some());
    let script: String = edits.iter().filter_map(ModelEdit::for_git).collect();
    let output = subject.repo.try_git(["update-ref", "-z", "--stdin"], script);
    let modelled = model.apply(&edits);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), modelled.is_ok(), "git said {said}, the model {modelled:?}: {edits:#?}");
}

fn tidy_up(subject: &Subject, rng: &mut Rng) {
    if rng.one_in(20) {
        subject.pack();
    }
    if rng.one_in(20) {
        let auto = rng.one_in(2);
        let options = OptimizeOptions::new().all(true).auto(auto);
        subject.backend.optimize(&options).unwrap();
    }
}

fn is_same(refusal: Refusal, reason: RejectionClass) -> bool {
    match refusal {
        Refusal::Duplicate => false,
        Refusal::Exists => reason == RejectionClass::CreateExists,
        Refusal::Missing => reason == RejectionClass::NonexistentRef,
        // A symbolic ref that leads nowhere has no object to compare with.
        Refusal::Mismatch => {
            matches!(
                reason,
                RejectionClass::IncorrectOldValue | RejectionClass::ExpectedSymref | RejectionClass::NonexistentRef
            )
        }
        Refusal::NameConflict => reason == RejectionClass::NameConflict,
    }
}

/// Requires that the refs, as the backend reads them, and the reflogs of branches, as the backend and, if they are on
/// disk, git read them, are what the model says.
fn agree(subject: &Subject, model: &Model, ids: &[ObjectId]) {
    let show = |(name, target): (_, &Target)| match target {
        Target::Direct(id) => format!("{name} {id}"),
        Target::Symbolic(to) => format!("{name} -> {to}"),
    };
    let expected: Vec<_> = model.refs().iter().map(show).collect();
    assert_eq!(subject.lists(), expected);
    let snapshot = subject.backend.snapshot().unwrap();
    for (name, target) in model.refs() {
        assert_eq!(snapshot.get(name).unwrap().as_ref(), Some(target), "{name}");
        if name.starts_with(b"refs/heads/") {
            let log = subject.log(&name.to_string(), ids);
            let place = |id: &ObjectId| ids.iter().position(|known| known == id).unwrap().to_string();
            let entry = |(old, new): &(Option<ObjectId>, ObjectId)| {
                format!("{} {} ", old.as_ref().map_or("-".to_owned(), place), place(new))
            };
            assert_eq!(log, model.log(name).iter().map(entry).collect::<Vec<_>>(), "{name}");
        }
    }
    let mut cursor = snapshot.cursor(false).unwrap();
    cursor.seek("refs/heads/".into()).unwrap();
    let from_heads: Vec<_> = expected.into_iter().filter(|line| line.as_str() >= "refs/heads/").collect();
    assert_eq!(rest(&mut *cursor), from_heads);
}
