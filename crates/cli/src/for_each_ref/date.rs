//! Formats times: git-log(1), `--date`.

use crate::{clock::Clock, failure::message};
use bstr::{BString, ByteSlice};
use jiff::{
    civil::{Date, DateTime},
    fmt::strtime::{BrokenDownTime, Config},
};
use refdb::{Ident, Zone};

/// How a time is formatted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DateForm {
    kind: DateKind,
    /// Whether the time is shown in the local zone instead of its own.
    is_local: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum DateKind {
    /// `Sun Sep 4 10:45:06 2022 -0400`.
    Default,
    /// `2022-09-04`.
    Short,
    /// `2022-09-04 10:45:06 -0400`.
    Iso,
    /// `2022-09-04T10:45:06-04:00`.
    IsoStrict,
    /// `Sun, 4 Sep 2022 10:45:06 -0400`.
    Rfc2822,
    /// `1662302706 -0400`.
    Raw,
    /// `1662302706`.
    Unix,
    /// `3 weeks ago`.
    Relative,
    /// As little as is needed to distinguish the time from now: `3 hours ago`, `Sun 10:45`, `Sep 4 2022`.
    Human,
    /// By strftime(3).
    Format(String),
}

/// A time with its offset, as in a person's line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time {
    /// Seconds since 1970.
    seconds: u64,
    /// The offset in hours and minutes east of UTC as one decimal number: -330 is 3 hours and 30 minutes to the west.
    offset: i32,
}

impl DateForm {
    /// The format that git uses by default.
    pub const DEFAULT: DateForm = DateForm { kind: DateKind::Default, is_local: false };

    /// Parses what follows the colon of `%(authordate:...)`.
    ///
    /// # Errors
    ///
    /// Returns git's message about an invalid format.
    pub fn parse(text: &[u8]) -> Result<Self, BString> {
        if let Some(form) = text.strip_prefix(b"auto:") {
            return if crate::output::is_for_people() { Self::parse(form) } else { Ok(DateForm::DEFAULT) };
        }
        // Longer words come before their prefixes.
        const KINDS: [(&str, DateKind); 12] = [
            ("relative", DateKind::Relative),
            ("iso8601-strict", DateKind::IsoStrict),
            ("iso-strict", DateKind::IsoStrict),
            ("iso8601", DateKind::Iso),
            ("iso", DateKind::Iso),
            ("rfc2822", DateKind::Rfc2822),
            ("rfc", DateKind::Rfc2822),
            ("short", DateKind::Short),
            ("default", DateKind::Default),
            ("human", DateKind::Human),
            ("raw", DateKind::Raw),
            ("unix", DateKind::Unix),
        ];
        if text == b"local" {
            return Ok(DateForm { kind: DateKind::Default, is_local: true });
        }
        let unknown = || message!["unknown date format ", text];
        let local = |rest: &[u8]| match rest {
            b"" => Some(false),
            b"-local" => Some(true),
            _ => None,
        };
        if let Some(rest) = text.strip_prefix(b"format") {
            let (rest, format) = rest.split_once_str(":").map_or((rest, None), |(rest, format)| (rest, Some(format)));
            return match (local(rest), format) {
                (Some(is_local), Some(format)) => {
                    Ok(DateForm { kind: DateKind::Format(format.to_str_lossy().into()), is_local })
                }
                (Some(_), None) => Err(message!["date format missing colon separator: ", text]),
                _ => Err(unknown()),
            };
        }
        let found = KINDS.into_iter().find_map(|(word, kind)| Some((text.strip_prefix(word.as_bytes())?, kind)));
        found.and_then(|(rest, kind)| Some(DateForm { kind, is_local: local(rest)? })).ok_or_else(unknown)
    }
}

