//! Approximate dates, such as `2.weeks.ago`, are read as by git.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use refdb_repo::{Environment, Zone, approximate, expiry};
use refdb_testkit::{Git, Rng};
use std::process::Command;

const NOWS: [u64; 4] = [1_251_660_000, 1_251_616_800, 1_709_210_096, 1_743_300_000];

const ZONES: [&str; 2] = ["UTC", "EST5"];

/// Dates from git's documentation and git's own tests, and variations of them.
const TEXTS: &[&str] = &[
    "now",
    "today",
    "5 seconds ago",
    "5.seconds.ago",
    "10.minutes.ago",
    "yesterday",
    "3.days.ago",
    "12:34:56.3.days.ago",
    "3.weeks.ago",
    "3.months.ago",
    "2.years.3.months.ago",
    "6am yesterday",
    "6pm yesterday",
    "3:00",
    "15:00",
    "noon today",
    "today at noon",
    "noon yesterday",
    "last Friday at noon",
    "tea last saturday",
    "January 5th noon pm",
    "January 5th today pm",
    "10am noon",
    "January 5th yesterday",
    "last tuesday",
    "July 5th",
    "06/05/2009",
    "06.05.2009",
    "Jan 5 today",
    "Jun 6, 5AM",
    "5AM Jun 6",
    "6AM, June 7, 2009",
    "2008-12-01",
    "2009-12-01",
    "2000 +0000",
    "@2000 +0000",
    "noon",
    "midnight",
    "tea",
    "today noon",
    "noon 10am",
    "3 days ago noon",
    "noon 3 days ago",
    "5:00 today",
    "pm",
    "am",
    "5 pm",
    "12am",
    "12pm",
    "13pm",
    "never",
    "friday",
    "2 sundays ago",
    "one week ago",
    "ten days",
    "December",
    "Feb 30",
    "1",
    "31",
    "32",
    "99",
    "2000",
    "1969",
    "2100",
    "0",
    "00",
    "x",
    "",
    "2 months ago",
    "14 months ago",
    "hour",
    "25:00",
    "1:2:3:4",
    "2009/7/4",
    "4/7",
    "4/7/09",
    "2009-07",
    "07-04",
    "noon midnight",
    "now noon",
    "aug 5 noon",
    "noon fri",
    "90.days",
    "2 weeks 3 days",
    "1251660000",
    "@5",
    "5 sec",
    "last year",
    "2005-04-07T22:13:13",
    "2005-04-07 22:13:13 -0700",
    "Thu, 07 Apr 2005 22:13:13 +0200",
    "100000 years ago",
    "1 fortnight",
    "x}",
    "0x}",
    "07.04.2005.15:15:00.-0700}",
];

const WORDS: &[&str] = &[
    "now",
    "today",
    "yesterday",
    "noon",
    "tea",
    "midnight",
    "am",
    "pm",
    "3",
    "12",
    "31",
    "2007",
    "one",
    "last",
    "days",
    "week",
    "month",
    "years",
    "hours",
    "friday",
    "Sundays",
    "Feb",
    "december",
    "10:30",
    "4/7",
    "2009-06-05",
    "ago",
    "x",
];

fn gits(texts: &[String], now: u64, zone: &str) -> Vec<u64> {
    let mut command = Command::new(Git::find().test_tool());
    command.env("GIT_TEST_DATE_NOW", now.to_string()).env("TZ", zone).args(["date", "timestamp"]).args(texts);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    output.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

fn compare(texts: &[String]) {
    let mut differing = Vec::new();
    for zone in ZONES {
        let environment = Environment::empty("/").with("TZ", zone);
        for now in NOWS {
            for (text, theirs) in texts.iter().zip(gits(texts, now, zone)) {
                let ours = approximate(text.as_bytes(), now, &Zone::of(&environment)).seconds;
                if ours != theirs {
                    differing.push(format!("{text:?} at {now} in {zone}: git {theirs}, here {ours}"));
                }
            }
        }
    }
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn dates_mean_what_git_takes_them_for() {
    compare(&TEXTS.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
}

#[test]
fn numbers_and_units_in_any_order_mean_what_git_takes_them_for() {
    let mut rng = Rng::new(7);
    let mut word = |_| WORDS[rng.below(WORDS.len())];
    let texts: Vec<String> =
        (0..400).map(|turn| (0..2 + turn % 2).map(&mut word).collect::<Vec<_>>().join(" ")).collect();
    compare(&texts);
}

#[test]
fn years_before_all_times_expire_nothing_and_numbers_that_are_none_stay_what_they_were() {
    let environment = Environment::empty("/").with("TZ", "UTC");
    let zone = Zone::of(&environment);
    let expiry = |text: &str| expiry(text.as_bytes(), NOWS[0], &zone);
    for text in ["1969-12-31", "1969-12-31T23:59:59Z", "1960-01-01", "1900/1/1", "1 jan 1965", "Dec 31 1969 23:59"] {
        assert_eq!(expiry(text), Some(0), "{text}");
    }
    for text in ["12/31/1969", "31.12.1969", "1-1-1900 noon", "noon 1.1.1900", "1969", " 1000 "] {
        assert_eq!(expiry(text), Some(0), "{text}");
    }
    for text in ["1970-01-02", "1000.days.ago", "1500 seconds ago", "2026-01-01 12:00", "1200.months", "1.2.1500.days"]
    {
        let written = approximate(text.as_bytes(), NOWS[0], &zone).seconds;
        assert_eq!(expiry(text), Some(written), "{text}");
    }
}

/// Previously, the time zone was taken for a year, so that nothing expired.
#[test]
fn an_hour_or_a_time_zone_is_no_year_before_all_times() {
    let environment = Environment::empty("/").with("TZ", "UTC");
    let zone = Zone::of(&environment);
    for (text, seconds) in [
        ("Thu Apr 7 22:13:13 2005 +1000", 1_112_875_993),
        ("Thu, 7 Apr 2005 22:13:13 -1000", 1_112_947_993),
        ("2005-04-07 22:13:13 +1130", 1_112_870_593),
    ] {
        assert_eq!(expiry(text.as_bytes(), NOWS[0], &zone), Some(seconds), "{text}");
    }
}
