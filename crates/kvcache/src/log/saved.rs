//! Saves the index when a cache is closed, and loads it when it is opened again.
//!
//! Segments never change once they have a footer, and a replay depends on nothing else. So a saved index is right,
//! whatever happened since, if the folder has exactly the segments for which it was saved, and only then is it used.

use crate::{
    error::Result,
    format::{
        footer::{TRAILER_BYTES, Trailer},
        record::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader},
        saved::{Content, Contents, Listed, Part, contents_len, push},
    },
    log::{
        append::Meta,
        index::{Index, SHARDS, Shard},
        recover::{Found, Recovered, SavedIndex, names_in, on_files},
        replay::{FoundShard, Live, shares},
        segment::file_name,
        space::{SEGMENT_EXTRA_BYTES, blocks},
    },
    regular_file,
    sync::{on_threads, threads_for},
};
use refdb_vfs::{File, Fs};
use std::{
    collections::VecDeque,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Number of entries for which one more thread is worth its cost.
const ENTRIES_A_THREAD: usize = 100_000;

/// Least number of bytes in each write of entries but the last.
const PIECE_BYTES: usize = 1 << 20;

/// The path of the saved index. To programs that do not know it, this is a segment of another cache, which they delete
/// when they open the cache for writing.
fn path_in(dir: &Path) -> PathBuf {
    dir.join(file_name(0))
}

/// A sealed segment in the folder.
struct Sealed {
    content: Content,
    found: Found,
}

/// Reads a segment's header and trailer; `None` if these cannot be read or are not those of a sealed segment of this
/// cache.
fn sealed(fs: &Fs, path: &Path, seq: u64, store: u64) -> Option<Sealed> {
    let file = regular_file::open(fs, path).ok()?;
    let file_bytes = file.stat().ok()?.len_bytes;
    let (mut head, mut end) = ([0; SEGMENT_HEADER_BYTES], [0; TRAILER_BYTES]);
    file.read_exact_at(&mut head, 0).ok()?;
    file.read_exact_at(&mut end, file_bytes.checked_sub(TRAILER_BYTES as u64)?).ok()?;
    let header = SegmentHeader::decode(&head).filter(|header| header.seq == seq && header.store == store)?;
    let trailer = Trailer::decode_in(&end, seq, file_bytes)?;
    let found = Found::sealed(path.to_owned(), header, &trailer, file_bytes);
    Some(Sealed { content: Content::new(seq, file_bytes, &head, &end), found })
}

/// The segments of the folder; `None` if there are none, if one of them is not a sealed segment of this cache, or if a
/// later segment has made one of them void, because its number is below the floor that the later one names.
fn all_sealed(fs: &Fs, names: &[(u64, PathBuf)], store: u64) -> Option<Vec<Sealed>> {
    let all: Option<Vec<_>> = on_files(names, |(seq, path)| sealed(fs, path, *seq, store)).into_iter().collect();
    let floor = all.iter().flatten().map(|sealed| sealed.found.header.floor).max().unwrap_or(0);
    all.filter(|all| all.first().is_some_and(|first| first.content.seq >= floor))
}

/// Saves the index of a cache whose log consists of these segments. Nothing is saved if there are none, if they are not
/// the ones in the folder, if the file would take more than `room_bytes`, or if something that is no file has its name.
pub(crate) fn save(fs: &Fs, dir: &Path, index: &Index, log: &[(u16, Meta)], store: u64, room_bytes: u64) -> Result<()> {
    let Some(all) = all_sealed(fs, &names_in(fs, dir)?, store) else { return Ok(()) };
    if !all.iter().map(|sealed| sealed.content.seq).eq(log.iter().map(|(_, meta)| meta.seq)) {
        return Ok(());
    }
    let listed =
        |(sealed, (_, meta)): (&Sealed, &(u16, Meta))| Listed { content: sealed.content, mark_bytes: meta.mark_bytes };
    let segments: Vec<_> = all.iter().zip(log).map(listed).collect();
    let mut contents = Contents { store, segments, shards: vec![Part::default(); SHARDS] };
    for (shard, part) in contents.shards.iter_mut().enumerate() {
        index.for_each_in(shard, |_, _| part.entries += 1);
    }
    if blocks(contents.file_len()) > room_bytes {
        return Ok(());
    }
    let path = path_in(dir);
    if regular_file::check_place(fs, &path).is_err() {
        return Ok(());
    }
    let file = fs.create_new(&path, 0o600)?;
    write(&file, index, log, contents).inspect_err(|_| drop(fs.remove_file(&path)))
}

fn write(file: &File, index: &Index, log: &[(u16, Meta)], mut contents: Contents) -> Result<()> {
    let mut positions = vec![None; usize::from(u16::MAX) + 1];
    log.iter().enumerate().for_each(|(at, (slot, _))| positions[usize::from(*slot)] = Some(at as u16));
    // Room for what stands before the entries, which is known only after them.
    let mut bytes = vec![0; contents_len(log.len(), SHARDS) as usize];
    let mut at = 0;
    for (shard, part) in contents.shards.iter_mut().enumerate() {
        let start = bytes.len();
        index.for_each_in(shard, |hash, place| {
            let position = positions[usize::from(place.slot())].expect("an entry's segment is in the log");
            push(&mut bytes, hash, place.in_other_slot(position));
        });
        *part = Part::of(&bytes[start..]);
        if bytes.len() >= PIECE_BYTES || shard + 1 == SHARDS {
            file.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
            bytes.clear();
        }
    }
    // Written last, so that the file of a process that is killed meanwhile has no head.
    file.overwrite(&contents.encode(), 0)?;
    Ok(())
}

/// What [`recover`](super::recover::recover) would find, according to the saved index; `None` if there is none that can
/// be believed. The segments in the result have no entries: those of the saved index, which a replay of the segments
/// would give too, are not read yet.
pub(crate) fn load(fs: &Fs, dir: &Path, store: u64) -> Option<(Recovered, SavedShards)> {
    let mut names = names_in(fs, dir).ok()?;
    names.first().filter(|(seq, _)| *seq == 0)?;
    let (_, path) = names.remove(0);
    let file = Arc::new(regular_file::open(fs, &path).ok()?);
    let contents = Contents::decode(file.stat().ok()?.len_bytes, |bytes, at| file.read_exact_at(bytes, at).ok())?;
    if contents.store != store || contents.shards.len() != SHARDS {
        return None;
    }
    let all = all_sealed(fs, &names, store)?;
    if !all.iter().map(|sealed| sealed.content).eq(contents.segments.iter().map(|listed| listed.content)) {
        return None;
    }
    let segments: Vec<Found> = all.into_iter().map(|sealed| sealed.found).collect();
    let shards = SavedShards::new(file.clone(), contents, &segments)?;
    let headers = || segments.iter().map(|found| found.header);
    let next_seq = headers().next_back().map_or(1, |last| last.seq + 1);
    let recovered = Recovered {
        floor: headers().map(|header| header.floor).max().unwrap_or(0),
        next_seq,
        synced_seq: headers().map(|header| header.synced).max().unwrap_or(0).min(next_seq - 1),
        notices: Vec::new(),
        obsolete: Vec::new(),
        saved: Some(SavedIndex { path, file: Some(file) }),
        in_turn: false,
        has_gap: false,
        segments,
    };
    Some((recovered, shards))
}

/// The entries of a saved index, which are checked when they are read.
pub(crate) struct SavedShards {
    file: Arc<File>,
    contents: Contents,
    /// For each segment, where its records end.
    ends: Vec<u64>,
    /// For each segment, the bytes between the header and the trailer of its file that neither marks (tombstones and
    /// notes of dropped segments) nor the entries read so far take.
    left: Vec<u64>,
    /// The entries that were read before they were asked for.
    ahead: VecDeque<FoundShard>,
}

impl SavedShards {
    /// The entries of the saved index with this content; `None` if the segments cannot have as many entries or marks as
    /// it says.
    fn new(file: Arc<File>, contents: Contents, segments: &[Found]) -> Option<Self> {
        let ends: Vec<u64> = segments.iter().map(|found| found.records_end).collect();
        let left = segments.iter().zip(&contents.segments);
        let left = left.map(|(found, listed)| (found.file_bytes - SEGMENT_EXTRA_BYTES).checked_sub(listed.mark_bytes));
        let shards = SavedShards { file, left: left.collect::<Option<_>>()?, contents, ends, ahead: VecDeque::new() };
        let most = shards.ends.iter().sum::<u64>() / RECORD_HEADER_BYTES as u64;
        (shards.entries() as u64 <= most).then_some(shards)
    }

    /// Number of entries.
    pub(crate) fn entries(&self) -> usize {
        self.contents.shards.iter().map(|part| part.entries as usize).sum()
    }

    /// For each segment, the bytes that its marks take of its file.
    pub(crate) fn marks(&self) -> Vec<u64> {
        self.contents.segments.iter().map(|listed| listed.mark_bytes).collect()
    }

    /// Reads the entries of all shards, so that it is known whether they can be used; `None` if they cannot be read or
    /// are damaged.
    pub(crate) fn read_ahead(&mut self) -> Option<()> {
        self.ahead = self.read(0..SHARDS)?.into();
        Some(())
    }

    /// Reads the entries of these shards, which follow those of the call before, on as many threads as are useful;
    /// `None` if they cannot be read or are damaged.
    pub(crate) fn read(&mut self, shards: Range<usize>) -> Option<Vec<FoundShard>> {
        if !self.ahead.is_empty() {
            return Some(self.ahead.drain(..shards.len()).collect());
        }
        let entries: usize = self.contents.shards[shards.clone()].iter().map(|part| part.entries as usize).sum();
        let parts = shares(shards.len(), threads_for(entries / ENTRIES_A_THREAD));
        let parts = parts.into_iter().map(|part| shards.start + part.start..shards.start + part.end).collect();
        let parts = on_threads(parts, |part| self.read_part(part));
        let read: Vec<FoundShard> = parts.into_iter().collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
        for found in &read {
            for (left, live) in self.left.iter_mut().zip(&found.live.bytes_of) {
                *left = left.checked_sub(*live)?;
            }
        }
        Some(read)
    }

    fn read_part(&self, shards: Range<usize>) -> Option<Vec<FoundShard>> {
        let (mut read, mut bytes) = (Vec::with_capacity(shards.len()), Vec::new());
        let mut at = self.contents.offset_of(shards.start);
        for number in shards {
            let part = &self.contents.shards[number];
            bytes.resize(part.len(), 0);
            self.file.read_exact_at(&mut bytes, at).ok()?;
            at += part.len() as u64;
            let checked = part.check(&bytes)?;
            let mut live = Live::none(self.ends.len());
            let entries = checked.entries(&self.ends);
            let counted = entries.inspect(|entry| entry.iter().for_each(|(_, place)| live.add(*place)));
            let shard = Shard::of_entries(part.entries as usize, counted)?;
            read.push(FoundShard { shard, live });
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Options, format::saved::ENTRY_BYTES};

    /// Changes the entries of the first shard that has two, and makes all checksums right again.
    fn forge(path: &Path, change: impl Fn(&mut [[u8; ENTRY_BYTES]])) {
        let mut bytes = std::fs::read(path).unwrap();
        let mut contents = Contents::decode(bytes.len() as u64, |into, at| {
            into.copy_from_slice(bytes.get(at as usize..)?.get(..into.len())?);
            Some(())
        })
        .unwrap();
        let shard = contents.shards.iter().position(|part| part.entries >= 2).unwrap();
        let start = contents.offset_of(shard) as usize;
        let end = start + contents.shards[shard].len();
        change(bytes[start..end].as_chunks_mut().0);
        contents.shards[shard] = Part::of(&bytes[start..end]);
        let head = contents.encode();
        bytes[..head.len()].copy_from_slice(&head);
        std::fs::write(path, bytes).unwrap();
    }

    /// Regression: an entry of a key that its segment does not have stayed in the index when the segment was deleted,
    /// which failed assertions of a debug build then, and made any build panic when the cache was closed.
    #[test]
    fn forged_entries_go_with_their_segment() {
        let changes: [fn(&mut [[u8; ENTRY_BYTES]]); 2] = [
            |entries| entries[0][1] ^= 1,
            |entries| {
                let hash: [u8; 6] = *entries[0].first_chunk().unwrap();
                entries[1][..6].copy_from_slice(&hash);
            },
        ];
        for change in changes {
            let temp = tempfile::tempdir().unwrap();
            let open = || Cache::open(temp.path(), Options::new(1 << 20)).unwrap();
            let cache = open();
            (0..2_000u32).for_each(|i| drop(cache.put(&i.to_le_bytes(), &[1; 200])));
            cache.close().unwrap();
            forge(&path_in(temp.path()), change);
            let cache = open();
            assert!(cache.stats().entries > 500, "the saved index was believed: {:?}", cache.stats());
            for i in 2_000..3_000u32 {
                cache.put(&i.to_le_bytes(), &[1; 2_000]).unwrap();
            }
            cache.compact().unwrap();
            cache.close().unwrap();
            let cache = open();
            assert!((0..3_000u32).all(|i| cache.get(&i.to_le_bytes()).is_none_or(|found| found.value[0] == 1)));
        }
    }
}
