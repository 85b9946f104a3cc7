//! Parses `GIT_COMMITTER_DATE`: git's Documentation/date-formats.
//!
//! Git reads a date as a sequence of numbers and words, and guesses the meaning of each. This parser makes the same
//! guesses, because scripts rely on them; tests compare its results with git's.

use super::zone::Zone;
use bstr::ByteSlice;

/// Parses a date into seconds since 1970 and minutes east of UTC. A date without an offset is in local time, unless it
/// is a number of seconds. Returns `None` if the text is not a date.
pub(super) fn parse(text: &[u8], now: u64, zone: &Zone<'_>) -> Option<(u64, i32)> {
    if let Some(raw) = text.strip_prefix(b"@")
        && let Some((seconds, offset)) = parse_raw(raw)
    {
        return Some((seconds, offset));
    }
    let mut fields = Fields::at(i64::try_from(now).ok()?);
    let mut rest = text;
    while let [first, ..] = rest
        && *first != b'\n'
    {
        let eaten = match first {
            b'0'..=b'9' => fields.digits(rest),
            byte if byte.is_ascii_alphabetic() => fields.word(rest),
            b'-' | b'+' if rest.get(1).is_some_and(u8::is_ascii_digit) => fields.offset(rest),
            _ => 1,
        };
        debug_assert!(eaten <= rest.len(), "what was understood stood there");
        rest = &rest[eaten.max(1)..];
    }
    let wall = fields.seconds()?;
    let offset = fields.offset_minutes.unwrap_or_else(|| zone.offset_minutes_of_wall_clock(wall));
    let seconds = if fields.is_utc { wall } else { wall - i64::from(offset) * 60 };
    Some((u64::try_from(seconds).ok()?, offset))
}

/// Parses `SECONDS +HHMM`, git's own format.
fn parse_raw(text: &[u8]) -> Option<(u64, i32)> {
    // In git, the largest number stands for a missing time.
    let (seconds, rest) = number(text).filter(|(seconds, _)| *seconds < u64::MAX)?;
    let rest = rest.strip_prefix(b" ")?;
    let (sign, digits) = match rest.first()? {
        b'+' => (1, &rest[1..]),
        b'-' => (-1, &rest[1..]),
        _ => return None,
    };
    let (offset, end) = number(digits)?;
    let is_whole = matches!(end.first(), None | Some(b'\n')) && digits.len() - end.len() == 4;
    let offset = i32::try_from(offset).ok()?;
    is_whole.then_some((seconds, sign * (offset / 100 * 60 + offset % 100)))
}

/// Reads the digits at the start. Returns `None` if there are none, or if the number is too large.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = text[..len].to_str().ok()?.parse().ok()?;
    Some((number, &text[len..]))
}

/// What has been understood of the text so far.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) now: i64,
    pub(super) year: Option<i64>,
    /// The month, from 1 to 12.
    pub(super) month: Option<i64>,
    pub(super) day: Option<i64>,
    pub(super) hour: Option<i64>,
    pub(super) minute: Option<i64>,
    pub(super) second: Option<i64>,
    offset_minutes: Option<i32>,
    /// Whether the fields come from a number of seconds, which no offset changes.
    is_utc: bool,
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const WEEKDAYS: [&str; 7] =
    ["Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays"];

/// Names of time zones with their offset in hours, including daylight saving time.
const ZONES: [(&str, i32); 30] = [
    ("HST", -10),
    ("YST", -9),
    ("YDT", -8),
    ("PST", -8),
    ("PDT", -7),
    ("MST", -7),
    ("MDT", -6),
    ("CST", -6),
    ("CDT", -5),
    ("EST", -5),
    ("EDT", -4),
    ("AST", -3),
    ("ADT", -2),
    ("GMT", 0),
    ("UTC", 0),
    ("Z", 0),
    ("WET", 0),
    ("BST", 1),
    ("CET", 1),
    ("MET", 1),
    ("MEZ", 1),
    ("CEST", 2),
    ("MEST", 2),
    ("MESZ", 2),
    ("EET", 2),
    ("EEST", 3),
    ("JST", 9),
    ("EAST", 10),
    ("NZST", 12),
    ("NZDT", 13),
];

