//! The edits of a transaction in compact form: each distinct id is stored once, and normally there is no allocation for
//! each edit.

use super::{Mode, ids::Ids, message::normalize_message};
use crate::{Change, Edit, Limit, Precondition, Rejection, RejectionReason, Result, Target, TargetView};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{ObjectId, RefName};
use std::{collections::BTreeMap, sync::Arc};

/// A piece of [`Edits::text`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

/// A [`Target`] whose id or name is stored in [`Edits`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Direct(u32),
    Symbolic(Span),
}

/// What an item does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Set(Value),
    Delete,
    Verify,
    /// Only logs, in the reflog of a symbolic ref, what happens to the item at this position, to which the ref leads.
    LogOnly(u32),
}

/// One ref that the transaction deals with. An item is an edit as it was added, or follows from one: for the ref to
/// which a symbolic ref leads, or for the reflog of HEAD.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) name: Span,
    pub(super) action: Action,
    pub(super) expected: Precondition<Value>,
    /// The value under the lock; `None` if the ref does not exist, or is broken.
    pub(super) old: Option<Value>,
    /// Whether the ref's file cannot be read or parsed.
    pub(super) is_broken: bool,
    /// The index of the item's message in `messages`, or [`NO_MESSAGE`].
    message: u32,
    /// The number of edits that were added before the edit that this item is or follows from.
    pub(super) position: u32,
    /// The index of the added item from which this one follows, or its own index. Errors carry that item's name.
    pub(super) root: u32,
    pub(super) deref: bool,
    pub(super) force_log: bool,
    pub(super) suppress_log: bool,
    pub(super) rejected: bool,
    /// Whether the edit was rejected in an earlier attempt and takes no part in this one.
    pub(super) left_out: bool,
    /// Whether a reflog entry is due.
    pub(super) logs: bool,
}

/// All items of a transaction. The items that were added come first, then those that follow from them.
#[derive(Default)]
pub(super) struct Edits {
    text: Vec<u8>,
    pub(super) items: Vec<Item>,
    pub(super) ids: Ids,
    messages: Vec<BString>,
    /// The last message as it was given: most transactions have one for all edits.
    last_message: Option<Arc<BString>>,
    /// Positions in `items`, in order of name, without the items that are left out.
    pub(super) order: Vec<u32>,
    /// The actions of items before they became [`Action::LogOnly`], for [`Edits::reset`].
    followed: Vec<(u32, Action)>,
    /// The message of the edits that have none of their own.
    usual_message: BString,
    /// The names that the caller gave to items, where they differ from the [canonical](crate::Backend::canonical_name)
    /// ones.
    given: BTreeMap<u32, Span>,
    /// The refs whose reflogs items take over.
    sources: BTreeMap<u32, Span>,
}

const NO_MESSAGE: u32 = u32::MAX;

impl Edits {
    pub(super) fn text(&self, span: Span) -> &BStr {
        self.text[span.start as usize..][..span.len as usize].as_bstr()
    }

    pub(super) fn name(&self, item: u32) -> &BStr {
        self.text(self.items[item as usize].name)
    }

    /// The name as the caller spelt it, for messages about the item; the canonical name for an item that was not added
    /// by the caller.
    pub(super) fn shown(&self, item: u32) -> &BStr {
        self.given.get(&item).map_or_else(|| self.name(item), |given| self.text(*given))
    }

    /// The ref whose reflog the item takes over.
    pub(super) fn source(&self, item: u32) -> Option<&BStr> {
        self.sources.get(&item).map(|source| self.text(*source))
    }

    /// A ref whose reflog an item takes over although the ref is not sure to go: no other item deletes it, the deletion
    /// follows it to another ref, or in per-edit mode either of the two items may be rejected alone. The items must be
    /// sorted.
    pub(super) fn kept_source(&self, mode: Mode) -> Option<&BStr> {
        let goes = |taker: u32, source: &BStr| {
            let deleted = self.find(source).filter(|at| self.items[*at as usize].action == Action::Delete);
            mode == Mode::Atomic && deleted.is_some_and(|at| at != taker)
        };
        let mut sources = self.sources.iter().map(|(taker, source)| (*taker, self.text(*source)));
        sources.find(|(taker, source)| !goes(*taker, source)).map(|(_, source)| source)
    }

