//! Names of objects. See gitrevisions(7).
//!
//! Understood are full and short ids, refs by any of their names, `@`, `REF@{N}`, `@{-N}`, output of git-describe(1),
//! and after them any number of `^`, `^N`, `~N`, `^{}`, `^{TYPE}`, and at the end `:PATH`.

use crate::{
    failure::{Result, say},
    for_each_ref::world::ObjectKind,
    names,
    objects::{Objects, Prefixed},
};
use bstr::{BStr, ByteSlice};
use refdb::Store;
use refdb_types::{ObjectId, RefName};
use std::ops::ControlFlow;

/// Finds the objects that texts name.
pub struct Revisions<'a> {
    /// Where refs are.
    pub store: &'a Store,
    /// Where objects are.
    pub objects: &'a mut Objects,
}

impl Revisions<'_> {
    /// The object that `text` names; `None` if there is none, or if the form is not understood.
    pub fn resolve(&mut self, text: &BStr) -> Result<Option<ObjectId>> {
        if let Ok(id) = ObjectId::from_hex(self.objects.kind(), text) {
            return Ok(Some(id));
        }
        let (revision, path) = match text.find_byte(b':') {
            Some(colon) => (text[..colon].as_bstr(), Some(text[colon + 1..].as_bstr())),
            None => (text, None),
        };
        let Some(id) = self.revision(revision)? else { return Ok(None) };
        match path {
            None => Ok(Some(id)),
            Some(path) => self.path(id, path),
        }
    }

    fn revision(&mut self, text: &BStr) -> Result<Option<ObjectId>> {
        // None of these can stand in a ref's name, and an id has neither.
        let end = text.find_byteset(b"^~").unwrap_or(text.len());
        let Some(mut id) = self.base(text[..end].as_bstr())? else { return Ok(None) };
        let mut rest: &[u8] = &text[end..];
        while let Some((&mark, tail)) = rest.split_first() {
            let braced = tail.strip_prefix(b"{").and_then(|inner| Some((inner, inner.find_byte(b'}')?)));
            let next = match (mark, braced) {
                (b'^', Some((inner, close))) => {
                    rest = &inner[close + 1..];
                    self.peel_to(id, &inner[..close])?
                }
                (b'^' | b'~', _) => {
                    let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    let count = match digits {
                        0 => 1,
                        _ => match tail[..digits].to_str().ok().and_then(|digits| digits.parse().ok()) {
                            Some(count) => count,
                            None => return Ok(None),
                        },
                    };
                    rest = &tail[digits..];
                    if mark == b'^' { self.parent(id, count)? } else { self.ancestor(id, count)? }
                }
                _ => None,
            };
            match next {
                Some(next) => id = next,
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }

    fn base(&mut self, text: &BStr) -> Result<Option<ObjectId>> {
        if text.is_empty() {
            return Ok(None);
        }
        if let Some(start) = text.find(b"@{")
            && let Some(inner) = text[start + 2..].strip_suffix(b"}")
        {
            return self.reflog(text[..start].as_bstr(), inner.as_bstr());
        }
        let name: &BStr = if text == "@" { "HEAD".into() } else { text };
        if let Some(found) = names::find(self.store, name)? {
            if found.ambiguous {
                say("warning: ", &crate::failure::message!["refname '", text, "' is ambiguous."]);
            }
            return Ok(Some(found.id));
        }
        // git-describe(1) puts the id behind the last "-g".
        let described = text.rfind(b"-g").map(|at| text[at + 2..].as_bstr());
        for digits in [Some(text), described].into_iter().flatten() {
            let is_hex = digits.len() >= 4 && digits.iter().all(u8::is_ascii_hexdigit);
            if is_hex && let Prefixed::One(id) = self.objects.by_prefix(digits)? {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// `REF@{N}`, with `REF` empty for the branch that is checked out, or `@{-N}`.
    fn reflog(&mut self, name: &BStr, inner: &BStr) -> Result<Option<ObjectId>> {
        let number = |digits: &[u8]| digits.to_str().ok().and_then(|digits| digits.parse::<u64>().ok());
        if let Some(digits) = inner.strip_prefix(b"-") {
            let Some(nth) = number(digits).filter(|nth| name.is_empty() && *nth > 0) else { return Ok(None) };
            return match names::previous_checkout(self.store, nth)? {
                Some(branch) => self.base(branch.as_bstr()),
                None => Ok(None),
            };
        }
        let Some(nth) = number(inner) else { return Ok(None) };
        let full = if name.is_empty() {
            match self.store.resolve(&RefName::new("HEAD").map_err(|_| crate::failure::Failure::Exit(128))?)? {
                refdb::Resolved::Object { name, .. } => name,
                refdb::Resolved::Missing(_) => return Ok(None),
            }
        } else {
            match names::find(self.store, if name == "@" { "HEAD".into() } else { name })? {
                Some(found) => found.name,
                None => return Ok(None),
            }
        };
        // Entry 0 is the newest; before the oldest entry the ref had that entry's old value.
        let mut left = nth;
        let mut found = None;
        let mut before_oldest = None;
        self.store.snapshot()?.log(full.as_bstr(), &mut |entry| {
            before_oldest = Some(entry.old);
            if left == 0 {
                found = Some(entry.new);
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        })?;
        Ok(found.or(before_oldest.filter(|id| left == 0 && !id.is_null())))
    }

    fn peel_to(&mut self, id: ObjectId, kind: &[u8]) -> Result<Option<ObjectId>> {
        let found = match kind {
            b"object" => return Ok(self.objects.exists(&id)?.then_some(id)),
            b"tag" => return Ok((self.objects.object_kind(&id)? == Some(ObjectKind::Tag)).then_some(id)),
            b"" | b"commit" | b"tree" | b"blob" => self.objects.peel(&id)?,
            _ => None,
        };
        Ok(match (found, kind) {
            (Some((id, _)), b"") => Some(id),
            (Some((id, ObjectKind::Commit)), b"commit") => Some(id),
            (Some((id, ObjectKind::Tree)), b"tree") => Some(id),
            (Some((id, ObjectKind::Blob)), b"blob") => Some(id),
            (Some((id, ObjectKind::Commit)), b"tree") => self.commit_header(id, b"tree ", 0)?,
            _ => None,
        })
    }

    fn commit(&mut self, id: ObjectId) -> Result<Option<ObjectId>> {
        self.peel_to(id, b"commit")
    }

    /// The `nth` parent; 0 is the commit itself.
    fn parent(&mut self, id: ObjectId, nth: u64) -> Result<Option<ObjectId>> {
        match self.commit(id)? {
            Some(commit) if nth == 0 => Ok(Some(commit)),
            Some(commit) => self.commit_header(commit, b"parent ", nth - 1),
            None => Ok(None),
        }
    }

    fn ancestor(&mut self, id: ObjectId, generations: u64) -> Result<Option<ObjectId>> {
        let mut commit = self.commit(id)?;
        for _ in 0..generations {
            let Some(id) = commit else { return Ok(None) };
            commit = self.parent(id, 1)?;
        }
        Ok(commit)
    }

    /// The id in the `nth` header line that begins with `name`.
    fn commit_header(&mut self, id: ObjectId, name: &[u8], nth: u64) -> Result<Option<ObjectId>> {
        let mut data = Vec::new();
        self.objects.read(&id, &mut data)?;
        let lines = data.lines().take_while(|line| !line.is_empty());
        let mut values = lines.filter_map(|line| line.strip_prefix(name));
        let value = usize::try_from(nth).ok().and_then(|nth| values.nth(nth));
        Ok(value.and_then(|hex| ObjectId::from_hex(id.kind(), hex).ok()))
    }

    /// The object at a path in a commit's tree.
    fn path(&mut self, id: ObjectId, path: &BStr) -> Result<Option<ObjectId>> {
        let Some(mut id) = self.peel_to(id, b"tree")? else { return Ok(None) };
        let mut data = Vec::new();
        for component in path.split_str("/").filter(|component| !component.is_empty()) {
            if self.objects.read(&id, &mut data)? != Some(ObjectKind::Tree) {
                return Ok(None);
            }
            match tree_entry(&data, component, id) {
                Some(entry) => id = entry,
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }
}

/// The id of a tree's entry. An entry is `MODE SP NAME NUL ID`.
fn tree_entry(mut data: &[u8], name: &[u8], tree: ObjectId) -> Option<ObjectId> {
    let len = tree.as_bytes().len();
    loop {
        let nul = data.find_byte(0)?;
        let id = data.get(nul + 1..nul + 1 + len)?;
        let space = data[..nul].find_byte(b' ')?;
        if &data[space + 1..nul] == name {
            return ObjectId::from_bytes(tree.kind(), id);
        }
        data = &data[nul + 1 + len..];
    }
}

impl crate::update_ref::request::Resolve for Revisions<'_> {
    fn resolve(&mut self, text: &BStr) -> Result<Option<ObjectId>> {
        Revisions::resolve(self, text)
    }
}
