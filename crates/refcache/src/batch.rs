use crate::Result;
use refdb::{
    Edit, ObjectError, Rejection,
    transaction::{Context, Mode, ObjectCheck, ObjectClass, Transaction, TransactionOptions},
};
use refdb_types::{Ident, ObjectId};
use std::collections::BTreeMap;

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

/// Makes a batch in one transaction of its own.
pub(crate) fn commit_in(context: Context<'_>, batch: &Batch) -> Result<Outcome> {
    let objects = Known { known: &batch.known, others: context.objects };
    let committer = || batch.committer.clone().map_or_else(context.committer, Ok);
    let context = Context { objects: &objects, committer: &committer, ..context };
    let mut transaction = Transaction::new(context, batch.options);
    for edit in &batch.edits {
        transaction.add(edit.clone())?;
    }
    let committed = transaction.commit()?;
    debug_assert!(committed.rejected.iter().all(|(at, _)| *at < batch.edits.len()), "a rejection is of an edit");
    Ok(Outcome { rejected: committed.rejected, group: 1, leads: true })
}
