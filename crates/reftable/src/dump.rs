//! The content of a table as text, for people and for tests.

use crate::{
    Error, LogValue, RefValue, Result, Table,
    format::{BlockKind, Footer, Header, Version},
    record::{Context, IndexRecords, LogRecords, ObjectRecords, RefRecords},
    table::{Block, BlockScan},
};
use bstr::{BStr, ByteSlice};
use std::{
    io::{self, Write},
    sync::Arc,
};

/// Writes the content of a table as text, in the order of the file: a line for the header, for each block with its
/// position, for each record with its offset in the block, and for the footer.
///
/// # Errors
///
/// [`Error::Output`] if the text cannot be written, [`Error::Io`] if the file cannot be read, and [`Error::Corrupt`] at
/// the first block or record that cannot be decoded, after what comes before it has been written. An object's positions
/// that do not ascend or are too large are no error, but are written as `?`.
pub fn dump(table: &Arc<Table>, out: &mut dyn Write) -> Result<()> {
    header(&table.footer.header, out).map_err(Error::Output)?;
    let mut scan = BlockScan::new(table.clone());
    while let Some(found) = scan.next()? {
        block(table, &found, out)?;
    }
    footer(&table.footer, out).map_err(Error::Output)
}

fn header(header: &Header, out: &mut dyn Write) -> io::Result<()> {
    let version = match header.version {
        Version::One => 1,
        Version::Two => 2,
    };
    let Header { block_size, min_update_index, max_update_index, .. } = header;
    let hash = header.hash.name();
    writeln!(
        out,
        "header: version {version}, {hash}, block size {block_size}, \
         update indexes {min_update_index}..={max_update_index}"
    )
}

fn block(table: &Table, block: &Block, out: &mut dyn Write) -> Result<()> {
    let kind = match block.layout.kind {
        BlockKind::Ref => "ref",
        BlockKind::Object => "object",
        BlockKind::Log => "log",
        BlockKind::Index => "index",
    };
    let (position, len, restarts) = (block.position, block.bytes().len(), block.layout.restart_count);
    let s = if restarts == 1 { "" } else { "s" };
    writeln!(out, "{position}: {kind} block, {len} bytes, {restarts} restart{s}").map_err(Error::Output)?;
    let mut written = Ok(());
    let read = records(table, block, &mut |line| {
        if written.is_ok() {
            written = out.write_all(line.as_bytes());
        }
    });
    written.map_err(Error::Output)?;
    read.map_err(|(offset, fault)| table.corrupt(block.place_of(offset), fault))
}

fn records(table: &Table, block: &Block, line: &mut dyn FnMut(String)) -> Result<(), (usize, crate::Fault)> {
    let hash = table.hash();
    let context = Context { hash, min_update_index: table.min_update_index() };
    let records = block.records();
    match block.layout.kind {
        BlockKind::Ref => block.each::<RefRecords>(&context, |offset, key, value| {
            let name = key.as_bstr();
            let text = match value.value(records, hash) {
                RefValue::Deletion => "deleted".to_owned(),
                RefValue::Direct(id) => id.to_string(),
                RefValue::Peeled { target, peeled } => format!("{target} peeled {peeled}"),
                RefValue::Symbolic(target) => format!("-> {target}"),
            };
            line(format!("  {offset} {name} @{} {text}\n", value.update_index));
        }),
        BlockKind::Log => block.each::<LogRecords>(&context, |offset, key, value| {
            let record = value.record(key, records, hash);
            let text = match record.value {
                LogValue::Deletion => "deleted".to_owned(),
                LogValue::Update { old, new, name, email, time_seconds, tz_offset, message } => {
                    let message = format!("{message:?}");
                    format!("{old} {new} {name} <{email}> {time_seconds} {tz_offset} {message}")
                }
            };
            line(format!("  {offset} {} @{} {text}\n", record.name, record.update_index));
        }),
        BlockKind::Object => block.each::<ObjectRecords>(&context, |offset, key, value| {
            let positions: Vec<String> =
                value.positions(records).map(|position| position.map_or("?".into(), |at| at.to_string())).collect();
            let text = if positions.is_empty() { "anywhere".to_owned() } else { positions.join(" ") };
            line(format!("  {offset} {} in {text}\n", hex(key)));
        }),
        BlockKind::Index => block.each::<IndexRecords>(&context, |offset, key, value| {
            line(format!("  {offset} {} in {}\n", index_key(key), value.position));
        }),
    }
}

/// The text of an index entry's key, which is a name, a name with an update index, or an object id.
fn index_key(key: &[u8]) -> String {
    match key.len().checked_sub(9) {
        Some(end) if end > 0 && key[end] == 0 => {
            format!("{} @{}", BStr::new(&key[..end]), crate::record::log_update_index(key))
        }
        _ if key.iter().all(|byte| byte.is_ascii_graphic()) => key.as_bstr().to_string(),
        _ => hex(key),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn footer(footer: &Footer, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "footer:")?;
    let Footer { ref_index, objects, object_id_len, object_index, logs, log_index, .. } = *footer;
    for (what, position) in [
        ("ref index", ref_index),
        ("objects", objects),
        ("object id bytes", u64::from(object_id_len)),
        ("object index", object_index),
        ("logs", logs),
        ("log index", log_index),
    ] {
        if position != 0 {
            write!(out, " {what} {position};")?;
        }
    }
    writeln!(out)
}
