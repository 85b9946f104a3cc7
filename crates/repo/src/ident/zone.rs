//! The offset of local time from UTC: `TZ`, or `/etc/localtime`.

use crate::environment::Environment;
use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use std::{cell::OnceCell, path::Path};

/// The local time zone, which is read when an offset or an abbreviation is first asked for.
#[derive(Debug)]
pub struct Zone<'a> {
    environment: &'a Environment,
    zone: OnceCell<TimeZone>,
}

impl<'a> Zone<'a> {
    /// Returns the zone that the environment names, without reading it yet.
    pub fn of(environment: &'a Environment) -> Self {
        Zone { environment, zone: OnceCell::new() }
    }

    fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(|| self.load())
    }

    fn load(&self) -> TimeZone {
        let file = |path: &Path| TimeZone::tzif("local", &std::fs::read(path).ok()?).ok();
        // Like the C library: a file, by its absolute path or by its path below the folder of zones, or a rule such as
        // EST5EDT, or else UTC.
        let zone = match self.environment.get("TZ") {
            None => file(Path::new("/etc/localtime")),
            Some(name) => {
                let name = name.to_string_lossy();
                let name = name.strip_prefix(':').unwrap_or(&name);
                let folder = self.environment.get("TZDIR").unwrap_or_else(|| "/usr/share/zoneinfo".into());
                let named = (!name.is_empty()).then(|| file(&Path::new(&folder).join(name))).flatten();
                named.or_else(|| TimeZone::posix(name).ok())
            }
        };
        zone.unwrap_or(TimeZone::UTC)
    }

    /// Returns the offset in minutes east of UTC at a time in seconds since 1970.
    pub fn offset_minutes(&self, seconds: u64) -> i32 {
        timestamp(seconds).map_or(0, |time| minutes(self.zone().to_offset(time)))
    }

    /// Returns the abbreviation of local time at a time in seconds since 1970: `CET`, `CEST`.
    pub fn abbreviation(&self, seconds: u64) -> String {
        timestamp(seconds).map_or_else(String::new, |time| self.zone().to_offset_info(time).abbreviation().to_owned())
    }

    /// Returns the offset in minutes east of UTC when the local wall clock shows the date and time that a clock in UTC
    /// shows at `seconds`.
    pub(super) fn offset_minutes_of_wall_clock(&self, seconds: i64) -> i32 {
        let Ok(time) = Timestamp::from_second(seconds) else { return 0 };
        let wall: DateTime = Offset::UTC.to_datetime(time);
        match self.zone().to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => minutes(offset),
            // As with C's mktime, standard time applies to an hour that is skipped or occurs twice.
            AmbiguousOffset::Gap { before, .. } => minutes(before),
            AmbiguousOffset::Fold { after, .. } => minutes(after),
        }
    }
}

/// Returns a time that jiff supports; jiff supports none after the year 9999. A later time is replaced by one at the
/// same point of the calendar's 400-year cycle. After such a cycle, weekdays and leap years repeat, and with them the
/// rules of zones.
fn timestamp(seconds: u64) -> Option<Timestamp> {
    const CYCLE_SECONDS: i64 = 146_097 * 86_400;
    let seconds = i64::try_from(seconds).ok()?;
    let last = Timestamp::MAX.as_second() - CYCLE_SECONDS;
    let within = if seconds <= last { seconds } else { last + (seconds - last) % CYCLE_SECONDS };
    Timestamp::from_second(within).ok()
}

fn minutes(offset: Offset) -> i32 {
    let minutes = offset.seconds() / 60;
    debug_assert!(minutes.abs() < 26 * 60, "hours and minutes of an offset have four digits: {minutes}");
    minutes
}
