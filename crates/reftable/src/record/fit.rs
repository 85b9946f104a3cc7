//! Limits on the size of records.
//!
//! C git writes no block larger than `reftable.blockSize`. If a record does not fit into such a block, each compaction
//! by git that includes the record fails with "entry too large", and with it the write that began the compaction. If an
//! index block has no room for two names, git cannot index them.

use super::{LogRecord, LogValue, RefRecord, RefValue, log_record::INDEX_LEN};
use crate::{
    Error, Result, WriteOptions,
    format::{BLOCK_HEADER_LEN, Header, RESTART_COUNT_LEN, RESTART_LEN, stored_extra, varint},
};
use bstr::{BStr, BString, ByteSlice};

/// The least number of bytes of a committer's name or email that are kept when that name or email is cut. If an entry
/// would still be too long then, nothing is cut.
const IDENT_LEN_MIN: usize = 128;

/// The length of what follows the name in the key of a log entry: a NUL byte and an update index.
const LOG_KEY_EXTRA_LEN: usize = 1 + INDEX_LEN;

/// Says whether C git can write a log entry and read it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFit {
    /// C git can do both.
    Whole,
    /// C git can do both if the message, or the name or email of the committer, is cut.
    Cut,
    /// C git cannot do both, even with a cut, because the refname is too long or the block size is too small.
    Never,
}

/// The limits of [`WriteOptions::check_ref`], which are the same for all refs of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefLimits {
    name_max: usize,
    /// The bytes that a block has for its only ref.
    room: usize,
}

impl RefLimits {
    /// Returns whether [`WriteOptions::check_ref`] accepts this ref.
    #[inline]
    pub(crate) fn allow(&self, record: &RefRecord<'_>) -> bool {
        (record.name.len() <= self.name_max || record.is_deletion()) && longest_ref_len(record) <= self.room
    }
}

impl WriteOptions {
    /// The length to which git cuts the message of a new log entry, in bytes, without the newline at its end.
    pub fn log_message_max(&self) -> usize {
        self.block_size as usize / 2
    }

    /// Returns whether C git can write a log entry into any table and read it again, and if not, whether a cut would
    /// help.
    pub fn log_fit(&self, record: &LogRecord<'_>) -> LogFit {
        if log_len(record) <= self.log_room_anywhere() {
            return LogFit::Whole;
        }
        let fits = self.with_log_cut(record, |cut| log_len(cut) <= self.log_room_anywhere());
        if fits { LogFit::Cut } else { LogFit::Never }
    }

    /// Checks that C git could write a log entry into a table and read it again. `has_refs` says whether the table has
    /// refs; in one without refs the file's header takes a part of the first log block.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if git could not.
    pub fn check_log(&self, record: &LogRecord<'_>, has_refs: bool) -> Result<()> {
        self.check(record.name, log_len(record), self.log_room(has_refs))
    }

    /// Checks that C git could write a ref into any table, and index its name. For a tombstone, a table of its own is
    /// enough, and its name can be too long for an index, so that a ref that is too long can be deleted.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if git could not.
    pub fn check_ref(&self, record: &RefRecord<'_>) -> Result<()> {
        if !record.is_deletion() {
            self.check_name(record.name)?;
        }
        self.check(record.name, longest_ref_len(record), self.room(false))
    }

    pub(crate) fn ref_limits(&self) -> RefLimits {
        RefLimits { name_max: self.name_max(), room: self.room(false) }
    }

    /// Returns whether every table has room for a ref, whatever the table's limits are, and even if the ref is the
    /// table's first one. The name can still be too long for an index.
    pub(crate) fn has_room_for(&self, record: &RefRecord<'_>) -> bool {
        ref_len(record, INDEX_DELTA_LEN_MAX) <= self.room(false)
    }

    /// Checks that a name is not longer than [`name_max`](Self::name_max).
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if it is.
    pub fn check_name(&self, name: &BStr) -> Result<()> {
        if name.len() <= self.name_max() {
            return Ok(());
        }
        Err(Error::TooLarge { name: name.to_owned(), block_size: self.index_block_size() })
    }

