use super::{Dumper, damaged};
use crate::failure::Result;
use bstr::ByteSlice;
use refdb_vfs::Mapping;
use reftable::{LogRecord, LogValue, RefRecord, RefValue, Source, Table};
use std::{os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// Shows one reftable.
pub(super) fn dump(dumper: &mut Dumper<'_>, path: &Path, mapping: Mapping) -> Result<()> {
    let shown = path.as_os_str().as_bytes();
    let table = match Table::open(Source::Mapped(Arc::new(mapping)), shown) {
        Ok(table) => table,
        Err(error) => return damaged(error),
    };
    let about = format!(
        ": {} bytes, {}, update index {} to {}",
        table.len_bytes(),
        table.hash().name(),
        table.min_update_index(),
        table.max_update_index()
    );
    dumper.line(&[b"table ", shown, about.as_bytes()])?;
    let mut refs = table.refs();
    loop {
        match refs.next() {
            Ok(Some(record)) => show_ref(dumper, &record)?,
            Ok(None) => break,
            Err(error) => return damaged(error),
        }
    }
    if !dumper.logs {
        return Ok(());
    }
    let mut logs = table.logs();
    loop {
        match logs.next() {
            Ok(Some(record)) => show_log(dumper, &record)?,
            Ok(None) => return Ok(()),
            Err(error) => return damaged(error),
        }
    }
}

fn show_ref(dumper: &mut Dumper<'_>, record: &RefRecord<'_>) -> Result<()> {
    let out = dumper.output.buffer();
    out.extend_from_slice(b"ref ");
    out.extend_from_slice(record.name);
    match &record.value {
        RefValue::Deletion => out.extend_from_slice(b" deleted"),
        RefValue::Direct(id) => {
            out.push(b' ');
            id.write_hex(out);
        }
        RefValue::Peeled { target, peeled } => {
            out.push(b' ');
            target.write_hex(out);
            out.extend_from_slice(b" peeled ");
            peeled.write_hex(out);
        }
        RefValue::Symbolic(target) => {
            out.extend_from_slice(b" -> ");
            out.extend_from_slice(target);
        }
    }
    dumper.line(&[b" at ", record.update_index.to_string().as_bytes()])
}

fn show_log(dumper: &mut Dumper<'_>, record: &LogRecord<'_>) -> Result<()> {
    let index = record.update_index.to_string();
    match record.value {
        LogValue::Deletion => dumper.line(&[b"log ", record.name, b" at ", index.as_bytes(), b" deleted"]),
        LogValue::Update { old, new, name, email, time_seconds, tz_offset, message } => {
            let ids = format!(" at {index}: {old} {new} ");
            let time =
                format!("> {time_seconds} {}{:04} ", if tz_offset < 0 { '-' } else { '+' }, tz_offset.unsigned_abs());
            let message = message.trim_end().replace("\n", "\\n");
            dumper.line(&[
                b"log ",
                record.name,
                ids.as_bytes(),
                name,
                b" <",
                email,
                time.as_bytes(),
                message.as_bytes(),
            ])
        }
    }
}
