use super::{Fault, Limits};
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, ObjectId};

/// A command of a push: to change a ref from the value `old`, which the client believes it to have, to `new`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command<'a> {
    /// The value that the client knows, or the null id if it knows no such ref.
    pub old: ObjectId,
    /// The value to set, or the null id to delete the ref.
    pub new: ObjectId,
    /// The name of the ref, as the client sent it. It need not be a valid refname.
    pub name: &'a BStr,
}

impl Command<'_> {
    /// Returns whether the command deletes the ref.
    pub fn deletes(&self) -> bool {
        self.new.is_null()
    }

    /// Returns whether the command creates the ref.
    pub fn creates(&self) -> bool {
        self.old.is_null() && !self.new.is_null()
    }
}

/// The commands of a push, in the client's order. All names share one buffer, because there may be millions of
/// commands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commands {
    names: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    old: ObjectId,
    new: ObjectId,
    name_end: u32,
}

impl Commands {
    /// The number of bytes of memory that a command takes besides its name.
    pub const COMMAND_BYTES: usize = size_of::<Item>();

    /// Returns the number of commands.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the command at position `at`.
    ///
    /// # Panics
    ///
    /// Panics if `at` is not less than [`len`](Self::len).
    pub fn get(&self, at: usize) -> Command<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.items[before].name_end);
        let Item { old, new, name_end } = self.items[at];
        Command { old, new, name: self.names[start as usize..name_end as usize].as_bstr() }
    }

    /// Iterates over the commands, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Command<'_>> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Returns whether every command deletes a ref, in which case no pack follows the request.
    pub fn only_delete(&self) -> bool {
        self.items.iter().all(|item| item.new.is_null())
    }

    /// Parses a command of the form `OLD NEW NAME` and adds it.
    pub(super) fn add(&mut self, text: &[u8], hash: HashKind, limits: &Limits) -> Result<(), Fault> {
        let (old, new, name) = parse(text, hash).ok_or_else(|| Fault::Command(text.into()))?;
        let bytes = self.names.len() + name.len() + (self.items.len() + 1) * Self::COMMAND_BYTES;
        let too_much = Fault::TooMuch { what: "commands", limit: limits.commands_bytes };
        if bytes > limits.commands_bytes {
            return Err(too_much);
        }
        self.names.extend_from_slice(name);
        let name_end = u32::try_from(self.names.len()).map_err(|_| too_much)?;
        self.items.push(Item { old, new, name_end });
        Ok(())
    }
}

fn parse(text: &[u8], hash: HashKind) -> Option<(ObjectId, ObjectId, &[u8])> {
    let digits = hash.len_hex();
    let (old, rest) = text.split_at_checked(digits)?;
    let (new, rest) = rest.strip_prefix(b" ")?.split_at_checked(digits)?;
    let name = rest.strip_prefix(b" ")?;
    Some((ObjectId::from_hex(hash, old).ok()?, ObjectId::from_hex(hash, new).ok()?, name))
}
