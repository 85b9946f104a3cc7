//! Dates such as `2.weeks.ago`, in a time zone. The first line is the zone.
#![no_main]

use bstr::ByteSlice;
use refdb::{Environment, Zone, approximate, expiry};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((zone, date)) = bytes.split_once_str("\n") else { return };
    let environment = Environment::empty("/").with("TZ", OsStr::from_bytes(zone));
    let zone = Zone::of(&environment);
    for now in [0, 1_700_000_000, u64::from(u32::MAX), u64::MAX] {
        let _ = (approximate(date, now, &zone), expiry(date, now, &zone));
    }
});
