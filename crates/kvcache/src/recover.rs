//! What the files of a cache say when it is opened.
//!
//! The log is replayed from footers, so the time does not grow with the values; only a segment without a footer (the
//! last one of a killed process) is read whole. The log ends at the first gap: a segment that is not whole though a
//! later one exists, or one that is missing though nothing says that it was dropped. What lies behind a gap is
//! deleted, so that no value comes back that a lost record had replaced.

use crate::{
    error::{Error, Result},
    footer::{Entries, Entry, TRAILER_BYTES, Trailer, encode_footer},
    format::{Kind, SEGMENT_HEADER_BYTES, SegmentHeader, check_record},
    segment::seq_of,
    sync::threads_for,
};
use refdb_vfs::{File, Fs};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    thread,
};

/// Fewer files than this are not worth a thread.
const SEGMENTS_A_THREAD: usize = 64;

/// A segment that was found.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
    pub(crate) entries: Entries,
    /// Segments that it says were dropped.
    dropped: Vec<u64>,
    pub(crate) records_end: u64,
    pub(crate) file_bytes: u64,
    pub(crate) newest_ms: u64,
    /// Whether it has a footer.
    pub(crate) sealed: bool,
}

/// The usable part of a log.
pub(crate) struct Recovered {
    /// In the order of the log.
    pub(crate) segments: Vec<Found>,
    /// Files to be deleted: void, behind a gap, or not ours.
    pub(crate) useless: Vec<PathBuf>,
    pub(crate) floor: u64,
    pub(crate) next_seq: u64,
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

/// Every whole record from the start of a segment's bytes, where they end, and the youngest one's age.
pub(crate) fn scan(bytes: &[u8], seq: u64) -> (Entries, u64, u64) {
    let (mut entries, mut at, mut newest_ms) = (Entries::default(), SEGMENT_HEADER_BYTES, 0);
    while let Some(header) = bytes.get(at..).and_then(|rest| check_record(rest, seq, at as u64)) {
        let len = header.record_len();
        entries.push(&Entry { hash: header.hash, kind: header.kind, offset: at, len });
        newest_ms = header.created_ms.max(newest_ms);
        at += len;
    }
    (entries, at as u64, newest_ms)
}

fn load(fs: &Fs, path: &Path, seq: u64, store: u64) -> Result<Option<Found>> {
    let file = fs.open(path)?;
    let file_bytes = file.stat()?.len_bytes;
    let mut head = [0; SEGMENT_HEADER_BYTES];
    if file_bytes < head.len() as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut head, 0)?;
    let Some(header) = SegmentHeader::decode(&head).filter(|header| header.seq == seq && header.store == store) else {
        return Ok(None);
    };
    let (entries, records_end, newest_ms, sealed) = match read_footer(&file, file_bytes, seq)? {
        Some((trailer, entries)) => (entries, trailer.records_end, trailer.newest_ms, true),
        None => {
            let (entries, records_end, newest_ms) = scan(&file.read_to_end()?, seq);
            (entries, records_end, newest_ms, false)
        }
    };
    let dropped = entries.iter().filter(|entry| entry.kind == Kind::Dropped).map(|entry| entry.hash).collect();
    let path = path.to_owned();
    Ok(Some(Found { path, header, entries, dropped, records_end, file_bytes, newest_ms, sealed }))
}

/// Loads each of these, on as many threads as help.
fn load_all(fs: &Fs, names: &[(u64, PathBuf)], store: u64) -> Vec<Result<Option<Found>>> {
    let load =
        |names: &[(u64, PathBuf)]| -> Vec<_> { names.iter().map(|(seq, path)| load(fs, path, *seq, store)).collect() };
    let threads = threads_for(names.len() / SEGMENTS_A_THREAD);
    thread::scope(|scope| {
        let mut parts = names.chunks(names.len().div_ceil(threads).max(1));
        let first = parts.next().unwrap_or_default();
        let others: Vec<_> = parts.map(|part| scope.spawn(move || load(part))).collect();
        let mut found = load(first);
        others.into_iter().for_each(|part| found.extend(part.join().expect("reading files does not panic")));
        found
    })
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
    let after_all = names.last().map_or(1, |(seq, _)| seq.saturating_add(1));
    let (mut found, mut useless) = (Vec::new(), Vec::new());
    for (found_there, (_, path)) in load_all(fs, &names, store).into_iter().zip(names) {
        match found_there {
            Ok(Some(segment)) => found.push(segment),
            Ok(None) => useless.push(path),
            // Deleted by the process that writes, while this one only reads.
            Err(Error::File(error)) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let floor = found.iter().map(|segment| segment.header.floor).max().unwrap_or(0);
    let (void, mut segments): (Vec<_>, Vec<_>) = found.into_iter().partition(|segment| segment.header.seq < floor);
    let behind = segments.split_off(usable(&segments));
    useless.extend(void.into_iter().chain(behind).map(|segment| segment.path));
    // Without a hole in the numbers, which would look like a gap.
    let next_seq = segments.last().map_or(after_all, |last| last.header.seq + 1);
    Ok(Recovered { segments, useless, floor, next_seq })
}

/// How many of the segments stand before the first gap.
fn usable(segments: &[Found]) -> usize {
    let mut end = segments.len();
    // A segment behind a gap is not there to say that another was dropped: look again until nothing changes.
    loop {
        let kept = &segments[..end];
        let dropped: BTreeSet<u64> = kept.iter().flat_map(|segment| &segment.dropped).copied().collect();
        let is_gap = |pair: &[Found]| {
            let (before, after) = (&pair[0], &pair[1]);
            let (from, to) = (before.header.seq, after.header.seq);
            let follows = from + 1 == to;
            let is_whole = before.sealed || (follows && after.header.before_end == before.records_end);
            let missing = (from + 1..to).take_while(|seq| dropped.contains(seq)).count() as u64;
            !is_whole || missing < to - from - 1
        };
        let cut = kept.windows(2).position(is_gap).map_or(end, |at| at + 1);
        if cut == end {
            return end;
        }
        end = cut;
    }
}

/// Gives a footer to a segment that has none. It stands at the file's end, behind what a killed writer left.
pub(crate) fn seal(fs: &Fs, found: &mut Found) -> Result<()> {
    let footer = encode_footer(found.header.seq, found.records_end, found.newest_ms, &found.entries);
    fs.append(&found.path, 0o600)?.write_all(&footer)?;
    found.file_bytes += footer.len() as u64;
    found.sealed = true;
    Ok(())
}
