//! The list of a stack's tables.
#![no_main]

use refdb_testkit::exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    exercise::tables_list(bytes);
});
