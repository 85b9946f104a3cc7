use crate::{Result, Row, Storage, listing::Source, plan::Range, row::OwnRow, stats::Counters};
use bstr::{BStr, BString, ByteSlice};
use refdb::{
    Target, TargetView,
    files::{FilesBackend, Look, Packed, PackedFile, PackedRecord},
};
use std::{ops::ControlFlow, sync::Arc};

/// The rows of a listing of files: loose refs, and the packed refs that they do not hide. The loose refs were read
/// before packed-refs was found current.
pub(crate) struct FilesSource {
    backend: FilesBackend,
    counters: Arc<Counters>,
    file: Arc<PackedFile>,
    loose: Vec<OwnRow>,
    /// The positions of the next loose ref, and of the end of the range.
    loose_at: usize,
    loose_end: usize,
    /// The refs to show, loose and packed, and how many of them were already shown. They are all refs of the range if
    /// its packed ones are few and cached, or the rest of the range once packed-refs has turned out to be unsorted.
    /// `None` while the range is read from the file.
    few: Option<Vec<OwnRow>>,
    few_at: usize,
    /// Three positions in packed-refs. `at` is the next record. `packed_end` is the end of the range. `stop` is the
    /// first record that is not less than the next loose ref, or that lies after the part in memory; if no loose ref is
    /// left, it is `packed_end`.
    at: usize,
    stop: usize,
    packed_end: usize,
    /// The part of packed-refs in memory, and the position where it begins.
    part: Option<(Packed, usize)>,
    /// The range, where it begins in packed-refs, and the name of the last packed ref of it that was shown.
    range: Range,
    begun: usize,
    previous: BString,
    /// How many more records are read one by one before the range is read in large parts. Most ranges are short.
    singles_left: usize,
    current: Current,
}

enum Current {
    None,
    Few(usize),
    Loose(usize),
    Packed(usize),
}

/// The number of records from which on a range is read in large parts.
const SINGLES: usize = 64;

impl FilesSource {
    pub(crate) fn new(
        backend: &FilesBackend,
        counters: &Arc<Counters>,
        file: Arc<PackedFile>,
        loose: Vec<OwnRow>,
    ) -> Self {
        debug_assert!(loose.is_sorted_by(|a, b| a.name < b.name), "loose refs are merged in order, each once");
        FilesSource {
            backend: backend.clone(),
            counters: Arc::clone(counters),
            file,
            loose,
            loose_at: 0,
            loose_end: 0,
            few: None,
            few_at: 0,
            at: 0,
            stop: 0,
            packed_end: 0,
            part: None,
            range: Range::everything(),
            begun: 0,
            previous: BString::default(),
            singles_left: 0,
            current: Current::None,
        }
    }

    /// All refs of the range, if the packed ones are few and cached.
    fn few_between(&self, start: &BStr, end: &BStr) -> Result<Option<Vec<OwnRow>>> {
        let mut loose = self.loose[self.loose_at..self.loose_end].iter().peekable();
        let mut rows = Vec::new();
        let are_few = self.file.packed.for_each_between(start, end, &mut |name, id, peeled| {
            while let Some(before) = loose.next_if(|row| row.name.as_bstr() < name) {
                rows.push(before.clone());
            }
            // A loose ref of the same name hides the packed one.
            if loose.peek().is_none_or(|row| row.name != name) {
                let target = Some(Target::Direct(*id));
                rows.push(OwnRow {
                    name: name.to_owned(),
                    target,
                    peeled,
                    storage: Storage::Packed,
                    is_corrupt: false,
                });
            }
            ControlFlow::Continue(())
        })?;
        rows.extend(loose.cloned());
        rows.retain(|row| !row.is_broken());
        Ok(are_few.then_some(rows))
    }

    /// How many loose refs come before a name.
    fn loose_before(&self, name: &BStr) -> usize {
        self.loose.partition_point(|row| row.name.as_bstr() < name)
    }

    /// Finds the position of the next loose ref in packed-refs. Within the part in memory this reads nothing; if the
    /// position lies after that part, the search is repeated when the walk gets there.
    fn set_stop(&mut self) -> Result<()> {
        self.stop = match self.loose.get(self.loose_at) {
            Some(row) if self.loose_at < self.loose_end => {
                let name = row.name.as_bstr();
                let place = match &self.part {
                    Some((part, base)) => base + part.seek(self.at - base, name)?,
                    None => self.file.packed.seek(self.at, name)?,
                };
                place.min(self.packed_end)
            }
            _ => self.packed_end,
        };
        debug_assert!((self.at..=self.packed_end).contains(&self.stop), "a walk stops ahead, within the range");
        Ok(())
    }

