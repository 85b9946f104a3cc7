//! Looks at a whole file and reports all that is wrong with it.
//!
//! First all blocks are read as they lie in the file. Then the content of the indexes is compared with the blocks
//! found.

mod blocks;
mod index;
mod objects;

use crate::{Corruption, Error, Fault, Result, Source, Table, format::BlockKind};
use blocks::Found;
use bstr::BString;

/// Reports everything that is wrong with a table, in the order in which it was found: none is good news. An error
/// means that the file could not be read. Nothing that a file holds makes this panic or run for ever.
pub fn check(source: Source, name: impl Into<BString>) -> Result<Vec<Corruption>> {
    let table = match Table::open(source, name) {
        Ok(table) => table,
        Err(Error::Corrupt(corruption)) => return Ok(vec![*corruption]),
        Err(error) => return Err(error),
    };
    let mut report = Report { table: table.name().into(), faults: Vec::new() };
    let found = blocks::read(&table, &mut report)?;
    // What an unreadable block holds cannot be compared.
    if found.complete {
        for kind in [BlockKind::Ref, BlockKind::Object, BlockKind::Log] {
            index::compare(&table, &found, kind, &mut report);
        }
        objects::compare(&table, found, &mut report);
    }
    Ok(report.faults)
}

/// The faults so far.
struct Report {
    table: BString,
    faults: Vec<Corruption>,
}

impl Report {
    fn add(&mut self, offset: u64, fault: Fault) {
        self.faults.push(Corruption { table: self.table.clone(), offset, fault, behind: BString::default() });
    }
}
