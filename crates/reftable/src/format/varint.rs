//! Numbers of variable length, encoded like the offsets of deltas in packs. A byte carries seven bits, and all bytes
//! but the last have the high bit set. One is added for each byte that follows, so that each number has a single
//! encoding.

use crate::Fault;

/// The length of the longest encoding of a 64-bit number, in bytes.
pub(crate) const MAX_LEN: usize = 10;

/// Decodes the number at `*at` and moves `*at` after it.
#[inline(always)]
pub(crate) fn get(bytes: &[u8], at: &mut usize) -> Result<u64, Fault> {
    match bytes.get(*at) {
        Some(&byte) if byte < 0x80 => {
            *at += 1;
            Ok(u64::from(byte))
        }
        _ => {
            let (value, after) = get_long(bytes, *at)?;
            *at = after;
            Ok(value)
        }
    }
}

/// The value of these two bytes, whether they are the whole number or only the first bytes of it.
#[inline(always)]
pub(crate) fn of_two(first: u8, second: u8) -> u64 {
    (u64::from(first & 0x7f) + 1) << 7 | u64::from(second & 0x7f)
}

/// Decodes a number of several bytes. The position is passed by value, so that `get` can keep it in a register.
#[inline(never)]
fn get_long(bytes: &[u8], at: usize) -> Result<(u64, usize), Fault> {
    let rest = bytes.get(at..).unwrap_or_default();
    let more = |value: u64, byte: u8| (value + 1) << 7 | u64::from(byte & 0x7f);
    match rest.first_chunk() {
        Some(&[first, second @ 0..0x80, _, _]) => return Ok((of_two(first, second), at + 2)),
        Some(&[first, second, third @ 0..0x80, _]) => return Ok((more(of_two(first, second), third), at + 3)),
        Some(&[first, second, third, fourth @ 0..0x80]) => {
            return Ok((more(more(of_two(first, second), third), fourth), at + 4));
        }
        _ => {}
    }
    let mut value = 0u64;
    for (seen, &byte) in rest.iter().take(MAX_LEN).enumerate() {
        if seen > 0 {
            value = value.checked_add(1).filter(|value| *value >> 57 == 0).ok_or(Fault::Varint)?;
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Ok((value, at + seen + 1));
        }
    }
    Err(Fault::Varint)
}

/// Decodes a number that is a length in memory.
#[inline(always)]
pub(crate) fn get_len(bytes: &[u8], at: &mut usize) -> Result<usize, Fault> {
    get(bytes, at).and_then(|value| usize::try_from(value).map_err(|_| Fault::RecordTruncated))
}

/// The number of bytes that [`put`] appends.
pub(crate) const fn len(mut value: u64) -> usize {
    let mut len = 1;
    while value >= 0x80 {
        value = (value >> 7) - 1;
        len += 1;
    }
    len
}

/// Appends a number.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        put_long(out, value);
    }
}

fn put_long(out: &mut Vec<u8>, mut value: u64) {
    let mut raw = [0u8; MAX_LEN];
    let mut start = MAX_LEN - 1;
    raw[start] = (value & 0x7f) as u8;
    loop {
        value >>= 7;
        if value == 0 {
            break;
        }
        value -= 1;
        start -= 1;
        raw[start] = 0x80 | (value & 0x7f) as u8;
    }
    debug_assert_eq!(get(&raw, &mut start.clone()).map(len), Ok(MAX_LEN - start), "records are measured by `len`");
    out.extend_from_slice(&raw[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_at_every_length() {
        let mut values = vec![0, 1, 127, 128, 129, 16_511, 16_512, u64::MAX - 1, u64::MAX];
        values.extend((0..64).map(|bit| 1u64 << bit));
        for value in values {
            let mut out = vec![0xee];
            put(&mut out, value);
            let mut at = 1;
            assert_eq!(get(&out, &mut at), Ok(value));
            assert_eq!(at, out.len());
            assert_eq!(get(&out[..out.len() - 1], &mut 1), Err(Fault::Varint), "{value}");
        }
    }

    #[test]
    fn the_documents_example_of_an_offset_is_read() {
        // 0x80 0x00 is 128: ((0 + 1) << 7) | 0.
        assert_eq!(get(&[0x80, 0x00], &mut 0), Ok(128));
        assert_eq!(get(&[0x81, 0x7f], &mut 0), Ok(383));
    }

    #[test]
    fn a_number_above_64_bits_is_refused() {
        assert_eq!(get(&[0xff; 20], &mut 0), Err(Fault::Varint));
        assert_eq!(get(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &mut 0), Err(Fault::Varint));
        assert_eq!(get(&[], &mut 0), Err(Fault::Varint));
    }
}
