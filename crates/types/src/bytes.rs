/// Returns the length of the longest common prefix of two byte strings.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let same_bytes = |a: &[u8], b: &[u8]| ((word(a) ^ word(b)).trailing_zeros() / 8) as usize;
    let mut at = 0;
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let same = same_bytes(a, b);
        if same < 8 {
            return at + same;
        }
        at += 8;
    }
    // The last eight bytes, of which the first are known to be the same.
    if let (Some(a), Some(b)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        return len - 8 + same_bytes(a, b);
    }
    while at < len && a[at] == b[at] {
        at += 1;
    }
    at
}

/// Returns whether a short byte string contains a NUL. A search such as `memchr` takes longer to start than this takes
/// for a whole name.
#[inline]
pub fn has_nul(bytes: &[u8]) -> bool {
    // Subtracting one sets the highest bit of a zero byte by a borrow. A byte above 0x80 keeps that bit anyway, so
    // `!word` masks it out.
    let has_zero_byte = |word: u64| word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080 != 0;
    match bytes.last_chunk::<8>() {
        Some(last) => {
            let mut rest = bytes;
            while let Some(chunk) = rest.first_chunk() {
                if has_zero_byte(u64::from_le_bytes(*chunk)) {
                    return true;
                }
                rest = &rest[8..];
            }
            has_zero_byte(u64::from_le_bytes(*last))
        }
        None => bytes.contains(&0),
    }
}

#[inline(always)]
fn word(chunk: &[u8]) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(chunk);
    u64::from_le_bytes(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_found_at_every_place_and_no_other_byte_is_taken_for_one() {
        for len in 0..40 {
            for other in [1, 2, 0x7f, 0x80, 0x81, 0xff] {
                let mut bytes = vec![other; len];
                assert!(!has_nul(&bytes));
                for at in 0..len {
                    bytes[at] = 0;
                    assert!(has_nul(&bytes), "{len} {other} {at}");
                    bytes[at] = other;
                }
            }
        }
    }

    #[test]
    fn the_common_prefix_is_found_at_every_length() {
        let a: Vec<u8> = (0..40).collect();
        for len in 0..40 {
            for shared in 0..len {
                let mut b = a[..len].to_vec();
                b[shared] ^= 0x80;
                assert_eq!(common_prefix(&a, &b), shared);
                assert_eq!(common_prefix(&b, &a), shared);
            }
            assert_eq!(common_prefix(&a, &a[..len]), len);
        }
    }
}