impl Fields {
    /// Starts with nothing but the present time in seconds: UTC for a full date, local time for an approximate one.
    pub(super) fn at(now: i64) -> Self {
        Fields { now, ..Fields::default() }
    }

    /// Reads a piece that begins with a digit, and returns how many bytes were consumed.
    fn digits(&mut self, text: &[u8]) -> usize {
        let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let value = number(text).and_then(|(value, _)| i64::try_from(value).ok()).unwrap_or(i64::MAX);
        // A number from 100,000,000 on is seconds since 1970 if nothing of a date is known yet: that is a day of 1973.
        if value >= 100_000_000 && self.is_empty() {
            self.set_seconds(value);
            return len;
        }
        if let Some(separator @ (b':' | b'.' | b'/' | b'-')) = text.get(len)
            && text.get(len + 1).is_some_and(u8::is_ascii_digit)
            && let Some(eaten) = self.group(value, *separator, text, len)
        {
            return eaten;
        }
        match len {
            8 => {
                self.set_date(Some(value / 10_000), value / 100 % 100, value % 100, false);
            }
            6 => {
                let is_time = self.set_time(value / 10_000, value / 100 % 100, value % 100);
                return if is_time { len + fraction(&text[len..]) } else { len };
            }
            _ if self.is_behind_t() && self.hour_behind_t(value, len) => {}
            4 if value <= 1400 && self.offset_minutes.is_none() => {
                self.offset_minutes = i32::try_from(value / 100 * 60 + value % 100).ok();
            }
            4 if value > 1900 && value < 2100 => self.year = Some(value),
            1 | 2 => self.small_number(value, len),
            _ => {}
        }
        len
    }

    /// Returns whether no part of a date or time is known.
    fn is_empty(&self) -> bool {
        [self.year, self.month, self.day, self.hour, self.minute, self.second].iter().all(Option::is_none)
    }

    /// Returns whether the `T` of ISO 8601 was read, and no time after it.
    fn is_behind_t(&self) -> bool {
        self.hour.is_none() && self.minute == Some(0) && self.second == Some(0)
    }

    /// Sets the time to the hour, or the hour and the minute, that stand behind the `T`. If the number is neither,
    /// returns false, and no later number counts as standing behind the `T`.
    fn hour_behind_t(&mut self, value: i64, len: usize) -> bool {
        let is_time = match len {
            2 => self.set_time(value, 0, 0),
            4 => self.set_time(value / 100, value % 100, 0),
            _ => false,
        };
        if !is_time {
            (self.minute, self.second) = (None, None);
        }
        is_time
    }

    /// Interprets a number of one or two digits: preferably as a day, then as a year, then as a month.
    fn small_number(&mut self, value: i64, len: usize) {
        if (1..32).contains(&value) && self.day.is_none() {
            self.day = Some(value);
        } else if len == 2 && self.year.is_none() && value < 10 && self.day.is_some() {
            self.year = Some(value + 2000);
        } else if len == 2 && self.year.is_none() && value >= 70 {
            self.year = Some(value + 1900);
        } else if (1..13).contains(&value) && self.month.is_none() {
            self.month = Some(value);
        }
    }

