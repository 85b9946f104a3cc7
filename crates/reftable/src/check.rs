//! Checks a whole file and reports what is wrong with it.
//!
//! First all blocks are read in the order of their positions; after a block whose end cannot be found, reading goes on
//! with the next section. Then, if every record could be read, the indexes are compared with the blocks that were
//! found.

mod blocks;
mod index;
mod objects;

use crate::{Corruption, Error, Fault, Result, Source, Table, format::BlockKind};
use blocks::Found;
use bstr::BString;
use std::sync::Arc;

/// Checks a table and returns what is wrong with it, in the order in which it was found. An empty list means that the
/// table is sound.
///
/// This reads the whole file. Damage can hide other damage: behind a record that cannot be read, the rest of its block
/// is not checked, behind a block whose end cannot be found, the rest of its section, and in both cases the indexes are
/// not compared. Without a header, a footer and a type of the first block that are valid nothing else is checked. At
/// most 1,000 faults are returned. No content of a file makes the check panic or run without end, but a file can
/// be made so that the check takes many times as much memory as the file.
///
/// # Errors
///
/// [`Error::Io`] if the file cannot be read.
pub fn check(source: Source, name: impl Into<BString>) -> Result<Vec<Corruption>> {
    let table = match Table::open(source, name) {
        Ok(table) => table,
        Err(Error::Corrupt(corruption)) => return Ok(vec![*corruption]),
        Err(error) => return Err(error),
    };
    table.check()
}

/// Maximum number of faults that a check returns.
const FAULTS_MAX: usize = 1000;

impl Table {
    /// Checks the whole file of this table as [`check`] does, even if the file no longer has a name.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read.
    pub fn check(self: &Arc<Self>) -> Result<Vec<Corruption>> {
        let mut report = Report { table: self.name().into(), faults: Vec::new() };
        let found = blocks::read(self, &mut report)?;
        // Without every record of every block, the indexes cannot be compared.
        if found.complete {
            for kind in [BlockKind::Ref, BlockKind::Object, BlockKind::Log] {
                index::compare(self, &found, kind, &mut report);
            }
            objects::compare(self, found, &mut report);
        }
        Ok(report.faults)
    }
}

/// The faults found so far.
struct Report {
    table: BString,
    faults: Vec<Corruption>,
}

impl Report {
    fn add(&mut self, offset: u64, fault: Fault) {
        self.push(Corruption { table: self.table.clone(), offset, fault, behind: BString::default() });
    }

    fn push(&mut self, corruption: Corruption) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(corruption);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_does_not_grow_without_end() {
        let mut report = Report { table: "table".into(), faults: Vec::new() };
        (0..2 * FAULTS_MAX as u64).for_each(|offset| report.add(offset, Fault::KeyOrder));
        assert_eq!(report.faults.len(), FAULTS_MAX);
        assert_eq!(report.faults.last().unwrap().offset, FAULTS_MAX as u64 - 1);
    }
}
