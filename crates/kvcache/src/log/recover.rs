//! The state of a cache's files when it is opened. The log is replayed from footers, so that the time does not grow
//! with the values. Only a segment without a footer (the last one of a killed process) is read whole.

use crate::{
    error::{Error, Result},
    format::{
        footer::{Entries, TRAILER_BYTES, Trailer, encode_footer, footer_len},
        record::{Kind, SEGMENT_HEADER_BYTES, SegmentHeader},
    },
    log::{
        scan::{Scanned, scan},
        segment::seq_of,
    },
    plain,
    sync::{on_threads, threads_for},
};
use refdb_vfs::{File, Fs};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// How often a log is read that another process writes.
const READ_AGAIN: u32 = 5;
/// Fewer files than this are not worth a thread.
const SEGMENTS_A_THREAD: usize = 64;

/// A segment that was found.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
    pub(crate) entries: Entries,
    pub(crate) records_end: u64,
    pub(crate) file_bytes: u64,
    pub(crate) newest_ms: u64,
    /// Whether it has a footer.
    pub(crate) sealed: bool,
    /// Whether all its records are known, or who those that are harmed belonged to.
    is_whole: bool,
    /// Whether it had a footer, which is harmed.
    was_sealed: bool,
    /// The records found if harmed ones are stepped over, where these are more.
    stepped: Option<Scanned>,
}

impl Found {
    /// Takes the records found if harmed ones are stepped over, and ends where its records are known to.
    fn complete(&mut self, end: u64) {
        if let Some(stepped) = self.stepped.take_if(|stepped| stepped.end == end) {
            (self.entries, self.records_end, self.newest_ms) = (stepped.entries, stepped.end, stepped.newest_ms);
        }
        self.is_whole |= self.records_end == end;
    }

    /// Segments that it says were dropped.
    fn dropped(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().filter(|entry| entry.kind == Kind::Dropped).map(|entry| entry.hash)
    }
}

/// What a file of the log turned out to be.
enum Loaded {
    Segment(Box<Found>),
    /// Of another cache.
    Foreign,
    /// It has no header, as a crash may leave it.
    Torn,
    /// Its header is harmed.
    Harmed,
}

/// The usable part of a log.
pub(crate) struct Recovered {
    /// In the order of the log.
    pub(crate) segments: Vec<Found>,
    /// Files to be deleted: void, behind a gap, or not ours.
    pub(crate) useless: Vec<PathBuf>,
    pub(crate) floor: u64,
    pub(crate) next_seq: u64,
    /// Segments up to this number are on stable storage.
    pub(crate) synced_seq: u64,
    /// The harm, and its meaning.
    pub(crate) notices: Vec<Error>,
    /// Whether the log has a gap: where another process writes, it may only have been read too slowly.
    has_gap: bool,
}

/// What the last bytes of a file say, if they are a footer.
pub(crate) fn read_footer(file: &File, file_bytes: u64, seq: u64) -> Result<Option<(Trailer, Entries)>> {
    footer_from(file_bytes, seq, |bytes, offset| Ok(file.read_exact_at(bytes, offset)?))
}

/// The same from any source of bytes.
pub(crate) fn footer_from(
    file_bytes: u64,
    seq: u64,
    mut read_at: impl FnMut(&mut [u8], u64) -> Result<()>,
) -> Result<Option<(Trailer, Entries)>> {
    let Some(trailer_at) = file_bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut bytes = [0; TRAILER_BYTES];
    read_at(&mut bytes, trailer_at)?;
    let Some(trailer) = Trailer::decode(&bytes, seq) else { return Ok(None) };
    let footer_len = trailer.footer_len() as u64;
    let fits = trailer.records_end.checked_add(footer_len).is_some_and(|end| end <= file_bytes);
    if trailer.records_end < SEGMENT_HEADER_BYTES as u64 || !fits {
        return Ok(None);
    }
    // No larger than the file, so an unchecked number allocates nothing.
    let mut bytes = vec![0; trailer.footer_len() - TRAILER_BYTES];
    read_at(&mut bytes, file_bytes - footer_len)?;
    Ok(trailer.decode_entries(bytes).map(|entries| (trailer, entries)))
}