    /// The greatest length of the name of a new ref or reflog, in bytes: 2,008 with SHA-1 and blocks of 4,096 bytes.
    ///
    /// An index lists the last key of each block, and the next level lists the last key of each index block. The
    /// levels become smaller only if an index block has room for two records. If it does not, C git's writer adds
    /// levels until the disk is full. A larger index block would not help, because C git's reader would miss the end
    /// of the block. The bound holds for each name by itself, since a later compaction can bring any two names
    /// together.
    ///
    /// A name also begins the keys of its log entries. Because a reflog can be switched on at any time, the bound
    /// leaves room for the rest of such a key even if no log is written now. If blocks are so small that an index has
    /// no room for two whole object ids, no name is accepted, since C git could then fail to write its index of
    /// objects.
    ///
    /// The bound follows the smaller of [`block_size`](#structfield.block_size) and
    /// [`name_block_size`](#structfield.name_block_size).
    pub fn name_max(&self) -> usize {
        let key_max = WriteOptions { block_size: self.index_block_size(), ..*self }.index_key_max();
        if key_max < self.hash.len_bytes() { 0 } else { key_max.saturating_sub(LOG_KEY_EXTRA_LEN) }
    }

    fn index_block_size(&self) -> u32 {
        self.name_block_size.map_or(self.block_size, |later| later.min(self.block_size))
    }

    /// The length of the longest key such that two index records with keys of that length fit into one block, whatever
    /// their positions are, and even if they share nothing. A record has the length of the shared part, the length of
    /// the rest, the rest, a position and a restart point. The file's header counts, too.
    pub(crate) fn index_key_max(&self) -> usize {
        let header = Header::new(self.hash, 0, 0, 0).len();
        let room = (self.block_size as usize).saturating_sub(header + BLOCK_HEADER_LEN + RESTART_COUNT_LEN);
        let record_max = (room / 2).saturating_sub(RESTART_LEN + varint::len(u64::MAX));
        // A longer key has a longer encoding of its length, by one byte for each further 7 bits.
        let longest = record_max.saturating_sub(key_len(record_max) - record_max);
        if key_len(longest + 1) <= record_max { longest + 1 } else { longest }
    }

    fn check(&self, name: &BStr, len: usize, room: usize) -> Result<()> {
        if len <= room {
            return Ok(());
        }
        Err(Error::TooLarge { name: name.to_owned(), block_size: self.block_size })
    }

    /// The bytes that a block has for its only record. The first block of a file also contains the file's header.
    fn room(&self, is_behind_others: bool) -> usize {
        let header = if is_behind_others { 0 } else { Header::new(self.hash, 0, 0, 0).len() };
        (self.block_size as usize).saturating_sub(header + BLOCK_HEADER_LEN + RESTART_LEN + RESTART_COUNT_LEN)
    }

    /// The bytes that a block has for its only log entry. C git reads no more of a log block than the block size if the
    /// inflated block is not larger, so the entry must fit even if deflate cannot shrink it.
    ///
    /// refdb writes no block size into the header of a table that is not aligned, and git assumes its default then.
    fn log_room(&self, is_behind_others: bool) -> usize {
        let unread = if self.aligned { 0 } else { self.block_size.saturating_sub(Self::DEFAULT_BLOCK_SIZE) as usize };
        self.room(is_behind_others).saturating_sub(stored_extra(self.block_size as usize) + unread)
    }

    /// The bytes that a block has for its only log entry in any table, even in one without refs, such as git's `reflog
    /// expire` writes.
    fn log_room_anywhere(&self) -> usize {
        self.log_room(false)
    }

    /// Passes a log entry to `then`, cut if C git could not write it otherwise. First the message is cut to the length
    /// that git would have given it, or shorter if necessary, then the name and the email. An entry that no cut makes
    /// small enough is passed as it is.
    pub(crate) fn with_log_cut<T>(&self, record: &LogRecord<'_>, then: impl FnOnce(&LogRecord<'_>) -> T) -> T {
        let excess = |record: &LogRecord<'_>| log_len(record).saturating_sub(self.log_room_anywhere());
        let LogValue::Update { old, new, name, email, time_seconds, tz_offset, message } = record.value else {
            return then(record);
        };
        if excess(record) == 0 {
            return then(record);
        }
        let with = |name, email, message| LogRecord {
            value: LogValue::Update { old, new, name, email, time_seconds, tz_offset, message },
            ..*record
        };
        let text = message.strip_suffix(b"\n").unwrap_or(message);
        let line = |len: usize| BString::from([&text[..len], b"\n"].concat());
        let len = text.len().min(self.log_message_max());
        let usual = line(len);
        let message = line(len.saturating_sub(excess(&with(name, email, usual.as_bstr()))));
        let name = ident_cut(name, excess(&with(name, email, message.as_bstr())));
        let email = ident_cut(email, excess(&with(name, email, message.as_bstr())));
        let cut = with(name, email, message.as_bstr());
        if excess(&cut) == 0 { then(&cut) } else { then(record) }
    }
}