impl Time {
    /// Reads the time of an author, committer or tagger, which follows the first `> `. Returns `None` if the line has
    /// no `> `, or if git would take one of the numbers for one that is too large.
    ///
    /// Old tools wrote many kinds of lines. Like git, which uses C's `strtoumax` and `strtol`, this accepts blanks and
    /// a sign before the digits, ends at the first other byte, and reads missing digits as 0.
    pub fn of(line: &[u8]) -> Option<Self> {
        let (seconds, rest) = leading_number(&line[line.find(b"> ")? + 2..])?;
        let (offset, _) = leading_number(rest)?;
        // As in C, a negative number of seconds wraps around to a large one, and the offset keeps the low bits that fit
        // an int.
        let (seconds, offset) = (seconds as u64, i64::try_from(offset).ok()? as i32);
        // C's functions return the largest number for one that is too large, so git takes the largest number for an
        // overflow.
        (seconds != u64::MAX).then_some(Time { seconds, offset })
    }

    /// Returns the time of an entry of a reflog.
    pub fn logged(ident: &Ident) -> Self {
        Time { seconds: ident.time_seconds, offset: ident.offset_decimal.into() }
    }

    /// Returns the seconds since 1970.
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    fn offset_text(&self) -> String {
        format!("{:+05}", self.offset)
    }

    fn offset_seconds(&self) -> i64 {
        let (hours, minutes) = (self.offset / 100, self.offset % 100);
        // The multiplication wraps around like an int of C.
        i64::from((hours * 60 + minutes).wrapping_mul(60))
    }

    /// Returns the same time with the local offset.
    fn local(&self, zone: &Zone<'_>) -> Self {
        let minutes = zone.offset_minutes(self.seconds);
        Time { seconds: self.seconds, offset: minutes / 60 * 100 + minutes % 60 }
    }

    /// Formats the time.
    pub fn show(&self, form: &DateForm, clock: &Clock<'_>) -> String {
        if form.is_local {
            let zone_name = || clock.zone.abbreviation(self.seconds);
            return match &form.kind {
                // The zone is omitted in local time.
                DateKind::Default => self.local(&clock.zone).default_text(),
                DateKind::Format(format) => self.local(&clock.zone).strftime(format, &zone_name()),
                DateKind::Human => self.local(&clock.zone).human(clock, true),
                kind => self.local(&clock.zone).text(kind, clock.now),
            };
        }
        match &form.kind {
            DateKind::Human => self.human(clock, false),
            kind => self.text(kind, clock.now),
        }
    }