fn load(fs: &Fs, path: &Path, seq: u64, store: u64) -> Result<Loaded> {
    let file = plain::open(fs, path)?;
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
        None => return Ok(Loaded::Harmed),
    };
    let path = path.to_owned();
    if let Some((trailer, entries)) = read_footer(&file, file_bytes, seq)? {
        let Trailer { records_end, newest_ms, .. } = trailer;
        return Ok(Loaded::Segment(Box::new(Found {
            path,
            header,
            entries,
            records_end,
            file_bytes,
            newest_ms,
            sealed: true,
            is_whole: true,
            was_sealed: false,
            stepped: None,
        })));
    }
    let bytes = file.read_to_end()?;
    // Behind the header, which is as long as a trailer and has the number in the same place.
    let last = &bytes[bytes.len().saturating_sub(TRAILER_BYTES).max(SEGMENT_HEADER_BYTES)..];
    let trailer = Trailer::decode(last, seq);
    let Scanned { entries, end, newest_ms, .. } = scan(&bytes, seq, false);
    let stepped = Some(scan(&bytes, seq, true)).filter(|stepped| stepped.harmed > 0);
    // Where its records end: as its trailer says, or where as many entries would stand behind them as were found.
    let known_end = trailer.map(|trailer| trailer.records_end).or_else(|| {
        let longest = stepped.as_ref().map_or((end, entries.len()), |stepped| (stepped.end, stepped.entries.len()));
        (longest.0 + footer_len(longest.1) as u64 == bytes.len() as u64).then_some(longest.0)
    });
    let mut found = Found {
        path,
        header,
        entries,
        records_end: end,
        file_bytes: bytes.len() as u64,
        newest_ms,
        sealed: false,
        is_whole: false,
        was_sealed: trailer.is_some() || Trailer::was_one(last, seq),
        stepped,
    };
    if let Some(end) = known_end.filter(|_| found.was_sealed) {
        found.complete(end);
    }
    Ok(Loaded::Segment(Box::new(found)))
}

/// Loads each of these, on as many threads as help.
fn load_all(fs: &Fs, names: &[(u64, PathBuf)], store: u64) -> Vec<Result<Loaded>> {
    let load =
        |names: &[(u64, PathBuf)]| -> Vec<_> { names.iter().map(|(seq, path)| load(fs, path, *seq, store)).collect() };
    let threads = threads_for(names.len() / SEGMENTS_A_THREAD);
    let parts = names.chunks(names.len().div_ceil(threads).max(1)).collect();
    on_threads(parts, load).into_iter().flatten().collect()
}