    /// Parses `12:30:00`, `2005-04-07`, `04/07/2005` or `07.04.2005`. Returns how many bytes were consumed, or `None`
    /// if that is no time or date.
    pub(super) fn group(&mut self, first: i64, separator: u8, text: &[u8], first_len: usize) -> Option<usize> {
        let next = |rest: &[u8]| number(rest).and_then(|(value, end)| Some((i64::try_from(value).ok()?, end.len())));
        let (second, left) = next(&text[first_len + 1..])?;
        let mut at = text.len() - left;
        let mut third = None;
        if text.get(at) == Some(&separator) && text.get(at + 1).is_some_and(u8::is_ascii_digit) {
            let (value, left) = next(&text[at + 1..])?;
            third = Some(value);
            at = text.len() - left;
        }
        if separator == b':' {
            if !self.set_time(first, second, third.unwrap_or(0)) {
                return None;
            }
            let has_date = self.year.is_some() && self.month.is_some() && self.day.is_some();
            return Some(if has_date { at + fraction(&text[at..]) } else { at });
        }
        let third_or_none = third.unwrap_or(-1);
        let by_year_first = first > 70
            && (self.set_date(Some(first), second, third_or_none, false)
                || self.set_date(Some(first), third_or_none, second, false));
        // Dots separate dd.mm.yyyy as in eastern Europe, slashes mm/dd/yyyy as in America. If the month does not
        // exist, or the date is more than ten days ahead, the text is read with day and month swapped.
        let understood = by_year_first
            || separator != b'.' && self.set_date(third, first, second, true)
            || self.set_date(third, second, first, true)
            || separator == b'.' && self.set_date(third, first, second, true);
        understood.then_some(at)
    }

    /// Sets the date and returns true if it is plausible: month, day and year are in range, and the date is not more
    /// than ten days ahead if `refuse_future` is set. The year may be missing or have two digits.
    fn set_date(&mut self, year: Option<i64>, month: i64, day: i64, refuse_future: bool) -> bool {
        const TEN_DAYS: i64 = 10 * 24 * 60 * 60;
        // In git, the year is C's int.
        let year = year.map(|year| i64::from(year as i32));
        if !(1..13).contains(&month) || !(1..32).contains(&day) {
            return false;
        }
        if !refuse_future {
            // As in git, the month and the day stay even if the year is refused below.
            (self.month, self.day) = (Some(month), Some(day));
        }
        let full = match year {
            None if !refuse_future => return true,
            None => civil_from_days(self.now.div_euclid(86_400)).0,
            Some(year @ 1970..2100) => year,
            Some(year @ 71..100) => year + 1900,
            Some(year) if year < 38 => year + 2000,
            Some(_) => return false,
        };
        if refuse_future && days_from_civil(full, month, day) * 86_400 > self.now + TEN_DAYS {
            return false;
        }
        (self.month, self.day) = (Some(month), Some(day));
        if year.is_some() {
            self.year = Some(full);
        }
        true
    }

    fn set_time(&mut self, hour: i64, minute: i64, second: i64) -> bool {
        let good = (0..25).contains(&hour) && (0..60).contains(&minute) && (0..61).contains(&second);
        if good {
            (self.hour, self.minute, self.second) = (Some(hour), Some(minute), Some(second));
        }
        good
    }

