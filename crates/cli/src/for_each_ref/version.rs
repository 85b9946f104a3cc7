//! `--sort=version:refname`: numbers inside names count as numbers.

use std::cmp::Ordering;

/// Compares as `strverscmp(3)` does: runs of digits by value, except that a run with a leading zero is a fraction.
pub fn compare(one: &[u8], two: &[u8]) -> Ordering {
    let differ = one.iter().zip(two).position(|(one, two)| one != two).unwrap_or(one.len().min(two.len()));
    let bytes = || one[differ..].first().cmp(&two[differ..].first());
    // The first difference may lie inside a run of digits, part of which both have in common.
    let start = one[..differ].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    let (one_run, two_run) = (digits(&one[start..]), digits(&two[start..]));
    let is_number = |run: &[u8]| run.first().is_some_and(|digit| *digit != b'0');
    if is_number(one_run) && is_number(two_run) {
        return one_run.len().cmp(&two_run.len()).then_with(bytes);
    }
    let common = &one[start..differ];
    let goes_on = one_run.len() > common.len() || two_run.len() > common.len();
    if !common.is_empty() && common.iter().all(|digit| *digit == b'0') && goes_on {
        // After leading zeros a further digit makes the smaller fraction, and the end makes the integer zero.
        let rank = |run: &[u8]| run.get(common.len()).copied().unwrap_or(u8::MAX);
        return rank(one_run).cmp(&rank(two_run)).then_with(bytes);
    }
    bytes()
}

fn digits(text: &[u8]) -> &[u8] {
    &text[..text.iter().take_while(|byte| byte.is_ascii_digit()).count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of the manual page strverscmp(3): 000 < 00 < 01 < 010 < 09 < 0 < 1 < 9 < 10.
    #[test]
    fn numbers_are_ordered_as_the_manual_page_says() {
        let ordered = ["000", "00", "01", "010", "09", "0", "1", "9", "10"];
        for (at, one) in ordered.iter().enumerate() {
            for (other, two) in ordered.iter().enumerate() {
                assert_eq!(compare(one.as_bytes(), two.as_bytes()), at.cmp(&other), "{one} {two}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_ordered_by_bytes() {
        for (one, two) in [("v1.9", "v1.10"), ("v1", "v1.1"), ("a", "b"), ("v2", "v10"), ("v1-rc1", "v1.0"), ("", "a")]
        {
            assert_eq!(compare(one.as_bytes(), two.as_bytes()), Ordering::Less, "{one} {two}");
            assert_eq!(compare(two.as_bytes(), one.as_bytes()), Ordering::Greater, "{one} {two}");
        }
        assert_eq!(compare(b"v1.0", b"v1.0"), Ordering::Equal);
    }
}