    /// Returns whether a record of packed-refs comes before the next loose ref.
    fn is_packed_next(&mut self) -> Result<bool> {
        let is_part_passed = self.part.as_ref().is_some_and(|(part, base)| self.at == base + part.end());
        if is_part_passed && self.at == self.stop && self.at < self.packed_end {
            self.have(self.at)?;
            self.set_stop()?;
        }
        Ok(self.at < self.stop)
    }

    /// Steps over the next loose ref, and returns its position.
    fn pass_loose(&mut self) -> Result<usize> {
        debug_assert!(self.loose_at < self.loose_end, "there is a loose ref to pass");
        self.pass_hidden()?;
        self.loose_at += 1;
        self.set_stop()?;
        Ok(self.loose_at - 1)
    }

    /// Steps over the packed ref that the next loose one hides, if there is one.
    fn pass_hidden(&mut self) -> Result<()> {
        if self.at < self.packed_end {
            self.have(self.at)?;
            let record = self.record_at_hand(self.at)?;
            if record.name == self.loose[self.loose_at].name.as_bstr() {
                self.at = self.base() + record.next;
            }
        }
        Ok(())
    }

    /// Returns whether a record of the range is out of order although the header of the file says `sorted`.
    #[inline]
    fn is_misplaced(&self, name: &BStr, before: &BStr, at: usize) -> bool {
        let is_behind_end = self.range.end.as_ref().is_some_and(|end| name >= end.as_bstr());
        (name <= before || is_behind_end) && self.file.packed.note_disorder(at, name)
    }

    /// Continues with the refs of the range that were not shown yet, from a packed-refs that is sorted in memory,
    /// because the file is not sorted although its header says so. Fails with `ESTALE` if packed-refs is another file
    /// by now.
    #[cold]
    fn set_right(&mut self) -> Result<()> {
        debug_assert!(
            self.begun <= self.at && self.few.is_none(),
            "a walk goes forward: {} to {}",
            self.begun,
            self.at
        );
        let sorted = self.backend.packed(Look::Stat)?;
        self.file.check_same(&sorted)?;
        self.counters.disorders.note(self.backend.disorder());
        let end = self.range.end.as_ref().map(|end| end.as_bstr());
        let left = self.file.packed.left_out(self.begun..self.at, &sorted.packed, self.range.start.as_bstr(), end)?;
        let mut rows = self.loose[self.loose_at..self.loose_end].to_vec();
        for (name, id, peeled) in left {
            if self.loose.binary_search_by(|row| row.name.cmp(&name)).is_err() {
                rows.push(OwnRow {
                    name,
                    target: Some(Target::Direct(id)),
                    peeled,
                    storage: Storage::Packed,
                    is_corrupt: false,
                });
            }
        }
        rows.retain(|row| !row.is_broken());
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        (self.few, self.few_at) = (Some(rows), 0);
        self.part = None;
        self.file = sorted;
        Ok(())
    }

    fn base(&self) -> usize {
        self.part.as_ref().map_or(0, |(_, base)| *base)
    }

    fn record_at_hand(&self, at: usize) -> Result<PackedRecord<'_>> {
        match &self.part {
            Some((part, base)) => {
                debug_assert!((*base..base + part.end()).contains(&at), "the record is in the part at hand: {at}");
                Ok(part.record(at - base)?)
            }
            None => Ok(self.file.packed.record(at)?),
        }
    }

    /// Makes the record at a position available to [`record_at_hand`](Self::record_at_hand). If more than [`SINGLES`]
    /// records of the range are needed, a large part of the file that begins with the record is read.
    fn have(&mut self, at: usize) -> Result<()> {
        debug_assert!(at < self.packed_end, "a record of the range is wanted: {at} of {}", self.packed_end);
        if let Some((part, base)) = &self.part
            && (*base..base + part.end()).contains(&at)
        {
            return Ok(());
        }
        if self.part.is_none() && self.singles_left > 0 {
            self.singles_left -= 1;
            return Ok(());
        }
        let spare = self.part.take().map_or_else(Vec::new, |(before, _)| before.into_memory());
        let (part, _) = self.file.packed.part(at, spare)?;
        self.part = Some((part, at));
        Ok(())
    }
}

