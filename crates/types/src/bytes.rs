/// Returns the length of the longest common prefix of two byte strings.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let mut at = 0;
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let difference = word(a) ^ word(b);
        if difference != 0 {
            return at + (difference.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < len && a[at] == b[at] {
        at += 1;
    }
    at
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