    /// The name that [`shown`](Self::shown) returns, as a [`RefName`].
    pub(super) fn shown_name(&self, item: u32) -> RefName {
        RefName::new_safe(self.shown(item).to_vec()).expect("names were checked when they came in")
    }

    /// A rejection of this item.
    pub(super) fn rejection(&self, item: u32, reason: RejectionReason) -> Rejection {
        let root = self.items[item as usize].root;
        assert!(self.items[root as usize].root == root, "a rejection must name the edit that the caller gave");
        let given = self.shown_name(root);
        // The target of a symbolic ref on disk was never checked.
        let resolved = RefName::new_safe(self.shown(item).to_vec()).unwrap_or_else(|| given.clone());
        Rejection { given, resolved, reason }
    }

    /// Sets the message of all edits that have none of their own.
    pub(super) fn set_message(&mut self, message: &BStr) {
        self.usual_message = normalize_message(message);
    }

    pub(super) fn message(&self, item: &Item) -> &BStr {
        match item.message {
            NO_MESSAGE => self.usual_message.as_bstr(),
            at => self.messages[at as usize].as_bstr(),
        }
    }

    pub(super) fn view(&self, value: Value) -> TargetView<'_> {
        match value {
            Value::Direct(id) => TargetView::Direct(self.ids.get(id)),
            Value::Symbolic(name) => TargetView::Symbolic(self.text(name)),
        }
    }

    /// Adds an edit that passed its checks. `plain` is the canonical form of its name, and `source` that of the ref whose
    /// reflog it takes over.
    pub(super) fn add(&mut self, edit: &Edit, plain: &BStr, source: Option<&BStr>, position: u32) -> Result<()> {
        let root = self.items.len() as u32;
        debug_assert!(self.items.last().is_none_or(|last| last.position < position), "edits come in turn: {position}");
        debug_assert!(edit.name.ends_with(plain), "the plain name is the end of the one that was given");
        if plain.len() != edit.name.len() {
            let given = self.store(&edit.name)?;
            self.given.insert(root, given);
        }
        if let Some(source) = source {
            let source = self.store(source)?;
            self.sources.insert(root, source);
        }
        let item = Item {
            name: self.store(plain)?,
            action: match &edit.change {
                Change::Set(target) => Action::Set(self.value(target)?),
                Change::Delete => Action::Delete,
                Change::Verify => Action::Verify,
            },
            expected: edit.expected.try_map(|target| self.value(target))?,
            old: None,
            is_broken: false,
            message: edit.log.message.as_ref().map_or(NO_MESSAGE, |message| self.intern_message(message)),
            position,
            root,
            deref: edit.deref,
            // A deletion asks for no reflog.
            force_log: edit.log.force_create && !matches!(edit.change, Change::Delete),
            suppress_log: edit.log.suppress,
            rejected: false,
            left_out: false,
            logs: false,
        };
        self.items.push(item);
        Ok(())
    }

    pub(super) fn store(&mut self, bytes: &[u8]) -> Result<Span> {
        let too_much = |_| Limit::Names;
        let start = u32::try_from(self.text.len()).map_err(too_much)?;
        let len = u32::try_from(bytes.len()).map_err(too_much)?;
        self.text.extend_from_slice(bytes);
        Ok(Span { start, len })
    }

    fn value(&mut self, target: &Target) -> Result<Value> {
        Ok(match target {
            Target::Direct(id) => Value::Direct(self.ids.intern(id)),
            Target::Symbolic(name) => Value::Symbolic(self.store(name)?),
        })
    }

    fn intern_message(&mut self, message: &Arc<BString>) -> u32 {
        if !self.last_message.as_ref().is_some_and(|last| Arc::ptr_eq(last, message)) {
            self.messages.push(normalize_message(message.as_bstr()));
            self.last_message = Some(Arc::clone(message));
        }
        self.messages.len() as u32 - 1
    }

    /// Sorts by name all items that are not left out. Returns the first two of the same name, if there are any.
    pub(super) fn sort(&mut self) -> Option<(u32, u32)> {
        self.order.clear();
        self.order.extend((0..self.items.len() as u32).filter(|at| !self.items[*at as usize].left_out));
        let Edits { text, items, order, .. } = self;
        let name = |at: &u32| {
            let span = items[*at as usize].name;
            &text[span.start as usize..][..span.len as usize]
        };
        // Most callers add their edits sorted, which one pass finds out. In that case no name occurs twice, either.
        if order.is_sorted_by(|a, b| name(a) < name(b)) {
            return None;
        }
        if !refdb_vfs::planted("refdb-steps") {
            order.sort_by(|a, b| name(a).cmp(name(b)));
        }
        order.windows(2).find(|pair| name(&pair[0]) == name(&pair[1])).map(|pair| (pair[0], pair[1]))
    }

    /// Returns whether `order` has each item that is not left out, sorted by name and without repetition.
    pub(super) fn is_sorted(&self) -> bool {
        let count = self.items.iter().filter(|item| !item.left_out).count();
        self.order.len() == count && self.order.is_sorted_by(|a, b| self.name(*a) < self.name(*b))
    }

    /// The item of this name. The items must be sorted.
    pub(super) fn find(&self, name: &BStr) -> Option<u32> {
        debug_assert!(self.order.len() <= self.items.len(), "an item has one place in the order");
        let found = self.order.binary_search_by(|at| self.name(*at).cmp(name));
        found.ok().map(|at| self.order[at])
    }

    /// The item with the longest name that this item's name lies below. The items must be sorted.
    pub(super) fn parent(&self, item: u32) -> Option<u32> {
        let name = self.name(item);
        name.rfind_iter("/").find_map(|end| self.find(name[..end].as_bstr()))
    }

    /// The first item of this name. The items need not be sorted.
    pub(super) fn first_of(&self, name: &BStr) -> Option<u32> {
        (0..self.items.len() as u32).find(|at| self.name(*at) == name)
    }

    /// The range of `order` whose names lie below `name`, that is, begin with `NAME/`.
    pub(super) fn below(&self, name: &BStr) -> std::ops::Range<usize> {
        let before = |end: u8| {
            let bound = [name.as_bytes(), &[end]].concat();
            self.order.partition_point(|at| self.name(*at) < bound.as_bstr())
        };
        let (start, end) = (before(b'/'), before(b'/' + 1));
        debug_assert!(
            self.order[start..end].iter().all(|at| self.name(*at).starts_with(name)),
            "what lies below a name stands together"
        );
        start..end
    }

    /// Adds an item that follows from `from`: the same edit for the ref `to`, to which `from` leads. `from` itself then
    /// only gets a reflog entry.
    pub(super) fn follow(&mut self, from: u32, to: &BStr) -> Result<u32> {
        let name = self.store(to)?;
        let at = self.items.len() as u32;
        assert!(!matches!(self.items[from as usize].action, Action::LogOnly(_)), "an edit is followed once");
        self.items.push(Item { name, ..self.items[from as usize] });
        self.followed.push((from, self.items[from as usize].action));
        self.items[from as usize].action = Action::LogOnly(at);
        Ok(at)
    }

    /// Restores the first `added` items as they were added, except that those left out stay rejected, and drops all
    /// other items.
    pub(super) fn reset(&mut self, added: usize) {
        for (at, action) in self.followed.drain(..) {
            self.items[at as usize].action = action;
        }
        debug_assert!(added <= self.items.len(), "edits that were added stay: {added}");
        debug_assert!(
            self.items[..added].iter().all(|item| !matches!(item.action, Action::LogOnly(_))),
            "what was added wants something itself"
        );
        self.items.truncate(added);
        let twice = self.sort();
        debug_assert!(twice.is_none(), "an attempt was made with these edits, each of another ref: {twice:?}");
        for item in &mut self.items {
            (item.old, item.is_broken, item.rejected, item.logs) = (None, false, item.left_out, false);
        }
    }

    /// Adds a reflog entry for `name`, a symbolic ref that leads to the item `of`.
    pub(super) fn log_also(&mut self, name: &BStr, of: u32) -> Result<()> {
        debug_assert!(self.find(name).is_none(), "'{name}' has no edit of its own");
        let name = self.store(name)?;
        let of_item = self.items[of as usize];
        self.items.push(Item { name, action: Action::LogOnly(of), expected: Precondition::Any, ..of_item });
        Ok(())
    }

    /// The object id of a value; `None` for a symbolic or missing one.
    pub(super) fn id(&self, value: Option<Value>) -> Option<ObjectId> {
        match value {
            Some(Value::Direct(id)) => Some(self.ids.get(id)),
            Some(Value::Symbolic(_)) | None => None,
        }
    }
}