/// Reads the log in `dir`; changes nothing.
pub(crate) fn recover(fs: &Fs, dir: &Path, store: u64) -> Result<Recovered> {
    let mut names: Vec<(u64, PathBuf)> = Vec::new();
    for (name, _) in fs.read_dir(dir)? {
        if let Some(seq) = seq_of(&name) {
            names.push((seq, dir.join(String::from_utf8_lossy(&name).as_ref())));
        }
    }
    names.sort();
    let mut log =
        FoundLog { after_all: names.last().map_or(1, |(seq, _)| seq.saturating_add(1)), ..FoundLog::default() };
    for (loaded, (seq, path)) in load_all(fs, &names, store).into_iter().zip(names) {
        match loaded {
            Ok(Loaded::Segment(segment)) => log.segments.push(*segment),
            Ok(Loaded::Foreign) => log.useless.push(path),
            Ok(Loaded::Torn) => log.without_header.push((seq, path, false)),
            Ok(Loaded::Harmed) => log.without_header.push((seq, path, true)),
            // Deleted by the process that writes, while this one only reads.
            Err(Error::File(error)) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(log.judge())
}

/// As [`recover`], beside a process that writes: what it deletes and moves meanwhile may look like a gap.
pub(crate) fn recover_to_read(fs: &Fs, dir: &Path, store: u64) -> Result<Recovered> {
    for _ in 1..READ_AGAIN {
        let recovered = recover(fs, dir, store)?;
        if !recovered.has_gap {
            return Ok(recovered);
        }
    }
    recover(fs, dir, store)
}

/// What all files turned out to be.
#[derive(Default)]
struct FoundLog {
    segments: Vec<Found>,
    useless: Vec<PathBuf>,
    /// Number, file, and whether there is a header, which is harmed.
    without_header: Vec<(u64, PathBuf, bool)>,
    /// The first number that no file has.
    after_all: u64,
}

impl FoundLog {
    /// Decides what of it is used.
    fn judge(self) -> Recovered {
        let FoundLog { segments, mut useless, without_header, after_all } = self;
        let synced_seq = segments.iter().map(|segment| segment.header.synced).max().unwrap_or(0);
        let floor = segments.iter().map(|segment| segment.header.floor).max().unwrap_or(0);
        let (void, mut segments): (Vec<_>, Vec<_>) =
            segments.into_iter().partition(|segment| segment.header.seq < floor);
        useless.extend(void.into_iter().map(|segment| segment.path));
        let first = segments.first().map_or(u64::MAX, |first| first.header.seq);
        let (usable, gap) = usable(&mut segments);
        let last = segments.last().map_or(0, |last| last.header.seq);
        // A harmed one that is older than all others may be missed: what it has is as good as evicted.
        let harmed = without_header.iter().filter(|(seq, _, harmed)| *harmed && *seq >= floor);
        let mut notices: Vec<Error> = harmed.clone().map(|(_, path, _)| harmed_header(path)).collect();
        let impossible = harmed.clone().any(|(seq, ..)| *seq > first)
            || gap.is_some_and(|seq| seq <= synced_seq)
            || segments.get(usable.saturating_sub(1)).is_some_and(|last| last.was_sealed && !last.is_whole);
        let has_gap = gap.is_some() || without_header.iter().any(|(seq, ..)| (first..last).contains(seq));
        useless.extend(without_header.into_iter().map(|(_, path, _)| path));
        if impossible {
            let at = segments.get(usable.saturating_sub(1));
            notices.extend(at.map(|before| lost_records(&before.path, before.records_end)));
            useless.extend(segments.into_iter().map(|segment| segment.path));
            // No deleted segment that comes back may be taken for a part of the new log.
            let (segments, floor, next_seq) = (Vec::new(), after_all, after_all);
            return Recovered { segments, useless, floor, next_seq, synced_seq: 0, notices, has_gap };
        }
        useless.extend(segments.split_off(usable).into_iter().map(|segment| segment.path));
        // Without a hole in the numbers, which would look like a gap.
        let next_seq = segments.last().map_or(after_all, |last| last.header.seq + 1);
        let synced_seq = synced_seq.min(next_seq - 1);
        debug_assert!(segments.is_sorted_by(|a, b| a.header.seq < b.header.seq), "in the order of the log");
        debug_assert!(segments.iter().all(|found| (floor..next_seq).contains(&found.header.seq)), "none is void");
        Recovered { segments, useless, floor, next_seq, synced_seq, notices, has_gap }
    }
}

fn harmed_header(path: &Path) -> Error {
    let what = "the header of a segment is harmed; its entries are gone".into();
    Error::Corrupt { path: path.to_owned(), offset: 0, what }
}

fn lost_records(path: &Path, offset: u64) -> Error {
    let what =
        "records are lost from here on that no crash takes; what they had replaced or removed must not come back, \
                so the cache starts empty"
            .into();
    Error::Corrupt { path: path.to_owned(), offset, what }
}

/// How many of the segments stand before the first gap, and the number of the segment that is missed there.
///
/// The log ends at the first gap that a crash can have made. A segment is not whole though a later one exists, or one
/// is missing that no record calls dropped. Segments behind it are deleted, so that no value comes back that a lost
/// record had replaced. A gap that no crash can make would bring such values back: the cache starts empty then.
fn usable(segments: &mut [Found]) -> (usize, Option<u64>) {
    for at in 1..segments.len() {
        let (before, after) = segments.split_at_mut(at);
        let (before, after) = (&mut before[at - 1], after[0].header);
        if !before.is_whole && before.header.seq + 1 == after.seq {
            before.complete(after.before_end);
        }
    }
    let (mut end, mut gap) = (segments.len(), None);
    // A segment behind a gap is not there to say that another was dropped: look again until nothing changes.
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

/// Gives a footer to a segment that has none. It stands at the file's end, behind what a killed writer left.
pub(crate) fn seal(fs: &Fs, found: &mut Found) -> Result<()> {
    assert!(!found.sealed, "a footer stands once in a file: {}", found.path.display());
    let footer = encode_footer(found.header.seq, found.records_end, found.newest_ms, &found.entries);
    fs.append(&found.path, 0o600)?.write_all(&footer)?;
    found.file_bytes += footer.len() as u64;
    found.sealed = true;
    Ok(())
}
