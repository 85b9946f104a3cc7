//! Recovery of a cache's files when it is opened. The log is replayed from footers, so that the time does not depend on
//! the size of the values. Only a segment without an intact footer, usually the last one of a killed process, is read
//! completely.

use crate::{
    error::{Error, Result},
    format::{
        footer::{Entries, TRAILER_BYTES, Trailer, encode_footer, footer_len},
        record::{RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader},
    },
    log::{
        footers::{MappedFooter, trailer_from},
        scan::{Scanned, scan},
        segment::seq_of,
    },
    regular_file,
    sync::{on_threads, threads_for},
};
use refdb_vfs::{File, Fs};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How often a log that another process is writing is read before a gap in it is taken for a real one, and before what
/// that process has moved is left out of a walk.
pub(crate) const READ_AGAIN: u32 = 5;
/// Number of files for which one more thread is worth its cost.
const SEGMENTS_A_THREAD: usize = 64;

/// A segment in the folder.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
    pub(crate) entries: Entries,
    pub(crate) records_end: u64,
    pub(crate) file_bytes: u64,
    pub(crate) newest_ms: u64,
    /// Whether the file has an intact footer.
    pub(crate) sealed: bool,
    /// Whether certainly all records of the segment were found, at least the hashes of their keys.
    is_whole: bool,
    /// Whether the file seems to have had a footer that is damaged now; see [`Trailer::was_one`].
    was_sealed: bool,
    /// The records found when damaged ones are stepped over, if there were damaged ones.
    stepped: Option<Scanned>,
    /// The footer, if its entries are in the mapping of the file and not in `entries`.
    pub(crate) mapped: Option<MappedFooter>,
}

impl Found {
    /// A segment with a footer, whose entries are known from elsewhere.
    pub(super) fn sealed(path: PathBuf, header: SegmentHeader, trailer: &Trailer, file_bytes: u64) -> Self {
        Found {
            path,
            header,
            entries: Entries::default(),
            records_end: trailer.records_end,
            file_bytes,
            newest_ms: trailer.newest_ms,
            sealed: true,
            is_whole: true,
            was_sealed: false,
            stepped: None,
            mapped: None,
        }
    }
}

impl Found {
    /// Uses the records found by stepping over damaged ones if they end at `end`, where the records are known to end,
    /// and notes whether all records were found.
    fn complete(&mut self, end: u64) {
        if let Some(stepped) = self.stepped.take_if(|stepped| stepped.end == end) {
            (self.entries, self.records_end, self.newest_ms) = (stepped.entries, stepped.end, stepped.newest_ms);
        }
        self.is_whole |= self.records_end == end;
    }

    /// Numbers of segments that, according to notes among this segment's records, were dropped.
    fn dropped(&self) -> Vec<u64> {
        self.mapped.as_ref().map_or_else(|| self.entries.dropped(), |footer| footer.dropped.clone())
    }
}

/// Result of reading a file of the log.
enum Loaded {
    Segment(Box<Found>),
    /// A segment of another cache, or with another number than its name says.
    Foreign,
    /// A file without a header, as a crash may leave it.
    Torn,
    /// A file with a damaged header.
    Damaged,
}

/// The usable part of a log.
pub(crate) struct Recovered {
    /// The usable segments, in the order of the log.
    pub(crate) segments: Vec<Found>,
    /// Files to be deleted, in the order of this list. They are void, have no intact header, lie after a gap (see
    /// [`usable`]), are of another cache, or have another number than their name says, and later segments after the gap
    /// come before earlier ones, so that a crash in between leaves no later segment without its predecessor. If the
    /// damage cannot come from a crash, the list has all files of segments, oldest first.
    pub(crate) obsolete: Vec<PathBuf>,
    /// Whether each deletion must be durable before the next one, if durable bytes must stay durable.
    pub(crate) in_turn: bool,
    pub(crate) floor: u64,
    pub(crate) next_seq: u64,
    /// Segments up to this number are on stable storage.
    pub(crate) synced_seq: u64,
    /// The damage that was found, and its consequences.
    pub(crate) notices: Vec<Error>,
    /// Whether the log has a gap. If another process writes, the gap may merely come from a change during the reading.
    pub(super) has_gap: bool,
    /// The saved index, whose file is deleted without a sync, because it proves by itself whether it is right.
    pub(crate) saved: Option<SavedIndex>,
}

/// The file of a saved index. As long as the file is open, deleting it need not free its pages, which would take a
/// while.
pub(crate) struct SavedIndex {
    pub(crate) path: PathBuf,
    pub(crate) file: Option<Arc<File>>,
}

