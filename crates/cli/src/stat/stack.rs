use super::bytes;
use crate::failure::{Failure, Result};
use refdb::{Repository, config::Settings};
use refdb_vfs::Fs;
use reftable::{
    LogFit, Merged, Sink, TableWriter, WriteOptions,
    stack::{Stack as OpenStack, StackOptions},
};
use serde::Serialize;

/// Statistics of refs that are stored in a stack of tables.
#[derive(Debug, Serialize)]
pub(super) struct Stack {
    /// The tables, oldest first.
    tables: Vec<Table>,
    bytes: u64,
    #[serde(flatten)]
    compacted: Option<Compacted>,
    /// Why the tables cannot be merged: a record fits into no block of the configured size.
    #[serde(skip_serializing_if = "Option::is_none")]
    incompatible: Option<String>,
    /// The first and the last of the tables, counted from 0, that git's rule for automatic compaction would merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<[usize; 2]>,
}

/// A single table with everything that is in effect.
#[derive(Debug, Serialize)]
struct Compacted {
    compacted_bytes: u64,
    compacted_refs: u64,
    compacted_logs: u64,
}

#[derive(Debug, Serialize)]
struct Table {
    name: String,
    bytes: u64,
    refs: u64,
    tombstones: u64,
    logs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    too_large: Option<TooLarge>,
    /// The offset of the first log block that git cannot read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable_for_git: Option<u64>,
    update_indexes: [u64; 2],
}

/// Log records that are too large for git to compact, so that a write by git fails when it compacts the table.
#[derive(Debug, Serialize)]
struct TooLarge {
    records: u64,
    /// The number of records that cannot be cut to a size that git can compact.
    incurable: u64,
    /// The ref of the first record that is too large.
    refname: String,
}

/// Counts the records of each table, and writes the compacted table to nowhere to learn its size.
pub(super) fn look(repository: &Repository, settings: &Settings) -> Result<Stack> {
    let defaults = WriteOptions::default();
    let block_size = settings.reftable.block_size.unwrap_or(defaults.block_size);
    let mut options = StackOptions::new(WriteOptions::new(repository.hash()).block_size(block_size));
    options.geometric_factor = settings.reftable.geometric_factor.map_or(options.geometric_factor, Into::into);
    let folder = repository.refs_dir().join("reftable");
    let snapshot = OpenStack::open(Fs::real(), &folder, options.clone()).map_err(failed)?.snapshot();
    let mut tables = Vec::new();
    for listed in snapshot.tables() {
        let table = &listed.table;
        let mut counted = Table {
            name: listed.name.as_bstr().to_string(),
            bytes: table.len_bytes(),
            refs: 0,
            tombstones: 0,
            logs: 0,
            too_large: None,
            unreadable_for_git: None,
            update_indexes: [table.min_update_index(), table.max_update_index()],
        };
        let mut refs = table.refs();
        while let Some(record) = refs.next().map_err(failed)? {
            if record.is_deletion() { counted.tombstones += 1 } else { counted.refs += 1 }
        }
        let mut logs = table.logs();
        while let Some(record) = logs.next().map_err(failed)? {
            counted.logs += 1;
            let fit = options.write.log_fit(&record);
            if fit != LogFit::Whole {
                let refname = || TooLarge { records: 0, incurable: 0, refname: record.name.to_string() };
                let found = counted.too_large.get_or_insert_with(refname);
                found.records += 1;
                found.incurable += u64::from(fit == LogFit::Never);
            }
            counted.unreadable_for_git = counted.unreadable_for_git.or_else(|| logs.block_beyond_git());
        }
        tables.push(counted);
    }
    let (compacted, incompatible) = match compact(snapshot.merged(), options.write) {
        Ok(summary) => {
            let reftable::Summary { bytes, refs, logs, .. } = summary;
            (Some(Compacted { compacted_bytes: bytes, compacted_refs: refs, compacted_logs: logs }), None)
        }
        Err(error) if error.is_too_large() => (None, Some(error.to_string())),
        Err(error) => return Err(failed(error)),
    };
    Ok(Stack {
        bytes: tables.iter().map(|table| table.bytes).sum(),
        tables,
        compacted,
        incompatible,
        due: snapshot.plan(&options).map(|range| [range.start, range.end - 1]),
    })
}

/// A sink that discards bytes.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, _: &[u8]) -> refdb_vfs::Result<()> {
        Ok(())
    }
}

fn compact(merged: &Merged, write: WriteOptions) -> std::result::Result<reftable::Summary, reftable::Error> {
    let mut writer = TableWriter::new(write, 0, merged.max_update_index(), Nowhere)?;
    let mut refs = merged.refs();
    while let Some(record) = refs.next()? {
        writer.add_ref(&record)?;
    }
    let mut logs = merged.logs();
    while let Some(record) = logs.next()? {
        writer.copy_log(&record)?;
    }
    writer.finish()
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Fatal(error.to_string().into())
}

impl TooLarge {
    fn text(&self) -> String {
        let TooLarge { records, incurable, refname } = self;
        let cure = match incurable {
            0 => "`refdb pack-refs` cuts them".to_owned(),
            _ => {
                format!("`refdb pack-refs` cuts all but {incurable}: raise reftable.blockSize, or delete those reflogs")
            }
        };
        format!("log records too large for git, which cannot write any more: {records}, the first of {refname}; {cure}")
    }
}

impl Stack {
    pub(super) fn text(&self) -> String {
        let mut text = format!("tables: {}, {}\n", self.tables.len(), bytes(self.bytes));
        for table in &self.tables {
            text.push_str(&format!(
                "  {}: {}, {} refs, {} tombstones, {} log records, update index {} to {}\n",
                table.name,
                bytes(table.bytes),
                table.refs,
                table.tombstones,
                table.logs,
                table.update_indexes[0],
                table.update_indexes[1],
            ));
            if let Some(found) = &table.too_large {
                text.push_str(&format!("    {}\n", found.text()));
            }
            if let Some(offset) = table.unreadable_for_git {
                text.push_str(&format!(
                    "    git cannot read the reflogs in it, from the block at byte {offset} on; `refdb pack-refs` writes them anew\n"
                ));
            }
        }
        if let Some(Compacted { compacted_bytes, compacted_refs, compacted_logs }) = self.compacted {
            text.push_str(&format!(
                "compaction would leave {}: {compacted_refs} refs, {compacted_logs} log records; it would free {}\n",
                bytes(compacted_bytes),
                bytes(self.bytes.saturating_sub(compacted_bytes)),
            ));
        }
        if let Some(why) = &self.incompatible {
            text.push_str(&format!("compaction would fail: {why}\n"));
        }
        if let Some([first, last]) = self.due {
            text.push_str(&format!("automatic compaction is due for tables {first} to {last}\n"));
        }
        text
    }
}
