//! The usual edits, by name.

use super::{Transaction, TransactionOptions};
use crate::{Change, Edit, Misuse, Precondition, Result, Target};
use bstr::BString;
use refdb_types::{ObjectId, RefName};

/// What [`Transaction::update`] and [`Transaction::delete`] expect of a ref: this value.
pub fn was(old: impl Into<Target>) -> Precondition {
    Precondition::MustMatch(old.into())
}

impl Transaction<'_> {
    /// Sets what holds for the whole transaction. Call it before edits are added.
    pub fn options(&mut self, options: TransactionOptions) -> &mut Self {
        self.set_options(options);
        self
    }

    /// Makes a ref that must not exist.
    ///
    /// A symbolic ref stands for the ref that it leads to, here and in the following calls. If `new` is a refname, the
    /// ref itself becomes symbolic.
    pub fn create(&mut self, name: impl AsRef<[u8]>, new: impl Into<Target>) -> Result<&mut Self> {
        self.update(name, new, Precondition::MustNotExist)
    }

    /// Gives a ref a new value: `tx.update("refs/heads/main", new, was(old))`.
    pub fn update(
        &mut self,
        name: impl AsRef<[u8]>,
        new: impl Into<Target>,
        expected: Precondition,
    ) -> Result<&mut Self> {
        let new = new.into();
        let deref = new.symbolic().is_none();
        self.edit(name, Change::Set(new), expected, deref)
    }

    /// Removes a ref and its reflog.
    pub fn delete(&mut self, name: impl AsRef<[u8]>, expected: Precondition) -> Result<&mut Self> {
        self.edit(name, Change::Delete, expected, true)
    }

    /// Gives a ref that has this value another name, and takes its reflog along. Symbolic refs are not followed.
    ///
    /// In files the transaction should ask for [`atomic_visibility`](TransactionOptions::atomic_visibility), so that a crash
    /// leaves either the old name or the new one.
    pub fn rename(&mut self, old: &RefName, new: &RefName, id: ObjectId) -> Result<&mut Self> {
        let plain =
            |name: &RefName, change, expected| Edit { deref: false, ..Edit::new(name.clone(), change, expected) };
        self.add(plain(old, Change::Delete, was(id)))?;
        let mut edit = plain(new, Change::Set(Target::Direct(id)), Precondition::MustNotExist);
        edit.log.take_over = Some(old.clone());
        self.add(edit)?;
        Ok(self)
    }

    /// Changes nothing, but fails the transaction if the ref is not as expected.
    pub fn verify(&mut self, name: impl AsRef<[u8]>, expected: Precondition) -> Result<&mut Self> {
        self.edit(name, Change::Verify, expected, true)
    }

    /// What the reflogs say of all edits that have no message of their own.
    pub fn message(&mut self, message: impl Into<BString>) -> &mut Self {
        self.set_message(message.into());
        self
    }

    fn edit(
        &mut self,
        name: impl AsRef<[u8]>,
        change: Change,
        expected: Precondition,
        deref: bool,
    ) -> Result<&mut Self> {
        let name = name.as_ref();
        let checked = RefName::new_safe(name).ok_or_else(|| Misuse::BadName(name.into()))?;
        self.add(Edit { deref, ..Edit::new(checked, change, expected) })?;
        Ok(self)
    }
}
