//! Parses dates that are not written out, such as `2.weeks.ago` or `yesterday noon`. See git's
//! Documentation/date-formats.
//!
//! Like git, the parser goes through the words and uses those that it understands; a test compares its results with
//! git's.

use super::{
    date::{self, Fields, MONTHS, WEEKDAYS, civil_from_days, days_from_civil},
    zone::Zone,
};

/// The date that git would read into a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Approximate {
    /// The date, in seconds since 1970.
    pub seconds: u64,
    /// Whether any part of the text is a number or a word that means a date or a time. If not, `seconds` is the present
    /// time.
    pub is_date: bool,
}

/// Interprets a text at the moment `now`, in seconds since 1970.
pub fn approximate(text: &[u8], now: u64, zone: &Zone<'_>) -> Approximate {
    if let Some((seconds, _)) = date::parse(text, now, zone) {
        return Approximate { seconds, is_date: true };
    }
    let local = i64::try_from(now).unwrap_or(i64::MAX / 2) + i64::from(zone.offset_minutes(now)) * 60;
    let mut words = Words {
        zone,
        now: local,
        fields: Fields::at(local),
        number: 0,
        is_day_before: false,
        weekday: weekday(local),
        touched: false,
    };
    let mut rest = text;
    while let Some(first) = rest.first() {
        let eaten = match first {
            b'0'..=b'9' => words.digits(rest),
            byte if byte.is_ascii_alphabetic() => words.word(rest),
            _ => 1,
        };
        debug_assert!(eaten <= rest.len(), "what was understood stood there");
        rest = &rest[eaten.max(1)..];
    }
    words.take_number();
    words.go_back(0);
    let seconds = words.utc_of(words.wall());
    Approximate { seconds: u64::try_from(seconds).unwrap_or(0), is_date: words.touched }
}

/// Parses the time before which entries expire, by git-gc(1). Returns `None` if the text is not a date.
///
/// `now` and `all` give the largest number, `never` and `false` give 0. Dates of the years 1000 to 1969 give 0, too, if
/// a number follows the year, the month is named, the year ends a date such as `31.12.1969`, or it is the whole text.
/// Git ignores such a year, or reads it otherwise, so that entries of recent years expire; other dates of these years
/// are read as git reads them.
pub fn expiry(text: &[u8], now: u64, zone: &Zone<'_>) -> Option<u64> {
    match text {
        b"never" | b"false" => Some(0),
        b"now" | b"all" => Some(u64::MAX),
        _ if is_of_a_year_before_all(text) => Some(0),
        _ => Some(approximate(text, now, zone)).filter(|date| date.is_date).map(|date| date.seconds),
    }
}

/// Returns whether a text contains a year from 1000 to 1969 with a number right after it, or such a year and the name
/// of a month anywhere, or is such a year, or has a word that is a day, a month and such a year. Four digits behind a
/// year from 1970 to 2099 do not count, because they are an hour or a time zone.
fn is_of_a_year_before_all(text: &[u8]) -> bool {
    let parts: Vec<&[u8]> = text.split(|byte| !byte.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
    let is_number = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let is_year = |part: &[u8]| part.len() == 4 && is_number(part) && (&b"1000"[..]..b"1970").contains(&part);
    let is_short = |part: &[u8]| matches!(part.len(), 1 | 2) && is_number(part);
    let is_date = |word: &[u8]| {
        let parts: Vec<&[u8]> = word.split(|byte| b"/.-".contains(byte)).collect();
        matches!(parts[..], [one, two, year] if is_short(one) && is_short(two) && is_year(year))
    };
    if is_year(text.trim_ascii()) || text.split(u8::is_ascii_whitespace).any(is_date) {
        return true;
    }
    let has_month = || parts.iter().any(|part| MONTHS.iter().any(|month| matched(part, month) >= 3));
    let is_later_year = |part: &&[u8]| part.len() == 4 && is_number(part) && (&b"1970"[..]..b"2100").contains(part);
    (0..parts.len())
        .take_while(|at| !is_later_year(&parts[*at]))
        .any(|at| is_year(parts[at]) && (parts.get(at + 1).is_some_and(|next| next[0].is_ascii_digit()) || has_month()))
}

const DAY: i64 = 24 * 60 * 60;

/// Units that are a fixed number of seconds. The last letter of a name is optional.
const UNITS: [(&str, i64); 5] =
    [("seconds", 1), ("minutes", 60), ("hours", 60 * 60), ("days", DAY), ("weeks", 7 * DAY)];

const NUMBERS: [&str; 10] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/// What has been understood of the text so far. [`Words::wall`] completes the fields that are not set.
struct Words<'z> {
    zone: &'z Zone<'z>,
    /// The wall clock at the present time, in seconds.
    now: i64,
    fields: Fields,
    /// A number that has not been assigned to a field yet; 0 if there is none.
    number: i64,
    /// Whether the text named a time of day, such as `noon`, that is later than the present one. Yesterday is meant
    /// then, unless a day follows.
    is_day_before: bool,
    /// The day of the week, 0 for Sunday, of the date to which `fields` was last set as a whole, and of the present day
    /// until then.
    weekday: i64,
    touched: bool,
}

