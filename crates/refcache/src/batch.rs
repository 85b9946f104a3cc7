use crate::Result;
use refdb::{
    Committed, Edit, Misuse, ObjectError, Rejection, Store,
    global::{Arbiter, GlobalRef, Mark, Verdict, commit_agreed},
    transaction::{Context, Mode, ObjectCheck, ObjectClass, Transaction, TransactionOptions},
};
use refdb_types::{Ident, ObjectId};
use std::{cell::Cell, collections::BTreeMap};

/// Edits that are checked and made in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The edits.
    pub edits: Vec<Edit>,
    /// What one impossible edit means for the others, and which of git's checks are left out.
    pub options: TransactionOptions,
    /// What new ids are, where the caller has looked already. Others are asked of the repository.
    pub known: BTreeMap<ObjectId, ObjectClass>,
    /// Who the reflog says it was; `None` for whom the view's settings name.
    pub committer: Option<Ident>,
    /// Whether the global ref database has these values already, so that it need not be asked.
    pub agreed: bool,
}

impl Batch {
    /// A batch that happens whole or not at all.
    pub fn atomic(edits: Vec<Edit>) -> Self {
        Batch { edits, ..Batch::default() }
    }

    /// A batch whose edits happen each for itself, in one transaction all the same.
    pub fn per_edit(edits: Vec<Edit>) -> Self {
        let options = TransactionOptions { mode: Mode::PerEdit, ..TransactionOptions::default() };
        Batch { edits, options, ..Batch::default() }
    }

    /// Says what an id is, so that it need not be read.
    #[must_use]
    pub fn knowing(mut self, id: ObjectId, class: ObjectClass) -> Self {
        self.known.insert(id, class);
        self
    }
}

/// What came of a batch.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The edits that did not happen, by position. None if the batch is atomic: then a rejection is an error.
    pub rejected: Vec<(usize, Rejection)>,
    /// How many batches were made durable together with this one, itself included.
    pub group: usize,
    /// Whether it stands for its group where groups are counted.
    pub(crate) leads: bool,
}

/// Answers from the batch first.
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

/// An arbiter of which it is noted that it was told of a transaction.
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

/// Makes a batch in one transaction of its own.
pub(crate) fn commit_in(context: Context<'_>, batch: &Batch) -> Result<Outcome> {
    commit_by(context, batch, &mut |transaction| transaction.commit())
}

/// The same if the global ref database agrees.
pub(crate) fn commit_agreed_in(store: &Store, batch: &Batch, arbiter: &mut dyn Arbiter) -> Result<Outcome> {
    let intents = store.global_intents();
    commit_by(beyond_global(store.context()), batch, &mut |transaction| {
        commit_agreed(transaction.prepare()?, &intents, arbiter)
    })
}

/// The context for those that ask the global ref database, or know what it says.
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
