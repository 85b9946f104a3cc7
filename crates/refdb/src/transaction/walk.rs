//! Reads in one walk, under the locks, the values of the items and the refs above and below items that may be new.

use super::edits::{Action, Edits, Item, Value};
use crate::{
    BrokenRef, Precondition, Result, TargetView,
    backend::{Answers, Probe, Snapshot},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{ObjectId, common_prefix};
use std::{cell::RefCell, collections::VecDeque};

/// What the walk found besides the old values.
#[derive(Default)]
pub(super) struct Findings {
    /// Refs, other than those in `parent_items`, whose names items that may be new need as a folder.
    pub(super) parent_refs: Vec<BString>,
    /// Items whose names other items, which may be new, need as a folder.
    pub(super) parent_items: Vec<u32>,
    /// For each item that may be new and has refs below it, the first of those refs.
    pub(super) children: Vec<BString>,
    /// Items whose refs cannot be read, and why.
    pub(super) broken: Vec<(u32, BrokenRef)>,
}

/// Reads the values of the sorted items, and finds what lies above and below those that may be new.
pub(super) fn walk(edits: &mut Edits, snapshot: &dyn Snapshot) -> Result<Findings> {
    debug_assert!(edits.is_sorted(), "refs are asked for in order of name");
    let parents = parents(edits);
    let asked = RefCell::new(VecDeque::new());
    let mut parent_items = Vec::new();
    let mut taker =
        Taker { edits, asked: &asked, direct: Vec::new(), symbolic: Vec::new(), findings: Findings::default() };
    let mut asks =
        Asks { edits, items: &edits.order, parents: &parents, asked: &asked, parent_items: &mut parent_items };
    snapshot.probe(&mut asks, &mut taker)?;
    let Taker { direct, symbolic, mut findings, .. } = taker;
    assert!(asked.borrow().is_empty(), "each question has its answer");
    findings.parent_items = parent_items;
    for (at, id) in direct {
        edits.items[at as usize].old = Some(Value::Direct(edits.ids.intern(&id)));
    }
    for (at, name) in symbolic {
        edits.items[at as usize].old = Some(Value::Symbolic(edits.store(&name)?));
    }
    Ok(findings)
}

impl Item {
    /// Returns whether the edit may go on if the ref does not exist.
    fn may_be_new(&self) -> bool {
        let expects_none = matches!(
            self.expected,
            Precondition::Any | Precondition::MustNotExist | Precondition::ExistingMustMatch(_)
        );
        expects_none && !matches!(self.action, Action::LogOnly(_))
    }

    /// Returns whether the edit replaces or removes the ref without having to know what it holds.
    pub(super) fn mends_what_is_broken(&self) -> bool {
        matches!(self.action, Action::Set(_) | Action::Delete)
            && matches!(self.expected, Precondition::Any | Precondition::MustNotExist)
    }
}

/// A name to look up.
#[derive(Clone, Copy)]
enum Ask {
    Item(u32),
    Parent(Parent),
}

/// A folder that an item needs: the first `len` bytes of the item's name.
#[derive(Clone, Copy)]
struct Parent {
    of: u32,
    len: u32,
}

impl Parent {
    fn name(self, edits: &Edits) -> &BStr {
        debug_assert_eq!(edits.name(self.of)[self.len as usize], b'/', "a folder's name ends at a slash");
        edits.name(self.of)[..self.len as usize].as_bstr()
    }
}

/// The distinct folders above the items that may be new, sorted.
fn parents(edits: &Edits) -> Vec<Parent> {
    let mut parents = Vec::new();
    let mut last: &BStr = BStr::new("");
    for &of in edits.order.iter().filter(|at| edits.items[**at as usize].may_be_new()) {
        let name = edits.name(of);
        // All names below one folder are adjacent, so a folder of this name is already known exactly if the previous
        // name is below it too.
        let common = common_prefix(last, name);
        for at in common..name.len() {
            if name[at] == b'/' {
                parents.push(Parent { of, len: at as u32 });
            }
        }
        last = name;
    }
    // `a-b/c` sorts before `a/b`, but its folder `a-b` sorts after the folder `a`.
    parents.sort_by(|a, b| a.name(edits).cmp(b.name(edits)));
    debug_assert!(parents.is_sorted_by(|a, b| a.name(edits) < b.name(edits)), "each folder is asked for once");
    parents
}

/// Merges items and parents into the sorted probes of the walk.
struct Asks<'a> {
    edits: &'a Edits,
    items: &'a [u32],
    parents: &'a [Parent],
    asked: &'a RefCell<VecDeque<Ask>>,
    parent_items: &'a mut Vec<u32>,
}

impl<'a> Iterator for Asks<'a> {
    type Item = Probe<'a>;

    fn next(&mut self) -> Option<Probe<'a>> {
        let edits = self.edits;
        let item = self.items.first().map(|at| (*at, edits.name(*at)));
        if let Some(parent) = self.parents.first() {
            let name = parent.name(edits);
            if item.is_none_or(|(_, item)| name < item) {
                self.parents = &self.parents[1..];
                self.asked.borrow_mut().push_back(Ask::Parent(*parent));
                return Some(Probe { name, below: false });
            }
            if item.is_some_and(|(_, item)| name == item) {
                self.parents = &self.parents[1..];
                self.parent_items.extend(item.map(|(at, _)| at));
            }
        }
        let (at, name) = item?;
        self.items = &self.items[1..];
        self.asked.borrow_mut().push_back(Ask::Item(at));
        Some(Probe { name, below: edits.items[at as usize].may_be_new() })
    }
}

/// Collects the answers. Those about the values of refs come in the order of the probes.
struct Taker<'a> {
    edits: &'a Edits,
    asked: &'a RefCell<VecDeque<Ask>>,
    direct: Vec<(u32, ObjectId)>,
    symbolic: Vec<(u32, BString)>,
    findings: Findings,
}

impl Taker<'_> {
    fn next(&self) -> Ask {
        self.asked.borrow_mut().pop_front().expect("each answer has a question before it")
    }
}

impl Answers for Taker<'_> {
    fn value(&mut self, _: usize, value: Option<TargetView<'_>>) -> Result<()> {
        match (self.next(), value) {
            (_, None) => {}
            (Ask::Item(at), Some(TargetView::Direct(id))) => self.direct.push((at, id)),
            (Ask::Item(at), Some(TargetView::Symbolic(name))) => self.symbolic.push((at, name.to_owned())),
            (Ask::Parent(parent), Some(_)) => self.findings.parent_refs.push(parent.name(self.edits).to_owned()),
        }
        Ok(())
    }

    fn broken(&mut self, _: usize, broken: BrokenRef) -> Result<()> {
        match self.next() {
            Ask::Item(at) => self.findings.broken.push((at, broken)),
            // A broken parent exists, which is all that matters.
            Ask::Parent(parent) => self.findings.parent_refs.push(parent.name(self.edits).to_owned()),
        }
        Ok(())
    }

    fn below(&mut self, _: usize, child: &BStr) -> Result<()> {
        self.findings.children.push(child.to_owned());
        Ok(())
    }
}
