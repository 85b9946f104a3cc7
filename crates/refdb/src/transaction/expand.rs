//! Determines which refs an edit really concerns: where symbolic refs lead, and whether HEAD's reflog gets an entry.

use super::{
    TransactionOptions,
    edits::{Action, Edits, Item},
    names::may_be_followed_to,
};
use crate::{Backend, RejectionReason, Result, backend::TargetView};
use bstr::{BStr, BString, ByteSlice};
use std::collections::BTreeMap;

/// The known values of symbolic refs. They may have been read without a lock; [`confirm`] corrects them by what was
/// read under the locks.
#[derive(Default)]
pub(super) struct Links {
    followed: BTreeMap<BString, BString>,
    /// Where HEAD leads, if it is symbolic and either is edited or has or gets a reflog.
    pub(super) logged_head: Option<BString>,
}

/// An edit that is refused because of where symbolic refs lead: the item, and why.
pub(super) type Unfollowable = (u32, RejectionReason);

impl Links {
    pub(super) fn learn(&mut self, name: &BStr, target: &BStr) {
        self.followed.insert(name.to_owned(), target.to_owned());
    }

    pub(super) fn forget(&mut self, name: &BStr) {
        self.followed.remove(name);
    }
}

/// Adds the items that follow from the `added` edits, and sorts all items. Returns the edits that cannot be followed,
/// and an edit of HEAD itself beside one of the ref to which HEAD leads.
pub(super) fn expand(
    edits: &mut Edits,
    added: usize,
    links: &Links,
    options: TransactionOptions,
) -> Result<Vec<Unfollowable>> {
    let mut unfollowable = Vec::new();
    for name in links.followed.keys() {
        let Some(mut from) = edits.find(name.as_bstr()).filter(|at| (*at as usize) < added) else { continue };
        while let Some(target) = next(edits, from, links) {
            if !may_be_followed_to(target.as_bstr(), options) {
                unfollowable.push((from, RejectionReason::BadTarget { target }));
                break;
            }
            if item_named(edits, added, target.as_bstr()).is_some() {
                unfollowable.push((from, RejectionReason::TargetEdited { target }));
                break;
            }
            from = edits.follow(from, target.as_bstr())?;
        }
    }
    if let Some(head) = &links.logged_head
        && let Some(of) = item_named(edits, added, head.as_bstr())
    {
        match item_named(edits, added, BStr::new("HEAD")) {
            None => edits.log_also(BStr::new("HEAD"), of)?,
            Some(own) if leads_to(edits, own, of) => {}
            Some(own) => {
                unfollowable.push((own, RejectionReason::ReferentEdited { referent: head.clone() }));
            }
        }
    }
    if edits.items.len() > added {
        edits.sort();
    }
    Ok(unfollowable)
}

/// Where the ref of this item leads, if the edit is to follow it.
fn next(edits: &Edits, from: u32, links: &Links) -> Option<BString> {
    let item: &Item = &edits.items[from as usize];
    if item.deref { links.followed.get(edits.text(item.name)).cloned() } else { None }
}

/// Finds the item of this name. Added items are sorted, and those that follow from them are few.
fn item_named(edits: &Edits, added: usize, name: &BStr) -> Option<u32> {
    debug_assert!(added <= edits.items.len(), "what follows stands behind what was added: {added}");
    let following = (added..edits.items.len()).map(|at| at as u32);
    edits.find(name).or_else(|| following.into_iter().find(|at| edits.name(*at) == name))
}

fn leads_to(edits: &Edits, mut from: u32, to: u32) -> bool {
    while let Action::LogOnly(next) = edits.items[from as usize].action {
        if next == to {
            return true;
        }
        debug_assert_ne!(next, from, "no symbolic ref is followed to itself");
        from = next;
    }
    false
}

/// Compares what the walk found under the locks with what the expansion assumed. Returns whether the assumptions were
/// right; if not, corrects `links`.
pub(super) fn confirm(edits: &Edits, links: &mut Links, backend: &dyn Backend) -> bool {
    let mut confirmed = true;
    debug_assert!(edits.is_sorted(), "every item was looked at");
    for at in &edits.order {
        let item = &edits.items[*at as usize];
        if item.rejected {
            // The item was refused because of where symbolic refs lead, and stays refused.
            continue;
        }
        let symbolic = match item.old.map(|old| edits.view(old)) {
            Some(TargetView::Symbolic(target)) => Some(backend.canonical_name(target)),
            _ => None,
        };
        let expected = match item.action {
            Action::LogOnly(to) => Some(edits.name(to)),
            _ if !item.deref => continue,
            _ => None,
        };
        if symbolic == expected {
            continue;
        }
        confirmed = false;
        let name = edits.text(item.name);
        if name == "HEAD" && links.logged_head.is_some() {
            links.logged_head = symbolic.map(ToOwned::to_owned);
        }
        match symbolic {
            Some(target) => links.learn(name, target),
            None => links.forget(name),
        }
    }
    confirmed
}
