//! The usual edits, by name.

use super::{Transaction, TransactionOptions};
use crate::{Change, Edit, Misuse, Precondition, Target};
use bstr::BString;
use refdb_types::{ObjectId, RefName};

/// The precondition that a ref exists and has this value, for [`Transaction::update`] and [`Transaction::delete`].
pub fn was(old: impl Into<Target>) -> Precondition {
    Precondition::MustMatch(old.into())
}

impl Transaction<'_> {
    /// Sets the options of the whole transaction.
    ///
    /// # Panics
    ///
    /// In debug builds, if edits have been added: they were checked under other options.
    pub fn options(&mut self, options: TransactionOptions) -> &mut Self {
        self.set_options(options);
        self
    }

    /// Adds an edit that creates a ref, with the precondition [`Precondition::MustNotExist`].
    ///
    /// Here and in the methods below except [`rename`](Self::rename), a symbolic ref stands for the ref that it leads
    /// to. If `new` is a refname, the ref itself becomes symbolic.
    ///
    /// If an edit cannot be added, here or in the methods below, [`prepare`](Self::prepare) or [`commit`](Self::commit)
    /// returns the first such error, which is one of those of [`add`](Self::add).
    pub fn create(&mut self, name: impl AsRef<[u8]>, new: impl Into<Target>) -> &mut Self {
        self.update(name, new, Precondition::MustNotExist)
    }

    /// Adds an edit that gives a ref a new value: `tx.update("refs/heads/main", new, was(old))`.
    pub fn update(&mut self, name: impl AsRef<[u8]>, new: impl Into<Target>, expected: Precondition) -> &mut Self {
        let new = new.into();
        let deref = new.symbolic().is_none();
        self.edit(name, Change::Set(new), expected, deref)
    }

    /// Adds an edit that removes a ref and its reflog.
    pub fn delete(&mut self, name: impl AsRef<[u8]>, expected: Precondition) -> &mut Self {
        self.edit(name, Change::Delete, expected, true)
    }

    /// Adds the two edits that rename a ref which has this value, and moves its reflog. Symbolic refs are not followed.
    ///
    /// In files, the transaction should ask for [`atomic_visibility`](TransactionOptions::atomic_visibility), so that a
    /// crash leaves either the old name or the new one.
    pub fn rename(&mut self, old: &RefName, new: &RefName, id: ObjectId) -> &mut Self {
        let plain =
            |name: &RefName, change, expected| Edit { deref: false, ..Edit::new(name.clone(), change, expected) };
        self.add_or_fail(Ok(plain(old, Change::Delete, was(id))));
        let mut edit = plain(new, Change::Set(Target::Direct(id)), Precondition::MustNotExist);
        edit.log.take_over = Some(old.clone());
        self.add_or_fail(Ok(edit))
    }

    /// Adds an edit that changes nothing, and is rejected if the ref is not as expected.
    pub fn verify(&mut self, name: impl AsRef<[u8]>, expected: Precondition) -> &mut Self {
        self.edit(name, Change::Verify, expected, true)
    }

    /// Sets the reflog message of all edits that have none of their own.
    pub fn message(&mut self, message: impl Into<BString>) -> &mut Self {
        self.set_message(message.into());
        self
    }

    fn edit(&mut self, name: impl AsRef<[u8]>, change: Change, expected: Precondition, deref: bool) -> &mut Self {
        let name = name.as_ref();
        let checked = RefName::new_safe(name).ok_or_else(|| Misuse::BadName(name.into()).into());
        self.add_or_fail(checked.map(|name| Edit { deref, ..Edit::new(name, change, expected) }))
    }
}
