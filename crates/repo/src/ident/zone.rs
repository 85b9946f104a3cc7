//! The offset of local time from UTC: `TZ`, or `/etc/localtime`.

use crate::environment::Environment;
use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use std::{cell::OnceCell, fs::File, io::Read, path::Path};

/// The maximum size of a file of a zone in bytes; the largest ones of the zone database have a few thousand.
const FILE_BYTES_MAX: u64 = 1 << 20;

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
        let file = |path: &Path| TimeZone::tzif("local", &read(path)?).ok();
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

/// Returns the content of a regular file of at most [`FILE_BYTES_MAX`]. No more than the size that the file states is
/// read, because a read of a device, a pipe or some files of `/proc`, which state no size, may never end.
fn read(path: &Path) -> Option<Vec<u8>> {
    let metadata = path.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return None;
    }
    let mut content = Vec::new();
    File::open(path).ok()?.take(metadata.len()).read_to_end(&mut content).ok()?;
    Some(content)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]
mod tests {
    use super::*;
    use std::{process::Command, sync::mpsc, thread, time::Duration};

    /// Previously, the read of a pipe or a device never ended.
    #[test]
    fn only_a_regular_file_of_a_plausible_size_is_read_as_a_zone() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, large] = ["pipe", "large"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // Once for old readers and once for new ones: one kind of local time, 32,400 s east of UTC, with the name JST.
        let header = [b"TZif2", &[0; 15][..], &[0; 19], &[1], &[0, 0, 0, 4]].concat();
        let kind = [&32_400_i32.to_be_bytes()[..], &[0, 0], b"JST\0"].concat();
        let zone = [&header[..], &kind, &header, &kind, b"\nJST-9\n"].concat();
        std::fs::write(folder.path().join("zone"), &zone).unwrap();
        // A reader of zones would not notice what is behind the end.
        std::fs::write(&large, &zone).unwrap();
        File::options().write(true).open(&large).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        for path in [pipe, large, "/dev/zero".into(), "/proc/kmsg".into(), folder.path().into()] {
            let name = format!(":{}", path.display());
            let (told, answer) = mpsc::channel();
            thread::spawn(move || {
                let environment = Environment::empty("/").with("TZ", name);
                told.send(Zone::of(&environment).offset_minutes(0))
            });
            assert_eq!(answer.recv_timeout(Duration::from_secs(20)), Ok(0), "{}", path.display());
        }
        let environment = Environment::empty("/").with("TZDIR", folder.path()).with("TZ", "zone");
        assert_eq!(Zone::of(&environment).offset_minutes(0), 9 * 60);
    }
}
