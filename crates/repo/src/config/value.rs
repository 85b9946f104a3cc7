//! Interprets the values of configuration variables: booleans, integers and paths as in git-config(1), "Values", and
//! also timestamps and `core.abbrev`.

use super::{ConfigError, Origin, error::Place};
use crate::environment::Environment;
use bstr::{BStr, ByteSlice};
use std::path::PathBuf;

/// The value of one variable, and where it was set.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// The canonical key of the variable.
    pub key: &'a BStr,
    /// The text of the value; `None` for a variable without `=`.
    pub raw: Option<&'a BStr>,
    /// The file, or the command line or environment, that sets the variable.
    pub origin: &'a Origin,
    /// The line in the file on which the variable ends, counted from 1; 0 outside of files.
    pub line: u32,
}

/// The number of digits to which object ids are abbreviated if the command line does not say: `core.abbrev`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abbreviation {
    /// As many digits as suit the number of objects.
    Auto,
    /// All digits of the id.
    No,
    /// At least this many digits.
    AtLeast(usize),
}

/// The number of digits of the shortest abbreviation of an id.
pub const DIGITS_MIN: usize = 4;

impl<'a> Value<'a> {
    /// Returns the value as a string.
    ///
    /// # Errors
    ///
    /// Fails if the variable has no value.
    pub fn text(&self) -> Result<&'a BStr, ConfigError> {
        self.raw.ok_or_else(|| ConfigError::missing_value(self.key, self.origin, self.line))
    }

    /// Returns the value of `core.abbrev`.
    ///
    /// # Errors
    ///
    /// Fails if the variable has no value, if the value is neither a number nor one of `auto`, `no`, `off`, `false` and
    /// the empty text, or if the number is less than 4 or exceeds 2^31 - 1.
    pub fn abbreviation(&self) -> Result<Abbreviation, ConfigError> {
        let text = self.text()?;
        if text.eq_ignore_ascii_case(b"auto") {
            return Ok(Abbreviation::Auto);
        }
        if ["no", "off", "false", ""].iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes())) {
            return Ok(Abbreviation::No);
        }
        let digits = self.int()?;
        match usize::try_from(digits) {
            Ok(digits) if digits >= DIGITS_MIN => Ok(Abbreviation::AtLeast(digits)),
            _ => Err(ConfigError::BadVariable {
                detail: format!("abbrev length out of range: {digits}"),
                place: Place::variable(self.key, self.origin, self.line),
            }),
        }
    }

    /// Returns the value as a boolean.
    ///
    /// # Errors
    ///
    /// Fails if the value is none of git's spellings of a boolean.
    pub fn boolean(&self) -> Result<bool, ConfigError> {
        parse_boolean(self.raw)
            .ok_or_else(|| ConfigError::BadBoolean { value: self.raw.unwrap_or_default().into(), key: self.key.into() })
    }

    /// Returns the value as a number from -(2^31 - 1) to 2^31 - 1.
    ///
    /// # Errors
    ///
    /// Fails if the variable has no value, or if the value is no number or out of that range.
    pub fn int(&self) -> Result<i32, ConfigError> {
        let number = self.number(|text| parse_signed(text, i32::MAX.into()))?;
        debug_assert!(i32::try_from(number).is_ok(), "a number is within the limit that was asked for: {number}");
        Ok(number as i32)
    }

    /// Returns the value as a number from -(2^63 - 1) to 2^63 - 1.
    ///
    /// # Errors
    ///
    /// Fails if the variable has no value, or if the value is no number or out of that range.
    pub fn long(&self) -> Result<i64, ConfigError> {
        self.number(|text| parse_signed(text, i64::MAX))
    }

    /// Returns the value as an unsigned 64-bit number.
    ///
    /// # Errors
    ///
    /// Fails if the variable has no value, or if the value is no number, is negative or needs more than 64 bits.
    pub fn unsigned(&self) -> Result<u64, ConfigError> {
        self.number(parse_unsigned)
    }

    fn number<T>(&self, parse: impl FnOnce(&[u8]) -> Result<T, NotANumber>) -> Result<T, ConfigError> {
        parse(self.raw.unwrap_or_default()).map_err(|error| ConfigError::BadNumber {
            value: self.raw.unwrap_or_default().into(),
            key: self.key.into(),
            origin: self.origin.file.as_ref().map_or(String::new(), |file| {
                // In a bare repository, git's messages say `config`, not `./config`.
                format!(" in file {}", file.strip_prefix(".").unwrap_or(file).display())
            }),
            out_of_range: error == NotANumber::OutOfRange,
        })
    }

    /// Returns the value as a time in seconds since 1970, as `parse` interprets it.
    ///
    /// # Errors
    ///
    /// Fails if the variable has no value, or if `parse` returns `None`.
    pub fn timestamp(&self, parse: impl FnOnce(&BStr) -> Option<u64>) -> Result<u64, ConfigError> {
        let text = self.text()?;
        parse(text).ok_or_else(|| {
            let detail = format!("'{text}' for '{}' is not a valid timestamp", self.key);
            ConfigError::BadVariable { detail, place: Place::variable(self.key, self.origin, self.line) }
        })
    }

    /// Returns the value as a path with `~/`, `~user/` and `%(prefix)/` at its start expanded. Returns `None` for an
    /// optional path (`:(optional)PATH`) that does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the variable has no value, or if the home folder that `~` or `~user` stands for is unknown.
    pub fn path(&self, environment: &Environment) -> Result<Option<PathBuf>, ConfigError> {
        let text = self.text()?;
        let (text, optional) = match text.strip_prefix(b":(optional)") {
            Some(rest) => (rest.as_bstr(), true),
            None => (text, false),
        };
        let path = expand_path(text, environment).ok_or_else(|| ConfigError::NoHome(text.into()))?;
        Ok((!optional || environment.resolve(&path).exists()).then_some(path))
    }
}

