use crate::{Cursor, RefView, Result, TargetView};
use bstr::{BStr, BString, ByteSlice};
use std::fmt;

/// The refs of a namespace under their short names: gitnamespaces(7).
///
/// `refs/namespaces/a/refs/heads/x` is seen as `refs/heads/x`, and a symbolic ref that leads to a ref of the namespace
/// is seen to lead to that ref's short name.
pub struct InNamespace<C> {
    inner: C,
    prefix: BString,
}

impl<C> fmt::Debug for InNamespace<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InNamespace").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl<C: Cursor> InNamespace<C> {
    /// Creates a cursor before the first ref of the namespace. The names of its refs begin with `prefix`, as
    /// [`Repository::namespace`](crate::Repository::namespace) returns it.
    pub fn new(mut inner: C, prefix: impl Into<BString>) -> Result<Self> {
        let prefix = prefix.into();
        inner.seek(prefix.as_bstr())?;
        Ok(InNamespace { inner, prefix })
    }
}

impl<C: Cursor> Cursor for InNamespace<C> {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        let full = [self.prefix.as_bytes(), name].concat();
        self.inner.seek(full.as_bstr())
    }

    fn next(&mut self) -> Result<Option<RefView<'_>>> {
        let Some(view) = self.inner.next()? else { return Ok(None) };
        let Some(name) = view.name.strip_prefix(self.prefix.as_bytes()) else { return Ok(None) };
        let target = match view.target {
            TargetView::Symbolic(target) => {
                TargetView::Symbolic(target.strip_prefix(self.prefix.as_bytes()).unwrap_or(target).as_bstr())
            }
            direct => direct,
        };
        Ok(Some(RefView { name: name.as_bstr(), target, ..view }))
    }
}
