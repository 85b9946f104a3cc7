//! The output of strace and callgrind for two runs, and how they differ. A NUL separates the two runs in the input.
#![no_main]

use refdb_lab::{
    profile::{self, Profile},
    trace::Trace,
    work,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (a, b) = text.split_once('\0').unwrap_or((&text, ""));
    let traced = [a, b].map(|text| {
        let mut trace = Trace::default();
        text.lines().for_each(|line| trace.add(line));
        trace.finish(&[("/build", "$BUILD"), ("/run", "$RUN")])
    });
    assert!(work::differences(("A", &traced[0]), ("B", &traced[0])).is_empty());
    let there = work::differences(("A", &traced[0]), ("B", &traced[1]));
    assert_eq!(there.len(), work::differences(("A", &traced[1]), ("B", &traced[0])).len());
    let profiled = [a, b].map(|text| {
        let mut profile = Profile::default();
        profile.add(text);
        profile
    });
    assert!(!profile::changes(("A", &profiled[0]), ("B", &profiled[1])).is_empty());
});
