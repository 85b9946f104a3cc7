//! Formats a time the way mail does.

use jiff::{Timestamp, civil::DateTime, tz::Offset};
use refdb_types::Ident;

/// Formats the time of an identity by RFC 2822: `Tue, 14 Nov 2023 22:13:20 +0000`.
pub fn rfc2822(ident: &Ident) -> String {
    let decimal = i64::from(ident.offset_decimal);
    let east_seconds = (decimal / 100 * 60 + decimal % 100) * 60;
    let wall = i64::try_from(ident.time_seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds.checked_add(east_seconds)?).ok());
    // Times beyond the last days of the year 9999 are shown as git shows a number that cannot be a date: as the start
    // of 1970.
    let (wall, decimal) = wall.map_or((Timestamp::UNIX_EPOCH, 0), |wall| (wall, decimal));
    let wall: DateTime = Offset::UTC.to_datetime(wall);
    format!("{} {decimal:+05}", wall.strftime("%a, %-d %b %Y %H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_by_the_clock_where_it_was() {
        for (time_seconds, offset_decimal, expected) in [
            (1_700_000_000, 0, "Tue, 14 Nov 2023 22:13:20 +0000"),
            (1_700_000_000, 530, "Wed, 15 Nov 2023 03:43:20 +0530"),
            (1_700_000_000, -130, "Tue, 14 Nov 2023 20:43:20 -0130"),
            (1_601_535_600, 0, "Thu, 1 Oct 2020 07:00:00 +0000"),
            (u64::MAX, 100, "Thu, 1 Jan 1970 00:00:00 +0000"),
        ] {
            let ident = Ident { name: "".into(), email: "".into(), time_seconds, offset_decimal };
            assert_eq!(rfc2822(&ident), expected);
        }
    }
}