/// The footer at the end of a file; `None` if there is none or it is damaged.
pub(crate) fn read_footer(file: &File, file_bytes: u64, seq: u64) -> Result<Option<(Trailer, Entries)>> {
    footer_from(file_bytes, seq, |bytes, offset| Ok(file.read_exact_at(bytes, offset)?))
}

/// The footer of a file of this length whose bytes `read_at` provides.
pub(crate) fn footer_from(
    file_bytes: u64,
    seq: u64,
    mut read_at: impl FnMut(&mut [u8], u64) -> Result<()>,
) -> Result<Option<(Trailer, Entries)>> {
    let Some(trailer) = trailer_from(file_bytes, seq, &mut read_at)? else { return Ok(None) };
    let footer_len = trailer.footer_len() as u64;
    // The size is checked against the file, so that a wrong number does not cause a large allocation.
    let mut bytes = vec![0; trailer.footer_len() - TRAILER_BYTES];
    read_at(&mut bytes, file_bytes - footer_len)?;
    Ok(trailer.decode_entries(bytes).map(|entries| (trailer, entries)))
}

fn load(fs: &Fs, path: &Path, seq: u64, store: u64, maps: bool) -> Result<Loaded> {
    let file = regular_file::open(fs, path)?;
    let file_bytes = file.stat()?.len_bytes;
    let mut head = [0; SEGMENT_HEADER_BYTES];
    if file_bytes < head.len() as u64 {
        return Ok(Loaded::Torn);
    }
    file.read_exact_at(&mut head, 0)?;
    let header = match SegmentHeader::decode(&head) {
        Some(header) if header.seq == seq && header.store == store => header,
        Some(_) => return Ok(Loaded::Foreign),
        None if head.iter().all(|byte| *byte == 0) => return Ok(Loaded::Torn),
        None => return Ok(Loaded::Damaged),
    };
    let path = path.to_owned();
    if let Some(footer) = maps.then(|| MappedFooter::new(&file, file_bytes, seq)).flatten() {
        let found = Found::sealed(path, header, &footer.trailer, file_bytes);
        return Ok(Loaded::Segment(Box::new(Found { mapped: Some(footer), ..found })));
    }
    if let Some((trailer, entries)) = read_footer(&file, file_bytes, seq)? {
        let found = Found { entries, ..Found::sealed(path, header, &trailer, file_bytes) };
        return Ok(Loaded::Segment(Box::new(found)));
    }
    let bytes = file.read_to_end()?;
    // Excludes the header, which is as long as a trailer and has the segment's number at the same offset.
    let last = &bytes[bytes.len().saturating_sub(TRAILER_BYTES).max(SEGMENT_HEADER_BYTES)..];
    let trailer = Trailer::decode(last, seq);
    let Scanned { entries, end, newest_ms, .. } = scan(&bytes, seq, false);
    let stepped = Some(scan(&bytes, seq, true)).filter(|stepped| stepped.damaged > 0);
    let (found_end, found_len) =
        stepped.as_ref().map_or((end, entries.len()), |stepped| (stepped.end, stepped.entries.len()));
    // Where the records end: as the trailer says, or where exactly as many footer entries would follow as records were
    // found.
    let known_end = trailer
        .map(|trailer| trailer.records_end)
        .or_else(|| (found_end + footer_len(found_len) as u64 == bytes.len() as u64).then_some(found_end));
    // Bytes of a record, whole or cut by a kill, may be like those of a trailer.
    let rest = &bytes[found_end as usize..];
    let ends_in_record =
        rest.len() < TRAILER_BYTES || RecordHeader::decode_alone(rest).is_some_and(|cut| cut.record_len() > rest.len());
    let mut found = Found {
        path,
        header,
        entries,
        records_end: end,
        file_bytes: bytes.len() as u64,
        newest_ms,
        sealed: false,
        is_whole: false,
        was_sealed: trailer.is_some() || !ends_in_record && Trailer::was_one(last, seq),
        stepped,
        mapped: None,
    };
    if let Some(end) = known_end.filter(|_| found.was_sealed) {
        found.complete(end);
    }
    Ok(Loaded::Segment(Box::new(found)))
}

/// The numbers and paths of the segments in `dir`, in the order of their numbers. Number 0 is the saved index.
pub(crate) fn names_in(fs: &Fs, dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let names = fs.read_dir(dir)?;
    let numbered = names.iter().filter_map(|(name, _)| Some((seq_of(name)?, dir.join(OsStr::from_bytes(name)))));
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort();
    Ok(numbered)
}