fn ident_cut(text: &BStr, excess: usize) -> &BStr {
    let len = text.len().saturating_sub(excess).max(IDENT_LEN_MIN).min(text.len());
    &text[..len]
}

fn log_len(record: &LogRecord<'_>) -> usize {
    let value = match record.value {
        LogValue::Deletion => 0,
        LogValue::Update { old, new, name, email, time_seconds, message, .. } => {
            let strings: usize = [name, email, message].into_iter().map(string_len).sum();
            old.kind().len_bytes() + new.kind().len_bytes() + strings + varint::len(time_seconds) + size_of::<i16>()
        }
    };
    key_len(record.name.len() + LOG_KEY_EXTRA_LEN) + value
}

/// The greatest length of the difference between a ref's update index and the least one of its table, which can be any
/// number in a merged table.
const INDEX_DELTA_LEN_MAX: usize = varint::len(u64::MAX);

/// The length that a ref has in any table at most, or a tombstone in a table of its own, where it has the least update
/// index.
fn longest_ref_len(record: &RefRecord<'_>) -> usize {
    ref_len(record, if record.is_deletion() { 1 } else { INDEX_DELTA_LEN_MAX })
}

fn ref_len(record: &RefRecord<'_>, index_delta_len: usize) -> usize {
    let value = match record.value {
        RefValue::Deletion => 0,
        RefValue::Direct(id) => id.kind().len_bytes(),
        RefValue::Peeled { target, peeled } => target.kind().len_bytes() + peeled.kind().len_bytes(),
        RefValue::Symbolic(target) => string_len(target),
    };
    key_len(record.name.len()) + index_delta_len + value
}

/// The length of a key that shares nothing with the previous one, including what is stored before it.
fn key_len(len: usize) -> usize {
    const SHARED_LEN: usize = 1;
    const TYPE_BITS: usize = 3;
    SHARED_LEN + varint::len((len << TYPE_BITS) as u64) + len
}