    fn text(&self, kind: &DateKind, now: u64) -> String {
        let offset = self.offset_text();
        let Calendar { year, month, day, hour, minute, second, weekday } = self.calendar();
        match kind {
            DateKind::Default => format!("{} {offset}", self.default_text()),
            DateKind::Short => format!("{year:04}-{month:02}-{day:02}"),
            DateKind::Iso => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} {offset}"),
            DateKind::IsoStrict => {
                let (hours, minutes) = (self.offset.unsigned_abs() / 100, self.offset.unsigned_abs() % 100);
                let zone = match self.offset {
                    0 => "Z".to_owned(),
                    ..0 => format!("-{hours:02}:{minutes:02}"),
                    _ => format!("+{hours:02}:{minutes:02}"),
                };
                format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}")
            }
            DateKind::Rfc2822 => {
                let month = MONTHS[month as usize - 1];
                format!("{weekday}, {day} {month} {year} {hour:02}:{minute:02}:{second:02} {offset}")
            }
            DateKind::Raw => format!("{} {offset}", self.seconds),
            DateKind::Unix => self.seconds.to_string(),
            DateKind::Relative | DateKind::Human => relative(self.seconds, now),
            DateKind::Format(format) => self.strftime(format, ""),
        }
    }

    /// Formats the time in relation to now. For a time of one to four days ago in the same month, the zone is shown
    /// too, unless it is the local one.
    fn human(&self, clock: &Clock<'_>, is_local: bool) -> String {
        let here = Time { seconds: clock.now, offset: 0 }.local(&clock.zone);
        let (now, then) = (here.calendar(), self.calendar());
        let Calendar { year, day, hour, minute, weekday, .. } = then;
        let month = MONTHS[then.month as usize - 1];
        let days_ago = ((now.year, now.month) == (year, then.month)).then(|| now.day - day);
        match days_ago {
            Some(0) => relative(self.seconds, clock.now),
            Some(1..5) if is_local || self.offset_seconds() == here.offset_seconds() => {
                format!("{weekday} {hour:02}:{minute:02}")
            }
            Some(1..5) => format!("{weekday} {hour:02}:{minute:02} {}", self.offset_text()),
            _ if year == now.year => format!("{weekday} {month} {day} {hour:02}:{minute:02}"),
            _ => format!("{month} {day} {year}"),
        }
    }

    fn default_text(&self) -> String {
        let Calendar { year, month, day, hour, minute, second, weekday } = self.calendar();
        format!("{weekday} {} {day} {hour:02}:{minute:02}:{second:02} {year}", MONTHS[month as usize - 1])
    }

    /// Returns the wall clock in seconds. A time whose year, counted from 1900 as in C's
    /// `struct tm`, does not fit an int becomes the start of 1970.
    ///
    /// git does the same for some of these times, and at others it stops the whole list, so that a single object that
    /// a client pushed hides the refs that follow. Here such an object hides nothing.
    fn wall_seconds(&self) -> i64 {
        const LAST: i64 = 67_768_036_191_676_799;
        let wall = i64::try_from(self.seconds).ok().and_then(|seconds| seconds.checked_add(self.offset_seconds()));
        wall.filter(|wall| *wall <= LAST).unwrap_or(0)
    }

    fn calendar(&self) -> Calendar {
        const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        let (days, second) = (self.wall_seconds().div_euclid(86_400), self.wall_seconds().rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        let weekday = DAYS[(days + 4).rem_euclid(7) as usize];
        // C stores the year as an int, counted from 1900, and adds 1900 as an int.
        let year = i64::from(year as i32);
        Calendar { year, month, day, hour: second / 3600, minute: second / 60 % 60, second: second % 60, weekday }
    }

    /// Formats the time as strftime(3) does in the locale C. Directives that git handles itself, whole dates and times
    /// in the form of the locale, and years that do not have four digits are expanded first.
    fn strftime(&self, format: &str, zone_name: &str) -> String {
        let Calendar { year, month, day, hour, minute, second, .. } = self.calendar();
        let has_four_digits = (0..10_000).contains(&year);
        // The calendar, including weekdays, repeats after 400 years.
        let alike = if has_four_digits { year } else { 2000 + year.rem_euclid(400) };
        let mut known = String::new();
        let mut rest = format.chars();
        while let Some(char) = rest.next() {
            if char != '%' {
                known.push(char);
                continue;
            }
            let mut next = rest.next();
            if matches!(next, Some('E' | 'O')) && rest.clone().next().is_some_and(|char| char.is_ascii_alphabetic()) {
                // These letters select another calendar or other digits, which the locale C does not have.
                next = rest.next();
            }
            match next {
                Some('s') => known.push_str(&self.seconds.to_string()),
                Some('z') => known.push_str(&self.offset_text()),
                Some('Z') => known.push_str(zone_name),
                Some('c') if has_four_digits => known.push_str("%a %b %e %H:%M:%S %Y"),
                Some('c') => known.push_str(&format!("%a %b %e %H:%M:%S {year}")),
                Some('x') => known.push_str("%m/%d/%y"),
                Some('X') => known.push_str("%H:%M:%S"),
                Some('r') => known.push_str("%I:%M:%S %p"),
                Some('Y') if !has_four_digits => known.push_str(&year.to_string()),
                Some('F') if !has_four_digits => known.push_str(&format!("{year}-%m-%d")),
                Some('C') if !has_four_digits => known.push_str(&year.div_euclid(100).to_string()),
                Some('G') if !has_four_digits => {
                    known.push_str(&(year + iso_year_ahead(alike, month, day)).to_string())
                }
                // Directives that C's library does not know are left unchanged.
                Some(other @ ('q' | 'N' | 'f' | 'Q')) => known.extend(["%%", other.encode_utf8(&mut [0; 4])]),
                // After a flag, the zone is formatted by strftime(3) rather than by git; the flag `#` makes it
                // lower-case.
                Some(flag @ ('#' | '^' | '-' | '_' | '0')) if rest.clone().next() == Some('Z') => {
                    rest.next();
                    let zone = if zone_name.is_empty() { "GMT" } else { zone_name };
                    known.push_str(&if flag == '#' { zone.to_lowercase() } else { zone.to_owned() });
                }
                Some(other) => known.extend(['%', other]),
                None => known.push('%'),
            }
        }
        let small = |number: i64| i8::try_from(number).unwrap_or(0);
        let year = i16::try_from(alike).unwrap_or(i16::MAX);
        let time = DateTime::new(year, small(month), small(day), small(hour), small(minute), small(second), 0);
        let text =
            time.map(|time| BrokenDownTime::from(time).to_string_with_config(&Config::new().lenient(true), known));
        text.ok().and_then(|text| text.ok()).unwrap_or_default()
    }
}