/// Applies `work` to each file of the list, on as many threads as are useful, and returns the results in the order of
/// the list.
pub(crate) fn on_files<T: Send>(names: &[(u64, PathBuf)], work: impl Fn(&(u64, PathBuf)) -> T + Sync) -> Vec<T> {
    let threads = threads_for(names.len() / SEGMENTS_A_THREAD);
    let parts = names.chunks(names.len().div_ceil(threads).max(1)).collect();
    on_threads(parts, |names: &[_]| names.iter().map(&work).collect::<Vec<_>>()).into_iter().flatten().collect()
}

/// Reads the log in `dir` without changing it and without using its saved index. With `maps`, the files are mapped, and
/// the entries of intact footers stay there: at 16 bytes an entry, copying them took most of the time of this function.
pub(crate) fn recover(fs: &Fs, dir: &Path, store: u64, maps: bool) -> Result<Recovered> {
    let mut names = names_in(fs, dir)?;
    let mut log =
        FoundLog { after_all: names.last().map_or(1, |(seq, _)| seq.saturating_add(1)), ..FoundLog::default() };
    log.saved = names.extract_if(.., |(seq, _)| *seq == 0).next().map(|(_, path)| SavedIndex { path, file: None });
    let loaded = on_files(&names, |(seq, path)| load(fs, path, *seq, store, maps));
    for (loaded, (seq, path)) in loaded.into_iter().zip(names) {
        match loaded {
            Ok(Loaded::Segment(segment)) => log.segments.push(*segment),
            Ok(Loaded::Foreign) => log.obsolete.push(path),
            Ok(Loaded::Torn) => log.without_header.push((seq, path, false)),
            Ok(Loaded::Damaged) => log.without_header.push((seq, path, true)),
            // The process that writes has deleted the file since the folder was listed, and this process only reads.
            Err(Error::File(error)) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(log.judge())
}

/// Does what [`recover`] does, without mappings, while another process may write. What that process deletes and moves
/// may look like a gap, so a log with a gap is read again.
pub(crate) fn recover_to_read(fs: &Fs, dir: &Path, store: u64) -> Result<Recovered> {
    for _ in 1..READ_AGAIN {
        let recovered = recover(fs, dir, store, false)?;
        if !recovered.has_gap {
            return Ok(recovered);
        }
    }
    recover(fs, dir, store, false)
}

/// All files of a log as they were read.
#[derive(Default)]
struct FoundLog {
    segments: Vec<Found>,
    obsolete: Vec<PathBuf>,
    /// Files without an intact header: number, path, and whether there is a damaged header.
    without_header: Vec<(u64, PathBuf, bool)>,
    saved: Option<SavedIndex>,
    /// The number after the largest segment number in the folder.
    after_all: u64,
}

impl FoundLog {
    /// Decides which segments are used.
    fn judge(self) -> Recovered {
        let FoundLog { segments, mut obsolete, without_header, saved, after_all } = self;
        let synced_seq = segments.iter().map(|segment| segment.header.synced).max().unwrap_or(0);
        let floor = segments.iter().map(|segment| segment.header.floor).max().unwrap_or(0);
        let (void, mut segments): (Vec<_>, Vec<_>) =
            segments.into_iter().partition(|segment| segment.header.seq < floor);
        obsolete.extend(void.into_iter().map(|segment| segment.path));
        let first = segments.first().map_or(u64::MAX, |first| first.header.seq);
        let (usable, gap) = usable(&mut segments);
        let last = segments.last().map_or(0, |last| last.header.seq);
        // The log can do without a damaged segment that is older than all others: its entries count as evicted.
        let damaged = without_header.iter().filter(|(seq, _, damaged)| *damaged && *seq >= floor);
        let mut notices: Vec<Error> = damaged.clone().map(|(_, path, _)| damaged_header(path)).collect();
        let impossible = damaged.clone().any(|(seq, ..)| *seq > first)
            || gap.is_some_and(|seq| seq <= synced_seq)
            || segments.iter().enumerate().any(|(at, found)| {
                // Beyond what was synced, a crash may have cut the log, and only in the last segment that is used can
                // damage be told from such a cut.
                let is_certain = found.header.seq <= synced_seq || at + 1 == usable;
                is_certain && found.was_sealed && !found.is_whole
            });
        let has_gap = gap.is_some() || without_header.iter().any(|(seq, ..)| (first..last).contains(seq));
        obsolete.extend(without_header.into_iter().map(|(_, path, _)| path));
        if impossible {
            let at = segments.get(usable.saturating_sub(1));
            notices.extend(at.map(|before| lost_records(&before.path, before.records_end)));
            obsolete.extend(segments.into_iter().map(|segment| segment.path));
            // Paths are in the order of numbers. If older segments stayed without the younger ones, the values that
            // these had replaced would be back.
            obsolete.sort_unstable();
            // The numbers continue after all existing ones, so that no deleted segment which comes back is taken for a
            // part of the new log.
            let (segments, floor, next_seq) = (Vec::new(), after_all, after_all);
            return Recovered {
                segments,
                obsolete,
                in_turn: true,
                floor,
                next_seq,
                synced_seq: 0,
                notices,
                has_gap,
                saved,
            };
        }
        obsolete.extend(segments.split_off(usable).into_iter().map(|segment| segment.path));
        obsolete.reverse();
        // The numbers continue without a hole, because a hole would look like a gap.
        let next_seq = segments.last().map_or(after_all, |last| last.header.seq + 1);
        let synced_seq = synced_seq.min(next_seq - 1);
        debug_assert!(segments.is_sorted_by(|a, b| a.header.seq < b.header.seq), "in the order of the log");
        debug_assert!(segments.iter().all(|found| (floor..next_seq).contains(&found.header.seq)), "none is void");
        Recovered { segments, obsolete, in_turn: false, floor, next_seq, synced_seq, notices, has_gap, saved }
    }
}

fn damaged_header(path: &Path) -> Error {
    let what = "the header of a segment is damaged; its entries are lost".into();
    Error::Corrupt { path: path.to_owned(), offset: 0, what }
}

fn lost_records(path: &Path, offset: u64) -> Error {
    let what =
        "records that no crash can have taken are lost from here on; because the values that they had replaced or \
         removed must not come back, the cache starts empty"
            .into();
    Error::Corrupt { path: path.to_owned(), offset, what }
}

/// Number of segments before the first gap, and the number of the segment that is missing or incomplete there; all
/// segments and `None` if there is no gap.
///
/// There is a gap where a segment is incomplete although a later one exists, or where a segment is missing and no note
/// in the log says that it was dropped. If a crash can have made the gap, the log ends there, and the segments after it
/// are deleted so that no value comes back that a lost record had replaced. If no crash can have made it, such values
/// could come back, so the cache starts empty.
fn usable(segments: &mut [Found]) -> (usize, Option<u64>) {
    for at in 1..segments.len() {
        let (before, after) = segments.split_at_mut(at);
        let (before, after) = (&mut before[at - 1], after[0].header);
        if !before.is_whole && before.header.seq + 1 == after.seq {
            before.complete(after.before_end);
        }
    }
    let (mut end, mut gap) = (segments.len(), None);
    // A segment after a gap is deleted, so its notes of dropped segments are ignored: repeat until nothing changes.
    loop {
        let kept = &segments[..end];
        let dropped: BTreeSet<u64> = kept.iter().flat_map(Found::dropped).collect();
        let gap_in = |pair: &[Found]| {
            let (from, to) = (pair[0].header.seq, pair[1].header.seq);
            let missed = (from + 1..to).find(|seq| !dropped.contains(seq));
            if pair[0].is_whole { missed } else { Some(from) }
        };
        let Some((at, missed)) = kept.windows(2).enumerate().find_map(|(at, pair)| Some((at, gap_in(pair)?))) else {
            return (end, gap);
        };
        (end, gap) = (at + 1, Some(missed));
    }
}

/// Appends a footer to a segment without an intact one, after whatever a killed writer left at the end of the file. If
/// `promised`, the records are synced before, as those of every other segment. Only a failure of that sync is an error:
/// without a footer the next start reads the records again, which is no reason to fail on a full disk.
pub(crate) fn seal(fs: &Fs, found: &mut Found, promised: bool) -> Result<()> {
    assert!(!found.sealed, "a file has one footer: {}", found.path.display());
    let footer = encode_footer(found.header.seq, found.records_end, found.newest_ms, &found.entries);
    let Ok(mut file) = fs.append(&found.path, 0o600) else { return Ok(()) };
    if promised {
        file.sync()?;
    }
    found.sealed = file.write_all(&footer).is_ok();
    // A disk that fills meanwhile has taken a part.
    if let Ok(stat) = file.stat() {
        found.file_bytes = stat.len_bytes;
    }
    Ok(())
}