    fn set_seconds(&mut self, seconds: i64) {
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400);
        (self.year, self.month, self.day) = (Some(year), Some(month), Some(day));
        let is_time = self.set_time(of_day / 3600, of_day / 60 % 60, of_day % 60);
        debug_assert!(is_time, "each second of a day has its time");
        self.is_utc = true;
    }

    /// Reads a word: a month, a weekday, a time zone, AM or PM, or the T of ISO 8601. Returns how many bytes were
    /// consumed.
    fn word(&mut self, text: &[u8]) -> usize {
        let word_len = text.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let word = &text[..word_len];
        let letters = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let abbreviates = |name: &str| {
            word_len >= 3 && name.get(..word_len).is_some_and(|head| head.as_bytes().eq_ignore_ascii_case(word))
        };
        if let Some(month) = MONTHS.iter().position(|name| abbreviates(name)) {
            self.month = i64::try_from(month + 1).ok();
            return word_len;
        }
        if WEEKDAYS.iter().any(|name| abbreviates(name)) {
            return word_len;
        }
        if let Some((_, hours)) = ZONES.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word)) {
            self.offset_minutes.get_or_insert(hours * 60);
            return word_len;
        }
        if word.eq_ignore_ascii_case(b"PM") {
            // Git counts from -1 if there is no hour yet.
            self.hour = Some(self.hour.map_or(11, |hour| hour % 12 + 12));
            return 2;
        }
        if word.eq_ignore_ascii_case(b"AM") {
            self.hour = self.hour.map(|hour| hour % 12);
            return 2;
        }
        if text[0] == b'T' && text.get(1).is_some_and(u8::is_ascii_digit) && self.hour.is_none() {
            (self.minute, self.second) = (Some(0), Some(0));
            return 1;
        }
        letters
    }

    /// Reads `+0200`, `+02:00` or `+02`, and returns how many bytes were consumed. Text that cannot be an offset is
    /// skipped.
    fn offset(&mut self, text: &[u8]) -> usize {
        let len = text[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let value = number(&text[1..]).map_or(u64::MAX, |(value, _)| value);
        let mut eaten = len + 1;
        let (hours, minutes) = match len {
            2 if text.get(eaten) == Some(&b':') => {
                let after = &text[eaten + 1..];
                let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
                eaten += 1 + digits;
                (value, number(after).filter(|_| digits == 2).map_or(u64::MAX, |(minutes, _)| minutes))
            }
            2 => (value, 0),
            4 => (value / 100, value % 100),
            _ => (0, u64::MAX),
        };
        if minutes < 60 && hours < 24 {
            let total = (hours * 60 + minutes) as i32;
            debug_assert!(total < 24 * 60, "zones are less than a day from UTC");
            self.offset_minutes = Some(if text[0] == b'-' { -total } else { total });
        }
        eaten
    }

    /// Returns the fields as seconds since 1970, as if they were in UTC. Returns `None` if the year, the month or the
    /// time is missing, or if the time is not from 1970 to 2099.
    fn seconds(&self) -> Option<i64> {
        // As in git, the day before the last one of the previous month stands for a missing day.
        const MISSING_DAY: i64 = -1;
        let year = self.year.filter(|year| (1970..2100).contains(year))?;
        let days = days_from_civil(year, self.month?, self.day.unwrap_or(MISSING_DAY));
        let seconds = days * 86_400 + self.hour? * 3600 + self.minute? * 60 + self.second?;
        (seconds >= 0).then_some(seconds)
    }
}

/// Returns the length in bytes of the fraction of a second, such as `.019`, with which `text` begins, or 0.
fn fraction(text: &[u8]) -> usize {
    let digits = text.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    if text.first() == Some(&b'.') && digits > 0 { digits + 1 } else { 0 }
}

/// Returns the number of days from 1970-01-01 to a day of the Gregorian calendar. The calculation lets years start in
/// March, so that the leap day is the last day of a year.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    debug_assert!((1..=12).contains(&month), "a year has twelve months: {month}");
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the year, month and day of a number of days from 1970-01-01.
pub(super) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    debug_assert_eq!(days_from_civil(year, month, day), days - 719_468, "the day is that of the date");
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    #[test]
    fn days_round_trip() {
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(2005, 4, 7), 12_880);
        for days in (-800_000..800_000).step_by(17) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn no_input_makes_it_panic() {
        let environment = Environment::empty("/").with("TZ", "UTC");
        const BYTES: &[u8] = b"09@+-:./T Az";
        for len in 0..=5u32 {
            for number in 0..BYTES.len().pow(len) {
                let text: Vec<u8> =
                    (0..len).map(|digit| BYTES[number / BYTES.len().pow(digit) % BYTES.len()]).collect();
                let _ = parse(&text, 1_700_000_000, &Zone::of(&environment));
            }
        }
        for text in
            ["99999999999999999999 +99999999999999999999", "9223372036854775807 -2359", "@18446744073709551615 -9999"]
        {
            let _ = parse(text.as_bytes(), 1_700_000_000, &Zone::of(&environment));
        }
    }
}