/// Parses a boolean as `git config --type=bool` does: `true`, `yes`, `on`, `false`, `no`, `off`, the empty text, or a
/// number as in [`Value::int`]. `None`, which stands for a variable without `=`, is true. Returns `None` for a value
/// that is no boolean.
pub fn parse_boolean(value: Option<&BStr>) -> Option<bool> {
    let Some(value) = value else { return Some(true) };
    match value.as_bytes() {
        // Nearly every file uses one of these forms.
        b"true" => Some(true),
        b"false" | b"" => Some(false),
        other if ["true", "yes", "on"].iter().any(|word| other.eq_ignore_ascii_case(word.as_bytes())) => Some(true),
        other if ["false", "no", "off"].iter().any(|word| other.eq_ignore_ascii_case(word.as_bytes())) => Some(false),
        other => parse_signed(other, i32::MAX.into()).ok().map(|number| number != 0),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotANumber {
    InvalidUnit,
    OutOfRange,
}

/// Parses a decimal, octal (`010`) or hexadecimal (`0x10`) number with an optional unit `k`, `m` or `g`, which are
/// powers of 1024. Fails if the text is no such number, or if the product is not within plus or minus `max`.
pub(crate) fn parse_signed(text: &[u8], max: i64) -> Result<i64, NotANumber> {
    let (negative, magnitude) = parse_magnitude(text)?;
    debug_assert!(max > 0, "the limit is a size");
    let limit = max.unsigned_abs();
    if magnitude > limit {
        return Err(NotANumber::OutOfRange);
    }
    let magnitude = magnitude as i64;
    Ok(if negative { -magnitude } else { magnitude })
}

pub(crate) fn parse_unsigned(text: &[u8]) -> Result<u64, NotANumber> {
    // C's `strtoumax` would accept a negative number and wrap it around.
    if text.contains(&b'-') { Err(NotANumber::InvalidUnit) } else { Ok(parse_magnitude(text)?.1) }
}

fn parse_magnitude(text: &[u8]) -> Result<(bool, u64), NotANumber> {
    let text = text.trim_ascii_start();
    let (negative, text) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, text) = match text {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, &text[2..]),
        [b'0', ..] => (8, text),
        _ => (10, text),
    };
    let digits = text.iter().position(|byte| (*byte as char).to_digit(radix).is_none()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits);
    if digits.is_empty() {
        return Err(NotANumber::InvalidUnit);
    }
    let factor = match unit {
        b"" => 1,
        b"k" | b"K" => 1u64 << 10,
        b"m" | b"M" => 1 << 20,
        b"g" | b"G" => 1 << 30,
        _ => return Err(NotANumber::InvalidUnit),
    };
    digits
        .iter()
        .try_fold(0u64, |number, byte| {
            let digit = (*byte as char).to_digit(radix)?;
            number.checked_mul(radix.into())?.checked_add(digit.into())
        })
        .and_then(|number| number.checked_mul(factor))
        .map(|number| (negative, number))
        .ok_or(NotANumber::OutOfRange)
}

/// Expands `~/`, `~user/` and `%(prefix)/` at the start of a path. Returns `None` if the path begins with `~` but
/// `HOME` is not set, or with `~user` but the user is not in `/etc/passwd`.
pub(crate) fn expand_path(text: &BStr, environment: &Environment) -> Option<PathBuf> {
    if let Some(rest) = text.strip_prefix(b"%(prefix)/") {
        // Git's own installation prefix is not known here; `/usr` is the usual one.
        return Some(PathBuf::from("/usr").join(bstr::BStr::new(rest).to_path_lossy()));
    }
    environment.expand_home(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let int = |text: &str| parse_signed(text.as_bytes(), i64::MAX);
        for (text, number) in
            [("1", 1), (" -1", -1), ("2k", 2048), ("0x10", 16), ("010", 8), ("1G", 1 << 30), ("+7", 7), ("0", 0)]
        {
            assert_eq!(int(text), Ok(number), "{text}");
        }
        for text in ["", "k", "1kk", "1 ", "yes", "08", "0x", "- 1"] {
            assert_eq!(int(text), Err(NotANumber::InvalidUnit), "{text}");
        }
        for text in ["9223372036854775808", "8589934592g", "99999999999999999999"] {
            assert_eq!(int(text), Err(NotANumber::OutOfRange), "{text}");
        }
        assert_eq!(parse_unsigned(b"-1"), Err(NotANumber::InvalidUnit));
    }

    #[test]
    fn booleans_have_many_spellings() {
        let boolean = |text: &str| parse_boolean(Some(text.into()));
        for text in ["true", "TRUE", "yes", "on", "1", "-1", "2k"] {
            assert_eq!(boolean(text), Some(true), "{text}");
        }
        for text in ["false", "No", "off", "0", ""] {
            assert_eq!(boolean(text), Some(false), "{text}");
        }
        for text in ["nope", "1 ", "k", "9223372036854775807"] {
            assert_eq!(boolean(text), None, "{text}");
        }
        assert_eq!(parse_boolean(None), Some(true));
    }
}
