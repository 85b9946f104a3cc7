//! Parses numbers the way C's library does, which is what users of git are used to: `0x10`, ` 5`, `+3`.

use bstr::ByteSlice;

/// A number that `strtol` has read: its value, whether it was cut to the range of a `long`, and the rest of the text.
struct Read<'a> {
    number: i64,
    is_cut: bool,
    rest: &'a [u8],
}

/// Reads a number at the start of a text like C's `strtol`, or returns `None` if there is none. With base 0, the prefix
/// decides: `0x` for hexadecimal, `0` for octal.
fn strtol(text: &[u8], base: u32) -> Option<Read<'_>> {
    let text = text.trim_start_with(|char| char.is_ascii_whitespace() || char == '\u{b}');
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let is_hex = |digits: &[u8]| matches!(digits, [b'0', b'x' | b'X', first, ..] if first.is_ascii_hexdigit());
    let (base, digits) = match base {
        0 if is_hex(digits) => (16, &digits[2..]),
        0 if digits.starts_with(b"0") => (8, digits),
        0 => (10, digits),
        base => (base, digits),
    };
    let value = |byte: &u8| char::from(*byte).to_digit(base);
    let count = digits.iter().take_while(|byte| value(byte).is_some()).count();
    if count == 0 {
        return None;
    }
    let all = digits[..count].iter().filter_map(value);
    let magnitude = all.fold(0i128, |sum, digit| sum.saturating_mul(base.into()).saturating_add(digit.into()));
    let whole = if is_negative { -magnitude } else { magnitude };
    let number = i64::try_from(whole).unwrap_or(if is_negative { i64::MIN } else { i64::MAX });
    Some(Read { number, is_cut: i128::from(number) != whole, rest: &digits[count..] })
}

/// Parses a decimal number in the range of C's int, which must end the text.
pub fn int(text: &[u8]) -> Option<i32> {
    let read = strtol(text, 10).filter(|read| read.rest.is_empty())?;
    i32::try_from(read.number).ok()
}

/// Returns the sign of a decimal number of any length, which must end the text, or `None` if there is none.
pub fn sign(text: &[u8]) -> Option<std::cmp::Ordering> {
    strtol(text, 10).filter(|read| read.rest.is_empty()).map(|read| read.number.cmp(&0))
}

/// Parses a decimal number without a minus, in the range of an unsigned int, which must end the text.
pub fn unsigned_int(text: &[u8]) -> Option<u32> {
    let read = strtol(text, 10).filter(|read| read.rest.is_empty() && !text.contains(&b'-'))?;
    u32::try_from(read.number).ok()
}

/// Parses a decimal number, which must end the text, cuts it to the range of a long, and keeps the low bits that fit an
/// int.
pub fn wrapped_int(text: &[u8]) -> Option<i32> {
    let read = strtol(text, 10).filter(|read| read.rest.is_empty())?;
    Some(read.number as i32)
}

/// The outcome of parsing a number with a unit, which is a power of 1024.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WithUnit {
    /// A number in the range of C's int.
    Int(i32),
    /// A number outside of that range, or one outside the range of a long, whatever follows it.
    TooLarge,
    /// Not a number.
    NoNumber,
}

/// Parses a decimal, octal (`0`) or hexadecimal (`0x`) number, optionally followed by k, m or g.
pub fn with_unit(text: &[u8]) -> WithUnit {
    let Some(read) = strtol(text, 0) else { return WithUnit::NoNumber };
    if read.is_cut {
        return WithUnit::TooLarge;
    }
    let shift = match read.rest {
        b"" => 0,
        b"k" | b"K" => 10,
        b"m" | b"M" => 20,
        b"g" | b"G" => 30,
        _ => return WithUnit::NoNumber,
    };
    let number = read.number.checked_mul(1 << shift).and_then(|number| i32::try_from(number).ok());
    number.map_or(WithUnit::TooLarge, WithUnit::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("", WithUnit::NoNumber),
            (" ", WithUnit::NoNumber),
            ("k", WithUnit::NoNumber),
            (" \t12", WithUnit::Int(12)),
            ("12 ", WithUnit::NoNumber),
            ("+3", WithUnit::Int(3)),
            ("-3k", WithUnit::Int(-3072)),
            ("0x1F", WithUnit::Int(31)),
            ("0x", WithUnit::NoNumber),
            ("010", WithUnit::Int(8)),
            ("08", WithUnit::NoNumber),
            ("1kk", WithUnit::NoNumber),
            ("2g", WithUnit::TooLarge),
            ("99999999999999999999999x", WithUnit::TooLarge),
        ] {
            assert_eq!(with_unit(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!([int(b" -7"), int(b"2147483648"), int(b"0x1"), int(b"1 ")], [Some(-7), None, None, None]);
        assert_eq!([unsigned_int(b"+7"), unsigned_int(b"-0"), unsigned_int(b"4294967296")], [Some(7), None, None]);
        let wrapped = ["4294967301", "99999999999999999999", "-99999999999999999999"];
        assert_eq!(wrapped.map(|text| wrapped_int(text.as_bytes())), [Some(5), Some(-1), Some(0)]);
    }
}
