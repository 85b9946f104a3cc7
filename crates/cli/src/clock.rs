//! The time and the zone in which the program runs.

use refdb::{Environment, Zone};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the system's time in seconds since 1970, regardless of `GIT_TEST_DATE_NOW`.
pub fn system_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The time and the zone in which the program runs.
pub struct Clock<'a> {
    /// The local time zone.
    pub zone: Zone<'a>,
    /// The present time in seconds since 1970.
    pub now: u64,
}

impl<'a> Clock<'a> {
    /// Reads the zone from the environment, and the time from the variable `GIT_TEST_DATE_NOW` of git's tests or else
    /// the system.
    pub fn of(environment: &'a Environment) -> Self {
        let set = environment.get("GIT_TEST_DATE_NOW").and_then(|text| text.to_str()?.parse().ok());
        Clock { zone: Zone::of(environment), now: set.unwrap_or_else(system_seconds) }
    }
}
