//! Parses the dates that other tools write.

/// Returns the seconds since 1970 of a number of seconds, or of a date like `2026-11-29T12:00:00Z` or
/// `2026.11.29 13:00:00 +0100`; `None` if the text is neither or lies before 1970. A date without a zone is in UTC.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (date, rest) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let parts = numbers::<3>(date, |letter| letter == '-' || letter == '.')?;
    let (clock, zone) = match rest.find(['Z', '+', '-', ' ']) {
        Some(end) => (&rest[..end], rest[end..].trim()),
        None => (rest, ""),
    };
    let clock = clock.split('.').next()?;
    let [hour, minute, second] = numbers::<3>(clock, |letter| letter == ':')?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days(parts)? * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?;
    u64::try_from(seconds).ok()
}

fn numbers<const COUNT: usize>(text: &str, separates: impl Fn(char) -> bool) -> Option<[i64; COUNT]> {
    let number = |part: &str| {
        let is_number = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    };
    let parts: Option<Vec<i64>> = text.split(separates).map(number).collect();
    parts?.try_into().ok()
}

/// Returns the days since 1970 of a year, month and day (Hinnant's `days_from_civil`).
fn days([year, month, day]: [i64; 3]) -> Option<i64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year / 400, (month + 9) % 12);
    let of_era = year - era * 400;
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Returns the seconds by which a zone is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone {
        "" | "Z" | "UTC" => return Some(0),
        zone => (if zone.starts_with('-') { -1 } else { 1 }, zone.strip_prefix(['+', '-'])?.replace(':', "")),
    };
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    Some(sign * (number / 100 * 3600 + number % 100 * 60))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn dates_of_all_kinds_are_seconds_since_1970() {
        for (text, seconds) in [
            ("1700000000", 1_700_000_000),
            ("2023-11-14T22:13:20Z", 1_700_000_000),
            ("2023-11-14T22:13:20.123456Z", 1_700_000_000),
            ("2023.11.14 23:13:20 +0100", 1_700_000_000),
            ("2023-11-14 17:13:20-05:00", 1_700_000_000),
            ("2024-02-29", 1_709_164_800),
            ("1970-01-01T00:00:00Z", 0),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "yesterday",
            "2023-13-01",
            "2023-00-01",
            "1969-12-31",
            "2023-11-14T25:00:00Z",
            "-5",
            "2023-11",
            "2023-11-14T22:13:20+1",
            "1970-01-01T00:00:00+0100",
            "99999-01-01",
            "2023-11-14T22:13:20Zé",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
