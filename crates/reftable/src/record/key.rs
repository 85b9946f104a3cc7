//! Keys, stored without the prefix that they share with the key before them.
//!
//! ```text
//! varint(bytes shared with the key before) varint(bytes that follow << 3 | value type) bytes
//! ```

use crate::{Fault, format::varint};
pub(crate) use refdb_types::common_prefix;

const TYPE_BITS: u32 = 3;
const TYPE_MASK: u64 = (1 << TYPE_BITS) - 1;

/// Appends a key whose first `shared` bytes are those of the key before it.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, key: &[u8], shared: usize, value_type: u8) {
    debug_assert!(u64::from(value_type) <= TYPE_MASK, "a value's type leaves the length its bits: {value_type}");
    debug_assert!(shared <= key.len(), "a key shares no more than it has: {shared}");
    varint::put(out, shared as u64);
    varint::put(out, ((key.len() - shared) as u64) << TYPE_BITS | u64::from(value_type));
    out.extend_from_slice(&key[shared..]);
}

/// The fields in front of a key's own bytes.
pub(crate) struct Start {
    /// The number of bytes that are to be taken from the key before it; 0 at a restart point.
    pub(crate) shared: usize,
    /// The number of the key's other bytes, which follow these fields.
    pub(crate) suffix: usize,
    /// The type of the value, three bits.
    pub(crate) value_type: u8,
}

/// Reads the fields in front of a key's own bytes, and checks that those bytes lie within the records.
#[inline(always)]
pub(crate) fn start(records: &[u8], at: &mut usize) -> Result<Start, Fault> {
    let (shared, suffix_and_type) = match records.get(*at..).and_then(|rest| rest.first_chunk()) {
        Some(&[shared @ 0..0x80, suffix_and_type @ 0..0x80, _]) => {
            *at += 2;
            (usize::from(shared), u64::from(suffix_and_type))
        }
        // 16 bytes or more follow, as at restart points; `high` is at least 0x80.
        Some(&[shared @ 0..0x80, high, low @ 0..0x80]) => {
            *at += 3;
            (usize::from(shared), varint::of_two(high, low))
        }
        _ => {
            let (shared, suffix_and_type, after) = long_start(records, *at)?;
            *at = after;
            (shared, suffix_and_type)
        }
    };
    if suffix_and_type >> TYPE_BITS > (records.len() - *at) as u64 {
        return Err(Fault::RecordTruncated);
    }
    let suffix = (suffix_and_type >> TYPE_BITS) as usize;
    Ok(Start { shared, suffix, value_type: (suffix_and_type & TYPE_MASK) as u8 })
}

#[inline(never)]
fn long_start(records: &[u8], mut at: usize) -> Result<(usize, u64, usize), Fault> {
    Ok((varint::get_len(records, &mut at)?, varint::get(records, &mut at)?, at))
}

/// The key of the current record, assembled from the keys before it.
#[derive(Default)]
pub(crate) struct Key {
    /// The key, and room after it that short copies may overwrite.
    buffer: Vec<u8>,
    len: usize,
}

/// Suffixes of at most this length are copied as one piece of this length where both sides have room for it: two
/// instructions instead of a call.
const SHORT: usize = 16;

impl Key {
    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Forgets the key, so that the next record must have a whole key.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Reads the key of the record at `*at` as [`read`](Self::read) does, and fails unless it is greater than the
    /// current key.
    #[inline(always)]
    pub(crate) fn read_greater(&mut self, records: &[u8], at: &mut usize) -> Result<(usize, u8), Fault> {
        let start = start(records, at)?;
        let suffix = &records[*at..*at + start.suffix];
        // The first byte that is not shared nearly always decides.
        if self.as_slice().get(start.shared) >= suffix.first() && self.is_not_less(start.shared, suffix) {
            return Err(Fault::KeyOrder);
        }
        self.assemble(start, records, at)
    }

    #[inline(never)]
    fn is_not_less(&self, shared: usize, suffix: &[u8]) -> bool {
        self.as_slice().get(shared..).is_some_and(|rest| self.len > 0 && rest >= suffix)
    }

    /// Reads the key of the record at `*at`. Returns the number of bytes that it takes from the key before it, and the
    /// type of the value.
    #[inline(always)]
    pub(crate) fn read(&mut self, records: &[u8], at: &mut usize) -> Result<(usize, u8), Fault> {
        let start = start(records, at)?;
        self.assemble(start, records, at)
    }

    #[inline(always)]
    fn assemble(&mut self, start: Start, records: &[u8], at: &mut usize) -> Result<(usize, u8), Fault> {
        let Start { shared, suffix, value_type } = start;
        if shared > self.len {
            return Err(Fault::KeyPrefix(shared as u64));
        }
        let short = (self.buffer.get_mut(shared..shared + SHORT), records.get(*at..*at + SHORT));
        match short {
            (Some(to), Some(from)) if suffix <= SHORT => to.copy_from_slice(from),
            _ => self.replace_from(shared, &records[*at..*at + suffix]),
        }
        self.len = shared + suffix;
        debug_assert!(self.len <= self.buffer.len(), "the buffer has room for the key");
        *at += suffix;
        if self.len == 0 {
            return Err(Fault::Key);
        }
        Ok((shared, value_type))
    }

    #[cold]
    #[inline(never)]
    fn replace_from(&mut self, shared: usize, suffix: &[u8]) {
        let end = shared + suffix.len();
        if self.buffer.len() < end + SHORT {
            self.buffer.resize((end + SHORT).next_power_of_two().max(128), 0);
        }
        self.buffer[shared..end].copy_from_slice(suffix);
    }
}

/// Returns the key of a record at a restart point, without copying it.
#[inline]
pub(crate) fn get_whole<'a>(records: &'a [u8], at: &mut usize) -> Result<&'a [u8], Fault> {
    let offset = *at;
    let start = start(records, at)?;
    if start.shared != 0 || start.suffix == 0 {
        return Err(Fault::RestartOffset(offset as u32));
    }
    let key = &records[*at..*at + start.suffix];
    *at += start.suffix;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_are_assembled() {
        let names: Vec<Vec<u8>> =
            (1..300usize).map(|len| (0..len).map(|at| (at * len % 251) as u8).collect()).collect();
        let mut out = Vec::new();
        let mut last: &[u8] = &[];
        for name in &names {
            put(&mut out, name, common_prefix(last, name), 1);
            last = name;
        }
        let (mut at, mut key) = (0, Key::default());
        for name in &names {
            key.read(&out, &mut at).unwrap();
            assert_eq!(key.as_slice(), name);
        }
        assert_eq!(at, out.len());
    }

    #[test]
    fn keys_round_trip_over_their_predecessors() {
        let mut out = Vec::new();
        put(&mut out, b"refs/heads/a", 0, 1);
        let second = out.len();
        put(&mut out, b"refs/heads/bb", 11, 3);
        let (mut at, mut key) = (0, Key::default());
        assert_eq!(key.read(&out, &mut at), Ok((0, 1)));
        assert_eq!((at, key.as_slice()), (second, &b"refs/heads/a"[..]));
        assert_eq!(key.read(&out, &mut at), Ok((11, 3)));
        assert_eq!((at, key.as_slice()), (out.len(), &b"refs/heads/bb"[..]));
        assert_eq!(Key::default().read(&out, &mut second.clone()), Err(Fault::KeyPrefix(11)));
        assert_eq!(get_whole(&out, &mut second.clone()), Err(Fault::RestartOffset(second as u32)));
        assert_eq!(get_whole(&out, &mut 0), Ok(&b"refs/heads/a"[..]));
    }
}
