//! The footers from which the index is filled, as they stand in memory meanwhile.

use crate::{
    error::Result,
    format::footer::{ENTRY_BYTES, Entries, TRAILER_BYTES, Trailer, words},
    log::segment::Segment,
};
use refdb_vfs::{File, Growing};
use std::{ops::Range, sync::Arc};

/// The mapping of a segment's file, in which the footer was checked.
pub(crate) struct MappedFooter {
    pub(crate) file: Growing,
    /// Where the entries lie in the file.
    pub(crate) entries: Range<usize>,
    pub(crate) trailer: Trailer,
    /// Numbers of the segments that are marked as dropped.
    pub(crate) dropped: Vec<u64>,
}

impl MappedFooter {
    /// Maps a file and checks its footer; `None` if there is no intact footer or if the file cannot be mapped and read.
    pub(crate) fn new(file: &File, file_bytes: u64, seq: u64) -> Option<Self> {
        let trailer = read_trailer(file, file_bytes, seq).ok()??;
        let end = usize::try_from(file_bytes).ok()?;
        let start = end - trailer.footer_len();
        let mapped = Growing::new(file, start, end).ok().filter(|mapped| mapped.fetched_to(end))?;
        let entries = start..start + trailer.entries as usize * ENTRY_BYTES;
        let dropped = trailer.check_entries(mapped.get(entries.clone())?)?;
        Some(MappedFooter { file: mapped, entries, trailer, dropped })
    }
}

/// The trailer at the end of a file; `None` if there is none or it is damaged.
fn read_trailer(file: &File, file_bytes: u64, seq: u64) -> Result<Option<Trailer>> {
    trailer_from(file_bytes, seq, |bytes, offset| Ok(file.read_exact_at(bytes, offset)?))
}

/// The trailer of a file of this length whose bytes `read_at` provides.
pub(super) fn trailer_from(
    file_bytes: u64,
    seq: u64,
    mut read_at: impl FnMut(&mut [u8], u64) -> Result<()>,
) -> Result<Option<Trailer>> {
    let Some(trailer_at) = file_bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut bytes = [0; TRAILER_BYTES];
    read_at(&mut bytes, trailer_at)?;
    Ok(Trailer::decode_in(&bytes, seq, file_bytes))
}

/// The checked entries of one segment.
pub(crate) enum Footer {
    /// In the mapping of the segment's file, so that they need no memory of their own.
    Mapped(Arc<Segment>, Range<usize>),
    /// Read into memory.
    Read(Entries),
}

impl Footer {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.bytes().len() / ENTRY_BYTES
    }

    /// Hash and second word of each entry, see [`words`].
    pub(crate) fn words(&self) -> impl Iterator<Item = (u64, u64)> {
        words(self.bytes())
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Footer::Mapped(segment, range) => segment.mapped(range.clone()).unwrap_or_default(),
            Footer::Read(entries) => entries.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        format::{
            footer::{Entry, encode_footer},
            rate::Rate,
            record::{Kind, SEGMENT_HEADER_BYTES},
        },
        log::handles::Handles,
    };
    use refdb_vfs::Fs;

    #[test]
    fn a_mapped_footer_is_the_one_that_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (Fs::real(), dir.path().join("0000000000000007.seg"));
        let entry = |at: usize, kind| Entry {
            hash: at as u64 + 1,
            kind,
            offset: SEGMENT_HEADER_BYTES + at * 48,
            len: 48,
            rate: Rate::default(),
        };
        let kind = |at| if at % 100 == 5 { Kind::Dropped } else { Kind::Put };
        let entries: Entries = (0..1_000).map(|at| entry(at, kind(at))).collect();
        let end = SEGMENT_HEADER_BYTES + 1_000 * 48;
        let mut bytes = vec![1; end];
        bytes.extend(encode_footer(7, end as u64, 0, &entries));
        fs.create_new(&path, 0o600).unwrap().write_all_at(&bytes, 0).unwrap();
        let mapped = |bytes: &[u8]| MappedFooter::new(&fs.open(&path).unwrap(), bytes.len() as u64, 7);
        let footer = mapped(&bytes).unwrap();
        assert_eq!(footer.dropped, (0..10).map(|hundred| hundred * 100 + 6).collect::<Vec<_>>());
        assert_eq!(footer.dropped, entries.dropped());
        let segment = Segment::sealed(path.clone(), 7, 3, bytes.len() as u64, &Handles::new(fs.clone()));
        segment.use_mapping(footer.file);
        let in_file = Footer::Mapped(Arc::new(segment), footer.entries);
        let in_memory = Footer::Read(entries);
        assert_eq!((in_file.len(), in_memory.len()), (1_000, 1_000));
        assert!(in_file.words().eq(in_memory.words()));
        for at in [end, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert!(mapped(&damaged).is_none(), "byte {at} of the file is damaged");
        }
    }
}