impl Source for FilesSource {
    fn enter(&mut self, range: &Range) -> Result<()> {
        let end = range.end.as_ref().map(|end| end.as_bstr());
        self.loose_at = self.loose_before(range.start.as_bstr());
        self.loose_end = end.map_or(self.loose.len(), |end| self.loose_before(end));
        debug_assert!(self.loose_at <= self.loose_end, "a range ends behind its start: {range:?}");
        self.few = match end {
            Some(end) => self.few_between(range.start.as_bstr(), end)?,
            None => None,
        };
        self.few_at = 0;
        if self.few.is_some() {
            return Ok(());
        }
        let packed = &self.file.packed;
        self.at = packed.lower_bound(range.start.as_bstr())?;
        self.packed_end = match end {
            Some(end) => packed.lower_bound(end)?.max(self.at),
            None => packed.end(),
        };
        self.part = None;
        self.range = range.clone();
        self.begun = self.at;
        self.previous.clear();
        self.singles_left = SINGLES;
        // A misplaced name at either end may hide others of the range; one in the middle is noticed when the walk meets
        // it.
        let packed = &self.file.packed;
        if !(packed.is_in_order_around(self.at)? && packed.is_in_order_around(self.packed_end)?) {
            return self.set_right();
        }
        self.set_stop()
    }

    fn advance(&mut self) -> Result<bool> {
        if let Some(few) = &self.few {
            self.current = if self.few_at < few.len() { Current::Few(self.few_at) } else { Current::None };
            self.few_at += 1;
            return Ok(!matches!(self.current, Current::None));
        }
        loop {
            if self.is_packed_next()? {
                let at = self.at;
                self.have(at)?;
                let record = self.record_at_hand(at)?;
                if self.is_misplaced(record.name, self.previous.as_bstr(), at) {
                    self.set_right()?;
                    return self.advance();
                }
                let (next, mut name) = (self.base() + record.next, std::mem::take(&mut self.previous));
                name.clear();
                name.extend_from_slice(self.record_at_hand(at)?.name);
                (self.at, self.previous) = (next, name);
                self.current = Current::Packed(at);
                return Ok(true);
            }
            if self.loose_at >= self.loose_end {
                self.current = Current::None;
                return Ok(false);
            }
            let loose = self.pass_loose()?;
            if !self.loose[loose].is_broken() {
                self.current = Current::Loose(loose);
                return Ok(true);
            }
        }
    }

    fn current(&self) -> Result<Option<Row<'_>>> {
        Ok(match self.current {
            Current::None => None,
            Current::Few(at) => self.few.as_ref().and_then(|few| few.get(at)).and_then(OwnRow::row),
            Current::Loose(at) => self.loose.get(at).and_then(OwnRow::row),
            Current::Packed(at) => Some(row(self.record_at_hand(at)?)),
        })
    }

    fn each(&mut self, show: &mut dyn FnMut(&Row<'_>) -> ControlFlow<()>) -> Result<bool> {
        if let Some(few) = &self.few {
            for row in few.iter().skip(self.few_at) {
                self.few_at += 1;
                if row.row().is_some_and(|row| show(&row).is_break()) {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        loop {
            while self.is_packed_next()? {
                self.have(self.at)?;
                let Some((part, base)) = &self.part else {
                    let record = self.file.packed.record(self.at)?;
                    if self.is_misplaced(record.name, self.previous.as_bstr(), self.at) {
                        self.set_right()?;
                        return self.each(show);
                    }
                    self.at = record.next;
                    self.previous.clear();
                    self.previous.extend_from_slice(record.name);
                    if show(&row(record)).is_break() {
                        return Ok(true);
                    }
                    continue;
                };
                let stop = (self.stop - base).min(part.end());
                let mut at = self.at - base;
                let mut before = self.previous.as_bstr();
                let mut is_broken_off = false;
                while at < stop && !is_broken_off {
                    let record = part.record(at)?;
                    if self.is_misplaced(record.name, before, base + at) {
                        self.at = base + at;
                        self.set_right()?;
                        return self.each(show);
                    }
                    (at, before) = (record.next, record.name);
                    is_broken_off = show(&row(record)).is_break();
                }
                self.at = base + at;
                self.previous = before.to_owned();
                if is_broken_off {
                    return Ok(true);
                }
            }
            if self.loose_at >= self.loose_end {
                return Ok(false);
            }
            let loose = self.pass_loose()?;
            if self.loose[loose].row().is_some_and(|row| show(&row).is_break()) {
                return Ok(true);
            }
        }
    }

    /// The generation of packed-refs that this source reads, and the loose refs, which together determine its rows.
    fn state(&self) -> (u64, &[OwnRow]) {
        (self.file.generation, &self.loose)
    }
}

#[inline]
fn row(record: PackedRecord<'_>) -> Row<'_> {
    Row {
        name: record.name,
        target: TargetView::Direct(record.id),
        peeled: record.peeled,
        storage: Storage::Packed,
        update_index: 0,
    }
}
