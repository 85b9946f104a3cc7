use super::{Dumper, damaged};
use crate::failure::Result;
use refdb_vfs::Mapping;
use reftable::{Source, Table};
use std::{
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
};

/// Prints a reftable in the order in which it is stored.
pub(super) fn dump(dumper: &mut Dumper<'_>, path: &Path, mapping: Mapping) -> Result<()> {
    let shown = path.as_os_str().as_bytes();
    let size = mapping.len().to_string();
    dumper.line(&[b"table ", shown, b": ", size.as_bytes(), b" bytes"])?;
    let table = match Table::open(Source::Mapped(Arc::new(mapping)), shown) {
        Ok(table) => table,
        Err(error) => return damaged(error),
    };
    let mut out = Relieved { dumper, failed: None };
    let result = reftable::dump(&table, &mut out);
    if let Some(failure) = out.failed {
        return Err(failure);
    }
    result.or_else(damaged)
}

/// Forwards written bytes to the command's output.
struct Relieved<'a, 'd> {
    dumper: &'a mut Dumper<'d>,
    failed: Option<crate::failure::Failure>,
}

impl Write for Relieved<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.dumper.output.buffer().extend_from_slice(bytes);
        match self.dumper.output.relieve() {
            Ok(()) => Ok(bytes.len()),
            Err(failure) => {
                self.failed = Some(failure);
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
