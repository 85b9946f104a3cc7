//! `GIT_COMMITTER_DATE` in any time zone.
#![no_main]

use refdb::{Config, Environment, committer};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // What stands before the first NUL is the zone; a variable cannot hold NUL.
    let mut parts = bytes.splitn(2, |byte| *byte == 0).map(OsStr::from_bytes);
    let (zone, date) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let environment = Environment::empty("/").with("TZ", zone).with("GIT_COMMITTER_DATE", date);
    let _ = committer(&Config::default(), &environment);
});
