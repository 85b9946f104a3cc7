use crate::{Cursor, RefView, Result};
use bstr::{BStr, BString, ByteSlice};
use std::fmt;

/// The refs whose names begin with a prefix.
pub struct WithPrefix<C> {
    inner: C,
    prefix: BString,
}

impl<C> fmt::Debug for WithPrefix<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithPrefix").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl<C: Cursor> WithPrefix<C> {
    /// Creates a cursor before the first ref with this prefix.
    pub fn new(mut inner: C, prefix: impl Into<BString>) -> Result<Self> {
        let prefix = prefix.into();
        inner.seek(prefix.as_bstr())?;
        Ok(WithPrefix { inner, prefix })
    }
}

impl<C: Cursor> Cursor for WithPrefix<C> {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        self.inner.seek(name.max(self.prefix.as_bstr()))
    }

    fn next(&mut self) -> Result<Option<RefView<'_>>> {
        let view = self.inner.next()?;
        debug_assert!(view.is_none_or(|view| view.name >= self.prefix), "what comes before was passed over");
        Ok(view.filter(|view| view.name.starts_with(&self.prefix)))
    }
}
