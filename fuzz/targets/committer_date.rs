//! `GIT_COMMITTER_DATE` in any time zone.
#![no_main]

use refdb::{Config, Environment, committer};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // What stands before the first NUL is the zone; a variable cannot hold NUL.
    let mut parts = bytes.splitn(2, |byte| *byte == 0).map(OsStr::from_bytes);
    let (zone, date) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    // The path may lead only to a file of a zone, because a read of another file, such as a device, may never end.
    if zone.as_bytes().starts_with(b"/") || zone.as_bytes().windows(2).any(|pair| pair == b"..") {
        return;
    }
    let environment = Environment::empty("/").with("TZ", zone).with("GIT_COMMITTER_DATE", date);
    let _ = committer(&Config::default(), &environment);
});
