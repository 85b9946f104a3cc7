use super::{Fault, Limits};
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, ObjectId};

/// One wish of a client: that a ref, which it believes to be at `old`, be at `new`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command<'a> {
    /// What the client knows; null if it knows of no such ref.
    pub old: ObjectId,
    /// What it wants; null to delete the ref.
    pub new: ObjectId,
    /// The ref, by a name that has not been checked.
    pub name: &'a BStr,
}

impl Command<'_> {
    /// Whether the ref is to be deleted.
    pub fn deletes(&self) -> bool {
        self.new.is_null()
    }

    /// Whether the ref is to be made.
    pub fn creates(&self) -> bool {
        self.old.is_null() && !self.new.is_null()
    }
}

/// The commands of a push, in the client's order. Names lie one behind the other: there may be millions.
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
    /// Bytes that a command needs besides its name.
    pub const COMMAND_BYTES: usize = size_of::<Item>();

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none: the client had nothing to push.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The command at this position. Panics past the end.
    pub fn get(&self, at: usize) -> Command<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.items[before].name_end);
        let Item { old, new, name_end } = self.items[at];
        Command { old, new, name: self.names[start as usize..name_end as usize].as_bstr() }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Command<'_>> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Whether every command deletes a ref, so that no pack follows.
    pub fn only_delete(&self) -> bool {
        self.items.iter().all(|item| item.new.is_null())
    }

    /// Adds the command of this text: `OLD NEW NAME`.
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