fn string_len(text: &BStr) -> usize {
    varint::len(text.len() as u64) + text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        block::BlockWriter,
        format::BlockKind,
        record::{key, log_key},
    };
    use refdb_types::{HashKind, ObjectId};

    fn entry<'a>(refname: &'a BStr, name: &'a BStr, message: &'a BStr) -> LogRecord<'a> {
        let id = ObjectId::null(HashKind::Sha1);
        let email = "e@example.com".into();
        let (time_seconds, tz_offset) = (1_700_000_000, 0);
        let value = LogValue::Update { old: id, new: id, name, email, time_seconds, tz_offset, message };
        LogRecord { name: refname, update_index: 7, value }
    }

    #[test]
    fn the_length_of_a_record_is_that_of_its_bytes() {
        for len in [1, 3, 6, 127, 128, 16_511, 16_512, 70_000] {
            let text = BString::from(vec![b'x'; len]);
            let usual = entry("refs/heads/main".into(), "A".into(), text.as_bstr());
            let with_long_name = entry("refs/heads/main".into(), text.as_bstr(), "m\n".into());
            for record in [usual, with_long_name, LogRecord { value: LogValue::Deletion, ..usual }] {
                let (mut name, mut bytes) = (Vec::new(), Vec::new());
                log_key(&mut name, record.name, record.update_index);
                key::put(&mut bytes, &name, 0, record.value.type_bits());
                record.value.encode(&mut bytes);
                assert_eq!(log_len(&record), bytes.len());
            }
            let id = ObjectId::null(HashKind::Sha256);
            let peeled = RefValue::Peeled { target: id, peeled: id };
            for value in [RefValue::Deletion, RefValue::Direct(id), peeled, RefValue::Symbolic(text.as_bstr())] {
                let record = RefRecord { name: text.as_bstr(), update_index: 7, value };
                let mut bytes = Vec::new();
                key::put(&mut bytes, record.name, 0, record.value.type_bits());
                record.value.encode(0, &mut bytes);
                assert_eq!(ref_len(&record, 1), bytes.len());
            }
        }
    }

    /// Regression: the longest refs that were accepted did not fit into a merged table, so that the stack could not be
    /// compacted any more.
    #[test]
    fn a_ref_that_is_accepted_fits_into_any_table() {
        let options = WriteOptions::default();
        let (mut accepted, mut refused) = (0, 0);
        for len in 4000..4096 {
            let target = BString::from(vec![b'x'; len]);
            let value = RefValue::Symbolic(target.as_bstr());
            let record = RefRecord { name: "HEAD".into(), update_index: u64::MAX, value };
            if options.check_ref(&record).is_err() {
                refused += 1;
                continue;
            }
            accepted += 1;
            let mut bytes = Vec::new();
            let mut table = crate::TableWriter::new(options, 0, u64::MAX, &mut bytes).unwrap();
            table.add_ref(&record).unwrap();
        }
        assert!(accepted > 0 && refused > 0, "{accepted} {refused}");
    }

    #[test]
    fn two_index_records_of_the_longest_key_fill_one_block_at_most_and_of_a_longer_one_do_not_fit() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            for block_size in (100..9000).chain([16_384, 33_060, 33_080, 33_100, 65_536, WriteOptions::BLOCK_SIZE_MAX])
            {
                let options = WriteOptions { hash, block_size, ..WriteOptions::default() };
                let fits = |len: usize| {
                    let mut block = BlockWriter::new(16);
                    block.begin(BlockKind::Index, |out| Header::new(hash, 0, 0, 0).encode(out));
                    [b'a', b'b'].into_iter().all(|byte| {
                        let key = vec![byte; len];
                        block.add(&key, 0, 0, block_size as usize, |out| varint::put(out, u64::MAX))
                    })
                };
                let max = options.index_key_max();
                assert!(fits(max), "{block_size} {max}");
                assert!(!fits(max + 1), "{block_size} {max}");
            }
        }
    }

    #[test]
    fn the_longest_name_leaves_room_for_the_key_of_its_log() {
        let of = |hash, block_size| WriteOptions { hash, block_size, ..WriteOptions::default() }.name_max();
        assert_eq!(of(HashKind::Sha1, 4096), 2008);
        assert_eq!(of(HashKind::Sha256, 4096), 2006);
        assert_eq!(of(HashKind::Sha1, 256), 88);
        assert_eq!(of(HashKind::Sha1, 80), 0);
        for (name_block_size, expected) in [(4096, 2008), (65_536, 8151)] {
            let name_block_size = Some(name_block_size);
            let options = WriteOptions { block_size: 16_384, name_block_size, ..WriteOptions::default() };
            assert_eq!(options.name_max(), expected, "the smaller block size counts");
        }
        let long = BString::from(vec![b'x'; 2009]);
        let id = ObjectId::null(HashKind::Sha1);
        let check = |len, value| {
            let record = RefRecord { name: long[..len].as_bstr(), update_index: 7, value };
            let checked = WriteOptions::default().check_ref(&record);
            assert_eq!(WriteOptions::default().ref_limits().allow(&record), checked.is_ok());
            checked
        };
        assert!(check(2008, RefValue::Direct(id)).is_ok());
        assert!(matches!(check(2009, RefValue::Direct(id)), Err(Error::TooLarge { .. })));
        assert!(check(2009, RefValue::Deletion).is_ok());
    }

    #[test]
    fn what_is_cut_fills_a_block_and_what_no_cut_makes_fit_stays() {
        let options = WriteOptions::default();
        let long = BString::from(vec![b'x'; 9000]);
        for (name, message, expected) in
            [(3, 9000, (3, 2049)), (3, 2049, (3, 2049)), (2500, 9000, (2500, 1460)), (9000, 9000, (3960, 1))]
        {
            let record = entry("refs/heads/main".into(), long[..name].as_bstr(), long[..message].as_bstr());
            options.with_log_cut(&record, |cut| {
                let LogValue::Update { name, message, .. } = cut.value else { panic!("{cut:?}") };
                assert_eq!((name.len(), message.len()), expected);
                assert_eq!(options.log_fit(cut), LogFit::Whole);
                let is_full = log_len(cut) == options.log_room_anywhere();
                assert_eq!(is_full, name.len() > 3);
            });
        }
        let refname = BString::from([b"refs/heads/", &long[..4000]].concat());
        let hopeless = entry(refname.as_bstr(), "A".into(), long.as_bstr());
        let usual = entry("refs/heads/main".into(), "A U Thor".into(), "a message\n".into());
        let tiny = WriteOptions { block_size: 100, ..options };
        for (options, record) in [(options, hopeless), (tiny, usual)] {
            assert_eq!(options.log_fit(&record), LogFit::Never);
            options.with_log_cut(&record, |cut| assert_eq!(*cut, record));
        }
    }
}