/// Returns the year of a day's ISO 8601 week minus the year of the calendar: 1, 0 or -1.
fn iso_year_ahead(year: i64, month: i64, day: i64) -> i64 {
    let part = |number: i64| i8::try_from(number).ok();
    let date = i16::try_from(year).ok().zip(part(month).zip(part(day)));
    let date = date.and_then(|(year, (month, day))| Date::new(year, month, day).ok());
    date.map_or(0, |date| i64::from(date.iso_week_date().year()) - year)
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Reads a number as C's `strtol` does, and returns it with the bytes after it. Without digits, the number is 0 and
/// nothing is consumed. Returns `None` if the number does not fit any integer of C.
fn leading_number(text: &[u8]) -> Option<(i128, &[u8])> {
    let unsigned = text.trim_start_with(|char| matches!(char, ' ' | '\t'..='\r'));
    let (is_negative, digits) = match unsigned.first() {
        Some(b'-') => (true, &unsigned[1..]),
        Some(b'+') => (false, &unsigned[1..]),
        _ => (false, unsigned),
    };
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if len == 0 {
        return Some((0, text));
    }
    let number = i128::from(digits[..len].to_str().ok()?.parse::<u64>().ok()?);
    Some((if is_negative { -number } else { number }, &digits[len..]))
}

/// A time by calendar and clock.
struct Calendar {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    weekday: &'static str,
}

/// Returns how long ago a time was, rounded to a suitable unit.
fn relative(seconds: u64, now: u64) -> String {
    const YEAR: i64 = 365;
    let count = |number: i64, unit: &str| format!("{number} {unit}{}", if number == 1 { "" } else { "s" });
    let Some(past) = now.checked_sub(seconds).and_then(|past| i64::try_from(past).ok()) else {
        return "in the future".to_owned();
    };
    let minutes = (past + 30) / 60;
    let hours = (minutes + 30) / 60;
    let days = (hours + 12) / 24;
    let text = match (past, minutes, hours, days) {
        (..90, ..) => count(past, "second"),
        (_, ..90, ..) => count(minutes, "minute"),
        (.., ..36, _) => count(hours, "hour"),
        (.., ..14) => count(days, "day"),
        (.., ..70) => count((days + 3) / 7, "week"),
        (.., ..YEAR) => count((days + 15) / 30, "month"),
        (.., days) if days < 5 * YEAR => {
            let months = (days * 12 * 2 + YEAR) / (YEAR * 2);
            match (count(months / 12, "year"), months % 12) {
                (years, 0) => years,
                (years, months) => format!("{years}, {}", count(months, "month")),
            }
        }
        _ => count((days + 183) / YEAR, "year"),
    };
    text + " ago"
}

/// Returns the year, month and day of a number of days from 1970-01-01, in the Gregorian calendar (Howard Hinnant's
/// `civil_from_days`).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb::Environment;

    fn shown(form: &str) -> String {
        let environment = Environment::empty("/nonexistent").with("TZ", "EST5EDT,M3.2.0,M11.1.0");
        let clock = Clock { zone: Zone::of(&environment), now: 1_151_968_725 + 3 * 86_400 };
        let time = Time::of(b"A B <a.b@c.d> 1151968725 +0200").unwrap();
        time.show(&DateForm::parse(form.as_bytes()).unwrap(), &clock)
    }

    /// The values were taken from git 2.55.
    #[test]
    fn a_time_is_shown_in_every_form() {
        for (form, expected) in [
            ("default", "Tue Jul 4 01:18:45 2006 +0200"),
            ("short", "2006-07-04"),
            ("iso", "2006-07-04 01:18:45 +0200"),
            ("iso-strict", "2006-07-04T01:18:45+02:00"),
            ("rfc2822", "Tue, 4 Jul 2006 01:18:45 +0200"),
            ("raw", "1151968725 +0200"),
            ("unix", "1151968725"),
            ("local", "Mon Jul 3 19:18:45 2006"),
            ("iso-local", "2006-07-03 19:18:45 -0400"),
            ("raw-local", "1151968725 -0400"),
            ("relative", "3 days ago"),
            ("format:%Y/%b/%e %j %s %z%Z %%", "2006/Jul/ 4 185 1151968725 +0200 %"),
            ("format-local:%c %z %Z", "Mon Jul  3 19:18:45 2006 -0400 EDT"),
            ("format:", ""),
        ] {
            assert_eq!(shown(form), expected, "{form}");
        }
    }

    /// The values were taken from git 2.55.
    #[test]
    fn how_long_ago_is_told_in_the_unit_that_suits_it() {
        const DAY: i64 = 86_400;
        for (past, expected) in [
            (-1, "in the future"),
            (0, "0 seconds ago"),
            (1, "1 second ago"),
            (89, "89 seconds ago"),
            (90, "2 minutes ago"),
            (5369, "89 minutes ago"),
            (5370, "2 hours ago"),
            (13 * DAY, "13 days ago"),
            (14 * DAY, "2 weeks ago"),
            (69 * DAY, "10 weeks ago"),
            (70 * DAY, "2 months ago"),
            (364 * DAY, "12 months ago"),
            (365 * DAY, "1 year ago"),
            (400 * DAY, "1 year, 1 month ago"),
            (800 * DAY, "2 years, 2 months ago"),
            (1824 * DAY, "5 years ago"),
            (2008 * DAY, "6 years ago"),
        ] {
            assert_eq!(relative(1, (1 + past) as u64), expected, "{past}");
        }
        assert_eq!(relative(u64::MAX, 1), "in the future");
    }

    /// The values were taken from git 2.55, for which the present time was set to 2023-11-14 22:13:20 UTC.
    #[test]
    fn a_human_is_told_no_more_than_is_needed() {
        let now = 1_700_000_000;
        for (zone, form, line, expected) in [
            ("UTC0", "human", "1699960000 +0000", "11 hours ago"),
            ("UTC0", "human", "1699921000 +0000", "22 hours ago"),
            ("UTC0", "human", "1699919000 +0000", "Mon 23:43"),
            ("UTC0", "human", "1699654400 +0000", "Fri 22:13"),
            ("UTC0", "human", "1699568000 +0000", "Thu Nov 9 22:13"),
            ("UTC0", "human", "1672611200 +0000", "Sun Jan 1 22:13"),
            ("UTC0", "human", "1672438400 +0000", "Dec 30 2022"),
            ("UTC0", "human", "1700000010 +0000", "in the future"),
            ("UTC0", "human", "1700020000 +0000", "Wed Nov 15 03:46"),
            ("UTC0", "human", "1734560000 +0000", "Dec 18 2024"),
            ("UTC0", "human", "1699750000 +0200", "Sun 02:46 +0200"),
            ("UTC0", "human", "1697500000 +0200", "Tue Oct 17 01:46"),
            ("UTC0", "human-local", "1699750000 +0200", "Sun 00:46"),
            ("EST5", "human-local", "1699750000 +0200", "Sat 19:46"),
            ("EST5", "human", "1699750000 -0500", "Sat 19:46"),
            ("UTC0", "human", "1699920000 -1200", "Mon 12:00 -1200"),
        ] {
            let environment = Environment::empty("/nonexistent").with("TZ", zone);
            let clock = Clock { zone: Zone::of(&environment), now };
            let time = Time::of(format!("A <b> {line}").as_bytes()).unwrap();
            assert_eq!(time.show(&DateForm::parse(form.as_bytes()).unwrap(), &clock), expected, "{zone} {form} {line}");
        }
    }

    #[test]
    fn forms_that_are_none_are_refused() {
        for form in ["", "foo", "iso-locall", "iso8601-", "format", "formatx:", "format-foo:%Y", "local-local"] {
            assert!(DateForm::parse(form.as_bytes()).is_err(), "{form}");
        }
    }
}
