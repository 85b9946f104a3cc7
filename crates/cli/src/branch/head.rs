use crate::{
    failure::{Result, message},
    for_each_ref::history::History,
    listing::follow,
    names,
    session::Session,
};
use bstr::{BStr, BString, ByteSlice};
use refdb::{Snapshot, Target};
use refdb_types::{FormatOptions, ObjectId, RefName, SYMREF_DEPTH_MAX, check_format};
use std::{fs, ops::ControlFlow, path::Path};

/// What HEAD points at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// A branch, which may not have a commit yet.
    Branch(BString),
    Detached(ObjectId),
    /// HEAD is missing, holds a null id, or leads to no branch that can be read.
    Odd,
}

impl Head {
    pub(super) fn of(snapshot: &dyn Snapshot) -> Self {
        let Ok(mut name) = RefName::new("HEAD") else { return Head::Odd };
        for _ in 0..SYMREF_DEPTH_MAX {
            if check_format(name.as_bstr(), FormatOptions { allow_onelevel: true, ..FormatOptions::default() }).is_err()
            {
                return Head::Odd;
            }
            let is_head = name.as_bstr() == "HEAD";
            match snapshot.get(name.as_bstr()) {
                Ok(Some(Target::Symbolic(next))) => name = next,
                Ok(Some(Target::Direct(id))) if is_head && !id.is_null() => return Head::Detached(id),
                Ok(_) if name.starts_with(b"refs/heads/") => return Head::Branch(name.into()),
                Ok(_) | Err(_) => return Head::Odd,
            }
        }
        Head::Odd
    }
}

/// Returns the text that git shows in place of a branch for a detached HEAD, which points at `id`.
pub(super) fn description(
    session: &Session,
    snapshot: &dyn Snapshot,
    history: &History<'_>,
    id: &ObjectId,
) -> Result<BString> {
    let folder = &session.paths.git_dir;
    let from = detached_from(session, snapshot, history)?;
    let is_applying = folder.join("rebase-apply/applying").exists();
    let rebase = ["rebase-apply", "rebase-merge"].into_iter().find(|name| folder.join(name).is_dir());
    if let Some(rebase) = rebase.filter(|_| !is_applying) {
        return Ok(match branch_in(session, &folder.join(rebase).join("head-name"))? {
            Some(branch) => message!["(no branch, rebasing ", branch, ")"],
            None => {
                let from = from.map_or_else(BString::default, |(from, _)| from);
                message!["(no branch, rebasing detached HEAD ", from, ")"]
            }
        });
    }
    if folder.join("BISECT_LOG").exists() {
        let started = branch_in(session, &folder.join("BISECT_START"))?.unwrap_or_default();
        return Ok(message!["(no branch, bisect started on ", started, ")"]);
    }
    Ok(match from {
        Some((from, at)) if at == *id => message!["(HEAD detached at ", from, ")"],
        Some((from, _)) => message!["(HEAD detached from ", from, ")"],
        None => "(no branch)".into(),
    })
}

/// Returns what the last checkout in HEAD's reflog moved HEAD to: a name and the commit. The name is that of the ref
/// that was checked out, without `refs/tags/` or `refs/remotes/`, if this ref still leads to the same commit; otherwise
/// it is the commit's abbreviated id. Returns `None` if the reflog does not say what that was.
fn detached_from(
    session: &Session,
    snapshot: &dyn Snapshot,
    history: &History<'_>,
) -> Result<Option<(BString, ObjectId)>> {
    let mut moved = None;
    snapshot.log("HEAD".into(), &mut |entry| {
        let Some((_, to)) = entry.checkout() else {
            return ControlFlow::Continue(());
        };
        moved = Some((to.to_owned(), entry.new));
        ControlFlow::Break(())
    })?;
    let Some((name, id)) = moved else { return Ok(None) };
    let named = names::only(snapshot, name.as_bstr()).filter(|_| name != "HEAD");
    if let Some(named) = named
        && leads_to(snapshot, history, named.as_bstr(), &id)?
    {
        let folders: [&[u8]; 2] = [b"refs/tags/", b"refs/remotes/"];
        let short = folders.iter().find_map(|folder| named.strip_prefix(*folder));
        return Ok(Some((short.unwrap_or(&named).into(), id)));
    }
    Ok(Some((short(session, &id)?, id)))
}

/// Returns whether the ref `name` leads to the commit, directly or through symbolic refs or tags.
fn leads_to(snapshot: &dyn Snapshot, history: &History<'_>, name: &BStr, commit: &ObjectId) -> Result<bool> {
    let Some((_, id)) = follow(snapshot, name)? else { return Ok(false) };
    Ok(id == *commit || history.peel_to_commit(id)? == Some(*commit))
}

fn short(session: &Session, id: &ObjectId) -> Result<BString> {
    let hex = id.to_string();
    Ok(hex[..session.abbreviate(id, None)?].into())
}

/// Reads the branch or object id that git wrote into a file for an operation in progress, and returns the branch's
/// short name or the abbreviated id. Returns any other text without its final line feeds, and `None` if the file is
/// empty but for these, says `detached HEAD` or cannot be read.
fn branch_in(session: &Session, file: &Path) -> Result<Option<BString>> {
    let Ok(text) = fs::read(file) else { return Ok(None) };
    let text = text.trim_end_with(|char| char == '\n').as_bstr();
    if let Some(branch) = text.strip_prefix(b"refs/heads/") {
        return Ok(Some(branch.into()));
    }
    if let Ok(id) = ObjectId::from_hex(session.store.repository().hash(), text) {
        return Ok(Some(short(session, &id)?));
    }
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty() && text != "detached HEAD"))
}