impl Words<'_> {
    /// Reads a piece that begins with a digit, and returns how many bytes were consumed.
    fn digits(&mut self, text: &[u8]) -> usize {
        self.take_number();
        self.touched = true;
        let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let add = |sum: i64, digit: &u8| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
        let value = text[..len].iter().fold(0, add);
        if let Some(separator @ (b':' | b'.' | b'/' | b'-')) = text.get(len)
            && text.get(len + 1).is_some_and(u8::is_ascii_digit)
            && let Some(eaten) = self.fields.group(value, *separator, text, len)
        {
            return eaten;
        }
        // "Dec 02" is a day; "Dec 0002" has no meaning.
        if text[0] != b'0' || len <= 2 {
            self.number = value;
        }
        len
    }

    /// Interprets a number that no unit follows: as a day, or else as a month, or else as a year.
    fn take_number(&mut self) {
        let number = std::mem::take(&mut self.number);
        let fields = &mut self.fields;
        match number {
            0 => {}
            1..32 if fields.day.is_none() => fields.day = Some(number),
            1..13 if fields.month.is_none() => fields.month = Some(number),
            1970..2100 if fields.year.is_none() => fields.year = Some(number),
            70..100 if fields.year.is_none() => fields.year = Some(number + 1900),
            1..38 if fields.year.is_none() => fields.year = Some(number + 2000),
            _ => {}
        }
    }

    /// Reads a word, and returns how many bytes were consumed.
    fn word(&mut self, text: &[u8]) -> usize {
        let len = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let begins = |name: &str| matched(text, name);
        if let Some(month) = MONTHS.iter().position(|name| begins(name) >= 3) {
            self.fields.month = i64::try_from(month + 1).ok();
            self.touched = true;
        } else if self.special(text) || self.counted(text) {
            self.touched = true;
        }
        len
    }

    /// Interprets words with a fixed meaning, such as `yesterday` and `noon`. Returns whether `text` begins with such
    /// a word.
    fn special(&mut self, text: &[u8]) -> bool {
        let is = |name: &str| matched(text, name) == name.len();
        if is("yesterday") || is("today") {
            (self.number, self.fields.day, self.is_day_before) = (0, None, false);
            if is("yesterday") {
                self.go_back(DAY);
                return true;
            }
            // Today means its midnight, unless the text gave another time of day before.
            if self.wall().rem_euclid(DAY) == self.now.rem_euclid(DAY) {
                self.set_time(0, 0, 0);
            }
            self.go_back(0);
        } else if is("noon") {
            self.at_hour(12);
        } else if is("midnight") {
            self.at_hour(0);
        } else if is("tea") {
            self.at_hour(17);
        } else if is("PM") {
            self.half_day(12);
        } else if is("AM") {
            self.half_day(0);
        } else if is("never") {
            self.number = 0;
            self.set_wall(i64::from(self.zone.offset_minutes(0)) * 60);
        } else if is("now") {
            self.number = 0;
            self.go_back(0);
        } else {
            return false;
        }
        true
    }

    /// Interprets a numeral, or, if a number precedes it, a unit or a day of the week. Returns whether `text` was
    /// understood.
    fn counted(&mut self, text: &[u8]) -> bool {
        if self.number == 0 {
            let named = NUMBERS.iter().position(|name| matched(text, name) == name.len());
            let last = (matched(text, "last") == 4).then_some(0);
            self.number = named.or(last).map_or(0, |at| at as i64 + 1);
            return self.number != 0;
        }
        let number = self.number;
        if let Some((_, seconds)) = UNITS.iter().find(|(name, _)| matched(text, name) + 1 >= name.len()) {
            self.go_back(seconds.saturating_mul(number));
        } else if let Some(day) = WEEKDAYS.iter().position(|name| matched(text, name) >= 3) {
            self.weekdays_ago(day as i64, number);
        } else if matched(text, "months") >= 5 {
            self.go_back(0);
            let months = self.fields.year.unwrap_or(0) * 12 + self.fields.month.unwrap_or(1) - 1;
            let months = months.saturating_sub(number);
            (self.fields.year, self.fields.month) = (Some(months.div_euclid(12)), Some(months.rem_euclid(12) + 1));
        } else if matched(text, "years") >= 4 {
            self.go_back(0);
            self.fields.year = self.fields.year.map(|year| year.saturating_sub(number));
        } else {
            return false;
        }
        self.number = 0;
        true
    }

    /// Goes back by as many days as the `number`-th day of the week `day` lies before the date that has the day of the
    /// week `weekday`.
    fn weekdays_ago(&mut self, day: i64, number: i64) {
        debug_assert!((0..7).contains(&day) && (0..7).contains(&self.weekday), "a week has seven days");
        let since = self.weekday - day;
        let weeks = if since <= 0 { number } else { number - 1 };
        self.go_back((since + 7 * weeks.clamp(0, 1 << 20)) * DAY);
    }

    fn at_hour(&mut self, hour: i64) {
        self.take_number();
        let present = self.fields.hour.unwrap_or(self.now.rem_euclid(DAY) / 3600);
        if self.fields.day.is_none() && present < hour {
            self.is_day_before = true;
        }
        self.set_time(hour, 0, 0);
    }

    fn half_day(&mut self, from: i64) {
        let number = std::mem::take(&mut self.number);
        let time = self.wall().rem_euclid(DAY);
        if number > 0 {
            self.set_time(number % 12 + from, 0, 0);
        } else {
            self.set_time(time / 3600 % 12 + from, time / 60 % 60, time % 60);
        }
    }

    fn set_time(&mut self, hour: i64, minute: i64, second: i64) {
        debug_assert!(
            (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second),
            "a time of day"
        );
        (self.fields.hour, self.fields.minute, self.fields.second) = (Some(hour), Some(minute), Some(second));
    }

    /// Returns the wall clock in seconds from all that is known. Without a year, a month later than the present one
    /// belongs to last year.
    fn wall(&self) -> i64 {
        let (this_year, this_month, today) = civil_from_days(self.now.div_euclid(DAY));
        let time = self.now.rem_euclid(DAY);
        let fields = &self.fields;
        let month = fields.month.unwrap_or(this_month);
        debug_assert!((1..=12).contains(&month), "a year has twelve months: {month}");
        // Git treats a year before 1900 as missing.
        let year = fields.year.filter(|year| *year >= 1900).unwrap_or(if month > this_month {
            this_year - 1
        } else {
            this_year
        });
        let days = days_from_civil(year.clamp(-100_000, 100_000), month, fields.day.unwrap_or(today));
        let hour = fields.hour.unwrap_or(time / 3600);
        days * DAY + hour * 3600 + fields.minute.unwrap_or(time / 60 % 60) * 60 + fields.second.unwrap_or(time % 60)
    }

    fn utc_of(&self, wall: i64) -> i64 {
        wall - i64::from(self.zone.offset_minutes_of_wall_clock(wall)) * 60
    }

    /// Sets all missing fields, and goes back by a number of seconds: by a day instead of 0 seconds if `is_day_before`
    /// is set and no day is known.
    fn go_back(&mut self, seconds: i64) {
        let is_day_before = std::mem::take(&mut self.is_day_before) && self.fields.day.is_none();
        let seconds = if is_day_before && seconds == 0 { DAY } else { seconds };
        let utc = self.utc_of(self.wall()).saturating_sub(seconds).max(0);
        self.set_wall(utc + i64::from(self.zone.offset_minutes(utc.unsigned_abs())) * 60);
    }

    fn set_wall(&mut self, wall: i64) {
        let (year, month, day) = civil_from_days(wall.div_euclid(DAY));
        (self.fields.year, self.fields.month, self.fields.day) = (Some(year), Some(month), Some(day));
        let time = wall.rem_euclid(DAY);
        self.set_time(time / 3600, time / 60 % 60, time % 60);
        self.weekday = weekday(wall);
    }
}

fn weekday(wall: i64) -> i64 {
    (wall.div_euclid(DAY) + 4).rem_euclid(7)
}

/// Returns the length of the word at the start of `text` if `name` begins with that word, and otherwise 0.
fn matched(text: &[u8], name: &str) -> usize {
    let word = text.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let begins = name.get(..word).is_some_and(|head| head.as_bytes().eq_ignore_ascii_case(&text[..word]));
    if begins { word } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    #[test]
    fn no_input_makes_it_panic() {
        let environment = Environment::empty("/").with("TZ", "Europe/Berlin");
        let zone = Zone::of(&environment);
        let words = ["9999999999999999999999", "99", "31", "years", "months", "weeks", "fri", "noon", "never", "last"];
        for number in 0..words.len().pow(4) {
            let word = |at: u32| words[number / words.len().pow(at) % words.len()];
            let text = [word(0), word(1), word(2), word(3)].join(" ");
            let _ = approximate(text.as_bytes(), 1_700_000_000, &zone);
        }
    }
}
