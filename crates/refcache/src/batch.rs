use crate::Result;
use refdb::{
    Committed, Edit, Misuse, ObjectError, Rejection, Store,
    global::{Arbiter, GlobalRef, Mark, Verdict, commit_agreed, commit_settling},
    transaction::{Context, Mode, ObjectCheck, ObjectClass, Transaction, TransactionOptions},
};
use refdb_types::{Ident, ObjectId};
use std::{cell::Cell, collections::BTreeMap};

/// Edits that are checked and applied in one transaction.
#[derive(Clone, Debug, Default)]
#[must_use = "edits that are not committed change nothing"]
pub struct Batch {
    /// The edits. No two may name the same ref.
    pub edits: Vec<Edit>,
    /// How the edits are checked and applied.
    pub options: TransactionOptions,
    /// The types of new objects that the caller knows already. [`ViewSettings::objects`](crate::ViewSettings::objects)
    /// says where those of other objects come from.
    pub known: BTreeMap<ObjectId, ObjectClass>,
    /// The committer for reflog entries; `None` for the one of the view's settings.
    pub committer: Option<Ident>,
    /// What is known of the values in the global ref database.
    pub agreement: Agreement,
}

/// What is known of the values that the global ref database has of a [`Batch`]'s refs.
#[derive(Clone, Debug, Default)]
pub enum Agreement {
    /// Nothing. If there is such a database, it must be asked.
    #[default]
    Unknown,
    /// They are the new ones of the batch, so that the database need not be asked.
    Agreed,
    /// They are the new ones of the batch according to the intent with this id, which the batch settles. If the intent
    /// is gone when the refs are locked, because somebody else has settled it, the batch changes nothing.
    Settles(String),
}

impl Batch {
    /// A batch in which one rejected edit rejects all. [`View::commit`](crate::View::commit) says what remains of
    /// such a batch after an I/O error or a crash.
    pub fn atomic(edits: Vec<Edit>) -> Self {
        Batch { edits, ..Batch::default() }
    }

    /// A batch whose edits are accepted or rejected one by one, though they are applied in one transaction.
    pub fn per_edit(edits: Vec<Edit>) -> Self {
        let options = TransactionOptions::new().mode(Mode::PerEdit);
        Batch { edits, options, ..Batch::default() }
    }

    /// Adds the type of a new object, so that the object need not be read.
    pub fn knowing(mut self, id: ObjectId, class: ObjectClass) -> Self {
        self.known.insert(id, class);
        self
    }
}

/// The result of a batch that was committed.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The edits that were rejected, by position. Empty for an atomic batch, where a rejection is an error.
    pub rejected: Vec<(usize, Rejection)>,
    /// The number of batches that were written together, including this one.
    pub group: usize,
    /// Whether this batch counts its group in the statistics.
    pub(crate) leads: bool,
}

/// An [`ObjectCheck`] that has the types that the batch brings, and asks `others` for the types of other objects.
struct Known<'a> {
    known: &'a BTreeMap<ObjectId, ObjectClass>,
    others: &'a dyn ObjectCheck,
}

impl ObjectCheck for Known<'_> {
    fn classify(&self, id: &ObjectId) -> std::result::Result<ObjectClass, ObjectError> {
        match self.known.get(id) {
            Some(class) => Ok(*class),
            None => self.others.classify(id),
        }
    }
}

/// An arbiter that records that the arbiter behind it has been told of a batch. From then on, only the caller may
/// repeat the batch.
pub(crate) struct Noting<'a> {
    pub(crate) arbiter: &'a mut dyn Arbiter,
    pub(crate) has_begun: &'a Cell<bool>,
}

impl Arbiter for Noting<'_> {
    fn begin(&mut self, refs: &[GlobalRef]) -> refdb::Result<Option<Mark>> {
        let before = self.has_begun.replace(true);
        assert!(!before, "the global ref database is told of a batch once");
        self.arbiter.begin(refs)
    }

    fn ask(&mut self) -> Verdict {
        self.arbiter.ask()
    }
}

/// Commits a batch in a transaction of its own.
pub(crate) fn commit_in(context: Context<'_>, batch: &Batch) -> Result<Outcome> {
    commit_by(context, batch, &mut |transaction| transaction.commit())
}

/// Commits a batch in a transaction of its own if the global ref database agrees.
pub(crate) fn commit_agreed_in(store: &Store, batch: &Batch, arbiter: &mut dyn Arbiter) -> Result<Outcome> {
    let intents = store.global_intents();
    commit_by(beyond_global(store.context()), batch, &mut |transaction| {
        commit_agreed(transaction.prepare()?, &intents, arbiter)
    })
}

/// Commits a batch that settles the intent with this id, unless the intent is gone.
pub(crate) fn commit_settling_in(store: &Store, batch: &Batch, id: &str) -> Result<Outcome> {
    let intents = store.global_intents();
    commit_by(beyond_global(store.context()), batch, &mut |transaction| {
        let committed = commit_settling(transaction.prepare()?, &intents, id)?;
        Ok(committed.unwrap_or(Committed { rejected: Vec::new() }))
    })
}

/// The context without the ban on changing refs past the global ref database. It is for transactions that ask that
/// database, or already know its answer.
pub(crate) fn beyond_global(context: Context<'_>) -> Context<'_> {
    let forbidden = context.forbidden.filter(|why| !matches!(why, Misuse::Global { .. }));
    Context { forbidden, ..context }
}

type Commit<'a> = dyn FnMut(Transaction<'_>) -> refdb::Result<Committed> + 'a;

fn commit_by(context: Context<'_>, batch: &Batch, commit: &mut Commit<'_>) -> Result<Outcome> {
    let objects = Known { known: &batch.known, others: context.objects };
    let committer = || batch.committer.clone().map_or_else(context.committer, Ok);
    let context = Context { objects: &objects, committer: &committer, ..context };
    let mut transaction = Transaction::new(context, batch.options);
    for edit in &batch.edits {
        transaction.add(edit.clone())?;
    }
    let committed = commit(transaction)?;
    debug_assert!(committed.rejected.iter().all(|(at, _)| *at < batch.edits.len()), "a rejection is of an edit");
    Ok(Outcome { rejected: committed.rejected, group: 1, leads: true })
}
